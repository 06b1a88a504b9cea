"""A real Redis for tests, a store on it that records its events, and a relay between them that cuts connections.

The server is Redis, or what HUBD_REDIS names (`valkey-server`), from `debian.program`. Nothing sleeps: `Told.until`
waits for events and log lines.
"""

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from msgspec import Raw

from cache.cache_entry import Entry
from cache.redis.layout import ValueSealer
from cache.redis.store import RedisStore
from config.setting_declarations import Secret
from config.settings import CacheConfig
from tests.support.debian import program
from tests.support.processes import Process, free_port

KEY = bytes(range(32))
SEALER = ValueSealer(KEY)
"""Seals and names as any hub of `KEY`."""
PATIENCE_S = 30.0


class RedisServer:
    """A server on a unix socket, and on a TCP or TLS port if wanted; a restart keeps its addresses."""

    def __init__(
        self,
        directory: Path,
        *settings: str,
        tcp: bool = False,
        tls: Path | None = None,
        name: str = "redis",
        kind: str = os.environ.get("HUBD_REDIS", "redis-server"),
    ) -> None:
        """`settings`: lines of redis.conf. `tls`: a directory with ca.pem, cert.pem and key.pem."""
        self.kind = kind
        self.directory = directory / name
        self.directory.mkdir(exist_ok=True)
        # A path in a test's directory may be longer than the 107 bytes that the address of a socket has.
        self.socket = Path(f"/tmp/hubd-redis-{os.getpid()}-{abs(hash(self.directory)) % 10**8}.sock")
        self.port = free_port() if tcp or tls else 0
        ports = f"port 0\ntls-port {self.port}" if tls else f"port {self.port}"
        lines = [ports, "bind 127.0.0.1", f"unixsocket {self.socket}", f"dir {self.directory}", 'save ""', *settings]
        if tls:
            lines += [f"tls-cert-file {tls}/cert.pem", f"tls-key-file {tls}/key.pem", f"tls-ca-cert-file {tls}/ca.pem"]
            lines += ["tls-auth-clients no"]
        self.conf = self.directory / "redis.conf"
        self.conf.write_text("\n".join(lines) + "\n")
        self.process: Process | None = None

    @property
    def url(self) -> str:
        """The URL of the unix socket."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it; returns when it accepts connections."""
        redis = program(self.kind)
        self.process = Process([redis.path, self.conf], self.directory / "log", env=redis.env, merged=True)
        self.process.wait_for("eady to accept connections (at|unix)|connections at")

    def stop(self) -> None:
        """Stop it with SIGKILL: nothing is saved."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.stop()
            self.process = None
        self.socket.unlink(missing_ok=True)

    def pause(self) -> None:
        """Make it answer nothing until `resume`."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def do(self, *command: str | bytes | int) -> object:
        """Run a command over a connection of its own, as an administrator would; returns the RESP2 answer or error."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words))
            with connection.makefile("rb") as stream:
                return _answer(stream)

    def channel(self) -> str:
        """The one channel that hubs listen to."""
        found = self.do("PUBSUB", "CHANNELS")
        assert isinstance(found, list)
        (name,) = found
        return name.decode()

    def keys(self, pattern: str) -> list[str]:
        found = self.do("KEYS", pattern)
        assert isinstance(found, list)
        return sorted(key.decode() for key in found)


def _answer(stream) -> object:
    line = stream.readline()[:-2]
    kind, rest = line[:1], line[1:]
    if kind == b"$":
        return stream.read(int(rest) + 2)[:-2] if rest != b"-1" else None
    if kind == b"*":
        return [_answer(stream) for _ in range(int(rest))]
    return int(rest) if kind == b":" else rest.decode()


@contextlib.contextmanager
def redis_server(directory: Path, *settings: str, **how: Any) -> Iterator[RedisServer]:
    """A server that runs during the block; the arguments go to `RedisServer`."""
    server = RedisServer(directory, *settings, **how)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Told(logging.Handler):
    """Events and log lines of a store, in order: ("stale", source, uri), ("gap",), (level, text). A `StoreListener`."""

    def __init__(self) -> None:
        super().__init__()
        self.news: list[tuple] = []
        self._event = trio.Event()

    def tell(self, *news: object) -> None:
        self.news.append(news)
        self._event.set()

    def on_stale(self, source: str, uri: str | None) -> None:
        self.tell("stale", source, uri)

    def on_gap(self) -> None:
        self.tell("gap")

    def emit(self, record: logging.LogRecord) -> None:
        self.tell(record.levelname, record.getMessage())

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait for events after which `is_so`."""
        with trio.move_on_after(PATIENCE_S):
            while not is_so():
                self._event = trio.Event()
                await self._event.wait()
            return
        raise AssertionError(f"never so; told: {self.news}")

    def said(self, level: str) -> list[str]:
        return [text for kind, *rest in self.news if kind == level for text in rest]


