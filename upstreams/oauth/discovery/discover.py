"""Discovery: from a refused request to an authorization server and what it can do. Registers nothing.

    challenge -> places of the resource's metadata -> document -> authorization server -> its places -> document
                        | none has any
                        v
              the upstream's own host, as in 2025-03-26

A place that has no document (3xx, 4xx, HTML, no JSON object) passes to the next one. One that cannot answer (429, 5xx,
no answer) ends the discovery for now: falling back would let whoever can disturb a server choose another one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from config.security_settings import UpstreamOAuth
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed, retry_after_s
from upstreams.oauth import model
from upstreams.oauth.discovery import metadata, peer_urls
from upstreams.oauth.discovery.challenge import OFFLINE, fits, permit_scopes, readable_scopes
from upstreams.oauth.discovery.metadata import Terms, below

OPENID: Final = "openid"
_ABSENT: Final = frozenset({401, 404, 405, 410})
"""Answers of a place that no browser can be sent to."""
_LEGACY: Final = {"mcp-protocol-version": "2025-03-26"}
"""A SHOULD of that revision."""
MAX_RETRY_AFTER_S: Final = 60.0


def allowance_for(url: str, settings: UpstreamOAuth) -> Allowed:
    """Who may be asked on behalf of the upstream at `url`, beside public addresses: whom its operator wrote down."""
    written = (url, settings.issuer, settings.metadata_url)
    hosts = {address.host.strip("[]") for text in written if (address := peer_urls.address_of(text))}
    return Allowed(private_hosts=frozenset(hosts), loopback_http=peer_urls.is_on_this_machine(url))


async def discover(
    fetch: Fetcher,
    url: str,
    settings: UpstreamOAuth,
    challenge: model.Challenge,
    preferred_issuers: Collection[str] = (),
    *,
    upstream: str = "",
) -> model.Discovery:
    """Find out everything that a sign-in at the upstream at `url` begins with.

    `preferred_issuers`: where the hub has a grant or a registration. `upstream`: its name, for texts. Raises
    OAuthProblem: it cannot begin before somebody does something; OAuthUnavailable: a server cannot be asked now.
    """
    terms = Terms(upstream, url, settings, allowance_for(url, settings))
    if (resource := await _resource(fetch, terms, challenge)) is None and not settings.issuer:
        server = await _legacy_server(fetch, terms)
        if server.is_legacy and not challenge.resource_metadata:
            await _refuse_absent(fetch, terms, server)
    else:
        server = await _server(fetch, terms, _issuer(terms, resource, preferred_issuers))
    resource = resource or model.ProtectedResource(resource=settings.resource)
    scope = _scope(terms, challenge, resource, server)
    return model.Discovery(resource=resource, server=server, scope=scope, allowed=terms.allowed)


async def discover_issuer(fetch: Fetcher, settings: UpstreamOAuth) -> model.Discovery:
    """Find out what a sign-in at the configured issuer itself begins with, which is for who signs in (`openid`), and
    for no resource. Raises as `discover`."""
    url = settings.issuer
    terms = Terms("", url, settings, allowance_for(url, settings))
    server = await _server(fetch, terms, url)
    scope = f"{OPENID} {OFFLINE}" if OFFLINE in server.scopes else OPENID
    resource = model.ProtectedResource(resource="")
    return model.Discovery(resource=resource, server=server, scope=scope, allowed=terms.allowed)


async def _resource(fetch: Fetcher, terms: Terms, challenge: model.Challenge) -> model.ProtectedResource | None:
    """The upstream as its metadata describe it; None: it has none."""
    places = peer_urls.resource_places(terms.address)
    if terms.sound(challenge.resource_metadata):
        places = (challenge.resource_metadata, *places)
    for place in dict.fromkeys(places):
        try:
            document = await _read(fetch, terms, place)
        except model.OAuthProblem:
            if place != challenge.resource_metadata:  # else the upstream's own places are as good
                raise
        else:
            if document is not None and metadata.is_resource_document(document):
                return metadata.read_resource(document, place, terms)
    return None


def _issuer(terms: Terms, resource: model.ProtectedResource | None, preferred: Collection[str]) -> str:
    if terms.settings.issuer or resource is None:
        return terms.settings.issuer
    if not (servers := resource.authorization_servers):
        why = f"{terms.upstream} names no authorization server that can be used, so nobody knows where to sign in."
        raise model.OAuthProblem(f"{why} If you know it, set issuer {below(terms.upstream)}.")
    known = (server for server in servers if any(model.same_issuer(server, each) for each in preferred))
    return next(known, servers[0])


async def _server(fetch: Fetcher, terms: Terms, issuer: str) -> model.AuthorizationServer:
    """The authorization server that is `issuer`, as its metadata describe it."""
    places = peer_urls.server_places(metadata.check_issuer(issuer, terms))
    written = terms.settings.metadata_url
    problem = f"The authorization server of {terms.upstream} cannot be used"
    for place in (written,) if written else places:
        document = await _read(fetch, terms, place, problem=problem)
        if document is not None and metadata.is_server_document(document):
            return metadata.read_server(document, issuer, terms, is_promise=not written)
    raise model.OAuthProblem(
        f"{peer_urls.show_url(issuer)}, the authorization server of {terms.upstream}, has no metadata where they "
        f"belong. If you know where they are, set metadata_url {below(terms.upstream)}."
    )


async def _legacy_server(fetch: Fetcher, terms: Terms) -> model.AuthorizationServer:
    """The upstream as its own authorization server, as in 2025-03-26."""
    origin = terms.address.origin
    document = await _read(fetch, terms, terms.settings.metadata_url or origin + peer_urls.SERVER, headers=_LEGACY)
    if document is not None and metadata.is_server_document(document):
        return metadata.read_server(document, origin, terms, is_promise=False)
    return metadata.default_server(origin)


async def _refuse_absent(fetch: Fetcher, terms: Terms, server: model.AuthorizationServer) -> None:
    """Refuse a server that describes nothing, and has no page to sign in on where 2025-03-26 has it. Raises NoSignIn:
    it has none, and nothing that is configured says that it has."""
    settings = terms.settings
    if settings.client_id or settings.resource or settings.grant != "authorization_code":
        return
    try:
        answer = await fetch.get(server.authorization_endpoint, terms.allowed)
    except FetchFailed:  # which nobody can tell from a page
        return
    if answer.status in _ABSENT:
        how = f'run "hubd auth {terms.upstream}" in a terminal, which asks for the token.'
        raise model.NoSignIn(f"{terms.upstream} wants a token and has no sign-in; {how}")


def _scope(
    terms: Terms, challenge: model.Challenge, resource: model.ProtectedResource, server: model.AuthorizationServer
) -> str:
    """The scopes to ask for: the operator's, exactly; else those that are wanted, and one for a refresh token."""
    settings = terms.settings
    wanted = settings.scopes or readable_scopes(challenge.scope) or resource.scopes
    if not settings.scopes and OFFLINE in server.scopes:
        wanted = (*wanted, OFFLINE)
    scopes = choose_scopes(terms.upstream, wanted, settings)
    if wanted and not scopes:
        some = " ".join(wanted[:8]) + (" ..." if len(wanted) > 8 else "")
        raise model.OAuthProblem(
            f"{terms.upstream} wants the scopes {some}, and max_scopes permits none of them. "
            f"Change max_scopes {below(terms.upstream)}, or use {terms.upstream} without them."
        )
    return " ".join(scopes)


