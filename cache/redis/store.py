"""The shared store in Redis or Valkey: looks up and puts entries, within 50 ms or not at all.

`cache.redis.coherence_link` keeps the connections and invalidates; `cache.redis.layout` has the names and scripts.
"""

import secrets
from collections.abc import Callable, Collection
from math import inf
from typing import Any, Final

import msgspec
import trio
from msgspec import Raw, Struct

from cache.cache_entry import EVERYONE, Entry
from cache.redis.coherence_link import StoreLink
from cache.redis.layout import HASH_TTL_S, CommandRefused, ValueSealer, look_up_command, time_of
from cache.redis.shared_facts import SharedFacts
from cache.redis.url import address_of, require_client
from cache.shared_store import ReadTicket, StoreListener, StoreUnreachable
from cache.statistics import StoreStatistics
from config.settings import CacheConfig
from hub.link.sealing import OVERHEAD_BYTES

BUDGET_S: Final = 0.05
"""Time limit of a look-up or a put."""
MAX_VALUE_BYTES: Final = 1 << 20
"""Larger results are not shared: small ones would wait behind them."""
STAMP_CHARS: Final = 40
HEAD_BYTES: Final = 256
"""Room for the head of a value."""


class _Head(Struct, frozen=True, array_like=True):
    """First line of a value, before the result. Times are seconds of the store's clock."""

    version: str
    public: bool
    observed: bool
    fresh_until: float | None
    """None: as long as it is observed."""
    stale_until: float
    read_at: int
    """Time at which the ticket of the read was issued, in microseconds. An entry from the future was put before the
    store's clock was set back, by an administrator or a time server. It is not used: its time-to-live would end too
    late."""


