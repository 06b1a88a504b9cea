"""Reads records of MCP connections (of tee.py and `TcpRelay`) and checks the hub's messages by the schemas."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import h11

from hub.wire import mcp
from hub.wire.http.sse import SseParser
from tests.real.tcp_relay import Piece
from tests.support.schemas import Invalid, Sender, validate

TEE = Path(__file__).with_name("tee.py")
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
Way = Literal["stdio", "http"]


@dataclass
class Verdict:
    """The findings in all records."""

    judged: Counter[tuple[Sender, Way, str, str]] = field(default_factory=Counter)
    """The number of valid messages of the hub, by (the hub's part, the transport, the era, the kind of message)."""
    results: set[tuple[str, str]] = field(default_factory=set)
    """(era, method) of all results that the hub gave."""
    questions: set[tuple[str, str]] = field(default_factory=set)
    """(era, method) of all requests and notifications that the hub sent."""
    invalid: list[str] = field(default_factory=list)


class Conversation:
    """The agreed version and running requests of one connection, or of one HTTP session.

    It gets every message of both sides in order, and checks those of `hub`, the name of a side.
    """

    def __init__(self, hub: Sender, way: Way, verdict: Verdict, where: str, version: str | None = None) -> None:
        self._hub = hub
        self._way: Way = way
        self._verdict = verdict
        self._where = where
        self._version = version
        self._asked: dict[tuple[Sender, Any], tuple[str, str]] = {}

    def hear(self, sender: Sender, data: bytes) -> None:
        try:
            value = json.loads(data)
        except ValueError:
            if sender == self._hub:
                self._verdict.invalid.append(f"{self._where}: no JSON: {data[:300]!r}")
            return
        for message in value if isinstance(value, list) else [value]:
            part = data if message is value else json.dumps(message).encode()
            self._hear_one(sender, message, part)

    def _hear_one(self, sender: Sender, message: dict[str, Any], data: bytes) -> None:
        method = message.get("method")
        if method is not None:
            kind = "request" if "id" in message else "notification"
            version = self._version_of(message)
            if kind == "request":
                self._asked[sender, message["id"]] = (method, version)
        else:
            kind = "error" if "error" in message else "result"
            method, version = self._answered_by(sender, message)
        if sender == self._hub:
            self._judge(data, version, kind, method)

    def _version_of(self, message: dict[str, Any]) -> str:
        """The revision of a request or notification; for the first message of a handshake the requested one."""
        params = message.get("params", {})
        if message["method"] == "initialize":
            return params["protocolVersion"]
        if VERSION_KEY in params.get("_meta", {}):
            self._version = params["_meta"][VERSION_KEY]
        return self._version or "unknown"

    def _answered_by(self, sender: Sender, message: dict[str, Any]) -> tuple[str | None, str]:
        """Method and revision of the request that `sender` answers; for a handshake the agreed one."""
        if message.get("id") is None:
            return None, self._version or mcp.L4
        other: Sender = "server" if sender == "client" else "client"
        method, version = self._asked.get((other, message["id"]), (None, "unknown"))
        if method == "initialize" and "result" in message:
            self._version = version = message["result"]["protocolVersion"]
        return method, version

    def _judge(self, data: bytes, version: str, kind: str, method: str | None) -> None:
        era = "modern" if version == mcp.MODERN else "legacy"
        try:
            if version == "unknown":
                raise Invalid(f"nothing was agreed on, or nobody asked: {data[:300]!r}")
            validate(data, version, sender=self._hub, method=method if kind in ("result", "error") else None)
        except Invalid as error:
            self._verdict.invalid.append(f"{self._where}, {kind} of {version}, {method}: {error}")
            return
        self._verdict.judged[self._hub, self._way, era, kind] += 1
        if kind == "result" and method:
            self._verdict.results.add((era, method))
        elif kind != "error" and method:
            self._verdict.questions.add((era, method))


# --- stdio ------------------------------------------------------------------------------------------------------------


def read_lines(file: Path, hub: Sender, verdict: Verdict) -> None:
    """A record of tee.py, of any number of processes."""
    conversations: dict[bytes, Conversation] = {}
    for record in file.read_bytes().split(b"\n")[:-1]:
        pid, direction, line = record.split(b" ", 2)
        conversation = conversations.setdefault(pid, Conversation(hub, "stdio", verdict, file.name))
        conversation.hear("client" if direction == b">" else "server", line)


# --- HTTP -------------------------------------------------------------------------------------------------------------


class HttpTraffic:
    """The sessions of one HTTP server, over all its connections."""

    def __init__(self, hub: Sender, verdict: Verdict, where: str) -> None:
        self._hub: Sender = hub
        self._verdict = verdict
        self._where = where
        self._sessions: dict[str, Conversation] = {}
        """The conversations by session id; in HTTP+SSE by the posting endpoint of the session."""

    def read(self, pieces: Iterable[Piece]) -> None:
        connections: dict[int, HttpConnection] = {}
        for piece in pieces:
            if piece.connection not in connections:
                connections[piece.connection] = HttpConnection(self)
            connections[piece.connection].feed(piece.from_client, piece.data)

    def of_request(self, headers: dict[str, str], target: str) -> Conversation:
        """The conversation that a request is part of. Without a session, each request is one of its own."""
        for key in (headers.get("mcp-session-id"), target):
            if key in self._sessions:
                return self._sessions[key]
        version = headers.get("mcp-protocol-version")
        return Conversation(self._hub, "http", self._verdict, f"{self._where} {target}", version)

    def name(self, conversation: Conversation, key: str) -> None:
        self._sessions.setdefault(key, conversation)


class HttpConnection:
    """One connection's exchanges, one after the other, read as their bytes come."""

    def __init__(self, traffic: HttpTraffic) -> None:
        self._traffic = traffic
        self._server = h11.Connection(h11.SERVER)
        self._client = h11.Connection(h11.CLIENT)
        self._begin()

    def _begin(self) -> None:
        self._request_body = b""
        self._response_body = b""
        self._events: SseParser | None = None
        self._conversation: Conversation | None = None

    def feed(self, from_client: bool, data: bytes) -> None:
        """Take some bytes of one direction; no bytes: it has ended."""
        reader = self._server if from_client else self._client
        if reader.their_state in (h11.CLOSED, h11.ERROR):
            return
        reader.receive_data(data)
        try:
            self._read_requests()
            self._read_responses()
        except h11.RemoteProtocolError:
            if data:  # else the connection was ended amid a message: one side was stopped
                raise

    def _read_requests(self) -> None:
        while True:
            event = self._server.next_event()
            if isinstance(event, h11.Request):
                self._client.send(event)
                headers = {name.decode(): value.decode() for name, value in event.headers}
                self._conversation = self._traffic.of_request(headers, event.target.decode())
            elif isinstance(event, h11.Data):
                self._request_body += event.data
                self._client.send(event)
            elif isinstance(event, h11.EndOfMessage):
                self._client.send(event)
                if self._request_body:
                    self._hear("client", self._request_body)
            else:
                return

    def _read_responses(self) -> None:
        while self._client.our_state is not h11.IDLE:
            event = self._client.next_event()
            if isinstance(event, h11.Response):
                self._take_head({name.decode(): value.decode() for name, value in event.headers})
            elif isinstance(event, h11.Data):
                self._take(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                if self._response_body:
                    self._hear("server", self._response_body)
                self._end()
            elif not isinstance(event, h11.InformationalResponse):
                return

    def _take_head(self, headers: dict[str, str]) -> None:
        assert self._conversation is not None
        if "mcp-session-id" in headers:
            self._traffic.name(self._conversation, headers["mcp-session-id"])
        if headers.get("content-type", "").startswith("text/event-stream"):
            self._events = SseParser()

    def _take(self, data: bytes) -> None:
        assert self._conversation is not None
        if self._events is None:
            self._response_body += data
            return
        for event in self._events.feed(data):
            if event.event == "endpoint":
                self._traffic.name(self._conversation, event.data.decode())
            elif event.data:
                self._hear("server", event.data)

    def _hear(self, sender: Sender, data: bytes) -> None:
        assert self._conversation is not None
        self._conversation.hear(sender, data)

    def _end(self) -> None:
        """The response is complete: on to the next request, if there can be one."""
        if {self._client.our_state, self._client.their_state, self._server.their_state} != {h11.DONE}:
            return
        self._server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        self._server.send(h11.EndOfMessage())
        self._client.start_next_cycle()
        self._server.start_next_cycle()
        self._begin()
        self._read_requests()
