"""Metadata documents: of a protected resource (RFC 9728) and of an authorization server (RFC 8414). Pure.

A document is what a peer says. Whatever is taken from it was checked here; what is not needed is passed over where it
is wrong, what is needed makes the whole document worthless.
"""

from typing import Any, Final
from urllib.parse import unquote_plus

from config.diagnostics import dot_keys, quote_toml
from config.secrets.masks import mask_url
from config.security_settings import OWN_PARAMETERS, UpstreamOAuth
from upstreams.fetch.terms_and_answers import Allowed
from upstreams.oauth.discovery import peer_urls
from upstreams.oauth.discovery.challenge import pick_scopes
from upstreams.oauth.discovery.peer_urls import Address, show_url
from upstreams.oauth.model import AuthorizationServer, OAuthProblem, ProtectedResource, same_issuer

MAX_SERVERS: Final = 16
"""Authorization servers of one resource that are looked at."""
MAX_METHODS: Final = 32
MAX_METHOD_CHARS: Final = 64
MAX_QUERY_CHARS: Final = 2048


def below(upstream: str) -> str:
    """The place of the settings of signing in at `upstream`, for texts."""
    return f"below [{dot_keys(('upstreams', upstream, 'oauth'))}]"


class Terms:
    """The terms of a discovery: the upstream, what its operator says of it, and who may be asked. Raises OAuthProblem:
    nobody signs in at this URL."""

    def __init__(self, upstream: str, url: str, settings: UpstreamOAuth, allowed: Allowed) -> None:
        address = peer_urls.address_of(url)
        self.upstream = upstream or (address.host if address else "The server")
        self.url = url
        self.settings = settings
        self.allowed = allowed
        if address is None or (address.scheme == "http" and not allowed.loopback_http):
            why = "its URL is not https, so everybody between could read along"
            raise OAuthProblem(f"{self.upstream} wants you to sign in, but {why}. Use its https URL.")
        self.address = address

    def sound(self, url: object) -> Address | None:
        """The parts of a URL that a peer names; None: it may not be asked."""
        return peer_urls.sound_address(url, loopback_http=self.allowed.loopback_http)


# --- of the protected resource ----------------------------------------------------------------------------------------


def is_resource_document(document: dict[str, Any]) -> bool:
    """False if an object is something else, such as the error that a server has for every path."""
    return "resource" in document or "authorization_servers" in document


def read_resource(document: dict[str, Any], place: str, terms: Terms) -> ProtectedResource:
    """The protected resource that a document at `place` describes. Raises OAuthProblem: it describes another one."""
    named = document.get("resource")
    identifier, is_wider = _identifier(named if isinstance(named, str) else None, place, terms)
    servers = document.get("authorization_servers")
    sound = [each for each in servers[:MAX_SERVERS] if terms.sound(each)] if isinstance(servers, list) else []
    return ProtectedResource(
        resource=identifier,
        is_parent=is_wider,
        authorization_servers=tuple(dict.fromkeys(sound)),
        scopes=pick_scopes(document.get("scopes_supported")),
    )


def _identifier(named: str | None, place: str, terms: Terms) -> tuple[str, bool]:
    """The identifier to send, and whether it stands for more than the upstream.

    The operator's own is sent whatever the document says, as long as that is the same, or right by itself.
    """
    expected = terms.settings.resource
    own = show_url(mask_url(terms.url))  # some servers have keys in their URLs
    address = terms.sound(named)
    if named is None or address is None:
        if expected and named == expected:
            return expected, False
        why = f"The metadata of {terms.upstream} name no resource that can be read, so they are not trusted."
        raise OAuthProblem(f"{why} Its operator has to write {own} there.")
    if named == expected or peer_urls.is_same_resource(address, terms.address):
        return expected or named, False
    if peer_urls.is_parent(address, terms.address) and peer_urls.is_place_of(place, address):
        return expected or named, not expected
    other = show_url(mask_url(named))
    why = f"{terms.upstream} says that it is {other}, which is not {own}, so it is not trusted."
    raise OAuthProblem(f"{why} If you know better, set resource = {quote_toml(other)} {below(terms.upstream)}.")


# --- of the authorization server --------------------------------------------------------------------------------------


def is_server_document(document: dict[str, Any]) -> bool:
    """False if an object cannot be the metadata of an authorization server."""
    return isinstance(document.get("issuer"), str)


