"""One renewal: among all tasks and processes one at a time for each grant, and nothing is forgotten too soon.

    lock the grant  ->  read it again; another generation: that is used
                    ->  note that a request is sent  ->  ask  ->  keep the answer  ->  the note is void  ->  unlock

Whoever is killed in between leaves the old generation, or the new one, never half of one; and the note, if the answer
was not kept. Only then is something lost, where a server takes no refresh token twice, and the next one says so.
"""

import logging
from typing import Final, Literal

import trio
from msgspec import Struct
from msgspec.structs import replace

from upstreams.oauth.credential_state import RenewalOutcome, sign_in_needed, time_until_due_s
from upstreams.oauth.discovery.discover import discover
from upstreams.oauth.model import (
    IDENTITY_PROVIDER,
    Challenge,
    Grant,
    GrantKey,
    OAuthAccount,
    OAuthProblem,
    OAuthUnavailable,
    same_issuer,
    sign_in_command,
)
from upstreams.oauth.obtaining import Obtaining
from upstreams.oauth.parts import Shared
from upstreams.oauth.store.folder import HeldLock, NotKept
from upstreams.oauth.store.grant_store import GrantStore
from upstreams.oauth.token_answers import TokenRefused, is_for

log = logging.getLogger(__name__)

REVOKE_S: Final = 5.0
LAST_S: Final = 45.0
"""A request that is sent is waited for even if the hub ends, for its answer may be all there is; at most so long."""


class RenewalRequest(Struct, frozen=True):
    """A renewal of `grant`, the one in memory."""

    grant: Grant | None
    is_kept: bool
    """It could be written."""
    was_unclear: bool
    """The last refusal did not say why."""
    challenge: Challenge
    refused: str = ""
    """The access token that the upstream refused; "": it is only about to end."""
    scope: str = ""
    """Scopes to ask for; "": as before. Only without a person."""

    def __repr__(self) -> str:
        return f"<RenewalRequest {'in place of a refused token' if self.refused else 'in time'}>"


Meaning = Literal["grant gone", "client gone", "unclear", "later"]
"""The meaning of a failed renewal."""


def judge(problem: OAuthProblem) -> Meaning:
    """The meaning of a refusal by the token endpoint."""
    if problem.code == "invalid_grant":
        return "grant gone"
    if problem.code in ("invalid_client", "unauthorized_client"):
        return "client gone"
    return "later" if isinstance(problem, TokenRefused) and problem.status in (401, 403) else "unclear"


class LoggedOut(Struct, frozen=True, kw_only=True):
    """The outcome of a logout."""

    was_signed_in: bool
    revoked: bool | None
    """The authorization server has ended the grant; None: it was not asked."""
    why_not: str = ""
    """The reason why it has not."""
    forgot_client: bool = False


