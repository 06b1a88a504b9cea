"""`hubd connect` with real processes and sockets; the daemon is an echo (tests/support/echo_daemon.py)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from config.hub_paths import lock_path, socket_path
from hub.daemon.bind_unix import bind_unix, take_lock
from hub.shim import start_daemon
from hub.shim.main import preamble, run
from tests.support import echo_daemon, processes

PATIENCE_S = 30
SHIM = (
    "import sys; from hub.shim import main, start_daemon; start_daemon.daemon_command = sys.argv[1].split;"
    "sys.exit(main.run(sys.argv[2:]))"
)


class Place:
    """Directories of one user, and the daemons that were started there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env = processes.own_directories(directory)
        self.starts = directory / "starts"
        self.daemon = f"{sys.executable} -I {echo_daemon.__file__} {self.starts}"
        self.log = Path(self.env["XDG_STATE_HOME"], "hubd", "hubd.log")

    def start(self, *arguments: str, daemon: str | None = None) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-I", "-c", SHIM, daemon or self.daemon, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=self.env, cwd=self.directory)

    def hello(self, **options: str) -> bytes:
        """What the echo says to a shim that was started here."""
        return b"hello " + preamble(options, str(self.directory))

    def pids(self) -> Sequence[int]:
        return [int(line) for line in self.starts.read_text().split()] if self.starts.exists() else []

    def kill(self) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(tmp_path)
    for name in ("HUBD_RUNTIME_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        if name in place.env:
            monkeypatch.setenv(name, place.env[name])
        else:
            monkeypatch.delenv(name, raising=False)
    yield place
    place.kill()


def finish(shim: subprocess.Popen[bytes], data: bytes = b"") -> tuple[int, bytes, str]:
    out, err = shim.communicate(data, timeout=PATIENCE_S)
    return shim.returncode, out, err.decode()


def test_the_daemon_is_started_and_bytes_go_both_ways(place):
    data = b'{"jsonrpc":"2.0","method":"ping"}\n'
    assert finish(place.start(), data) == (0, place.hello() + data + b"bye\n", ""), "answers drain after the host's end"
    [daemon] = place.pids()
    assert finish(place.start("--host", "h", "--upstream=u"), b"") == (
        0,
        place.hello(host="h", upstream="u") + b"bye\n",
        "",
    )
    assert place.pids() == [daemon], "the second shim used the same daemon"
    assert os.getpgid(daemon) == os.getsid(daemon) != os.getsid(0)
    assert Path(f"/proc/{daemon}/cwd").readlink() == Path("/")


@pytest.mark.covers("F-H-23")
def test_twenty_racing_shims_start_one_daemon(place):
    shims = [place.start("--host", f"h{at}") for at in range(20)]
    found = [finish(shim) for shim in shims]
    assert found == [(0, place.hello(host=f"h{at}") + b"bye\n", "") for at in range(20)]
    assert len(place.pids()) == 1


def test_a_megabyte_passes_while_nobody_reads(place):
    """The shim neither gives up nor stops the hub from being read; the host reads late, and slowly."""
    data = (b"x" * 1023 + b"\n") * 4096
    shim = place.start()
    assert shim.stdin is not None
    assert shim.stdout is not None
    writer = threading.Thread(target=lambda: (shim.stdin.write(data), shim.stdin.close()))
    writer.start()
    received = b"".join(iter(lambda: shim.stdout.read1(5000), b""))
    writer.join(PATIENCE_S)
    assert received == place.hello() + data + b"bye\n"
    assert shim.wait(PATIENCE_S) == 0
    shim.stdout.close()
    shim.stderr.close()


def test_large_answers_pass_in_large_writes(place):
    data = (b"x" * 1023 + b"\n") * 4096
    shim = place.start()
    writer = threading.Thread(target=lambda: (shim.stdin.write(data), shim.stdin.flush()))
    writer.start()
    assert shim.stdout.read(len(place.hello() + data)) == place.hello() + data
    writer.join(PATIENCE_S)
    counted = dict(line.split(": ") for line in Path(f"/proc/{shim.pid}/io").read_text().splitlines())
    assert int(counted["syscw"]) < len(data) / 4096 / 2
    assert os.get_blocking(shim.stdout.fileno())
    finish(shim)


@pytest.mark.covers("F-H-22")
def test_a_daemon_that_dies_is_started_anew(place):
    shim = place.start()
    assert shim.stdout.readline() == place.hello()
    place.kill()
    assert shim.stdout.readline() == place.hello()
    assert len(place.pids()) == 2
    assert finish(shim) == (0, b"bye\n", "")


@pytest.mark.covers("F-H-22")
def test_a_daemon_that_cannot_be_started_anew_is_reported(place):
    daemon = place.directory / "daemon"
    daemon.write_text(f"#!/bin/sh\n[ -e {place.starts} ] && echo gone >&2 && exit 3; exec {place.daemon}\n")
    daemon.chmod(0o700)
    shim = place.start(daemon=str(daemon))
    assert shim.stdout.readline() == place.hello()
    place.kill()
    assert shim.wait(PATIENCE_S) == 69
    _, out, said = finish(shim)
    assert out == b""
    assert "the hub did not start: gone (log: " in said


def test_a_host_that_is_gone_ends_the_shim(place):
    shim = place.start()
    assert shim.stdout.readline() == place.hello()
    shim.stdout.close()
    assert shim.wait(PATIENCE_S) == 0
    shim.stdin.close()
    shim.stderr.close()


def test_standard_streams_may_be_one_socket(place):
    """As Node gives them to a child."""
    ours, theirs = socket.socketpair()
    with ours:
        argv = [sys.executable, "-I", "-c", SHIM, place.daemon]
        shim = subprocess.Popen(argv, stdin=theirs, stdout=theirs, env=place.env, cwd=place.directory)
        theirs.close()
        ours.settimeout(PATIENCE_S)
        ours.sendall(b"one\n")
        ours.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: ours.recv(65536), b""))
        assert received == b"hello " + preamble({}, str(place.directory)) + b"one\nbye\n"
        assert shim.wait(PATIENCE_S) == 0


