"""The credential of one upstream and principal: what sessions show, and when it is replaced.

`renew` is awaited before a request, `refused` after a 401, `lacks_scope` after a 403. Whatever must be asked for is
asked once for all that wait, in a task that none of them owns; `renewing` does it. Here it is decided what becomes of
those who wait.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from config.oauth_settings import UpstreamOAuth
from hub.link.hub_errors import HubError, UpstreamDenied, UpstreamUnauthorized, UpstreamUnresolved, without_frames
from hub.link.loading import load
from hub.link.promise import Promise
from upstreams.oauth import texts
from upstreams.oauth.holding import Hold
from upstreams.oauth.model import Challenge, Grant, GrantKey, OAuthProblem, OAuthUnavailable
from upstreams.oauth.parts import Shared
from upstreams.oauth.renewal import YOUNG_S, Pauses, left_s, until_due_s
from upstreams.oauth.states import Event, Shown, State, after

if TYPE_CHECKING:
    from upstreams.oauth.logout import LoggedOut
    from upstreams.oauth.obtaining import Obtaining
    from upstreams.oauth.renewing import Outcome, Wanted
    from upstreams.oauth.step_up import StepUps

log = logging.getLogger(__name__)

LOCKED_S: Final = 10.0
"""A keyring that is locked is asked again after so long."""
_PARTS: Final = (
    "upstreams.oauth.discovery.challenge",
    "upstreams.oauth.discovery.discover",
    "upstreams.oauth.logout",
    "upstreams.oauth.obtaining",
    "upstreams.oauth.registration.clients",
    "upstreams.oauth.renewing",
    "upstreams.oauth.step_up",
    "upstreams.oauth.tokens.id_token",
)
"""What is needed when an upstream wants a token, or another one."""
LOOK_AGAIN_S: Final = 5.0
"""Interval of looking whether another process has a sign-in by now."""


class UpstreamCredential:
    """What the hub shows the upstream at `url` for `principal`; an `upstreams.session.Credential`.

    Cheap to make: files are read, and modules loaded, when it is first needed. `may_be_kept`: there may be a grant from
    an earlier run. `on_change` is called after each change of `state` or of the token.
    """

    def __init__(
        self,
        upstream: str,
        url: str,
        principal: str,
        settings: UpstreamOAuth,
        shared: Shared,
        *,
        may_be_kept: bool = True,
        make_obtaining: "Callable[[], Obtaining]",
        on_change: Callable[["UpstreamCredential"], None] = lambda credential: None,
    ) -> None:
        self.upstream = upstream
        self.url = url
        self.principal = principal
        self.settings = settings
        self.authorization = ""
        self.challenge = Challenge()
        """The last one of the upstream."""
        self.grant: Grant | None = None
        self.problem = ""
        """What a person should know: why there is no token, or why the last renewal failed."""
        self.wanted_scope = ""
        """What the next sign-in is to ask for; "": what the upstream says."""
        self._shared = shared
        self._make_obtaining = make_obtaining
        self._on_change = on_change
        self._obtaining_made: Obtaining | None = None
        self._state: State = "none"
        self._askings = 0
        self._is_loaded = not may_be_kept
        self._loading = trio.Lock()
        self._looked_at = -inf
        self._locked_until = -inf
        self._due = -inf if may_be_kept else inf
        self._ends = -inf
        """When the access token ends, or was refused."""
        self._got_at = -inf
        self._hold = Hold(upstream, url, settings, shared)
        self._is_kept = True
        self._pauses = Pauses()
        self._was_unclear = False
        self._renewal: Promise[HubError | None] | None = None
        self._step_ups: StepUps | None = None

    def __repr__(self) -> str:
        return f"<UpstreamCredential {self.principal}@{self.upstream} {self.state}>"

    # --- what sessions ask --------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """The time, of trio's clock, from which `renew` is to be awaited."""
        return self._due - (self._shared.clock() - trio.current_time()) if self._due < inf else inf

    async def renew(self) -> None:
        """Get another token if this one is about to end and that can be done without a person. As the protocol."""
        if self._now() < self._due:
            return
        if not self._is_loaded:
            await self._load()
            if self._now() < self._due:
                return
        await load(*_PARTS)
        now = self._now()
        if self._hold.is_on:
            raise self._held()
        if self._state == "needed" and self._can_look(now):
            await self._load(again=True)
            if self._now() < self._due:
                return
        if now < self._pauses.until:
            self._use_or_raise()
        elif self._obtaining.can(self.grant):
            await self._renewed()
        elif self._due < inf:
            self._note("ended", self.problem or self._sign_in_needed())
            self._use_or_raise()

    async def refused(self, shown: str, challenges: Sequence[str]) -> bool:
        """The upstream refused (401) a request that showed `shown`. As the protocol."""
        await load(*_PARTS)
        self.challenge = self._shared.finding.parse(challenges)
        if not self._is_loaded or self.grant is None:
            await self._load(again=True)
        if self.authorization and shown != self.authorization:
            return True
        now = self._now()
        if self._hold.is_on:
            raise self._held()
        if self.grant is not None and now - self._got_at < YOUNG_S and now < self._ends:
            await self._hold_back(self.grant.key.issuer)
            raise self._held()
        if not self._obtaining.can(self.grant):
            self._ends = -inf
            self._due = -inf if self.grant is not None else inf
            self._looked_at = now
            self._note("refused", self.problem or self._sign_in_needed())
            raise self._error(self.problem)
        if now < self._pauses.until:
            raise self._paused(now)
        self._ends = -inf
        await self._renewed(refused=shown)
        return self.authorization != shown

    async def lacks_scope(self, shown: str, challenges: Sequence[str], operation: str) -> bool:
        """The upstream wants more scopes (403) for `operation`. As the protocol."""
        await load(*_PARTS)
        self.challenge = self._shared.finding.parse(challenges)
        if not self._is_loaded:
            await self._load()
        if self.authorization and shown != self.authorization:
            return True
        grant = self.grant
        if grant is None:
            raise self._error(self._sign_in_needed())
        if self._step_ups is None:
            from upstreams.oauth.step_up import MAX_STEP_UPS, StepUps

            self._step_ups = StepUps(MAX_STEP_UPS if self._obtaining.by_person else 1)
        wanted = self._step_ups.scopes(grant, self.challenge, self.settings, operation)
        if not wanted:
            raise self._denied(operation)
        if not self._obtaining.by_person:
            await self._renewed(scope=wanted)
            return self.authorization != shown
        self.wanted_scope = wanted
        self._changed()
        raise self._error(texts.scope_needed(self.upstream, _short(operation), self.challenge.scope))

    # --- what sign-ins and commands do --------------------------------------------------------------------------------

    @property
    def state(self) -> Shown:
        """For people and other programs, as `states` describes it."""
        return "asking" if self._askings and self._state != "renewing" else self._state

    @property
    def asks_person(self) -> bool:
        """True if a sign-in would help now."""
        return self._obtaining.by_person and (self._state == "needed" or bool(self.wanted_scope))

    @property
    def is_usable(self) -> bool:
        """True if there is a token that lasts."""
        return bool(self.authorization) and self._now() < self._ends

    @property
    def is_renewable(self) -> bool:
        """True if it is renewed without a person."""
        return self._obtaining.can(self.grant)

    @property
    def is_idle(self) -> bool:
        """True if nothing would be lost with it: there is no grant, and none is on its way."""
        return self.grant is None and self._renewal is None and not self._askings

    def asking(self, on: bool) -> None:
        """A sign-in by a person begins, or is over, whatever came of it."""
        self._askings = max(0, self._askings + (1 if on else -1))
        self._changed()

    def signed_in(self, grant: Grant) -> None:
        """Use the grant of a new sign-in, which is kept already, if its tokens may be sent to this upstream."""
        from upstreams.oauth.tokens.grants import is_for

        if self.upstream and not is_for(grant, self.url):
            return
        self._is_loaded = True
        self._is_kept = True
        self._hold.release()
        self.wanted_scope = ""
        self._use(grant)
        self._note("tokens")

    def try_again(self) -> None:
        """Ask with the next request whatever failed before: what it was for want of is there now."""
        if not self._obtaining.by_person:
            self._hold.release()
            self._pauses.succeeded()

    async def current(self) -> Grant:
        """The grant, with an ID token that lasts, if it is that of an identity provider.

        Raises:
            OAuthProblem: nobody has signed in there, or it cannot be renewed.
            OAuthUnavailable: it cannot be renewed now.
        """
        await load(*_PARTS)
        from upstreams.oauth.tokens.id_token import lasts

        if not self._is_loaded or self.grant is None:
            await self._load(again=True)
        if self.grant is None or self.grant.id_token is None:
            self._note("refused", self.problem or self._sign_in_needed())
            raise OAuthProblem(self.problem)
        if not lasts(self.grant.id_token, self._shared.wall()):
            if not self._obtaining.can(self.grant):
                self._note("ended", self._sign_in_needed())
                raise OAuthProblem(self.problem)
            try:
                await self._renewed(refused=self.authorization)
            except UpstreamUnauthorized as error:
                if error.retry_after_ms is None:
                    raise OAuthProblem(str(error)) from None
                raise OAuthUnavailable(str(error), retry_after_s=error.retry_after_ms / 1000) from None
        return self.grant

    async def logout(self, forget: bool = False) -> "LoggedOut":
        """End the grant at the authorization server, so far as it does that within some seconds, and then here.
        `forget`: the client id of the hub there, too.

        Raises:
            NotKept: it cannot be deleted.
            OAuthUnavailable: another process keeps it locked.
        """
        await load(*_PARTS)
        from upstreams.oauth.logout import log_out

        await self._load_whatever_it_is()
        at = (self.upstream, self.principal, self.url)
        done = await log_out(at, self.settings, self.grant, self._shared, forget=forget)
        self._forget()
        return done

    # --- the token ----------------------------------------------------------------------------------------------------

    def _use(self, grant: Grant) -> None:
        wall, now = self._shared.wall(), self._now()
        self.grant = grant
        self._ends = now + left_s(grant, wall)
        self._due = now + until_due_s(grant, wall) if self._obtaining.can(grant) else self._ends
        self._got_at = now - max(0.0, wall - grant.obtained_at)
        authorization = f"Bearer {grant.access_token.reveal()}"
        if authorization != self.authorization:
            self.authorization = authorization
        self._pauses.succeeded()
        self._was_unclear = False

    def _forget(self) -> None:
        self.grant, self.authorization, self.problem, self.wanted_scope = None, "", "", ""
        self._due, self._ends = inf, -inf
        self._is_kept, self._is_loaded = True, True
        self._hold.release()
        self._pauses.succeeded()
        self._note("forgotten")

    async def _load(self, *, again: bool = False) -> None:
        """Read the grant that is kept. `again`: perhaps another process has one by now."""
        async with self._loading:
            if self._is_loaded and not again:
                return
            if self._is_loaded and self.grant is not None and self._state != "needed":
                return
            self._looked_at = now = self._now()
            if now < self._locked_until:
                raise UpstreamUnresolved(self.problem, upstream=self.upstream)
            grant, problem = await self._found()
            self._is_loaded = True
            if problem:
                self._due = inf
                self._note("refused", problem)
            elif grant is None:
                self._due = inf if self.grant is None else self._due
            elif grant != self.grant:
                self._use(grant)
                self._note("ended" if grant.sign_in_needed else "tokens", grant.note)

    async def _found(self) -> tuple[Grant | None, str]:
        await load("upstreams.oauth.kept")
        from upstreams.oauth.kept import kept_grant
        from upstreams.oauth.store.seal import KeyLocked

        try:
            return await kept_grant(self.upstream, self.principal, self.url, self.settings, self._shared)
        except KeyLocked as locked:
            self._locked_until = self._now() + LOCKED_S
            self.problem = str(locked)
            self._changed()
            raise UpstreamUnresolved(str(locked), upstream=self.upstream) from None

    async def _load_whatever_it_is(self) -> None:
        try:
            await self._load(again=True)
        except UpstreamUnresolved:
            self._is_loaded = True

    def _can_look(self, now: float) -> bool:
        return self._obtaining.by_person and now - self._looked_at >= LOOK_AGAIN_S

    # --- renewal ------------------------------------------------------------------------------------------------------

    async def _renewed(self, *, refused: str = "", scope: str = "") -> None:
        """Renew, or wait for the renewal that is under way. Cancellation: it goes on for the others."""
        if self._renewal is None:
            from upstreams.oauth.renewing import Wanted

            wanted = Wanted(refused.removeprefix("Bearer "), scope, self.challenge)
            promise = self._renewal = Promise[HubError | None]()
            self._note("begun", self.problem)
            self._shared.spawn(f"the renewal for {self.upstream}", lambda: self._run(promise, wanted))
        error = await self._renewal.wait()
        if error is not None:
            raise without_frames(error)

    async def _run(self, promise: Promise[HubError | None], wanted: "Wanted") -> None:
        error: HubError | None = self._error("The hub ends.", self._now() + 1.0)
        try:
            from upstreams.oauth.renewing import Renewer

            renewer = Renewer(self.upstream, self._obtaining, self._shared)
            began = _sign_in_of(self.grant)
            outcome = await renewer.renewed(self.grant, wanted, is_kept=self._is_kept, was_unclear=self._was_unclear)
            if _sign_in_of(self.grant) == began:
                error = self._took(outcome)
            else:  # somebody has signed in anew meanwhile, perhaps elsewhere: what came of the old sign-in is nothing
                error = None if self.is_usable else self._error(self.problem)
        finally:
            if self._state == "renewing":
                self._note("paused", self.problem)
            self._renewal = None
            promise.fulfil(error)

    def _took(self, outcome: "Outcome") -> HubError | None:
        """Take over what came of a renewal; the error of those who waited for it."""
        now = self._now()
        if outcome.event == "forgotten":
            self._forget()
            return self._error(outcome.text)
        if outcome.grant is not None and outcome.event == "tokens":
            self._use(outcome.grant)
            self._is_kept = outcome.is_kept
            self._note("tokens", "" if outcome.is_kept else "It could not be kept, and is gone when the hub ends.")
            return None
        if outcome.grant is not None:
            ends = self._ends
            self._use(outcome.grant)
            self._ends = min(self._ends, ends)
        if outcome.unclear:
            self._was_unclear = True
            self._pauses.unclear(now)
        elif outcome.event == "paused" or not self._obtaining.by_person:
            self._pauses.failed(now, outcome.retry_after_s)
        self._due = max(self._pauses.until, now) if outcome.event == "paused" else max(self._ends, self._pauses.until)
        self._note(outcome.event, outcome.text)
        if self.is_usable:
            return None
        self._due = -inf
        return self._paused(now) if outcome.event == "paused" else self._error(outcome.text)

    def _use_or_raise(self) -> None:
        now = self._now()
        if self.is_usable:
            return
        raise self._paused(now) if now < self._pauses.until else self._error(self.problem)

    async def _hold_back(self, issuer: str) -> None:
        """A fresh token was refused: try nothing for a while."""
        text = await self._hold.begin(issuer, self.challenge)
        if not text:
            return
        if self._hold.has_moved:
            self.authorization = ""
        self._due = self._ends = -inf
        self._note("refused", text)

    # --- small things -------------------------------------------------------------------------------------------------

    @property
    def _obtaining(self) -> "Obtaining":
        if self._obtaining_made is None:
            self._obtaining_made = self._make_obtaining()
        return self._obtaining_made

    def _now(self) -> float:
        return self._shared.clock()

    def _note(self, event: Event, text: str = "") -> None:
        self._state = after(self._state, event)
        self.problem = text
        self._changed()

    def _changed(self) -> None:
        self._on_change(self)

    def _sign_in_needed(self) -> str:
        return texts.sign_in_needed(self.upstream, self.grant.key.issuer if self.grant else "")

    def _denied(self, operation: str) -> UpstreamDenied:
        scope = self.challenge.scope or "that it does not name"
        return UpstreamDenied(texts.scope_denied(self.upstream, _short(operation), scope), upstream=self.upstream)

    def _paused(self, now: float) -> UpstreamUnauthorized:
        why = self.problem.rstrip(".") or "the authorization server does not answer"
        until = self._pauses.until
        return self._error(texts.not_renewed(self.upstream, why, until - now), until)

    def _held(self) -> UpstreamUnauthorized:
        """The failure after a fresh token was refused."""
        return self._error(self.problem, None if self._hold.has_moved else self._hold.until)

    def _error(self, text: str, until: float | None = None) -> UpstreamUnauthorized:
        """A failure to be told to a host; `until`: the time before which it makes no sense to try again."""
        retry_ms = None if until is None else max(0, round(1000 * (until - self._now())))
        return UpstreamUnauthorized(text or self._sign_in_needed(), upstream=self.upstream, retry_after_ms=retry_ms)


def _sign_in_of(grant: Grant | None) -> tuple[GrantKey, float] | None:
    """What all generations of one sign-in have in common."""
    return None if grant is None else (grant.key, grant.signed_in_at)


def _short(operation: str) -> str:
    return "".join(char for char in operation if char.isprintable())[:80]
