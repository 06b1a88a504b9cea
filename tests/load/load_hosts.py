"""Hosts that keep a real hub busy and record the outcome of every call, for tests of faults under load.

HUBD_LOAD=full in the environment makes these tests long; else they take a few seconds each.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import trio

from tests.support.attached import INITIALIZE
from tests.support.processes import Hub

FULL = os.environ.get("HUBD_LOAD") == "full"
SCRIPTED = Path(__file__).parents[1] / "support" / "scripted.py"
FAILURE = "dev.hubd/failure"


def table(name: str, script: dict[str, Any]) -> str:
    """A table of hubd.toml for a scripted server."""
    args = json.dumps(["-I", "-S", str(SCRIPTED), json.dumps(script)])
    return f"[upstreams.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nera = 'legacy'\n"


class Call:
    """One request of a host."""

    def __init__(self, id: int, upstream: str) -> None:
        self.id = id
        self.upstream = upstream
        self.began = trio.current_time()
        self.ended = 0.0
        self.done = trio.Event()
        self.outcome = ""
        """The outcome: "ok", "cut" if the connection ended first, or the kind of the hub's failure."""
        self.executed = ""

    def __repr__(self) -> str:
        return f"<{self.upstream or 'hub'} {self.id}: {self.outcome or 'running'} {self.executed}>"

    def end(self, outcome: str, executed: str = "") -> None:
        self.ended = trio.current_time()
        self.outcome, self.executed = outcome, executed
        self.done.set()

    @property
    def ms(self) -> float:
        return (self.ended - self.began) * 1000


class LoadHost:
    """A program on the unix socket with many calls running at once."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.name = name
        self.calls: list[Call] = []
        self.complaints: list[str] = []
        """Responses to nothing, and second responses."""
        self.leaving = False
        """Whether the hub has said goodbye: messages then wait for the next hub, as in the shim."""
        self.gone = trio.Event()
        """Whether the hub has hung up."""
        self._path = f"{hub.env['XDG_RUNTIME_DIR']}/hubd/hubd.sock"
        self._sending = trio.Lock()
        self._stream: trio.SocketStream

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Attach, and take answers until the hub hangs up."""
        async with await trio.open_unix_socket(self._path) as self._stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            await self._send({"hubd": 1, "host": self.name, "bye": True})
            await self.ask("initialize", INITIALIZE)
            await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            await self.ask("tools/list", {})  # once the hub has settled
            task_status.started()

    async def ask(self, method: str, params: dict[str, Any], upstream: str = "") -> Call:
        """Send a request; returns it with its response."""
        async with self._sending:
            call = Call(len(self.calls), upstream)
            if self.leaving:
                call.end("kept")
                return call
            self.calls.append(call)
            try:
                await self._stream.send_all(
                    _line({"jsonrpc": "2.0", "id": call.id, "method": method, "params": params})
                )
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                call.end("cut")
        await call.done.wait()
        return call

    async def call(self, upstream: str, tool: str = "echo") -> Call:
        """Call a tool of an upstream; returns the call with its outcome."""
        return await self.ask("tools/call", {"name": f"{upstream}__{tool}", "arguments": {}}, upstream)

    async def keep_calling(self, upstream: str, enough: trio.Event) -> None:
        """One call after the other, until it is `enough` or the hub hangs up."""
        while not self.leaving and not enough.is_set():
            await self.call(upstream)

    def running(self, upstream: str) -> set[Call]:
        """The unanswered requests."""
        return {call for call in self.calls if call.upstream == upstream and not call.outcome}

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            await self._stream.send_all(_line(message))

    async def _read(self) -> None:
        rest = b""
        try:
            while data := await self._stream.receive_some(1 << 18):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    if "bye" in message:
                        self.leaving = True
                        await self._send({"hubd": 1, "bye": "understood"})
                    else:
                        self._take(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.leaving = True
        self.gone.set()
        for call in self.calls:
            if not call.outcome:
                call.end("cut")

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message or "id" not in message:
            return
        id = message["id"]
        if not 0 <= id < len(self.calls) or self.calls[id].outcome:
            self.complaints.append(f"{self.name}: an answer too many: {message}")
            return
        failure = message.get("error", {}).get("data") or message.get("result", {}).get("_meta", {}).get(FAILURE)
        if failure is None and "error" in message:
            failure = {"hub": message["error"]["message"]}
        self.calls[id].end("ok" if failure is None else failure["hub"], (failure or {}).get("executed", ""))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def spread(calls: Iterable[Call]) -> str:
    """The durations of calls as text for people; no test asserts them."""
    took = sorted(call.ms for call in calls)
    if not took:
        return "none"
    at = {name: took[min(len(took) - 1, int(len(took) * part))] for name, part in (("p50", 0.5), ("p99", 0.99))}
    return f"{len(took)} calls, p50 {at['p50']:.1f} ms, p99 {at['p99']:.1f} ms, longest {took[-1]:.1f} ms"
