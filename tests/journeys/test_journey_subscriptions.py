"""Subscriptions of hosts: made, notified, ended, and made again after a restart."""

import json

import pytest
import trio
import trio.testing

from config.settings import CacheConfig
from hub.link.call_interface import Identity
from hub.routing.change_listeners import ACK_TIMEOUT_S
from hub.routing.subscription_requests import MAX_LISTENS
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house
from upstreams.subscriptions.resource_subscription import LINGER_S

A, B = "note://a", "note://b"
DESK = Identity(ALICE.principal, "other desk")
CHANGED = "notifications/tools/list_changed"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def notes(*uris):
    return [{"uri": uri, "name": uri} for uri in uris]


async def settle():
    """Let sent messages arrive."""
    await trio.sleep(0.1)
    await trio.testing.wait_all_tasks_blocked()


async def listen(host, *uris, id=None, **flags):
    """Subscribe a host to `uris` in the way of its era; returns the subscription."""
    if host.version != MODERN:
        for uri in uris:
            assert await host.result("resources/subscribe", {"uri": uri}) == {}
        await settle()
        return None
    wanted = {**flags, **({"resourceSubscriptions": list(uris)} if uris else {})}
    question = await host.start("subscriptions/listen", {"notifications": wanted}, id=id)
    await settle()
    return question


async def unlisten(host, question, *uris):
    if question is not None:
        await host.cancel(question)
    else:
        for uri in uris:
            assert await host.result("resources/unsubscribe", {"uri": uri}) == {}
    await settle()


def told(host):
    return [params["uri"] for params in host.of("notifications/resources/updated")]


def about(host, id):
    """The messages of one subscription."""
    return [
        (message["method"].removeprefix("notifications/"), message["params"])
        for message in host.heard
        if message.get("params", {}).get("_meta", {}).get(SUBSCRIPTION) == id
    ]


async def touch(fake, uri, **more):
    await fake.touch(uri, **more)
    await settle()


def deafen(fake):
    """Have an upstream know nothing of subscriptions, and declare none."""
    fake.capabilities["resources"] = {}
    fake.on["resources/subscribe"] = lambda *_: Failure(-32601, "Method not found")


# --- resources --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-1", "N-2", "N-3", "N-13", "N-15")
async def test_who_watches_is_told_and_nobody_else(pair, autojump_clock):
    fake = pair.fake(resources=notes(A, B))
    async with pair.house({"files": fake}) as (house, host):
        other = await pair.host(house, identity=DESK)
        await settle()
        question = await listen(host, A)
        await listen(other, B)
        await trio.sleep(1)  # then there is one stream
        assert fake.watched() == [A, B]
        await touch(fake, A)
        assert (told(host), told(other)) == ([A], [])
        await touch(fake, B)
        await touch(fake, A)
        assert (told(host), told(other)) == ([A, A], [B])
        await unlisten(host, question, A)
        await touch(fake, A)
        assert told(host) == [A, A]
        await trio.sleep(LINGER_S + 1)
        assert fake.watched() == [B]


@pytest.mark.covers("F-H-24")
async def test_two_hosts_on_one_resource_and_one_leaves(pair, autojump_clock):
    fake = pair.fake(resources=notes(A))
    async with pair.house({"files": fake}) as (house, host):
        other = await pair.host(house, identity=DESK)
        await listen(host, A)
        await listen(other, A)
        assert len(fake.conversation.of("resources/subscribe")) == pair.to_legacy
        await touch(fake, A)
        assert (told(host), told(other)) == ([A], [A])
        await host.leave()
        await host.end()
        await trio.sleep(LINGER_S * 2)
        assert fake.watched() == [A]
        await touch(fake, A)
        assert (told(host), told(other)) == ([A], [A, A])
        await other.leave()
        await other.end()
        await trio.sleep(LINGER_S + 1)
        assert fake.watched() == []


