"""The hosts: sessions over Streamable HTTP, each one connection with one call in flight, and the load that they make.

`drive` keeps all sessions calling for a while, by one epoll loop that costs little, and checks every reply. A request
is a template into which its id is put twice, as the id and as the first characters of the text, so a reply that
belongs to another call is found.
"""

import gc
import itertools
import json
import select
import socket
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tests.bench.responses import CallFailed, Response

REVISION = "2025-11-25"
INFO = {"name": "bench", "version": "1"}
PLACE = 99_999_901
"""Stands in a template for the id of the call; all ids have as many digits."""
PATIENCE_S = 30.0
FAILURES = 200
"""After so many a sample ends."""

ids = itertools.count(10_000_000)


class Content(Struct):
    """A piece of a result."""

    text: Raw = Raw(b"")


class Result(Struct):
    """A result of a tool."""

    content: list[Content] = []
    isError: bool = False


class Reply(Struct):
    """A message of a gateway."""

    id: int | str | None = None
    method: str = ""
    result: Result | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


decode_reply = msgspec.json.Decoder(Reply).decode


class Echo(NamedTuple):
    """A call of the tool `tool`, with a text of `size` characters, that is answered with `reply_size`."""

    tool: str
    size: int
    reply_size: int

    @property
    def params(self) -> dict[str, object]:
        """The text begins with the id of the call."""
        text = str(PLACE).ljust(self.size, "x")
        return {"name": self.tool, "arguments": {"text": text, "size": self.reply_size}}

    def check(self, reply: Reply) -> None:
        """Raises CallFailed if this is not the reply to the call with its id."""
        if reply.error is not UNSET:
            raise CallFailed(error_text(bytes(reply.error)))
        if reply.result is UNSET or reply.result.isError or not reply.result.content:
            texts = [] if reply.result is UNSET else [bytes(each.text) for each in reply.result.content]
            raise CallFailed(f"tool error: {b' '.join(texts).decode(errors='replace')}")
        text = bytes(reply.result.content[0].text)
        if text[1:9] != str(reply.id).encode() or len(text) - 2 != max(self.size, self.reply_size):
            raise CallFailed("the text of another call")


def error_text(error: bytes) -> str:
    """The code and message of a JSON-RPC error."""
    told = json.loads(error)
    return f"error {told.get('code')}: {told.get('message')}"


class Session:
    """One host, over a connection that is opened again if it was closed between two requests."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        """Connect and shake hands. Raises CallFailed, OSError."""
        parts = urlsplit(url)
        assert parts.hostname
        self._address = (parts.hostname, parts.port or 80)
        self._fields = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
        self._fields += ["Accept: application/json, text/event-stream"]
        self._connection: socket.socket | None = None
        self._request = b""
        self.response = Response()
        self.id = 0
        """That of the call whose reply has not come; 0: it has."""
        self.began = 0
        self.on_connect: Callable[[Session], None] = lambda _: None
        try:
            self._shake_hands(patience_s)
        except (CallFailed, OSError):
            self.close()
            raise

    def _shake_hands(self, patience_s: float) -> None:
        hello: dict[str, object] = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": INFO}
        server = self.ask("initialize", hello, patience_s=patience_s)
        if self.response.session:
            self._fields.append(f"Mcp-Session-Id: {self.response.session}")
        self._fields.append(f"MCP-Protocol-Version: {server['protocolVersion']}")
        self._send(self._written({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self._await(patience_s)

    def fileno(self) -> int:
        """The descriptor of its connection, which changes when it is opened again."""
        assert self._connection is not None
        return self._connection.fileno()

    @property
    def is_open(self) -> bool:
        """It has a connection."""
        return self._connection is not None

    @property
    def is_busy(self) -> bool:
        """Its response has not ended."""
        return not self.response.is_done

    def close(self) -> None:
        """Hang up; the next request opens a connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def template(self, params: dict[str, object]) -> list[bytes]:
        """A call, cut where its id belongs."""
        message = {"jsonrpc": "2.0", "id": PLACE, "method": "tools/call", "params": params}
        return self._written(message).split(b"%d" % PLACE)

    def start(self, template: Sequence[bytes]) -> None:
        """Send a call."""
        self.id, self.began = next(ids), perf_counter_ns()
        self._send((b"%d" % self.id).join(template))

    def receive(self) -> list[bytes]:
        """Messages that have come. Raises CallFailed when the response ends without any."""
        response = self.response
        data = self._read()
        if data:
            response.feed(data)
        elif response.is_untouched and self._is_reused:  # it was closed while nothing was asked
            self.close()
            self._send(self._request)
            return []
        else:
            self.close()
            response.is_done = True
            raise CallFailed("the connection was closed")
        if response.is_done and response.closes:
            self.close()
        messages, response.messages = response.messages, []
        if response.is_done and response.status >= 400 and not any(b"%d" % self.id in each for each in messages):
            raise CallFailed(f"HTTP {response.status}")
        return messages

    def ask(self, method: str, params: dict[str, object], *, patience_s: float = PATIENCE_S) -> Any:
        """The result of one request. Raises CallFailed, also if none comes in time."""
        self.id = next(ids)
        self._send(self._written({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}))
        return self.await_result(patience_s)

    def await_result(self, patience_s: float) -> Any:
        """The result of the request that was sent. Raises CallFailed."""
        answer = self._await(patience_s)
        if answer is None:
            raise CallFailed("no reply")
        if "error" in answer:
            raise CallFailed(error_text(json.dumps(answer["error"]).encode()))
        if answer["result"].get("isError"):
            raise CallFailed(f"tool error: {answer['result']['content'][0].get('text', '')}")
        return answer["result"]

    def list_tools(self, *, patience_s: float = PATIENCE_S) -> set[str]:
        """The names of all tools, page by page."""
        names: set[str] = set()
        params: dict[str, object] = {}
        while True:
            page = self.ask("tools/list", params, patience_s=patience_s)
            names |= {tool["name"] for tool in page["tools"]}
            if not page.get("nextCursor"):
                return names
            params = {"cursor": page["nextCursor"]}

    def _await(self, patience_s: float) -> Any:
        """The reply of the response, if it has one, when that has ended."""
        deadline = perf_counter() + patience_s
        answer = None
        while self.is_busy:
            if not select.select([self], [], [], max(0, deadline - perf_counter()))[0]:
                self.close()
                raise CallFailed(f"no answer in {patience_s:g} s")
            for message in self.receive():
                told = json.loads(message)
                if told.get("id") == self.id and "method" not in told:
                    answer = told
        return answer

    def _written(self, message: dict[str, object]) -> bytes:
        body = msgspec.json.encode(message)
        return "\r\n".join([*self._fields, f"Content-Length: {len(body)}", "", ""]).encode() + body

    def _send(self, request: bytes) -> None:
        self._request, self.response = request, Response()
        try:
            self._is_reused = self._connection is not None
            if self._connection is None:
                self._connection = _connect(self._address)
                self.on_connect(self)
            self._connection.sendall(request)
        except OSError as error:
            was_reused = self._is_reused
            self.close()
            if was_reused:
                return self._send(request)
            self.response.is_done = True
            raise CallFailed(error.strerror or "no connection") from error

    def _read(self) -> bytes:
        assert self._connection is not None
        try:
            return self._connection.recv(1 << 18)
        except ConnectionResetError:
            return b""


