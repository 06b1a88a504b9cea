"""How fast a peer is read that says what nobody has asked for: so much a second, and others have their turn meanwhile.

Answers that somebody waits for are not counted: there are never more of them than requests. All else is: notifications,
requests of the peer, answers to nothing, and lines that are no message.
"""

from typing import Final

import trio
from trio.lowlevel import checkpoint

MESSAGES_PER_S: Final = 1_000
"""Beyond this the peer is read no faster, which holds it back and nobody else (F-P-14)."""
UNIT_BYTES: Final = 16 << 10
"""So much of a message counts as one more: a second of large ones is a second of work, too."""
TURN: Final = 64
"""Messages that are taken before others have their turn."""


class Pace:
    """Of one peer. What came within a second is passed at once, up to `MESSAGES_PER_S`; then the next has to wait."""

    __slots__ = ("_in_turn", "_in_window", "_window_at")

    def __init__(self) -> None:
        self._window_at = float("-inf")
        self._in_window = 0
        self._in_turn = 0

    def __repr__(self) -> str:
        return f"<Pace [{self._in_window} of {MESSAGES_PER_S} since {self._window_at:g}]>"

    async def keep(self, size: int = 0, *, messages: int = 1) -> None:
        """Go on when it is time, after `messages` of `size` bytes in all."""
        self._in_turn += messages
        self._in_window += messages + size // UNIT_BYTES
        if self._in_window >= MESSAGES_PER_S:
            await trio.sleep_until(self._window_at + self._in_window / MESSAGES_PER_S)
            self._in_window = self._in_turn = 0
            self._window_at = trio.current_time()
        elif self._in_turn >= TURN:
            self._in_turn = 0
            await checkpoint()
