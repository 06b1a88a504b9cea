"""The offer of one upstream, as far as known: its lists as they were read last.

Lists stay while the upstream is away. They may come from an earlier run of the hub, or from a predecessor; then its own
lists replace them once they have been read.

How long a list may be used without asking again is a matter of what the upstream said with it, and of whether changes
are heard.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final
from urllib.parse import urlsplit

from msgspec import Raw, structs

from config.loading.parse_addresses import is_loopback
from config.settings import UpstreamConfig
from hub.linux.boot_clock import current_time
from hub.wire.capabilities import ServerFacts
from hub.wire.hub_chains import join_chains, with_chain
from hub.wire.jsonrpc import EMPTY, peek_object
from hub.wire.mcp import CAPABILITY, Era, Kind, era_of
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from upstreams.inventory.read_lists import Listing
from upstreams.subscriptions.resource_subscription import InvalidationListener

TOLD_TTL_MS: Final = 60_000
SILENT_TTL_MS: Final = 10_000
"""For legacy upstreams, which declare none: one that tells of changes, and one that does not."""
NEVER_MS: Final = 1 << 53
log = logging.getLogger(__name__)


def declares_changes(snapshot: Snapshot, kind: Kind) -> bool:
    """True if the upstream says of itself that it tells of changes of this list."""
    return peek_object(snapshot.capabilities.get(CAPABILITY[kind], EMPTY)).get("listChanged") == Raw(b"true")


def ttl_ms(snapshot: Snapshot, kind: Kind, fresh: Freshness | None, *, age_ms: int, told: bool) -> int:
    """Milliseconds for which hosts need not ask again, as far as this upstream is concerned.

    `fresh` is what it said with the list, `age_ms` how long that was ago; `told`: the hub hears of changes now.
    """
    if fresh is not None and fresh.ttl_ms is not None:
        return max(0, fresh.ttl_ms - age_ms)
    if era_of(snapshot.version) is Era.MODERN:
        return 0  # it said nothing: hosts ask each time
    return TOLD_TTL_MS if told else SILENT_TTL_MS


def has_expired(snapshot: Snapshot, kind: Kind, fresh: Freshness | None, *, age_ms: int, told: bool) -> bool:
    """True if the list is to be read anew before hosts are shown it again."""
    if told or CAPABILITY[kind] not in snapshot.capabilities:
        return False
    if era_of(snapshot.version) is Era.MODERN:
        return age_ms >= ((fresh.ttl_ms or 0) if fresh is not None else 0)
    return age_ms > SILENT_TTL_MS


def in_full(snapshot: Snapshot, kind: Kind) -> int:
    """`ttl_ms` of a list that has just been read from an upstream that keeps its word; one that it has none of changes
    nothing."""
    if CAPABILITY[kind] not in snapshot.capabilities:
        return NEVER_MS
    fresh = snapshot.freshness.get(kind)
    return ttl_ms(snapshot, kind, fresh, age_ms=0, told=declares_changes(snapshot, kind))


def empty_snapshot(name: str, local: bool) -> Snapshot:
    """The snapshot of an upstream that was never connected."""
    lists: dict[Kind, tuple[ListEntry, ...]] = dict.fromkeys(Kind, ())
    return Snapshot(name, "", {}, {}, "", lists, dict.fromkeys(Kind, Freshness()), local)


def is_local(config: UpstreamConfig) -> bool:
    """True if an upstream's `file` URIs mean files of this machine."""
    if config.locality != "auto":
        return config.locality == "local"
    if config.url is None:
        return True
    return is_loopback(urlsplit(config.url).hostname or "")


class Offered:
    """Snapshot of one upstream. `on_change` is called when hosts may see something else."""

    def __init__(
        self, known: Snapshot | None, empty: Snapshot, on_change: Callable[[], None], listener: InvalidationListener
    ) -> None:
        """`known`: what was offered in an earlier run of the hub; None: nothing is known, and `empty` is shown."""
        self.snapshot = known or empty
        self.remembered = known is not None
        """True if the lists were known from an earlier run of the hub when this one began."""
        self.known = self.remembered
        """True if `snapshot` is what the upstream offers, as far as can be known."""
        self.listed = False
        """True if the lists have been read since the upstream was last connected."""
        self.read_at = dict.fromkeys(Kind, current_time())
        """Time at which each list was read last; for a remembered list, the beginning of this run."""
        self.begun_at = dict.fromkeys(Kind, -inf)
        """Time at which the latest reading of each list began: later changes may not be in it."""
        self.freshness: Mapping[Kind, Freshness] = self.snapshot.freshness
        """Freshness as the upstream declared it. `snapshot` stays as it is when only freshness differs."""
        self._on_change = on_change
        self._listener = listener

    def connected(self, facts: ServerFacts) -> None:
        """A session has opened; its lists have not been read."""
        self.listed = False
        self.snapshot = structs.replace(self.snapshot, **structs.asdict(facts))

    def ttl_ms(self, kind: Kind, told_since: float) -> int:
        """Milliseconds for which hosts may use a list; `told_since`: since when its changes are sure to be heard."""
        told = self.begun_at[kind] >= told_since
        return ttl_ms(self.snapshot, kind, self.freshness.get(kind), age_ms=self._age_ms(kind), told=told)

    def has_expired(self, kind: Kind, told_since: float) -> bool:
        """True if a list may have changed since it was read; `told_since` as for `ttl_ms`."""
        told = self.begun_at[kind] >= told_since
        return has_expired(self.snapshot, kind, self.freshness.get(kind), age_ms=self._age_ms(kind), told=told)

    def _age_ms(self, kind: Kind) -> int:
        """Milliseconds since a list was read; for a remembered list, since this run began."""
        return int((current_time() - self.read_at[kind]) * 1000)

    def replace_lists(self, facts: ServerFacts, found: Mapping[Kind, Listing], degraded: Iterable[str]) -> bool:
        """Put these lists into the snapshot; whether that changed anything."""
        old = self.snapshot
        behind = join_chains(listing.behind for listing in found.values())
        if behind:
            facts = structs.replace(facts, capabilities=with_chain(facts.capabilities, behind))
        new = structs.replace(
            old,
            **structs.asdict(facts),
            lists=old.lists | {kind: listing.entries for kind, listing in found.items()},
            freshness=old.freshness | {kind: listing.freshness for kind, listing in found.items()},
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
        """Show what the predecessor offered until the own lists have been read."""
        self.snapshot = structs.replace(old.snapshot, local=local)
        self.read_at = dict(old.read_at)
        self.freshness = old.freshness

    def require_listing(self) -> None:
        """Take nothing that is remembered for what the upstream offers."""
        self.known = False

    def complete(self) -> None:
        self.known = True

    def replace_snapshot(self, snapshot: Snapshot) -> None:
        """Show the snapshot of a successor, which answers calls now."""
        self.snapshot = snapshot

    def withdraw(self) -> None:
        """Offer nothing to hosts."""
        self.snapshot = empty_snapshot(self.snapshot.upstream, self.snapshot.local)
        self._listener.resources_relisted()
        self._on_change()

    def relocate(self, *, local: bool) -> None:
        """Say whether `file` URIs mean files of this machine."""
        if self.snapshot.local != local:
            self.snapshot = structs.replace(self.snapshot, local=local)


def _say_the_same(new: Snapshot, old: Snapshot) -> bool:
    """True if two snapshots differ in nothing but how long their lists are good."""
    scopes = [{kind: fresh.public for kind, fresh in each.freshness.items()} for each in (new, old)]
    return scopes[0] == scopes[1] and structs.replace(new, freshness=old.freshness) == old
