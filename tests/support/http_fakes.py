"""A host's HTTP without sockets, and a router without upstreams: for tests of the endpoint between them.

`Answered` stands in for `hub.net.look_after_connections.HttpResponse`, `Scripted` for `hub.routing.router.Router`.
`Host` sends requests to an endpoint and judges every message it gets by the official schema.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import trio
from msgspec import Raw

from config.remembered_facts import Memory
from hub.calls.host_exchange import HostExchange
from hub.catalog.endpoint_views import View, server_view
from hub.downstream.host_conversations import Hosts
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.endpoint import Endpoint
from hub.link.call_interface import Identity, Tenant
from hub.link.hub_errors import HubError, failure_from
from hub.link.sealing import Signer
from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import HttpRequest
from hub.routing.replies_for_hosts import report_bug
from hub.wire.capabilities import negotiate
from hub.wire.http.sse import SseParser
from hub.wire.jsonrpc import (
    Failure,
    RemoteProtocolError,
    Reply,
    Request,
    Result,
    Wire,
    encode,
    join,
    peek_object,
    peek_str,
    raw,
)
from hub.wire.mcp import (
    CLIENT_CAPABILITIES_KEY,
    HUB_INFO,
    INVALID_PARAMS,
    L4,
    METHOD_NOT_FOUND,
    MODERN,
    NAMED_BY,
    RESOURCES_READ,
    SUBSCRIBE,
    TOOLS_CALL,
    UNSUBSCRIBE,
    VERSION_KEY,
    Era,
    Kind,
)
from hub.wire.questions.askable_questions import Question
from tests.support.schemas import validate

ALICE = Identity("token:alice", "desk")
BOB = Identity("token:bob", "desk")


class Scripted:
    """A router with tools for tests; `waiting` tools end when the test says so. `is_quick`: calls need no task."""

    def __init__(self, *, is_quick: bool = False) -> None:
        self.is_quick = is_quick
        self.live = self.levels = self
        self.release = trio.Event()
        self.running: set[str] = set()
        self.cancelled: list[str] = []
        self.level_changes = 0
        self.gone: list[Tenant] = []
        self.moved: list[Tenant] = []
        self.seen: list[tuple[HostExchange, Request]] = []
        self.started = trio.Event()
        self.exchanges: dict[str, HostExchange] = {}
        self.questions: dict[str, Question] = {}
        """The questions of tools, by name."""
        self.replies: dict[str, Reply] = {}
        self.at_hand: dict[str, Reply | Exception] = {}
        """Resources that are read without waiting, by URI."""
        self.settled = trio.Event()
        self.settled.set()
        self.lists = {kind.value: "as ever" for kind in Kind}
        """Digests of its lists."""
        self.subscribed: list[str] = []
        """The subscriptions and unsubscriptions of hosts, in order."""
        self.unwatchable: set[str] = set()

    async def wait(self, view: View) -> None:
        await self.settled.wait()

    def digests(self, view: View) -> dict[str, str]:
        return self.lists

    def mirrors(self, tool: str, view: View) -> tuple[()]:
        return ()

    def find_view(self, name: str) -> View | None:
        return server_view(name) if name == "files" else None

    def changed(self) -> None:
        self.level_changes += 1

    def roots_changed(self, tenant: Tenant) -> None:
        self.moved.append(tenant)

    def left(self, tenant: Tenant) -> None:
        self.gone.append(tenant)

    def initialize(self, params: dict[str, Raw], view: View) -> tuple[Result, str, dict[str, Raw]]:
        version = peek_str(params.get("protocolVersion"))
        if version is None:
            raise RemoteProtocolError(INVALID_PARAMS, "initialize needs a protocolVersion")
        version = negotiate(version)
        result = {"protocolVersion": version, "capabilities": {"tools": {}, "logging": {}}, "serverInfo": HUB_INFO}
        return Result(raw(result)), version, peek_object(params.get("capabilities"))

    def begin(
        self, request: Request, exchange: HostExchange, done: Callable[[Reply], None] | None
    ) -> "Reply | ScriptedCall | None":
        reply = self.at_hand.get(peek_str(request.params.get("uri")) or "")
        if isinstance(reply, Exception):
            raise reply
        if reply is not None or done is None or not self.is_quick or request.method != TOOLS_CALL:
            return reply
        return ScriptedCall(self, request, exchange, done)

    async def dispatch(self, request: Request, exchange: HostExchange) -> Reply:
        self.seen.append((exchange, request))
        if request.method == "ping" and exchange.caller.era is Era.LEGACY:
            return Result(Raw(b"{}"))
        if request.method in (SUBSCRIBE, UNSUBSCRIBE) and exchange.host is not None:
            uri = peek_str(request.params.get("uri")) or ""
            if uri in self.unwatchable:
                return Failure(-32002, "Resource not found")
            exchange.host.session.watches(uri, on=request.method == SUBSCRIBE)
            self.subscribed.append(uri)
            return Result(Raw(b"{}"))
        if request.method != TOOLS_CALL:
            return Failure(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        name = peek_str(request.params.get("name")) or ""
        self.exchanges[name] = exchange
        if name == "crash":
            raise ZeroDivisionError
        if name == "headers":
            return Failure(-32021, "It needs sampling", raw({"requiredCapabilities": {"sampling": {}}}))
        if name.startswith("wait"):
            await self._wait(name)
        if name.startswith("ask"):
            self.replies[name] = await exchange.ask(self.questions[name])
        if name == "progress":
            exchange.progress({"progress": Raw(b"1"), "total": Raw(b"2")})
        if name == "log":
            exchange.log({"level": Raw(b'"error"'), "data": Raw(b'"oh"')})
        content = [{"type": "text", "text": name}]
        if exchange.caller.era is Era.MODERN:
            return Result(raw({"resultType": "complete", "content": content}))
        return Result(raw({"content": content}))

    def reply_to_failure(self, request: Request, exchange: HostExchange, error: HubError) -> Reply:
        reply = failure_from(error, request.method)
        if isinstance(reply, Result) and exchange.caller.era is Era.MODERN:
            return Result(raw({"resultType": "complete", **peek_object(reply.value)}))
        return reply

    async def _wait(self, name: str) -> None:
        self.running.add(name)
        self.started.set()
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.cancelled.append(name)
            raise
        finally:
            self.running.discard(name)
            self.started = trio.Event()

    def count(self, request: Request, exchange: HostExchange, began: float, reply: Reply | None) -> None:
        """Its requests are counted nowhere."""


class ScriptedCall:
    """A quick call of a `Scripted` router."""

    def __init__(
        self, router: Scripted, request: Request, exchange: HostExchange, done: Callable[[Reply], None]
    ) -> None:
        self._router = router
        self._done = done
        self._scope = trio.CancelScope()
        self._is_over = False
        trio.lowlevel.spawn_system_task(self._run, request, exchange)

    def cancel(self) -> None:
        assert not self._is_over, "it is cancelled no more than once, and not when it is over"
        self._is_over = True
        self._scope.cancel()

    async def _run(self, request: Request, exchange: HostExchange) -> None:
        with self._scope:
            try:
                reply = await self._router.dispatch(request, exchange)
            except Exception as error:  # noqa: BLE001 - as the router does
                reply = report_bug(request, error)
            if not self._is_over:
                self._is_over = True
                self._done(reply)


class Answered:
    """The response of an endpoint. `leave`: the host closes its connection."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.started = False
        self.streaming = False
        self.complete = trio.Event()
        self.gone = False
        self.was_cut = False
        self.queued_bytes = 0
        self.on_gone: Callable[[], None] | None = None
        self.cancel: Callable[[], None] | None = None
        self.over = trio.Event()
        self.arrived = trio.Event()
        self._parser = SseParser()
        self.events: list[tuple[str | None, bytes]] = []
        self.raw_events = b""

    def take_turns_as(self, sender: object) -> None:
        pass

    def reply(
        self,
        status: int,
        body: Wire = b"",
        headers: Sequence[tuple[str, str]] = (),
        *,
        content_type: str = "application/json",
    ) -> None:
        assert not self.started
        self.started = True
        self.status, self.body, self.headers = status, join(body), dict(headers)
        self.complete.set()

    def open_stream(self, headers: Sequence[tuple[str, str]] = (), *, relayed: bool = False) -> None:
        assert not self.started
        self.started = self.streaming = True
        self.status, self.headers = 200, dict(headers)
        self.arrived.set()

    def write(self, data: bytes, *, vital: bool = False) -> None:
        assert self.started
        if self.gone or not self.streaming:
            return
        self.raw_events += data
        self.events += [(event.id, event.data) for event in self._parser.feed(data) if event.data]
        self.arrived.set()
        self.arrived = trio.Event()

    def close_stream(self) -> None:
        if self.streaming:
            self.streaming = False
            self.complete.set()

    async def drained(self) -> None:
        self.queued_bytes = 0

    def cut(self) -> None:
        self.was_cut = True
        self.close_stream()

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        self.on_gone = callback
        if self.gone and callback:
            self.on_gone = None
            callback()

    def answer_later(self, cancel: Callable[[], None], party: object = None, *, cancel_if_gone: bool = False) -> None:
        self.cancel = cancel
        if cancel_if_gone:
            self.on_gone = cancel

    def serve(self, party: object) -> None: ...

    def end(self) -> None:
        self.cancel = self.on_gone = None
        self.over.set()

    def leave(self) -> None:
        self.gone = True
        self.when_gone(self.on_gone)

    @property
    def streamed(self) -> bool:
        """Whether the response is a stream of events."""
        return self.started and not self.body and self.status == 200 and bool(self.raw_events or self.streaming)

    @property
    def messages(self) -> list[Any]:
        """All messages of the answer, whatever its form."""
        parts = [data for _, data in self.events] if self.raw_events else [self.body] if self.body else []
        return [msgspec.json.decode(part) for part in parts]

    @property
    def last(self) -> Any:
        return self.messages[-1]

    @property
    def code(self) -> int:
        return int(self.last["error"]["code"])


