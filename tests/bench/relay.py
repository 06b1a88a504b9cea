"""The least that can be called a hub: a floor for what one on trio and msgspec costs.

    relay.py PORT FILE      FILE: a JSON object, the command of each server by its name

HTTP is read by hand, `initialize` and `tools/list` are answered from memory, and a call goes to its server over stdio
with another id and name, its arguments unread. There are no errors, rules, limits, notifications or cancellations, and
a server that ends is not started again.
"""

import contextlib
import json
import subprocess
import sys
from functools import partial

import msgspec
import outcome
import trio
from msgspec import UNSET, Raw, Struct, UnsetType

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nMcp-Session-Id: relay\r\n\r\n"


class Params(Struct, omit_defaults=True):
    """The parameters of `tools/call`; neither the arguments nor `_meta` are looked into."""

    name: str = ""
    arguments: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


class Request(Struct):
    """A message of a host."""

    method: str = ""
    id: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class Answer(Struct):
    """A message of a server."""

    id: int = -1
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


decode_request = msgspec.json.Decoder(Request).decode
decode_params = msgspec.json.Decoder(Params).decode
decode_answer = msgspec.json.Decoder(Answer).decode

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"relay","version":"1"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
HELLO = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"relay","version":"1"}}'


class Waiter:
    """The place of one answer."""

    task: trio.lowlevel.Task | None = None
    answer: Answer | None = None


class StdioServer:
    """A child process; its answers are told apart by their ids."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._waiting: dict[int, Waiter] = {}
        self._next_id = 2

    async def start(self, nursery: trio.Nursery) -> list[dict[str, object]]:
        """Start it, and return its tools."""
        child = await trio.lowlevel.open_process(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin
        assert child.stdout
        self._input, self._output, self._lock = child.stdin, child.stdout, trio.Lock()
        nursery.start_soon(self._read)
        await self._ask(INITIALIZE, 0)
        await self._input.send_all(INITIALIZED)
        listed = (await self._ask(LIST, 1)).result
        assert listed is not UNSET
        tools: list[dict[str, object]] = json.loads(bytes(listed))["tools"]
        return tools

    async def _read(self) -> None:
        parts: list[bytes | bytearray] = []
        while data := await self._output.receive_some(1 << 18):
            parts.append(data)
            if b"\n" not in data:
                continue
            *lines, rest = b"".join(parts).split(b"\n")
            parts = [rest]
            for line in lines:
                answer = decode_answer(line)
                waiter = self._waiting.pop(answer.id, None)
                if waiter:
                    waiter.answer = answer
                    if waiter.task:
                        trio.lowlevel.reschedule(waiter.task, outcome.Value(None))

    async def _ask(self, data: bytes, id: int) -> Answer:
        waiter = self._waiting[id] = Waiter()
        async with self._lock:
            await self._input.send_all(data + b"\n")
        if waiter.answer is None:  # it may have come while sending
            waiter.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        assert waiter.answer is not None
        return waiter.answer

    async def call(self, params: Params) -> Answer:
        """Call the tool that these parameters name."""
        id = self._next_id
        self._next_id += 1
        parts = (b'{"jsonrpc":"2.0","id":%d' % id, b',"method":"tools/call","params":', msgspec.json.encode(params))
        return await self._ask(b"".join((*parts, b"}")), id)


class Relay:
    """The servers and their tools."""

    def __init__(self) -> None:
        self._routes: dict[str, tuple[StdioServer, str]] = {}
        self._tools: list[dict[str, object]] = []
        self._list = b""

    async def run(self, port: int, commands: dict[str, list[str]]) -> None:
        """Start all servers, then listen."""
        async with trio.open_nursery() as nursery:
            for name, command in commands.items():
                server = StdioServer(command)
                for tool in await server.start(nursery):
                    self._routes[f"{name}__{tool['name']}"] = server, str(tool["name"])
                    self._tools.append({**tool, "name": f"{name}__{tool['name']}"})
            self._list = msgspec.json.encode({"tools": self._tools})
            await trio.serve_tcp(self._serve, port, host="127.0.0.1", backlog=1024)

    async def _serve(self, stream: trio.SocketStream) -> None:
        buffer = b""
        while data := await stream.receive_some(1 << 18):
            buffer = buffer + data if buffer else bytes(data)
            at = buffer.find(b"\r\n\r\n")
            if at < 0:
                continue
            head = buffer[:at].lower()
            length = head.find(b"\r\ncontent-length:")
            end = at + 4 + (int(head[length + 17 :].split(b"\r\n", 1)[0]) if length >= 0 else 0)
            if len(buffer) < end:
                continue
            body, buffer = buffer[at + 4 : end], buffer[end:]
            reply = await self._answer(body)
            await stream.send_all(OK % len(reply) + reply)

    async def _answer(self, body: bytes) -> bytes:
        request = decode_request(body or b"{}")
        if request.id is UNSET:
            return b""
        kind, value = b"result", Raw(HELLO if request.method == "initialize" else self._list)
        if request.method == "tools/call":
            assert request.params is not UNSET
            params = decode_params(request.params)
            server, params.name = self._routes[params.name]
            answer = await server.call(params)
            if answer.result is not UNSET:
                value = answer.result
            else:
                assert answer.error is not UNSET
                kind, value = b"error", answer.error
        return b"".join((b'{"jsonrpc":"2.0","id":', request.id, b',"', kind, b'":', value, b"}"))


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file, contextlib.suppress(KeyboardInterrupt):
        trio.run(partial(Relay().run, int(sys.argv[1]), json.load(file)))
