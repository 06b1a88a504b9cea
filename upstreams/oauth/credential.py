"""The credential of one upstream and principal: what sessions show, and when it is replaced.

`renew` is awaited before a request, `replace_refused` after a 401, `widen_scope` after a 403. Whatever must be asked
for is asked once for all that wait, in a task that none of them owns; `renewal` does it. Here it is decided what
becomes of those who wait.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from hub.link.hub_errors import HubError, UpstreamUnauthorized, UpstreamUnresolved, without_frames
from hub.link.module_loading import load
from hub.link.sync_primitives import Promise
from upstreams.oauth import model
from upstreams.oauth.check_id_token import lasts
from upstreams.oauth.credential_machine import HOLD_S, CredentialMachine, Shared, sign_in_of
from upstreams.oauth.discovery.challenge import parse_challenges
from upstreams.oauth.token_answers import is_for

if TYPE_CHECKING:
    from upstreams.oauth.renewal import LoggedOut, Renewer

LOCKED_S: Final = 10.0
"""A keyring that is locked is asked again after so long."""
LOOK_AGAIN_S: Final = 5.0
"""Interval of looking whether another process has a sign-in by now."""


class UpstreamCredential(CredentialMachine):
    """The credential that the hub shows the upstream of `account`; an `upstreams.session_contract.Credential`.

    Cheap to make: files are read, and modules loaded, when it is first needed. `may_be_kept`: there may be a grant from
    an earlier run. `on_change` is called with upstream and principal after each change of `state` or of the token.
    """

    def __init__(
        self, account: model.OAuthAccount, shared: Shared, on_change: Callable[[str, str], None], *, may_be_kept: bool
    ) -> None:
        super().__init__(account, shared, may_be_kept=may_be_kept)
        self.challenge = model.Challenge()
        """The last one of the upstream."""
        self.wanted_scope = ""
        """The scopes that the next sign-in is to ask for; "": what the upstream says."""
        self._on_change = on_change
        self._has_looked = not may_be_kept
        """The grant that is kept was looked for, or there is a newer one."""
        self._looked_at = self._locked_until = -inf
        self._looking = trio.Lock()
        self._holding = trio.Lock()
        self._renewal: Promise[HubError | None] | None = None
        """The one that is under way, for all who wait for it."""
        self._renewer: Renewer | None = None

    # --- what sessions ask --------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """The time, of trio's clock, from which `renew` is to be awaited."""
        return self.due_at - (self._now() - trio.current_time()) if self.due_at < inf else inf

    async def renew(self) -> None:
        """Get another token if this one is about to end and that can be done without a person. As the protocol."""
        if self._now() < self.due_at:
            return
        if not self._has_looked:
            await self._look()
            if self._now() < self.due_at:
                return
        await self._load()
        self.check_held()
        now = self._now()
        if self.phase == "needed" and self.account.by_person and now - self._looked_at >= LOOK_AGAIN_S:
            await self._look(again=True)
            if self._now() < self.due_at:
                return
        if now < self.paused_until:
            self.check_usable()
        elif self.is_renewable:
            await self._renew()
        elif self.due_at < inf:
            self.note("ended", self.problem or self.sentence_to_sign_in())
            self.check_usable()

    async def replace_refused(self, shown: str, challenges: Sequence[str]) -> bool:
        """The upstream refused (401) a request that showed `shown`. As the protocol."""
        await self._load()
        self.challenge = parse_challenges(challenges)
        if not self._has_looked or self.grant is None:
            await self._look(again=True)
        if self.authorization and shown != self.authorization:
            return True
        self.check_held()
        if self.grant is not None and self.is_young:
            await self._hold(self.grant.key.issuer)
            raise self.hold_failure()
        if not self.is_renewable:
            self.end()
            if self.grant is None:
                self.due_at = inf
            self._looked_at = self._now()
            self.note("refused", self.problem or self.sentence_to_sign_in())
            raise self.failure(self.problem)
        if self._now() < self.paused_until:
            raise self.pause_failure()
        self.ends = -inf
        await self._renew(refused=shown)
        return self.authorization != shown

    async def widen_scope(self, shown: str, challenges: Sequence[str], operation: str) -> bool:
        """The upstream wants more scopes (403) for `operation`. As the protocol."""
        await self._load()
        self.challenge = parse_challenges(challenges)
        if not self._has_looked:
            await self._look()
        if self.authorization and shown != self.authorization:
            return True
        if self.grant is None:
            raise self.failure()
        if not (wanted := self.step_up(self.grant, self.challenge, operation)):
            raise self.denial(operation, self.challenge.scope)
        if not self.account.by_person:
            await self._renew(scope=wanted)
            return self.authorization != shown
        self.wanted_scope = wanted
        self._changed()
        raise self.scope_failure(operation, self.challenge.scope)

    # --- what sign-ins and commands do --------------------------------------------------------------------------------

    @property
    def asks_person(self) -> bool:
        """True if a sign-in would help now."""
        return self.account.by_person and (self.phase == "needed" or bool(self.wanted_scope))

    @property
    def is_idle(self) -> bool:
        """True if nothing would be lost with it: there is no grant, and none is on its way."""
        return self.grant is None and self._renewal is None and not self.askings

    def row(self, key_source: str) -> model.AccountRow:
        """The row for people. `key_source`: the place of the key that seals the grant."""
        grant = self.grant
        return model.AccountRow(
            upstream=self.account.upstream,
            principal=self.account.principal,
            state=self.state,
            issuer=grant.key.issuer if grant else "",
            expires_at=grant.expires_at if grant else None,
            renewable=self.is_renewable,
            scope=grant.scope if grant else "",
            note=self.problem,
            key_source=key_source,
        )

    def note_problem(self, text: str) -> None:
        """Nobody can sign in; the text for people says why."""
        if self.grant is None:
            self.note("refused", text)

    def signed_in(self, grant: model.Grant) -> None:
        """Use the grant of a new sign-in, which is kept already, if its tokens may be sent to this upstream."""
        if self.account.upstream and not is_for(grant, self.account.url):
            return
        self._has_looked = True
        self.wanted_scope = ""
        self.release()
        self.is_kept = True
        self.use(grant)
        self.note("tokens")

    def try_again(self) -> None:
        """Ask with the next request whatever failed before: what it was for want of is there now."""
        if not self.account.by_person:
            self.release()
            self.end_pause()

    async def current(self) -> model.Grant:
        """The grant, with an ID token that lasts, if it is that of an identity provider. Raises OAuthProblem: nobody
        has signed in there, or it cannot be renewed; OAuthUnavailable: it cannot be renewed now."""
        await self._load()
        if not self._has_looked or self.grant is None:
            await self._look(again=True)
        if self.grant is None or self.grant.id_token is None:
            self.note("refused", self.problem or self.sentence_to_sign_in())
            raise model.OAuthProblem(self.problem)
        if not lasts(self.grant.id_token, self._wall()):
            if not self.is_renewable:
                self.note("ended", self.sentence_to_sign_in())
                raise model.OAuthProblem(self.problem)
            try:
                await self._renew(refused=self.authorization)
            except UpstreamUnauthorized as error:
                if error.retry_after_ms is None:
                    raise model.OAuthProblem(str(error)) from None
                raise model.OAuthUnavailable(str(error), retry_after_s=error.retry_after_ms / 1000) from None
        return self.grant

    async def logout(self, forget: bool = False) -> "LoggedOut":
        """End the grant at the authorization server, so far as it does that within some seconds, and then here.
        `forget`: the client id of the hub there, too. Raises NotKept: it cannot be deleted; OAuthUnavailable: another
        process keeps it locked."""
        renewer = await self._load()
        try:
            await self._look(again=True)
        except UpstreamUnresolved:  # what is kept is deleted unread
            self._has_looked = True
        done = await renewer.log_out(self.grant, forget=forget)
        self.release()
        self.forget()
        return done

    # --- how that is done ---------------------------------------------------------------------------------------------

    async def _load(self) -> "Renewer":
        """Have all loaded that is needed when an upstream wants a token, or another one."""
        if self._renewer is None:
            await load("upstreams.oauth.renewal")
            from upstreams.oauth.renewal import Renewer

            self._renewer = Renewer(self.account, self._shared)
        return self._renewer

    async def _look(self, *, again: bool = False) -> None:
        """Read the grant that is kept. `again`: perhaps another process has one by now. Raises UpstreamUnresolved: the
        key cannot be had now."""
        async with self._looking:
            if self._has_looked and (not again or (self.grant is not None and self.phase != "needed")):
                return
            self._looked_at = now = self._now()
            if now < self._locked_until:
                raise UpstreamUnresolved(self.problem, upstream=self.account.upstream)
            renewer = await self._load()
            from upstreams.oauth.store.key_seal import KeyLocked

            try:
                grant, problem = await renewer.find_kept()
            except KeyLocked as locked:
                self._locked_until = self._now() + LOCKED_S
                self.tell_person(str(locked))
                raise UpstreamUnresolved(str(locked), upstream=self.account.upstream) from None
            self._has_looked = True
            if problem:
                self.due_at = inf
                self.note("refused", problem)
            elif grant is None and self.grant is None:
                self.due_at = inf
            elif grant is not None and grant != self.grant:
                self.use(grant)
                self.note("ended" if grant.sign_in_needed else "tokens", grant.note)

    async def _hold(self, issuer: str) -> None:
        """A fresh token was refused, and another one would be no better: hold back, and find out meanwhile whether the
        upstream names another authorization server than `issuer` by now."""
        async with self._holding:
            if self._now() < self.held_until:
                return
            upstream = self.account.upstream
            if moved_to := await (await self._load()).find_new_issuer(issuer, self.challenge):
                text = f"{upstream} now names {moved_to} as its authorization server; until now it was {issuer}."
                text += f" If you expect that, run {model.sign_in_command(upstream)} in a terminal."
            else:
                text = f"{upstream} refuses (401) the token that {issuer} has just given for it;"
                text += f" perhaps it is for another audience. Nothing is tried for {HOLD_S:g} s."
            self.hold(text, has_moved=bool(moved_to))

    async def _renew(self, *, refused: str = "", scope: str = "") -> None:
        """Renew, or wait for the renewal that is under way; as in `renewing.Renewal`. Raises HubError: it failed.
        Cancellation: it goes on for the others."""
        if self._renewal is None:
            promise = self._renewal = Promise[HubError | None]()
            self.note("begun", self.problem)
            what, challenge = f"the renewal for {self.account.upstream}", self.challenge
            self._shared.spawn(what, lambda: self._run_renewal(promise, challenge, refused, scope))
        if (error := await self._renewal.wait()) is not None:
            raise without_frames(error)

    async def _run_renewal(
        self, promise: Promise[HubError | None], challenge: model.Challenge, refused: str, scope: str
    ) -> None:
        error: HubError | None = self.failure("The hub ends.", 1.0)
        try:
            renewer = await self._load()
            from upstreams.oauth.renewal import Renewal

            began = sign_in_of(self.grant)
            outcome = await Renewal(renewer, self, challenge, refused.removeprefix("Bearer "), scope).run()
            if sign_in_of(self.grant) == began:
                error = self.apply(outcome)
            else:  # somebody has signed in anew meanwhile, perhaps elsewhere: what came of the old sign-in is nothing
                error = None if self.is_usable else self.failure(self.problem)
        finally:
            if self.phase == "renewing":
                self.note("paused", self.problem)
            self._renewal = None
            promise.fulfil(error)

    def _changed(self) -> None:
        if self.phase == "none":
            self.wanted_scope = ""
        self._on_change(self.account.upstream, self.account.principal)
