"""Renewal: when a token is renewed, what an outcome means, and how long to wait after a failure. Pure.

Times are seconds; which clock they are of is said.
"""

from enum import Enum
from math import inf
from typing import Final

from upstreams.oauth.model import Grant, OAuthProblem, OAuthUnavailable

SHORTEST_MARGIN_S: Final = 30.0
LONGEST_MARGIN_S: Final = 300.0
MARGIN_PART: Final = 0.1
"""A token is renewed before a request if less than this part of its life is left, within the two bounds."""
CLOCKS_DIFFER_S: Final = 5.0
"""A time of day may be so much ahead, since the clock is corrected now and then."""
YOUNG_S: Final = 30.0
"""A token that the server refuses so soon is not renewed: another one would be no better."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
UNCLEAR_PAUSE_S: Final = 60.0
"""Pause after a refusal that does not say why."""
UNCLEAR: Final = 2
"""So many of those mean that the grant is gone."""


def margin_s(life_s: float) -> float:
    """The part of a token's life that is left when it is renewed; at most half of it."""
    margin = max(SHORTEST_MARGIN_S, min(LONGEST_MARGIN_S, MARGIN_PART * life_s))
    return min(margin, life_s / 2)


def left_s(grant: Grant, wall: float) -> float:
    """Seconds that the access token lasts at wall time `wall`; infinity: nobody knows. None are left of a token that
    begins in the future: the clock was set back, and nobody can tell."""
    if grant.expires_at is None:
        return inf
    if grant.obtained_at > wall + CLOCKS_DIFFER_S:
        return 0.0
    return max(grant.expires_at - wall, 0.0)


def until_due_s(grant: Grant, wall: float) -> float:
    """Seconds until the access token is to be renewed."""
    left = left_s(grant, wall)
    if grant.expires_at is None or left == inf:
        return inf
    return max(left - margin_s(max(grant.expires_at - grant.obtained_at, 0.0)), 0.0)


class Verdict(Enum):
    """The meaning of a failed renewal."""

    GRANT_GONE = "grant gone"
    CLIENT_GONE = "client gone"
    UNCLEAR = "unclear"
    LATER = "later"


def judged(failure: OAuthProblem | OAuthUnavailable, status: int = 0) -> Verdict:
    """The meaning of a failure; `status`: that of the answer, if there was one."""
    if isinstance(failure, OAuthUnavailable):
        return Verdict.LATER
    if failure.code == "invalid_grant":
        return Verdict.GRANT_GONE
    if failure.code in ("invalid_client", "unauthorized_client"):
        return Verdict.CLIENT_GONE
    if status in (401, 403):
        return Verdict.LATER
    return Verdict.UNCLEAR


class Pauses:
    """Pauses between tries, which double until one succeeds; and the refusals in a row that did not say why."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S
        self._unclear = 0
        self.until = -inf
        """The time before which nothing is tried."""

    def __repr__(self) -> str:
        return f"<Pauses, next {self._next_s:g} s>"

    def succeeded(self) -> None:
        """Begin anew."""
        self._next_s, self._unclear, self.until = FIRST_PAUSE_S, 0, -inf

    def failed(self, now: float, retry_after_s: float | None = None) -> None:
        """Pause, for as long as the server says if it does."""
        self.until = now + (self._next_s if retry_after_s is None else retry_after_s)
        self._next_s = min(self._next_s * 2, LONGEST_PAUSE_S)

    def unclear(self, now: float) -> bool:
        """Pause after a refusal that does not say why; True: it was one too many."""
        self._unclear += 1
        self.until = now + UNCLEAR_PAUSE_S
        return self._unclear >= UNCLEAR
