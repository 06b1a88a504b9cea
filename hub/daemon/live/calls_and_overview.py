"""Requests of whoever watches: operations of hosts, as the hub keeps them and as they end, and everything at a glance.

Nothing is computed while nobody asks.
"""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Final

import trio

from config.server_names import server_of
from hub.app import WALL, Hub
from hub.control.answers import Status
from hub.control.call_messages import CallFilter, CallList, CallRow, RunningRow
from hub.control.methods import CALL_LINES
from hub.control.overview_messages import Overview
from hub.daemon.live.waiting_items import find_items
from hub.link.call_interface import OWNER
from hub.link.sync_primitives import take_turns
from hub.telemetry.describe_calls import describe_call, describe_running
from hub.telemetry.operation_record import Ended
from hub.telemetry.record_call_contents import NO_CONTENT
from upstreams.journal.journal import Follower
from upstreams.lifecycle import State

if TYPE_CHECKING:
    from hub.telemetry.overview import Known

PAUSE_S: Final = 0.1
"""Pause between two messages to a follower, each of which has all that ended meanwhile."""
SLICE: Final = 200
"""Operations that are looked at before others have their turn."""
EVERY_S: Final = 1.0
LEAST_S: Final = 0.1
"""The shortest pause between two overviews."""


class LiveRequests:
    """Carries them out, by their names in `hub.control.methods`."""

    def __init__(self, hub: Hub, status: Callable[[], Awaitable[Status]]) -> None:
        """`status`: everything `hubd status` shows."""
        self._hub = hub
        self._status = status
        self._known: Known = {}
        self._recorder = hub.router.chains.recorder

    async def overview(self, principal: str = OWNER) -> Overview:
        """Everything at a glance; `principal`: whoever looks."""
        status = await self._status()
        from hub.telemetry.overview import Counted, make_overview, row_of_server  # not above: most hubs are not watched

        counted, rows = Counted(self._recorder, self._hub.servers.configs, perf_counter(), self._known), []
        await take_turns(counted.gather())
        for upstream in status.upstreams:
            rows.append(row_of_server(upstream, counted))
            await trio.lowlevel.checkpoint()
        left_out = {row.name: row.last_error or "" for row in status.upstreams if row.state == State.UNRESOLVED.value}
        inbox = sum(1 for _ in find_items(self._hub, left_out))
        return make_overview(status, rows, counted, WALL() - perf_counter(), principal, inbox)

    async def watch(self, every_s: float = EVERY_S) -> AsyncGenerator[Overview, None]:
        """Everything at a glance, again and again."""
        while True:
            yield await self.overview()
            await trio.sleep(max(LEAST_S, every_s))

    async def calls(
        self,
        about: str = "",
        host: str = "",
        failed: bool = False,
        slower_s: float = 0.0,
        since: float = 0.0,
        n: int = CALL_LINES,
        follow: bool = False,
        contents: bool = False,
    ) -> AsyncGenerator[CallList, None]:
        """The last `n` operations that are over and wanted (`CallFilter`), and those that run; with `follow` then, for
        ever, new ones as they end. A reader that is too slow loses the oldest. `contents`: with what was recorded of
        their arguments and results."""
        recorder, follower, missing = self._recorder, Follower[Ended](), 0
        wanted = CallFilter(about=about, host=host, failed=failed, slower_s=slower_s, since=since)
        if follow:
            recorder.listeners.append(follower.queue)
        try:
            yield CallList(
                calls=await self._last(n, wanted, contents),
                running=describe_running(recorder, perf_counter(), _runs_for(about, host)),
                kept=recorder.ring.maxlen or 0,
                records=tuple(name for name, config in self._hub.servers.configs.items() if config.record),
            )
            while follow:
                records, lost = await follower.next()
                missing += lost
                if found := tuple(self._select(records, wanted, contents)):
                    yield CallList(calls=found, lost=missing)
                    missing = 0
                await trio.sleep(PAUSE_S)
        finally:
            if follow:
                recorder.listeners.remove(follower.queue)

    async def _last(self, number: int, wanted: CallFilter, contents: bool) -> tuple[CallRow, ...]:
        """The last so many operations that are kept and wanted, the oldest first."""
        found: deque[CallRow] = deque()
        newest = list(reversed(self._recorder.ring))
        for at in range(0, len(newest), SLICE):
            for row in self._select(newest[at : at + SLICE], wanted, contents):
                if len(found) < number:
                    found.appendleft(row)
            if len(found) >= number:
                break
            await trio.lowlevel.checkpoint()
        return tuple(found)

    def _select(self, records: Iterable[Ended], wanted: CallFilter, contents: bool) -> Iterator[CallRow]:
        offset, configs, find = (
            WALL() - perf_counter(),
            self._hub.servers.configs,
            self._hub.router.chains.contents.find,
        )
        for ended in records:
            row = describe_call(ended, offset, configs, find(ended.ref) if contents else NO_CONTENT)
            if wanted.passes(row):
                yield row


def _runs_for(about: str, host: str) -> Callable[[RunningRow], bool]:
    def wants(row: RunningRow) -> bool:
        names = row.upstream, server_of(row.upstream), row.ref, row.name
        return (not about or about in names) and (not host or host == row.host)

    return wants