class Store(RedisStore):
    """A store that records its events, with time limits for a busy machine."""

    def __init__(
        self, url: str, *, key: bytes = KEY, others: Sequence[bytes] = (), budget_s: float = 10.0, **settings: object
    ):
        config = CacheConfig(url=Secret(url), **settings)
        super().__init__(config, key, trio.current_time, others=others, budget_s=budget_s)
        self.told = Told()
        pending = self._link.pending
        mark_written = pending.mark_written
        pending.mark_written = lambda: (mark_written(), self.told.tell("written"))

    def overheard(self) -> list[bytes]:
        """The messages that it gets on the channel from now on, unchanged."""
        said: list[bytes] = []
        hear = self._link.bus.receive

        def note(heard: bytes, now: float) -> object:
            said.append(heard)
            return hear(heard, now)

        self._link.bus.receive = note
        return said

    async def until_coherent(self) -> None:
        await self.told.until(lambda: self.is_coherent)

    async def until_away(self) -> None:
        """Wait until it has tried to reach the store, or lost it."""
        await self.told.until(
            lambda: self.statistics().state == "away" and self.statistics().reason != "not reached yet"
        )

    async def until_gaps(self, count: int) -> None:
        """Wait for so many gaps: each store begins with one, and each lost connection brings two."""
        await self.told.until(lambda: self.told.news.count(("gap",)) == count)

    async def until_written(self) -> None:
        """Wait until invalidations count for every hub."""
        await self.told.until(lambda: not self._link.pending)

    async def ticket(self, source: str = "s", uri: str = "a://x/y", owner: str = "ann"):
        """A ticket under which a read may be cached now; asserts that nothing is cached."""
        found, ticket = await self.look_up(source, uri, owner)
        assert found is None
        assert ticket is not None
        return ticket

    async def keep(self, text: str = "value", source: str = "s", uri: str = "a://x/y", owner: str = "ann", **how):
        """Cache a resource as read just now."""
        await self.put(await self.ticket(source, uri, owner), source, uri, owner, entry(text, **how))

    async def found(self, source: str = "s", uri: str = "a://x/y", owner: str = "ann") -> str | None:
        """The text of the cached resource."""
        found, _ = await self.look_up(source, uri, owner)
        return None if found is None else bytes(found.value).decode()


def entry(
    text: str = "value", *, fresh_s: float = 100.0, stale_s: float = 0.0, public: bool = False, observed: bool = False
) -> Entry:
    now = trio.current_time()
    return Entry(Raw(text.encode()), "2026-07-28", public, now + fresh_s, now + fresh_s + stale_s, observed)


@asynccontextmanager
async def stores(*made: Store, is_coherent: bool = True) -> AsyncIterator[None]:
    """Run stores; the block begins when each hears the others."""
    async with trio.open_nursery() as nursery:
        log = logging.getLogger("cache.redis")
        level = log.level
        log.setLevel(logging.INFO)
        for store in made:
            log.addHandler(store.told)
            nursery.start_soon(store.run, store.told)
        try:
            for store in made if is_coherent else ():
                await store.until_coherent()
            yield
        finally:
            for store in made:
                log.removeHandler(store.told)
            log.setLevel(level)
        nursery.cancel_scope.cancel()


class Relay:
    """Takes connections on a TCP port and passes them to unix sockets in turn."""

    def __init__(self, *sockets: Path) -> None:
        self.sockets = [*sockets]
        self.port = 0
        self.silent = False
        """Whether answers vanish."""
        self.passed = 0
        """Bytes of answers so far."""
        self.limit: int | None = None
        """Bytes of answers that pass before every connection is cut. None: no limit."""
        self._streams: set[trio.abc.Stream] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def run(self, task_status=trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._serve, listeners, task_status=task_status)

    async def _serve(self, near: trio.SocketStream) -> None:
        self.sockets.append(self.sockets.pop(0))
        far = await trio.open_unix_socket(str(self.sockets[-1]))
        self._streams |= {near, far}
        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass, near, far, False)
            await self._pass(far, near, True)
            nursery.cancel_scope.cancel()

    async def _pass(self, source: trio.SocketStream, sink: trio.SocketStream, counted: bool) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                if counted and self.limit is not None:
                    data, self.limit = data[: self.limit], self.limit - len(data)
                self.passed += len(data) if counted else 0
                if not (counted and self.silent):
                    await sink.send_all(data)
                if counted and self.limit is not None and self.limit <= 0:
                    return await self.cut()

    async def cut(self) -> None:
        """Cut every connection now."""
        self.limit = None
        streams, self._streams = self._streams, set()
        for stream in streams:
            await stream.aclose()


def elapsed_ms(since: float) -> float:
    return (time.perf_counter() - since) * 1000
