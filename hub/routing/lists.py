"""Lists as hosts are shown them: brought up to date when a host asks, and how long they are good then (bridging.md 13).

What a list is made of is read again only when somebody asks for it and it may be another by now. All upstreams that
this concerns are asked at the same time, and nobody waits for long: then there is what there was, and whoever was shown
that is told when it has changed (`hub.routing.live_catalog`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from hub.catalog.catalog import MAX_TTL_MS, SETTLING_TTL_MS
from hub.wire.mcp import CAPABILITY, Kind, Snapshot


class Reading(Protocol):
    """A reading of one list; `upstreams.inventory.refresh.Reading` is one."""

    async def wait(self) -> None:
        """Wait until it is over, or for long enough."""
        ...


class Listed(Protocol):
    """What is needed of an upstream; `upstreams.upstream.Upstream` is one."""

    @property
    def settling(self) -> bool: ...

    def ttl_ms(self, kind: Kind) -> int: ...

    def reread(self, kind: Kind) -> Reading | None: ...


def _nothing() -> None:
    pass


class Lists:
    """The lists of `upstreams`. `catch_up` has the catalogue made true to what they say by now."""

    def __init__(self, upstreams: Mapping[str, Listed]) -> None:
        self.catch_up: Callable[[], None] = _nothing
        self._upstreams = upstreams

    def __repr__(self) -> str:
        return f"<Lists of {len(self._upstreams)} upstreams>"

    async def freshen(self, names: Iterable[str], kind: Kind) -> None:
        """Have those read again of the upstreams `names` that may be others by now, and wait for it within reason.

        Cancellation: they are read all the same.
        """
        upstreams = [self._upstreams[name] for name in names if name in self._upstreams]
        readings = [reading for upstream in upstreams if (reading := upstream.reread(kind))]
        for reading in readings:
            await reading.wait()
        self.catch_up()  # what is shown is said to be good for as long as what was read last

    def ttl_ms(self, snapshot: Snapshot, kind: Kind) -> int:
        """As `hub.catalog.catalog.Ttl`: very little while an upstream is to come, or to come back (K-14)."""
        upstream = self._upstreams.get(snapshot.upstream)
        if upstream is None:
            return 0
        if upstream.settling:
            return SETTLING_TTL_MS
        return upstream.ttl_ms(kind) if CAPABILITY[kind] in snapshot.capabilities else MAX_TTL_MS
