"""Gate: lets servers start in turns, and remembers which have been connected once.

    any server         at most `at_once` at the same time, each for `SLOT_S` seconds at most
    a cold start       at most `cold_at_once`, each for as long as the package runner is at work
    the same package   no two cold starts at the same time, until a server has been connected that it was installed for

A start is cold if it runs a package runner whose server has never been connected, in this run or an earlier one: the
runner has to install it first. Servers that hosts wait for go first; if they are not cold, up to `at_once` more of them
may start beyond the limit.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import Final

import trio
from msgspec import structs

from config.diff import config_key
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from upstreams.cold_start.recognise_runner import PackageRun, recognise
from upstreams.cold_start.start_timeouts import Start, StartLimits

INSTALLED_S: Final = 300.0
"""Seconds for which a package that a server was connected by counts as installed: later there may be a newer version,
which the next start would install."""
STARTED: Final = "started"
"""The section of the memory that lists package runs that were connected once."""


class StartGate:
    """The gate of all servers of one hub."""

    def __init__(self, memory: Memory, limits: StartLimits, is_found: Callable[[UpstreamConfig], bool]) -> None:
        """`is_found`: whether a server's program is there; a start without it fails at once, and waits for none."""
        self.limits = limits
        self._is_found = is_found
        self._memory = memory
        self._slots = Turns(self.limits.at_once, reserve=self.limits.at_once)
        self._cold = Turns(self.limits.cold_at_once)
        self._installing: dict[str, trio.lowlevel.ParkingLot] = {}
        """By package, where the others wait that would install it, too."""
        self._installed: dict[str, float] = {}
        """Package runs, with versions, and the time at which a server was last connected by one."""

    def start_of(self, config: UpstreamConfig) -> Start:
        """The next attempt to start a server."""
        run = recognise(config.command, config.args)
        is_cold = run and self._memory.get(STARTED, command_key(config)) is not True and self._is_found(config)
        return Start(run, self.limits, config.timeouts.start, cold=bool(is_cold))

    def was_connected(self, config: UpstreamConfig) -> None:
        """A server was connected in an earlier run of the hub."""
        if recognise(config.command, config.args) is not None:
            self._memory.put(STARTED, command_key(config), True)

    def connected(self, config: UpstreamConfig) -> None:
        """A server is connected: what it runs is installed."""
        if (run := recognise(config.command, config.args)) is not None:
            self._memory.put(STARTED, command_key(config), True)
            self._installed[run.exact] = trio.current_time()
            if run.key in self._installing:
                self._installing[run.key].unpark_all()

    def forget(self, config: UpstreamConfig) -> None:
        """The package that a server runs is not installed any more."""
        self._memory.put(STARTED, command_key(config), None)
        if (run := recognise(config.command, config.args)) is not None:
            self._installed.pop(run.exact, None)

    @asynccontextmanager
    async def package(self, start: Start) -> AsyncIterator[None]:
        """Be the only one that installs what `start` does, unless it is known to be installed.

        Cancellation: it is left to the next one.
        """
        if (run := start.run) is None or not start.cold:
            yield
            return
        while run.key in self._installing and not self._is_installed(run):
            await self._installing[run.key].park()
        if self._is_installed(run):
            start.cold = False
            yield
            return
        self._installing[run.key] = others = trio.lowlevel.ParkingLot()
        try:
            yield
        finally:
            del self._installing[run.key]
            others.unpark_all()

    def _is_installed(self, run: PackageRun) -> bool:
        return trio.current_time() < self._installed.get(run.exact, -inf) + INSTALLED_S

    def turn(self, start: Start) -> AbstractAsyncContextManager[None]:
        """The turn that `start` waits for, as a context."""
        return (self._cold if start.cold else self._slots).turn(start)

    def hurry(self, start: Start) -> None:
        """A host waits for this server."""
        if not start.is_hurried:
            start.hurry()
            self._cold.hand_out()
            self._slots.hand_out()


class Turns:
    """Turns of starts: at most `at_once` at the same time, and `reserve` more of those that hosts wait for, which go
    first."""

    def __init__(self, at_once: int, reserve: int = 0) -> None:
        self._free = at_once
        """Turns that are left; negative: so many of the reserve are taken."""
        self._reserve = reserve
        self._waiting: dict[Start, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, start: Start) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Cancellation: it is left to the next one."""
        self._waiting[start] = its_turn = trio.Event()
        self.hand_out()
        try:
            await its_turn.wait()
            yield
        finally:
            if self._waiting.pop(start, None) is None:  # it had one
                self._free += 1
                self.hand_out()

    def hand_out(self) -> None:
        """Give away the turns that are free."""
        for start in sorted(self._waiting, key=lambda start: not start.is_hurried):
            least = -self._reserve if start.is_hurried else 0
            if self._free <= least:
                return
            self._free -= 1
            self._waiting.pop(start).set()


def command_key(config: UpstreamConfig) -> str:
    """`config_key`, whatever era a session is in."""
    return config_key(structs.replace(config, era="auto"))
