"""`hubd serve`: the daemon around a `Hub`, with its sockets, signals, reloads and drain.

    daemon -- signals | hub | HTTP, line and control listeners
      `-- handlers: one task per connection

Listeners sit outside of the handlers, so that shutdown stops accepting first. With `--stdio` there are none
(`hub.daemon.stdio_host`). The exit code says how the daemon ended: 0 stopped, 69 cannot listen, 70 a fault of its own,
75 already running, 78 bad configuration (sysexits).
"""

import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from msgspec import structs

from config.diff import Difference
from config.directories import state_dir
from config.errors import ConfigError
from config.hub_files import control_path, key_path, lock_path, socket_path, state_path, trust_path
from config.leftovers import remove_drafts
from config.loading.layers import Loaded
from config.saved_state import Memory
from hub.app import Hub
from hub.control.server import serve_control
from hub.daemon import logs, systemd
from hub.daemon.api import DaemonApi
from hub.daemon.banner import announce
from hub.daemon.http_listener import CannotListen, HttpListener, listen
from hub.daemon.http_routes import pages
from hub.daemon.memory_trim import keep_trim
from hub.daemon.options import ServeOptions, checked, configuration
from hub.daemon.process import FaultCounter, LoopWatchdog, calm_collector, harden, kill_left_behind, raise_fd_limit
from hub.daemon.reload import Reloader
from hub.daemon.root_warning import ADVICE, ROOT, is_root
from hub.daemon.setup import keys_for, last_known, project_reader, sessions_for, store_for, wall
from hub.daemon.signals import obey, received
from hub.daemon.stdio_host import serve_stdio
from hub.downstream.lines.server import LineServer
from hub.link.fault_isolation import keep_going
from hub.link.machine_clock import boot_clock
from hub.link.sealing import Sealer
from hub.net.unix import AlreadyRunning, bind_unix, inode_at, take_lock
from hub.shim.start_daemon import LOG_BYTES, log_path
from hub.wire.printable import printable
from upstreams.lifecycle import State
from upstreams.transports.stdio.orphans import MARKER, MAX_DEPTH, THIS_HUB, adopt, depth, kill_adopted, kill_marked

if TYPE_CHECKING:
    from cache.redis.store import RedisStore

log = logging.getLogger("hubd")

LOOK_S: Final = 10.0
"""Interval at which a hub checks that its sockets still exist."""
LAST_ANSWERS_S: Final = 0.5
"""Time limit for sending the answers to requests that are cut off."""
STOP_S: Final = 30.0
"""Time limit for stopping upstreams once the calls have ended."""


def run_serve(options: ServeOptions) -> int:
    """Run the hub until it is told to stop; the exit code."""
    code = _run(options)
    if options.detached and code != os.EX_OK:
        with suppress(OSError):
            os.write(0, str(code).encode())
    return code


def _run(options: ServeOptions) -> int:
    logs.configure(log_path=log_path, log_bytes=LOG_BYTES)
    harden()
    raise_fd_limit()
    if depth(os.environ.get(MARKER, "")) > MAX_DEPTH:
        return _failed(
            os.EX_CONFIG, ConfigError("this hub is the child of hubs upon hubs: does one of them start itself?")
        )
    try:
        loaded = configuration(options)
        if is_root():
            log.warning("%s; %s", ROOT, ADVICE)
        for warning in loaded.warnings:
            log.warning("%s", warning)
        for diagnostic in loaded.unresolved:
            log.warning("%s is not started until there is what it needs: %s", diagnostic.unresolved, diagnostic)
        if not loaded.sources:
            log.info("no configuration found: serving the demo until there is %s", loaded.files[0])
        serve = serve_stdio if options.stdio else partial(serve_daemon, shown=not options.detached)
        trio.run(serve, loaded, partial(configuration, options))
    except ConfigError as error:
        return _failed(os.EX_CONFIG, error)
    except AlreadyRunning as error:
        return _failed(os.EX_TEMPFAIL, error)
    except CannotListen as error:
        return _failed(os.EX_UNAVAILABLE, error)
    except Exception:  # nothing inside could deal with it: everything was stopped in order
        log.exception("the hub has stopped because of a fault of its own")
        return os.EX_SOFTWARE
    finally:
        kill_marked(THIS_HUB)
        kill_adopted()
    return os.EX_OK


