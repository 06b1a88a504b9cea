"""A watchdog of the event loop: while the loop stands still the hub serves nobody, so that is logged, and counted."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Final

import trio

from hub.control.answers import LoopStatus

log = logging.getLogger("hubd")

LOOK_S: Final = 0.5
IDLE_LOOK_S: Final = 10.0
"""The same while the loop does next to nothing."""
IDLE_SHARE: Final = 0.02
"""Of one processor: with less the loop is idle."""
BLOCKED_S: Final = 0.25
SAY_EVERY_S: Final = 10.0
LATELY_S: Final = 60.0
OWN_CODE: Final = Path(__file__).parents[2]
PLACES: Final = 3


class LoopWatchdog:
    """Logs where the event loop stands still for longer than `blocked_s`, since then no host is served.

    It watches from a thread: the loop itself could only tell afterwards, and not say where."""

    def __init__(self, *, every_s: float = LOOK_S, idle_s: float = IDLE_LOOK_S, blocked_s: float = BLOCKED_S) -> None:
        self._every_s = every_s
        self._idle_s = idle_s
        self._blocked_s = blocked_s
        self._over = threading.Event()
        self._said_at = float("-inf")
        self.times = 0
        """Number of blocks."""
        self.longest_s = 0.0
        """The longest wait for the loop, also below `blocked_s`."""
        self._lately: deque[tuple[float, float]] = deque(maxlen=ceil(LATELY_S / every_s))
        """The last waits: when they were over, and how long they took."""

    async def run(self) -> None:
        """Watch until cancelled."""
        token = trio.lowlevel.current_trio_token()
        ident = threading.get_ident()
        look = threading.Thread(target=self._look, args=(token.run_sync_soon, ident), name="hubd watch", daemon=True)
        look.start()
        try:
            await trio.sleep_forever()
        finally:
            self._over.set()  # the thread ends by itself, soon

    def status(self) -> LoopStatus:
        """For `hubd status`."""
        return LoopStatus(blocked=self.times, longest_s=round(self.longest_s, 3))

    def longest_lately_s(self) -> float:
        """The longest wait for the loop within `LATELY_S`."""
        since = time.perf_counter() - LATELY_S
        return max((seconds for at, seconds in list(self._lately) if at >= since), default=0.0)

    def _note(self, seconds: float) -> None:
        self.longest_s = max(self.longest_s, seconds)
        self._lately.append((time.perf_counter(), seconds))

    def _look(self, soon: Callable[[Callable[[], object]], object], loop: int) -> None:
        clock = time.pthread_getcpuclockid(loop)
        every_s, used_s = self._every_s, 0.0
        while not self._over.wait(every_s):
            before_s, used_s = used_s, time.clock_gettime(clock)
            every_s = self._idle_s if used_s - before_s < IDLE_SHARE * every_s else self._every_s
            turned = threading.Event()
            began = time.perf_counter()
            try:
                soon(turned.set)
            except trio.RunFinishedError:
                return
            if turned.wait(self._blocked_s):
                self._note(time.perf_counter() - began)
                continue
            where = _where(sys._current_frames().get(loop))
            while not turned.wait(1.0):
                if self._over.is_set():
                    return
            self._blocked(time.perf_counter() - began, where)

    def _blocked(self, seconds: float, where: str) -> None:
        self.times += 1
        self._note(seconds)
        now = time.perf_counter()
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            text = "the event loop was blocked for %.2f s, so no host was served (%d times so far): %s"
            log.warning(text, seconds, self.times, where)


def _where(frame: FrameType | None) -> str:
    """The innermost lines of our own code on the stack, innermost first."""
    places: list[str] = []
    while frame is not None and len(places) < PLACES:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(OWN_CODE) and "site-packages" not in file.parts:
            places.append(f"{frame.f_code.co_name} ({file.relative_to(OWN_CODE)}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called by ".join(places) or "not in the hub's own code"
