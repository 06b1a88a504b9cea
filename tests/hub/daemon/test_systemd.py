"""What a service manager hands over and is told: by `systemd-socket-activate`, and by a socket in its place."""

import contextlib
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

from config.diagnostics import ConfigError
from hub.daemon import systemd
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, free_port, own_directories, running

ACTIVATE = shutil.which("systemd-socket-activate")
needs_systemd = pytest.mark.skipif(
    ACTIVATE is None, reason="systemd-socket-activate is missing; on Debian: apt install systemd"
)
DEMO = f"[upstreams.demo]\ncommand = {json.dumps(sys.executable)}\nargs = ['-I', '-m', 'upstreams.demo']\n"
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Manager:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, address):
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self._socket.settimeout(30)

    def heard(self):
        """The next datagram's lines."""
        return self._socket.recv(65536).decode().split("\n")

    def hear(self, word):
        """The datagrams up to one that has `word` among its lines."""
        datagrams = []
        while not datagrams or not any(line.startswith(word) for line in datagrams[-1]):
            datagrams.append(self.heard())
        return datagrams

    def silent_for(self, seconds):
        """Whether it hears nothing for so long, once what was said before has been heard."""
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.heard()
        self._socket.settimeout(seconds)
        with pytest.raises(TimeoutError):
            self.heard()
        self._socket.settimeout(30)
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()


@pytest.fixture
def manager(tmp_path, monkeypatch):
    with Manager(str(tmp_path / "notify")) as it:
        monkeypatch.setenv("NOTIFY_SOCKET", it.address)
        yield it


