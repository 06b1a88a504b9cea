"""Hosts that read resources through a real hub, and upstreams whose reads are counted."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.real.tcp_relay import TcpRelay
from tests.support.attached import INITIALIZE

READ = b'"resources/read"'
META = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}


def counted_in_lines(record: Path) -> Callable[[], int]:
    """The number of reads by the hub so far, from a record of tee.py."""

    def count() -> int:
        lines = record.read_bytes().split(b"\n")
        return sum(READ in line and line.split(b" ", 2)[1] == b">" for line in lines)

    return count


def counted_in_pieces(relay: TcpRelay) -> Callable[[], int]:
    """The number of reads by the hub so far, from the traffic of a relay."""

    def count() -> int:
        numbers = {piece.connection for piece in relay.pieces}
        said = [
            b"".join(piece.data for piece in relay.pieces if piece.connection == number and piece.from_client)
            for number in numbers
        ]
        return sum(text.count(READ) for text in said)

    return count


class Reader:
    """A program on the unix socket, at the endpoint of one upstream; `run` reads its answers.

    It speaks the legacy era; `ask(..., modern=True)` sends a modern request.
    """

    def __init__(self, hub: Any, upstream: str) -> None:
        self._path = f"{hub.env['XDG_RUNTIME_DIR']}/hubd/hubd.sock"
        self._upstream = upstream
        self._answers: dict[int, tuple[trio.Event, list[dict[str, Any]]]] = {}
        self._told, self.told = trio.open_memory_channel[str](1000)
        """The URIs in notifications of changes."""
        self._sending = trio.Lock()
        self._stream: trio.SocketStream

    async def run(self, *, task_status: trio.TaskStatus["Reader"]) -> None:
        async with await trio.open_unix_socket(self._path) as self._stream, trio.open_nursery() as nursery:
            await self._send({"hubd": 1, "upstream": self._upstream})
            nursery.start_soon(self._listen)
            await self.ask("initialize", **INITIALIZE)
            await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            task_status.started(self)

    async def ask(self, method: str, *, modern: bool = False, **params: Any) -> Any:
        """Send a request and return its result; an error fails the test."""
        id = len(self._answers)
        done, found = self._answers[id] = (trio.Event(), [])
        more = {"_meta": META} if modern else {}
        await self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, **more}})
        with trio.fail_after(60):
            await done.wait()
        assert "result" in found[0], found[0]
        return found[0]["result"]

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        result = await self.ask("resources/read", uri=uri)
        return result["contents"][0]["text"]

    async def read_many(self, uri: str, times: int, at_once: int) -> set[str]:
        """Read a resource many times; returns all texts."""
        texts: set[str] = set()
        room = trio.CapacityLimiter(at_once)

        async def one() -> None:
            async with room:
                texts.add(await self.read(uri))

        async with trio.open_nursery() as nursery:
            for _ in range(times):
                nursery.start_soon(one)
        return texts

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.ask("tools/call", name=tool, arguments=arguments)

    def forget(self) -> None:
        """Forget all notifications so far."""
        with contextlib.suppress(trio.WouldBlock):
            while True:
                self.told.receive_nowait()

    async def heard_of(self, uri: str) -> None:
        """Wait for a notification that this resource changed."""
        with trio.fail_after(30):
            while await self.told.receive() != uri:
                pass

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            await self._stream.send_all(json.dumps(message).encode() + b"\n")

    async def _listen(self) -> None:
        rest = b""
        while data := await self._stream.receive_some(1 << 18):
            *lines, rest = (rest + data).split(b"\n")
            for message in map(json.loads, lines):
                if message.get("method") == "notifications/resources/updated":
                    self._told.send_nowait(message["params"]["uri"])
                elif "method" not in message and "id" in message:
                    done, found = self._answers[message["id"]]
                    found.append(message)
                    done.set()
