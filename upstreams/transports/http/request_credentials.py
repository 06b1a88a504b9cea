"""Credentials of requests: what every request to one server says of who asks, among the lines that all have, and what
to send in place of credentials that the server refuses.

Configured headers stay as they are until a refusal (401); then `renewed_headers` may know others. A `credential` is
asked before each request. Either way what was refused is sent once more at most: it was not executed.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from hub.wire.jsonrpc import RemoteProtocolError, peek_object, peek_str
from upstreams.session_contract import Credential, RenewedHeaders
from upstreams.transports.connect_to_url import Url, fields_to_send

NOT_LET_IN: Final = (401, 403)
"""Statuses of refusals that are about who asks."""
log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class RequestCredentials:
    """The lines of every request to `url`, as they are now. Raises ValueError: a header that cannot be sent; the text
    does not repeat its value."""

    name: str
    url: Url
    headers: Mapping[str, str]
    """Headers that are configured, or others in their place."""
    renewed_headers: RenewedHeaders | None = None
    credential: Credential | None = None
    shown: str = field(default="", init=False)
    """The `authorization` of `credential` in the lines."""

    def __post_init__(self) -> None:
        self.may_change = self.credential is not None or self.renewed_headers is not None
        """A refusal may lead to other lines."""
        self._lines = _lines(self.url, self.headers)
        self.prefixes: dict[tuple[str, str], bytes] = {}
        """By method and target, the request line and these lines."""

    def prefix(self, method: str, target: str) -> bytes:
        """The beginning of a request, remembered in `prefixes`; `target` "": that of the URL."""
        start = self.url.request_start(method, target).encode("ascii")
        self.prefixes[method, target] = prefix = start + self._lines
        return prefix

    async def refresh(self, credential: Credential) -> None:
        """Show what `credential` has now. To be awaited before a request if that may differ. Raises HubError: as
        `Credential.renew`."""
        if credential.due <= trio.current_time():
            await credential.renew()
        if credential.authorization is not self.shown:
            self._show(self.headers, credential.authorization)

    async def replace(
        self, status: int, answer: Mapping[str, str], sent: tuple[Mapping[str, str], str], body: bytes, *, again: bool
    ) -> bool:
        """True if there are other lines to send in place of those that the server refused in `answer`. `again`: it
        refused for the second time. Raises UpstreamUnauthorized, HubError: as `Credential.replace_refused`."""
        credential, (shown_headers, shown) = self.credential, sent
        challenges = (answer["www-authenticate"],) if "www-authenticate" in answer else ()
        if status == 403:  # perhaps it may pass with more scopes (RFC 6750 3.1)
            if credential is None or not any("insufficient_scope" in each.lower() for each in challenges):
                return False
            return await credential.widen_scope(shown, challenges, _operation(body))
        if credential is not None and await credential.replace_refused(shown, challenges):
            return True
        if self.renewed_headers is None or again:
            return False
        headers = await self.renewed_headers(shown_headers)
        if headers is None:
            return False
        try:
            if headers != self.headers:
                self._show(headers, self.shown)
        except ValueError as error:
            log.warning("%s refuses its credentials, and the new ones cannot be sent: %s", self.name, error)
            return False
        return True

    def current(self) -> tuple[Mapping[str, str], str]:
        """The configured headers and the `authorization` of a request that is sent now."""
        return self.headers, self.shown

    def _show(self, headers: Mapping[str, str], authorization: str) -> None:
        both = {**headers, "Authorization": authorization} if authorization else headers
        self._lines = _lines(self.url, both)
        self.headers, self.shown = headers, authorization
        self.prefixes.clear()


def _operation(body: bytes) -> str:
    """The operation that a message of the hub asks for: the name of a tool or prompt, else the method."""
    try:
        members = peek_object(body)
        return peek_str(peek_object(members["params"]).get("name")) or peek_str(members.get("method")) or ""
    except (RemoteProtocolError, KeyError):
        return ""


def _lines(url: Url, headers: Mapping[str, str]) -> bytes:
    fixed = f"Host: {url.authority}\r\nAccept-Encoding: identity\r\n"
    fields = "".join(f"{name}: {value}\r\n" for name, value in fields_to_send(headers).values())
    return (fixed + fields).encode("latin-1")
