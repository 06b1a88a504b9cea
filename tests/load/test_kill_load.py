"""SIGKILL of one of eight servers while three hosts use them all: its own calls fail, nothing else does."""

import os
import random
import signal

import psutil
import pytest
import trio

from tests.load.load_hosts import FULL, LoadHost, spread, table
from tests.support.processes import running_hub

pytestmark = pytest.mark.everything

ROUNDS = 24 if FULL else 3
NAMES = [f"up{number}" for number in range(8)]


@pytest.mark.covers("F-P-02", "I-3", "I-1", "I-4")
async def test_a_killed_server_costs_its_own_calls_only(tmp_path, nursery):
    """In each round a server stops answering, so that it is certain which calls are with it, and is killed."""
    config = ""
    for name in NAMES:
        held = [["mark", str(tmp_path / f"{name}.marked")], ["await_gone", str(tmp_path / f"{name}.held")], ["serve"]]
        config += table(name, {"on": {"tools/call:hold": held}})
    chosen = random.Random(4)
    with running_hub(tmp_path, config) as hub:
        hosts = [LoadHost(hub, f"host{number}") for number in range(3)]
        for host in hosts:
            await nursery.start(host.run)
        reports, recoveries = set(), set()
        for _ in range(ROUNDS):
            await _round(hub, hosts, chosen.choice(NAMES), tmp_path, reports, recoveries)
        assert [complaint for host in hosts for complaint in host.complaints] == []
        others = {call for host in hosts for call in host.calls} - reports - recoveries
        assert {call for call in others if call.outcome != "ok"} == set()
        print(f"\nothers: {spread(others)}")  # noqa: T201
        print(f"failures, since the call: {spread(reports)}")  # noqa: T201
        nursery.cancel_scope.cancel()


async def _round(hub, hosts, victim, directory, reports, recoveries):
    """Kill `victim` under load. Calls that fail go into `reports`, those of the time until it is back elsewhere."""
    (directory / f"{victim}.held").touch()
    (directory / f"{victim}.marked").unlink(missing_ok=True)
    pid = _pid(hub, victim)
    enough = trio.Event()
    async with trio.open_nursery() as nursery:
        for host in hosts:
            for name in NAMES:
                if name != victim:
                    nursery.start_soon(host.keep_calling, name, enough)
        nursery.start_soon(hosts[0].call, victim, "hold")
        with trio.fail_after(30):
            while not await trio.Path(directory / f"{victim}.marked").exists():
                await hosts[1].ask("ping", {})
        for host in hosts:
            nursery.start_soon(host.call, victim)
            nursery.start_soon(host.call, victim)
        for host in hosts:
            await host.ask("ping", {})  # the hub has got what was sent before
        its_own = set().union(*(host.running(victim) for host in hosts))
        assert len(its_own) == 7
        killed_at = trio.current_time()
        os.kill(pid, signal.SIGKILL)
        (directory / f"{victim}.held").unlink()
        with trio.fail_after(30):
            for call in its_own:
                await call.done.wait()
        assert {(call.outcome, call.executed) for call in its_own} == {("upstream_lost", "unknown")}, its_own
        reports |= its_own
        slowest = max(call.ended for call in its_own) - killed_at
        with trio.fail_after(60):
            while (call := await hosts[2].call(victim)).outcome != "ok":
                assert call.executed == "no", call
                recoveries.add(call)
            recoveries.add(call)
        assert _pid(hub, victim) != pid
        print(f"\n{victim}: 7 failures within {slowest * 1000:.0f} ms", end=", ")  # noqa: T201
        print(f"back after {(call.ended - killed_at) * 1000:.0f} ms")  # noqa: T201
        enough.set()


def _pid(hub, name):
    [found] = [
        child.pid
        for child in psutil.Process(hub.process.pid).children()
        if child.status() != psutil.STATUS_ZOMBIE and f"{name}.held" in " ".join(child.cmdline())
    ]
    return found
