"""Logging out: the authorization server ends the grant, as far as it can, then it is forgotten here."""

from typing import Final

import trio
from msgspec import Struct

from upstreams.oauth.model import Grant, OAuthAccount, OAuthProblem, OAuthUnavailable
from upstreams.oauth.obtaining import token_endpoint_of
from upstreams.oauth.parts import Shared

REVOKE_S: Final = 5.0


class LoggedOut(Struct, frozen=True, kw_only=True):
    """The outcome of a logout."""

    was_signed_in: bool
    revoked: bool | None
    """The authorization server has ended the grant; None: it was not asked."""
    why_not: str = ""
    """The reason why it has not."""
    forgot_client: bool = False


async def log_out(account: OAuthAccount, grant: Grant | None, shared: Shared, *, forget: bool) -> LoggedOut:
    """Log out of an account. `forget`: forget the hub's client id there, too.

    Raises:
        NotKept: something cannot be deleted.
        OAuthUnavailable: another process keeps the grant locked.
    """
    upstream, principal = account.upstream, account.principal
    store = await trio.to_thread.run_sync(shared.store)

    def delete() -> tuple[bool, bool]:
        deleted = store.delete_all(upstream, principal)
        return deleted, forget and store.clients.forget_upstream(upstream)

    if grant is None:
        deleted, forgot = await trio.to_thread.run_sync(delete)
        return LoggedOut(was_signed_in=deleted, revoked=None, forgot_client=forgot)
    async with store.lock(grant.key) as held:
        kept = await trio.to_thread.run_sync(store.load, grant.key)
        revoked, why_not = await _revoke(kept or grant, account, shared)
        _, forgot = await trio.to_thread.run_sync(delete)
        await trio.to_thread.run_sync(held.finish)
    return LoggedOut(was_signed_in=True, revoked=revoked, why_not=why_not, forgot_client=forgot)


async def _revoke(grant: Grant, account: OAuthAccount, shared: Shared) -> tuple[bool | None, str]:
    issuer = grant.key.issuer
    if not grant.server.revocation_endpoint:
        return None, f"{issuer} has no place for that; the token lasts as long as it says"
    try:
        with trio.fail_after(REVOKE_S):
            done = await token_endpoint_of(grant, account, shared).revoke(grant)
    except (OAuthProblem, OAuthUnavailable) as error:
        return False, str(error)
    except trio.TooSlowError:
        return False, f"{issuer} did not answer within {REVOKE_S:g} s"
    return done, "" if done else f"{issuer} did not end it"