@pytest.mark.covers("N-11", "F-I-12")
async def test_a_part_of_what_is_watched(pair, autojump_clock):
    fake = pair.fake(resources=notes("note://dir/", B))
    async with pair.house({"files": fake}) as (house, host):
        other = await pair.host(house, identity=DESK)
        await listen(host, "note://dir/")
        await listen(other, B)
        await trio.sleep(1)  # then there is one stream
        await touch(fake, "note://dir/x", of="note://dir/")
        await touch(fake, "note://elsewhere", of=B)
        assert (told(host), told(other)) == (["note://dir/x"], [])


async def test_hosts_are_told_in_the_names_of_their_endpoint(pair, autojump_clock):
    fakes = {"one": pair.fake(resources=notes(A)), "two": pair.fake(resources=notes(A))}
    async with pair.house(fakes) as (house, host):
        assert await host.names("resources") == [A, "hub.two+note://a"]
        narrow = await pair.host(house, endpoint="two")
        await listen(host, A, "hub.two+note://a")
        await listen(narrow, A)
        await touch(fakes["two"], A)
        assert (told(host), told(narrow)) == (["hub.two+note://a"], [A])
        await touch(fakes["one"], A)
        assert (told(host), told(narrow)) == (["hub.two+note://a", A], [A])


async def test_files_that_several_upstreams_know_are_watched_at_all_that_can(pair, autojump_clock):
    uri = "file:///w/a.md"
    fakes = {name: pair.fake(resources=notes(uri)) for name in ("one", "two", "deaf")}
    deafen(fakes["deaf"])
    async with pair.house(fakes) as (_, host):
        await host.names("resources")
        await listen(host, uri)
        assert [fake.watched() for fake in fakes.values()] == [[uri], [uri], []]
        await touch(fakes["two"], uri)
        assert told(host) == [uri]


async def test_who_takes_subscriptions_without_declaring_it_is_asked_where_it_can_be(pair, autojump_clock):
    """Legacy servers of some SDKs take subscriptions that they never declare; what a modern one declares is so."""
    fake = pair.fake(resources=notes(A))
    fake.capabilities["resources"] = {}
    async with pair.house({"files": fake}) as (_, host):
        await host.names("resources")
        if pair.from_legacy and not pair.to_legacy:
            error = await host.error("resources/subscribe", {"uri": A})
            assert (error["code"], error["data"]["uri"]) == (-32602, A)
        else:
            await listen(host, A)
        if not pair.from_legacy:
            (ack,) = host.of("notifications/subscriptions/acknowledged")
            assert ack["notifications"].get("resourceSubscriptions", []) == ([A] if pair.to_legacy else [])
        await touch(fake, A)
        assert told(host) == ([A] if pair.to_legacy else [])


@pytest.mark.covers("N-2")
async def test_what_cannot_be_watched(pair, autojump_clock):
    fakes = {"files": pair.fake(resources=notes(A, B)), "deaf": pair.fake(resources=notes("deaf://x"))}
    deafen(fakes["deaf"])
    fakes["files"].unwatchable = {B}
    async with pair.house(fakes) as (_, host):
        await host.names("resources")
        if pair.from_legacy:
            for uri, code in (("nosuch://x", -32002), ("deaf://x", -32602), (B, -32002 if pair.to_legacy else -32602)):
                error = await host.error("resources/subscribe", {"uri": uri})
                assert (error["code"], error["data"]["uri"]) == (code, uri)
            assert (await host.error("resources/subscribe", {}))["code"] == -32602
            assert await host.result("resources/unsubscribe", {"uri": "nosuch://x"}) == {}
        await listen(host, *([A] if pair.from_legacy else [A, B, "deaf://x", "nosuch://x"]))
        assert fakes["files"].watched() == [A]
        for uri in (A, B):
            await touch(fakes["files"], uri)
        assert told(host) == [A]


