"""What `hubd cache` shows, as text. Pure; the data is `cache.statistics.CacheStatistics`, from the control socket."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hub.cli.render.tables import duration, size, table, times
from hub.wire.printable import printable

_HEADS: Final = ("UPSTREAM", "RESOURCES", "SIZE", "READS", "HITS", "MISSES", "JOINED", "STALE", "KEPT", "TOO LARGE")
_FOUND: Final = "FROM STORE"
"""After the misses, where there is a store."""
_AWAY: Final = (
    "the hub works on as if nothing were kept there, and tries it again by itself",
    "see that it runs, and what [cache] in hubd.toml says of it; `hubd doctor` tries it now",
)
_FULL: Final = (
    "what it holds is used, and nothing new is kept there; it is tried again by itself",
    "give it more memory, or `maxmemory-policy allkeys-lru`, and nothing else to keep",
)
_READ_ONLY: Final = ("nothing new is kept there; see the log of that server: hubs need no persistence of it",)
_SLOW: Final = ("it is passed over for some seconds at a time; see what else that server has to do",)

_ADVICE: Final[Mapping[str, tuple[str, ...]]] = {"slow": _SLOW, "full": _FULL, "read-only": _READ_ONLY}


def cache(data: Mapping[str, Any]) -> str:
    """`hubd cache`: the whole, each upstream, why entries were dropped, the store that hubs share."""
    lines = _whole(data)
    if upstreams := data.get("upstreams"):
        lines += ["", *_upstreams(upstreams, shared=bool(data.get("store")))]
    causes = [(cause, count) for cause, count in (data.get("invalidations") or {}).items() if count]
    if causes:
        lines += ["", *table(("DROPPED BECAUSE", "RESOURCES"), causes)]
    if store := data.get("store"):
        lines += ["", *_store(store)]
    return "\n".join(printable(line) for line in lines)


def brief(data: Mapping[str, Any]) -> str:
    """All of it on one line, for `hubd status`."""
    if not data.get("enabled", True):
        text = "off"
    elif not (entries := data.get("entries") or 0):
        text = f"empty{_rate(data, ', ')}"
    else:
        text = f"{_resources(entries)}, {size(data.get('bytes') or 0)}{_rate(data, ', ')}"
    store = data.get("store") or {}
    if store.get("state") not in (None, "connected"):
        text += f"; {_loud(store)} (see `hubd cache`)"
    return text


def _whole(data: Mapping[str, Any]) -> list[str]:
    if not data.get("enabled", True):
        return ["the cache is off; `enabled = true` below [cache] in hubd.toml turns it on"]
    told = [
        ((data.get("counts") or {}).get("stale"), "answered with something stale"),
        ((data.get("counts") or {}).get("refused"), "too large to be kept"),
        (data.get("evicted"), "gone to make room"),
    ]
    rest = ", ".join(f"{count} {what}" for count, what in told if count)
    return [_kept(data), _read(data), *([rest] if rest else [])]


def _kept(data: Mapping[str, Any]) -> str:
    used, limit = (size(data.get(member) or 0) for member in ("bytes", "max_bytes"))
    text = f"{_resources(data.get('entries') or 0)} of at most {data.get('max_entries')}, {used} of {limit}"
    if (oldest := data.get("oldest_s")) is not None and (newest := data.get("newest_s")) is not None:
        text += f"; the oldest was read {duration(oldest)} ago, the newest {duration(newest)} ago"
    return text


def _read(data: Mapping[str, Any]) -> str:
    counts = data.get("counts") or {}
    coalesced, found, flights = counts.get("coalesced") or 0, counts.get("found") or 0, data.get("flights") or 0
    text = "nothing was read yet"
    if reads := _reads(counts):
        there = f", {found} found in the store" if data.get("store") else ""
        begun = (counts.get("misses") or 0) - found
        said = f"{begun} read from upstreams{there}, {coalesced} together with one of these"
        text = f"{reads} {'read' if reads == 1 else 'reads'}{_rate(data, ': ')}, {said}"
    return f"{text}; {flights} {'run' if flights != 1 else 'runs'} now" if flights else text


def _resources(count: int) -> str:
    return f"{count} {'resource' if count == 1 else 'resources'}"


def _reads(counts: Mapping[str, Any]) -> int:
    return sum(counts.get(member) or 0 for member in ("hits", "misses", "coalesced"))


def _rate(data: Mapping[str, Any], before: str) -> str:
    """How many of the reads were answered from the cache; "" if there were none."""
    counts = data.get("counts") or {}
    reads = _reads(counts)
    return f"{before}{100 * (counts.get('hits') or 0) / reads:.0f} % hits" if reads else ""


def _upstreams(upstreams: Sequence[Mapping[str, Any]], *, shared: bool) -> list[str]:
    heads, rows = list(_HEADS), [_upstream(upstream) for upstream in upstreams]
    if shared:
        after = heads.index("MISSES") + 1
        heads.insert(after, _FOUND)
        for row, upstream in zip(rows, upstreams, strict=True):
            row.insert(after, (upstream.get("counts") or {}).get("found") or 0)
    return table(heads, rows)


def _upstream(upstream: Mapping[str, Any]) -> list[Any]:
    counts = upstream.get("counts") or {}
    counted = [counts.get(member) or 0 for member in ("hits", "misses", "coalesced", "stale", "stored", "refused")]
    kept = size(upstream.get("bytes") or 0)
    return [upstream.get("name"), upstream.get("entries"), kept, _reads(counts), *counted]


# --- the store that hubs share ----------------------------------------------------------------------------------------


def _store(store: Mapping[str, Any]) -> list[str]:
    state, hubs = store.get("state"), store.get("hubs") or 0
    if state == "connected":
        whose = f", {hubs} {'hub uses' if hubs == 1 else 'hubs use'} it" if hubs else ""
        lines = [f"store: connected for {duration(store.get('since_s') or 0)}{whose}"]
    else:
        lines = [_loud(store), *(f"  {line}" for line in (_ADVICE.get(str(state), _AWAY)))]
    if late := store.get("late"):
        alone = f", and it was left alone {times(bypasses)}" if (bypasses := store.get("bypasses")) else ""
        lines.append(f"  {late} {'answer' if late == 1 else 'answers'} came too late{alone}")
    if dropped := store.get("dropped"):
        lines.append(f"  {dropped} {'result was' if dropped == 1 else 'results were'} not written there")
    if altered := store.get("altered"):
        what = "value there is" if altered == 1 else "values there are"
        lines.append(f"  {altered} {what} of no hub with this sealing key: who else writes there?")
    return lines


def _loud(store: Mapping[str, Any]) -> str:
    reason = f": {store['reason']}" if store.get("reason") else ""
    state = str(store.get("state")).upper()
    return f"THE STORE THAT HUBS SHARE IS {state} for {duration(store.get('since_s') or 0)}{reason}"