# --- told -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all", "@hubd-nobody-listens", "vsock:2:1"])
def test_nobody_who_listens_is_no_trouble(address, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert systemd.notify("READY=1") is False
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert systemd.notify("READY=1") is False


def test_an_abstract_socket_is_one_too(monkeypatch):
    with Manager(f"@hubd-test-{os.getpid()}") as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
        assert systemd.notify("READY=1", "STATUS=fine") is True
        assert manager.heard() == ["READY=1", "STATUS=fine"]


def test_a_manager_that_does_not_read_is_not_waited_for(manager):
    while systemd.notify("STATUS=" + "x" * 1000):
        pass


def test_a_reload_ends_for_the_manager_however_it_ends(manager):
    with contextlib.suppress(ConfigError), systemd.reloading():
        first, second = manager.heard()
        assert first == "RELOADING=1"
        assert second.removeprefix("MONOTONIC_USEC=").isdigit()
        raise ConfigError("wrong")
    assert manager.heard() == ["READY=1"]


@pytest.mark.parametrize(
    ("usec", "pid", "beats"),
    [("8000000", None, 7), ("8000000", str(os.getpid()), 7), ("8000000", "1", 3), ("", None, 3), ("0", None, 3)],
    ids=["every hub", "this one", "another one", "not asked", "never"],
)
async def test_the_loop_says_that_it_turns_twice_as_often_as_asked(
    manager, monkeypatch, autojump_clock, usec, pid, beats
):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", pid)
    with trio.move_on_after(27):
        await systemd.pulse(lambda: "2 upstreams")
    assert [manager.heard() for _ in range(beats)] == [["WATCHDOG=1", "STATUS=2 upstreams"]] * beats
    assert manager.silent_for(0.01)


async def test_without_a_manager_there_is_no_pulse(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    with trio.fail_after(30):
        await systemd.pulse(lambda: "")


@pytest.mark.covers("F-D-12")
async def test_a_loop_that_hangs_says_nothing(manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(systemd.pulse, lambda: "")
        await trio.testing.wait_all_tasks_blocked()
        assert manager.heard()
        assert manager.silent_for(0.3), "we block the loop ourselves, by waiting here"
        await trio.to_thread.run_sync(manager.hear, "WATCHDOG=1")
        nursery.cancel_scope.cancel()


# --- handed over ------------------------------------------------------------------------------------------------------

SAY_WHAT_CAME = """if True:
    import json, os
    from hub.daemon import systemd
    found = systemd.listeners()
    print(json.dumps({
        "listeners": [[it.family.name, it.getblocking(), os.get_inheritable(it.fileno())] for it in found],
        "left": [name for name in os.environ if name.startswith("LISTEN_")],
        "open": [at for at in range(3, 9) if os.path.exists(f"/proc/self/fd/{at}")],
        "again": len(systemd.listeners()),
    }))
"""


def handed(*descriptors, pid="$$", count=None):
    """What a process finds that is handed these."""
    moves = " ".join(f"{at}<&{descriptor + 20}" for at, descriptor in enumerate(descriptors, 3))
    copies = [os.dup2(descriptor, descriptor + 20, inheritable=True) for descriptor in descriptors]
    count = len(descriptors) if count is None else count
    script = f'exec {moves}; LISTEN_PID={pid} LISTEN_FDS={count} LISTEN_FDNAMES=a:b exec "$@"'
    argv = ["bash", "-c", script, "-", sys.executable, "-I", "-c", SAY_WHAT_CAME]
    try:
        done = subprocess.run(argv, pass_fds=copies, capture_output=True, text=True, timeout=30, check=True)
    finally:
        for copy in copies:
            os.close(copy)
    return json.loads(done.stdout)


def test_only_listening_stream_sockets_are_taken(tmp_path):
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    with (
        contextlib.closing(ours),
        contextlib.closing(theirs),
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        found = handed(tcp.fileno(), reading, ours.fileno(), udp.fileno(), unix.fileno())
        assert found["listeners"] == [["AF_INET", False, False], ["AF_UNIX", False, False]]
        assert not {4, 5, 6} & set(found["open"]), "the others are closed"
        assert found["left"] == []
        assert found["again"] == 0
        for wrong in ({"pid": "1"}, {"count": "many"}, {"count": ""}, {"count": "0"}):
            found = handed(tcp.fileno(), **wrong)
            assert (found["listeners"], found["left"]) == ([], [])
        assert len(handed(tcp.fileno(), count=3)["listeners"]) == 1, "one of three is there"
    os.close(reading)
    os.close(writing)


def test_what_nobody_takes_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(tmp_path / "s"))
        (tmp_path / "link").symlink_to(tmp_path)
        handover = systemd.Handover([unix, tcp])
        assert handover.unix(tmp_path / "t") is None
        assert handover.tcp() is tcp
        assert handover.tcp() is None
        with pytest.raises(ConfigError, match=r"no host would look for: .*/s; name in ListenStream="):
            handover.refuse()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "u"))
        handover = systemd.Handover([unix])
        assert handover.unix(tmp_path / "link" / "u") is unix
        handover.refuse()


# --- a hub with both --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def activated(directory, *addresses, config=DEMO, listen=None):
    """A hub that starts with the first connection to one of these addresses."""
    env = own_directories(directory)
    (Path(env["XDG_RUNTIME_DIR"]) / "hubd").mkdir(mode=0o700, exist_ok=True)
    (file := directory / "hubd.toml").write_text(config)
    argv = [ACTIVATE, *(f"--listen={address}" for address in addresses), "--fdname=hubd"]
    argv += [f"--setenv={name}={value}" for name, value in env.items()]
    argv += [HUBD, "serve", "--config", file, *(["--listen", listen] if listen else [])]
    with running(argv, directory / "log", env=env, cwd=directory, merged=True) as process:
        for _ in addresses:
            process.wait_for("Listening on")
        yield process, env


def socket_of(directory):
    return Path(own_directories(directory)["XDG_RUNTIME_DIR"]) / "hubd" / "hubd.sock"


def connect(env, *arguments, stdin):
    argv = [HUBD, "connect", *arguments]
    return subprocess.run(argv, env=env, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@needs_systemd
@pytest.mark.covers("F-D-01", "F-D-10")
def test_a_shim_starts_the_hub_by_its_socket(tmp_path):
    path = socket_of(tmp_path)
    with activated(tmp_path, path, listen="127.0.0.1:0") as (process, env):
        ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}) + "\n"
        done = connect(env, stdin=ask)
        assert json.loads(done.stdout)["result"]["protocolVersion"] == "2025-11-25"
        assert done.returncode == 0
        assert not (path.parent / "start.lock").exists(), "connecting was enough"
        shown = run_hubd(["status"], env, check=True)
        assert "demo" in shown.stdout
        before = path.stat().st_ino
        assert process.signalled(signal.SIGTERM, patience_s=30) == 0
        assert path.stat().st_ino == before, "the socket is not ours to remove"
        assert not path.with_name("control.sock").exists(), "this one is"
    path.unlink()


