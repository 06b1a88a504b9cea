"""One renewal: among all tasks and processes one at a time for each grant, and nothing is forgotten too soon.

    lock the grant  ->  read it again; another generation: that is used
                    ->  note that a request is sent  ->  ask  ->  keep the answer  ->  the note is void  ->  unlock

Whoever is killed in between leaves the old generation, or the new one, never half of one; and the note, if the answer
was not kept. Only then is something lost, where a server takes no refresh token twice, and the next one says so.
"""

import logging
from operator import attrgetter
from typing import Final, Literal

import trio
from msgspec import Struct
from msgspec.structs import replace

from upstreams.oauth import model
from upstreams.oauth.credential_machine import CredentialMachine, RenewalOutcome, Shared, time_until_due_s
from upstreams.oauth.discovery.discover import discover
from upstreams.oauth.discovery.metadata import below
from upstreams.oauth.obtain_token import TokenSource
from upstreams.oauth.store.private_folder import NotKept
from upstreams.oauth.token_answers import TokenRefused, is_for

log = logging.getLogger(__name__)

REVOKE_S: Final = 5.0
LAST_S: Final = 45.0
"""A request that is sent is waited for even if the hub ends, for its answer may be all there is; at most so long."""
_age: Final = attrgetter("signed_in_at", "generation")
"""The order of grants: the later one counts."""


Meaning = Literal["grant gone", "client gone", "unclear", "later"]
"""The meaning of a failed renewal."""


def judge(problem: model.OAuthProblem) -> Meaning:
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

    def __init__(self, account: model.OAuthAccount, shared: Shared) -> None:
        self.account = account
        self.shared = shared
        self.token_source = TokenSource(account, shared)

    async def find_kept(self) -> tuple[model.Grant | None, str]:
        """The grant that is kept, if it is good for the upstream as it is configured now; and what a person should
        know: why there is one that cannot be used. Raises KeyLocked: the key cannot be had now."""
        account = self.account
        try:
            grant = await trio.to_thread.run_sync(lambda: self.shared.store().find(account.upstream, account.principal))
        except model.OAuthProblem as problem:
            return None, str(problem)
        if grant is None or (account.upstream and not is_for(grant, account.url)):
            return None, ""
        if (issuer := account.settings.issuer) and not model.same_issuer(grant.key.issuer, issuer):
            return None, ""  # the operator has moved it to another authorization server since
        return grant, ""

    async def find_new_issuer(self, issuer: str, challenge: model.Challenge) -> str:
        """The authorization server that the upstream names in place of `issuer`; "": it names the same, or nobody can
        say now."""
        account = self.account
        try:
            found = await discover(self.shared.fetch, account.url, account.settings, challenge, (issuer,))
        except (model.OAuthProblem, model.OAuthUnavailable) as error:
            log.info("%s", error)
            return ""
        return "" if model.same_issuer(found.server.issuer, issuer) else found.server.issuer

    async def log_out(self, grant: model.Grant | None, *, forget: bool) -> LoggedOut:
        """End `grant` at the authorization server, as far as it does that, then forget all of the account here.
        `forget`: the hub's client id there, too. Raises NotKept: something cannot be deleted; OAuthUnavailable: another
        process keeps the grant locked."""
        upstream, principal = self.account.upstream, self.account.principal
        store = await trio.to_thread.run_sync(self.shared.store)

        def delete() -> tuple[bool, bool]:
            deleted = store.delete_all(upstream, principal)
            return deleted, forget and store.clients.forget(upstream)

        if grant is None:
            deleted, forgot = await trio.to_thread.run_sync(delete)
            return LoggedOut(was_signed_in=deleted, revoked=None, forgot_client=forgot)
        async with store.lock(grant.key) as held:
            kept = await trio.to_thread.run_sync(store.load, grant.key)
            revoked, why_not = await self._revoke(kept or grant)
            _, forgot = await trio.to_thread.run_sync(delete)
            await trio.to_thread.run_sync(held.finish)
        return LoggedOut(was_signed_in=True, revoked=revoked, why_not=why_not, forgot_client=forgot)

    async def _revoke(self, grant: model.Grant) -> tuple[bool | None, str]:
        """True if the authorization server has ended the grant, None if it was not asked; and why it has not."""
        issuer = grant.key.issuer
        if not grant.server.revocation_endpoint:
            return None, f"{issuer} has no place for that; the token lasts as long as it says"
        try:
            with trio.fail_after(REVOKE_S):
                done = await self.token_source.endpoint_of(grant).revoke(grant)
        except (model.OAuthProblem, model.OAuthUnavailable) as error:
            return False, str(error)
        except trio.TooSlowError:
            return False, f"{issuer} did not answer within {REVOKE_S:g} s"
        return done, "" if done else f"{issuer} did not end it"


