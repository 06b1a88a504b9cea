"""Gate: lets servers start in turns, and remembers which have been connected once.

    any server         at most `at_once` at the same time, each for `SLOT_S` seconds at most
    a cold start       at most `cold_at_once`, each for as long as the package runner is at work
    the same package   never twice at the same time

Cold is the start of a package runner until the server was connected for the first time, also in an earlier run of the
hub: it installs. Nobody waits for a turn but servers that have nothing to offer yet, or are starting at the same time.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio
from msgspec import structs

from config.identity import config_key
from config.settings import UpstreamConfig
from upstreams.cold_start.package_runner import recognise
from upstreams.cold_start.start import Start, StartLimits
from upstreams.memory import Memory

STARTED: Final = "started"
"""The section of the memory that lists package runs that were connected once."""


class StartGate:
    """The gate of all servers of one hub."""

    def __init__(
        self,
        memory: Memory,
        limits: StartLimits | None = None,
        is_found: Callable[[UpstreamConfig], bool] = lambda config: True,
    ) -> None:
        """`is_found`: whether a server's program is there; a start without it fails at once, and waits for none."""
        self.limits = limits or StartLimits()
        self._is_found = is_found
        self._memory = memory
        self._slots = trio.Semaphore(self.limits.at_once)
        self._cold = trio.Semaphore(self.limits.cold_at_once)
        self._packages: dict[str, _Package] = {}

    def __repr__(self) -> str:
        cold = self.limits.cold_at_once - self._cold.value
        return f"<StartGate [{cold} cold starts, {len(self._packages)} packages]>"

    def start_of(self, config: UpstreamConfig) -> Start:
        """The next attempt to start a server."""
        run = recognise(config.command, config.args)
        is_new = run is not None and self._memory.get(STARTED, command_key(config)) is not True
        is_cold = is_new and self._is_found(config)
        return Start(run, self.limits, config.timeouts.start, cold=is_cold)

    def connected(self, config: UpstreamConfig) -> None:
        """A server is connected: what it runs is installed."""
        if recognise(config.command, config.args) is not None:
            self._memory.put(STARTED, command_key(config), True)

    def forget(self, config: UpstreamConfig) -> None:
        """What a server runs is not installed any more."""
        self._memory.put(STARTED, command_key(config), None)

    @asynccontextmanager
    async def package(self, start: Start) -> AsyncIterator[None]:
        """Be the only one that installs what `start` does."""
        if start.run is None:
            yield
            return
        package = self._packages.setdefault(start.run.key, _Package())
        package.users += 1
        try:
            async with package.lock:
                yield
        finally:
            package.users -= 1
            if not package.users:
                del self._packages[start.run.key]

    def slot(self, start: Start) -> trio.Semaphore:
        """The turn that `start` waits for, as a context."""
        return self._cold if start.cold else self._slots


def command_key(config: UpstreamConfig) -> str:
    """`config_key`, whatever era a session is in."""
    return config_key(structs.replace(config, era="auto"))


class _Package:
    """Those who install the same."""

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.users = 0