@contextlib.contextmanager
def served(listener, env, file):
    """A hub that is handed this listener."""
    script = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{listener.fileno()}'
    argv = ["bash", "-c", script, "-", HUBD, "serve", "--config", file, "--listen", "127.0.0.1:0"]
    hub = subprocess.Popen(argv, env=env, pass_fds=[listener.fileno()], stdout=subprocess.DEVNULL)
    try:
        yield hub
    finally:
        hub.terminate()
        assert hub.wait(60) == 0


def test_connections_made_while_no_hub_runs_wait_for_the_next(tmp_path):
    env = own_directories(tmp_path)
    (file := tmp_path / "hubd.toml").write_text(DEMO)
    path = socket_of(tmp_path)
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        for id in (1, 2):
            with socket.socket(socket.AF_UNIX) as host:
                host.settimeout(60)
                host.connect(str(path))
                ask = {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": INITIALIZE}
                host.sendall(b'{"hubd":1}\n' + json.dumps(ask).encode() + b"\n")
                with served(listener, env, file):
                    assert json.loads(host.makefile("rb").readline())["id"] == id


@needs_systemd
def test_http_may_start_it_too(tmp_path):
    port = free_port()
    with activated(tmp_path, socket_of(tmp_path), f"127.0.0.1:{port}", listen="127.0.0.1:1") as (process, env):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as host:
            host.sendall(f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            assert b" 401 " in host.makefile("rb").readline()
        assert process.wait_for(r"^hubd listens on (\S+)")[1] == f"http://127.0.0.1:{port}/mcp"
        assert connect(env, stdin="").returncode == 0


@needs_systemd
@pytest.mark.covers("SEC-01")
def test_a_socket_for_everyone_needs_the_same_words_as_listen(tmp_path):
    port = free_port()
    everyone = f"0.0.0.0:{port}"
    with activated(tmp_path, everyone) as (process, _), socket.create_connection(("127.0.0.1", port), timeout=60):
        assert process.wait_for("behind_tls_proxy = true")
        assert process.exit_code() == 78


@needs_systemd
def test_a_socket_that_no_host_would_find_is_refused(tmp_path):
    with activated(tmp_path, tmp_path / "other.sock") as (process, _), socket.socket(socket.AF_UNIX) as host:
        host.connect(str(tmp_path / "other.sock"))
        assert process.wait_for("other.sock; name in ListenStream=")
        assert process.exit_code() == 78


def assert_reloaded(manager):
    """The manager hears of one reload, from beginning to end."""
    first, second = manager.hear("RELOADING=1")[-1]
    assert first == "RELOADING=1"
    assert second.removeprefix("MONOTONIC_USEC=").isdigit()
    assert not any("RELOADING=1" in lines for lines in manager.hear("READY=1"))


@pytest.mark.covers("F-D-01", "F-D-04", "F-D-12")
def test_a_life_as_the_manager_hears_it(tmp_path):
    env = own_directories(tmp_path)
    (file := tmp_path / "hubd.toml").write_text(DEMO + "\n")
    argv = [HUBD, "serve", "--config", file, "--listen", "127.0.0.1:0"]
    with Manager(str(tmp_path / "notify")) as manager:
        env |= {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000"}
        with running(argv, tmp_path / "log", env=env) as process:
            until_ready = manager.hear("READY=1")
            assert any(line.startswith("STATUS=") for line in until_ready[-1])
            manager.hear("STATUS=1 of 1 upstreams connected, 0 hosts")
            assert manager.hear("WATCHDOG=1")
            assert process.signalled(signal.SIGHUP) is None
            assert_reloaded(manager)
            file.write_text(f"{DEMO}\n[upstreams.more]\ncommand = 'true'\n")
            assert_reloaded(manager)
            file.write_text("nonsense")
            assert process.signalled(signal.SIGHUP) is None
            assert_reloaded(manager)
            assert process.signalled(signal.SIGTERM, patience_s=30) == 0
            stopping = manager.hear("STOPPING=1")[-1]
            assert f"EXTEND_TIMEOUT_USEC={60 * 1_000_000}" in stopping
