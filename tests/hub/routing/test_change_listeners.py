"""Listeners by themselves: filters, names, what is said when, what is taken back."""

import json

import pytest
import trio
import trio.testing

from hub.catalog.endpoint_views import EVERYTHING, server_view
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.hub_errors import Overloaded, UpstreamUnavailable
from hub.link.sealing import Sealer
from hub.routing.change_listeners import ACK_TIMEOUT_S, RETRY_S, read_filter
from hub.routing.live_catalog import LiveCatalog
from hub.routing.subscription_requests import Subscriptions
from hub.routing.view_catalogs import ShownServers
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Request, Result, raw
from hub.wire.mcp import L4, MODERN, TASKS_EXTENSION, Kind
from hub.wire.total_item_limit import MAX_ITEMS, MAX_STRINGS
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from tests.support.fakes import FakeHost, NoListener
from upstreams.subscriptions.session_subscriptions import SessionSubscriptions

A, B = "note://a", "note://b"


class Side:
    """An upstream that agrees to everything but what is in `verdicts`."""

    settling, has_reported, knows_tools = False, True, True

    def __init__(self, name, *uris):
        lists = dict.fromkeys(Kind, ()) | {Kind.RESOURCE: tuple(ListEntry(uri, {"uri": raw(uri)}) for uri in uris)}
        capabilities = {"resources": raw({"subscribe": True})}
        self.snapshot = Snapshot(name, L4, capabilities, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)
        self.watches = SessionSubscriptions(name, NoListener())
        self.verdicts = {}
        self.slow = {}

    def is_subscribed(self, uri, holder):
        return self.watches.is_held(uri, holder)

    def unsubscribe(self, uri, holder):
        self.watches.unsubscribe(uri, holder)

    async def subscribe(self, uri, holder):
        if uri in self.slow:
            await trio.sleep(self.slow[uri])
        verdict = self.verdicts.get(uri)
        if isinstance(verdict, Exception):
            raise verdict
        if verdict is None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.watches.subscribe, uri, holder)
                await trio.testing.wait_all_tasks_blocked()
                for watch in self.watches:
                    if watch.uri == uri:
                        self.watches.confirm(watch)
        return verdict


class Session:
    """The part of a legacy host that is told things."""

    def __init__(self):
        self.told_of = []
        self.watching = []

    @property
    def session(self):
        return self

    def tell(self, subject, message):
        self.told_of.append((subject, json.loads(message)))

    def watches(self, uri, *, on):
        self.watching.append((uri, on))


class Doors:
    """The ways to upstreams, and those that are refused."""

    def __init__(self, upstreams):
        self.upstreams = upstreams
        self.refused = set()

    async def subscribe(self, route, uri, viewer, subscriber):
        return await self.upstreams[route.upstream].subscribe(route.original, subscriber)

    def refusal(self, route, uri, viewer):
        return Failure(-32060, "refused") if (route.upstream, uri) in self.refused else None


class World:
    """What hosts are shown."""

    def __init__(self, *sides, tasks=None):
        self.upstreams = {side.snapshot.upstream: side for side in sides}
        rules = Rules(tuple(UpstreamRule(name) for name in self.upstreams))
        live = LiveCatalog(ShownServers(self.upstreams, rules, UriClaims(), Sealer(b"k" * 32), lambda: None))
        live.servers.claims_for_good = True
        live.rebuild()
        self.settled = live.settled
        self.settled.set()
        self.subscriptions = Subscriptions(live, tasks)
        self.subscriptions.doors = Doors(self.upstreams)

    async def subscribe(self, host, uri):
        return await self.subscriptions.subscribe(Request(1, "resources/subscribe", {"uri": raw(uri)}), host)


def legacy():
    host = FakeHost(version=L4)
    host.host = Session()
    return host


def listening(**wanted):
    return Request(5, "subscriptions/listen", {"notifications": raw(wanted)})


