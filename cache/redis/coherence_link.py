"""Link to the shared store: connections over which each hub tells and hears what is invalidated, so that all agree.

    connect -> same primary on both connections? -> subscribe -> write pending invalidations
            -> receive the own heartbeat -> COHERENT -> until any of it fails -> pause -> connect

Nothing is repaired in place: any failure, even an unexpected exception, ends the connections, and the next ones begin
from nothing.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from cache.redis.health import StoreHealth
from cache.redis.hub_messages_and_heartbeats import BEAT_S, Bus
from cache.redis.layout import INVALIDATE, MAX_DELETED, CommandRefused, Layout, ValueSealer, look_up_command
from cache.redis.url import StoreAddress
from cache.shared_store import StoreListener, StoreUnreachable
from hub.link.backoff import ExponentialBackoff, jitter
from hub.link.fault_isolation import FaultLog
from hub.link.module_loading import load
from hub.link.sync_primitives import Bell, DirtyFlag

if TYPE_CHECKING:
    from cache.redis.connection_pair import ConnectionPair

FIRST_PAUSE_S: Final = 0.5
"""Pause after the first failed attempt to connect."""
HURRY_S: Final = 2.0
"""Longest pause while other hubs may find entries that this hub knows to be stale."""
GREETING_S: Final = 3.0
"""Time limit of the first answers; after that, heartbeats count (`cache.redis.hub_messages_and_heartbeats`)."""
STEADY_S: Final = 10.0
"""After connections that lived so long, pauses begin anew."""
MAX_URIS: Final = 64
"""URIs per source; more count as all of the source."""
MAX_CHARS: Final = 64 << 10
"""Characters of those URIs together; more count as all of the source."""


class PendingWrites:
    """Invalidations waiting or being written, by source. Sources are few: configurations of servers."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[str] | None] = {}
        """The URIs by source; None: all of the source."""
        self._writing: dict[str, set[str] | None] = {}

    def __contains__(self, source: str) -> bool:
        return source in self._waiting or source in self._writing

    def __bool__(self) -> bool:
        return bool(self._waiting or self._writing)

    def add(self, source: str, uri: str | None) -> None:
        """`uri` of `source` changed; None: all of it."""
        if (uris := self._waiting.setdefault(source, set())) is None:
            return
        if uri is not None:
            uris.add(uri)
        if uri is None or len(uris) > MAX_URIS or sum(map(len, uris)) > MAX_CHARS:
            self._waiting[source] = None

    def take_batch(self) -> dict[str, set[str] | None]:
        """Take all that waits; it counts as being written until `mark_written` or `requeue`."""
        self._writing, self._waiting = self._waiting, {}
        return self._writing

    def mark_written(self) -> None:
        self._writing = {}

    def requeue(self) -> None:
        """Queue again all that was taken: it may not be in the store."""
        taken, self._writing = self._writing, {}
        for source, uris in taken.items():
            for uri in uris if uris is not None else (None,):
                self.add(source, uri)


