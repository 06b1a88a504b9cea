"""An upstream for tests of the cache alone: what it says is in the hands of the test."""

from typing import Any

import trio

from cache.resource_cache import ResourceCache
from config.settings import CacheConfig, UpstreamConfig
from hub.link.call_interface import Caller, Exchange, Identity, Operation, Tenant
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.jsonrpc import EMPTY, Reply, Result, peek_str, raw
from hub.wire.mcp import L4, MODERN, RESOURCES_READ, Era, era_of
from hub.wire.upstream_snapshot import Snapshot


class Watches:
    """What is watched over a session: all that is asked for, at once, unless `agrees` says otherwise."""

    def __init__(self, server: "Served") -> None:
        self.server = server
        self.agrees = True
        self.slow_s = 0.0
        self.live: set[str] = set()
        self.asked: list[str] = []

    async def observe(self, uri: str, reader: int) -> bool:
        self.asked.append(uri)
        await trio.sleep(self.slow_s)
        if self.agrees and uri not in self.live:
            self.live.add(uri)
            self.server.says.subscribed(uri)
        return self.agrees

    def is_observed(self, uri: str) -> bool:
        return uri in self.live

    def neglect(self, uri: str) -> None:
        self.live.discard(uri)


class Session:
    def __init__(self, era: Era) -> None:
        self.era = era


class Place:
    def __init__(self, server: "Served", tenant: Tenant | None = None) -> None:
        self.tenant = tenant
        self.session = Session(era_of(server.version))
        self.subscriptions = Watches(server)


class Host:
    """One that waits: what it heard, and its answers to questions."""

    def __init__(
        self, principal: str = "alice", label: str = "desk", *, token: bool = False, can: tuple[str, ...] = ()
    ) -> None:
        capabilities = dict.fromkeys(can, EMPTY)
        self.caller = Caller(Identity(principal, label), MODERN, capabilities, conversation=1, lasting=True)
        self.wants_progress = token
        self.heard: list[Any] = []
        self.asked: list[Any] = []

    def progress(self, params: Any) -> None:
        self.heard.append(params)

    def log(self, params: Any) -> None:
        self.heard.append(params)

    def note_sent(self) -> None:
        pass

    async def ask(self, question: Any) -> Reply:
        self.asked.append(question)
        return Result(raw("yes"))


class Served:
    """An upstream. What is read is the number of the read, unless `on_read` says otherwise."""

    def __init__(self, version: str = L4, *, name: str = "files", **config: Any) -> None:
        self.name = name
        self.version = version
        self.config = UpstreamConfig(**{"url": "https://example.com/mcp", **config})
        self.capabilities = {"resources": raw({"subscribe": True})}
        self.more: dict[str, Any] = {}
        """Members of every result."""
        self.reads: list[str] = []
        self.exchanges: list[Exchange] = []
        self.on_read: Any = None
        self.gate: trio.Event | None = None
        """What reads wait for."""
        self.cancelled = 0
        self.ends_s = 0.0
        """How long it takes to cancel a read."""
        self.place: Place | None = Place(self)
        self.places: dict[Tenant, Place] = {}
        """Of hosts that have one of their own."""
        self.says: Any = None
        """Its listener."""
        self.away = False

    def report_to(self, reads: ResourceCache) -> None:
        """Let the cache read from here, and tell it what changes."""
        reads.register(self)
        self.says = reads.listener_for(self.name, self.config)

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(self.name, self.version, self.capabilities, {}, "", {}, {}, local=False)

    def session_for(self, caller: Caller) -> Place | None:
        return self.places.get(caller.tenant, self.place)

    def result(self, uri: str, text: object) -> Result:
        kind = {"resultType": "complete"} if era_of(self.version) is Era.MODERN else {}
        return Result(raw({**kind, "contents": [{"uri": uri, "text": str(text)}], **self.more}))

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        uri = peek_str(operation.params["uri"]) or ""
        self.reads.append(uri)
        self.exchanges.append(exchange)
        text = len(self.reads)
        if self.away:
            raise UpstreamUnavailable("It is away", upstream=self.name)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except trio.Cancelled:
            self.cancelled += 1
            with trio.CancelScope(shield=True):
                await trio.sleep(self.ends_s)
            raise
        if self.on_read is not None:
            return await self.on_read(operation, exchange)
        return self.result(uri, text)


def read_of(uri: str = "note://a", **more: object) -> Operation:
    """A read of a resource."""
    return Operation(RESOURCES_READ, {"uri": raw(uri), **{name: raw(value) for name, value in more.items()}})


async def reads_of(nursery: trio.Nursery, *servers: Served, shared: Any = None, **config: Any) -> ResourceCache:
    """A cache that runs."""
    reads = ResourceCache(CacheConfig(**config), shared)
    for server in servers:
        server.report_to(reads)
    await nursery.start(reads.run)
    return reads
