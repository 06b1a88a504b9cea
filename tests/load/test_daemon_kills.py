"""SIGKILL of the daemon while hosts over shims use it: all continue, nothing runs twice, nothing is left behind.

And an orderly stop under load loses no call.
"""

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trio

from tests.load.load_hosts import FULL, SCRIPTED, LoadHost, spread, table
from tests.support.attached import INITIALIZE
from tests.support.processes import HUBD, own_directories

pytestmark = pytest.mark.everything

KILLS = 200 if FULL else 4
STOPS = 20 if FULL else 1
UPSTREAMS = ("count", "deaf")
LONGEST_LIFE_S = 1.5
"""A daemon is killed at a random moment within this, so that many die before they are ready."""
PATIENCE_S = 60


class Site:
    """Directories of one user whose daemon is started by shims; two servers, all of whose calls are recorded."""

    def __init__(self, directory: Path) -> None:
        self.env = own_directories(directory)
        self.record = directory / "record"
        self._lock = Path(self.env["XDG_RUNTIME_DIR"], "hubd", "hubd.lock")
        fork = {"start": [["fork", str(directory / "grandchild"), True]], "record": str(self.record)}
        stays = f"trap '' TERM; {sys.executable} -I -S {SCRIPTED} {shlex.quote(json.dumps(fork))}; exec sleep 100000"
        config = Path(self.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
        config.parent.mkdir(mode=0o700)
        config.write_text(
            'listen = "127.0.0.1:0"\n'
            + table("count", {"record": str(self.record)})
            + f"[upstreams.deaf]\ncommand = '/bin/sh'\nargs = {json.dumps(['-c', stays])}\nera = 'legacy'\n"
        )

    def daemon(self) -> int:
        """The process that holds the daemon's lock, or did last."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(self._lock.read_text())
        return 0

    def processes(self) -> Iterator[tuple[psutil.Process, list[str], str]]:
        """Those of this user, with their arguments and marks."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environ = process.environ()
                if environ.get("HOME") == self.env["HOME"]:
                    yield process, process.cmdline(), environ.get("HUBD_INSTANCE", "")

    def daemons(self) -> list[int]:
        return [process.pid for process, argv, _ in self.processes() if argv[-2:] == ["serve", "--detached"]]

    def orphans(self) -> list[psutil.Process]:
        """Children and grandchildren of daemons that are no more."""
        living = f"{self.daemon()}."
        return [process for process, _, mark in self.processes() if "." in mark and not mark.startswith(living)]

    def clear(self) -> None:
        for process, _, _ in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def executed(self) -> Counter[str]:
        """How often servers were asked to do each call."""
        lines = self.record.read_text().splitlines()
        calls = [message["params"] for message in map(json.loads, lines) if message.get("method") == "tools/call"]
        return Counter(call["arguments"]["token"] for call in calls)


class ShimHost(LoadHost):
    """A host over `hubd connect`."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site, name)  # type: ignore[arg-type]
        self.told: Counter[str] = Counter()
        self.tokens: dict[str, object] = {}
        self._log = Path(site.env["HOME"], f"{name}.log")
        self._env = site.env

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        argv = [str(HUBD), "connect", "--host", self.name]
        pipe = subprocess.PIPE
        with self._log.open("wb") as log:
            process = await trio.lowlevel.open_process(argv, stdin=pipe, stdout=pipe, stderr=log, env=self._env)
        try:
            self._stream = trio.StapledStream(process.stdin, process.stdout)  # type: ignore[assignment]
            async with self._stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                await self.ask("initialize", INITIALIZE)
                await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                await self.ask("tools/list", {})
                task_status.started()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def call(self, upstream: str, tool: str = "echo"):
        token = f"{self.name}-{len(self.tokens)}"
        self.tokens[token] = None
        call = await self.ask("tools/call", {"name": f"{upstream}__{tool}", "arguments": {"token": token}}, upstream)
        self.tokens[token] = call
        return call

    def said(self) -> str:
        """What its shim has told people."""
        return self._log.read_text()

    async def keep_listing(self, enough: trio.Event) -> None:
        while not self.gone.is_set() and not enough.is_set():
            await self.ask("tools/list", {})
            await self.ask("ping", {})

    def _take(self, message: dict[str, object]) -> None:
        if "method" in message:
            self.told[str(message["method"])] += 1
        super()._take(message)


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.clear()


async def load(hosts, nursery, enough):
    for host in hosts:
        await nursery.start(host.run)
    for host in hosts:
        for name in UPSTREAMS:
            nursery.start_soon(host.keep_calling, name, enough)
        nursery.start_soon(host.keep_listing, enough)


async def quiet(hosts):
    """Every request has been answered."""
    with trio.fail_after(PATIENCE_S):
        for host in hosts:
            for call in host.calls:
                await call.done.wait()


@pytest.mark.covers("F-H-22", "F-H-23", "F-D-03", "FIG-07", "I-1", "I-4", "M-05")
async def test_a_daemon_that_is_killed_again_and_again(site, nursery):
    """With three shims, two of them of one host."""
    hosts = [ShimHost(site, name) for name in ("one", "two", "three")]
    enough = trio.Event()
    chosen = random.Random(7)
    ready_ms = []
    await load(hosts, nursery, enough)
    for _ in range(KILLS):
        await trio.sleep(chosen.random() * LONGEST_LIFE_S)
        killed = site.daemon()
        with contextlib.suppress(ProcessLookupError):
            os.kill(killed, signal.SIGKILL)
        killed_at = trio.current_time()
        with trio.fail_after(PATIENCE_S):
            for host in hosts:
                while (await host.call("count")).outcome != "ok":
                    assert not host.gone.is_set(), host.said()
        ready_ms.append((trio.current_time() - killed_at) * 1000)
        assert site.daemon() != killed
        assert site.orphans() == []
        assert site.daemons() == [site.daemon()]
    enough.set()
    await quiet(hosts)
    calls = [call for host in hosts for call in host.calls]
    ready_ms.sort()
    print(f"\n{KILLS} kills; all hosts served again after {ready_ms[KILLS // 2]:.0f} ms (median), ", end="")  # noqa: T201
    print(f"{ready_ms[-1]:.0f} ms (longest); {spread(calls)}")  # noqa: T201
    print(Counter((call.upstream != "", call.outcome, call.executed) for call in calls))  # noqa: T201
    assert [complaint for host in hosts for complaint in host.complaints] == []
    assert {(call.outcome, call.executed) for call in calls} <= {("ok", ""), ("upstream_lost", "unknown")}
    executed = site.executed()
    assert {token: times for token, times in executed.items() if times > 1} == {}
    done = {token for host in hosts for token, call in host.tokens.items() if call and call.outcome == "ok"}
    assert done <= set(executed)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-D-01", "F-H-22", "I-1", "I-4", "I-8")
async def test_a_daemon_that_is_stopped_in_order_costs_no_call(site, nursery):
    hosts = [ShimHost(site, name) for name in ("one", "two")]
    idle = ShimHost(site, "idle")
    enough = trio.Event()
    await nursery.start(idle.run)
    await load(hosts, nursery, enough)
    for _ in range(STOPS):
        stopped = site.daemon()
        await trio.run_process([str(HUBD), "stop"], env=site.env, capture_stdout=True)
        with trio.fail_after(PATIENCE_S):
            while site.daemon() == stopped:
                await hosts[0].call("count")
        assert site.orphans() == []
    enough.set()
    await quiet(hosts)
    calls = [call for host in hosts for call in host.calls]
    print(f"\n{STOPS} stops; {spread(calls)}")  # noqa: T201
    assert {(call.outcome, call.executed) for call in calls} == {("ok", "")}
    assert [complaint for host in hosts for complaint in host.complaints] == []
    assert set(site.executed().values()) == {1}
    assert (await idle.call("deaf")).outcome == "ok"
    assert idle.told["notifications/tools/list_changed"] == 0, "the lists are those of before"
    nursery.cancel_scope.cancel()