@pytest.mark.covers("N-2", "N-3")
async def test_nothing_is_said_before_the_acknowledgement(autojump_clock, nursery):
    side = Side("files", A, B)
    world = World(side)
    side.slow = {B: 60}
    host = FakeHost(version=MODERN)
    nursery.start_soon(
        world.subscriptions.listen, listening(toolsListChanged=True, resourceSubscriptions=[A, B, A]), host
    )
    await trio.sleep(1)
    for _ in range(5):
        side.watches.updated(A)
        world.subscriptions.list_changed({Kind.TOOL, Kind.PROMPT}, EVERYTHING)
        world.subscriptions.list_changed({Kind.TOOL}, server_view("files"))
    assert host.sent == []
    await trio.sleep(ACK_TIMEOUT_S)
    meta = {"io.modelcontextprotocol/subscriptionId": 5}
    assert [message["method"].removeprefix("notifications/") for message in host.sent] == [
        "subscriptions/acknowledged",
        "resources/updated",
        "tools/list_changed",
    ]
    assert all(message["params"]["_meta"] == meta for message in host.sent)
    honoured = {"toolsListChanged": True, "resourceSubscriptions": [A]}
    assert host.sent[0]["params"]["notifications"] == honoured
    await trio.sleep(100)
    assert [watch.uri for watch in side.watches] == [A]
    assert len(host.sent) == 3


async def test_a_host_that_reads_late_is_told_once(autojump_clock, nursery):
    side = Side("files", A, B)
    world = World(side)
    host = FakeHost(version=MODERN)
    reads, sent = True, []

    def send(message, *, vital=False):
        if reads or vital:
            sent.append(json.loads(message))
        return reads or vital

    host.send = send
    nursery.start_soon(world.subscriptions.listen, listening(resourceSubscriptions=[A, B]), host)
    await trio.sleep(1)
    reads = False
    for uri in (A, B, A, A):
        side.watches.updated(uri)
    await trio.sleep(10)
    assert len(sent) == 1
    reads = True
    await trio.sleep(2 * RETRY_S)
    assert [message["params"]["uri"] for message in sent[1:]] == [A, B]
    side.watches.updated(A)
    assert len(sent) == 4


@pytest.mark.covers("N-6")
async def test_the_end_says_what_was_left_to_say(autojump_clock, nursery):
    side = Side("files", A)
    world = World(side)
    host = FakeHost(version=MODERN)
    replies = []

    async def listen():
        replies.append(await world.subscriptions.listen(listening(resourceSubscriptions=[A]), host))

    nursery.start_soon(listen)
    await trio.sleep(1)
    side.watches.updated(A)
    world.subscriptions.end_streams()
    await trio.sleep(1)
    assert len(host.sent) == 2
    assert isinstance(replies[0], Result)
    assert json.loads(bytes(replies[0].value))["_meta"]["io.modelcontextprotocol/subscriptionId"] == 5
    assert next(iter(side.watches)).subscribers == {}
    with pytest.raises(Overloaded):
        await world.subscriptions.listen(listening(), host)


async def test_a_session_is_told_until_it_is_over(autojump_clock):
    side = Side("files", A)
    world = World(side)
    host = legacy()
    assert isinstance(await world.subscribe(host, A), Result)
    assert isinstance(await world.subscribe(host, A), Result)
    side.watches.updated(A)
    message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": A}}
    assert host.host.told_of == [(f"updated {A}", message)]
    world.subscriptions.left(host.caller.tenant)
    side.watches.updated(A)
    assert len(host.host.told_of) == 1
    assert (world.subscriptions._sessions, world.subscriptions._streams) == ({}, {})


async def test_a_subscription_that_comes_too_late_for_its_session_is_taken_back(autojump_clock, nursery):
    side = Side("files", A)
    world = World(side)
    side.slow = {A: 5}
    host = legacy()
    nursery.start_soon(world.subscribe, host, A)
    await trio.sleep(1)
    world.subscriptions.left(host.caller.tenant)
    await trio.sleep(10)
    side.watches.updated(A)
    assert host.host.told_of == []
    assert next(iter(side.watches)).subscribers == {}


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Failure(-32050, "no"), -32050), (UpstreamUnavailable("it is away"), -32603), (Failure(-32601, "no"), -32601)],
)
async def test_what_is_refused_is_not_held(autojump_clock, verdict, code):
    side = Side("files", A)
    world = World(side)
    side.verdicts = {A: verdict}
    host = legacy()
    reply = await world.subscribe(host, A)
    assert isinstance(reply, Failure)
    assert reply.code == code
    side.verdicts = {}
    assert isinstance(await world.subscribe(host, A), Result)