async def serve_daemon(loaded: Loaded, read: Callable[[], Loaded], *, shown: bool = True) -> None:
    """Listen on the unix sockets and on `config.listen` until a signal comes, then drain and stop.

    `shown`: say on standard output where, with entries to paste into a host.

    Raises:
        AlreadyRunning: another daemon of this user holds the lock.
        CannotListen: the TCP address is taken or not ours.
        ConfigError: a socket was handed over by the service manager that does not fit.
    """
    config = loaded.config
    handed = systemd.Handover(systemd.listeners())
    with take_lock(lock_path()), received(signal.SIGHUP, signal.SIGUSR1) as signals:
        tcp, given, given_control = handed.tcp(), handed.unix(socket_path()), handed.unix(control_path())
        handed.refuse()
        movable, squatted = tcp is None, False
        if tcp is None:
            tcp, squatted = listen(config)
        else:
            checked(structs.replace(config, listen=_address(tcp)))  # an open address may need a token
        memory = Memory(state_path())
        await kill_left_behind()
        if left := await trio.to_thread.run_sync(remove_drafts, state_dir(), wall()):
            log.info("removed %d unfinished files that hubs left behind when they were killed", left)
        async with (
            _unix_listener(socket_path(), given) as lines,
            _unix_listener(control_path(), given_control) as control,
        ):
            keys = keys_for(config, key_path())
            store = store_for(loaded, keys)
            durable, fleet = sessions_for(config, keys, store)
            hub = Hub(
                config,
                memory,
                Sealer(keys),
                last_known=last_known(),
                reader=project_reader(),
                allowances=trust_path(),
                run="" if fleet is None else durable.run_id,
                is_elsewhere=None if fleet is None else fleet.membership.is_elsewhere,
                boot=boot_clock(),
            )
            if store is not None:
                hub.reads.attach_store(store)
            listener = HttpListener(hub, config, tcp, durable, movable=movable, squatted=squatted, fleet=fleet)
            daemon = _Daemon(hub, listener, loaded, read, store, shown=shown)
            own = [lock_path()]
            own += [path for path, it in ((socket_path(), given), (control_path(), given_control)) if it is None]
            await daemon.run(signals, lines, control, own)
    log.info("stopped")


