"""Which processes are a host's: real ones, and trees as other machines have them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hub.daemon.decision_requests import why_nobody_knows, why_of_a_host
from hub.linux.processes import Process, find_process, find_program, is_below
from hub.linux.socket_tables import find_clients

MANAGER, DAEMON, HOST, SHELL, SHIM, SERVER, TERMINAL, ASKER = 1, 10, 20, 21, 22, 30, 40, 50


def tree(tmp_path: Path, parents: dict[int, tuple[str, int]], *, session: int = 0, terminal: int = 0) -> Path:
    """A /proc of processes: number -> name and parent. Each began at its number, and is in this session."""
    for pid, (name, parent) in parents.items():
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        stat = f"{pid} ({name}) S {parent} 0 {session} {terminal} {' '.join('0' for _ in range(14))} {pid} 0 0\n"
        (tmp_path / str(pid) / "stat").write_text(stat)
    return tmp_path


USUAL = {
    MANAGER: ("systemd", 0),
    DAEMON: ("python3", MANAGER),
    SERVER: ("node", DAEMON),
    HOST: ("claude (x) y", TERMINAL),
    SHELL: ("sh", HOST),
    SHIM: ("hubd", SHELL),
    TERMINAL: ("kitty", MANAGER),
}


@pytest.mark.parametrize(
    ("parent", "refused"),
    [(TERMINAL, False), (MANAGER, False), (HOST, True), (SHELL, True), (SERVER, True), (DAEMON, True), (0, False)],
)
def test_who_asks(tmp_path, parent, refused):
    proc = tree(tmp_path, {**USUAL, 49: ("bash", parent), ASKER: ("hubd", 49)})
    assert bool(why_of_a_host(Process(ASKER, ASKER), [Process(SHIM, SHIM)], DAEMON, proc)) == refused


@pytest.mark.parametrize("above", ["systemd", "init", "sshd", "tmux"])
def test_what_starts_everything_is_no_host(tmp_path, above):
    proc = tree(tmp_path, {**USUAL, HOST: (above, MANAGER), ASKER: ("hubd", HOST)})
    assert not why_of_a_host(Process(ASKER, ASKER), [Process(SHIM, SHIM)], DAEMON, proc)


def test_a_number_that_is_anothers_by_now(tmp_path):
    proc = tree(tmp_path, {**USUAL, ASKER: ("hubd", TERMINAL)})
    assert why_of_a_host(Process(ASKER, 7), [], DAEMON, proc), "whoever asked is gone"
    assert why_of_a_host(None, [], DAEMON, proc)
    proc = tree(tmp_path, {ASKER: ("hubd", HOST)})
    assert not why_of_a_host(Process(ASKER, ASKER), [Process(SHIM, 7)], DAEMON, proc), "the shim is gone"


def test_a_hub_that_is_the_first_process_says_nothing(tmp_path):
    proc = tree(tmp_path, {1: ("python3", 0), ASKER: ("hubd", 1)})
    assert not why_of_a_host(Process(ASKER, ASKER), [], 1, proc)


@pytest.mark.covers("POL-27")
@pytest.mark.parametrize(
    ("above", "session", "terminal", "refused"),
    [
        ({49: ("bash", MANAGER)}, 49, 0, True),  # setsid -f
        ({49: ("bash", MANAGER)}, TERMINAL, 9, True),  # a job of a host that has let go of it
        ({49: ("bash", MANAGER)}, 49, 9, False),  # a login at a console
        ({49: ("bash", TERMINAL)}, 49, 9, False),
        ({49: ("bash", TERMINAL)}, 49, 0, False),
        ({49: ("bash", 48), 48: ("sshd", MANAGER)}, 49, 0, False),
        ({49: ("bash", 0)}, 49, 0, False),  # entered a container
    ],
)
def test_one_whose_parents_have_ended_needs_a_terminal(tmp_path, above, session, terminal, refused):
    proc = tree(tmp_path, {**USUAL, **above, ASKER: ("hubd", 49)}, session=session, terminal=terminal)
    assert bool(why_nobody_knows(Process(ASKER, ASKER), proc)) == refused


@pytest.mark.covers("POL-27")
def test_a_host_without_a_shim(tmp_path):
    proc = tree(tmp_path, {**USUAL, 49: ("bash", HOST), ASKER: ("hubd", 49)})
    assert why_of_a_host(Process(ASKER, ASKER), [], DAEMON, proc, hosts=[Process(HOST, HOST)])
    assert not why_of_a_host(Process(ASKER, ASKER), [], DAEMON, proc, hosts=[Process(HOST, 7)]), "another by now"
    assert not why_of_a_host(Process(ASKER, ASKER), [], DAEMON, proc, hosts=[Process(MANAGER, MANAGER)])


@pytest.mark.covers("POL-27")
def test_programs_that_are_connected_to_a_port():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        port = server.getsockname()[1]
        assert find_clients(port) == set()
        client.connect(("127.0.0.1", port))
        assert find_clients(port) == {find_process(os.getpid())}


EDITOR, WORKER, PTY = 60, 61, 62
APP = {EDITOR: ("code", TERMINAL), WORKER: ("code", EDITOR), PTY: ("code", EDITOR), SHIM: ("hubd", WORKER)}


@pytest.mark.covers("POL-27")
@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({EDITOR: "/opt/code", WORKER: "/opt/code (deleted)"}, True),
        ({}, True),  # it shows no files, but its name
        ({EDITOR: "/opt/desk", WORKER: "/opt/code"}, False),  # one program that has started another
    ],
)
def test_an_app_of_many_processes_is_one_host(tmp_path, files, refused):
    proc = tree(tmp_path, {**USUAL, **APP, 49: ("bash", PTY), ASKER: ("hubd", 49), 70: ("hubd", TERMINAL)})
    for pid, file in files.items():
        (proc / str(pid) / "exe").symlink_to(file)
    for shims, hosts in (([Process(SHIM, SHIM)], []), ([], [Process(WORKER, WORKER)])):
        assert bool(why_of_a_host(Process(ASKER, ASKER), shims, DAEMON, proc, hosts=hosts)) == refused
        assert not why_of_a_host(Process(70, 70), shims, DAEMON, proc, hosts=hosts), "where the app was started"


def test_the_program_of_a_process():
    assert find_program(os.getpid()) == os.path.realpath(sys.executable)
    assert find_program(2**22 + 1) == ""


def test_real_processes():
    me = find_process(os.getpid())
    assert me is not None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        asker = find_process(child.pid)
        assert why_of_a_host(asker, [], os.getpid())
        assert not why_of_a_host(asker, [], child.pid + 100_000)
        child.communicate(b"\n")
    assert find_process(child.pid) is None


def test_files_of_processes_below():
    read, write = os.pipe()
    os.set_inheritable(write, True)
    inode = os.fstat(write).st_ino
    try:
        assert not is_below(os.getpid(), holding=inode)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(("uid", "found"), [(None, True), ("own", True), (4242, False)])
def test_one_that_cannot_be_looked_at(tmp_path, uid, found):
    proc = tree(tmp_path, {10: ("python3", 1), 11: ("x", 10)})
    (proc / "11/fd").write_text("no folder")
    if uid is not None:
        number = os.geteuid() if uid == "own" else uid
        (proc / "11/status").write_text(f"Name:\tx\nUid:\t0\t{number}\t0\t0\n")
    assert is_below(10, holding=5, proc=proc) == found
