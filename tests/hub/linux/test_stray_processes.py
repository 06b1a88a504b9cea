"""Whose children are whose: real processes with marks of hubs that live, have died, or are elsewhere."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from config.settings import UpstreamConfig
from hub.linux.child_marks import MARKER, MAX_DEPTH, OWN, THIS_HUB, depth, mark_of
from hub.linux.processes import read_stat
from hub.linux.stray_processes import adoptees, kill_marked, kill_orphans, orphans, waited_for
from tests.support.descriptors import no_descriptor_left
from upstreams.transports.stdio.process import Child

pytestmark = pytest.mark.alone  # every hub ends what belongs to dead ones

PID, STARTED, PLACE, TOKEN = THIS_HUB.split(".")

HUB = """if True:
    import os, subprocess, sys
    from hub.linux.child_marks import mark_of
    env = {"HUBD_INSTANCE": mark_of(1, os.environ["HUBD_INSTANCE"])}
    child = subprocess.Popen(["sleep", "1000"], env=env, start_new_session=True, stdout=subprocess.DEVNULL)
    while "(sleep) S" not in open(f"/proc/{child.pid}/stat").read():
        os.sched_yield()
    print(child.pid, flush=True)
    sys.stdin.read()
"""
"""A hub with one child that notices nothing."""


@contextmanager
def sleeping(mark):
    """A process with this mark."""
    process = subprocess.Popen(["sleep", "1000"], env={MARKER: mark}, start_new_session=True)
    try:
        while "(sleep) S" not in Path(f"/proc/{process.pid}/stat").read_text():
            os.sched_yield()  # within exec its environment cannot be read yet
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def another_hub(mark=""):
    """A process that is a hub, itself with this mark, and the pid of its child; both end with the block."""
    pipe = subprocess.PIPE
    hub = subprocess.Popen([sys.executable, "-I", "-c", HUB], env={MARKER: mark}, stdin=pipe, stdout=pipe, text=True)
    pid = int(hub.stdout.readline())
    try:
        yield hub, pid
    finally:
        hub.kill()
        hub.communicate()
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def alive(pid):
    found = read_stat(pid)
    return found is not None and found.state not in "ZX"


def found(pid):
    return next((each for each in orphans() if each.pid == pid), None)


# --- marks ------------------------------------------------------------------------------------------------------------


def test_a_mark_names_this_hub():
    me = read_stat("self")
    assert (me.pid, me.began) == (os.getpid(), read_stat(os.getpid()).began) == (int(PID), int(STARTED))
    assert me.parent == os.getppid()
    assert me.session == os.getsid(0)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    assert PLACE.split("-")[:2] == [boot, os.readlink("/proc/self/ns/pid")[5:-1]]
    assert len(TOKEN) == 16
    assert read_stat(1 << 30) is None


def test_the_mark_of_a_hub_below_a_hub_names_both():
    assert mark_of(7, "") == f"{THIS_HUB}.7"
    assert mark_of(7, OWN) == f"{THIS_HUB}.7", "a daemon that a shim started belongs to nobody"
    above = "1.2.here.x.1"
    assert mark_of(7, above) == f"{above},{THIS_HUB}.7"
    assert [depth(mark) for mark in ("", OWN, above, mark_of(7, above))] == [0, 0, 1, 2]
    assert MAX_DEPTH > 2


# --- of dead hubs -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-D-03", "I-8")
@pytest.mark.parametrize(
    ("mark", "orphan"),
    [
        (f"{1 << 30}.{STARTED}.{PLACE}.{TOKEN}.1", True),  # no such process
        (f"{PID}.{int(STARTED) - 1}.{PLACE}.{TOKEN}.1", True),  # its pid is another's now: ours
        (f"{PID}.{STARTED}.{PLACE}.other.1,{1 << 30}.5.{PLACE}.{TOKEN}.1", True),  # the hub above it lives
        (f"{1 << 30}.5.{PLACE}.{TOKEN}.1,{PID}.{STARTED}.{PLACE}.other.1", True),  # or the one below
        (f"{1 << 30}.{STARTED}.{PLACE.replace('-', '1-', 1)}.{TOKEN}.1", False),  # another boot
        (f"{1 << 30}.{STARTED}.{PLACE}1.{TOKEN}.1", False),  # another namespace, as in a container
        (f"{1 << 30}.0.nowhere.{TOKEN}.1", False),
        (f"{THIS_HUB}.99999", False),
        (OWN, False),
        ("1.2.3", False),
        ("x.y.z.t.n", False),
        (f"x.5.{PLACE}.{TOKEN}.1", False),
        (",,.,..", False),
        ("\x1b[2J\xff", False),
        ("", False),
    ],
    ids=range(15),
)
def test_only_what_belongs_to_a_dead_hub_is_an_orphan(mark, orphan):
    with sleeping(mark) as process:
        assert bool(found(process.pid)) is orphan
        kill_orphans()
        if orphan:
            assert process.wait(60) == -signal.SIGKILL
        else:
            assert process.poll() is None


@pytest.mark.covers("F-D-03", "M-05", "I-8")
def test_the_child_of_a_hub_is_an_orphan_once_that_hub_is_dead():
    with another_hub() as (hub, pid), another_hub() as (_other, others):
        assert not found(pid)
        kill_orphans()
        assert alive(pid)
        hub.kill()
        while (orphan := found(pid)) is None:
            pass  # it is being killed
        assert read_stat(hub.pid).state == "Z", "nobody has waited for it yet"
        assert orphan == (pid, hub.pid, "sleep")
        assert kill_orphans() >= 1
        assert not alive(pid)
        assert alive(others)


@pytest.mark.covers("I-8")
def test_what_a_hub_below_a_hub_started_belongs_to_both():
    with another_hub(f"{THIS_HUB}.55") as (hub, pid):
        assert kill_marked(f"{THIS_HUB}.5") == 0
        assert alive(pid)
        assert kill_marked(f"{THIS_HUB}.55") == 2
        assert not alive(pid)
        assert hub.wait(60) == -signal.SIGKILL


def test_a_process_of_another_user_is_left_alone():
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    mark = f"{1 << 30}.{STARTED}.{PLACE}.{TOKEN}.1"
    process = subprocess.Popen(["sleep", "1000"], env={MARKER: mark}, user=65534)
    try:
        assert not found(process.pid)
        kill_orphans()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


# --- adoptees ---------------------------------------------------------------------------------------------------------


ADOPTING = """if True:
    import os, select, subprocess, sys, trio
    from hub.linux import child_marks, stray_processes
    from hub.linux.processes import read_stat

    def leave(env, *, ends=False):
        "A process whose parent is gone, in a session of its own; its pid."
        what = ["true"] if ends else ["sleep", "1000"]
        program = "import os, subprocess, sys; "
        program += "print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2, env=dict(os.environ)).pid)"
        argv = [sys.executable, "-I", "-S", "-c", program, *what]
        return int(subprocess.run(argv, env=env, capture_output=False, stdout=subprocess.PIPE, check=True).stdout)

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(stray_processes.adopt)
            child = subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=True)
            stray_processes.waited_for.add(child.pid)
            in_our_session = subprocess.Popen(["sh", "-c", "exit 4"])
            with trio.fail_after(30):
                short = leave({}, ends=True)
                while read_stat(short):
                    await trio.sleep(0.001)
                for pid in (child.pid, in_our_session.pid):
                    while read_stat(pid).state != "Z":
                        await trio.sleep(0.001)
                stray_processes.reap_adopted()
            assert (child.wait(), in_our_session.wait()) == (3, 4), "nobody else has taken their status"
            bare, marked = leave({}), leave({"HUBD_INSTANCE": child_marks.mark_of(1, "")})
            daemon, others = leave({"HUBD_INSTANCE": "hub"}), leave({"HUBD_INSTANCE": sys.argv[1]})
            assert set(stray_processes.adoptees()) == {bare, marked, daemon, others}
            assert stray_processes.kill_adopted() == 2
            assert set(stray_processes.adoptees()) == {daemon, others}, "and there are no zombies"
            for pid in (daemon, others):
                os.kill(pid, 9)
            with trio.fail_after(30):
                while stray_processes.adoptees():
                    await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    trio.run(main)
    print("done")
"""


@pytest.mark.covers("F-P-20", "I-8", "SEC-52")
def test_what_children_leave_behind_is_adopted_and_reaped_and_killed():
    argv = [sys.executable, "-I", "-c", ADOPTING, f"{THIS_HUB}.1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr


async def test_nothing_is_adopted_where_nothing_was_left():
    child = Child(UpstreamConfig(command="sleep", args=("1000",)), "c", os.environ)
    assert child.pid in waited_for
    assert child.pid not in adoptees()
    await child.stop()
    assert child.pid not in waited_for


@pytest.mark.covers("I-12")
def test_no_descriptor_is_left_by_killing():
    mark = f"{1 << 30}.{STARTED}.{PLACE}.{TOKEN}.1"
    with no_descriptor_left(), ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(sleeping(mark))
        assert kill_orphans() >= 20
