"""`hubd connect` as a real process while hubs come and go: the hub is this test, which says and hears each line."""

import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.hub_paths import lock_path, socket_path
from hub.daemon.bind_unix import bind_unix, take_lock
from tests.support import processes

PATIENCE_S = 30
SHIM = (
    "import sys; from hub.shim import main, start_daemon; start_daemon.daemon_command = lambda: sys.argv[1:];"
    "sys.exit(main.run([]))"
)
BYE = {"hubd": 1, "bye": "stopping"}
UNDERSTOOD = {"hubd": 1, "bye": "understood"}
INITIALIZE = {"method": "initialize", "params": {"protocolVersion": "2025-11-25"}, "jsonrpc": "2.0", "id": 0}
WELCOME = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25", "capabilities": {}}}
INITIALIZED = {"method": "notifications/initialized", "jsonrpc": "2.0"}


def request(id, method, **params):
    return {"method": method, "params": params, "jsonrpc": "2.0", "id": id}


def result(id, **value):
    return {"jsonrpc": "2.0", "id": id, "result": value}


def encoded(message):
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def meanwhile(write, data):
    """Write what may not fit into a pipe that this thread will read at the other end."""

    def try_to_write():
        with contextlib.suppress(OSError, ValueError):  # the other end may be closed first
            write(data)

    if len(data) < 30_000:
        write(data)
    else:
        threading.Thread(target=try_to_write, daemon=True).start()


class Connection:
    """The hub's end of the shim's connection."""

    def __init__(self, link: socket.socket) -> None:
        link.settimeout(PATIENCE_S)
        self.link = link
        self._file = link.makefile("rb")

    def say(self, *messages: object) -> None:
        self.write(b"".join(map(encoded, messages)))

    def write(self, data: bytes) -> None:
        meanwhile(self.link.sendall, data)

    def hear(self) -> object:
        """The next message; None at the end."""
        line = self.read()
        return json.loads(line) if line else None

    def read(self) -> bytes:
        return self._file.readline()

    def close(self) -> None:
        self._file.close()
        self.link.close()


