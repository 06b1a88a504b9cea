"""One task per upstream: connect, serve, back off. Nothing else starts or restarts anything (D-10).

    supervise:  attempt -> (session: opened -> upkeep until it ends) -> pause, or wait until wanted -> attempt ...

While the main session is open its upkeep reads the lists, again whenever the upstream says that they changed. A flood
of changes costs one walk at a time and one that follows (F-P-15). Sessions that some hosts have for themselves are
opened by `pool` when they are needed; a restart closes them, too.
"""

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import trio

from config.schema import UpstreamConfig
from hub.link.exchange import HubError
from hub.wire.mcp import Era, Kind
from upstreams.lifecycle import Event, State
from upstreams.listening import keep_watching
from upstreams.lists import Listing, walk
from upstreams.pool import Memory, Opener
from upstreams.probe import config_key
from upstreams.session import open_session
from upstreams.upstream import Upstream

log = logging.getLogger(__name__)

STARTS_AT_ONCE: Final = 8
CALM_WALKS: Final = 3
CALM_WINDOW_S: Final = 10.0
FIRST_INTERVAL_S: Final = 1.0
LONGEST_INTERVAL_S: Final = 60.0
RETRY_LIST_S: Final = 30.0
REFRESH_S: Final = 60.0
"""A modern upstream's lists are read again when their ttl is over, but no more often than this."""