@pytest.mark.covers("N-17")
async def test_after_a_restart_of_the_upstream_all_is_watched_again(pair, autojump_clock):
    fake = pair.fake(resources=notes(A, B))
    async with pair.house({"files": fake}) as (house, host):
        other = await pair.host(house, identity=DESK)
        await host.names()
        await listen(host, A)
        await listen(other, A, B)
        fake.lists["resources"] = notes(A, B, "note://c")
        house.hub.supervisor.restart("files")
        await trio.sleep(5)
        assert fake.watched() == [A, B]
        assert (told(host), sorted(told(other))) == ([A], [A, B])
        await touch(fake, A)
        assert told(host) == [A, A]
        assert len(host.of("notifications/resources/list_changed")) == pair.from_legacy


async def test_a_host_subscribes_before_the_upstream_is_there(pair, autojump_clock):
    fake = pair.fake(resources=notes(A))
    ready = trio.Event()

    async def late(message, conversation):
        await ready.wait()
        return fake.answer(message)

    fake.on |= {"initialize": late, "server/discover": late}
    settings = {"files": {"era": "legacy" if pair.to_legacy else "modern"}}
    async with pair.house({"files": fake}, upstreams=settings) as (_, host):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, host, A)
            await trio.sleep(1)
            ready.set()
        await trio.sleep(2)
        assert fake.watched() == [A]
        await touch(fake, A)
        assert told(host) == [A]


async def test_a_hub_of_nobody_watching_watches_nothing(pair, autojump_clock):
    fake = pair.fake(resources=notes(A))
    async with pair.house({"files": fake}, cache=CacheConfig(enabled=False)) as (_, host):
        await host.names("resources")
        await host.result("resources/read", {"uri": A})
        await settle()
        assert fake.watched() == []
        await touch(fake, A)
        assert told(host) == []


async def test_a_slow_host_is_told_once_of_what_changed_often(pair, autojump_clock):
    """In a hub whose hosts read nothing for a while."""
    fake = pair.fake(resources=notes(A, B))
    async with pair.house({"files": fake}) as (house, host):
        await listen(host, A, B)
        await settle()
        before = len(host.heard)
        slow = stop_reading(house, host)
        for _ in range(50):
            for uri in (A, B):
                await fake.touch(uri)
        await settle()
        assert len(host.heard) == before
        slow.set()
        if pair.carrier == "http" and pair.from_legacy:
            await trio.sleep(15)
        await trio.sleep(2)
        assert sorted(told(host)) == [A, B]


def stop_reading(house, host):
    """Make the hub believe that a host has much to read, until the event is set."""
    reads = trio.Event()
    if host.carrier == "http":
        answers = [*host.open_answers.values(), *([host.listening] if host.listening else [])]
        for answer in answers:
            answer.queued_bytes = 1 << 30

        async def read():
            await reads.wait()
            for answer in answers:
                answer.queued_bytes = 0
    else:
        line_host = next(iter(house.hub.hosts))
        outbox = line_host._channel.outbox
        line_host._channel.outbox = Full()

        async def read():
            await reads.wait()
            line_host._channel.outbox = outbox

        line_host._channel.flush = read

    house.nursery.start_soon(read)
    return reads


class Full:
    queued_bytes = 1 << 30


# --- listens ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["lines", "http"])
def carrier(request):
    return request.param


