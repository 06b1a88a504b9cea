"""In-memory counterparts of the hub: upstreams and hosts.

`FakeUpstream` is an MCP server of either era that speaks lines over memory streams. `opener` makes a stand-in for
`upstreams.transports.choose_transport.run_session`, so that a supervisor connects to it as to a process, handshake and
all:

    fake = FakeUpstream(tools=["echo"])
    make_supervisor(Memory(None), on_change, run_session=opener({"files": fake}))

`on` decides its answers: a table from a method or `tools/call:NAME` to a handler; all other requests are answered as by
a good server. A handler gets the request and its conversation and returns a result, a `Failure`, or None for no answer;
it may write any message meanwhile.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.calls.host_exchange import HostExchange
from hub.link.call_interface import Caller, Identity, Tenant, new_conversation
from hub.link.channel import ChannelClosed
from hub.link.hub_errors import HubError, UpstreamLost, UpstreamProtocolError, UpstreamUnavailable, without_frames
from hub.link.line_channel import LineChannel, LineReader
from hub.link.outbox import Outbox
from hub.link.peer import BadPeer
from hub.wire.jsonrpc import Failure, Raw, raw
from hub.wire.mcp import L4, MODERN, SUBSCRIPTION_KEY, Era, era_of
from tests.support.schemas import Invalid, validate
from upstreams.session_contract import COMMON, Session, SessionTerms
from upstreams.sessions.session_opener import RunSession
from upstreams.subscriptions.resource_subscription import InvalidationListener
from upstreams.supervisor import Supervisor
from upstreams.transports.negotiation import about, expect_era, remember, shake_hands
from upstreams.transports.shared_stream_session import StreamSession

INFO = {"name": "fake", "version": "1"}


class NoListener:
    """Ignores every event. Satisfies `upstreams.subscriptions.resource_subscription.InvalidationListener`."""

    def resource_changed(self, uri: str) -> None: ...

    def resources_relisted(self) -> None: ...

    def subscribed(self, uri: str) -> None: ...

    def gap(self, tenant: Tenant | None) -> None: ...


def make_supervisor(
    memory: Memory,
    on_change: Callable[[str], None],
    listener_for: Callable[[str, UpstreamConfig], InvalidationListener] = lambda name, config: NoListener(),
    **more: Any,
) -> Supervisor:
    """A supervisor that tells no cache what may be stale, unless another listener is given."""
    return Supervisor(memory, on_change, listener_for, **more)


class Conversation:
    """One connection to a `FakeUpstream`, seen from its side."""

    def __init__(self, stream: trio.abc.Stream, config: Any = None) -> None:
        self.config = config
        """The revision of the upstream, as far as the fake was told."""
        self._stream = stream
        self._sending = trio.Lock()
        self._asked: dict[str, tuple[trio.Event, list[dict[str, Any]]]] = {}
        self._questions = 0
        self.received: list[dict[str, Any]] = []
        """Every message, in order."""
        self.over = False
        self.subscribed: set[str] = set()
        """The URIs that are subscribed to, at a legacy upstream."""
        self.listens: dict[int, dict[str, Any]] = {}
        """The acknowledged filters of subscriptions, by id, at a modern upstream."""

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        async with self._sending:
            await self._stream.send_all(data)

    async def say(self, message: dict[str, Any]) -> None:
        """Write one message."""
        await self.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Write a notification."""
        await self.say({"method": method, "params": params or {}})

    async def ask(self, method: str, params: dict[str, Any] | None = None, *, id: str | None = None) -> dict[str, Any]:
        """Ask the hub a question, as legacy upstreams do, and return the whole response."""
        self._questions += 1
        id = id or f"s{self._questions}"
        event, found = self._asked[id] = trio.Event(), []
        await self.say({"id": id, "method": method, "params": params or {}})
        await event.wait()
        return found[0]

    def answered(self, message: dict[str, Any]) -> str:
        """Take a response; returns a complaint, or ""."""
        waiting = self._asked.get(message["id"])
        if waiting is None or waiting[1]:
            return f"an answer to nothing that was asked, or a second one: {message}"
        waiting[1].append(message)
        waiting[0].set()
        return ""

    async def close(self) -> None:
        """Hang up."""
        await self._stream.aclose()

    def of(self, method: str) -> list[dict[str, Any]]:
        """The received messages of one method."""
        return [message for message in self.received if message.get("method") == method]


