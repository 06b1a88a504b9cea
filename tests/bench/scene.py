"""What runs during a comparison: the servers, and the gateways before them."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Final, Literal

import psutil

from tests.bench.callers import Session
from tests.bench.gateways import Gateway, Site, Upstream
from tests.bench.responses import CallFailed
from tests.support.private_ca import certificates
from tests.support.processes import Process, free_port

Kind = Literal["http", "https", "stdio"]

UPSTREAM: Final = str(Path(__file__).with_name("upstream.py"))
NAMES: Final = ("up0", "up1")


class Servers:
    """The servers of one kind. Those over HTTP are processes of ours, the others their gateways start."""

    def __init__(self, kind: Kind, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, Process] = {}
        self.authority, own = certificates(directory)
        self.upstreams: list[Upstream] = []
        for name in NAMES:
            if kind == "stdio":
                self.upstreams.append(Upstream(name, [sys.executable, UPSTREAM, "stdio", "--name", name]))
                continue
            port = free_port()
            command = [sys.executable, UPSTREAM, "http", "--name", name, "--port", str(port)]
            command += ["--certificate", str(own)] if kind == "https" else []
            self.upstreams.append(Upstream(name, command, f"{kind}://127.0.0.1:{port}/mcp"))

    def start(self, name: str) -> None:
        """Start that server, if it is over HTTP, and wait until it listens."""
        upstream = self.upstreams[NAMES.index(name)]
        if upstream.url:
            if name in self._processes:
                self._processes[name].stop()
            self._processes[name] = Process(upstream.command, self._directory / f"{name}.log")
            self._processes[name].wait_for("listening")

    @property
    def are_ours(self) -> bool:
        """No gateway starts them."""
        return bool(self._processes)

    def close(self) -> None:
        """End all."""
        for process in self._processes.values():
            process.stop()

    def pids(self, name: str, gateway: "RunningGateway") -> list[int]:
        """The process of that server, which is one of ours, or those that the gateway has started."""
        if self.are_ours:
            return [self._processes[name].pid]
        return [each.pid for each in gateway.processes() if is_upstream(each) and name in each.cmdline()]


@contextmanager
def servers(kind: Kind, directory: Path) -> Iterator[Servers]:
    """Two servers during the block."""
    all = Servers(kind, directory)
    try:
        for name in NAMES:
            all.start(name)
        yield all
    finally:
        all.close()


def is_upstream(process: psutil.Process) -> bool:
    """A server, and no gateway that has the command of one among its arguments."""
    try:
        return bool(process.cmdline()[1:2] == [UPSTREAM])
    except psutil.Error:
        return False


class Direct:
    """The first server itself, without a gateway."""

    name = "direct"

    def __init__(self, upstream: Upstream) -> None:
        self._url = upstream.url

    def session(self, upstream: str, *, patience_s: float = 30) -> Session:
        return Session(self._url, patience_s=patience_s)

    def tool(self, upstream: str, tool: str) -> str:
        return tool

    def cpu_s(self) -> float:
        return 0.0

    def memory_mb(self) -> float:
        return 0.0


class RunningGateway:
    """A gateway before some servers."""

    def __init__(self, gateway: Gateway, site: Site, process: Process) -> None:
        self.name = gateway.name
        self.tool = gateway.tool
        self._gateway = gateway
        self._site = site
        self._process = process
        self._root = psutil.Process(process.pid)

    def session(self, upstream: str, *, patience_s: float = 30) -> Session:
        """A new host, that calls tools of this server. Raises CallFailed, OSError."""
        return Session(self._gateway.url(self._site, upstream), patience_s=patience_s)

    def await_tools(self) -> None:
        """Wait until it lists the tools of all servers. Raises CallFailed."""
        deadline = perf_counter() + self._gateway.patience_s
        is_configured = False
        while True:
            try:
                if not is_configured:
                    self._gateway.configure(self._site)
                    is_configured = True
                if all(self._has_tools_of(each.name) for each in self._site.upstreams):
                    return
                why = "it does not list all tools"
            except (CallFailed, OSError) as error:
                why = str(error)
            if not self._process.is_running() or perf_counter() > deadline:
                raise CallFailed(f"{self.name}: {why}; it logged:\n{self._process.tail()}")
            Event().wait(0.1)

    def _has_tools_of(self, upstream: str) -> bool:
        session = self.session(upstream)
        try:
            return self.tool(upstream, "tool_00") in session.list_tools()
        finally:
            session.close()

    def processes(self) -> list[psutil.Process]:
        """All of its processes, servers that it has started among them."""
        return [self._root, *self._root.children(recursive=True)]

    def _own_processes(self) -> list[psutil.Process]:
        return [each for each in self.processes() if not is_upstream(each)]

    def cpu_s(self) -> float:
        """The CPU time that its processes have spent, without those of servers: by the clock of each process, which is
        exact where the usual figure has steps of 10 ms."""
        return sum(time.clock_gettime((~each.pid << 3) | 2) for each in self._own_processes())

    def memory_mb(self) -> float:
        """The memory of its processes; pages that processes share count once."""
        return sum(float(each.memory_full_info().pss) for each in self._own_processes()) / 1e6


@contextmanager
def gateways(all: Sequence[Gateway], servers: Servers, directory: Path) -> Iterator[list[RunningGateway]]:
    """These gateways before the same servers, each ready."""
    with ExitStack() as stack:
        running = []
        for gateway in all:
            home = directory / gateway.name
            home.mkdir()
            site = Site(home, free_port(), servers.upstreams, servers.authority)
            argv, env = gateway.argv(site), {**os.environ, **gateway.environment(site)}
            process = Process(argv, home / "log", env=env, cwd=home)
            stack.callback(process.stop)
            running.append(RunningGateway(gateway, site, process))
            running[-1].await_tools()
        yield running
