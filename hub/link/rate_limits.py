"""Limits of rates: a token bucket for how much may pass at once, and a second from then on (pure: time is an argument);
and the pace of reading: how many unrequested messages of one peer are read per second, and how peers take turns.

Expected answers are not counted: there are never more of them than requests. All else is counted: notifications,
requests of the peer, stray answers, and lines that are no message.
"""

from typing import Final

import trio

from hub.wire.questions.askable_questions import QuestionRefusal

ROUNDING: Final = 1e-9
"""Tolerance for rounding errors of fractions of seconds."""


class TokenBucket:
    """Holds `most` tokens at first, and never more; `per_s` tokens are added each second."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, most: float, per_s: float) -> None:
        self._most = self._left = most
        self._per_s = per_s
        self._at = 0.0

    def take(self, now: float, amount: float = 1) -> bool:
        """Take `amount` tokens if there are as many by now; else take none and return False."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < amount - ROUNDING:
            return False
        self._left -= amount
        return True


QUESTIONS_PER_MINUTE: Final = 60.0
"""Questions that one upstream may ask a minute; as many at once after a pause."""


class QuestionQuota(TokenBucket):
    """The questions that one upstream may ask of one host or in one session."""

    def __init__(self) -> None:
        super().__init__(QUESTIONS_PER_MINUTE, QUESTIONS_PER_MINUTE / 60)

    def admit(self, upstream: str) -> None:
        """Admit a question of `upstream`. Raises QuestionRefusal: there were too many."""
        if not self.take(trio.current_time()):
            raise QuestionRefusal(f"{upstream} asks more than {QUESTIONS_PER_MINUTE:.0f} questions a minute")


MESSAGES_PER_S: Final = 1_000
"""A peer is read no faster than this, which holds back that peer and no other."""
UNIT_BYTES: Final = 16 << 10
"""Each such piece of a message counts as one more message: large messages are more work."""
TURN: Final = 64
"""Messages that are read before other tasks have their turn."""
TURN_BYTES: Final = 256 << 10
"""Bytes that are read before other tasks have their turn: parsing takes as long as a message is large."""
_COUNTS_AS: Final = TURN_BYTES // TURN


class ReadPace:
    """The pace of one peer. Up to `MESSAGES_PER_S` pass at once within a second; then the next message has to wait.

    Several tasks may read the peer, each a stream of its own. They take turns: of the tasks that may go on at the same
    time, one does so in each round of the loop.
    """

    __slots__ = ("_in_turn", "_in_window", "_turns", "_window_at")

    def __init__(self) -> None:
        self._window_at = float("-inf")
        self._in_window = 0
        self._in_turn = 0
        self._turns: trio.Lock | None = None

    async def keep(self, size: int = 0, *, messages: int = 1) -> None:
        """Count `messages` of `size` bytes in all, and wait as the pace requires."""
        self._in_turn += messages + size // _COUNTS_AS
        self._in_window += messages + size // UNIT_BYTES
        if self._in_window >= MESSAGES_PER_S:
            await trio.sleep_until(self._window_at + self._in_window / MESSAGES_PER_S)
            self._in_window = self._in_turn = 0
            self._window_at = trio.current_time()
        elif self._in_turn >= TURN:
            await self.next()

    async def turn(self, size: int) -> None:
        """Count a message of `size` bytes, or a piece of one, that is expected or limited elsewhere; it only uses up
        the turn."""
        self._in_turn += 1 + size // _COUNTS_AS
        if self._in_turn >= TURN:
            await self.next()

    async def next(self) -> None:
        """Wait for a later round of the loop; one task goes on in each."""
        self._in_turn = 0
        turns = self._turns = self._turns or trio.Lock()
        async with turns:  # taking a trio lock is a checkpoint, even when it is free
            pass