class FakeUpstream:
    """A scripted MCP server. `version` decides its era; `lists` holds entries by the key of the list's result."""

    def __init__(self, *, version: str = L4, tools: list[str] | None = None, **lists: list[dict[str, Any]]) -> None:
        self.version = version
        self.era = era_of(version)
        self.capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        self.lists: dict[str, list[dict[str, Any]]] = {
            "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools or ["echo"]],
            "prompts": [],
            "resources": [],
            "resourceTemplates": [],
            **lists,
        }
        self.page_size = 0
        self.instructions: str | None = None
        self.ttl_ms = 60_000
        self.on: dict[str, Callable[[dict[str, Any], Conversation], Any]] = {}
        """Handlers, sync or async."""
        self.conversations: list[Conversation] = []
        """All conversations that there ever were."""
        self.complaints: list[str] = []
        """Complaints of messages that its revision does not allow, for the test."""
        self.refuses = False
        """Whether new connections fail."""
        if self.lists["prompts"]:
            self.capabilities["prompts"] = {"listChanged": True}
        if self.lists["resources"] or self.lists["resourceTemplates"]:
            self.capabilities["resources"] = {"listChanged": True, "subscribe": True}
        self.unwatchable: set[str] = set()
        """Resources that cannot be subscribed to."""

    @property
    def conversation(self) -> Conversation:
        """The newest conversation that is not over; or the newest."""
        going_on = [each for each in self.conversations if not each.over]
        return (going_on or self.conversations)[-1]

    async def serve(self, stream: trio.abc.Stream, config: Any = None) -> None:
        """Serve one connection until it ends."""
        conversation = Conversation(stream, config)
        self.conversations.append(conversation)
        reader = LineReader(stream)
        try:
            async with trio.open_nursery() as nursery:
                await self._converse(conversation, reader, nursery)
                nursery.cancel_scope.cancel()
        finally:
            conversation.over = True

    async def _converse(self, conversation: Conversation, reader: LineReader, nursery: trio.Nursery) -> None:
        with suppress(ChannelClosed):
            while True:
                line = await reader.receive()
                message = json.loads(line)
                self.judge(line, message.get("method"))
                conversation.received.append(message)
                if "method" in message:
                    nursery.start_soon(self._take, message, conversation)
                elif wrong := conversation.answered(message):
                    self.complaints.append(wrong)

    def judge(self, line: bytes, method: str | None) -> None:
        """Check a message by the schema. A handshake has the schema of its own era, whichever upstream gets it."""
        version = {"server/discover": MODERN, "initialize": min(self.version, L4)}.get(method or "", self.version)
        try:
            validate(line, version, sender="client")
        except Invalid as error:
            self.complaints.append(str(error))

    async def _take(self, message: dict[str, Any], conversation: Conversation) -> None:
        method = message["method"]
        handler = self.on.get(f"{method}:{message.get('params', {}).get('name')}") or self.on.get(method)
        if handler is None and method in SUBSCRIPTIONS[self.era]:
            handler = self.answer_subscription
        result = self.answer(message) if handler is None else handler(message, conversation)
        if handler is not None and hasattr(result, "__await__"):
            result = await result
        if result is None or "id" not in message:
            return
        try:
            if isinstance(result, Failure):
                error = {"code": result.code, "message": result.message}
                if isinstance(result.data, Raw):
                    error["data"] = json.loads(bytes(result.data))
                await conversation.say({"id": message["id"], "error": error})
            else:
                await conversation.say({"id": message["id"], "result": result})
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def answer_subscription(self, message: dict[str, Any], conversation: Conversation) -> Any:
        """Subscribe or unsubscribe, as a good server of either era; a handler in `on` may wait before it does."""
        method, params = message["method"], message["params"]
        if method == "notifications/cancelled":
            conversation.listens.pop(params["requestId"], None)
            return None
        if method == "subscriptions/listen":
            wanted = params["notifications"]
            if "resourceSubscriptions" in wanted:
                uris = [uri for uri in wanted["resourceSubscriptions"] if uri not in self.unwatchable]
                wanted = {**wanted, "resourceSubscriptions": uris}
            conversation.listens[message["id"]] = wanted
            about_it = {"notifications": wanted, "_meta": {SUBSCRIPTION_KEY: message["id"]}}
            await conversation.tell("notifications/subscriptions/acknowledged", about_it)
            return None
        if params["uri"] in self.unwatchable:
            return Failure(-32002, "Resource not found", raw({"uri": params["uri"]}))
        (conversation.subscribed.add if method == "resources/subscribe" else conversation.subscribed.discard)(
            params["uri"]
        )
        return {}

    async def touch(self, uri: str, *, of: str | None = None, over: Conversation | None = None) -> None:
        """Report a changed resource to its subscribers, or to those of the resource that it is a part `of`; over the
        newest connection, or another."""
        watched, conversation = of or uri, over or self.conversation
        if watched in conversation.subscribed:
            await conversation.tell("notifications/resources/updated", {"uri": uri})
        for id, wanted in list(conversation.listens.items()):
            if watched in wanted.get("resourceSubscriptions", ()):
                params = {"uri": uri, "_meta": {SUBSCRIPTION_KEY: id}}
                await conversation.tell("notifications/resources/updated", params)

    def watched(self, over: Conversation | None = None) -> list[str]:
        """The URIs that the hub is subscribed to here, over the newest connection, or another."""
        conversation = over or self.conversation
        listens = conversation.listens.values()
        listened = [uri for wanted in listens for uri in wanted.get("resourceSubscriptions", ())]
        return sorted([*conversation.subscribed, *listened])

    async def end_listens(self) -> None:
        """End all subscriptions, in order."""
        for id in list(self.conversation.listens):
            del self.conversation.listens[id]
            await self.conversation.say(
                {"id": id, "result": {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: id}}}
            )

    def answer(self, message: dict[str, Any]) -> Any:
        """The answer of a good server."""
        method, params = message["method"], message.get("params", {})
        modern = self.era is Era.MODERN
        complete = {"resultType": "complete"} if modern else {}
        about_us = {"instructions": self.instructions} if self.instructions else {}
        if method == "server/discover" and modern:
            meta = {"io.modelcontextprotocol/serverInfo": INFO}
            known = {"supportedVersions": [self.version], "capabilities": self.capabilities, "_meta": meta}
            return {**complete, **self._freshness(), **known, **about_us}
        if method == "initialize" and not modern:
            known = {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": INFO}
            return {**known, **about_us}
        if method in LISTS:
            return {**complete, **self._freshness(), **self._page(LISTS[method], params.get("cursor"))}
        if method == "tools/call":
            return {**complete, "content": [{"type": "text", "text": json.dumps(params)}]}
        if method == "prompts/get":
            content = {"type": "text", "text": json.dumps(params)}
            return {**complete, "messages": [{"role": "user", "content": content}]}
        if method == "resources/read":
            return {**complete, **self._freshness(), "contents": [{"uri": params["uri"], "text": json.dumps(params)}]}
        if method == "completion/complete":
            return {**complete, "completion": {"values": ["one", "two"]}}
        if method in ("ping", "logging/setLevel") and not modern:
            return {}
        return Failure(-32601, "Method not found") if "id" in message else None

    def _freshness(self) -> dict[str, Any]:
        return {"ttlMs": self.ttl_ms, "cacheScope": "public"} if self.era is Era.MODERN else {}

    def _page(self, key: str, cursor: str | None) -> dict[str, Any]:
        entries = self.lists[key]
        if not self.page_size:
            return {key: entries}
        start = int(cursor or 0)
        end = start + self.page_size
        more = {"nextCursor": str(end)} if end < len(entries) else {}
        return {key: entries[start:end], **more}

    def open(self, config: Any, name: str, events: Any, memory: Any, terms: SessionTerms = COMMON) -> "FakeSession":
        """A session, to be run."""
        return FakeSession(self, config, name, events, memory, terms)


SUBSCRIPTIONS = {
    Era.LEGACY: ("resources/subscribe", "resources/unsubscribe"),
    Era.MODERN: ("subscriptions/listen", "notifications/cancelled"),
}
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


class FakeSession(StreamSession):
    """The hub's session with a `FakeUpstream`: real, but without a process."""

    transport = "stdio"

    def __init__(
        self, fake: FakeUpstream, config: Any, name: str, events: Any, memory: Any, terms: SessionTerms
    ) -> None:
        super().__init__(name, events, terms)
        self._fake = fake
        self._config = config
        self._memory = memory

    async def run(self, started: Callable[[Session], None]) -> None:
        if self._fake.refuses:
            raise UpstreamUnavailable(f"{self.name} cannot be started: it refuses", upstream=self.name)
        ours, theirs = trio.testing.memory_stream_pair()
        error: HubError = UpstreamLost(f"{self.name} hung up", upstream=self.name)
        with self._scope:
            async with trio.open_nursery() as nursery:
                outbox = Outbox(ours, nursery, self._scope.cancel)
                self._attach(LineChannel(LineReader(ours), outbox), outbox)
                nursery.start_soon(self._fake.serve, theirs)
                nursery.start_soon(self._read)
                try:
                    expected = expect_era(self._config, self._memory)
                    with trio.fail_after(self._config.timeouts.start):
                        self._agreed(await shake_hands(self.peer, self._config, expected, self.terms.capabilities))
                    remember(self._config, self._memory, self.facts)
                    started(self)
                    nursery.start_soon(self._watch_silence, self._ping)
                except HubError as refusal:
                    error = about(refusal, self.name)
                    self._scope.cancel()
                except trio.TooSlowError:
                    error = UpstreamUnavailable(f"{self.name} shook no hands", upstream=self.name)
                    self._scope.cancel()
                except (ChannelClosed, BadPeer):
                    self._scope.cancel()
        if self._fault:
            error = UpstreamProtocolError(f"{self.name} {self._fault}", upstream=self.name)
        raise without_frames(error)

    async def _read(self) -> None:
        await self._listen()
        self._scope.cancel()


def opener(fakes: dict[str, FakeUpstream]) -> RunSession:
    """A `run_session` that finds fakes by the name of the upstream."""

    async def run_session(
        config: Any, name: str, events: Any, memory: Any, terms: SessionTerms, started: Callable[[Session], None]
    ) -> None:
        await fakes[name].open(config, name, events, memory, terms).run(started)

    return run_session


async def running(session: FakeSession, *, task_status: trio.TaskStatus[None]) -> None:
    """Run a session, for `nursery.start`."""
    await session.run(lambda session: task_status.started())


class FakeHost(HostExchange):
    """The host's end of an operation, which records all messages to the host."""

    def __init__(
        self,
        *,
        principal: str = "me",
        host: str = "host",
        version: str = L4,
        token: object = None,
        level: str | None = None,
        capabilities: dict[str, Any] | None = None,
        conversation: int | None = None,
        program: str = "",
    ) -> None:
        """`conversation`: the number of one that lasts; None: the request stands alone."""
        self.sent: list[dict[str, Any]] = []
        declared = {name: raw(value) for name, value in (capabilities or {}).items()}
        super().__init__(
            Caller(
                Identity(principal, host),
                version,
                declared,
                level,
                conversation or new_conversation(),
                lasting=conversation is not None,
                program_name=program,
            ),
            lambda message, **_: self.sent.append(json.loads(message)),
            progress_token=None if token is None else raw(token),
        )


__all__ = ["MODERN", "Conversation", "FakeHost", "FakeSession", "FakeUpstream", "opener", "running"]
