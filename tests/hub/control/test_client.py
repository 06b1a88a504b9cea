"""The control client against whatever listens at its socket: other versions, other users, and nonsense."""

import fcntl
import itertools
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import ValidationError

from hub.cli import main as command
from hub.cli.render.status import status as shown
from hub.control.answers import Status
from hub.control.client import PIECE_BYTES, ControlClient
from hub.control.client_errors import ControlFailed, HubNotRunning, NotUnderstood
from hub.control.methods import CACHE, CACHE_CLEAR, LOGS, RELOAD, RESTART, STATUS, TOOLS, Method, Nothing, read
from hub.daemon.bind_unix import bind_unix
from hub.shim import start_daemon

NONSENSE = {
    "no JSON": b"not json\n",
    "no object": b"[]\n",
    "no result": b'{"id":1}\n',
    "null": b'{"id":1,"result":null}\n',
    "other type": b'{"id":1,"result":[5]}\n',
    "text as error": b'{"error":"x"}\n',
    "no message": b'{"error":{"code":1}}\n',
    "deep": b"[" * 100_000 + b"\n",
    "5000 digits": b'{"id":1,"result":' + b"9" * 5000 + b"}\n",
    "no UTF-8": b"\xff\xfe\n",
}
METHODS = {
    **{
        each.name: lambda client, each=each: client.request(each)
        for each in (STATUS, TOOLS, CACHE, RELOAD, CACHE_CLEAR)
    },
    "restart": lambda client: client.request(RESTART, name="x"),
    "logs": lambda client: client.request(LOGS, name="x"),
    "follow": lambda client: list(client.follow("x", 1)),
    "stop": ControlClient.stop,
}


@contextmanager
def answering(path: Path, *pieces: bytes, stays: bool = False) -> Iterator[list[int]]:
    """Somebody who says the same to everyone who asks, piece by piece as long as it is taken; the sizes of those.

    `stays`: and who then waits for the other to hang up.
    """
    taken: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    for piece in pieces or itertools.repeat(b"a" * 65536):
                        connection.sendall(piece)
                        taken.append(len(piece))
                    while stays and connection.recv(65536):
                        pass
                except OSError:
                    continue

    with bind_unix(path) as listener:
        listener.setblocking(True)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield taken
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.covers("SEC-16")
@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_one_sentence(tmp_path, answer):
    with answering(tmp_path / "c", answer, b'{"id":2,"result":{}}\n', stays=True):
        for method in METHODS.values():
            with ControlClient(tmp_path / "c") as client:
                with pytest.raises(NotUnderstood, match=r"answer to `\w+` is not .*another version\? Run `hubd stop`"):
                    method(client)
                assert client.request(RESTART, name="x") == Nothing(), "the next answer is read as usual"


@pytest.mark.covers("SEC-16")
def test_the_part_that_does_not_fit_is_named(tmp_path):
    with (
        answering(tmp_path / "c", b'{"id":1,"result":{"upstreams":[{"name":"a"},{"name":5}]}}\n'),
        ControlClient(tmp_path / "c") as client,
        pytest.raises(NotUnderstood, match=r"result.upstreams.*name"),
    ):
        client.request(STATUS)


def test_what_is_missing_or_null_or_unknown_fits():
    status = {"hosts": None, "new": [{}], "upstreams": [{"restarts": None, "new": 1}], "config": {"problem": None}}
    assert "no hosts attached" in shown(read(STATUS, status))
    with pytest.raises(ValidationError, match="summary"):
        read(RELOAD, {})


@pytest.mark.covers("SEC-16", "I-5")
def test_an_answer_has_a_size(tmp_path, monkeypatch):
    with answering(tmp_path / "c") as taken, ControlClient(tmp_path / "c") as client:
        with pytest.raises(NotUnderstood, match="larger than 1 MiB"):
            client.request(Method("status", Status, max_bytes=1 << 20))
        buffers = 1 << 20  # of the socket, at most
        assert sum(taken) <= (1 << 20) + PIECE_BYTES + buffers


