"""One renewal for all that wait for it, in a task that none of them owns, and what becomes of the credential by it."""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from hub.link.hub_errors import HubError, without_frames
from hub.link.promise import Promise
from upstreams.oauth.failures import Failures
from upstreams.oauth.holding import Hold
from upstreams.oauth.model import Challenge, Grant, GrantKey
from upstreams.oauth.parts import Shared
from upstreams.oauth.standing import Standing

if TYPE_CHECKING:
    from upstreams.oauth.obtaining import Obtaining
    from upstreams.oauth.renewing import Outcome, Wanted


class SharedRenewal:
    """Renews one credential."""

    def __init__(
        self,
        upstream: str,
        failures: Failures,
        hold: Hold,
        shared: Shared,
        standing: Standing,
        obtaining: "Callable[[], Obtaining]",
    ) -> None:
        self._upstream = upstream
        self._standing = standing
        self._failures = failures
        self._shared = shared
        self._obtaining = obtaining
        self._hold = hold
        self._under_way: Promise[HubError | None] | None = None

    def __repr__(self) -> str:
        return f"<SharedRenewal of {self._upstream}{', under way' if self.is_under_way else ''}>"

    @property
    def is_under_way(self) -> bool:
        """True while another token is being asked for."""
        return self._under_way is not None

    async def renewed(self, whose: object, challenge: Challenge, *, refused: str = "", scope: str = "") -> None:
        """Renew, or wait for the renewal that is under way; the last ones as in `renewing.Wanted`. `whose`: the
        credential, which lives as long as its renewal, so that there are never two for the same.

        Raises:
            HubError: it failed.
        Cancellation: it goes on for the others.
        """
        if self._under_way is None:
            from upstreams.oauth.renewing import Wanted

            wanted = Wanted(refused.removeprefix("Bearer "), scope, challenge)
            promise = self._under_way = Promise[HubError | None]()
            self._standing.note("begun", self._standing.problem)
            self._shared.spawn(f"the renewal for {self._upstream}", lambda: self._run(whose, promise, wanted))
        error = await self._under_way.wait()
        if error is not None:
            raise without_frames(error)

    async def _run(self, whose: object, promise: Promise[HubError | None], wanted: "Wanted") -> None:
        standing = self._standing
        error: HubError | None = self._failures.because("The hub ends.", self._shared.clock() + 1.0)
        try:
            from upstreams.oauth.renewing import Renewer

            renewer = Renewer(self._upstream, self._obtaining(), self._shared)
            began = _sign_in_of(standing.grant)
            outcome = await renewer.renewed(
                standing.grant, wanted, is_kept=standing.is_kept, was_unclear=standing.was_unclear
            )
            if _sign_in_of(standing.grant) == began:
                error = self._took(outcome)
            else:  # somebody has signed in anew meanwhile, perhaps elsewhere: what came of the old sign-in is nothing
                error = None if standing.is_usable(self._shared.clock()) else self._failures.as_noted()
        finally:
            if standing.state == "renewing":
                standing.note("paused", standing.problem)
            self._under_way = None
            promise.fulfil(error)

    def _took(self, outcome: "Outcome") -> HubError | None:
        """Take over what came of a renewal; the error of those who waited for it."""
        standing, now = self._standing, self._shared.clock()
        pauses = standing.pauses
        if outcome.event == "forgotten":
            self._hold.release()
            standing.forget()
            return self._failures.because(outcome.text)
        if outcome.grant is not None and outcome.event == "tokens":
            self._use(outcome.grant)
            standing.is_kept = outcome.is_kept
            standing.note("tokens", "" if outcome.is_kept else "It could not be kept, and is gone when the hub ends.")
            return None
        if outcome.grant is not None:
            ends = standing.ends
            self._use(outcome.grant)
            standing.ends = min(standing.ends, ends)
        if outcome.unclear:
            standing.was_unclear = True
            pauses.unclear(now)
        elif outcome.event == "paused" or not self._obtaining().by_person:
            pauses.failed(now, outcome.retry_after_s)
        standing.due = max(pauses.until, now) if outcome.event == "paused" else max(standing.ends, pauses.until)
        standing.note(outcome.event, outcome.text)
        if standing.is_usable(self._shared.clock()):
            return None
        standing.due = -inf
        return self._failures.paused(now) if outcome.event == "paused" else self._failures.because(outcome.text)

    def _use(self, grant: Grant) -> None:
        is_renewable = self._obtaining().can(grant)
        self._standing.use(grant, self._shared.wall(), self._shared.clock(), is_renewable=is_renewable)


def _sign_in_of(grant: Grant | None) -> tuple[GrantKey, float] | None:
    """The key and time that all generations of one sign-in have in common."""
    return None if grant is None else (grant.key, grant.signed_in_at)
