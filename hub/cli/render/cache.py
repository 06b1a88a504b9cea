"""`hubd cache` as blocks of a screen. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from cache.statistics import CacheCounts, CacheStatistics, StoreStatistics, UpstreamCacheStatistics
from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.cli.render.words import duration, size, times

_HEADS: Final = ("SERVER", "RESOURCES", "SIZE", "READS", "HITS", "MISSES", "JOINED", "STALE", "KEPT", "TOO LARGE")
_FOUND: Final = "FROM STORE"
"""A column after the misses, if there is a store."""
_LEAST: Final = ("KEPT", "TOO LARGE", "STALE", "JOINED", "SIZE", "MISSES", "HITS")
"""Columns that may go, the least important first."""
_AWAY: Final = (
    "the hub works without it, and retries by itself",
    "check that it runs, and [cache] in hubd.toml; `hubd doctor` tries it now",
)
_FULL: Final = (
    "its values are still read, but nothing new is stored; the hub retries by itself",
    "give it more memory, or set `maxmemory-policy allkeys-lru`; keep nothing else in it",
)
_READ_ONLY: Final = ("nothing new is stored; see the log of that server (hubs do not need its persistence)",)
_SLOW: Final = ("the hub skips it for some seconds at a time; see what else that server is busy with",)

_ADVICE: Final[Mapping[str, tuple[str, ...]]] = {"slow": _SLOW, "full": _FULL, "read-only": _READ_ONLY}


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
    if not data.enabled:
        text = "off"
    elif not data.entries:
        text = f"empty{_rate(data.counts, ', ')}"
    else:
        text = f"{_resources(data.entries)}, {size(data.bytes)}{_rate(data.counts, ', ')}"
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
    return [_amount_kept(data), _read(data), *([rest] if rest else [])]


def _amount_kept(data: CacheStatistics) -> str:
    text = f"{_resources(data.entries)} of at most {data.max_entries}, {size(data.bytes)} of {size(data.max_bytes)}"
    if data.oldest_s is not None and data.newest_s is not None:
        text += f"; the oldest was read {duration(data.oldest_s)} ago, the newest {duration(data.newest_s)} ago"
    return text


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
    heads, rows = list(_HEADS), [_upstream(upstream) for upstream in upstreams]
    if shared:
        after = heads.index("MISSES") + 1
        heads.insert(after, _FOUND)
        for row, upstream in zip(rows, upstreams, strict=True):
            row.insert(after, upstream.counts.found)
    return Table(heads, rows, shorten=("SERVER",), drop=_LEAST)


def _upstream(upstream: UpstreamCacheStatistics) -> list[Cell]:
    counts = upstream.counts
    counted = counts.hits, counts.misses, counts.coalesced, counts.stale, counts.stored, counts.refused
    return [paint(upstream.name, "name"), upstream.entries, size(upstream.bytes), _reads(counts), *counted]


# --- the store that hubs share ----------------------------------------------------------------------------------------


def _store(store: StoreStatistics) -> list[Block]:
    state, hubs = store.state, store.hubs
    lines: list[Block]
    if state == "connected":
        whose = f", {hubs} {'hub uses' if hubs == 1 else 'hubs use'} it" if hubs else ""
        lines = [f"store: connected for {duration(store.since_s)}{whose}"]
    else:
        lines = [paint(_loud(store), "bad"), *(f"  {line}" for line in (_ADVICE.get(state, _AWAY)))]
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