class Renewer:
    """Reads the grant that is kept for one account, gets the next ones, and ends them."""

    def __init__(self, account: OAuthAccount, shared: Shared) -> None:
        self.account = account
        self.shared = shared
        self.obtaining = Obtaining(account, shared)

    async def find_kept(self) -> tuple[Grant | None, str]:
        """The grant that is kept, if it is good for the upstream as it is configured now; and what a person should
        know: why there is one that cannot be used. Raises KeyLocked: the key cannot be had now."""
        account = self.account
        try:
            grant = await trio.to_thread.run_sync(lambda: self.shared.store().find(account.upstream, account.principal))
        except OAuthProblem as problem:
            return None, str(problem)
        if grant is None or (account.upstream and not is_for(grant, account.url)):
            return None, ""
        if (issuer := account.settings.issuer) and not same_issuer(grant.key.issuer, issuer):
            return None, ""  # the operator has moved it to another authorization server since
        return grant, ""

    async def find_new_issuer(self, issuer: str, challenge: Challenge) -> str:
        """The authorization server that the upstream names in place of `issuer`; "": it names the same, or nobody can
        say now."""
        account = self.account
        try:
            found = await discover(self.shared.fetch, account.url, account.settings, challenge, (issuer,))
        except (OAuthProblem, OAuthUnavailable) as error:
            log.info("%s", error)
            return ""
        return "" if same_issuer(found.server.issuer, issuer) else found.server.issuer

    async def renew(self, request: RenewalRequest) -> RenewalOutcome:
        """Renew, unless another process has. Cancellation: a request that is sent is waited for."""
        grant = request.grant
        try:
            key = grant.key if grant is not None else await self.obtaining.key(request.challenge)
            store = await trio.to_thread.run_sync(self.shared.store)
            async with store.lock(key) as held:
                return await _Renewal(self, store, held, request).run(key)
        except OAuthUnavailable as away:
            return RenewalOutcome("paused", text=str(away), retry_after_s=away.retry_after_s)
        except OAuthProblem as problem:
            return RenewalOutcome("ended", text=str(problem))

    async def log_out(self, grant: Grant | None, *, forget: bool) -> LoggedOut:
        """End `grant` at the authorization server, as far as it does that, then forget all of the account here.
        `forget`: the hub's client id there, too.

        Raises:
            NotKept: something cannot be deleted.
            OAuthUnavailable: another process keeps the grant locked.
        """
        upstream, principal = self.account.upstream, self.account.principal
        store = await trio.to_thread.run_sync(self.shared.store)

        def delete() -> tuple[bool, bool]:
            deleted = store.delete_all(upstream, principal)
            return deleted, forget and store.clients.forget_upstream(upstream)

        if grant is None:
            deleted, forgot = await trio.to_thread.run_sync(delete)
            return LoggedOut(was_signed_in=deleted, revoked=None, forgot_client=forgot)
        async with store.lock(grant.key) as held:
            kept = await trio.to_thread.run_sync(store.load, grant.key)
            revoked, why_not = await self._revoke(kept or grant)
            _, forgot = await trio.to_thread.run_sync(delete)
            await trio.to_thread.run_sync(held.finish)
        return LoggedOut(was_signed_in=True, revoked=revoked, why_not=why_not, forgot_client=forgot)

    async def _revoke(self, grant: Grant) -> tuple[bool | None, str]:
        """True if the authorization server has ended the grant, None if it was not asked; and why it has not."""
        issuer = grant.key.issuer
        if not grant.server.revocation_endpoint:
            return None, f"{issuer} has no place for that; the token lasts as long as it says"
        try:
            with trio.fail_after(REVOKE_S):
                done = await self.obtaining.endpoint_of(grant).revoke(grant)
        except (OAuthProblem, OAuthUnavailable) as error:
            return False, str(error)
        except trio.TooSlowError:
            return False, f"{issuer} did not answer within {REVOKE_S:g} s"
        return done, "" if done else f"{issuer} did not end it"


