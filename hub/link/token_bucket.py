"""How much may pass: so much at once, and so much a second from then on (a token bucket). Pure: time is an argument."""

from typing import Final

ROUNDING: Final = 1e-9
"""What fractions of seconds do not add up to."""


class TokenBucket:
    """Holds `most` at first, and never more; `per_s` comes in again."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, most: float, per_s: float) -> None:
        self._most = self._left = most
        self._per_s = per_s
        self._at = 0.0

    def __repr__(self) -> str:
        return f"<TokenBucket, {self._left:g} of {self._most:g} at {self._at:g}>"

    def take(self, now: float, amount: float = 1) -> bool:
        """Take `amount` out of it, if by now there is so much in it; else nothing."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < amount - ROUNDING:
            return False
        self._left -= amount
        return True
