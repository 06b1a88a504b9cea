"""Watching resources over HTTP: streams of modern servers, what legacy ones forget."""

from contextlib import suppress
from typing import Any

import pytest
import trio

from config.remembered_facts import Memory
from hub.link.call_interface import Operation
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeHost, make_supervisor
from tests.support.http_fixture import config_for, note, running
from tests.support.http_peer import PeerRequest, Script, Talk, http_peer

A = "note://a"
FILTER = {"notifications": raw({})}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Reader:
    """A holder."""

    def __init__(self) -> None:
        self.exchange = FakeHost()
        self.host = self.exchange.caller.tenant
        self.heard: list[str] = []
        self.news = trio.Event()

    def updated(self, upstream: str, uri: str) -> None:
        self.heard.append(uri)
        self.news.set()
        self.news = trio.Event()


class Listened(Script):
    """A modern server that keeps its streams."""

    def __init__(self) -> None:
        super().__init__("modern", capabilities={"resources": {"subscribe": True}})
        self.open: dict[int, Talk] = {}
        self.ended: list[int] = []
        self.on["subscriptions/listen"] = self.listen

    async def listen(self, request: PeerRequest, talk: Talk) -> None:
        id, wanted = request.json["id"], request.json["params"]["notifications"]
        await talk.stream()
        params: dict[str, Any] = {"notifications": wanted, "_meta": {SUBSCRIPTION: id}}
        await talk.event(note("notifications/subscriptions/acknowledged", **params))
        self.open[id] = talk
        with suppress(trio.ClosedResourceError):
            await talk.gone()
        del self.open[id]
        self.ended.append(id)

    async def tell(self, uri: str) -> None:
        for id, talk in self.open.items():
            await talk.event(note("notifications/resources/updated", uri=uri, _meta={SUBSCRIPTION: id}))


async def until(condition: Any) -> None:
    """Wait for something that a real socket brings."""
    with trio.fail_after(30):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)


@pytest.mark.covers("N-4", "T-16")
async def test_a_modern_server_is_listened_to_on_one_stream_at_a_time(nursery: trio.Nursery) -> None:
    script = Listened()
    async with http_peer(script) as peer:
        supervisor = make_supervisor(Memory(None), lambda name: None)
        await nursery.start(supervisor.run, {"far": config_for(peer)})
        upstream, reader = supervisor.upstreams["far"], Reader()
        assert await upstream.subscribe(A, reader) is None
        await until(lambda: len(script.open) == 1)
        news = reader.news
        await script.tell(A)
        await news.wait()
        assert await upstream.subscribe("note://b", reader) is None
        await until(lambda: len(script.open) == 1 and len(script.ended) == 1)
        news = reader.news
        await script.tell("note://b")
        await news.wait()
        assert reader.heard == [A, "note://b"]
        listens = [request for request in peer.requests if request.rpc == "subscriptions/listen"]
        assert [request.headers["mcp-method"] for request in listens] == ["subscriptions/listen"] * 2
        assert listens[1].json["params"]["notifications"] == {"resourceSubscriptions": [A, "note://b"]}
        nursery.cancel_scope.cancel()


@pytest.mark.covers("N-16", "N-17")
@pytest.mark.parametrize("breaks", [False, True])
async def test_what_is_on_its_way_over_the_old_stream_is_not_lost(nursery: trio.Nursery, *, breaks: bool) -> None:
    script = Listened()
    async with http_peer(script) as peer:
        supervisor = make_supervisor(Memory(None), lambda name: None)
        await nursery.start(supervisor.run, {"far": config_for(peer)})
        upstream, reader = supervisor.upstreams["far"], Reader()
        assert await upstream.subscribe(A, reader) is None
        await until(lambda: len(script.open) == 1)
        [old] = script.open.values()
        assert await upstream.subscribe("note://b", reader) is None
        news = reader.news
        if breaks:
            await old.cut()
        else:
            await old.event(note("notifications/resources/updated", uri=A, _meta={SUBSCRIPTION: min(script.open)}))
        with trio.fail_after(30):
            await news.wait()
        await until(lambda: len(script.open) == 1)
        assert reader.heard == [A]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("status", [400, 404, 200])
async def test_a_server_that_refuses_to_be_listened_to_stays(status: int) -> None:
    script = Script("modern")

    async def refuse(request: PeerRequest, talk: Talk) -> None:
        error = {"jsonrpc": "2.0", "id": request.json["id"], "error": {"code": -32601, "message": "no such method"}}
        await talk.reply(error, status=status)

    script.on["subscriptions/listen"] = refuse
    async with running(script) as it:
        reply = await it.session.listen(FILTER, lambda notification: None)
        assert reply == Failure(-32601, "no such method")
        assert await it.call() is not None
        assert not it.over


@pytest.mark.covers("N-17", "T-33")
async def test_a_legacy_server_that_forgot_the_session_is_subscribed_to_again(nursery: trio.Nursery) -> None:
    subscribed: list[tuple[int, str]] = []
    script = Script(capabilities={"resources": {"subscribe": True}, "tools": {}})

    async def subscribe(request: PeerRequest, talk: Talk) -> None:
        subscribed.append((script.sessions, request.json["params"]["uri"]))
        await talk.reply(request.result({}))

    script.on["resources/subscribe"] = subscribe
    async with http_peer(script) as peer:
        supervisor = make_supervisor(Memory(None), lambda name: None)
        await nursery.start(supervisor.run, {"far": config_for(peer, era="legacy", session_mode="shared")})
        upstream, reader = supervisor.upstreams["far"], Reader()
        assert await upstream.subscribe(A, reader) is None
        script.forget()
        news = reader.news
        assert await upstream.call(Operation("tools/call", {"name": raw("echo")}), reader.exchange)
        with trio.fail_after(30):
            await news.wait()
        assert subscribed == [(1, A), (102, A)]
        assert reader.heard == [A]
        nursery.cancel_scope.cancel()


async def test_a_legacy_session_has_no_streams_to_listen_to() -> None:
    async with running(Script()) as it:
        with pytest.raises(UpstreamUnavailable):
            await it.session.listen(FILTER, lambda notification: None)
        assert it.session.facts.version in (L4, MODERN)
