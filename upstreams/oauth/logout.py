"""Logging out: the authorization server ends the grant, as far as it can, then it is forgotten here."""

from typing import Final

import trio
from msgspec import Struct

from config.oauth_settings import UpstreamOAuth
from upstreams.oauth.model import Grant, OAuthProblem, OAuthUnavailable
from upstreams.oauth.parts import Shared
from upstreams.oauth.tokens.client_proof import with_settings
from upstreams.oauth.tokens.endpoint import TokenEndpoint

REVOKE_S: Final = 5.0


class LoggedOut(Struct, frozen=True, kw_only=True):
    """The outcome of a logout."""

    was_signed_in: bool
    revoked: bool | None
    """The authorization server has ended the grant; None: it was not asked."""
    why_not: str = ""
    """The reason why it has not."""
    forgot_client: bool = False


async def log_out(
    at: tuple[str, str, str], settings: UpstreamOAuth, grant: Grant | None, shared: Shared, *, forget: bool
) -> LoggedOut:
    """Log out `at` an upstream, as a principal, with this URL. `forget`: forget the hub's client id there, too.

    Raises:
        NotKept: something cannot be deleted.
        OAuthUnavailable: another process keeps the grant locked.
    """
    upstream, principal, url = at
    store = await trio.to_thread.run_sync(shared.store)

    def delete() -> tuple[bool, bool]:
        deleted = store.delete_all(upstream, principal)
        return deleted, forget and store.clients.forget_upstream(upstream)

    if grant is None:
        deleted, forgot = await trio.to_thread.run_sync(delete)
        return LoggedOut(was_signed_in=deleted, revoked=None, forgot_client=forgot)
    async with store.lock(grant.key) as held:
        kept = await trio.to_thread.run_sync(store.load, grant.key)
        revoked, why_not = await _revoked(kept or grant, url, settings, shared)
        _, forgot = await trio.to_thread.run_sync(delete)
        await trio.to_thread.run_sync(held.finish)
    return LoggedOut(was_signed_in=True, revoked=revoked, why_not=why_not, forgot_client=forgot)


async def _revoked(grant: Grant, url: str, settings: UpstreamOAuth, shared: Shared) -> tuple[bool | None, str]:
    issuer = grant.key.issuer
    if not grant.server.revocation_endpoint:
        return None, f"{issuer} has no place for that; the token lasts as long as it says"
    client, allowed = with_settings(grant.client, settings), shared.finding.allowed(url, settings)
    endpoint = TokenEndpoint(shared.fetch, grant.server, client, settings, allowed, wall=shared.wall)
    try:
        with trio.fail_after(REVOKE_S):
            done = await endpoint.revoke(grant)
    except (OAuthProblem, OAuthUnavailable) as error:
        return False, str(error)
    except trio.TooSlowError:
        return False, f"{issuer} did not answer within {REVOKE_S:g} s"
    return done, "" if done else f"{issuer} did not end it"