class _Renewal(Struct):
    """The part of a renewal under the lock."""

    renewer: Renewer
    store: GrantStore
    held: HeldLock
    request: RenewalRequest

    async def run(self, key: GrantKey) -> RenewalOutcome:
        request, upstream = self.request, self.renewer.account.upstream
        grant, is_kept = request.grant, request.is_kept
        kept = await trio.to_thread.run_sync(self.store.load, key)
        if grant is not None and not is_kept and (kept is None or _age_of(kept) <= _age_of(grant)):
            kept, is_kept = grant, await self._keep(grant)
        if kept is None and grant is not None and self.renewer.account.by_person:
            return RenewalOutcome("forgotten", text=sign_in_needed(upstream, key.issuer))
        if kept is not None and kept != grant and self._is_good(kept):
            return RenewalOutcome("tokens", kept)
        if not self.renewer.account.can_renew(kept):
            text = (kept.note if kept else "") or sign_in_needed(upstream, key.issuer)
            return RenewalOutcome("ended", kept, text)
        return await self._ask(kept)

    def _is_good(self, kept: Grant) -> bool:
        """True if a grant that another process has written is what is wanted."""
        if kept.access_token.reveal() == self.request.refused or kept.sign_in_needed:
            return False
        if not set(self.request.scope.split()) <= set(kept.asked_scope.split()):
            return False
        return time_until_due_s(kept, self.renewer.shared.wall()) > 0

    async def _ask(self, grant: Grant | None) -> RenewalOutcome:
        generation = grant.generation if grant else 0
        was_begun = await trio.to_thread.run_sync(self.held.pending_generation) == generation
        try:
            await trio.to_thread.run_sync(self.held.begin, generation)
        except OSError as error:  # what comes now could not be kept either
            text = f"what comes of it cannot be kept ({error.strerror}); see to {self.store.folder}"
            return RenewalOutcome("paused", text=text)
        outcome = RenewalOutcome("paused")
        with trio.CancelScope(shield=True):  # from here on an answer may be on its way, which must not be lost
            outcome = await self._answer(grant, was_begun=was_begun)
        return outcome

    async def _answer(self, grant: Grant | None, *, was_begun: bool) -> RenewalOutcome:
        try:
            with trio.fail_after(LAST_S):
                new = await self.renewer.obtaining.next(grant, self.request.scope)
        except trio.TooSlowError:
            return RenewalOutcome("paused", text="there was no answer in time")
        except OAuthUnavailable as away:
            if not (away.sent or was_begun):
                await self._finish()
            self._log(str(away))
            return RenewalOutcome("paused", text=str(away), retry_after_s=away.retry_after_s)
        except OAuthProblem as problem:
            self._log(str(problem))
            return await self._end(grant, problem, was_begun=was_begun)
        is_kept = await self._keep(new)
        if is_kept:
            await self._finish()
        return RenewalOutcome("tokens", new, is_kept=is_kept)

    async def _end(self, grant: Grant | None, problem: OAuthProblem, *, was_begun: bool) -> RenewalOutcome:
        verdict, account = judge(problem), self.renewer.account
        if grant is None or not account.by_person:
            await self._finish()
            if verdict == "client gone":
                return self._client_refused(grant.key.issuer if grant else account.settings.issuer)
            return RenewalOutcome("paused" if verdict == "later" else "ended", text=str(problem))
        if verdict == "unclear" and self.request.was_unclear:
            verdict = "grant gone"
        if verdict == "grant gone":
            return await self._grant_gone(grant, was_begun=was_begun)
        if not was_begun:
            await self._finish()
        if verdict == "client gone":
            return await self._client_gone(grant)
        return RenewalOutcome("paused", text=str(problem), unclear=verdict == "unclear")

    async def _grant_gone(self, grant: Grant, *, was_begun: bool) -> RenewalOutcome:
        kept = await trio.to_thread.run_sync(self.store.load, grant.key)
        if kept is not None and kept.generation != grant.generation and self._is_good(kept):
            await self._finish()
            return RenewalOutcome("tokens", kept)
        upstream, issuer = self.renewer.account.upstream, grant.key.issuer
        command = sign_in_command(upstream)
        if was_begun:
            text = f"The answer to a renewal was lost on the way from {issuer}, and it takes the old token no more; "
            text += f"run {command}."
        else:
            text = f"{issuer} no longer renews the sign-in for {upstream or IDENTITY_PROVIDER}; run {command}."
        over = replace(grant, refresh_token=None, sign_in_needed=True, note=text)
        await self._keep(over)
        await self._finish()
        return RenewalOutcome("ended", over, text)

    async def _client_gone(self, grant: Grant) -> RenewalOutcome:
        issuer = grant.key.issuer
        if grant.client.kind == "configured":
            return self._client_refused(issuer)
        upstream, clients = self.renewer.account.upstream, self.store.clients
        try:
            await trio.to_thread.run_sync(clients.forget_client, upstream, grant.client)
        except NotKept as error:
            log.warning("%s", error)
        command = sign_in_command(upstream)
        text = f"{issuer} no longer knows this hub, which registers there anew when you run {command}."
        over = replace(grant, sign_in_needed=True, note=text)
        await self._keep(over)
        return RenewalOutcome("ended", over, text)

    def _client_refused(self, issuer: str) -> RenewalOutcome:
        upstream = self.renewer.account.upstream
        where = f"[upstreams.{upstream}.oauth]" if upstream else "[oauth.idp]"
        who = f"the client_id or client_secret of {upstream or IDENTITY_PROVIDER}"
        return RenewalOutcome("ended", text=f"{issuer} refuses {who}; correct them below {where}.")

    async def _keep(self, grant: Grant) -> bool:
        try:
            await trio.to_thread.run_sync(self.store.save, grant)
        except (NotKept, OAuthUnavailable) as error:
            log.error("%s What was renewed is used as long as this hub runs.", error)
            return False
        return True

    async def _finish(self) -> None:
        try:
            await trio.to_thread.run_sync(self.held.finish)
        except OSError as error:
            log.warning("the lock of a sign-in cannot be written: %s", error.strerror)

    def _log(self, text: str) -> None:
        log.warning("the sign-in for %s is not renewed: %s", self.renewer.account.upstream or IDENTITY_PROVIDER, text)


def _age_of(grant: Grant) -> tuple[float, int]:
    return grant.signed_in_at, grant.generation
