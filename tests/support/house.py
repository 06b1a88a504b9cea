"""A whole hub in memory: fake upstreams below, hosts above, and a judge at every wire.

    async with a_house({"files": FakeUpstream()}) as house:
        host = await house.host("lines", L4)
        answer = await host.ask("tools/call", {"name": "files__echo"})

Hosts speak either era over either carrier: `lines` (the shim, stdio) or `http` (the endpoint; its HTTP server is left
out). Every message that a host or an upstream receives is checked by the schema of its revision, and at the end of the
block nothing may be running in the house any more.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio
import trio.testing

from cache.redis.store import RedisStore
from config.remembered_facts import Memory
from config.settings import HubConfig, UpstreamConfig
from hub.app import Hub
from hub.bridge.url_elicitation import SignInGuide
from hub.catalog.endpoint_views import EVERYTHING
from hub.control.answers import LimitStatus
from hub.daemon.api import DaemonApi
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.endpoint import Endpoint
from hub.downstream.lines import connection
from hub.downstream.lines.preamble import Preamble
from hub.link.call_interface import Identity
from hub.link.sealing import Sealer
from hub.projects.find_project_of_host import TrustedProjects
from hub.rules.audit.writer import Audit
from hub.wire.http.mirror_headers import encode_header
from hub.wire.jsonrpc import Failure, Wire
from hub.wire.mcp import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    L4,
    LOG_LEVEL_KEY,
    MODERN,
    NAMED_BY,
    VERSION_KEY,
    Era,
    era_of,
)
from tests.support.fakes import FakeUpstream, opener
from tests.support.http_fakes import Answered, Host, Open, make_durable_sessions, pending
from tests.support.parking import statistics_of
from tests.support.schemas import Invalid, validate
from upstreams.inventory.last_known_lists import LastKnown

ALICE = Identity("alice", "desk")
BOB = Identity("bob", "desk")


class Question:
    """A request that a host has sent, its notifications, and its response."""

    def __init__(self, id: int | str, method: str) -> None:
        self.id = id
        self.method = method
        self.heard: list[dict[str, Any]] = []
        """Over HTTP, the notifications of its stream; over lines, progress under its token."""
        self.answer: dict[str, Any] | None = None
        self.status: int | None = None
        self.done = trio.Event()
        self.token: object = None

    async def wait(self) -> dict[str, Any]:
        """The response."""
        await self.done.wait()
        assert self.answer is not None, "there was no response"
        return self.answer

    def take(self, message: dict[str, Any]) -> str:
        """Record a message; returns a complaint, or ""."""
        wrong = f"after the response to {self.method}: {message}" if self.done.is_set() else ""
        if "method" in message:
            self.heard.append(message)
        else:
            self.answer = message
            self.done.set()
        return wrong


class JudgedHost:
    """A host that checks each message it gets. Subclasses carry its messages."""

    carrier = ""
    nursery: trio.Nursery

    def __init__(self, version: str, identity: Identity, endpoint: str) -> None:
        self.version = version
        self.identity = identity
        self.endpoint = endpoint
        """Last segment of its path; "": /mcp."""
        self.era = era_of(version)
        self.welcome: dict[str, Any] = {}
        """The result of the handshake, or of `server/discover`."""
        self.level: str | None = None
        self.capabilities: dict[str, Any] = {}
        self.heard: list[dict[str, Any]] = []
        """Every notification, in order."""
        self.complaints: list[str] = []
        self.hasty = False
        self.sequence = iter(range(1, 1 << 30))
        self.workplace: Path | None = None
        self.program = "host"
        """The name that it gives itself."""
        self.is_bound = False
        self.on: dict[str, Callable[[dict[str, Any]], Any]] = {}
        """Its answers to questions, by method: a function from params to a result or a `Failure`, sync or async. Other
        questions stay open."""
        self.via = ""
        """The tool of the hub by which it calls all others; "": it calls them by their names."""
        self.asked: list[dict[str, Any]] = []
        """Every question: the request (legacy), or the input request with its key as `id` (modern)."""

    def __repr__(self) -> str:
        return f"<host {self.identity.principal} {self.version} over {self.carrier}>"

    # --- of subclasses

    async def open(self) -> None:
        raise NotImplementedError

    async def send(self, message: dict[str, Any], question: Question | None) -> None:
        """Send a message; returns when it is on its way."""
        raise NotImplementedError

    async def cancel(self, question: Question) -> None:
        """Cancel a request in the way of its era and carrier."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Disconnect, as if killed."""
        raise NotImplementedError

    def cancel_now(self, hub: Hub) -> None:
        """Cancel all running requests without a checkpoint: for a sweep over checkpoints."""
        raise NotImplementedError

    def kill_now(self) -> None:
        """Cancel the tasks of the hub that serve this host."""
        raise NotImplementedError

    async def end(self) -> None:
        """End the session."""

    # --- of all hosts

    async def start_without_waiting(self, method: str, params: dict[str, Any], **more: Any) -> Question:
        """Send a request and return before the hub has run."""
        self.hasty = True
        try:
            return await self.start(method, params, **more)
        finally:
            self.hasty = False

    async def greet(self) -> None:
        """Shake hands, or discover."""
        if self.era is Era.MODERN:
            self.welcome = (await self.ask("server/discover"))["result"]
            return
        about = {"name": self.program, "version": "1"}
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": about}
        self.welcome = (await self.ask("initialize", params))["result"]
        assert self.welcome["protocolVersion"] == self.version
        await self.tell("notifications/initialized")

    async def start(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        id: int | str | None = None,
        token: object = None,
        meta: dict[str, Any] | None = None,
    ) -> Question:
        """Send a request; returns its `Question`, which is answered later."""
        params = dict(params or {})
        if self.via and method == "tools/call":
            called = {"name": params["name"], "arguments": params.get("arguments", {})}
            params |= {"name": self.via, "arguments": called}
        meta = dict(meta or {})
        if token is not None:
            meta["progressToken"] = token
        if self.era is Era.MODERN:
            about = {"name": self.program, "version": "1"}
            meta = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: self.capabilities, CLIENT_INFO_KEY: about, **meta}
            if self.level is not None:
                meta.setdefault(LOG_LEVEL_KEY, self.level)
        if meta:
            params["_meta"] = meta
        question = Question(next(self.sequence) if id is None else id, method)
        question.token = token
        message = {"jsonrpc": "2.0", "id": question.id, "method": method, "params": params}
        await self.send(message, question)
        return question

    async def ask(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Send a request and wait for its response."""
        return await (await self.start(method, params, **more)).wait()

    async def result(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Send a request that succeeds and return its result; `on` answers questions meanwhile."""
        answer = await self.ask(method, params, **more)
        assert "result" in answer, answer
        while self.on and answer["result"].get("resultType") == "input_required":
            answer = await self.ask(method, await self.fulfil(params, answer["result"]), **more)
            assert "result" in answer, answer
        return answer["result"]

    async def fulfil(self, params: dict[str, Any] | None, result: dict[str, Any]) -> dict[str, Any]:
        """The params of a retry, with an answer to each question that `on` answers."""
        responses = {}
        for key, request in result.get("inputRequests", {}).items():
            self.asked.append({"id": key, **request})
            if request["method"] in self.on:
                reply = await self.reply_to(request)
                if not isinstance(reply, Failure):
                    responses[key] = reply
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return {**(params or {}), "inputResponses": responses, **state}

    async def reply_to(self, request: dict[str, Any]) -> Any:
        """The answer of `on` to a question."""
        reply = self.on[request["method"]](request.get("params", {}))
        return await reply if hasattr(reply, "__await__") else reply

    async def answer(self, request: dict[str, Any]) -> None:
        """Answer a question that came as a request."""
        reply = await self.reply_to(request)
        if isinstance(reply, Failure):
            said: dict[str, Any] = {"error": {"code": reply.code, "message": reply.message}}
        else:
            said = {"result": reply}
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # it may have been killed meanwhile
            await self.send({"jsonrpc": "2.0", "id": request["id"], **said}, None)

    def was_asked(self, request: dict[str, Any]) -> None:
        """Take a question that came as a request."""
        self.asked.append(request)
        if self.era is Era.MODERN:
            self.complaints.append(f"{self!r} was sent a request: {request}")
        elif request["method"] in self.on:
            self.nursery.start_soon(self.answer, request)

    async def error(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Send a request that fails and return its error."""
        answer = await self.ask(method, params, **more)
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        return await self.result("tools/call", {"name": name, "arguments": arguments or {}}, **more)

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params or {}}, None)

    async def set_level(self, level: str) -> None:
        """Ask for log messages, as hosts of its era do."""
        if self.era is Era.MODERN:
            self.level = level
        else:
            assert await self.result("logging/setLevel", {"level": level}) == {}

    async def names(self, kind: str = "tools") -> list[str]:
        """The names of a list that it is shown: tools by default."""
        methods = {"resourceTemplates": "resources/templates/list"}
        by = {"resources": "uri", "resourceTemplates": "uriTemplate"}
        listed = await self.result(methods.get(kind, f"{kind}/list"))
        return [entry[by.get(kind, "name")] for entry in listed[kind]]

    def of(self, method: str) -> list[dict[str, Any]]:
        """The params of the notifications of one method."""
        return [message.get("params", {}) for message in self.heard if message["method"] == method]

    def hand(self, question: Question, message: dict[str, Any]) -> None:
        """Give a message to its request. No message may follow the response."""
        if wrong := question.take(message):
            self.complaints.append(f"{self!r}: {wrong}")

    def judge(self, data: bytes, method: str | None) -> dict[str, Any]:
        """Record a complaint if this revision does not allow the message."""
        try:
            validate(data, self.version, sender="server", method=method)
        except Invalid as error:
            self.complaints.append(f"{self!r} got an answer to {method}: {error}")
        return json.loads(data)


def preamble_of(workplace: Path | None, *, is_bound: bool, bye: bool = False) -> Preamble:
    """What the shim of a host says that works there; `is_bound`: since its user has said so."""
    place = {} if workplace is None else {"project" if is_bound else "cwd": str(workplace)}
    return Preamble(bye=bye, **place)


class LineHost(JudgedHost):
    """A host behind the shim."""

    carrier = "lines"

    def __init__(self, house: "House", version: str, identity: Identity, endpoint: str) -> None:
        super().__init__(version, identity, endpoint)
        self._house = house
        self.nursery = house.nursery
        self._stream, self._theirs = trio.testing.memory_stream_pair()
        self._sending = trio.Lock()
        self.questions: dict[int | str, Question] = {}
        self.scope_of_hub = trio.CancelScope()

    async def open(self) -> None:
        self._house.nursery.start_soon(self._serve)
        self._house.nursery.start_soon(self._listen)
        await self.greet()

    async def _serve(self) -> None:
        hub = self._house.hub
        with self.scope_of_hub:
            host = connection.LineHost(
                self._theirs,
                self.identity,
                hub.router,
                hub.hosts,
                preamble_of(self.workplace, is_bound=self.is_bound),
                view=hub.router.live.find_view(self.endpoint) or EVERYTHING,
            )
            await host.serve()
        await self._theirs.aclose()

    async def _listen(self) -> None:
        data = b""
        with suppress(trio.ClosedResourceError):
            async for chunk in self._stream:
                *lines, data = (data + chunk).split(b"\n")
                for line in lines:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        seen = json.loads(line)
        question = None if "method" in seen or "id" not in seen else self.questions.pop(seen["id"], None)
        message = self.judge(line, question.method if question else None)
        if "method" in message and "id" in message:
            self.was_asked(message)
        elif "method" in message:
            self.heard.append(message)
            if message["method"] == "notifications/progress":
                self._take_progress(message)
        elif question is None:
            self.complaints.append(f"{self!r} got what it did not ask for: {message}")
        else:
            self.hand(question, message)

    def _take_progress(self, message: dict[str, Any]) -> None:
        token = message["params"]["progressToken"]
        owners = [each for each in self.questions.values() if (type(each.token), each.token) == (type(token), token)]
        if len(owners) == 1:
            self.hand(owners[0], message)
        else:
            self.complaints.append(f"{self!r} heard of the progress of nothing that runs: {message}")

    async def send(self, message: dict[str, Any], question: Question | None) -> None:
        if question is not None:
            self.questions[question.id] = question
        async with self._sending:
            try:
                await self._stream.send_all(json.dumps(message).encode() + b"\n")
            except trio.BrokenResourceError:
                if not self.scope_of_hub.cancel_called:
                    raise

    async def cancel(self, question: Question) -> None:
        await self.tell("notifications/cancelled", {"requestId": question.id, "reason": "enough"})

    async def leave(self) -> None:
        await self._stream.aclose()

    def cancel_now(self, hub: Hub) -> None:
        for each in hub.hosts:
            if each.identity == self.identity:
                each.cancel_all()

    def kill_now(self) -> None:
        self.scope_of_hub.cancel()


class HttpHost(JudgedHost):
    """A host of the endpoint."""

    carrier = "http"

    def __init__(self, house: "House", version: str, identity: Identity, endpoint: str) -> None:
        super().__init__(version, identity, endpoint)
        self._house = house
        self.nursery = house.nursery
        self.http = Host(house.endpoint, identity, f"/mcp/{endpoint}" if endpoint else "/mcp")
        self.http.version = version
        self.http.judge = lambda *_: None  # type: ignore[method-assign]  # judged here, message by message
        self.open_answers: dict[int | str, Answered] = {}
        self.listening: Answered | None = None
        self.ended = False
        self.scopes_of_hub: list[trio.CancelScope] = []

    async def open(self) -> None:
        await self.greet()
        if self.era is Era.LEGACY:
            await self.listen()

    async def listen(self) -> None:
        """Open the stream on which it is told all that belongs to no request."""
        self.listening = self.response_to(None)
        self._house.nursery.start_soon(self._get, self.listening)
        await self.listening.arrived.wait()

    async def _get(self, into: Answered) -> None:
        await self.http.get(into=into)

    def response_to(self, question: Question | None) -> Answered:
        def take(data: bytes) -> None:
            is_answer = question is not None and "method" not in json.loads(data)
            message = self.judge(data, question.method if question and is_answer else None)
            if "method" in message and "id" in message:
                self.was_asked(message)
                return
            if "method" in message:
                self.heard.append(message)
            if question is not None:
                self.hand(question, message)

        return JudgedAnswer(take)

    async def send(self, message: dict[str, Any], question: Question | None) -> None:
        if question is None:
            answered = await self.http.post(message)
            assert answered.status == (404 if self.ended else 202)
            return
        into = self.open_answers[question.id] = self.response_to(question)
        self._house.nursery.start_soon(self._post, message, question, into)
        if not self.hasty:
            await trio.testing.wait_all_tasks_blocked()

    async def _post(self, message: dict[str, Any], question: Question, into: Answered) -> None:
        with trio.CancelScope() as scope:
            self.scopes_of_hub.append(scope)
            try:
                await self._post_to_the_end(message, question, into)
            finally:
                self.scopes_of_hub.remove(scope)
                question.status = into.status
                del self.open_answers[question.id]

    async def _post_to_the_end(self, message: dict[str, Any], question: Question, into: Answered) -> None:
        method, params = message["method"], message["params"]
        if self.era is Era.MODERN:
            meta = params.pop("_meta")
            name = params.get(NAMED_BY.get(method, ""))
            header = encode_header(name).decode() if isinstance(name, str) else None
            await self.http.modern(method, params, question.id, meta=meta, into=into, mcp_name=header)
        elif method == "initialize":
            await self.http.post(message, into=into, mcp_protocol_version=None)
            self.http.session = into.headers["Mcp-Session-Id"]
        else:
            await self.http.post(message, into=into)

    async def cancel(self, question: Question) -> None:
        if self.era is Era.MODERN:
            self.open_answers[question.id].leave()
        else:
            await self.tell("notifications/cancelled", {"requestId": question.id, "reason": "enough"})

    async def leave(self) -> None:
        for answered in [*self.open_answers.values(), *([self.listening] if self.listening else [])]:
            answered.leave()

    async def end(self) -> None:
        """End the session."""
        self.ended = True
        if self.era is Era.LEGACY:
            await self.http.http("DELETE", headers=self.http.headers(content_type=None))

    def cancel_now(self, hub: Hub) -> None:
        if self.era is Era.MODERN:
            for answered in list(self.open_answers.values()):
                answered.leave()
        else:
            [session] = [each for each in self._house.endpoint.sessions if each.id == self.http.session]
            session.cancel_all()

    def kill_now(self) -> None:
        for scope in list(self.scopes_of_hub):
            scope.cancel()


class JudgedAnswer(Answered):
    """An HTTP response that passes on its messages as they arrive."""

    def __init__(self, take: Any) -> None:
        super().__init__()
        self._take = take

    def reply(self, status: int, body: Wire = b"", *rest: Any, **more: Any) -> None:
        super().reply(status, body, *rest, **more)
        if b'"jsonrpc"' in self.body and not self.gone:
            self._take(self.body)

    def write(self, data: bytes, *, vital: bool = False) -> None:
        before = len(self.events)
        super().write(data, vital=vital)
        for _, event in self.events[before:]:
            self._take(event)


HOSTS: dict[str, type[JudgedHost]] = {"lines": LineHost, "http": HttpHost}


class House:
    """A running hub with its hosts and fake upstreams."""

    def __init__(
        self, fakes: dict[str, FakeUpstream], nursery: trio.Nursery, hub: Hub, durable: DurableSessions
    ) -> None:
        self.fakes = fakes
        self.nursery = nursery
        self.hub = hub
        self.api = DaemonApi(hub)
        self.endpoint = Endpoint(Open(), hub.router, hub.hosts, durable)
        self.hosts: list[JudgedHost] = []

    async def host(
        self,
        carrier: str = "lines",
        version: str = L4,
        *,
        identity: Identity = ALICE,
        endpoint: str = "",
        capabilities: dict[str, Any] | None = None,
        workplace: Path | None = None,
        is_bound: bool = False,
        roots: str | None = None,
        program: str = "host",
    ) -> Any:
        """Attach a host, and complete its handshake.

        `workplace` is the folder that its shim names, or, if `is_bound`, the user; `roots` is its only root.
        """
        host = HOSTS[carrier](self, version, identity, endpoint)  # type: ignore[call-arg, arg-type]
        host.capabilities = capabilities or {}
        host.workplace = workplace
        host.program = program
        host.is_bound = is_bound
        if roots is not None:
            host.capabilities["roots"] = {"listChanged": True}
            host.on["roots/list"] = lambda params: {"roots": [{"uri": roots}]}
        self.hosts.append(host)
        await host.open()
        return host

    def assert_at_rest(self) -> None:
        """Assert that nothing is running, waited for, or counted as running."""
        assert self.hub.hosts.requests.count == 0
        assert [host.calls for host in self.hub.hosts if host.calls] == []
        assert [host.asking for host in self.hub.hosts if len(host.asking)] == []
        assert pending(self.endpoint) == 0
        parking = statistics_of(self.hub.bridge.parking)
        assert (parking.asked, parking.running) == (0, 0), parking
        for upstream in self.hub.supervisor.upstreams.values():
            assert upstream.in_flight == 0, upstream
            assert self.hub.router.chains.limits.status(upstream.name) in (None, LimitStatus()), upstream
            for pool in upstream.pools:
                assert all(pooled.is_open for pooled in pool.extra_sessions), pool
                exclusive = pool._by_host
                attached = {host.tenant for host in self.hub.hosts}
                assert {tenant for tenant in exclusive if tenant.conversation} <= attached, pool
                for pooled in pool.open_sessions():
                    assert pooled.users == 0, pooled
                    if pooled.tenant is not None:
                        assert pooled in (exclusive.get(pooled.tenant), pool.opening.get(pooled.tenant)), pooled
                    assert pooled.session.running == {}, pooled  # type: ignore[attr-defined]
                    waiting = pooled.session.peer.waiting  # type: ignore[attr-defined]
                    assert waiting == pooled.session._listens.keys(), pooled  # type: ignore[attr-defined]

    def watched(self, name: str) -> list[str]:
        """The subscriptions of the hub at an upstream, session by session, with those that no host needs any more."""
        upstream = self.hub.supervisor.upstreams[name]
        sessions = [pooled for pool in upstream.pools for pooled in pool.open_sessions()]
        return [subscription.uri for pooled in sessions for subscription in pooled.subscriptions]

    def assert_watched_by_who_is_there(self) -> None:
        """Assert that only attached hosts are subscribed, each at the session that serves it."""
        attached = {host.tenant for host in self.hub.hosts}
        listening = self.hub.subscriptions._streams
        for upstream in self.hub.supervisor.upstreams.values():
            found = {}
            for pooled in [pooled for pool in upstream.pools for pooled in pool.open_sessions()]:
                for subscription in pooled.subscriptions:
                    found |= {(subscription.uri, subscriber): pooled for subscriber in subscription.subscribers}
            entries = list(upstream.host_subscriptions)
            assert {entry.host for entry in entries} <= {*attached, *listening}, entries
            held = {each: entry.pooled for entry in entries for each in entry.held}
            assert found == {each: pooled for each, pooled in held.items() if pooled is not None}
            for entry in entries:
                assert entry.held, upstream.host_subscriptions
                if entry.pooled is not None:
                    assert entry.pooled is upstream.selector.for_subscriptions(entry.exchange.caller), entry.pooled

    def assert_judged(self) -> None:
        """Assert that no message broke the rules of its revision."""
        complaints = [each for host in self.hosts for each in host.complaints]
        complaints += [each for fake in self.fakes.values() for each in fake.complaints]
        assert complaints == []


async def tasks_at_rest(*nurseries: trio.Nursery) -> int:
    """The number of tasks beneath nurseries once all are blocked; a ping may be due at that moment."""
    await trio.testing.wait_all_tasks_blocked()
    return sum(map(_tasks, nurseries))


def _tasks(nursery: trio.Nursery) -> int:
    inner = [each for task in nursery.child_tasks for each in task.child_nurseries]
    return len(nursery.child_tasks) + sum(map(_tasks, inner))


@asynccontextmanager
async def a_house(
    fakes: dict[str, FakeUpstream],
    *,
    upstreams: dict[str, dict[str, Any]] | None = None,
    memory: Memory | None = None,
    used: Memory | None = None,
    last_known: LastKnown | None = None,
    durable: DurableSessions | None = None,
    reader: TrustedProjects | None = None,
    shared: RedisStore | None = None,
    guide: SignInGuide | None = None,
    grants: Path | None = None,
    pins: Path | None = None,
    audit: Audit | None = None,
    **config: Any,
) -> AsyncIterator[House]:
    """A running hub over `fakes`; `upstreams` holds settings of some of them, `config` those of the hub. With a
    `guide`, it has people sign in."""
    more = upstreams or {}
    configs = {
        name: UpstreamConfig(**{"command": name, **more.get(name, {})}) for name in fakes if not {"@", ":"} & {*name}
    }
    whole = HubConfig(upstreams=configs, **config)
    sealer = Sealer(b"k" * 32)
    opens = opener(fakes)
    hub = Hub(
        whole,
        memory or Memory(None),
        sealer,
        run_session=opens,
        last_known=last_known,
        reader=reader,
        shared=shared,
        used=used,
        grants=grants,
        pins=pins,
        audit=audit,
    )
    if guide is not None:
        signs_in = guide

        async def find_guide() -> SignInGuide:
            return signs_in

        hub.follow_sign_ins(find_guide)
    async with trio.open_nursery() as nursery:
        await nursery.start(hub.run)
        house = House(fakes, nursery, hub, durable or make_durable_sessions())
        nursery.start_soon(house.endpoint.run)
        yield house
        await trio.testing.wait_all_tasks_blocked()
        await trio.lowlevel.checkpoint_if_cancelled()  # while it is being stopped it is not at rest
        house.assert_judged()
        house.assert_at_rest()
        house.assert_watched_by_who_is_there()
        nursery.cancel_scope.cancel()