@dataclass(eq=False, repr=False)
class StoreLink:
    """One hub's link to the store, over any number of connections. `run` it once."""

    address: StoreAddress
    sealer: ValueSealer
    clock: Callable[[], float]
    listener: StoreListener
    others: Collection[ValueSealer] = ()
    """For hubs that seal with another key while the key is being replaced. They are told, too."""
    connection: "ConnectionPair | None" = None
    """The usable connections; None: there are none."""
    pending: PendingWrites = field(default_factory=PendingWrites)
    _is_coherent: bool = False
    _wakeup: DirtyFlag = field(default_factory=DirtyFlag)
    _written: Bell = field(default_factory=Bell)

    def __post_init__(self) -> None:
        self.health = StoreHealth(str(self.address), self.clock())
        self.layouts = [Layout(each, "") for each in (self.sealer, *self.others)]
        """The layouts of all keys, this hub's first."""
        self.bus = Bus(self.sealer)
        self.faults = FaultLog(logging.getLogger("cache.redis"), f"the use of the shared store at {self.address}")

    @property
    def is_coherent(self) -> bool:
        """True if invalidations travel between this hub and the others now, in both directions."""
        return self._is_coherent and not self.bus.is_deaf(self.clock())

    @property
    def layout(self) -> Layout:
        """The layout of this hub's own key."""
        return self.layouts[0]

    def invalidate(self, source: str, uri: str | None) -> None:
        """Write and publish an invalidation as soon as there is a connection. Never blocks."""
        self.pending.add(source, uri)
        self._wakeup.set()

    async def until_written(self, source: str) -> None:
        """Wait until no invalidation of `source` is pending."""
        while source in self.pending:
            await self._written.wait()

    async def run(self) -> None:
        """Keep the connections alive until cancelled."""
        pauses = ExponentialBackoff(jitter, first_s=FIRST_PAUSE_S, healthy_s=STEADY_S)
        while True:
            pauses.opened(self.clock())
            reason = ""
            try:
                await load("cache.redis.connection_pair")  # 0.2 s that nobody waits for
                from cache.redis.connection_pair import ConnectionPair

                reason = await ConnectionPair(self.address).run(self._serve)
            except* Exception as errors:  # noqa: BLE001  # a fault is logged, and the work goes on
                reason = self.faults.log_once(errors)
            finally:
                self.connection = None
                if self._is_coherent:
                    self._is_coherent = False
                    self.listener.on_gap()
            self.health.on_lost(reason, self.clock())
            await self.pause(pauses.next_s(self.clock()))

    async def pause(self, seconds: float) -> None:
        """Wait before the next attempt; for less time if invalidations are pending."""
        began = self.clock()
        with trio.move_on_after(seconds):
            while not self.pending:
                await self._wakeup.take()
            await trio.sleep(max(0.0, began + HURRY_S - self.clock()))

    async def _serve(self, connection: "ConnectionPair") -> None:
        self.layouts = [Layout(layout.sealer, connection.primary) for layout in self.layouts]
        self.bus.reset(self.layout.channel, self.clock())
        try:
            with trio.fail_after(GREETING_S):
                await self._greet(connection)
        except trio.TooSlowError:
            return connection.fail(f"no answer within {GREETING_S:g} s")
        except StoreUnreachable as error:
            return connection.fail(str(error))
        self.connection = connection
        self.pending.requeue()  # of earlier connections: it may or may not have been written
        self._wakeup.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.listen, partial(self._on_message, connection))
            nursery.start_soon(self._write, connection)
            nursery.start_soon(self._beat, connection)

    async def _greet(self, connection: "ConnectionPair") -> None:
        """Subscribe, and try each command once: not every user may, and not every server can.
        Raises: StoreUnreachable."""
        try:
            await connection.subscribe(self.bus.channel)
            await connection.execute(*look_up_command(self.layout.tokens(""), ["*"], ["", ""], "0", 0))
        except CommandRefused as error:
            if error.code not in ("OOM", "MISCONF"):
                raise

    def _on_message(self, connection: "ConnectionPair", heard: bytes) -> None:
        foreign = self.bus.foreign
        news = self.bus.receive(heard, self.clock())
        if self.bus.foreign > foreign:
            self.health.on_altered()
        if news is not None:
            source, uris = news
            for uri in uris if uris is not None else (None,):
                self.listener.on_stale(source, uri)
        self._check_coherence(connection)

    def _check_coherence(self, connection: "ConnectionPair") -> None:
        if self._is_coherent or connection is not self.connection or self.pending or not self.bus.is_proven:
            return
        self.listener.on_gap()  # no change could be reported of entries kept since the connection was lost
        self._is_coherent = True
        self.health.on_reached(self.clock())

    async def _beat(self, connection: "ConnectionPair") -> None:
        """Send a heartbeat each second; end the connections when it does not return, or the primary changed."""
        while True:
            at = self.clock()
            with trio.move_on_after(BEAT_S):
                try:
                    await connection.execute(b"PUBLISH", self.bus.channel, self.bus.heartbeat())
                    await connection.check_primary()
                except StoreUnreachable as error:
                    return connection.fail(str(error))
            await trio.sleep(max(0.0, at + BEAT_S - self.clock()))
            if self.bus.is_deaf(self.clock()):
                return connection.fail("messages of hubs do not arrive there")

    async def _write(self, connection: "ConnectionPair") -> None:
        while True:
            await self._wakeup.take()
            while batch := self.pending.take_batch():
                try:
                    await self._write_batch(connection, batch)
                except StoreUnreachable as error:
                    return connection.fail(str(error))
                self.pending.mark_written()
                self._written.ring()
                self._check_coherence(connection)

    async def _write_batch(self, connection: "ConnectionPair", taken: dict[str, set[str] | None]) -> None:
        """Write a batch. Raises: StoreUnreachable; the batch may or may not have been written."""
        commands: list[Sequence[bytes | str | int]] = []
        for source, uris in taken.items():
            all_fields = [layout.fields_to_delete(uris or ()) for layout in self.layouts]
            if len(all_fields[0]) > MAX_DELETED:
                all_fields, uris = [{} for _ in self.layouts], None
            word = self.bus.message(source, None if uris is None else tuple(sorted(uris)))
            for layout, fields in zip(self.layouts, all_fields, strict=True):
                said = layout.sealer.seal(layout.channel, word)
                commands.append([b"EVAL", INVALIDATE, 1, layout.tokens(source), layout.channel, said, *fields])
        try:
            await connection.execute_each(commands)
        except CommandRefused as error:
            raise StoreUnreachable(f"invalidations cannot be written: {error}") from None
