"""The daemon: a hub with its listeners, its API and its reloads, from the start to the end of the drain.

    daemon -- signals | hub | HTTP, line and control listeners
      `-- handlers: one task per connection

Listeners sit outside of the handlers, so that shutdown stops accepting first.

The first SIGTERM or SIGINT stops the hub in order, the second at once.
"""

import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from config.diagnostics import ConfigError
from config.diff import Difference
from config.environment.hubd_env import CurrentEnvironment
from config.hub_paths import dashboard_path, trust_path
from config.loading.assemble import Loaded
from config.secrets.uses import uses_by_people
from hub.app import WALL, Hub
from hub.control.server import serve_control
from hub.daemon import systemd
from hub.daemon.api import DaemonApi
from hub.daemon.assemble_sign_ins import SignInParts
from hub.daemon.banner import announce
from hub.daemon.bind_http import CannotListen
from hub.daemon.bind_unix import await_removal
from hub.daemon.dashboard.dependencies import Parts
from hub.daemon.dashboard.lazy_dashboard import Dashboard
from hub.daemon.decision_requests import DecisionRequests
from hub.daemon.http_listener import HttpListener
from hub.daemon.http_routes import TokenPage
from hub.daemon.live.calls_and_overview import LiveRequests
from hub.daemon.logs.handlers import FaultCounter, reopen
from hub.daemon.logs.setup import HubLog
from hub.daemon.loop_stalls import LoopWatchdog
from hub.daemon.metrics.page import MetricsPage
from hub.daemon.process_memory import calm_collector, keep_trim
from hub.daemon.reload import Reloader
from hub.daemon.sign_in_requests import SignInRequests
from hub.downstream.access.access import METRICS_PATH
from hub.downstream.access.hub_urls import origin_of
from hub.downstream.lines.server import LineServer
from hub.link.fault_isolation import keep_going
from hub.linux.child_marks import THIS_HUB
from hub.linux.harden_hub import keep_large_blocks
from hub.linux.stray_processes import adopt, kill_marked
from hub.shim.start_daemon import log_path
from upstreams.lifecycle import State

if TYPE_CHECKING:
    from cache.redis.store import RedisStore
    from hub.daemon.keys_of_people import KeysPage
    from hub.daemon.metrics.families import Families

log = logging.getLogger("hubd")

LAST_ANSWERS_S: Final = 0.5
"""Time limit for sending the answers to requests that are cut off."""
STOP_S: Final = 30.0
"""Time limit for stopping upstreams once the calls have ended."""


