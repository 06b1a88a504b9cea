"""The findings of credentials about sign-ins, by `discovery` and `registration`, which are loaded when that is needed
first."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from config.oauth_settings import UpstreamOAuth
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, OAuthClient
from upstreams.oauth.parts import Finding

if TYPE_CHECKING:
    from upstreams.fetch.fetcher import Fetcher
    from upstreams.fetch.model import Allowed


def finding_by(fetch: "Fetcher") -> Finding:
    """The real thing, by guarded requests."""

    async def found(url: str, settings: UpstreamOAuth, challenge: Challenge, preferred: Collection[str]) -> Discovery:
        from upstreams.oauth.discovery.discover import discover

        return await discover(fetch, url, settings, challenge, preferred_issuers=preferred)

    async def server(settings: UpstreamOAuth) -> AuthorizationServer:
        from upstreams.oauth.discovery.discover import discover_issuer

        return (await discover_issuer(fetch, settings)).server

    return Finding(discover=found, server=server, parse=_parsed, allowed=_allowed, client=_client)


def _parsed(values: Sequence[str]) -> Challenge:
    from upstreams.oauth.discovery.challenge import parse_challenges

    return parse_challenges(values)


def _allowed(url: str, settings: UpstreamOAuth) -> "Allowed":
    from upstreams.oauth.discovery.discover import allowed_for

    return allowed_for(url, settings)


def _client(server: AuthorizationServer, settings: UpstreamOAuth, upstream: str) -> OAuthClient:
    from upstreams.oauth.registration.clients import configured_client

    return configured_client(server, settings, "", upstream)
