"""Real processes in real sandboxes: what they can see, write and reach, what they may take, and how they end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from config.loading.assemble import load_all
from config.security_settings import Sandbox
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnavailable
from hub.linux.child_limits import OOM_SCORE
from hub.linux.processes import pids
from tests.support.sandboxes import Machine
from upstreams.transports.stdio.process import Child, child_environment
from upstreams.transports.stdio.sandbox.arguments import ALL, SKELETONS, limit_arguments

LOOK = """
import json, os, resource, socket, sys
facts = json.loads(sys.argv[1])
def attempt(do):
    try:
        do()
        return True
    except OSError:
        return False
def write(path):
    with open(path, "w") as file:
        file.write("x")
def connect(family, address):
    with socket.socket(family) as it:
        it.connect(address)
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.sendto(b"x", ("127.0.0.1", facts["udp"]))
print(json.dumps({
    **{name: attempt(lambda: open(path, "rb").read(1)) for name, path in facts["read"].items()},
    **{name: attempt(lambda: write(path)) for name, path in facts["write"].items()},
    "TCP": attempt(lambda: connect(socket.AF_INET, ("127.0.0.1", facts["tcp"]))),
    "UDP": attempt(send),
    "a unix socket in /tmp": attempt(lambda: connect(socket.AF_UNIX, facts["unix"])),
    "cwd": os.getcwd(),
    "mark": os.environ["HUBD_INSTANCE"],
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    "score": int(open("/proc/self/oom_score_adj").read()),
}))
"""

SEEN = {
    "shield": {
        *("a key", "hubd.toml", "write a note", "write at home", "write elsewhere"),
        *("TCP", "UDP", "a unix socket in /tmp"),
    },
    "own-home": {"write a note", "write at home", "TCP", "UDP"},
    "offline": {"write a note", "write at home"},
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    return Machine(tmp_path / "m", monkeypatch)


@pytest.fixture
def elsewhere():
    path = Path("/var/tmp", f"hubd-test-{os.getpid()}")
    yield path
    path.unlink(missing_ok=True)


def python(program, *args, **box):
    argv = ("-I", "-S", "-c", program, *args)
    return UpstreamConfig(command=sys.executable, args=argv, cwd="/", sandbox=Sandbox(**box))


async def start(machine, config, loaded=None):
    enclosure = await machine.sandboxes(lambda: loaded).enclose(config, "up", child_environment(config, os.environ))
    assert enclosure.preset == config.sandbox.preset
    return Child(config, "up", dict(os.environ), enclosure=enclosure)


async def read_all(child):
    data = bytearray()
    while part := await child.stdout.receive_some(1 << 16):
        data += part
    return bytes(data)


async def read_line(child):
    data = b""
    while not data.endswith(b"\n"):
        part = await child.stdout.receive_some(1 << 16)
        assert part, child.said.tail()
        data += part
    return data.decode().strip()


@pytest.mark.covers("BOX-12", "BOX-16", "I-9")
@pytest.mark.parametrize("preset", ["shield", "own-home", "offline"])
async def test_what_each_preset_lets_a_server_do(machine, tmp_path, elsewhere, preset):
    (machine.config / "mine").mkdir()  # so the directory is not the hub's alone
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(tmp_path / "s"))
            unix.listen()
            facts = {
                "read": {
                    "the token": str(machine.state / "token"),
                    "a key": str(machine.home / ".ssh/id"),
                    "the hub's environment": f"/proc/{os.getpid()}/environ",
                    "hubd.env": str(machine.config / "hubd.env"),
                    "hubd.toml": str(machine.config / "hubd.toml"),
                },
                "write": {
                    "write a note": str(machine.home / "notes/note"),
                    "write at home": str(machine.home / "x"),
                    "write elsewhere": str(elsewhere),
                    "write the configuration": str(machine.config / "hubd.toml"),
                    "write the hub's state": str(machine.state / "x"),
                },
                "tcp": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
                "unix": str(tmp_path / "s"),
            }
            write = () if preset == "shield" else (str(machine.home / "notes"),)
            config = python(LOOK, json.dumps(facts), preset=preset, write=write)
            child = await start(machine, config, load_all(None, os.environ))
            found = json.loads(await read_all(child))
            await child.stop()
            try:
                heard = udp.recv(1) == b"x"
            except BlockingIOError:
                heard = False
    found["UDP"] = heard
    assert found.pop("cwd") == "/"
    assert found.pop("mark").endswith(child.marker)
    assert found.pop("score") == _oom_score() + OOM_SCORE
    assert found.pop("files") <= 1 << 16
    assert {name for name, is_possible in found.items() if is_possible} == SEEN[preset]
    assert (machine.home / "notes/note").exists()
    assert (machine.home / "x").exists() == (preset == "shield")
    assert (machine.state / "homes/up/x").exists() == (preset != "shield")
    assert "upstreams" in (machine.config / "hubd.toml").read_text()


@pytest.mark.covers("BOX-12")
async def test_files_that_are_replaced_meanwhile_stay_out_of_reach(machine):
    (machine.config / "programs").mkdir()
    files = {"hubd.toml": machine.config / "hubd.toml", "hubd.env": machine.config / "hubd.env"}
    program = """