class Open:
    """Access for every request that names its principal."""

    def check(self, request: HttpRequest) -> Identity | EarlyReply:
        return EarlyReply(401, b"{}")

    def guard(self, request: HttpRequest) -> EarlyReply | None:
        return None


class Host:
    """One host's requests to an endpoint, in either era."""

    def __init__(self, endpoint: Endpoint, identity: Identity = ALICE, path: str = "/mcp") -> None:
        self.endpoint = endpoint
        self.identity = identity
        self.path = path
        self.version = L4
        self.session: str | None = None
        self.capabilities: dict[str, Any] = {}

    async def http(
        self,
        method: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        path: str | None = None,
        into: Answered | None = None,
        ask: str | None = None,
        version: str | None = None,
    ) -> Answered:
        """One HTTP request, to its end."""
        response = into or Answered()
        request = HttpRequest(method, path or self.path, headers or {}, body, identity=self.identity)
        if (rest := self.endpoint.handle(request, response)) is not None:  # type: ignore[arg-type]
            await rest
        if response.cancel is not None:
            try:
                await response.over.wait()
            except trio.Cancelled:  # as `HttpServer` does it
                if response.cancel is not None:
                    response.cancel()
                raise
        assert response.started, "no answer"
        self.judge(response, version or self.version, ask)
        return response

    def judge(self, response: Answered, version: str, ask: str | None = None) -> None:
        """Check every message by its schema; errors without id, unknown to older revisions, by the newest one."""
        parts = [data for _, data in response.events] if response.raw_events else [response.body]
        for part in parts:
            if b"jsonrpc" in part:
                nameless = response.status >= 400 and b'"id":' not in part and version < L4
                validate(part, L4 if nameless else version, sender="server", method=ask)

    def headers(self, **more: str | None) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.version,
            "mcp-session-id": self.session,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        return {name: value for name, value in headers.items() if value is not None}

    # --- legacy

    async def initialize(self, version: str = L4, **headers: str | None) -> Answered:
        about = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": about}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        self.session = None
        ask = "initialize"
        answered = await self.http("POST", encode(message), self.headers(mcp_protocol_version=None, **headers), ask=ask)
        if answered.status == 200:
            self.session = answered.headers["Mcp-Session-Id"]
            self.version = answered.last["result"]["protocolVersion"]
        return answered

    async def post(self, message: Any, *, into: Answered | None = None, **headers: str | None) -> Answered:
        """Post a message of the session."""
        body = message if isinstance(message, bytes) else encode(message)
        return await self.http("POST", body, self.headers(**headers), into=into)

    async def call(
        self, name: str, id: int | str = 1, *, token: object = None, into: Answered | None = None, **headers: str | None
    ) -> Answered:
        return await self.post(call(name, id, token=token), into=into, **headers)

    async def notify(self, method: str, params: object = None) -> Answered:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return await self.post(message)

    async def get(self, *, into: Answered | None = None, **headers: str | None) -> Answered:
        return await self.http("GET", b"", self.headers(content_type=None, **headers), into=into)

    # --- modern

    async def modern(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        id: int | str = 1,
        *,
        meta: dict[str, Any] | None = None,
        into: Answered | None = None,
        **headers: str | None,
    ) -> Answered:
        """Send a request of 2026-07-28, by default with the headers that it requires."""
        params = dict(params or {})
        params["_meta"] = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}, **(meta or {})}
        sent: dict[str, str | None] = {
            "content_type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp_protocol_version": MODERN,
            "mcp_method": method,
            "mcp_name": params.get(NAMED_BY.get(method, "")),
            **headers,
        }
        given = {name.replace("_", "-"): value for name, value in sent.items() if value is not None}
        body = encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        ask = method if method == TOOLS_CALL else None
        return await self.http("POST", body, given, into=into, version=MODERN, ask=ask)

    async def modern_call(self, name: str, id: int | str = 1, **more: Any) -> Answered:
        return await self.modern(TOOLS_CALL, {"name": name, "arguments": {}}, id, **more)


def call(name: str, id: int | str = 1, *, token: object = None) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id, "method": TOOLS_CALL, "params": params}


def read(uri: str, id: int | str = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": RESOURCES_READ, "params": {"uri": uri}}


def pending(endpoint: Endpoint) -> int:
    """The number of answers that wait, without those to subscriptions."""
    return sum(since > 0 for since in endpoint.slow.soon.values())


def make_endpoint(router: Scripted, durable: DurableSessions | None = None) -> Endpoint:
    return Endpoint(Open(), router, Hosts(), durable or make_durable_sessions())


def make_durable_sessions(
    journal: Path | Memory | None = None,
    wall: Callable[[], float] = lambda: 1e9,
    publish: Callable[[str, bytes], None] = lambda name, fact: None,
) -> DurableSessions:
    """The durable sessions of one run of a hub, with their `journal`; all runs have one key."""
    memory = journal if isinstance(journal, Memory) else Memory(journal)
    return DurableSessions(Signer(b"k" * 32), memory, wall, "", publish)
