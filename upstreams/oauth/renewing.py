"""One renewal: among all tasks and processes one at a time for each grant, and nothing is forgotten too soon.

    lock the grant  ->  read it again; another generation: that is used
                    ->  note that a request is sent  ->  ask  ->  keep the answer  ->  the note is void  ->  unlock

Whoever is killed in between leaves the old generation, or the new one, never half of one; and the note, if the answer
was not kept. Only then is something lost, where a server takes no refresh token twice, and the next one says so.
"""

import logging
from typing import Final

import trio
from msgspec import Struct
from msgspec.structs import replace

from upstreams.oauth import texts
from upstreams.oauth.model import Challenge, Grant, GrantKey, OAuthProblem, OAuthUnavailable
from upstreams.oauth.obtaining import Obtaining
from upstreams.oauth.parts import Shared
from upstreams.oauth.renewal import Verdict, judged, until_due_s
from upstreams.oauth.states import Event
from upstreams.oauth.store.folder import NotKept
from upstreams.oauth.store.grant_store import GrantStore
from upstreams.oauth.store.locks import Held
from upstreams.oauth.tokens.answer import TokenRefused

log = logging.getLogger(__name__)

LAST_S: Final = 45.0
"""A request that is sent is waited for even if the hub ends, for its answer may be all there is; at most so long."""


class Wanted(Struct, frozen=True):
    """The purpose of a renewal."""

    refused: str = ""
    """The access token that the upstream refused; "": it is only about to end."""
    scope: str = ""
    """Scopes to ask for; "": as before. Only without a person."""
    challenge: Challenge = Challenge()

    def __repr__(self) -> str:
        return f"<Wanted {'in place of a refused one' if self.refused else 'in time'}>"


class Outcome(Struct, frozen=True):
    """The outcome of a renewal."""

    event: Event
    grant: Grant | None = None
    """To be used from now on; None: the one there was, if any."""
    text: str = ""
    """The reason why there is no other token."""
    retry_after_s: float | None = None
    unclear: bool = False
    """The server did not say why it refuses."""
    is_kept: bool = True
    """False: the grant is in memory only, since it could not be written."""


class Renewer:
    """Renews the grants of one upstream and principal. `upstream` is its name."""

    def __init__(self, upstream: str, obtaining: Obtaining, shared: Shared) -> None:
        self._upstream = upstream
        self._obtaining = obtaining
        self._shared = shared

    def __repr__(self) -> str:
        return f"<Renewer of {self._upstream}>"

    async def renewed(self, grant: Grant | None, wanted: Wanted, *, is_kept: bool, was_unclear: bool) -> Outcome:
        """Renew `grant`, the one in memory, unless another process has. `is_kept`: it could be written; `was_unclear`:
        the last refusal did not say why. Cancellation: a request that is sent is waited for."""
        try:
            key = grant.key if grant is not None else await self._obtaining.key(wanted.challenge)
            store = await trio.to_thread.run_sync(self._shared.store)
            async with store.lock(key) as held:
                return await _Renewal(self._upstream, self._obtaining, self._shared, store, held, wanted).run(
                    key, grant, is_kept=is_kept, was_unclear=was_unclear
                )
        except OAuthUnavailable as away:
            return Outcome("paused", text=str(away), retry_after_s=away.retry_after_s)
        except OAuthProblem as problem:
            return Outcome("ended", text=str(problem))


