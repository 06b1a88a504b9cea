"""The credential of one upstream and principal: what sessions show, and when it is replaced.

`renew` is awaited before a request, `refused` after a 401, `lacks_scope` after a 403. Whatever must be asked for is
asked once for all that wait, in a task that none of them owns; `renewing` does it. Here it is decided what becomes of
those who wait.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import WeakMethod

import trio

from config.oauth_settings import UpstreamOAuth
from hub.link.hub_errors import UpstreamUnauthorized
from hub.link.loading import load
from upstreams.oauth.failures import Failures
from upstreams.oauth.holding import Hold
from upstreams.oauth.kept_lookup import KeptLookup
from upstreams.oauth.model import Challenge, Grant, OAuthProblem, OAuthUnavailable
from upstreams.oauth.parts import Shared
from upstreams.oauth.shared_renewal import SharedRenewal
from upstreams.oauth.standing import Standing
from upstreams.oauth.states import Shown

if TYPE_CHECKING:
    from upstreams.oauth.logout import LoggedOut
    from upstreams.oauth.obtaining import Obtaining
    from upstreams.oauth.step_up import StepUps

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
"""The modules that are needed when an upstream wants a token, or another one."""


class UpstreamCredential:
    """The credential that the hub shows the upstream at `url` for `principal`; an `upstreams.session.Credential`.

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
        self.wanted_scope = ""
        """The scopes that the next sign-in is to ask for; "": what the upstream says."""
        self._shared = shared
        self._now = shared.clock
        self._on_change = on_change
        self._obtaining = obtaining = cache(make_obtaining)
        # weak, or it would stay in memory until garbage is collected
        self._standing = standing = Standing(WeakMethod(self._changed), may_be_kept=may_be_kept)
        self._hold = hold = Hold(upstream, url, settings, shared)
        self._failures = Failures(upstream, standing, hold, shared.clock)
        self._kept = KeptLookup(
            upstream, url, principal, settings, shared, standing, obtaining, is_loaded=not may_be_kept
        )
        self._renewal = SharedRenewal(upstream, self._failures, hold, shared, standing, obtaining)
        self._step_ups: StepUps | None = None

    def __repr__(self) -> str:
        return f"<UpstreamCredential {self.principal}@{self.upstream} {self.state}>"

    # --- what sessions ask --------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """The time, of trio's clock, from which `renew` is to be awaited."""
        due = self._standing.due
        return due - (self._shared.clock() - trio.current_time()) if due < inf else inf

    async def renew(self) -> None:
        """Get another token if this one is about to end and that can be done without a person. As the protocol."""
        standing = self._standing
        if self._now() < standing.due:
            return
        if not self._kept.is_loaded:
            await self._kept.load()
            if self._now() < standing.due:
                return
        await load(*_PARTS)
        now = self._now()
        if self._hold.is_on:
            raise self._failures.held()
        if standing.state == "needed" and self._kept.is_due(now):
            await self._kept.load(again=True)
            if self._now() < standing.due:
                return
        if now < standing.pauses.until:
            self._failures.raise_unless_usable(self._now())
        elif self._obtaining().can(standing.grant):
            await self._renewal.renewed(self, self.challenge)
        elif standing.due < inf:
            standing.note("ended", standing.problem or self._failures.sign_in_needed())
            self._failures.raise_unless_usable(self._now())

    async def refused(self, shown: str, challenges: Sequence[str]) -> bool:
        """The upstream refused (401) a request that showed `shown`. As the protocol."""
        await load(*_PARTS)
        standing = self._standing
        self.challenge = self._shared.finding.parse(challenges)
        if not self._kept.is_loaded or standing.grant is None:
            await self._kept.load(again=True)
        if self.authorization and shown != self.authorization:
            return True
        now = self._now()
        if self._hold.is_on:
            raise self._failures.held()
        if standing.grant is not None and standing.is_young(now):
            await self._hold_back(standing.grant.key.issuer)
            raise self._failures.held()
        if not self._obtaining().can(standing.grant):
            standing.end()
            if standing.grant is None:
                standing.due = inf
            self._kept.looked_at = now
            standing.note("refused", standing.problem or self._failures.sign_in_needed())
            raise self._failures.as_noted()
        if now < standing.pauses.until:
            raise self._failures.paused(now)
        standing.ends = -inf
        await self._renewal.renewed(self, self.challenge, refused=shown)
        return self.authorization != shown

    async def lacks_scope(self, shown: str, challenges: Sequence[str], operation: str) -> bool:
        """The upstream wants more scopes (403) for `operation`. As the protocol."""
        await load(*_PARTS)
        self.challenge = self._shared.finding.parse(challenges)
        if not self._kept.is_loaded:
            await self._kept.load()
        if self.authorization and shown != self.authorization:
            return True
        grant = self.grant
        if grant is None:
            raise self._failures.because("")
        if self._step_ups is None:
            from upstreams.oauth.step_up import MAX_STEP_UPS, StepUps

            self._step_ups = StepUps(MAX_STEP_UPS if self._obtaining().by_person else 1)
        wanted = self._step_ups.scopes(grant, self.challenge, self.settings, operation)
        if not wanted:
            raise self._failures.denied(operation, self.challenge.scope)
        if not self._obtaining().by_person:
            await self._renewal.renewed(self, self.challenge, scope=wanted)
            return self.authorization != shown
        self.wanted_scope = wanted
        self._changed()
        raise self._failures.scope_needed(operation, self.challenge.scope)

    # --- what sign-ins and commands do --------------------------------------------------------------------------------

    @property
    def grant(self) -> Grant | None:
        """The grant of the sign-in; None: there is none."""
        return self._standing.grant

    @property
    def problem(self) -> str:
        """The note for a person: why there is no token, or why the last renewal failed."""
        return self._standing.problem

    @property
    def state(self) -> Shown:
        """For people and other programs, as `states` describes it."""
        return self._standing.shown

    @property
    def asks_person(self) -> bool:
        """True if a sign-in would help now."""
        return self._obtaining().by_person and (self._standing.state == "needed" or bool(self.wanted_scope))

    @property
    def is_usable(self) -> bool:
        """True if there is a token that lasts."""
        return self._standing.is_usable(self._now())

    @property
    def is_renewable(self) -> bool:
        """True if it is renewed without a person."""
        return self._obtaining().can(self.grant)

    @property
    def is_idle(self) -> bool:
        """True if nothing would be lost with it: there is no grant, and none is on its way."""
        return self.grant is None and not self._renewal.is_under_way and not self._standing.is_asking

    def asking(self, on: bool) -> None:
        """A sign-in by a person begins, or is over, whatever came of it."""
        self._standing.asking(on)

    def signed_in(self, grant: Grant) -> None:
        """Use the grant of a new sign-in, which is kept already, if its tokens may be sent to this upstream."""
        from upstreams.oauth.tokens.grants import is_for

        if self.upstream and not is_for(grant, self.url):
            return
        self._kept.is_loaded = True
        self._hold.release()
        self.wanted_scope = ""
        standing = self._standing
        standing.is_kept = True
        standing.use(grant, self._shared.wall(), self._now(), is_renewable=self._obtaining().can(grant))
        standing.note("tokens")

    def try_again(self) -> None:
        """Ask with the next request whatever failed before: what it was for want of is there now."""
        if not self._obtaining().by_person:
            self._hold.release()
            self._standing.pauses.succeeded()

    async def current(self) -> Grant:
        """The grant, with an ID token that lasts, if it is that of an identity provider.

        Raises:
            OAuthProblem: nobody has signed in there, or it cannot be renewed.
            OAuthUnavailable: it cannot be renewed now.
        """
        await load(*_PARTS)
        from upstreams.oauth.tokens.id_token import lasts

        standing = self._standing
        if not self._kept.is_loaded or standing.grant is None:
            await self._kept.load(again=True)
        if standing.grant is None or standing.grant.id_token is None:
            standing.note("refused", standing.problem or self._failures.sign_in_needed())
            raise OAuthProblem(standing.problem)
        if not lasts(standing.grant.id_token, self._shared.wall()):
            if not self._obtaining().can(standing.grant):
                standing.note("ended", self._failures.sign_in_needed())
                raise OAuthProblem(standing.problem)
            try:
                await self._renewal.renewed(self, self.challenge, refused=self.authorization)
            except UpstreamUnauthorized as error:
                if error.retry_after_ms is None:
                    raise OAuthProblem(str(error)) from None
                raise OAuthUnavailable(str(error), retry_after_s=error.retry_after_ms / 1000) from None
        return standing.grant

    async def logout(self, forget: bool = False) -> "LoggedOut":
        """End the grant at the authorization server, so far as it does that within some seconds, and then here.
        `forget`: the client id of the hub there, too.

        Raises:
            NotKept: it cannot be deleted.
            OAuthUnavailable: another process keeps it locked.
        """
        await load(*_PARTS)
        from upstreams.oauth.logout import log_out

        await self._kept.load_if_possible()
        at = (self.upstream, self.principal, self.url)
        done = await log_out(at, self.settings, self.grant, self._shared, forget=forget)
        self._hold.release()
        self._standing.forget()
        return done

    # --- small things -------------------------------------------------------------------------------------------------

    async def _hold_back(self, issuer: str) -> None:
        """A fresh token was refused: try nothing for a while."""
        if text := await self._hold.begin(issuer, self.challenge):
            self._standing.end(is_moved=self._hold.has_moved)
            self._standing.note("refused", text)

    def _changed(self) -> None:
        self.authorization = self._standing.authorization
        if self._standing.state == "none":
            self.wanted_scope = ""
        self._on_change(self)
