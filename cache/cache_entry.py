"""Entries of the cache: their keys and causes of dropping them, which reads give the same result, what a result of
`resources/read` says about caching, and what hosts are told of it. Pure.
"""

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import Final

from msgspec import Raw, Struct

from config.settings import UpstreamConfig
from hub.link.call_interface import Caller, Operation, Tenant
from hub.link.hub_errors import HubError
from hub.wire.capabilities import capabilities_for_upstream
from hub.wire.jsonrpc import EMPTY, Reply, Result, detach, encode, peek_object, peek_str, raw
from hub.wire.mcp import COMPLETED, HUB_STALE, RESOURCES_READ, RESULT_TYPE, Era, era_of
from hub.wire.modern_metadata import read_freshness

HARMLESS: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of a request's `_meta` that no result depends on."""


EVERYONE: Final = ""
"""The owner of public entries."""


class DropCause(Enum):
    """Reasons why an entry is dropped; `hubd cache` shows the values."""

    UPDATED = "updated"
    """The upstream reported a change of the resource, of a part of it, or of a resource that it is a part of."""
    LISTS = "lists changed"
    """The upstream reported that its list of resources changed."""
    SESSION = "session ended"
    """Changes could no longer be reported."""
    CONFIG = "configuration"
    CLEARED = "cleared"
    """By command."""
    ELSEWHERE = "another hub"
    """Another hub on the same store reported a change."""
    STORE_LOST = "store lost"
    """The store could not deliver changes that other hubs reported."""


class CacheKey(Struct, frozen=True):
    """Key of an entry: one resource as one reader may see it. Hashable."""

    upstream: str
    """The name of the upstream in this hub."""
    source: str
    """Identity of the server: a digest of its configuration, secrets included."""
    uri: str
    """In the spelling of the upstream."""
    owner: str
    """The principal who may see the entry, or EVERYONE."""
    tenant: Tenant | None = None
    """The host over whose own session it was read; None: over a shared session."""
    abilities: str = ""
    """Capabilities of the reader's host, as a modern upstream is told: its answer may depend on them."""


class Entry(Struct, frozen=True):
    """The result of one read, and how long it may be used."""

    value: Raw
    """The result of the upstream, byte for byte."""
    version: str
    """The protocol revision of the result."""
    public: bool
    """True if the upstream allows everyone to see it."""
    fresh_until: float
    """Time of the clock in seconds; `inf`: as long as it is observed."""
    stale_until: float
    """Until when it may stand in, marked, for a failed read; not above `fresh_until`: never."""
    observed: bool
    """True if it is valid only while this hub is told of changes (it has no time-to-live)."""

    @property
    def size(self) -> int:
        return memoryview(self.value).nbytes


def is_plain(asked: Operation) -> bool:
    """True if this is a read whose result depends on the URI alone."""
    return asked.method == RESOURCES_READ and asked.params.keys() == {"uri"} and asked.meta.keys() <= HARMLESS


def abilities_of(caller: Caller, config: UpstreamConfig) -> str:
    """The capabilities that a modern upstream is told for the host of `caller`, as `CacheKey.abilities`."""
    features, absorbs = config.client_features, config.tasks == "absorb"
    told = capabilities_for_upstream(caller.capabilities, client_features=features, absorbs_tasks=absorbs)
    return encode(told).decode()


MAX_TTL_S: Final = 3600.0
"""The longest time-to-live in seconds. Only changes that the upstream reports could justify a longer one."""


def is_complete(reply: Reply, version: str) -> bool:
    """True if `reply`, in the revision `version`, is final: an error, or a complete result."""
    if not isinstance(reply, Result) or era_of(version) is Era.LEGACY:
        return True
    kind = peek_object(reply.value).get(RESULT_TYPE)
    return kind is None or peek_str(kind) == COMPLETED


def has_ttl(value: Raw) -> bool:
    """True if a result of a modern upstream has a time-to-live."""
    return bool(read_freshness(peek_object(value)).ttl_ms)


def entry_of(value: Raw, version: str, era: Era, now: float, stale_s: float, *, observed: bool) -> Entry | None:
    """The entry for a result that arrived `now`; None: it may not be kept.

    `era` is the era of its session; `observed`: every change since the read began is sure to be reported.
    """
    members = peek_object(value)
    contents = members.get("contents")
    if contents is None or memoryview(contents)[0] != ord("["):
        return None
    if RESULT_TYPE in members and peek_str(members[RESULT_TYPE]) != COMPLETED:
        return None
    freshness = read_freshness(members if era is Era.MODERN else {})
    if ttl_ms := freshness.ttl_ms:
        until = now + min(ttl_ms / 1000, MAX_TTL_S)
        return Entry(detach(value), version, freshness.public, until, until + stale_s, observed=False)
    return Entry(detach(value), version, freshness.public, inf, inf, observed=True) if observed else None


def ttl_ms(entry: Entry, now: float) -> int:
    """Milliseconds for which a host may keep the result; 0: it is valid only while the hub observes it."""
    return 0 if entry.observed else max(0, int((entry.fresh_until - now) * 1000))


def scope(entry: Entry) -> str:
    """The `cacheScope` that hosts are told."""
    return "public" if entry.public else "private"


def fresh_result(entry: Entry, now: float) -> Result:
    """The result with its remaining time, in its own revision."""
    if era_of(entry.version) is Era.LEGACY:
        return Result(entry.value)
    return _with(entry, {"ttlMs": raw(ttl_ms(entry, now)), "cacheScope": raw(scope(entry))})


def stale_result(entry: Entry, at: float, now: float, error: HubError) -> Result:
    """The result in place of `error`, marked with its age: it was read at the time `at`."""
    mark = raw({"ageMs": max(0, int((now - at) * 1000)), "reason": error.kind})
    meta = raw({**peek_object(peek_object(entry.value).get("_meta", EMPTY)), HUB_STALE: mark})
    return _with(entry, {"ttlMs": raw(0), "cacheScope": raw("private"), "_meta": meta})


def _with(entry: Entry, more: Mapping[str, Raw]) -> Result:
    return Result(raw({**peek_object(entry.value), **more}))
