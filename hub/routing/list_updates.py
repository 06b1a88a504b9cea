"""Lists of hosts: brought up to date when a host asks, and announced when they differ from what hosts have seen.

A list of an upstream is read again only when a host asks for it and it may have changed. All upstreams concerned are
asked at the same time, and no host waits for long: it gets the list as it was, and is told when that has changed.
Changes travel one way: upstream, `LiveCatalog`, `ListUpdates`, audiences.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import trio

from hub.catalog.endpoint_views import View
from hub.catalog.list_result import MAX_TTL_MS, SETTLING_TTL_MS
from hub.link.hub_errors import UpstreamUnavailable
from hub.routing.live_catalog import LiveCatalog
from hub.routing.view_catalogs import ListChange
from hub.wire.mcp import CAPABILITY, Kind
from hub.wire.upstream_snapshot import Snapshot
from upstreams.upstream import ManagedUpstream

COALESCE_S: Final = 0.02
"""Seconds for which changes are gathered before one rebuild."""


class ListUpdates:
    """The lists that `live` shows to hosts. `run` announces changes to `audiences`; a method that rebuilds announces
    them at once."""

    def __init__(self, live: LiveCatalog, audiences: Iterable[Callable[[set[Kind], View], None]]) -> None:
        self._live = live
        self._audiences = tuple(audiences)
        self._turn = trio.Lock()
        self._catching_up = 0
        """Tasks that rebuild, or wait for one that does."""

    async def run(self) -> None:
        """Rebuild whenever something changed, for ever."""
        while True:
            await self._live.news.wait()
            await trio.sleep(COALESCE_S)
            await self.catch_up()

    async def catch_up(self) -> None:
        """Rebuild, if anything changed that the catalogues do not have yet. Cancellation: `run` does it."""
        if self._live.dirty or self._catching_up:
            self._catching_up += 1
            try:
                async with self._turn:
                    if self._live.dirty:
                        self._announce(await self._live.rebuild_in_slices())
            finally:
                self._catching_up -= 1

    def rebuild(self) -> None:
        """Make the catalogues anew and announce what differs, now and without a checkpoint."""
        self._announce(self._live.rebuild())

    def _announce(self, changes: Iterable[ListChange]) -> None:
        for change in changes:
            for announce in self._audiences:
                announce(change.kinds, change.view)

    def settle(self) -> None:
        """Answer lists from now on: every upstream has reported, or start-up took too long."""
        if not self._live.settled.is_set():
            self._live.servers.claims_for_good = True
            self.rebuild()
            self._live.settle()

    def settle_project(self, view: View) -> None:
        """Answer the lists of a project from now on."""
        self._live.servers.projects[view].reported.set()
        self.rebuild()

    def are_fresh(self, names: Iterable[str], kind: Kind) -> bool:
        """True if `freshen` would not have to wait; else what may have changed is read again from now on."""
        upstreams = [self._live.upstreams[name] for name in names if name in self._live.upstreams]
        readings = [upstream.refresh_if_expired(kind) for upstream in upstreams]
        return not (any(readings) or self._live.dirty or self._catching_up)

    async def freshen(self, names: Iterable[str], kind: Kind) -> None:
        """Have the list of `kind` read again at those of the upstreams `names` where it may have changed; wait within
        reason.

        Cancellation: they are read all the same.
        """
        upstreams = [self._live.upstreams[name] for name in names if name in self._live.upstreams]
        readings = [reading for upstream in upstreams if (reading := upstream.refresh_if_expired(kind))]
        for reading in readings:
            await reading.wait()
        await self.catch_up()  # what is shown is said to be good for as long as what was read last

    async def refresh(self, upstream: str, kind: Kind) -> None:
        """Bring a list of one upstream up to date, if the upstream answers soon.

        Raises:
            UpstreamUnavailable: it is disabled, or not configured any more.
        """
        await self._live.upstreams[upstream].refresh(kind)
        await self.catch_up()

    async def wait_for_first(self, names: Iterable[str], kind: Kind) -> None:
        """Wait, within reason, for the first lists of those of the upstreams `names` that neither listed nor failed."""

        async def refresh(upstream: ManagedUpstream) -> None:
            with suppress(UpstreamUnavailable):  # disabled meanwhile
                await upstream.refresh(kind)

        async with trio.open_nursery() as nursery:
            for upstream in [self._live.upstreams[name] for name in names if name in self._live.upstreams]:
                if not upstream.has_reported:
                    nursery.start_soon(refresh, upstream)
        await self.catch_up()

    def ttl_ms(self, snapshot: Snapshot, kind: Kind) -> int:
        """Time that a list of one upstream is good: very short while the upstream is starting, or away. Satisfies
        `hub.catalog.catalog.Ttl`."""
        upstream = self._live.upstreams.get(snapshot.upstream)
        if upstream is None:
            return 0
        if upstream.settling:
            return SETTLING_TTL_MS
        return upstream.ttl_ms(kind) if CAPABILITY[kind] in snapshot.capabilities else MAX_TTL_MS