class Hub:
    """Lock and socket of a daemon, until it dies."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self._lock = take_lock(lock_path())
        self._lock.__enter__()
        self._connections: list[Connection] = []
        self._be_new()

    def accept(self) -> Connection:
        """A shim that has said who it is."""
        connection = Connection(self.listener.accept()[0])
        self._connections.append(connection)
        first = connection.hear()
        assert isinstance(first, dict)
        assert first["bye"] is True
        return connection

    def rename(self) -> None:
        """Be another process than before, as far as the lock tells."""
        lock_path().write_text(f"{next(self._numbers)}\n")

    def be_followed(self) -> None:
        """Die, and be the next daemon: a host that needs one sees no moment in which none is alive."""
        self._end()
        self._be_new()

    def die(self) -> None:
        """As the kernel ends it: nothing is removed."""
        self._end()
        self._lock.__exit__(None, None, None)

    def _be_new(self) -> None:
        self.rename()
        self.listener = bind_unix(socket_path())
        self.listener.settimeout(PATIENCE_S)

    def _end(self) -> None:
        self.listener.close()
        for connection in self._connections:
            connection.close()
        self._connections.clear()


class Shim:
    """A host's end. `first` is the hub it finds."""

    def __init__(self, directory: Path, env: dict[str, str], first: Hub) -> None:
        self.first = first
        self.started = directory / "started"
        daemon = ["/bin/sh", "-c", f"echo started > {self.started}; exit 1"]
        argv = [sys.executable, "-I", "-c", SHIM, *daemon]
        with (directory / "stderr").open("wb") as stderr:
            pipe = subprocess.PIPE
            self._popen = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=stderr, env=env)
        self._stderr = directory / "stderr"
        self._limit = threading.Timer(2 * PATIENCE_S, self._popen.kill)
        self._limit.start()

    def say(self, *messages: object) -> None:
        self.write(b"".join(map(encoded, messages)))

    def write(self, data: bytes) -> None:
        assert self._popen.stdin is not None
        meanwhile(self._put, data)

    def _put(self, data: bytes) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(data)
        self._popen.stdin.flush()

    def hear(self) -> object:
        line = self.read()
        return json.loads(line) if line else None

    def read(self) -> bytes:
        assert self._popen.stdout is not None
        return self._popen.stdout.readline()

    def read_bytes(self, size: int) -> bytes:
        assert self._popen.stdout is not None
        return self._popen.stdout.read(size)

    def leave(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.close()

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it has said to people."""
        return self._popen.wait(PATIENCE_S), self._stderr.read_text()

    def stop(self) -> None:
        self._limit.cancel()
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def hubs() -> Iterator[type[Hub]]:
    """Makes hubs; those that are left die at the end."""
    made: list[Hub] = []

    class Made(Hub):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    yield Made
    for hub in made:
        with contextlib.suppress(OSError):
            hub.die()


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hubs: type[Hub]) -> Iterator[Shim]:
    env = processes.own_directories(tmp_path)
    for name in ("HUBD_RUNTIME_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
        if name in env:
            monkeypatch.setenv(name, env[name])
    shim = Shim(tmp_path, env, hubs())
    yield shim
    shim.stop()


def introduced(shim, hub):
    """A connection on which a legacy host has been let in."""
    connection = hub.accept()
    shim.say(INITIALIZE)
    assert connection.hear() == INITIALIZE
    connection.say(WELCOME)
    assert shim.hear() == WELCOME
    shim.say(INITIALIZED)
    assert connection.hear() == INITIALIZED
    return connection


def reintroduced(hub):
    """The next connection of that host."""
    connection = hub.accept()
    assert connection.hear() == INITIALIZE
    connection.say(WELCOME)
    assert connection.hear() == INITIALIZED
    return connection


@pytest.mark.covers("F-H-22", "F-D-03")
def test_after_a_crash_the_conversation_goes_on(shim, hubs):
    connection = introduced(shim, shim.first)
    level, subscribe = request(1, "logging/setLevel", level="info"), request(2, "resources/subscribe", uri="a:b")
    for each in (level, subscribe):
        shim.say(each)
        assert connection.hear() == each
        connection.say(result(each["id"]))
        assert shim.hear() == result(each["id"])
    call, listing = request(3, "tools/call", name="t"), request(4, "tools/list")
    shim.say(call, listing)
    assert [connection.hear(), connection.hear()] == [call, listing]
    question = {"jsonrpc": "2.0", "id": "hub-1", "method": "roots/list"}
    connection.say(question)
    assert shim.hear() == question
    connection.close()

    withdrawn, error = shim.hear(), shim.hear()
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", "hub-1")
    assert (error["id"], error["error"]["code"]) == (3, -32603)
    assert error["error"]["data"] == {"hub": "upstream_lost", "executed": "unknown", "retryable": False}
    connection = reintroduced(shim.first)
    assert [connection.hear() for _ in range(3)] == [level, listing, subscribe]
    connection.say(result(1), result(2), result(4, tools=[]))
    assert shim.hear()["params"] == {"uri": "a:b"}
    assert shim.hear() == result(4, tools=[])
    shim.say(request(5, "ping"))
    assert connection.hear() == request(5, "ping")
    connection.say(result(5))
    assert shim.hear() == result(5)
    shim.leave()
    assert connection.hear() is None
    connection.close()
    assert shim.ended() == (0, "")


def test_a_new_hub_that_does_not_subscribe_at_once_is_asked_again(shim, hubs):
    connection = introduced(shim, shim.first)
    subscribe = request(2, "resources/subscribe", uri="a:b")
    shim.say(subscribe)
    assert connection.hear() == subscribe
    connection.say(result(2))
    assert shim.hear() == result(2)
    connection.close()
    connection = reintroduced(shim.first)
    for _ in range(2):
        assert connection.hear() == subscribe
        connection.say({"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "It is not there yet"}})
        assert shim.hear()["params"] == {"uri": "a:b"}
    assert connection.hear() == subscribe
    connection.say(result(2))
    assert shim.hear()["params"] == {"uri": "a:b"}
    shim.say(request(3, "ping"))
    assert connection.hear() == request(3, "ping")
    connection.close()


def test_what_no_hub_has_got_is_for_the_next_one(shim, hubs):
    """Also a call: it cannot have been carried out."""
    connection = introduced(shim, shim.first)
    shim.first.be_followed()
    call = request(3, "tools/call", name="t")
    shim.say(call)
    connection = reintroduced(shim.first)
    assert connection.hear() == call


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_half_a_line_of_the_host_goes_to_the_next_hub_whole(shim, hubs, size):
    connection = introduced(shim, shim.first)
    call = encoded(request(3, "tools/call", text="x" * size))
    shim.write(call[: -size // 2])
    received = 0
    while received < len(call) - (size + 1) // 2:
        received += len(connection.link.recv(1 << 20))
    connection.close()
    connection = reintroduced(shim.first)
    shim.write(call[-size // 2 :])
    assert connection.hear() == json.loads(call)
    connection.say(result(3))
    assert shim.hear() == result(3)


def test_half_a_line_of_the_hub_is_kept_from_the_host(shim, hubs):
    connection = introduced(shim, shim.first)
    shim.say(request(3, "resources/read", uri="a:b"))
    assert connection.hear()
    answer = encoded(result(3, text="x" * 500_000))
    connection.link.sendall(answer[:-1000])
    connection.close()
    connection = reintroduced(shim.first)
    assert connection.hear() == request(3, "resources/read", uri="a:b")
    connection.write(answer)
    assert shim.read() == answer


def test_half_a_very_long_line_is_ended(shim, hubs):
    """Its beginning has passed already. Hosts skip a line that they cannot read."""
    connection = introduced(shim, shim.first)
    shim.say(request(3, "tools/call", name="t"))
    assert connection.hear()
    answer = encoded(result(3, text="x" * 5_000_000))
    connection.write(answer[:-1000])
    seen = shim.read_bytes(4_000_000)
    connection.close()
    half = seen + shim.read()
    assert answer.startswith(half[:-1])
    error = shim.hear()
    assert (error["id"], error["error"]["data"]["executed"]) == (3, "unknown")
    connection = reintroduced(shim.first)
    shim.say(request(4, "ping"))
    assert connection.hear() == request(4, "ping")


def test_long_lines_pass_as_they_are(shim, hubs):
    connection = introduced(shim, shim.first)
    for id, size in enumerate([60_000, 70_000, 300_000, 1_100_000, 9_000_000], 3):
        call = request(id, "tools/call", text="é" * (size // 6))
        shim.say(call)
        assert connection.hear() == call
        answer = encoded(result(id, text="x" * size))
        connection.write(answer + encoded({"jsonrpc": "2.0", "method": "notifications/message"}))
        assert shim.read() == answer
        assert shim.hear()["method"] == "notifications/message"
    connection.close()
    reintroduced(shim.first)
    shim.say(request(100, "ping"))
    shim.leave()


# --- a hub that stops in order ----------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-22", "F-D-01")
def test_a_hub_that_stops_gets_nothing_new_and_is_not_started_by_its_shims(shim, hubs):
    connection = introduced(shim, shim.first)
    call = request(3, "tools/call", name="t")
    shim.say(call)
    assert connection.hear() == call
    connection.say(BYE)
    assert connection.hear() == UNDERSTOOD
    shim.say(request(4, "tools/call", name="later"))
    connection.say(result(3))
    assert shim.hear() == result(3)
    connection.link.setblocking(False)
    with pytest.raises(BlockingIOError):
        connection.link.recv(100)
    shim.first.be_followed()
    connection = reintroduced(shim.first)
    assert connection.hear() == request(4, "tools/call", name="later")
    assert not shim.started.exists()


def test_a_shim_waits_quietly_for_the_next_hub(shim, hubs):
    connection = introduced(shim, shim.first)
    connection.say(BYE)
    assert connection.hear() == UNDERSTOOD
    shim.first.listener.close()
    connection.close()
    shim.first.die()
    reintroduced(hubs())
    assert not shim.started.exists()


def test_a_host_that_needs_the_hub_has_it_started(shim, hubs):
    connection = introduced(shim, shim.first)
    connection.say(BYE)
    assert connection.hear() == UNDERSTOOD
    shim.first.die()
    shim.say(request(4, "tools/list"))
    code, said = shim.ended()
    assert code == 69
    assert "the hub did not start" in said
    assert shim.started.exists()


def test_the_directory_of_the_sockets_may_go_away_meanwhile(shim, hubs):
    """As that of a user who logs out does."""
    connection = introduced(shim, shim.first)
    connection.say(BYE)
    assert connection.hear() == UNDERSTOOD
    shutil.rmtree(socket_path().parent)
    shim.first.die()
    shim.say(request(4, "tools/list"))
    assert shim.ended()[0] == 69
    assert shim.started.exists()
    assert socket_path().parent.is_dir()


def test_a_host_may_leave_while_a_new_hub_says_nothing(shim, hubs):
    introduced(shim, shim.first).close()
    assert shim.first.accept().hear() == INITIALIZE
    shim.leave()
    assert shim.ended() == (0, "")


def test_stops_in_order_are_not_counted(shim, hubs):
    connection = introduced(shim, shim.first)
    for _ in range(8):
        connection.say(BYE)
        assert connection.hear() == UNDERSTOOD
        shim.first.rename()
        connection.close()
        connection = reintroduced(shim.first)
    shim.leave()
    connection.close()
    assert shim.ended() == (0, "")


def test_a_host_may_leave_while_there_is_no_hub(shim, hubs):
    connection = introduced(shim, shim.first)
    connection.say(BYE)
    assert connection.hear() == UNDERSTOOD
    shim.first.die()
    shim.leave()
    assert shim.ended() == (0, "")
    assert not shim.started.exists()


def test_a_hub_that_stops_hears_what_it_has_asked_for(shim, hubs):
    connection = introduced(shim, shim.first)
    shim.say(request(3, "tools/call", name="t"))
    assert connection.hear()
    question = {"jsonrpc": "2.0", "id": "hub-1", "method": "roots/list"}
    connection.say(question, BYE)
    assert shim.hear() == question
    shim.say(result("hub-1", roots=[]))
    assert connection.hear() == result("hub-1", roots=[])
    assert connection.hear() == UNDERSTOOD


@pytest.mark.covers("F-D-01")
def test_calls_that_a_stopping_hub_cuts_off_are_answered(shim, hubs):
    connection = introduced(shim, shim.first)
    shim.say(request(3, "tools/call", name="t"))
    assert connection.hear()
    connection.say(BYE)
    assert connection.hear() == UNDERSTOOD
    shim.first.die()
    assert shim.hear()["error"]["data"] == {"hub": "draining", "executed": "unknown", "retryable": False}


def test_a_goodbye_waits_for_the_end_of_a_line(shim, hubs):
    connection = introduced(shim, shim.first)
    shim.write(b'{"jsonrpc":"2.0",')
    assert connection.link.recv(100) == b'{"jsonrpc":"2.0",'
    connection.say(BYE)
    shim.write(b'"id":1,"method":"ping"}\n')
    assert connection.read() == b'"id":1,"method":"ping"}\n'
    assert connection.hear() == UNDERSTOOD


# --- no way on --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-22")
def test_a_hub_that_goes_away_again_and_again_is_given_up(shim, hubs):
    connection = introduced(shim, shim.first)
    shim.say(request(3, "tools/list"))
    assert connection.hear()
    connection.close()
    for _ in range(5):
        shim.first.accept().close()
    assert shim.hear()["id"] == 3
    code, said = shim.ended()
    assert code == 75
    assert "went away 6 times in a minute" in said


def test_a_hub_that_serves_in_between_is_not_given_up(shim, hubs):
    connection = introduced(shim, shim.first)
    for id in range(1, 10):
        shim.say(request(id, "ping"))
        assert connection.hear() == request(id, "ping")
        connection.say(result(id))
        assert shim.hear() == result(id)
        connection.close()
        connection = reintroduced(shim.first)
    shim.leave()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"jsonrpc": "2.0", "error": {"code": -32602, "message": "There is no upstream x"}}, "There is no upstream x"),
        ({"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "unknown"}}, "unknown"),
        (
            {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "1999-01-01"}},
            "does not speak revision 2025-11-25",
        ),
    ],
)
def test_a_new_hub_that_does_not_take_the_host_ends_the_shim(shim, hubs, answer, expected):
    introduced(shim, shim.first).close()
    connection = shim.first.accept()
    connection.say(answer)
    connection.close()
    code, said = shim.ended()
    assert code == 69
    assert expected in said
    assert shim.read() == b""


def test_a_refusal_is_passed_on_and_ends_the_shim(shim, hubs):
    refusal = {"jsonrpc": "2.0", "error": {"code": -32602, "message": "too many"}}
    connection = Connection(shim.first.listener.accept()[0])
    connection.say(refusal)
    connection.close()
    assert shim.hear() == refusal
    assert shim.ended() == (69, "hubd connect: the hub refused this host: too many\n")


def test_a_refusal_is_a_failure_if_the_host_has_left_too(shim, hubs):
    refusal = {"jsonrpc": "2.0", "error": {"code": -32602, "message": "no such profile"}}
    connection = Connection(shim.first.listener.accept()[0])
    assert connection.hear()["hubd"] == 1
    shim.leave()
    assert connection.hear() is None
    connection.say(refusal)
    connection.close()
    assert shim.hear() == refusal
    assert shim.ended() == (69, "hubd connect: the hub refused this host: no such profile\n")


@pytest.mark.parametrize("code", [-32700, -32600])
def test_a_complaint_about_the_first_line_is_no_refusal(shim, hubs, code):
    complaint = {"jsonrpc": "2.0", "error": {"code": code, "message": "Not JSON"}}
    connection = Connection(shim.first.listener.accept()[0])
    assert connection.hear()["hubd"] == 1
    connection.say(complaint)
    assert shim.hear() == complaint
    shim.leave()
    assert connection.hear() is None
    connection.close()
    assert shim.ended() == (0, "")


def test_requests_of_a_host_that_is_refused_are_answered_with_the_reason(shim, hubs):
    connection = Connection(shim.first.listener.accept()[0])
    shim.say(request(3, "tools/call"))
    assert connection.hear()["hubd"] == 1
    assert connection.hear() == request(3, "tools/call")
    refusal = {"jsonrpc": "2.0", "error": {"code": -32602, "message": 'too "many"'}}
    connection.say(refusal)
    connection.close()
    answer = shim.hear()
    assert answer["id"] == 3
    assert answer["error"]["message"] == 'The hub refused this host: too "many"'
    assert answer["error"]["data"] == {"hub": "upstream_unavailable", "executed": "no", "retryable": False}
    assert shim.ended() == (69, 'hubd connect: the hub refused this host: too "many"\n')


def test_a_line_that_no_hub_takes_ends_the_shim(shim, hubs):
    """It is not kept, so it cannot be sent again."""
    connection = introduced(shim, shim.first)
    size = 17 << 20
    shim.write(b'"' + b"x" * size)
    received = 0
    while received <= size:
        received += len(connection.link.recv(1 << 20))
    connection.close()
    code, said = shim.ended()
    assert code == 69
    assert "the hub closed the connection" in said
