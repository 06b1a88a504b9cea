"""The accept loop, over real unix sockets."""

import contextlib
import errno
import json
import logging
import os
import resource
import socket
import stat
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from config.errors import ConfigError
from hub.linux.socket_peers import peer_uid
from hub.net.acceptor import Acceptor, AlreadyRunning, await_removal, bind_unix, share_of_descriptors, take_lock


async def echo(stream):
    async for data in stream:
        if data == b"crash":
            raise RuntimeError("canary")
        await stream.send_all(data)


class Exhausted:
    """A listener out of descriptors for a while."""

    def __init__(self, listener):
        self.listener = listener
        self.socket = listener.socket
        self.failures = 20

    async def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self.listener.accept()


@asynccontextmanager
async def serving(path, *, most=3, wrap=lambda listener: listener):
    """An acceptor of echoes, and how to connect to it."""
    acceptor = Acceptor("echoes", most)
    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bind_unix(path)))
        nursery.start_soon(acceptor.serve, wrap(listener), echo, nursery)
        with trio.fail_after(30):
            yield acceptor, partial(trio.open_unix_socket, str(path))
        nursery.cancel_scope.cancel()
    assert acceptor.connections == 0
    assert listener.socket.fileno() == -1


async def ask(client, data):
    await client.send_all(data)
    return await client.receive_some(4096)


@pytest.mark.covers("M-07", "F-D-07")
async def test_a_lack_of_descriptors_is_waited_for_and_said_once(tmp_path, autojump_clock, caplog):
    async with serving(tmp_path / "s", wrap=Exhausted) as (acceptor, connect), await connect() as client:
        assert await ask(client, b"x") == b"x"
        assert acceptor.failures == 20
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "cannot accept echoes: Too many open files" in caplog.text


@pytest.mark.covers("SEC-16")
async def test_a_connection_that_goes_wrong_ends_alone(tmp_path, caplog):
    async with serving(tmp_path / "s") as (_, connect), await connect() as good, await connect() as bad:
        assert await ask(good, b"x") == b"x"
        assert await ask(bad, b"crash") == b""
        assert await ask(good, b"y") == b"y"
    assert "one of the echoes failed" in caplog.text
    assert "canary" in caplog.text


async def test_one_too_many_is_told_and_there_is_room_again_later(tmp_path, caplog):
    async with serving(tmp_path / "s", most=1) as (acceptor, connect):
        async with await connect() as first:
            assert await ask(first, b"x") == b"x"
            for _ in range(5):
                async with await connect():
                    pass  # gone before it can be told
                async with await connect() as second:
                    refusal = json.loads(await second.receive_some(4096))
                    assert "at most 1 echoes" in refusal["error"]["message"]
                    assert await second.receive_some(1) == b""
        assert [record.levelno for record in caplog.records] == [logging.WARNING], "once a minute, no traceback"
        while acceptor.connections:
            await trio.lowlevel.checkpoint()
        async with await connect() as third:
            assert await ask(third, b"x") == b"x"


async def test_closing_the_listener_ends_accepting_and_keeps_connections(tmp_path):
    acceptor = Acceptor("echoes", 3)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(bind_unix(tmp_path / "s")))
    with trio.fail_after(30):
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(acceptor.serve, listener, echo, connections)
                client = await trio.open_unix_socket(str(tmp_path / "s"))
                assert await ask(client, b"x") == b"x"
                listener.socket.close()
            assert await ask(client, b"y") == b"y"
            await client.aclose()


def test_a_share_of_descriptors(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1000, 4000))
    assert share_of_descriptors(4) == 250
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, 4000))
    assert share_of_descriptors(4) > 1000


@pytest.mark.covers("F-D-09")
def test_the_second_one_is_told_who_has_the_lock(tmp_path):
    path = tmp_path / "hubd.lock"
    with (
        take_lock(path),
        pytest.raises(AlreadyRunning, match=rf"already running \(process {os.getpid()}\); `hubd stop`"),
        take_lock(path),
    ):
        pass
    assert path.stat().st_mode & 0o777 == 0o600
    with take_lock(path):
        assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.covers("F-D-09")