class Renewal:
    """One renewal of the grant of `state` as it is now, by `renewer`.

    `refused`: the access token that the upstream refused; "": it is only about to end. `scope`: scopes to ask for; "":
    as before. Only without a person.
    """

    def __init__(
        self, renewer: Renewer, state: CredentialMachine, challenge: model.Challenge, refused: str, scope: str
    ) -> None:
        self._grant, self._is_kept, self._was_unclear = state.grant, state.is_kept, state.was_unclear
        self._challenge, self._refused, self._scope = challenge, refused, scope
        self._account, self._shared, self._token_source = renewer.account, renewer.shared, renewer.token_source

    async def run(self) -> RenewalOutcome:
        """Renew, unless another process has. Cancellation: a request that is sent is waited for."""
        try:
            key = self._grant.key if self._grant is not None else await self._token_source.key(self._challenge)
            self._store = await trio.to_thread.run_sync(self._shared.store)
            async with self._store.lock(key) as self._held:
                return await self._renew(key)
        except model.OAuthUnavailable as away:
            return RenewalOutcome("paused", text=str(away), retry_after_s=away.retry_after_s)
        except model.OAuthProblem as problem:
            return RenewalOutcome("ended", text=str(problem))

    async def _renew(self, key: model.GrantKey) -> RenewalOutcome:
        grant = self._grant
        kept = await trio.to_thread.run_sync(self._store.load, key)
        if grant is not None and not self._is_kept and (kept is None or _age(kept) <= _age(grant)):
            kept = grant
            await self._keep(grant)
        if kept is None and grant is not None and self._account.by_person:
            return RenewalOutcome("forgotten", text=model.sign_in_needed(self._account.upstream, key.issuer))
        if kept is not None and kept != grant and self._is_good(kept):
            return RenewalOutcome("tokens", kept)
        if not self._account.can_renew(kept):
            text = (kept.note if kept else "") or model.sign_in_needed(self._account.upstream, key.issuer)
            return RenewalOutcome("ended", kept, text)
        generation = kept.generation if kept else 0
        was_begun = await trio.to_thread.run_sync(self._held.pending_generation) == generation
        try:
            await trio.to_thread.run_sync(self._held.begin, generation)
        except OSError as error:  # what comes now could not be kept either
            text = f"what comes of it cannot be kept ({error.strerror}); see to {self._store.folder}"
            raise model.OAuthUnavailable(text) from None
        with trio.CancelScope(shield=True):  # from here on an answer may be on its way, which must not be lost
            outcome = await self._ask(kept, was_begun=was_begun)
        return outcome

    def _is_good(self, kept: model.Grant) -> bool:
        """True if a grant that another process has written is what is wanted."""
        if kept.access_token.reveal() == self._refused or kept.sign_in_needed:
            return False
        if not set(self._scope.split()) <= set(kept.asked_scope.split()):
            return False
        return time_until_due_s(kept, self._shared.wall()) > 0

    async def _ask(self, grant: model.Grant | None, *, was_begun: bool) -> RenewalOutcome:
        """Ask for the next generation. `was_begun`: somebody has, and the answer may be lost."""
        try:
            with trio.fail_after(LAST_S):
                new = await self._token_source.next(grant, self._scope)
        except trio.TooSlowError:
            raise model.OAuthUnavailable("there was no answer in time") from None
        except model.OAuthUnavailable as away:
            if not (away.sent or was_begun):
                await self._finish()
            self._log(away)
            raise
        except model.OAuthProblem as problem:
            self._log(problem)
            return await self._judge(grant, problem, was_begun=was_begun)
        if is_kept := await self._keep(new):
            await self._finish()
        return RenewalOutcome("tokens", new, is_kept=is_kept)

    async def _judge(self, grant: model.Grant | None, error: model.OAuthProblem, *, was_begun: bool) -> RenewalOutcome:
        """Judge a refusal: whether another renewal may help, or a person has to do something."""
        verdict, text = judge(error), str(error)
        if grant is None or not self._account.by_person:
            await self._finish()
            if verdict == "client gone":
                return await self._end_client(None, grant.key.issuer if grant else self._account.settings.issuer)
            return RenewalOutcome("paused" if verdict == "later" else "ended", text=text)
        if verdict == "grant gone" or (verdict == "unclear" and self._was_unclear):
            return await self._end_grant(grant, was_begun=was_begun)
        if not was_begun:
            await self._finish()
        if verdict == "client gone":
            return await self._end_client(grant, grant.key.issuer)
        return RenewalOutcome("paused", text=text, unclear=verdict == "unclear")

    async def _end_grant(self, grant: model.Grant, *, was_begun: bool) -> RenewalOutcome:
        """The server renews this grant no more, unless another process has done so meanwhile."""
        kept = await trio.to_thread.run_sync(self._store.load, grant.key)
        if kept is not None and kept.generation != grant.generation and self._is_good(kept):
            await self._finish()
            return RenewalOutcome("tokens", kept)
        upstream, issuer = self._account.upstream, grant.key.issuer
        if was_begun:
            text = f"The answer to a renewal was lost on the way from {issuer}, and it takes the old token no more"
        else:
            text = f"{issuer} no longer renews the sign-in for {upstream or model.IDENTITY_PROVIDER}"
        note = f"{text}; run {model.sign_in_command(upstream)}."
        over = replace(grant, refresh_token=None, sign_in_needed=True, note=note)
        await self._keep(over)
        await self._finish()
        return RenewalOutcome("ended", over, over.note)

    async def _end_client(self, grant: model.Grant | None, issuer: str) -> RenewalOutcome:
        """The server does not take the hub's client id. `grant`: that of a person who signed in with it."""
        upstream = self._account.upstream
        if grant is None or grant.client.kind == "configured":
            where = below(upstream) if upstream else "below [oauth.idp]"
            who = f"the client_id or client_secret of {upstream or model.IDENTITY_PROVIDER}"
            return RenewalOutcome("ended", text=f"{issuer} refuses {who}; correct them {where}.")
        try:
            await trio.to_thread.run_sync(self._store.clients.forget, upstream, grant.client.client_id)
        except NotKept as error:
            log.warning("%s", error)
        command = model.sign_in_command(upstream)
        text = f"{issuer} no longer knows this hub, which registers there anew when you run {command}."
        over = replace(grant, sign_in_needed=True, note=text)
        await self._keep(over)
        return RenewalOutcome("ended", over, text)

    async def _keep(self, grant: model.Grant) -> bool:
        try:
            await trio.to_thread.run_sync(self._store.save, grant)
        except (NotKept, model.OAuthUnavailable) as error:
            log.error("%s What was renewed is used as long as this hub runs.", error)
            return False
        return True

    async def _finish(self) -> None:
        try:
            await trio.to_thread.run_sync(self._held.finish)
        except OSError as error:
            log.warning("the lock of a sign-in cannot be written: %s", error.strerror)

    def _log(self, why: Exception) -> None:
        log.warning("the sign-in for %s is not renewed: %s", self._account.upstream or model.IDENTITY_PROVIDER, why)