@pytest.mark.covers("SEC-16")
@pytest.mark.parametrize(("patience_s", "said_s"), [(None, 30), (2.0, 2)])
def test_a_few_bytes_now_and_then_prolong_nothing(tmp_path, monkeypatch, patience_s, said_s):
    seconds = itertools.count()
    monkeypatch.setattr("hub.control.client.now_s", lambda: next(seconds) / 4)
    with (
        answering(tmp_path / "c"),
        ControlClient(tmp_path / "c", patience_s) as client,
        pytest.raises(ControlFailed, match=f"did not answer within {said_s} s"),
    ):
        client.request(STATUS)
    assert next(seconds) / 4 < said_s + 2


def test_several_lines_in_one_piece(tmp_path):
    first = {"id": 1, "result": {"records": [{"at": 1, "text": "a"}]}}
    more = {"method": "logs", "params": {"lost": 2, "records": [{"at": 2, "text": "b"}]}}
    said = b"".join(json.dumps(each).encode() + b"\n" for each in (first, more, more | {"params": {"lost": "x"}}))
    with answering(tmp_path / "c", said), ControlClient(tmp_path / "c") as client:
        records = client.follow("x", 1)
        assert [next(records)["text"] for _ in range(3)] == ["a", "2 records were lost: too slow a reader", "b"]
        with pytest.raises(NotUnderstood, match=r"params\.lost"):
            next(records)


# --- other users ------------------------------------------------------------------------------------------------------


@pytest.fixture
def stranger(monkeypatch):
    """Whoever listens is another user."""
    monkeypatch.setattr("hub.linux.peer_credentials.peer_uid", lambda sock: os.geteuid() + 1)


@pytest.mark.covers("SEC-02", "SEC-08")
def test_another_user_is_told_nothing(tmp_path, stranger):
    path = tmp_path / "hubd.sock"
    with bind_unix(path):
        with pytest.raises(HubNotRunning, match=rf"another user \(uid {os.geteuid() + 1}\) listens on {path}"):
            ControlClient(path)
        with pytest.raises(start_daemon.Unavailable, match=r"another user .* HUBD_RUNTIME_DIR"):
            start_daemon.connect(str(path))
        with (tmp_path / "hubd.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert start_daemon.connect_if_alive(str(tmp_path), b"someone") is None


def test_the_manager_of_services_may_be_root(tmp_path, monkeypatch):
    monkeypatch.setattr("hub.linux.peer_credentials.peer_uid", lambda sock: 0)
    with bind_unix(tmp_path / "s"):
        ControlClient(tmp_path / "s").__exit__(None, None, None)


@pytest.mark.covers("SEC-02", "SEC-62")
def test_looking_whether_a_hub_lives_makes_nothing_and_follows_no_link(tmp_path, monkeypatch):
    life = tmp_path / "hubd.lock"
    assert not start_daemon.is_alive(str(life))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "other").touch()
    life.symlink_to("other")
    with pytest.raises(OSError, match=r"hubd\.lock"):
        start_daemon.is_alive(str(life))
    assert start_daemon.lock_owner(str(tmp_path)) == b""
    life.unlink()
    life.touch()
    assert not start_daemon.is_alive(str(life))
    uid = os.geteuid()
    monkeypatch.setattr("hub.shim.start_daemon.os.geteuid", lambda: uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        start_daemon.is_alive(str(life))


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def control(tmp_path, monkeypatch) -> Path:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(directory))
    return directory / "control.sock"


@pytest.mark.covers("SEC-16")
@pytest.mark.parametrize("words", ["status", "cache", "cache clear", "reload", "restart x", "logs x", "stop"])
def test_commands_tell_it_in_one_line(control, capsys, words):
    with answering(control, b"[]\n"):
        assert command.main(words.split()) == 70
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("hubd: the hub's answer to `")
    assert said.err.count("\n") == 1


@pytest.mark.covers("SEC-16")
def test_what_nobody_expected_is_told_in_one_line(control, capsys):
    far = b'{"id":1,"result":{"records":[{"at":1e300}]}}\n'  # of the right shape, and no time
    with answering(control, far):
        assert command.main(["logs", "x"]) == 70
    said = capsys.readouterr()
    assert "OverflowError" in said.err
    assert "logs_command.py, line" in said.err
    assert said.err.count("\n") == 1