class _Renewal(Struct):
    """The part under the lock."""

    upstream: str
    obtaining: Obtaining
    shared: Shared
    store: GrantStore
    held: Held
    wanted: Wanted

    async def run(self, key: GrantKey, grant: Grant | None, *, is_kept: bool, was_unclear: bool) -> Outcome:
        kept = await trio.to_thread.run_sync(self.store.load, key)
        if grant is not None and not is_kept and not _is_newer(kept, grant):
            kept, is_kept = grant, await self._kept(grant)
        if kept is None and grant is not None and self.obtaining.by_person:
            return Outcome("forgotten", text=texts.sign_in_needed(self.upstream, key.issuer))
        if kept is not None and kept != grant and self._is_good(kept):
            return Outcome("tokens", kept)
        if not self.obtaining.can(kept):
            issuer = key.issuer
            text = (kept.note if kept else "") or texts.sign_in_needed(self.upstream, issuer)
            return Outcome("ended", kept, text)
        return await self._asked(kept, was_unclear=was_unclear)

    def _is_good(self, kept: Grant) -> bool:
        """True if a grant that another process has written is what is wanted."""
        if kept.access_token.reveal() == self.wanted.refused or kept.sign_in_needed:
            return False
        if not set(self.wanted.scope.split()) <= set(kept.asked_scope.split()):
            return False
        return until_due_s(kept, self.shared.wall()) > 0

    async def _asked(self, grant: Grant | None, *, was_unclear: bool) -> Outcome:
        generation = grant.generation if grant else 0
        was_begun = await trio.to_thread.run_sync(self.held.begun) == generation
        try:
            await trio.to_thread.run_sync(self.held.begin, generation)
        except OSError as error:  # what comes now could not be kept either
            text = f"what comes of it cannot be kept ({error.strerror}); see to {self.store.folder}"
            return Outcome("paused", text=text)
        outcome = Outcome("paused")
        with trio.CancelScope(shield=True):  # from here on an answer may be on its way, which must not be lost
            outcome = await self._answer(grant, was_begun=was_begun, was_unclear=was_unclear)
        return outcome

    async def _answer(self, grant: Grant | None, *, was_begun: bool, was_unclear: bool) -> Outcome:
        try:
            with trio.fail_after(LAST_S):
                new = await self.obtaining.next(grant, self.wanted.scope)
        except trio.TooSlowError:
            return Outcome("paused", text="there was no answer in time")
        except OAuthUnavailable as away:
            if not (away.sent or was_begun):
                await self._finish()
            self._log(str(away))
            return Outcome("paused", text=str(away), retry_after_s=away.retry_after_s)
        except OAuthProblem as problem:
            self._log(str(problem))
            return await self._refused(grant, problem, was_begun=was_begun, was_unclear=was_unclear)
        is_kept = await self._kept(new)
        if is_kept:
            await self._finish()
        return Outcome("tokens", new, is_kept=is_kept)

    async def _refused(
        self, grant: Grant | None, problem: OAuthProblem, *, was_begun: bool, was_unclear: bool
    ) -> Outcome:
        verdict = judged(problem, problem.status if isinstance(problem, TokenRefused) else 0)
        if grant is None or not self.obtaining.by_person:
            await self._finish()
            if verdict is Verdict.CLIENT_GONE:
                issuer = grant.key.issuer if grant else self.obtaining.issuer
                return Outcome("ended", text=texts.client_refused(self.upstream, issuer))
            return Outcome("paused" if verdict is Verdict.LATER else "ended", text=str(problem))
        if verdict is Verdict.UNCLEAR and was_unclear:
            verdict = Verdict.GRANT_GONE
        if verdict is Verdict.GRANT_GONE:
            return await self._grant_gone(grant, was_begun=was_begun)
        if not was_begun:
            await self._finish()
        if verdict is Verdict.CLIENT_GONE:
            return await self._client_gone(grant)
        return Outcome("paused", text=str(problem), unclear=verdict is Verdict.UNCLEAR)

    async def _grant_gone(self, grant: Grant, *, was_begun: bool) -> Outcome:
        kept = await trio.to_thread.run_sync(self.store.load, grant.key)
        if kept is not None and kept.generation != grant.generation and self._is_good(kept):
            await self._finish()
            return Outcome("tokens", kept)
        text = (texts.answer_lost if was_begun else texts.grant_gone)(self.upstream, grant.key.issuer)
        over = replace(grant, refresh_token=None, sign_in_needed=True, note=text)
        await self._kept(over)
        await self._finish()
        return Outcome("ended", over, text)

    async def _client_gone(self, grant: Grant) -> Outcome:
        issuer = grant.key.issuer
        if grant.client.kind == "configured":
            return Outcome("ended", text=texts.client_refused(self.upstream, issuer))
        clients = self.store.clients
        try:
            await trio.to_thread.run_sync(clients.forget_client, self.upstream, grant.client)
        except NotKept as error:
            log.warning("%s", error)
        text = texts.client_forgotten(self.upstream, issuer)
        over = replace(grant, sign_in_needed=True, note=text)
        await self._kept(over)
        return Outcome("ended", over, text)

    async def _kept(self, grant: Grant) -> bool:
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
        log.warning("the sign-in for %s is not renewed: %s", self.upstream or "the identity provider", text)


def _is_newer(kept: Grant | None, grant: Grant) -> bool:
    """True if another process has written what comes after `grant`, or a person has signed in again."""
    if kept is None:
        return False
    return (kept.signed_in_at, kept.generation) > (grant.signed_in_at, grant.generation)
