"""A store server in memory that says whatever it is told to: without sockets, on the test's own clock.

server = Scripted(monkeypatch)          # links are made to it from now on
server.answers[b"TIME"] = b"*2\\r\\n,inf\\r\\n,0\\r\\n"
server.answers.clear()                  # it is honest again
"""

from contextlib import suppress
from typing import Any

import trio
import trio.testing
from anyio import EndOfStream
from anyio.abc import ByteStream

from cache.redis import connection_pair

INVALIDATE, LOOK, FIND, SWAP = b"UNLINK", b"HMGET", b"STRLEN", b"SET'"


class End(ByteStream):
    """The hub's end of a connection, as anyio has it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.received = 0
        """Bytes that the hub has read."""

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        data = await self._stream.receive_some(max_bytes)
        if not data:
            raise EndOfStream
        self.received += len(data)
        return bytes(data)

    async def send(self, item: bytes) -> None:
        await self._stream.send_all(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Scripted:
    """`answers`: by a command, or by a word in its script; b"" is none. `then`: what is sent behind an answer."""

    def __init__(self, monkeypatch: Any, nursery: trio.Nursery) -> None:
        self.answers: dict[bytes, bytes] = {}
        self.then: dict[bytes, bytes] = {}
        self.kept: dict[bytes, bytes] = {}
        self.ends: list[End] = []
        """The hub's ends of all connections, in pairs: one for commands, one that listens."""
        self._nursery = nursery
        self._hears: list[Any] = []
        monkeypatch.setattr(connection_pair, "open_stream", self._connect)

    @property
    def links(self) -> int:
        """Pairs of connections that were begun."""
        return (len(self.ends) + 1) // 2

    def say(self, said: bytes) -> None:
        """Send something to whoever listens."""
        for each in self._hears[-1:]:
            self._nursery.start_soon(self._tell, each, said)

    async def _connect(self, address: Any, context: Any) -> ByteStream:
        near, far = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._serve, far)
        self.ends.append(End(near))
        return self.ends[-1]

    async def _serve(self, stream: Any) -> None:
        try:
            buffer = b""
            while data := await stream.receive_some(1 << 20):
                buffer += bytes(data)
                while (found := _command(buffer)) is not None:
                    command, buffer = found
                    for said in self._answer(command, stream):
                        await stream.send_all(said)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    def _answer(self, command: list[bytes], stream: Any) -> list[bytes]:
        word = command[0]
        if word == b"EVAL":
            word = next(each for each in (INVALIDATE, LOOK, SWAP, FIND) if each in command[1])
        honest = getattr(self, f"_{word.strip(chr(39).encode()).lower().decode()}")
        said = [self.answers[word]] if word in self.answers else honest(command, stream)
        return [each for each in (*said, self.then.get(word, b"")) if each]

    def _hello(self, command: list[bytes], stream: Any) -> list[bytes]:
        return [b"%3\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n+id\r\n:1\r\n"]

    def _info(self, command: list[bytes], stream: Any) -> list[bytes]:
        return [bulk(b"role:master\r\nrun_id:" + b"a" * 40 + b"\r\n")]

    def _subscribe(self, command: list[bytes], stream: Any) -> list[bytes]:
        self._hears.append(stream)
        return [b">3\r\n" + bulk(b"subscribe") + bulk(command[1]) + b":1\r\n"]

    def _ping(self, command: list[bytes], stream: Any) -> list[bytes]:
        return [b"+PONG\r\n"]

    def _time(self, command: list[bytes], stream: Any) -> list[bytes]:
        return [b"*2\r\n" + bulk(self._now()[:10]) + bulk(self._now()[10:])]

    def _now(self) -> bytes:
        return b"%016d" % int(1.8e15 + trio.current_time() * 1e6)

    def _publish(self, command: list[bytes], stream: Any) -> list[bytes]:
        self.say(b">3\r\n" + bulk(b"message") + bulk(command[1]) + bulk(command[2]))
        return [b":1\r\n"]

    def _unlink(self, command: list[bytes], stream: Any) -> list[bytes]:
        return self._publish([b"PUBLISH", *command[4:6]], stream)

    async def _tell(self, stream: Any, said: bytes) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_all(said)

    def _hmget(self, command: list[bytes], stream: Any) -> list[bytes]:
        return [b"*5\r\n" + bulk(b"ab" * 20) + bulk(self._now()[:10]) + bulk(self._now()[10:]) + b"_\r\n_\r\n"]

    def _strlen(self, command: list[bytes], stream: Any) -> list[bytes]:
        return [bulk(self.kept[command[3]]) if command[3] in self.kept else b"_\r\n"]

    def _set(self, command: list[bytes], stream: Any) -> list[bytes]:
        if command[0] == b"SET":
            self.kept[command[1]] = command[2]
            return [b"+OK\r\n"]
        if self.kept.get(command[3], b"") != command[4]:
            return [b":0\r\n"]
        self.kept[command[3]] = command[5]
        return [b":1\r\n"]

    def _del(self, command: list[bytes], stream: Any) -> list[bytes]:
        self.kept.pop(command[1], None)
        return [b":1\r\n"]


def bulk(data: bytes) -> bytes:
    """A text, as it is sent."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def _command(buffer: bytes) -> tuple[list[bytes], bytes] | None:
    words: list[bytes] = []
    head, mark, rest = buffer.partition(b"\r\n")
    if not mark:
        return None
    for _ in range(int(head[1:])):
        size, mark, rest = rest.partition(b"\r\n")
        if not mark or len(rest) < int(size[1:]) + 2:
            return None
        words.append(rest[: int(size[1:])])
        rest = rest[int(size[1:]) + 2 :]
    return words, rest
