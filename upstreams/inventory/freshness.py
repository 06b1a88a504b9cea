"""Freshness: how long a list that was read may be used without asking again. Pure."""

from typing import Final

from msgspec import Raw

from hub.wire.jsonrpc import EMPTY, peek_object
from hub.wire.mcp import CAPABILITY, Era, Freshness, Kind, Snapshot, era_of

TOLD_TTL_MS: Final = 60_000
SILENT_TTL_MS: Final = 10_000
"""For legacy upstreams, which declare none: one that tells of changes, and one that does not."""
NEVER_MS: Final = 1 << 53


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
