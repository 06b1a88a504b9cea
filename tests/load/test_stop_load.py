"""SIGTERM while hosts are busy: every call that was running is answered, and nothing outlives the hub."""

import os
import signal
from collections import Counter

import psutil
import pytest
import trio

from tests.load.load_hosts import FULL, LoadHost, spread, table
from tests.support.processes import running_hub

pytestmark = pytest.mark.everything

ROUNDS = 20 if FULL else 2


@pytest.mark.covers("F-D-01", "I-1", "I-8")
@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_stop_under_load_answers_everything(tmp_path, nursery, round):
    names = [f"up{number}" for number in range(4)]
    (held := tmp_path / "held").touch()
    slow = {"on": {"tools/call:slow": [["await_gone", str(held)], ["serve"]]}}
    config = "drain_s = 2\n" + "".join(table(name, {}) for name in names) + table("slow", slow)
    with running_hub(tmp_path, config) as hub:
        hosts = [LoadHost(hub, f"host{number}") for number in range(3)]
        for host in hosts:
            await nursery.start(host.run)
            for name in names:
                nursery.start_soon(host.keep_calling, name, trio.Event())
            nursery.start_soon(host.call, "slow", "slow")
        left = psutil.Process(hub.process.pid).children(recursive=True)
        for _ in range(100 + 10 * round):
            for host in hosts:
                await host.ask("ping", {})
        running = {call for host in hosts for name in (*names, "slow") for call in host.running(name)}
        assert sum(call.upstream == "slow" for call in running) == 3
        os.kill(hub.process.pid, signal.SIGTERM)
        held.unlink()
        with trio.fail_after(60):
            for host in hosts:
                await host.gone.wait()
            assert await trio.to_thread.run_sync(hub.process.exit_code) == 0
        print(f"\nrunning: {spread(running)}; all: {Counter(call.outcome for host in hosts for call in host.calls)}")  # noqa: T201
        assert {call.outcome for host in hosts for call in host.calls} == {"ok"}
        assert [complaint for host in hosts for complaint in host.complaints] == []
        assert not any(process.is_running() for process in left)
        nursery.cancel_scope.cancel()