async def test_one_owner_of_several_is_enough(autojump_clock):
    uri = "file:///x"
    one, two, three = Side("one", uri), Side("two", uri), Side("three", uri)
    world = World(one, two, three)
    one.verdicts = {uri: Failure(-32002, "not mine")}
    three.slow = {uri: 600}
    host = legacy()
    started = trio.current_time()
    assert isinstance(await world.subscribe(host, uri), Result)
    assert trio.current_time() - started <= ACK_TIMEOUT_S
    two.watches.updated(uri)
    assert len(host.host.told_of) == 1


def test_filters():
    wanted = read_filter(listening(toolsListChanged=True, promptsListChanged=False, more=1, taskIds=["t", "t"]))
    assert (wanted.lists, wanted.uris, wanted.tasks) == (frozenset({"toolsListChanged"}), None, ["t"])
    too_many = ["a"] * (MAX_STRINGS + 1)
    for wrong in (
        {"toolsListChanged": "yes"},
        {"taskIds": {}},
        {"resourceSubscriptions": [A, None]},
        {"resourceSubscriptions": too_many},
        {"taskIds": too_many},
    ):
        with pytest.raises(RemoteProtocolError):
            read_filter(listening(**wrong))
    with pytest.raises(RemoteProtocolError):
        read_filter(Request(1, "subscriptions/listen", {}))


@pytest.mark.covers("N-12")
async def test_tasks_are_for_hosts_that_know_them(autojump_clock, nursery):
    gone = []
    refused = await World(Side("files")).subscriptions.listen(listening(taskIds=["t"]), FakeHost(version=MODERN))
    assert isinstance(refused, Failure)
    assert (refused.code, TASKS_EXTENSION in bytes(refused.data).decode()) == (-32021, True)

    class Tasks:
        async def listen(self, ids, stream):
            stream.notify("task", "notifications/tasks", {"taskId": raw("t")})
            return ids[:1]

        def unlisten(self, stream):
            gone.append(stream)

    world = World(Side("files"), tasks=Tasks())
    host = FakeHost(version=MODERN, capabilities={"extensions": {TASKS_EXTENSION: {}}})
    with trio.move_on_after(1):
        await world.subscriptions.listen(listening(taskIds=["t", "other"]), host)
    assert host.sent[0]["params"]["notifications"] == {"taskIds": ["t"]}
    assert host.sent[1]["params"]["taskId"] == "t"
    assert len(gone) == 1


@pytest.mark.covers("SEC-13", "I-3")
def test_a_listen_for_a_crowd_is_refused():
    with pytest.raises(RemoteProtocolError, match="notifications has more than 100000 items"):
        read_filter(listening(resourceSubscriptions=["x"] * (MAX_ITEMS + 1)))


async def test_what_is_refused_while_its_owner_is_asked_is_not_watched(autojump_clock, nursery):
    side = Side("files", A)
    world, host, replies = World(side), legacy(), []
    side.slow = {A: 2}

    async def subscribe():
        replies.append(await world.subscribe(host, A))

    nursery.start_soon(subscribe)
    await trio.sleep(1)
    world.subscriptions.doors.refused.add(("files", A))
    world.subscriptions.judge()
    await trio.sleep(10)
    assert isinstance(replies[0], Failure)
    assert next(iter(side.watches)).subscribers == {}


async def test_one_owner_that_is_refused_leaves_the_others(autojump_clock):
    uri = "file:///x"
    one, two = Side("one", uri), Side("two", uri)
    world, host = World(one, two), legacy()
    await world.subscribe(host, uri)
    world.subscriptions.doors.refused.add(("one", uri))
    world.subscriptions.judge()
    assert len(host.host.told_of) == 1
    one.watches.updated(uri)
    assert len(host.host.told_of) == 1
    two.watches.updated(uri)
    assert len(host.host.told_of) == 2