class _Daemon:
    """A hub with its listeners."""

    def __init__(
        self,
        hub: Hub,
        listener: HttpListener,
        loaded: Loaded,
        read: Callable[[], Loaded],
        store: "RedisStore | None",
        *,
        shown: bool,
    ) -> None:
        self._hub = hub
        self._shown = shown
        self._listener = listener
        self._store = store
        self._reloader = Reloader(
            loaded,
            read,
            self._apply,
            wall=wall,
            pending=lambda: (*listener.pending, *hub.pending),
            around=self._reloading,
        )
        self._lines = LineServer(hub.router, hub.hosts)
        self._watch = LoopWatchdog()
        faults = FaultCounter()
        logging.getLogger().addHandler(faults)
        self._api = DaemonApi(hub, listener, self._reloader, self._watch, faults)
        self._asked = trio.Event()
        self._patience = trio.CancelScope()

    async def run(
        self,
        signals: AsyncIterator[int],
        lines: trio.SocketListener,
        control: trio.SocketListener,
        own: Iterable[Path],
    ) -> None:
        """Serve until the first signal, or until one of its `own` files is gone; then drain, stop in order, return."""
        others: dict[int, Callable[[], None]] = {signal.SIGHUP: self._reloader.request, signal.SIGUSR1: _reopen_log}
        async with trio.open_nursery() as life:
            await life.start(adopt)
            life.start_soon(keep_going, "Noticing that the hub stands still", self._watch.run)
            life.start_soon(keep_going, "Giving memory back", partial(keep_trim, self._hub.budget))
            follow = partial(obey, signals, self._asked.set, self._cut_off, others)
            life.start_soon(keep_going, "Obeying signals", follow)
            life.start_soon(keep_going, "Telling the service manager", partial(systemd.pulse, self._summary))
            life.start_soon(keep_going, "Looking after the hub's sockets", partial(await_removal, own, self._asked.set))
            async with trio.open_nursery() as nursery:
                if self._store is not None:
                    nursery.start_soon(keep_going, "Sharing with other hubs", self._store.run)
                await nursery.start(self._hub.run)
                await nursery.start(self._listener.run, pages())
                await nursery.start(self._lines.serve, lines)
                await nursery.start(serve_control, control, self._api)
                self._announce()
                calm_collector()
                systemd.notify("READY=1", f"STATUS={self._summary()}")
                await self._reload_until_asked()
                drain_s = self._hub.config.drain_s
                systemd.stopping(drain_s + STOP_S)
                log.info("stopping: waiting up to %.0f s for running calls", drain_s)
                await self._drain_within(drain_s)
                nursery.cancel_scope.cancel()
            life.cancel_scope.cancel()

    async def _reload_until_asked(self) -> None:
        """Follow the configuration until a stop is asked for."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_going, "Following the configuration", self._reloader.run)
            await self._asked.wait()
            nursery.cancel_scope.cancel()

    async def _apply(self, loaded: Loaded, found: Difference) -> None:
        """Apply `loaded` to the hub and its listener.

        Raises:
            ConfigError: a part of it cannot be applied; nothing is changed.
        """
        config = loaded.config
        try:
            tcp = self._listener.prepare(config)
        except (CannotListen, OSError) as error:
            raise ConfigError(str(error)) from None
        await self._hub.prepare(config)
        self._hub.apply(config)
        await self._listener.apply(config, tcp)
        if tcp is not None:
            self._announce()

    def _announce(self) -> None:
        """Say where the hub listens now."""
        announce(self._listener, self._hub.config, shown=self._shown)

    @asynccontextmanager
    async def _reloading(self) -> AsyncIterator[None]:
        """Entered around every reload that was asked for or changes something."""
        with systemd.reloading():
            yield

    def _summary(self) -> str:
        """The status line for the service manager."""
        states = [upstream.state for upstream in self._hub.supervisor.upstreams.values()]
        connected = states.count(State.CONNECTED)
        return f"{connected} of {len(states)} upstreams connected, {len(self._hub.hosts)} hosts"

    def _cut_off(self) -> None:
        """Answer the running requests with the error that the hub stops, and wait only until that is sent."""
        self._hub.hosts.cut_off()
        self._patience.deadline = min(self._patience.deadline, trio.current_time() + LAST_ANSWERS_S)

    async def _drain_within(self, drain_s: float) -> None:
        """Wait for running requests, and cut them off after `drain_s` or at a second signal."""

        async def lose_patience() -> None:
            await trio.sleep(drain_s)
            self._cut_off()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose_patience)
            with self._patience:
                await self._drain()
            nursery.cancel_scope.cancel()

    async def _drain(self) -> None:
        async with trio.open_nursery() as nursery:
            self._lines.goodbye()
            self._hub.router.subscriptions.end()
            nursery.start_soon(self._listener.drain)
            nursery.start_soon(self._lines.drain)


def _reopen_log() -> None:
    """Reopen the log file, after it was moved aside by a log rotation."""
    log.info("log reopened" if logs.reopen(log_path()) else "SIGUSR1: the log is no file of this hub's")


async def await_removal(own: Iterable[Path], gone: Callable[[], None]) -> None:
    """Check now and then that these files are the same as before; call `gone` once one is not.

    Without them no host finds this hub, and hosts start another one. It happens: /tmp is cleaned up, or /run/user is
    removed when its user logs out, though the hub lives on.
    """
    before = {path: inode_at(path) for path in own}
    while True:
        await trio.sleep(LOOK_S)
        for path, found in before.items():
            if inode_at(path) != found:
                log.warning("%s was removed, so that hosts do not find this hub: it makes way for another one", path)
                gone()
                return


def _address(tcp: socket.socket) -> str:
    host, port = tcp.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@asynccontextmanager
async def _unix_listener(path: Path, given: socket.socket | None) -> AsyncIterator[trio.SocketListener]:
    """A 0600 unix socket at `path`. It is removed at the end, unless the service manager handed it over.

    The caller holds the daemon's lock.
    """
    listener = given or bind_unix(path)
    ours = inode_at(path)
    try:
        yield trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    finally:
        is_ours = given is None and inode_at(path) == ours  # another hub may have made its own by now
        listener.close()
        if is_ours:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - a directory entry in memory


def _failed(code: int, error: Exception) -> int:
    print(f"hubd: {printable(str(error), keep=chr(10))}", file=sys.stderr)  # noqa: T201
    return code
