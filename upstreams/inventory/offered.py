"""What one upstream offers, as far as is known: its lists as they were read last, and which are to be read again.

What it offered stays while it is away. It may be known from an earlier run of the hub, or of another upstream whose
place this one takes; then its own lists replace that once they have been read.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from math import inf

import trio
from msgspec import structs

from hub.link.machine_clock import current_time
from hub.link.wakeups import DirtyFlag
from hub.wire.handshake import ServerFacts
from hub.wire.hub_loops import join_chains, with_chain
from hub.wire.mcp import Freshness, Kind, Snapshot
from upstreams.invalidation import NO_LISTENER, InvalidationListener
from upstreams.inventory.freshness import has_expired, ttl_ms
from upstreams.inventory.lists import Listing
from upstreams.inventory.refresh import REFRESH_WAIT_S, ListRefresh, Reading
from upstreams.status import empty_snapshot

log = logging.getLogger(__name__)


class Offered:
    """The snapshot of one upstream and how good it is. `on_change` is called when hosts may see something else."""

    def __init__(
        self,
        name: str,
        last_known: Snapshot | None,
        on_change: Callable[[], None],
        *,
        local: bool,
        listener: InvalidationListener = NO_LISTENER,
    ) -> None:
        self.snapshot = last_known or empty_snapshot(name, local)
        self.remembered = last_known is not None
        """Whether it was known from an earlier run what it offers, when this one began."""
        self.known = self.remembered
        """Whether `snapshot` is what it offers, as far as anybody can know."""
        self.listed = False
        """Whether its lists have been read since it was last connected."""
        self.read_at = dict.fromkeys(Kind, current_time())
        """When each list was read last; of one that is remembered, when this run began."""
        self.begun_at = dict.fromkeys(Kind, -inf)
        """And when it was asked for: changes since then are not in it for certain."""
        self.freshness: Mapping[Kind, Freshness] = self.snapshot.freshness
        """What the upstream said of it. `snapshot` stays as it is when only that differs."""
        self.stale: dict[Kind, trio.Event] = {}
        """Lists to be read again; whoever does so sets the events."""
        self.became_stale = DirtyFlag()
        self.rereading = ListRefresh()
        self._on_change = on_change
        self._listener = listener

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self.snapshot.lists.get(kind, ()))} {kind.value}" for kind in Kind)
        return f"<Offered by {self.snapshot.upstream}: {counts}>"

    def connected(self, facts: ServerFacts) -> None:
        """A session has opened; all of it is to be read again."""
        self.listed = False
        self.snapshot = structs.replace(
            self.snapshot,
            version=facts.version,
            capabilities=facts.capabilities,
            server_info=facts.server_info,
            instructions=facts.instructions,
        )
        self.changed(tuple(Kind))

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        """As `UpstreamEvents.changed`."""
        for kind in kinds:
            self.stale.setdefault(kind, trio.Event())
        self.became_stale.set()

    async def refresh(self, kind: Kind) -> None:
        """Have a list read anew and wait for it, but never for longer than `REFRESH_WAIT_S`."""
        self.changed((kind,))
        with trio.move_on_after(REFRESH_WAIT_S):
            await self.stale[kind].wait()

    def ttl_ms(self, kind: Kind, told_since: float) -> int:
        """How long hosts may go without asking again for a list of whose changes the hub has heard since then."""
        told = self.begun_at[kind] >= told_since
        return ttl_ms(self.snapshot, kind, self.freshness.get(kind), age_ms=self._age_ms(kind), told=told)

    def reread(self, kind: Kind, told_since: float) -> Reading | None:
        """Have that list read anew if it may be another by now; what to wait for, None: nothing."""
        told = self.begun_at[kind] >= told_since
        if not has_expired(self.snapshot, kind, self.freshness.get(kind), age_ms=self._age_ms(kind), told=told):
            return None
        return self.rereading.ask(kind)

    def _age_ms(self, kind: Kind) -> int:
        """How long ago a list was read; of one that is known from an earlier run, how long this one lasts."""
        return int((current_time() - self.read_at[kind]) * 1000)

    def take(self, facts: ServerFacts, found: Mapping[Kind, Listing], degraded: Iterable[str]) -> bool:
        """Replace the snapshot by one with these lists, the others staying; whether that changed anything. Those that
        were read again meanwhile stay, too."""
        old = self.snapshot
        found = {kind: listing for kind, listing in found.items() if listing.begun_at >= self.begun_at[kind]}
        behind = join_chains(listing.behind for listing in found.values())
        new = Snapshot(
            upstream=old.upstream,
            version=facts.version,
            capabilities=with_chain(facts.capabilities, behind) if behind else facts.capabilities,
            server_info=facts.server_info,
            instructions=facts.instructions,
            lists={**old.lists, **{kind: listing.entries for kind, listing in found.items()}},
            freshness={**old.freshness, **{kind: listing.freshness for kind, listing in found.items()}},
            local=old.local,
            degraded=tuple(degraded),
        )
        if new.degraded and new.degraded != old.degraded:
            log.warning("%s is degraded: %s", old.upstream, "; ".join(new.degraded))
        self.read_at |= {kind: listing.received_at for kind, listing in found.items()}
        self.begun_at |= {kind: listing.begun_at for kind, listing in found.items()}
        self.freshness = new.freshness
        changed, first = not _say_the_same(new, old), not self.listed
        self.listed = True
        if changed:
            self.snapshot = new
        if any(new.lists.get(kind) != old.lists.get(kind) for kind in (Kind.RESOURCE, Kind.TEMPLATE)):
            self._listener.resources_relisted()
        if changed or first:
            self._on_change()
        return changed

    def follow(self, old: "Offered", *, local: bool) -> None:
        """Go by what another upstream offered, in whose place this one is, until its own lists have been read."""
        self.snapshot = structs.replace(old.snapshot, local=local)
        self.read_at = dict(old.read_at)
        self.freshness = old.freshness

    def require_listing(self) -> None:
        """Do not take what is remembered for what the upstream offers; its lists have to be read."""
        self.known = False

    def complete(self) -> None:
        """All lists have been read."""
        self.known = True

    def withdraw(self) -> None:
        """It offers nothing that hosts may see."""
        self.snapshot = empty_snapshot(self.snapshot.upstream, self.snapshot.local)
        self._listener.resources_relisted()
        self._on_change()

    def relocate(self, *, local: bool) -> None:
        """Its `file` URIs mean files of this machine, or no longer."""
        if self.snapshot.local != local:
            self.snapshot = structs.replace(self.snapshot, local=local)


def _say_the_same(new: Snapshot, old: Snapshot) -> bool:
    """Whether they differ in nothing but how long each is good for."""
    scopes = [{kind: fresh.public for kind, fresh in each.freshness.items()} for each in (new, old)]
    return scopes[0] == scopes[1] and structs.replace(new, freshness=old.freshness) == old