@pytest.mark.covers("F-H-23", "F-C-01")
def test_a_daemon_that_cannot_start_says_why(place):
    code, out, said = finish(place.start(daemon="/bin/ls /no/such/place"))
    assert (code, out) == (69, b"")
    assert "the hub did not start: " in said
    assert "/no/such/place" in said
    assert str(place.log) in said


def test_a_daemon_that_is_starting_is_waited_for(place):
    """Its lock is held, its socket is not there yet: nobody else is started."""
    with take_lock(lock_path()):
        shim = place.start(daemon="/bin/false")
        listener = bind_unix(socket_path())
        listener.setblocking(True)
        listener.settimeout(PATIENCE_S)
        connection, _ = listener.accept()
        with connection, listener:
            assert b"hello " + connection.recv(1000) == place.hello()
            connection.sendall(b"hi\n")
            assert shim.stdout.readline() == b"hi\n"
            shim.stdin.close()
            assert connection.recv(100) == b""
        assert shim.wait(PATIENCE_S) == 0
        shim.stdout.close()
        shim.stderr.close()


def test_a_daemon_that_takes_no_connections_now_is_waited_for(place):
    """As many wait already as may: no second one is started, and nothing stands still meanwhile."""
    listener = bind_unix(socket_path())
    listener.listen(0)
    waiting = []
    with contextlib.suppress(BlockingIOError):
        while True:
            waiting.append(start_daemon.connect(str(socket_path())))
    shim = place.start(daemon="/bin/false")
    listener.setblocking(True)
    listener.settimeout(PATIENCE_S)
    for _ in waiting:
        listener.accept()[0].close()
    connection, _ = listener.accept()
    with connection, listener:
        assert b"hello " + connection.recv(1000) == place.hello()
        shim.stdin.close()
        assert connection.recv(100) == b""
    assert shim.wait(PATIENCE_S) == 0
    shim.stdout.close()
    shim.stderr.close()
    for one in waiting:
        one.close()


def test_a_silent_hub_does_not_keep_the_shim_of_a_host_that_is_gone(place):
    code = f"from hub.shim import reconnecting_pump; reconnecting_pump.GRACE_S = 0.01; {SHIM}"
    with bind_unix(socket_path()) as listener:
        argv = [sys.executable, "-I", "-c", code, place.daemon]
        shim = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=place.env, cwd=place.directory)
        listener.setblocking(True)
        listener.settimeout(PATIENCE_S)
        with listener.accept()[0]:
            assert shim.wait(PATIENCE_S) == 0