@pytest.mark.covers("N-2", "N-3", "N-5", "N-7", "N-8")
async def test_several_listens_are_independent(autojump_clock, carrier):
    fake = FakeUpstream(version=L4, resources=notes(A, B))
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, MODERN)
        await host.names()
        first = await listen(host, A, id=7, toolsListChanged=True, promptsListChanged=False)
        second = await listen(host, A, B, "nosuch://x", id="7")
        await listen(host, id="lists", toolsListChanged=True, resourcesListChanged=True)
        fake.lists["tools"] = [{"name": "new", "inputSchema": {"type": "object"}}]
        await fake.conversation.tell(CHANGED)
        await settle()
        await touch(fake, A)
        await touch(fake, B)
        first_is = {"toolsListChanged": True, "resourceSubscriptions": [A]}
        assert [method for method, _ in about(host, 7)] == [
            "subscriptions/acknowledged",
            "tools/list_changed",
            "resources/updated",
        ]
        assert about(host, 7)[0][1]["notifications"] == first_is
        assert [params.get("uri") for _, params in about(host, "7")] == [None, A, B]
        assert about(host, "7")[0][1]["notifications"] == {"resourceSubscriptions": [A, B]}
        assert [method for method, _ in about(host, "lists")] == ["subscriptions/acknowledged", "tools/list_changed"]
        if carrier == "http":
            assert len(first.heard) == 3
            assert len(second.heard) == 3
        await host.cancel(first)
        await settle()
        await touch(fake, A)
        assert len(about(host, 7)) == 3
        assert len(about(host, "7")) == 4
        assert not first.done.is_set()


@pytest.mark.covers("N-2")
async def test_a_listen_does_not_wait_for_an_upstream_that_is_slow(autojump_clock, carrier):
    fakes = {"files": FakeUpstream(version=L4, resources=notes(A)), "slow": FakeUpstream(resources=notes("slow://x"))}
    fakes["slow"].on["resources/subscribe"] = lambda *_: None
    async with a_house(fakes) as house:
        host = await house.host(carrier, MODERN)
        await host.names()
        started = trio.current_time()
        await listen(host, A, "slow://x", id=1)
        await touch(fakes["files"], A)
        assert about(host, 1) == [], "nothing precedes the acknowledgement"
        await trio.sleep_until(started + ACK_TIMEOUT_S + 0.1)
        assert [method for method, _ in about(host, 1)] == ["subscriptions/acknowledged", "resources/updated"]
        assert about(host, 1)[0][1]["notifications"] == {"resourceSubscriptions": [A]}
        await trio.sleep(60)
        assert house.watched("slow") == []


@pytest.mark.covers("N-6", "N-16")
async def test_the_hub_ends_listens_in_order(autojump_clock, carrier):
    async with a_house({"files": FakeUpstream(version=L4, resources=notes(A))}) as house:
        host = await house.host(carrier, MODERN)
        await host.names()
        questions = [await listen(host, A, id=1), await listen(host, id="two", toolsListChanged=True)]
        house.hub.subscriptions.end_streams()
        for question in questions:
            result = (await question.wait())["result"]
            assert (result["resultType"], result["_meta"][SUBSCRIPTION]) == ("complete", question.id)
        await settle()
        cancelled = [params["requestId"] for params in host.of("notifications/cancelled")]
        assert set(cancelled) == ({1, "two"} if carrier == "lines" else set())
        error = await host.error("subscriptions/listen", {"notifications": {}})
        assert error["data"]["hub"] == "overloaded"


@pytest.fixture
def most_watched(monkeypatch):
    """The limit of subscriptions of a host here: a tenth of the usual one, to save time."""
    monkeypatch.setattr("hub.routing.subscription_requests.MAX_WATCHED", 100)
    return 100


@pytest.mark.covers("F-H-24")
async def test_caps(autojump_clock, carrier, most_watched):
    fake = FakeUpstream(version=L4, resources=notes(A), resourceTemplates=[{"uriTemplate": "note://{x}", "name": "n"}])
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, MODERN)
        await host.names()
        await listen(host, *[f"note://{number}" for number in range(most_watched + 50)], id=1)
        await trio.sleep(1)
        assert len(about(host, 1)[0][1]["notifications"]["resourceSubscriptions"]) == most_watched
        await listen(host, A, id=2)
        assert about(host, 2)[0][1]["notifications"] == {"resourceSubscriptions": []}
        for number in range(MAX_LISTENS - 2):
            await host.start("subscriptions/listen", {"notifications": {}}, id=f"more {number}")
        await settle()  # over lines, which of those sent at once is served first is chance
        error = await host.error("subscriptions/listen", {"notifications": {}})
        assert error["data"]["hub"] == "overloaded"
        assert "content" in await host.call("files__echo"), "listens are not calls"
        other = await house.host(carrier, MODERN, identity=BOB)
        await listen(other, A, id=1)
        assert about(other, 1)[0][1]["notifications"] == {"resourceSubscriptions": [A]}
        assert house.hub.hosts.requests.count == 0
        await host.leave()
        await trio.sleep(LINGER_S + 5)
        assert fake.watched() == [A]


