"""The metadata of an issuer, as far as a protected resource needs them: where its keys are, and whom to ask."""

from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from config.loading.check_access import is_loopback_name
from upstreams.fetch.model import Allowed, Fetched


class Fetching(Protocol):
    """Guarded requests to the web (`upstreams.fetch`)."""

    async def get(self, url: str, allowed: Allowed) -> Fetched: ...

    async def post_form(
        self, url: str, fields: list[tuple[str, str]], allowed: Allowed, *, headers: dict[str, str]
    ) -> Fetched: ...


class CannotAsk(Exception):
    """An issuer cannot be asked now, or says nothing that helps. The text says why, without secrets."""


class IssuerMetadata(Struct, frozen=True):
    """The metadata of an issuer."""

    jwks_uri: str
    introspection_endpoint: str


def addresses_of(issuer: str) -> Allowed:
    """Who may be asked for this issuer, beside public addresses: the host that the operator wrote."""
    parts = urlsplit(issuer)
    host = (parts.hostname or "").lower()
    return Allowed(frozenset({host}), parts.scheme == "http" and is_loopback_name(host))


async def read_metadata(fetch: Fetching, issuer: str) -> IssuerMetadata:
    """The metadata of `issuer`.

    Raises:
        CannotAsk: there are none to be had now.
    """
    from upstreams.oauth.discovery.addresses import address_of, server_places
    from upstreams.oauth.model import same_issuer

    address = address_of(issuer)
    for place in () if address is None else server_places(address):
        document = await read_json(fetch, place, addresses_of(issuer))
        if document is None:
            continue
        named = document.get("issuer")
        if not isinstance(named, str) or not same_issuer(named, issuer):
            raise CannotAsk(f"{issuer} is described as another issuer")
        return IssuerMetadata(_url(document, "jwks_uri"), _url(document, "introspection_endpoint"))
    raise CannotAsk(f"{issuer} has no metadata")


async def read_json(fetch: Fetching, url: str, allowed: Allowed) -> dict[str, Any] | None:
    """The JSON object at `url`; None: there is something else.

    Raises:
        CannotAsk: the server does not answer now.
    """
    from upstreams.fetch.model import FetchFailed

    try:
        answer = await fetch.get(url, allowed)
    except FetchFailed as error:
        raise CannotAsk(error.text) from None
    if answer.status == 429 or answer.status >= 500:
        raise CannotAsk(f"{urlsplit(url).netloc} answered {answer.status}")
    return answer.json_object() if answer.status == 200 else None


def _url(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) and len(value) <= 2048 else ""
