"""Trial of a sign-in for `hubd doctor`: everything up to a registration, which is not made."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from config.tables.oauth import OAuthConfig, UpstreamOAuth
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.model import Allowed, FetchFailed
from upstreams.oauth.discovery.discover import allowance_for, discover, sentence
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, NoSignIn, OAuthProblem, OAuthUnavailable
from upstreams.oauth.registration.client_metadata import flaws_of, method_of
from upstreams.oauth.registration.clients import (
    client_of_settings,
    document_client,
    needs_client_id,
    no_method,
    no_stranger,
)

RedirectOf = Callable[[AuthorizationServer], Awaitable[str]]
"""The redirect URI of a sign-in at an authorization server. Raises OAuthProblem."""


class SignInProspect(Struct, frozen=True, kw_only=True):
    """The prospects of a sign-in at an upstream."""

    problem: str = ""
    """The reason why it cannot begin, and what to do; "": it can."""
    is_passing: bool = False
    """The problem may go away by itself."""
    wants_token: bool = False
    """The problem is that there is no sign-in, and a token is wanted."""
    discovery: Discovery | None = None
    client: str = ""
    """The way in which the hub would get its client id: `configured`, `document`, `registered`."""


async def try_sign_in(
    fetch: Fetcher,
    url: str,
    settings: UpstreamOAuth,
    hub: OAuthConfig,
    redirect_of: RedirectOf,
    upstream: str,
    challenge: Challenge,
    *,
    allowed: Allowed | None = None,
) -> SignInProspect:
    """Try the sign-in at the upstream at `url`, which has refused the hub with `challenge`, up to a registration."""
    found: Discovery | None = None
    try:
        found = await discover(fetch, url, settings, challenge, allowed=allowed, upstream=upstream)
        redirect_uri = await redirect_of(found.server)
        client = _way_in(found, settings, hub, redirect_uri, upstream)
    except OAuthProblem as problem:
        return SignInProspect(problem=str(problem), discovery=found, wants_token=isinstance(problem, NoSignIn))
    except OAuthUnavailable as away:
        return SignInProspect(problem=str(away), is_passing=True)
    flaw = await check_client_document(fetch, hub, redirect_uri) if client == "document" else ""
    return SignInProspect(problem=flaw, discovery=found, client=client)


def _way_in(found: Discovery, settings: UpstreamOAuth, hub: OAuthConfig, redirect_uri: str, upstream: str) -> str:
    """The way in which the hub would get its client id.

    Raises:
        OAuthProblem: it would get none.
    """
    server = found.server
    if settings.client_id:
        return client_of_settings(server, settings, redirect_uri, upstream).kind
    if settings.grant != "authorization_code":
        raise OAuthProblem(needs_client_id(upstream, settings))
    if document := document_client(server, hub, redirect_uri):
        return document.kind
    if not server.registration_endpoint:
        raise OAuthProblem(no_stranger(upstream, server.issuer, redirect_uri))
    if method_of(server, settings.token_auth) is None:
        raise OAuthProblem(no_method(upstream, server.issuer))
    return "registered"


async def check_client_document(fetch: Fetcher, hub: OAuthConfig, redirect_uri: str) -> str:
    """The flaw of the client metadata document of `client_metadata_url`, for a person; "": nothing, or none is
    configured. Authorization servers read it from elsewhere, and may see another one."""
    url = hub.client_metadata_url
    if not url:
        return ""
    try:
        answer = await fetch.get(url, allowance_for(url, UpstreamOAuth()))
    except FetchFailed as failed:
        return sentence(f"The document at client_metadata_url cannot be read: {failed.text}")
    if answer.status != 200:
        return f"The document at client_metadata_url ({url}) cannot be read: the answer is {answer.status}."
    flaws = flaws_of(answer.json_object(), url, redirect_uri)
    if not flaws:
        return ""
    return f"The document at client_metadata_url ({url}) {', and '.join(flaws)}; correct it, or remove the setting."