def test_a_silent_hub_is_not_said_to_have_died(place):
    code = f"from hub.shim import reconnecting_pump; reconnecting_pump.GRACE_S = 0.01; {SHIM}"
    asked = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'
    with bind_unix(socket_path()):
        argv = [sys.executable, "-I", "-c", code, place.daemon]
        done = subprocess.run(
            argv, input=asked, capture_output=True, env=place.env, cwd=place.directory, timeout=PATIENCE_S, check=True
        )
    error = json.loads(done.stdout)["error"]
    text = "The hub did not answer this request in time. It changes nothing, so it can be repeated."
    assert (error["message"], error["data"]["hub"]) == (text, "upstream_lost")


@pytest.mark.covers("F-D-10")
def test_a_runtime_directory_that_others_may_enter_is_not_used(place):
    directory = Path(place.env["XDG_RUNTIME_DIR"], "hubd")
    directory.mkdir()
    directory.chmod(0o775)
    code, out, said = finish(place.start())
    assert (code, out) == (78, b"")
    assert "run `chmod 700" in said


def test_a_log_that_grew_is_put_aside(place):
    place.log.parent.mkdir(mode=0o700)
    with place.log.open("wb") as log:
        log.truncate(5 << 20)
    assert finish(place.start())[0] == 0
    assert place.log.stat().st_size < 1000
    assert place.log.with_name("hubd.log.1").stat().st_size == 5 << 20


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--nope"], "there is no option --nope"),
        (["--host"], "--host needs a value"),
        (["--host", ""], "--host takes 1 to 64 printable ASCII characters"),
        (["--host=a\nb"], "--host takes"),
        (["--profile", "x" * 65], "--profile takes"),
        (["--profile", "a", "--upstream", "b"], "a single server has no profiles: give --upstream or --profile"),
        (["--project", "/no/such/place"], "--project takes a directory"),
        (["--project="], "--project takes a directory"),
    ],
)
def test_wrong_usage(arguments, expected, capfd):
    assert run(arguments) == 2
    assert expected in capfd.readouterr().err


def test_help(capfd):
    assert run(["--help"]) == 0
    assert "--upstream NAME" in capfd.readouterr().out


def test_labels_are_json():
    assert (
        preamble({"host": 'a"b\\c'}, "/é")
        == b'{"hubd":1,"bye":true,"lists":true,"host":"a\\"b\\\\c","cwd":"/\\u00e9"}\n'
    )


def test_places_that_cannot_be_told_are_left_out(place):
    for name in (b"\xff", b"removed", "zoë/проект".encode()):
        directory = os.fsencode(place.directory) + b"/" + name
        os.makedirs(directory)
        told = name not in (b"\xff", b"removed")
        removal = "os.rmdir(os.getcwd());" if name == b"removed" else ""
        code = f"import os; {removal} from hub.shim.main import _working_directory; print(ascii(_working_directory()))"
        found = subprocess.run(
            [sys.executable, "-I", "-c", code], cwd=directory, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == ascii(os.fsdecode(directory) if told else "")


def test_a_project_is_told_in_full(place):
    (place.directory / "shop").mkdir()
    shim = place.start("--project", "shop/../shop")
    assert shim.stdout.readline() == place.hello(project=str(place.directory / "shop"))
    finish(shim)


def test_it_imports_nothing_heavy():
    """The CPU of a start is mostly imports: this is what keeps it near 14 ms."""
    code = "import sys; before = set(sys.modules); import hub.shim.main; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [
        "_json",
        "_socket",
        "config",
        "config.base_directories",
        "config.hubd_executable",
        "config.private_directories",
        "fcntl",
        "hub",
        "hub.linux",
        "hub.linux.peer_credentials",
        "hub.shim",
        "hub.shim.hub_liveness",
        "hub.shim.line_buffers",
        "hub.shim.list_digests",
        "hub.shim.main",
        "hub.shim.mini_jsonrpc",
        "hub.shim.reconnecting_pump",
        "hub.shim.replay",
        "hub.shim.start_daemon",
        "hub.wire",
        "hub.wire.vocabulary",
        "select",
    ]
