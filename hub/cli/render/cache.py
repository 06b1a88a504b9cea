"""`hubd cache` as blocks of a screen. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from cache.statistics import CacheCounts, CacheStatistics, StoreStatistics, UpstreamCacheStatistics
from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.cli.render.words import duration, size, times

_FOUND: Final = "FROM STORE"
"""A column that is there if there is a store."""
_HEADS: Final = (
    *("SERVER", "RESOURCES", "SIZE", "READS", "HITS", "MISSES", _FOUND),
    *("JOINED", "STALE", "KEPT", "TOO LARGE"),
)
_LEAST: Final = ("KEPT", "TOO LARGE", "STALE", "JOINED", "SIZE", "MISSES", "HITS")
"""Columns that may go, the least important first."""
_AWAY: Final = (
    "the hub works without it, and retries by itself",
    "check that it runs, and [cache] in hubd.toml; `hubd doctor` tries it now",
)
_ADVICE: Final[Mapping[str, tuple[str, ...]]] = {
    "slow": ("the hub skips it for some seconds at a time; see what else that server is busy with",),
    "full": (
        "its values are still read, but nothing new is stored; the hub retries by itself",
        "give it more memory, or set `maxmemory-policy allkeys-lru`; keep nothing else in it",
    ),
    "read-only": ("nothing new is stored; see the log of that server (hubs do not need its persistence)",),
}
"""By the state of the store; `_AWAY`: of others."""


def cache(data: CacheStatistics) -> list[Block]:
    """`hubd cache`: the whole, each upstream, why entries were dropped, the store that hubs share."""
    blocks: list[Block] = [*_whole(data)]
    if data.upstreams:
        blocks += ["", _upstreams(data.upstreams, shared=data.store is not None)]
    causes = [(cause, count) for cause, count in data.invalidations.items() if count]
    if causes:
        blocks += ["", Table(("DROPPED BECAUSE", "RESOURCES"), causes)]
    if data.store:
        blocks += ["", *_store(data.store)]
    return blocks


def brief(data: CacheStatistics) -> str:
    """The cache on one line, for `hubd status`."""
    amount = f"{_resources(data.entries)}, {size(data.bytes)}" if data.entries else "empty"
    text = f"{amount}{_rate(data.counts, ', ')}" if data.enabled else "off"
    if data.store and data.store.state != "connected":
        text += f"; {_loud(data.store)} (see `hubd cache`)"
    return text


def _whole(data: CacheStatistics) -> list[str]:
    if not data.enabled:
        return ["the cache is off; `enabled = true` below [cache] in hubd.toml turns it on"]
    told = [
        (data.counts.stale, "answered with a stale copy"),
        (data.counts.refused, "too large to keep"),
        (data.evicted, "evicted to make room"),
    ]
    rest = ", ".join(f"{count} {what}" for count, what in told if count)
    text = f"{_resources(data.entries)} of at most {data.max_entries}, {size(data.bytes)} of {size(data.max_bytes)}"
    if data.oldest_s is not None and data.newest_s is not None:
        text += f"; the oldest was read {duration(data.oldest_s)} ago, the newest {duration(data.newest_s)} ago"
    return [text, _read(data), *([rest] if rest else [])]


def _read(data: CacheStatistics) -> str:
    counts, flights = data.counts, data.flights
    text = "nothing was read yet"
    if reads := _reads(counts):
        there = f", {counts.found} found in the store" if data.store else ""
        begun = counts.misses - counts.found
        said = f"{begun} fetched{there}, {counts.coalesced} shared a fetch in flight"
        text = f"{reads} {'read' if reads == 1 else 'reads'}{_rate(counts, ': ')}, {said}"
    return f"{text}; {flights} running now" if flights else text


def _resources(count: int) -> str:
    return f"{count} {'resource' if count == 1 else 'resources'}"


def _reads(counts: CacheCounts) -> int:
    return counts.hits + counts.misses + counts.coalesced


def _rate(counts: CacheCounts, before: str) -> str:
    """The share of reads that were answered from the cache; "" if there were no reads."""
    reads = _reads(counts)
    return f"{before}{100 * counts.hits / reads:.0f} % hits" if reads else ""


def _upstreams(upstreams: Sequence[UpstreamCacheStatistics], *, shared: bool) -> Table:
    heads = [head for head in _HEADS if head != _FOUND or shared]
    rows = [_upstream(upstream, [upstream.counts.found] if shared else []) for upstream in upstreams]
    return Table(heads, rows, shorten=("SERVER",), drop=_LEAST)


def _upstream(upstream: UpstreamCacheStatistics, found: list[int]) -> Sequence[Cell]:
    counts = upstream.counts
    counted = counts.hits, counts.misses, *found, counts.coalesced, counts.stale, counts.stored, counts.refused
    return paint(upstream.name, "name"), upstream.entries, size(upstream.bytes), _reads(counts), *counted


# --- the store that hubs share ----------------------------------------------------------------------------------------


def _store(store: StoreStatistics) -> list[Block]:
    hubs = store.hubs
    whose = f", {hubs} {'hub uses' if hubs == 1 else 'hubs use'} it" if hubs else ""
    lines: list[Block] = [f"store: connected for {duration(store.since_s)}{whose}"]
    if store.state != "connected":
        lines = [paint(_loud(store), "bad"), *(f"  {line}" for line in _ADVICE.get(store.state, _AWAY))]
    if late := store.late:
        alone = f", and the store was skipped {times(store.bypasses)}" if store.bypasses else ""
        lines.append(f"  {late} {'answer' if late == 1 else 'answers'} came too late{alone}")
    if dropped := store.dropped:
        lines.append(f"  {dropped} {'result' if dropped == 1 else 'results'} could not be stored")
    if altered := store.altered:
        what = "value there was" if altered == 1 else "values there were"
        lines.append(f"  {altered} {what} not sealed with this hub's key: does another program write there?")
    return lines


def _loud(store: StoreStatistics) -> str:
    reason = f": {store.reason}" if store.reason else ""
    return f"THE SHARED STORE IS {store.state.upper()} for {duration(store.since_s)}{reason}"