def test_of_many_processes_one_gets_the_lock(tmp_path):
    code = """if True:
        import sys; from pathlib import Path; from hub.net.acceptor import AlreadyRunning, take_lock
        try:
            with take_lock(Path(sys.argv[1])):
                print("mine", flush=True)
                sys.stdin.read()
        except AlreadyRunning as error:
            print(error, flush=True)
    """
    pipe = subprocess.PIPE
    argv = [sys.executable, "-I", "-c", code, str(tmp_path / "lock")]
    racers = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    said = [racer.stdout.readline().strip() for racer in racers]
    for racer in racers:
        racer.communicate(timeout=30)
    [winner] = [racer.pid for racer, line in zip(racers, said, strict=True) if line == "mine"]
    assert sum(f"(process {winner})" in line for line in said) == 5


@pytest.mark.covers("F-D-09")
def test_a_dead_holder_s_lock_is_free(tmp_path):
    path = tmp_path / "lock"
    code = "import os, sys; from pathlib import Path; from hub.net.acceptor import take_lock; "
    subprocess.run(
        [sys.executable, "-I", "-c", code + "take_lock(Path(sys.argv[1])).__enter__(); os._exit(9)", str(path)],
        check=False,
    )
    with take_lock(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_is_not_made_through_a_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot make the lock"):
        take_lock(tmp_path / "lock").__enter__()


@pytest.mark.covers("SEC-04")
def test_a_socket_is_private_whatever_the_umask(tmp_path):
    path = tmp_path / "s"
    before = os.umask(0)
    try:
        listener = bind_unix(path)
    finally:
        os.umask(before)
    with listener:
        assert path.stat().st_mode & 0o777 == 0o600
        assert listener.getblocking() is False
        assert os.listdir(tmp_path) == ["s"], "the draft is gone"
        assert os.get_inheritable(listener.fileno()) is False


@pytest.mark.covers("F-D-10")
def test_a_stale_socket_is_replaced(tmp_path):
    path = tmp_path / "s"
    bind_unix(path).close()
    assert stat.S_ISSOCK(path.stat().st_mode)
    with bind_unix(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


@pytest.mark.covers("F-D-10")
def test_a_living_socket_is_left_alone(tmp_path):
    path = tmp_path / "s"
    with bind_unix(path):
        inode = path.stat().st_ino
        with pytest.raises(AlreadyRunning, match="already listens on"):
            bind_unix(path)
        assert path.stat().st_ino == inode


@pytest.mark.covers("F-D-10")
@pytest.mark.parametrize("there", ["file", "directory", "link to a socket", "dangling link", "fifo"])
def test_anything_else_is_refused_and_left_alone(tmp_path, there):
    path = tmp_path / "s"
    match there:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "link to a socket":
            bind_unix(tmp_path / "other").close()
            path.symlink_to(tmp_path / "other")
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "fifo":
            os.mkfifo(path)
    before = path.lstat()
    with pytest.raises(ConfigError, match="is not a socket: move it away"):
        bind_unix(path)
    assert path.lstat().st_ino == before.st_ino


def test_a_missing_directory_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot make the socket .*: No such file"):
        bind_unix(tmp_path / "absent" / "s")


@pytest.mark.covers("SEC-04")
async def test_the_kernel_says_who_connects(tmp_path: Path):
    path = tmp_path / "s"
    with bind_unix(path) as listener:
        async with await trio.open_unix_socket(str(path)) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert peer_uid(accepted) == peer_uid(client.socket) == os.getuid()


@pytest.mark.covers("F-D-03")
@pytest.mark.parametrize("how", [Path.unlink, lambda path: path.with_name("new").replace(path)], ids=["gone", "other"])
async def test_a_hub_whose_files_are_removed_makes_way(autojump_clock, tmp_path, caplog, how):
    own = [tmp_path / name for name in ("hubd.lock", "hubd.sock", "new")]
    for path in own:
        path.touch()
    gone = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(await_removal, own[:2], gone.set)
        await trio.sleep(1000)
        assert not gone.is_set()
        with contextlib.ExitStack() as stack:
            stack.enter_context(own[1].open())
            how(own[1])
            with trio.fail_after(20):
                await gone.wait()
    assert "hubd.sock was removed" in caplog.text