class RedisStore:
    """The store that hubs share, with a `Directory` beside it; the listener of its `StoreLink`. `source`, `uri`,
    `owner` and `abilities` are those of a `CacheKey`."""

    def __init__(
        self,
        config: CacheConfig,
        key: bytes,
        clock: Callable[[], float],
        *,
        others: Collection[bytes] = (),
        budget_s: float = BUDGET_S,
    ) -> None:
        """`key`: the secret that hubs share, 32 bytes. `others`: keys of hubs that do not seal with `key` yet, or any
        more. These share no entries with this hub, but invalidations and facts.
        Raises: ConfigError, for a URL that cannot be used, and when the client library is not installed."""
        address = address_of(config)
        require_client()
        self.max_bytes = min(config.max_entry_bytes, MAX_VALUE_BYTES)
        self._budget_s = budget_s
        self._clock = clock
        self._sealer = ValueSealer(key)
        self._link = StoreLink(address, self._sealer, clock, self, [ValueSealer(other) for other in others])
        self._listener: StoreListener
        self._health = self._link.health
        self._looks: dict[object, str] = {}
        """The sources of look-ups under way; of what was invalidated meanwhile none is left, since it may be stale."""
        self.directory = SharedFacts(self._link)

    @property
    def is_coherent(self) -> bool:
        """True if invalidations travel between this hub and the others now, in both directions."""
        return self._link.is_coherent

    def statistics(self) -> StoreStatistics:
        """Health and counts of the store."""
        now = self._clock()
        return self._health.statistics(now, self._link.bus.hubs(now))

    async def run(self, listener: StoreListener) -> None:
        """Stay connected, and pass reports of other hubs to `listener`, until cancelled."""
        self._listener = listener
        await self._link.run()

    async def look_up(
        self, source: str, uri: str, owner: str, abilities: str = ""
    ) -> tuple[Entry | None, ReadTicket | None]:
        """The entry for `owner` or for everyone, and a ticket for a read; None: no entry, or nothing may be put. An
        entry may be no longer fresh, and then good only until its `stale_until`.

        Raises nothing; takes no longer than the store's deadline.
        """
        began = self._clock()
        if not self.is_coherent or self._health.is_bypassed(began):
            return None, None
        with trio.move_on_after(self._budget_s):
            await self._link.until_written(source)
        layout = self._link.layout
        fields = layout.token_fields(uri)
        if fields is None or source in self._link.pending:
            return None, None
        owners = (owner, EVERYONE) if owner != EVERYONE else (owner,)
        names = [*(layout.entry(source, uri, each, abilities) for each in owners), ""][:2]
        limit = self.max_bytes + OVERHEAD_BYTES + HEAD_BYTES
        command = look_up_command(layout.tokens(source), fields, names, secrets.token_urlsafe(9), limit)
        look = object()
        self._looks[look] = source
        try:
            found = await self._execute(command, self._budget_s - (self._clock() - began))
        except StoreUnreachable:
            return None, None
        finally:
            is_spoiled = self._looks.pop(look, None) is None
        if is_spoiled:
            return None, None
        try:
            stamp, seconds, microseconds, *values = found
            if len(stamp) != STAMP_CHARS:
                raise ValueError("no stamp")
            read_at = time_of([seconds, microseconds])
            ticket = ReadTicket(stamp.decode("ascii"), read_at / 1e6 - self._clock(), read_at)
        except (TypeError, ValueError, AttributeError, StoreUnreachable):
            self._health.on_altered()
            return None, None
        entries = [self._open(name + ticket.stamp, value, ticket) for name, value in zip(names, values, strict=False)]
        return max(filter(None, entries), key=lambda entry: entry.fresh_until, default=None), ticket

    async def put(
        self, ticket: ReadTicket, source: str, uri: str, owner: str, entry: Entry, abilities: str = ""
    ) -> None:
        """Put `entry` for `owner`. Raises nothing; an entry that cannot be put is dropped and counted."""
        now = self._clock()
        stale_until = min(entry.stale_until, now + HASH_TTL_S)
        life_ms = int((min(max(entry.fresh_until, stale_until), now + HASH_TTL_S) - now) * 1000)
        if life_ms <= 0 or entry.size > self.max_bytes or not self.is_coherent:
            self._health.dropped += 1
            return
        fresh_until = None if entry.fresh_until == inf else entry.fresh_until + ticket.ahead_s
        stale_until += ticket.ahead_s
        head = _Head(entry.version, entry.public, entry.observed, fresh_until, stale_until, ticket.read_at)
        name = self._link.layout.entry(source, uri, owner, abilities) + ticket.stamp
        sealed = self._sealer.seal(name, msgspec.json.encode(head) + b"\n" + bytes(entry.value))
        try:
            await self._execute([b"SET", name, sealed, b"PX", life_ms], self._budget_s)
        except StoreUnreachable:
            self._health.dropped += 1
        else:
            self._health.on_written(self._clock())

    def invalidate(self, source: str, uri: str | None) -> None:
        """Invalidate results of reads before now: of one resource with its parts and parents, or of all. Never blocks.
        Until that is in the store, `look_up` of this source waits within its deadline, or finds nothing."""
        self._link.invalidate(source, uri)
        self._spoil(source)

    async def _execute(self, command: list[bytes | str | int], within_s: float) -> Any:
        """The answer to a command within the time given. Raises: StoreUnreachable."""
        connection = self._link.connection
        if connection is None or self._health.is_bypassed(self._clock()):
            raise StoreUnreachable("the store is bypassed now")
        with trio.move_on_after(max(0.01, within_s)):
            try:
                answer = await connection.execute(*command)
            except CommandRefused as error:
                self._refused(error)
                raise
            self._health.on_answer(self._clock())
            return answer
        self._health.on_late(self._clock())
        raise StoreUnreachable(f"no answer within {self._budget_s:g} s")

    def _refused(self, error: CommandRefused) -> None:
        if error.code == "WRONGTYPE":
            self._health.on_altered()
        elif error.code in ("READONLY", "NOPERM") and self._link.connection is not None:
            self._link.connection.fail(str(error))
        else:
            self._health.on_refused(error.code, error.text, self._clock())

    def _open(self, name: str, value: object, ticket: ReadTicket) -> Entry | None:
        """Open the value under `name`, with times of this hub's clock; None: no value, or not a usable one."""
        if value is None:
            return None
        opened = self._sealer.open(name, value) if isinstance(value, bytes) else None
        if opened is None:
            self._health.on_altered()
            return None
        line, _, body = opened.partition(b"\n")
        try:
            head = msgspec.json.decode(line, type=_Head)
        except (msgspec.DecodeError, UnicodeDecodeError):  # a hub of another version wrote it
            return None
        is_over = max(head.fresh_until or 0.0, head.stale_until) <= self._clock() + ticket.ahead_s
        if is_over or head.read_at > ticket.read_at:
            return None
        fresh = inf if head.fresh_until is None else head.fresh_until - ticket.ahead_s
        return Entry(Raw(body), head.version, head.public, fresh, head.stale_until - ticket.ahead_s, head.observed)

    def _spoil(self, source: str | None) -> None:
        """Spoil all look-ups for `source`, None: for any."""
        self._looks = {look: each for look, each in self._looks.items() if source not in (None, each)}

    def on_stale(self, source: str, uri: str | None) -> None:
        self._spoil(source)
        self._listener.on_stale(source, uri)

    def on_gap(self) -> None:
        self._spoil(None)
        self._listener.on_gap()
