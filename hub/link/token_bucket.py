"""Token bucket: a limit of how much may pass at once, and how much a second from then on. Pure: time is an argument."""

from typing import Final

ROUNDING: Final = 1e-9
"""Tolerance for rounding errors of fractions of seconds."""


class TokenBucket:
    """Holds `most` tokens at first, and never more; `per_s` tokens are added each second."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, most: float, per_s: float) -> None:
        self._most = self._left = most
        self._per_s = per_s
        self._at = 0.0

    def __repr__(self) -> str:
        return f"<TokenBucket, {self._left:g} of {self._most:g} at {self._at:g}>"

    def take(self, now: float, amount: float = 1) -> bool:
        """Take `amount` tokens if there are as many by now; else take none and return False."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < amount - ROUNDING:
            return False
        self._left -= amount
        return True