async def test_a_legacy_host_that_watches_too_much(autojump_clock, carrier, most_watched):
    fake = FakeUpstream(version=L4, resourceTemplates=[{"uriTemplate": "note://{x}", "name": "n"}])
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, L4)
        await host.names()
        for number in range(most_watched):
            await host.result("resources/subscribe", {"uri": f"note://{number}"})
        error = await host.error("resources/subscribe", {"uri": A})
        assert (error["data"]["hub"], "unsubscribe" in error["message"]) == ("overloaded", True)
        assert await host.result("resources/subscribe", {"uri": "note://1"}) == {}
        assert await host.result("resources/unsubscribe", {"uri": "note://1"}) == {}
        assert await host.result("resources/subscribe", {"uri": A}) == {}


@pytest.mark.covers("N-12")
@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (None, -32602),
        ([], -32602),
        ({"toolsListChanged": 1}, -32602),
        ({"resourceSubscriptions": "note://a"}, -32602),
        ({"resourceSubscriptions": [1]}, -32602),
        ({"taskIds": ["x"]}, -32021),
    ],
)
async def test_listens_that_are_refused(autojump_clock, carrier, wanted, code):
    async with a_house({"files": FakeUpstream(version=L4)}) as house:
        host = await house.host(carrier, MODERN)
        question = await host.start("subscriptions/listen", {} if wanted is None else {"notifications": wanted})
        assert (await question.wait())["error"]["code"] == code
        if carrier == "http":
            assert question.status == (400 if code == -32021 else 200)
        assert (house.hub.subscriptions._sessions, house.hub.subscriptions._streams) == ({}, {})


@pytest.mark.covers("N-13")
async def test_each_era_has_its_own_way(autojump_clock, carrier):
    async with a_house({"files": FakeUpstream(version=L4, resources=notes(A))}) as house:
        modern, legacy = await house.host(carrier, MODERN), await house.host(carrier, L4)
        assert modern.welcome["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
        assert legacy.welcome["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
        for method in ("resources/subscribe", "resources/unsubscribe"):
            question = await modern.start(method, {"uri": A})
            assert (await question.wait())["error"]["code"] == -32601
        assert (await legacy.error("subscriptions/listen", {"notifications": {}}))["code"] == -32601


async def test_listens_that_come_and_go_leave_nothing(autojump_clock, carrier):
    fake = FakeUpstream(version=MODERN, resources=notes(A, B))
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, MODERN)
        await host.names()
        for number in range(20):
            question = await host.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": [A, B]}})
            for _ in range(number % 5):
                await trio.lowlevel.checkpoint()
            if number % 2:
                await trio.sleep(number / 50)
            await host.cancel(question)
        await settle()
        assert (house.hub.subscriptions._sessions, house.hub.subscriptions._streams) == ({}, {})
        await trio.sleep(LINGER_S + 5)
        assert fake.watched() == []
        assert house.watched("files") == []


async def test_an_upstream_error_is_relayed(autojump_clock, carrier):
    fake = FakeUpstream(version=L4, resources=notes(A))
    fake.on["resources/subscribe"] = lambda *_: Failure(-32050, "not today")
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, L4)
        await host.names()
        assert await host.error("resources/subscribe", {"uri": A}) == {"code": -32050, "message": "not today"}
        assert json.dumps(fake.watched()) == "[]"
