"""Answers that take long: each pending answer opens its stream when its time has come."""

from typing import Final, Protocol

import trio

TICK_S: Final = 0.5
SSE_AFTER_S: Final = 2.0


class PendingAnswer(Protocol):
    """The answer to a request that is running. Hashable."""

    def open(self) -> None:
        """Open its stream, if it has none. Raises nothing."""


class SlowAnswers:
    """The pending answers of an endpoint. `run` must be running."""

    def __init__(self) -> None:
        self.soon: dict[PendingAnswer, float] = {}
        """Pending answers and when each one turns into an SSE stream, soonest first. Who completes one takes it out."""
        self._asleep: trio.Event | None = None
        """Set by the next answer to wait for, while none is pending."""

    def __len__(self) -> int:
        return len(self.soon)

    def add(self, pending: PendingAnswer, since: float | None) -> None:
        """Have a pending answer open its stream if it takes long, counted from `since`; None: at the next tick."""
        if since is None:
            self.soon = {pending: 0.0, **self.soon}
        else:
            self.soon[pending] = since + SSE_AFTER_S
        if self._asleep is not None:
            self._asleep.set()

    async def run(self) -> None:
        """Open the stream of each pending answer when its time has come, to `TICK_S`: few of them are slow."""
        while True:
            if not self.soon:
                self._asleep = trio.Event()
                await self._asleep.wait()
                self._asleep = None
            await trio.sleep(TICK_S)
            now = trio.current_time()
            while self.soon and self.soon[pending := next(iter(self.soon))] <= now:
                del self.soon[pending]
                pending.open()
