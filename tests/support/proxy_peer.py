"""A scripted HTTP proxy on loopback: it tunnels (CONNECT) and forwards (absolute form), and records what it was told.

Where a tunnel or request leads is the test's: `routes` has the port for each authority, since names of tests exist
nowhere. What a proxy does not know it refuses with `status`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from hub.wire.mcp import HUB_NAME


@dataclass
class ProxyPeer:
    """The running proxy."""

    port: int = 0
    routes: dict[str, int] = field(default_factory=dict)
    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
    heads: list[str] = field(default_factory=list)
    """Every head that a client of the proxy sent to the proxy itself."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[str]:
        """The request lines."""
        return [head.split("\r\n")[0] for head in self.heads]

    async def serve(self, stream: trio.SocketStream) -> None:
        try:
            data = b""
            while b"\r\n\r\n" not in data:
                more = await stream.receive_some()
                if not more:
                    return
                data += more
            head, _, rest = data.partition(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            method, target, _ = head.split(b"\r\n")[0].split(b" ")
            await (self._tunnel if method == b"CONNECT" else self._forward)(stream, target.decode(), data, rest)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _tunnel(self, stream: trio.SocketStream, target: str, data: bytes, rest: bytes) -> None:
        assert not rest, "a client waits for its tunnel"
        await stream.send_all(self.answer)
        if b" 200 " in self.answer:
            async with await trio.open_tcp_stream("127.0.0.1", self.routes[target]) as far:
                await _both_ways(stream, far)

    async def _forward(self, stream: trio.SocketStream, target: str, data: bytes, rest: bytes) -> None:
        """One connection of a client to one server, as the hub uses them; later heads are recorded by their lines."""
        if b" 200 " not in self.answer:
            await stream.send_all(self.answer)
            return
        origin = target.removeprefix("http://").split("/")[0]
        async with await trio.open_tcp_stream("127.0.0.1", self.routes[origin]) as far:
            await far.send_all(_origin_form(data, origin))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_copy, far, stream, nursery.cancel_scope)
                async for more in stream:
                    if HUB_NAME.encode() in more:
                        self.heads.append(more.partition(b"\r\n\r\n")[0].decode("latin-1"))
                    await far.send_all(_origin_form(bytes(more), origin))
                nursery.cancel_scope.cancel()


def _origin_form(data: bytes, origin: str) -> bytes:
    """The bytes as the server gets them: without its origin, and without what is meant for the proxy."""
    head, gap, rest = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"proxy-authorization:")]
    lines[0] = lines[0].replace(f"http://{origin}".encode(), b"", 1)
    return b"\r\n".join(lines) + gap + rest


async def _both_ways(one: trio.SocketStream, other: trio.SocketStream) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_copy, one, other, nursery.cancel_scope)
        nursery.start_soon(_copy, other, one, nursery.cancel_scope)


async def _copy(source: trio.SocketStream, sink: trio.SocketStream, ended: trio.CancelScope) -> None:
    try:
        async for data in source:
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    ended.cancel()


@asynccontextmanager
async def proxy_peer(answer: bytes = ProxyPeer.answer, **routes: int) -> AsyncIterator[ProxyPeer]:
    """Run a proxy on a port the kernel chooses, until the block ends."""
    proxy = ProxyPeer(answer=answer)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        yield proxy
        nursery.cancel_scope.cancel()