def _connect(address: tuple[str, int]) -> socket.socket:
    """A connection that blocks, for a bounded time: with a timeout of Python's each read would be two system calls."""
    connection = socket.create_connection(address, PATIENCE_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(PATIENCE_S), 0))
    return connection


class Load:
    """The calls of one sample: latencies of those that succeeded, and why others failed."""

    def __init__(self) -> None:
        self.latencies_ns: list[int] = []
        self.failures: Counter[str] = Counter()
        self.seconds = 0.0

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.latencies_ns) / self.seconds

    @property
    def p50_us(self) -> float:
        return median(self.latencies_ns) / 1000


def drive(sessions: Sequence[Session], echo: Echo, seconds: float) -> Load:
    """Call without a pause in every session for so long; the last calls are waited for."""
    load = Load()
    poll = select.epoll()
    by_fd: dict[int, Session] = {}
    templates = {session: session.template(echo.params) for session in sessions}

    def watch(session: Session) -> None:
        by_fd[session.fileno()] = session
        poll.register(session, select.EPOLLIN)

    def start(session: Session) -> None:
        try:
            session.start(templates[session])
        except CallFailed as failure:
            load.failures[str(failure)] += 1
            running.discard(session)

    running = set(sessions)
    gc.collect()
    gc.disable()
    begin = now = perf_counter_ns()
    stop = begin + int(seconds * 1e9)
    try:
        for session in sessions:
            session.on_connect = watch
            if session.is_open:
                watch(session)
            start(session)
        while running:
            ready = poll.poll(PATIENCE_S)
            for fd, _ in ready:
                session = by_fd[fd]
                if session not in running:
                    session.close()
                    continue
                now = _settle(session, echo, load)
                if session.is_busy:
                    continue
                if now < stop and load.failures.total() < FAILURES:
                    start(session)
                else:
                    running.discard(session)
            if not ready:
                load.failures[f"no answer in {PATIENCE_S:g} s"] += len(running)
                for session in running:
                    session.close()
                break
    finally:
        gc.enable()
        poll.close()
        for session in sessions:
            session.on_connect = lambda _: None
    load.seconds = (now - begin) / 1e9
    return load


def _settle(session: Session, echo: Echo, load: Load) -> int:
    """Read what has come, and count the call if that ends it; returns the time."""
    try:
        messages = session.receive()
        now = perf_counter_ns()
        for message in messages:
            reply = decode_reply(message)
            if reply.id == session.id and not reply.method:
                session.id = 0
                echo.check(reply)
                load.latencies_ns.append(now - session.began)
        if session.id and not session.is_busy:
            raise CallFailed("no reply")
    except CallFailed as failure:
        load.failures[str(failure)] += 1
        session.id = 0
        return perf_counter_ns()
    return now
