"""Hosts of both eras that call a tool over HTTP, one call after the other, and record each outcome."""

import contextlib
import http.client
import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.support.attached import INITIALIZE

LIMIT_S = 30
TOOL = "demo__countdown"
ARGUMENTS = {"from": 1, "pause_s": 0.1}
"""A tool that takes so long that many calls run at any time."""


class Call(NamedTuple):
    """One call that is over. Times are those of `perf_counter`."""

    id: str
    """The value of its header X-Call."""
    session: str
    began: float
    ended: float
    failure: str
    """The fault; "" if it was answered with a result."""


class CallingHost:
    """A host that calls until `stop`; a subclass for each era."""

    def __init__(self, url: str, token: str, name: str) -> None:
        self.name = name
        self.session = ""
        self.calls: list[Call] = []
        self.stopping = threading.Event()
        self._address = url.split("/")[2]
        self._token = token
        self._ids = itertools.count(1)
        self._connection = http.client.HTTPConnection(self._address, timeout=LIMIT_S)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the last call end."""
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join(LIMIT_S)
        self._connection.close()

    @property
    def failed(self) -> list[Call]:
        return [call for call in self.calls if call.failure]

    def _run(self) -> None:
        while not self.stopping.is_set():
            id, began = f"{self.name}-{next(self._ids)}", perf_counter()
            try:
                failure = self._call(id)
            except (OSError, http.client.HTTPException, ValueError) as error:
                failure = repr(error)
                self._connection.close()  # the next call opens another
            self.calls.append(Call(id, self.session, began, perf_counter(), failure))
            if failure:
                self.stopping.wait(0.1)

    def _call(self, id: str) -> str:
        """The fault of the answer; "" if it is a result."""
        raise NotImplementedError

    def send(self, message: dict[str, Any], headers: Mapping[str, str]) -> None:
        """POST it."""
        fields = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        }
        self._connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), fields)

    def post(self, message: dict[str, Any], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        """Post a message; returns status, headers, and the last message of the answer."""
        self.send(message, headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        if response.headers.get_content_type() == "text/html":  # the balancer's own
            raise ValueError(f"{response.status} of the balancer")
        answer = json.loads(events[-1] if events else text) if text else None
        return response.status, dict(response.headers), answer


class ModernHost(CallingHost):
    def _call(self, id: str) -> str:
        status, _, answer = self.post(*modern(id, ARGUMENTS))
        return judged(status, answer)

    @contextlib.contextmanager
    def begun(self, arguments: dict[str, Any]) -> Iterator[None]:
        """A running call whose host leaves at the end of the block."""
        self.send(*modern("begun", arguments))
        yield
        self._connection.close()


def modern(id: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A call, and its headers."""
    meta = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}
    params = {"name": TOOL, "arguments": arguments, "_meta": meta}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": TOOL, "X-Call": id}
    return {"id": id, "method": "tools/call", "params": params}, headers


class LegacyHost(CallingHost):
    """A legacy host, which keeps its one session."""

    def open(self) -> None:
        """Complete the handshake, or fail the test."""
        status, headers, answer = self.post({"id": 0, "method": "initialize", "params": INITIALIZE}, {})
        assert status == 200, answer
        self.session = {name.lower(): value for name, value in headers.items()}["mcp-session-id"]
        status, _, answer = self.post({"method": "notifications/initialized"}, {"Mcp-Session-Id": self.session})
        assert status == 202, answer

    def _call(self, id: str) -> str:
        params = {"name": TOOL, "arguments": ARGUMENTS}
        message = {"id": id, "method": "tools/call", "params": params}
        status, _, answer = self.post(message, {"Mcp-Session-Id": self.session, "X-Call": id})
        return judged(status, answer)


def judged(status: int, answer: Any) -> str:
    fine = status == 200 and "result" in answer and not answer["result"].get("isError")
    return "" if fine else f"{status} {json.dumps(answer)[:300]}"