class Supervisor:
    """Keeps every configured upstream running. `settled` is set once each has listed what it offers, or failed once."""

    def __init__(
        self, memory: Memory, on_change: Callable[[Upstream], None], *, open_session: Opener = open_session
    ) -> None:
        self.upstreams: dict[str, Upstream] = {}
        self.settled = trio.Event()
        self._memory = memory
        self._on_change = on_change
        self._open_session = open_session
        self._slots = trio.Semaphore(STARTS_AT_ONCE)
        self._unsettled: set[str] = set()
        self._restarts: dict[str, trio.CancelScope] = {}

    def __repr__(self) -> str:
        return f"<Supervisor {list(self.upstreams.values())}>"

    async def run(
        self,
        configs: Mapping[str, UpstreamConfig],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start all upstreams that are not disabled, and keep them running until cancelled.

        `started` is called when all are known by name, before any is connected. Cancellation: stops them in order.
        """
        for name, config in configs.items():
            self.upstreams[name] = Upstream(
                name, config, self._on_change, self._memory, self._open_session, self._slots
            )
        enabled = [upstream for upstream in self.upstreams.values() if upstream.state is not State.DISABLED]
        self._unsettled = {upstream.name for upstream in enabled}
        self._settle(None)
        async with trio.open_nursery() as nursery:
            for upstream in enabled:
                nursery.start_soon(self._supervise, upstream)
            task_status.started()
            await trio.sleep_forever()

    def restart(self, name: str) -> None:
        """Start an upstream anew, at once, whatever it is doing; its era, and whether it asks, is found out again.

        Raises:
            KeyError: there is no such upstream, or it is disabled.
        """
        scope = self._restarts[name]
        upstream = self.upstreams[name]
        self._memory.remember_era(config_key(upstream.config), None)
        upstream.pool.forget_interactive()
        upstream.elders.forget()
        upstream.lost()
        scope.cancel()

    # --- one upstream -------------------------------------------------------------------------------------------------

    async def _supervise(self, upstream: Upstream) -> None:
        while True:
            with trio.CancelScope() as scope:
                self._restarts[upstream.name] = scope
                async with trio.open_nursery() as nursery:
                    for pool in upstream.pools:
                        await nursery.start(pool.run)
                    nursery.start_soon(upstream.holdings.run)
                    await self._keep_running(upstream)
            upstream.lost()
            upstream.backoff.reset()
            upstream.move(Event.RESTART)

    async def _keep_running(self, upstream: Upstream) -> None:
        while True:
            upstream.move(Event.START)
            error = await Tenure(upstream, lambda: self._settle(upstream)).run(self._slots)
            pause_s = upstream.failed(error)
            self._report(upstream, pause_s)
            self._settle(upstream)
            if pause_s is None:
                upstream.wanted = trio.Event()
                await upstream.wanted.wait()
            else:
                await trio.sleep(pause_s)

    def _report(self, upstream: Upstream, pause_s: float | None) -> None:
        then = "it is tried again when a call needs it" if pause_s is None else f"next attempt in {pause_s:.1f} s"
        why = (upstream.last_error or "").partition("\n")[0]
        log.warning("%s is %s: %s (%s)", upstream.name, upstream.state.value, why, then)

    def _settle(self, upstream: Upstream | None) -> None:
        if upstream is not None:
            self._unsettled.discard(upstream.name)
        if not self._unsettled:
            self.settled.set()


class Tenure:
    """One main session in office: from the attempt to open it to its end, with the upkeep its lists need meanwhile."""

    def __init__(self, upstream: Upstream, on_listed: Callable[[], None]) -> None:
        self._upstream = upstream
        self._place = upstream.pool.make_main()
        self._on_listed = on_listed
        self._degraded: dict[Kind, str] = {}
        self._unread: set[Kind] = set()
        self._pace = Pace()

    async def run(self, slots: trio.Semaphore) -> HubError | None:
        """Open the session and keep it until it ends; why it ended. As `Place.run`."""
        return await self._place.run(slots, self._opened, self._upstream.lost)

    def _opened(self, nursery: trio.Nursery) -> None:
        self._upstream.opened(self._place)
        nursery.start_soon(self._keep_lists)
        nursery.start_soon(keep_watching, self._place.session, self._place.watches, self._upstream)

    # --- lists --------------------------------------------------------------------------------------------------------

    async def _keep_lists(self) -> None:
        upstream = self._upstream
        while True:
            with trio.move_on_after(self._refresh_s()) as scope:
                await upstream.became_stale.take()
            await trio.sleep_until(self._pace.next_at)
            due, upstream.stale = upstream.stale, {}
            kinds = {*due, *self._unread}
            if scope.cancelled_caught and not self._unread:
                kinds = set(Kind)
            if not kinds:
                continue
            found = await self._read(kinds)
            degraded = (self._degraded[kind] for kind in Kind if kind in self._degraded)
            changed = upstream.take_lists(self._place.session.facts, found, degraded)
            self._pace.walked(trio.current_time(), changed)
            for read in due.values():
                read.set()
            self._on_listed()

    def _refresh_s(self) -> float:
        """How long to leave the lists alone, if nobody says that they changed."""
        if self._unread:
            return RETRY_LIST_S
        ttls = [fresh.ttl_ms for fresh in self._upstream.snapshot.freshness.values() if fresh.ttl_ms is not None]
        if self._place.session.era is Era.LEGACY or not ttls:
            return inf
        return max(min(ttls) / 1000, REFRESH_S)

    async def _read(self, kinds: set[Kind]) -> dict[Kind, Listing]:
        """Those of these lists that could be read; the others are tried again later."""
        found: dict[Kind, Listing] = {}
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                nursery.start_soon(self._read_one, kind, found)
        self._unread = kinds - set(found)
        return found

    async def _read_one(self, kind: Kind, found: dict[Kind, Listing]) -> None:
        problem = f"{kind.value} could not be read in time"
        with trio.move_on_after(self._upstream.config.timeouts.list):
            try:
                found[kind] = await walk(self._place.session, kind)
                problem = found[kind].degraded
            except HubError as error:
                problem = f"{kind.value} could not be read: {error}"
        self._degraded[kind] = problem
        if not problem:
            del self._degraded[kind]


class Pace:
    """When the lists may be read next: at once, unless reading them has been in vain several times (F-P-15)."""

    def __init__(self) -> None:
        self.next_at = float("-inf")
        self._interval_s = 0.0
        self._in_vain: list[float] = []

    def walked(self, now: float, changed: bool) -> None:
        """The lists were read at `now`."""
        if changed or now > self.next_at + LONGEST_INTERVAL_S:
            self._interval_s = 0.0
            self._in_vain.clear()
        if not changed:
            self._in_vain = [at for at in self._in_vain if at > now - CALM_WINDOW_S] + [now]
        if self._interval_s or len(self._in_vain) >= CALM_WALKS:
            self._interval_s = min(max(FIRST_INTERVAL_S, self._interval_s * 2), LONGEST_INTERVAL_S)
        self.next_at = now + self._interval_s
