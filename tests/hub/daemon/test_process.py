"""The hub as a process: what others of the same user can see of it, and that it notices when it stands still."""

import json
import re
import select
import subprocess
import sys
import threading

import pytest
import trio

from hub.daemon.process import LoopWatchdog

PRIVATE = """if True:
    import os, sys
    from hub.daemon.process import harden
    harden()
    import resource
    os.close(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o666))
    owner = os.stat("/proc/self/environ").st_uid
    print(owner, resource.getrlimit(resource.RLIMIT_CORE), flush=True)
    import ctypes
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
"""


@pytest.mark.covers("SEC-52", "I-9")
@pytest.mark.parametrize("open_to_debuggers", [False, True])
def test_the_hub_keeps_to_itself(tmp_path, open_to_debuggers):
    argv = [sys.executable, "-I", "-c", PRIVATE, str(tmp_path / "file")]
    env = {"HUBD_DUMPABLE": "1"} if open_to_debuggers else {}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=True)
    rest, dumpable = done.stdout.splitlines()
    assert rest.endswith("(0, 0)")
    assert dumpable == str(int(open_to_debuggers))
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


TAKING = """if True:
    import json, resource
    from hub.daemon.process import raise_fd_limit
    raise_fd_limit()
    from upstreams.transports.stdio.process import GIVEN_DESCRIPTORS
    print(json.dumps([*resource.getrlimit(resource.RLIMIT_NOFILE), GIVEN_DESCRIPTORS]))
"""


@pytest.mark.covers("F-D-07")
@pytest.mark.parametrize(("limits", "taken"), [("-Hn 300 -Sn 100", [300, 300, 100]), ("-Hn 200 -Sn 200", [200] * 3)])
def test_the_hub_takes_the_descriptors_it_may_have_and_its_children_get_what_it_was_given(limits, taken):
    hard, soft = limits.split(" -S")
    script = f'ulimit -S{soft} && ulimit {hard} && exec {sys.executable} -I -c "$1"'
    done = subprocess.run(["sh", "-c", script, "sh", TAKING], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout) == taken


@pytest.mark.covers("F-D-12")
async def test_a_loop_that_stands_still_is_noticed_and_named(nursery, caplog):
    watch = LoopWatchdog(every_s=0.01, idle_s=0.01, blocked_s=0.3)
    nursery.start_soon(watch.run)
    with trio.fail_after(30):
        while not watch.times:
            await trio.sleep(0.02)
            stand_still()
    [record] = caplog.records
    assert re.search(
        r"stood still for \d\.\d\d s, .*: stand_still \(tests/hub/daemon/test_process\.py:\d+\)", record.getMessage()
    )
    facts = watch.status()
    assert facts.blocked == watch.times
    assert facts.longest_s > 0
    assert "times" in repr(watch)


def stand_still():
    select.select([], [], [], 1.0)  # longer than a busy machine lets the loop wait elsewhere


async def test_a_loop_that_turns_is_not(nursery, caplog):
    watch = LoopWatchdog(every_s=0.001, idle_s=0.001, blocked_s=5)
    nursery.start_soon(watch.run)
    await trio.sleep(0.1)
    assert watch.times == 0
    assert not caplog.records
    assert 0 < watch.longest_s < 5, "how long it took to turn is known all the same"


@pytest.mark.covers("I-12")
async def test_the_watch_ends_with_the_hub():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(LoopWatchdog(every_s=0.001, idle_s=0.001).run)
        await trio.sleep(0.01)
        assert "hubd watch" in {thread.name for thread in threading.enumerate()}
        nursery.cancel_scope.cancel()
    for thread in threading.enumerate():
        if thread.name == "hubd watch":
            await trio.to_thread.run_sync(thread.join, 10)
            assert not thread.is_alive()