@dataclass(eq=False, repr=False)
class Daemon:
    """A hub with its listeners."""

    _hub: Hub
    _listener: HttpListener
    loaded: InitVar[Loaded]
    read: InitVar[Callable[[], Loaded]]
    _store: "RedisStore | None"
    environment: InitVar[CurrentEnvironment]
    _log: HubLog
    _sign_ins: SignInParts
    _is_shown: bool

    def __post_init__(self, loaded: Loaded, read: Callable[[], Loaded], environment: CurrentEnvironment) -> None:
        hub, listener = self._hub, self._listener
        self._reloader = Reloader(
            loaded,
            read,
            self._apply,
            wall=WALL,
            pending=lambda: (*listener.pending, *hub.pending),
            environment=environment,
            around=systemd.reloading,
        )
        self._lines = LineServer(hub.router, hub.hosts)
        self._watch = LoopWatchdog()
        faults = FaultCounter()
        logging.getLogger().addHandler(faults)
        self._log.own.running_in(trio.lowlevel.current_trio_token())
        self._requests = SignInRequests(self._sign_ins, lambda: self._lines.shims)
        self._decisions = DecisionRequests(hub, lambda: self._lines.shims, lambda: listener.address[1])
        self._api = DaemonApi(hub, listener, self._reloader, self._watch, faults, self._log.own.journal, self._requests)
        self._metrics = MetricsPage(lambda: self._families.tell())
        self._keys: KeysPage | None = None
        hub.reach_at(lambda: origin_of(hub.config, *listener.address))
        self._show_pages()
        self._live = LiveRequests(hub, self._api.status)
        parts = Parts(
            hub,
            self._api,
            self._live,
            self._decisions,
            self._requests,
            self._reloader,
            listener.status,
            listener.note_refusal,
            trust_path(),
        )
        self._dashboard = listener.dashboard = Dashboard(parts, lambda: listener.address, dashboard_path)
        self._asked = trio.Event()
        self._patience = trio.CancelScope()

    @property
    def configuration(self) -> Loaded:
        """The configuration that was read last, and is in effect."""
        return self._reloader.loaded

    async def run(
        self, signals: AsyncIterator[int], lines: trio.SocketListener, control: trio.SocketListener, own: Iterable[Path]
    ) -> None:
        """Serve until the first signal, or until one of its `own` files is gone; then drain, stop in order, return."""
        keep_large_blocks()
        others: dict[int, Act] = {signal.SIGHUP: self._reloader.request, signal.SIGUSR1: _reopen_log}
        async with trio.open_nursery() as life:
            await life.start(adopt)
            life.start_soon(keep_going, "Noticing that the hub stands still", self._watch.run)
            trim = partial(keep_trim, self._hub.budget, lambda: self._hub.hosts.requests.count)
            life.start_soon(keep_going, "Giving memory back", trim)
            life.start_soon(keep_going, "Telling metrics", self._metrics.run)
            follow = partial(obey, signals, self._asked.set, self._cut_off, others)
            life.start_soon(keep_going, "Obeying signals", follow)
            life.start_soon(keep_going, "Telling the service manager", partial(systemd.pulse, self._summary))
            life.start_soon(keep_going, "Looking after the hub's sockets", partial(await_removal, own, self._asked.set))
            async with trio.open_nursery() as nursery:
                if self._store is not None:
                    share = partial(self._store.run, self._hub.reads)
                    nursery.start_soon(keep_going, "Sharing with other hubs", share)
                nursery.start_soon(keep_going, "Signing in at servers", self._sign_ins.run)
                await nursery.start(self._hub.run)
                await nursery.start(self._listener.run, self._sign_ins.handle)
                await nursery.start(self._lines.serve, lines)
                given = self._api, self._requests, self._decisions, self._metrics
                apis = *given, self._live, self._dashboard
                await nursery.start(serve_control, control, *apis)
                self._announce()
                calm_collector()
                systemd.notify("READY=1", f"STATUS={self._summary()}")
                async with trio.open_nursery() as reloads:
                    reloads.start_soon(keep_going, "Following the configuration", self._reloader.run)
                    await self._asked.wait()
                    reloads.cancel_scope.cancel()
                drain_s = self._hub.config.drain_s
                systemd.stopping(drain_s + STOP_S)
                log.info("stopping: waiting up to %.0f s for running calls", drain_s)
                await self._drain_within(drain_s)
                nursery.cancel_scope.cancel()
            life.cancel_scope.cancel()

    async def _apply(self, loaded: Loaded, found: Difference) -> None:
        """Apply `loaded` to the hub and its listener. ConfigError: a part cannot be applied; nothing is changed."""
        config = loaded.config
        try:
            tcp = self._listener.prepare(config)
        except (CannotListen, OSError) as error:
            raise ConfigError(str(error)) from None
        await self._hub.prepare(config, loaded.origins)
        self._hub.apply(config, loaded.left_out, loaded.origins)
        self._log.adjust(config.log)
        await self._listener.apply(config, tcp)
        self._show_pages()
        if tcp is not None:
            self._announce()

    @cached_property
    def _families(self) -> "Families":
        """What is told of this hub, once somebody asks."""
        from hub.daemon.metrics.families import Families  # not above: most hubs are not asked

        return Families(self._hub, self._reloader, self._watch)

    def _show_pages(self) -> None:
        """Have the pages of metrics and of keys there, or not, as configured."""
        place = "GET", METRICS_PATH
        if self._hub.config.metrics.enabled:
            self._listener.pages[place] = TokenPage(self._metrics.handle)
        else:
            self._listener.pages.pop(place, None)
        has_keys = bool(uses_by_people(self._hub.config.upstreams))
        if has_keys or self._keys is not None:
            from hub.daemon.keys_of_people import PATH, KeysPage  # not above: few hubs keep keys of people

            self._keys = self._keys or KeysPage(self._hub)
            if has_keys:
                self._listener.pages["POST", PATH] = TokenPage(self._keys.handle, is_owners=False)
            else:
                self._listener.pages.pop(("POST", PATH), None)

    def _announce(self) -> None:
        """Say where the hub listens now."""
        announce(self._listener, self._hub.config, shown=self._is_shown)

    def _summary(self) -> str:
        """The status line for the service manager."""
        states = [upstream.state for upstream in self._hub.supervisor.upstreams.values()]
        connected = states.count(State.CONNECTED)
        return f"{connected} of {len(states)} upstreams connected, {len(self._hub.hosts)} hosts"

    def _cut_off(self) -> None:
        """Answer the running requests with the error that the hub stops, and wait only until that is sent."""
        self._hub.audit.stop()
        self._hub.hosts.requests.cut_off()
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
            self._hub.subscriptions.end_streams()
            nursery.start_soon(self._listener.drain)
            nursery.start_soon(self._lines.drain)


def _reopen_log() -> None:
    """Reopen the log file, after it was moved aside by a log rotation."""
    log.info("log reopened" if reopen(log_path()) else "SIGUSR1: the log is no file of this hub's")


STOPS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def receive(*others: signal.Signals) -> Iterator[AsyncIterator[int]]:
    """Receive the signals that stop a hub, and `others`. Signals before and after that change nothing."""
    for number in (*STOPS, *others):
        signal.signal(number, signal.SIG_IGN)
    with trio.open_signal_receiver(*STOPS, *others) as signals:
        yield signals


Act = Callable[[], None]


async def obey(signals: AsyncIterator[int], stop: Act, hurry: Act, others: Mapping[int, Act]) -> None:
    """Call `stop` at the first signal that stops; call the function of one of the `others`. At the second call `hurry`,
    kill all children, and return."""
    stops = 0
    async for number in signals:
        if number in others:
            others[number]()
            continue
        stops += 1
        if stops == 2:
            break
        stop()
    log.warning("stopping at once: children are killed, running calls end")
    hurry()
    await trio.to_thread.run_sync(kill_marked, THIS_HUB)
