"""Failures of a credential, as hosts are told: why a request cannot be sent, what to do, and when to try again."""

from collections.abc import Callable

from hub.link.hub_errors import UpstreamDenied, UpstreamUnauthorized
from upstreams.oauth import texts
from upstreams.oauth.holding import Hold
from upstreams.oauth.standing import Standing


class Failures:
    """Those of one credential; `clock` is the shared one."""

    def __init__(self, upstream: str, standing: Standing, hold: Hold, clock: Callable[[], float]) -> None:
        self._upstream = upstream
        self._standing = standing
        self._hold = hold
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Failures of {self._upstream}>"

    def sign_in_needed(self) -> str:
        """The sentence that somebody has to sign in."""
        grant = self._standing.grant
        return texts.sign_in_needed(self._upstream, grant.key.issuer if grant else "")

    def because(self, text: str, until: float | None = None) -> UpstreamUnauthorized:
        """The failure for the reason `text`, or for want of a sign-in; `until`: the time before which it makes no
        sense to try again."""
        retry_ms = None if until is None else max(0, round(1000 * (until - self._clock())))
        return UpstreamUnauthorized(text or self.sign_in_needed(), upstream=self._upstream, retry_after_ms=retry_ms)

    def as_noted(self) -> UpstreamUnauthorized:
        """The failure for the reason that was noted last."""
        return self.because(self._standing.problem)

    def paused(self, now: float) -> UpstreamUnauthorized:
        """The failure while the next renewal is paused."""
        why = self._standing.problem.rstrip(".") or "the authorization server does not answer"
        until = self._standing.pauses.until
        return self.because(texts.not_renewed(self._upstream, why, until - now), until)

    def held(self) -> UpstreamUnauthorized:
        """The failure after a fresh token was refused."""
        return self.because(self._standing.problem, None if self._hold.has_moved else self._hold.until)

    def raise_unless_usable(self, now: float) -> None:
        """Nothing, if there is a token that lasts.

        Raises:
            UpstreamUnauthorized: there is none.
        """
        if not self._standing.is_usable(now):
            raise self.paused(now) if now < self._standing.pauses.until else self.as_noted()

    def scope_needed(self, operation: str, scope: str) -> UpstreamUnauthorized:
        """A person has to sign in for more scopes first."""
        return self.because(texts.scope_needed(self._upstream, _short(operation), scope))

    def denied(self, operation: str, scope: str) -> UpstreamDenied:
        """The scopes that an operation wants are not to be had."""
        wanted = scope or "that it does not name"
        return UpstreamDenied(texts.scope_denied(self._upstream, _short(operation), wanted), upstream=self._upstream)


def _short(operation: str) -> str:
    return "".join(char for char in operation if char.isprintable())[:80]