def choose_scopes(upstream: str, wanted: Iterable[str], settings: UpstreamOAuth) -> tuple[str, ...]:
    """The scopes of a request: all of these that `max_scopes` permits. Raises OAuthProblem: they are too many."""
    scopes = permit_scopes(wanted, settings.max_scopes)
    if not fits(scopes):
        why = f"{upstream} names more scopes than can be asked for at once."
        raise model.OAuthProblem(f"{why} Write those that you need as scopes {below(upstream)}.")
    return scopes


async def _read(
    fetch: Fetcher, terms: Terms, place: str, *, headers: Mapping[str, str] | None = None, problem: str = ""
) -> dict[str, Any] | None:
    """The JSON object at `place`; None: there is none, so another place may have it. Raises OAuthProblem: `place` may
    not be asked, which is a `problem`; OAuthUnavailable: it cannot be asked now."""
    try:
        answer = await fetch.get(place, terms.allowed, headers=headers)
    except FetchFailed as failed:
        if failed.refused:
            problem = problem or f"The metadata of {terms.upstream} cannot be read"
            raise model.OAuthProblem(sentence(f"{problem}: {failed.text}")) from None
        if failed.too_large:
            return None  # some page, which no metadata are
        raise model.OAuthUnavailable(sentence(failed.text)) from None
    check_available(answer, place)
    return answer.json_object() if answer.status == 200 else None


def check_available(answer: Fetched, place: str, *, sent: bool = False) -> None:
    """Raise `OAuthUnavailable` if a server says that it cannot answer now."""
    if answer.status == 429 or answer.status >= 500:
        origin = "/".join(place.split("/")[:3])
        text = f"{origin} answers {answer.status} now; trying again later may help."
        raise model.OAuthUnavailable(text, retry_after_s=retry_after_s(answer.headers, MAX_RETRY_AFTER_S), sent=sent)


def sentence(text: str) -> str:
    """A text with a full stop."""
    return text if text.endswith(".") else text + "."
