"""Requests about operations of hosts: those that are over, as the hub keeps them, and new ones as they end."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import Final

import trio

from hub.app import WALL, Hub
from hub.control.call_messages import CallFilter, CallList, CallRow, RunningRow
from hub.control.methods import CALL_LINES
from hub.telemetry.ended import Ended
from hub.telemetry.figures import describe_call, describe_running
from upstreams.journal.journal import Follower

PAUSE_S: Final = 0.1
"""Pause between two messages to a follower, each of which has all that ended meanwhile."""


class CallRequests:
    """Carries them out, by their names in `hub.control.methods`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._recorder = hub.router.chains.recorder

    async def calls(
        self,
        about: str = "",
        host: str = "",
        failed: bool = False,
        slower_s: float = 0.0,
        since: float = 0.0,
        n: int = CALL_LINES,
        follow: bool = False,
    ) -> AsyncGenerator[CallList, None]:
        """The last `n` operations that are over and wanted (`CallFilter`), and those that run; with `follow` then, for
        ever, new ones as they end. A reader that is too slow loses the oldest."""
        recorder, follower, missing = self._recorder, Follower[Ended](), 0
        wanted = CallFilter(about=about, host=host, failed=failed, slower_s=slower_s, since=since)
        if follow:
            recorder.listeners.append(follower.queue)
        try:
            yield CallList(
                calls=tuple(deque(self._select(recorder.ring, wanted), max(0, n))),
                running=describe_running(recorder, perf_counter(), _runs_for(about, host)),
                kept=recorder.ring.maxlen or 0,
            )
            while follow:
                records, lost = await follower.next()
                missing += lost
                if found := tuple(self._select(records, wanted)):
                    yield CallList(calls=found, lost=missing)
                    missing = 0
                await trio.sleep(PAUSE_S)
        finally:
            if follow:
                recorder.listeners.remove(follower.queue)

    def _select(self, records: Iterable[Ended], wanted: CallFilter) -> Iterator[CallRow]:
        describe = partial(describe_call, offset=WALL() - perf_counter(), configs=self._hub.servers.configs)
        return filter(wanted.passes, map(describe, records))


def _runs_for(about: str, host: str) -> Callable[[RunningRow], bool]:
    def wants(row: RunningRow) -> bool:
        return (not about or about in (row.upstream, row.ref, row.name)) and (not host or host == row.host)

    return wants
