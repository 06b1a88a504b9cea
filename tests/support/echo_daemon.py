"""A daemon without a hub: the real lock, sockets and control server, and an echo in place of MCP.

    python echo_daemon.py STARTS      appends its pid to the file STARTS, then serves until it is stopped. It says
                                      `ready`, and `waiting` and `cancelled` of calls of the tool `wait`

The MCP socket echoes everything, the shim's first line after the word `hello`; at the end of the host's input it says
`bye`. With the command line it speaks as much MCP as tools need.
"""

import json
import os
import sys
from functools import partial

import trio
from msgspec import Raw

from config.hub_paths import control_path, lock_path, socket_path
from hub.control.answers import Cleared, Logs, Reloaded
from hub.control.server import serve_control
from hub.daemon.bind_unix import bind_unix, take_lock
from hub.link.hub_errors import Overloaded, UpstreamUnavailable
from hub.wire.jsonrpc import encode
from upstreams.journal.journal import Journals

TOOLS = [
    {
        "name": "demo__echo",
        "description": "Say it back\nand more",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}},
    },
    {"name": "demo__fail", "inputSchema": {"type": "object"}},
]


class Api:
    """In place of `hub.daemon.api.DaemonApi`."""

    def __init__(self) -> None:
        self.stopped = trio.Event()
        self.cancelled = trio.Event()
        self.journals = Journals(lambda: 1_800_000_000.5)
        self.journals["demo"].add("state", "connecting")
        self.journals["demo"].add("stderr", "it \\x1b[31mfell", 7)

    async def status(self) -> dict[str, object]:
        upstream = {
            "name": "demo",
            "state": "connected",
            "era": "modern",
            "version": "2026-07-28",
            "transport": "stdio",
            "counts": {"tools": 2, "prompts": 0, "resources": 1, "templates": 0},
            "last_error": "it \x1b[31mfell",
            "restarts": 1,
            "since_s": 240.0,
            "degraded": ["too many tools"],
        }
        return {"version": "1.2.3", "uptime_s": 300.0, "upstreams": [upstream], "hosts": [], "warnings": ["odd name"]}

    async def tools(self) -> list[object]:
        return [Raw(encode(tool)) for tool in TOOLS]

    async def cache(self) -> dict[str, object]:
        counts = {"hits": 3, "misses": 1, "coalesced": 0, "stale": 0, "stored": 1, "refused": 0}
        demo = {"name": "demo", "entries": 1, "bytes": 812, "counts": counts}
        whole = {"entries": 1, "bytes": 812, "max_entries": 10, "max_bytes": 1024, "counts": counts, "evicted": 0}
        ages = {"oldest_s": 5.0, "newest_s": 5.0, "flights": 0}
        return {"enabled": True, **whole, **ages, "invalidations": {}, "upstreams": [demo], "store": None}

    async def cache_clear(self, name: str | None = None) -> Cleared:
        if name not in (None, "demo"):
            raise UpstreamUnavailable(f"There is no server {name}; there are: demo")
        return Cleared(1)

    async def restart(self, name: str) -> None:
        if name == "crash":
            raise RuntimeError("canary")
        if name == "one-too-many":
            raise Overloaded("256 requests of this account are running already; wait for one to end")
        if name == "wait":
            await self.wait()
        if name != "demo":
            raise UpstreamUnavailable(f"There is no server {name}; there are: demo")

    async def wait(self) -> None:
        say("waiting")
        try:
            await trio.sleep_forever()
        finally:
            say("cancelled")
            self.cancelled.set()

    async def reload(self) -> Reloaded:
        return Reloaded(summary="nothing changed", pending=(), warnings=())

    async def logs(self, name: str | None = None, lines: int = 100, follow: bool = False):
        if name not in (None, "demo"):
            raise UpstreamUnavailable(f"There is no server {name}; there are: demo")
        journal = self.journals["demo"]
        with journal.follow() as follower:
            yield Logs(tuple(journal.tail(lines)))
            while follow:
                records, lost = await follower.next()
                yield Logs(tuple(records), lost)

    async def stop(self) -> None:
        self.stopped.set()


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


COMMAND_LINE = b'{"hubd": 1, "host": "hubd"}'


async def serve_lines(api: Api, stream: trio.SocketStream) -> None:
    async with stream:
        first = await stream.receive_some(65536)
        await (serve_tools(api, stream, first) if first.startswith(COMMAND_LINE) else echo(stream, first))


async def serve_tools(api: Api, stream: trio.SocketStream, received: bytes) -> None:
    async with trio.open_nursery() as nursery:
        while True:
            *lines, received = received.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message.get("method") == "notifications/cancelled":
                    nursery.cancel_scope.cancel()
                elif "id" in message:
                    nursery.start_soon(answer, api, stream, message)
            more = await stream.receive_some(65536)
            if not more:
                break
            received += more
        nursery.cancel_scope.cancel()


async def answer(api: Api, stream: trio.SocketStream, message: dict[str, object]) -> None:
    method, params = message["method"], message["params"]
    reply: dict[str, object] = {}
    if method == "tools/list":
        reply["result"] = {"tools": TOOLS}
    elif method == "tools/call":
        reply = await call(api, params["name"], params["arguments"])
    else:
        reply["result"] = {"capabilities": {"tools": {}}}
    await stream.send_all(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}).encode() + b"\n")


async def call(api: Api, name: str, arguments: dict[str, object]) -> dict[str, object]:
    if name == "demo__echo":
        content = [{"type": "text", "text": json.dumps(arguments)}]
        return {"result": {"content": content, "_meta": {"text": arguments.get("text")}}}
    if name == "demo__fail":
        return {"result": {"content": [{"type": "text", "text": "no such luck"}], "isError": True}}
    if name == "crash":
        return {"error": {"code": -32603, "message": "The hub failed to answer"}}
    if name == "wait":
        await api.wait()
    return {"error": {"code": -32602, "message": f"Unknown tool: {name}"}}


async def echo(stream: trio.SocketStream, first: bytes) -> None:
    await stream.send_all(b"hello " + first)
    while data := await stream.receive_some(65536):
        await stream.send_all(data)
    await stream.send_all(b"bye\n")


async def main(starts: str) -> None:
    with take_lock(lock_path()):
        async with await trio.open_file(starts, "a") as file:
            await file.write(f"{os.getpid()}\n")
        control = trio.SocketListener(trio.socket.from_stdlib_socket(bind_unix(control_path())))
        lines = trio.SocketListener(trio.socket.from_stdlib_socket(bind_unix(socket_path())))
        api = Api()
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, partial(serve_lines, api), [lines])
            await nursery.start(serve_control, control, api)
            say("ready")
            await api.stopped.wait()
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
