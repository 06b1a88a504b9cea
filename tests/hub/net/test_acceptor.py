"""The accept loop, over real unix sockets."""

import errno
import json
import logging
import resource
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from hub.daemon.bind_unix import bind_unix
from hub.net.acceptor import Acceptor, share_of_descriptors


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
