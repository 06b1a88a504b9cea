"""Keep-alive: pings a legacy upstream after silence. A ping that is not answered is only noted: calls may still be."""

import logging
from collections.abc import Awaitable, Callable, Sized
from typing import Final

import trio

from upstreams.session import SessionEvents

PING_ANSWER_S: Final = 15.0
"""Seconds that the upstream has to answer a ping."""

log = logging.getLogger(__name__)


class KeepAlive:
    """The pings of one session.

    `send` sends a ping and returns when it is answered, or cannot be; `heard` counts what came from the upstream.
    """

    def __init__(
        self,
        name: str,
        events: SessionEvents,
        interval_s: float,
        send: Callable[[], Awaitable[None]],
        heard: Callable[[], int],
    ) -> None:
        """`interval_s`: a ping is sent after one to two times these seconds of silence; 0: never."""
        self._interval_s = interval_s
        self._name = name
        self._events = events
        self._send = send
        self._heard = heard
        self._unanswered: tuple[int, float] | None = None
        """Amount that had been heard when a ping was not answered, and time of the first such ping."""

    @property
    def is_on(self) -> bool:
        """True if the upstream is pinged at all."""
        return self._interval_s > 0

    def stop(self) -> None:
        """Send no pings from now on: in the era of the upstream there are none."""
        self._interval_s = 0.0

    @property
    def silent_s(self) -> float | None:
        """Seconds since the first unanswered ping; None: there is none, or the upstream was heard since."""
        if self._unanswered is None or self._unanswered[0] != self._heard():
            return None
        return round(trio.current_time() - self._unanswered[1], 1)

    async def run(self, running: Sized, check: Callable[[], Awaitable[None]]) -> None:
        """Call `check`, which pings, whenever nothing was heard for a while and no call is `running`; for ever."""
        if not self._interval_s:
            await trio.sleep_forever()
        while True:
            heard = self._heard()
            await trio.sleep(self._interval_s)
            if self._heard() == heard and not running:
                await check()

    async def ping(self) -> None:
        """Ping once; note it if there is no answer in time."""
        sent_at = trio.current_time()
        with trio.move_on_after(PING_ANSWER_S):
            await self._send()
            return
        if self.silent_s is None:
            self._unanswered = self._heard(), sent_at
            self._events.note("does not answer pings; its session is kept")
            log.warning("%s does not answer a ping; its session is kept", self._name)