import sys
print(flush=True)
sys.stdin.readline()
for path in sys.argv[1:]:
    for do in (lambda: open(path).read(), lambda: open(path, "a").write("x")):
        try:
            print(repr(do()))
        except OSError as error:
            print(error.strerror)
"""
    found = load_all(None, os.environ)
    mine = machine.config / "programs/mine"
    config = python(program, *map(str, (*files.values(), mine)), preset="shield")
    child = await start(machine, config, found)
    await read_line(child)
    for path in files.values():
        path.with_name("new").write_text("new")
        path.with_name("new").replace(path)
    await child.stdin.send_all(b"\n")
    old = "'[upstreams.x]\\ncommand = \"true\"\\n'"
    read_only, absent = "Read-only file system", "No such file or directory"
    assert (await read_all(child)).decode().splitlines() == [old, read_only, absent, read_only, absent, "1"]
    await child.stop()
    assert {path.read_text() for path in files.values()} == {"new"}
    assert mine.read_text() == "x"


@pytest.mark.covers("BOX-10", "BOX-12")
@pytest.mark.parametrize("preset", ["shield", "own-home"])
@pytest.mark.parametrize("is_alone", [True, False])
async def test_directories_with_walls_in_them_cannot_be_moved_away(machine, tmp_path, preset, is_alone):
    """Wherever a server may write: else it would put its own in the place of the hub's."""
    if not is_alone:
        (machine.config / "mine").write_text("")  # so the directory is not the hub's alone
    root = tmp_path / "m"
    held = [root / "config", root / "state", machine.config, machine.state, *([root] if preset == "shield" else ())]
    held += [] if is_alone else [machine.config / "hubd.toml", machine.config / "hubd.env"]
    program = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.rename(path, path + ".old")
        print(path)
    except OSError:
        pass