def check_issuer(issuer: str, terms: Terms) -> Address:
    """The parts of an issuer that may be asked. Raises OAuthProblem: it is none."""
    if (address := terms.sound(issuer)) is None or "?" in issuer:
        subject = show_url(issuer) if address else "The issuer"
        why = f"{subject} cannot be an authorization server: it has to be https, without query and fragment."
        raise OAuthProblem(f"{why} Correct issuer {below(terms.upstream)}.")
    return address


def read_server(document: dict[str, Any], issuer: str, terms: Terms, *, is_promise: bool = True) -> AuthorizationServer:
    """The authorization server that a document describes, which has to be `issuer`.

    `is_promise`: the document is where only the issuer can put one, so that its promise of `iss` can be relied on.
    Raises OAuthProblem: it is another one, or one at which the hub cannot sign in.
    """
    found = document["issuer"]
    if not same_issuer(found, issuer):
        other = show_url(found) if terms.sound(found) else "another one"
        if terms.settings.issuer:
            raise OAuthProblem(
                f"The metadata of {show_url(issuer)}, which is the issuer of {terms.upstream} by its settings, say "
                f"that it is {other}, so it is not trusted. Correct issuer or metadata_url {below(terms.upstream)}."
            )
        raise OAuthProblem(
            f"{terms.upstream} names {show_url(issuer)} as its authorization server, which says it is {other}, so it "
            f"is not trusted. If you know better, set issuer and metadata_url {below(terms.upstream)}."
        )
    authorize = ""
    if terms.settings.grant == "authorization_code":
        authorize = _require(document, "authorization_endpoint", issuer, terms)
        _check_pkce(document.get("code_challenge_methods_supported"), issuer, terms)
    return AuthorizationServer(
        issuer=found,
        authorization_endpoint=authorize,
        token_endpoint=_require(document, "token_endpoint", issuer, terms),
        registration_endpoint=_endpoint(document.get("registration_endpoint"), terms),
        revocation_endpoint=_endpoint(document.get("revocation_endpoint"), terms),
        token_auth_methods=_methods(document.get("token_endpoint_auth_methods_supported")),
        scopes=pick_scopes(document.get("scopes_supported")),
        sends_issuer=is_promise and document.get("authorization_response_iss_parameter_supported") is True,
        reads_client_documents=document.get("client_id_metadata_document_supported") is True,
    )


def default_server(origin: str) -> AuthorizationServer:
    """The authorization server of an upstream of 2025-03-26 that describes nothing: its endpoints have fixed names."""
    return AuthorizationServer(
        issuer=origin,
        authorization_endpoint=origin + "/authorize",
        token_endpoint=origin + "/token",
        registration_endpoint=origin + "/register",
        is_legacy=True,
    )


def _require(document: dict[str, Any], member: str, issuer: str, terms: Terms) -> str:
    if endpoint := _endpoint(document.get(member), terms):
        return endpoint
    raise OAuthProblem(
        f"{show_url(issuer)}, the authorization server of {terms.upstream}, names no {member} that can be used: it "
        "has to be an https URL, without user, fragment and parameters of its own request. Its operator has to correct "
        "that."
    )


def _endpoint(url: object, terms: Terms) -> str:
    """An endpoint that may be used; "": there is none."""
    address = terms.sound(url)
    if address is None or not isinstance(url, str) or len(address.query) > MAX_QUERY_CHARS:
        return ""
    if not url.startswith(address.scheme):
        return ""  # in capitals: others who look at it may not know it for what it is
    names = {unquote_plus(pair.partition("=")[0]) for pair in address.query.replace(";", "&").split("&")}
    return "" if names & OWN_PARAMETERS else url


def _check_pkce(methods: object, issuer: str, terms: Terms) -> None:
    if methods is None:
        if terms.settings.pkce == "assume":
            return
        raise OAuthProblem(
            f"{show_url(issuer)} does not say that it supports PKCE. If you know that it does, set pkce = "
            f"{quote_toml('assume')} {below(terms.upstream)}."
        )
    if not isinstance(methods, list) or "S256" not in methods:
        raise OAuthProblem(
            f"{show_url(issuer)} supports PKCE, but not by the method S256, so nobody signs in there for "
            f"{terms.upstream}. Its operator has to switch S256 on."
        )


def _methods(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(each for each in value[:MAX_METHODS] if isinstance(each, str) and len(each) <= MAX_METHOD_CHARS)
