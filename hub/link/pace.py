"""How fast a peer is read that says what nobody has asked for: so much a second, and others have their turn meanwhile.

Answers that somebody waits for are not counted: there are never more of them than requests. All else is: notifications,
requests of the peer, answers to nothing, and lines that are no message.
"""

from typing import Final

import trio

MESSAGES_PER_S: Final = 1_000
"""Beyond this the peer is read no faster, which holds it back and nobody else (F-P-14)."""
UNIT_BYTES: Final = 16 << 10
"""So much of a message counts as one more: a second of large ones is a second of work, too."""
TURN: Final = 64
"""Messages that are taken before others have their turn."""
TURN_BYTES: Final = 256 << 10
"""And bytes of them, since to read a message takes as long as it is large."""
_COUNTS_AS: Final = TURN_BYTES // TURN


class ReadPace:
    """Of one peer. What came within a second is passed at once, up to `MESSAGES_PER_S`; then the next has to wait.

    Several tasks may read the peer, a stream of it each. They take turns: of those that go on at the same moment, one
    does so in each round of the loop.
    """

    __slots__ = ("_in_turn", "_in_window", "_turns", "_window_at")

    def __init__(self) -> None:
        self._window_at = float("-inf")
        self._in_window = 0
        self._in_turn = 0
        self._turns = trio.Lock()

    def __repr__(self) -> str:
        return f"<ReadPace [{self._in_window} of {MESSAGES_PER_S} since {self._window_at:g}]>"

    async def keep(self, size: int = 0, *, messages: int = 1) -> None:
        """Go on when it is time, after `messages` of `size` bytes in all."""
        self._in_turn += messages + size // _COUNTS_AS
        self._in_window += messages + size // UNIT_BYTES
        if self._in_window >= MESSAGES_PER_S:
            await trio.sleep_until(self._window_at + self._in_window / MESSAGES_PER_S)
            self._in_window = self._in_turn = 0
            self._window_at = trio.current_time()
        elif self._in_turn >= TURN:
            await self.next()

    async def turn(self, size: int) -> None:
        """Go on at once after a message of `size` bytes, or a piece of one, that somebody waits for or that is counted
        elsewhere; after others, where a turn is over."""
        self._in_turn += 1 + size // _COUNTS_AS
        if self._in_turn >= TURN:
            await self.next()

    async def next(self) -> None:
        """Go on in a later round of the loop, one task in each."""
        self._in_turn = 0
        async with self._turns:  # taking it lets others go first, even when it is free
            pass