"""
    (free := root / "free").mkdir()
    write = () if preset == "shield" else (str(root),)
    config = python(program, *map(str, (*held, free)), preset=preset, write=write)
    child = await start(machine, config, load_all(None, os.environ))
    assert (await read_all(child)).decode().splitlines() == [str(free)]
    await child.stop()


@pytest.mark.covers("BOX-12")
@pytest.mark.parametrize("preset", ["shield", "own-home"])
async def test_exit_codes_and_signals_are_those_of_the_server(machine, preset):
    for program, ending in (
        ("os._exit(7)", "exited with status 7"),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    ):
        child = await start(machine, python(f"import os; {program}", preset=preset))
        await child.watch()
        await child.stop()
        assert child.ending() == ending


@pytest.mark.covers("BOX-12")
@pytest.mark.parametrize("preset", ["shield", "own-home"])
async def test_what_a_server_closes_is_closed_though_it_goes_on(machine, preset):
    child = await start(machine, python("import os, time; os.close(0); os.close(1); time.sleep(60)", preset=preset))
    assert await read_all(child) == b""
    with pytest.raises(trio.BrokenResourceError):
        await child.stdin.send_all(bytes(1 << 22))
    await child.stop()


@pytest.mark.covers("BOX-12")
@pytest.mark.parametrize("preset", ["shield", "own-home"])
async def test_a_server_hears_that_it_is_to_end(machine, preset):
    """And is not killed before it could do anything about it."""
    program = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print(flush=True); time.sleep(60)"
    child = await start(machine, python(program, preset=preset))
    await read_line(child)
    await child.stop()
    assert child.ending() == "exited with status 5"


@pytest.mark.covers("BOX-12")
@pytest.mark.parametrize("preset", ["shield", "own-home"])
async def test_nothing_is_left_of_a_server_whose_child_left_its_group(machine, preset):
    """Where processes are numbered anew it ends with bubblewrap, elsewhere the hub finds it by its mark."""
    name = f"left-{os.getpid()}-{preset}"
    script = f"echo; sleep 60; : {name}"
    program = f"import subprocess, time; subprocess.Popen(['setsid', 'sh', '-c', {script!r}]); time.sleep(60)"
    child = await start(machine, python(program, preset=preset))
    await read_line(child)

    def left():
        return [pid for pid in pids() if name.encode() in _command_line(pid)]

    assert left()
    os.kill(child.pid, signal.SIGKILL)
    await child.watch()
    await child.stop()
    assert left() == []


def _oom_score():
    return int(Path("/proc/self/oom_score_adj").read_text())


def _command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.covers("BOX-12")
async def test_a_command_that_is_missing_is_told_as_without_a_sandbox(machine, tmp_path):
    config = UpstreamConfig(command="no-such-program", cwd="/", sandbox=Sandbox(preset="shield"))
    with pytest.raises(UpstreamUnavailable, match="'no-such-program' was not found"):
        await start(machine, config)
    (tmp_path / "plain").write_text("")
    config = UpstreamConfig(command=str(tmp_path / "plain"), cwd="/", sandbox=Sandbox(preset="shield"))
    with pytest.raises(UpstreamUnavailable, match="may not be executed"):
        await start(machine, config)


@pytest.mark.covers("BOX-14")
async def test_memory_is_limited_for_each_process(machine):
    program = "import sys\ntry:\n    bytearray(300 << 20)\nexcept MemoryError:\n    sys.exit(3)"
    for preset in ("shield", "own-home"):
        child = await start(machine, python(program, preset=preset, memory_bytes=128 << 20))
        await child.watch()
        await child.stop()
        assert child.exit_code == 3


@pytest.mark.covers("BOX-14", "BOX-16")
def test_a_fork_bomb_ends_at_the_limit(machine, elsewhere):
    bomb = "import os, time\nfor _ in range(99):\n    os.fork() or (time.sleep(9), os._exit(0))"
    shutil.copy(machine.found.path, elsewhere)  # where other users find it, too
    argv = [str(elsewhere), *ALL, *SKELETONS["own-home"], *limit_arguments("prlimit", 0, 20)]
    if os.getuid() == 0:  # whom this limit does not bind
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
    argv += ["/usr/bin/python3", "-I", "-S", "-c", bomb]
    done = subprocess.run(argv, capture_output=True, env=machine.found.env, cwd="/", timeout=60)
    assert b"BlockingIOError" in done.stderr


@pytest.mark.covers("BOX-14")
async def test_the_number_of_processes_is_limited(machine):
    """`RLIMIT_NPROC` does not bind root, so what is limited is only seen by another user."""
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC))"
    child = await start(machine, python(program, preset="own-home", processes=40))
    assert await read_line(child) == "(40, 40)"
    await child.stop()
