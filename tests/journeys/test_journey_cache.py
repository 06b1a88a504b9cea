"""Cached resources through a whole hub: one read, dropped in time, and shown only to entitled hosts."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from cache.cache_entry import DropCause
from config.settings import CacheConfig, Timeouts, UpstreamConfig
from hub.downstream.request_admission import PRINCIPAL_IN_FLIGHT
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import HUB_STALE, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house

A, B = "note://a", "note://b"
LAP = Identity(ALICE.principal, "lap")


def notes(*uris):
    return [{"uri": uri, "name": uri} for uri in uris or (A, B)]


class Shelf(FakeUpstream):
    """Has notes; what they say is how often they have changed. `more` goes into each result of a read."""

    def __init__(self, version=L4, **more):
        super().__init__(version=version, resources=notes())
        self.changes: dict[str, int] = {}
        self.more = more
        self.gate: trio.Event | None = None
        self.on["resources/read"] = self.read

    async def read(self, message, conversation):
        uri = message["params"]["uri"]
        text = str(self.changes.get(uri, 0))
        if self.gate is not None:
            await self.gate.wait()
        kind = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.version == MODERN else {}
        return {**kind, "contents": [{"uri": uri, "text": text}], **self.more}

    async def change(self, uri=A, *, part=""):
        self.changes[uri] = self.changes.get(uri, 0) + 1
        await self.touch(uri + part, of=uri)
        await trio.testing.wait_all_tasks_blocked()

    @property
    def reads(self):
        return sum(len(each.of("resources/read")) for each in self.conversations)


async def text(host, uri=A):
    return (await host.result("resources/read", {"uri": uri}))["contents"][0]["text"]


@pytest.mark.covers("K-1", "K-6")
async def test_a_time_to_live_is_passed_on_as_it_runs_out(pair, autojump_clock):
    if pair.to_legacy:
        pytest.skip("legacy upstreams say nothing of time")
    shelf = Shelf(MODERN, ttlMs=10_000, cacheScope="public")
    async with pair.house({"shelf": shelf}) as (_, host):
        first = await host.result("resources/read", {"uri": A})
        await trio.sleep(4)
        again = await host.result("resources/read", {"uri": A})
        assert shelf.reads == 1
        if not pair.from_legacy:
            assert (first["ttlMs"], first["cacheScope"]) == (10_000, "public")
            assert 5_500 < again.pop("ttlMs") <= 6_000
            del first["ttlMs"]
        assert first == again
        await trio.sleep(6)
        await text(host)
        assert shelf.reads == 2


@pytest.mark.covers("K-8", "N-11")
async def test_what_has_no_time_is_kept_while_it_is_watched(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version)
    async with pair.house({"shelf": shelf}) as (_, host):
        for _ in range(4):
            assert await text(host) == "0"
            await trio.sleep(20)
        needed = 1 if pair.to_legacy else 2
        assert (shelf.reads, shelf.watched()) == (needed, [A])
        await shelf.change()
        assert [await text(host), await text(host)] == ["1", "1"]
        await shelf.change(part="/line")
        assert await text(host) == "2"
        assert shelf.reads == needed + 2
        assert host.of("notifications/resources/updated") == [], "no host watches it"


async def test_hosts_of_every_kind_see_their_own_form(autojump_clock):
    shelf = Shelf(MODERN, ttlMs=60_000, _meta={"x.y/z": 1})
    other = Shelf(L4)
    async with a_house({"shelf": shelf, "other": other}) as house:
        for _ in range(2):
            for carrier in ("lines", "http"):
                for version in (L4, MODERN):
                    host = await house.host(carrier, version)
                    result = await host.result("resources/read", {"uri": A})
                    assert result["contents"] == [{"uri": A, "text": "0"}]
                    assert result["_meta"]["x.y/z"] == 1
                    assert ("ttlMs" in result) == (version == MODERN)
                    alone = await house.host(carrier, version, endpoint="other")
                    assert await text(alone, B) == "0"
        assert (shelf.reads, other.reads) == (1, 1)
        listed = await host.names("resources")
        tagged = next(uri for uri in listed if uri.endswith("note://a") and uri != A)
        assert (await host.result("resources/read", {"uri": tagged}))["contents"][0]["uri"] == tagged
        assert other.reads == 2
        assert (await host.result("resources/read", {"uri": tagged}))["contents"][0]["uri"] == tagged
        assert other.reads == 2


@pytest.mark.covers("K-3", "K-11", "SEC-23")
@pytest.mark.parametrize("scope", ["private", "public"])
async def test_accounts_never_see_what_others_read(autojump_clock, scope):
    """Also of an upstream that lies: it calls private results public."""
    shelf = Shelf(MODERN, ttlMs=60_000, cacheScope=scope)
    async with a_house({"shelf": shelf}) as house:
        alice, bob = [await house.host("http", MODERN, identity=identity) for identity in (ALICE, BOB)]
        for _ in range(3):
            await text(alice)
        assert shelf.reads == 1
        for _ in range(3):
            await text(bob)
        assert shelf.reads == 2


@pytest.mark.covers("K-3")
async def test_what_is_public_serves_all_where_accounts_share(autojump_clock):
    shelf = Shelf(MODERN, ttlMs=60_000, cacheScope="public")
    async with a_house({"shelf": shelf}, upstreams={"shelf": {"across_principals": True}}) as house:
        for identity in (ALICE, BOB):
            result = await (await house.host("http", MODERN, identity=identity)).result("resources/read", {"uri": A})
            assert result["cacheScope"] == "public"
        assert shelf.reads == 1


@pytest.mark.covers("SEC-23")
async def test_hosts_with_sessions_of_their_own_keep_to_themselves(autojump_clock):
    shelf = Shelf()
    async with a_house({"shelf": shelf}, upstreams={"shelf": {"session_mode": "per_host"}}) as house:
        hosts = [await house.host(identity=identity) for identity in (ALICE, LAP)]
        for _ in range(3):  # the first time their sessions are opened; the second, what is watched anew is read anew
            for host in hosts:
                await text(host)
        before = shelf.reads
        for host in hosts:
            await text(host)
        assert shelf.reads == before
        await shelf.touch(A, over=next(each for each in shelf.conversations if each.subscribed))
        await trio.testing.wait_all_tasks_blocked()
        before = shelf.reads
        for host in hosts:
            await text(host)
        before = shelf.reads
        await hosts[0].leave()
        await trio.testing.wait_all_tasks_blocked()
        await text(hosts[1])
        assert shelf.reads == before


@pytest.mark.covers("K-5", "R-13")
async def test_what_was_asked_for_is_not_kept(pair, autojump_clock):
    fake = pair.fake(resources=notes())
    ask = {"k": ("elicitation/create", {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}})}
    more = {} if pair.to_legacy else {"ttlMs": 60_000, "cacheScope": "public"}
    fake.on["resources/read"] = pair.asks(
        ask, lambda answers: {"contents": [{"uri": A, "text": json.dumps(answers["k"])}], **more}
    )
    async with pair.house({"shelf": fake}) as (house, _):
        host = await pair.host(house, capabilities={"elicitation": {"form": {}}})
        host.on["elicitation/create"] = lambda params: {"action": "accept", "content": {}}
        for _ in range(3):
            await host.result("resources/read", {"uri": A})
        assert len(host.asked) == 3
        assert house.hub.reads.statistics().entries == 0


async def test_many_reads_are_one(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version)
    shelf.gate = trio.Event()
    count = PRINCIPAL_IN_FLIGHT
    async with pair.house({"shelf": shelf}) as (house, _):
        hosts = [await pair.host(house, identity=Identity("alice", str(number))) for number in range(20)]
        asked = [await hosts[number % 20].start("resources/read", {"uri": A}) for number in range(count)]
        await trio.sleep(1)
        assert shelf.reads == 1
        shelf.gate.set()
        answers = [await each.wait() for each in asked]
        assert {answer["result"]["contents"][0]["text"] for answer in answers} == {"0"}
        assert shelf.reads == 1
        assert house.hub.reads.statistics().counts.coalesced == count - 1
        await shelf.change()
        assert await text(hosts[0]) == "1"


async def test_one_that_cancels_cancels_nothing_for_others(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version)
    shelf.gate = trio.Event()
    async with pair.house({"shelf": shelf}) as (house, one):
        other = await pair.host(house, identity=LAP)
        first = await one.start("resources/read", {"uri": A})
        await trio.testing.wait_all_tasks_blocked()
        second = await other.start("resources/read", {"uri": A})
        await one.cancel(first)
        await trio.sleep(1)
        assert shelf.conversation.of("notifications/cancelled") == []
        shelf.gate.set()
        assert (await second.wait())["result"]["contents"][0]["text"] == "0"


async def test_when_all_have_cancelled_the_upstream_is_told(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version)
    shelf.gate = trio.Event()
    async with pair.house({"shelf": shelf}) as (house, one):
        other = await pair.host(house, identity=LAP)
        asked = [(host, await host.start("resources/read", {"uri": A})) for host in (one, other)]
        await trio.sleep(1)
        for host, question in asked:
            await host.cancel(question)
        await trio.sleep(1)
        assert len(shelf.conversation.of("notifications/cancelled")) == shelf.reads == 1
        shelf.gate.set()


@pytest.mark.covers("K-8", "SEC-23")
async def test_an_update_while_it_is_read(pair, autojump_clock):
    more = {} if pair.to_legacy else {"ttlMs": 60_000}
    shelf = Shelf(pair.upstream_version, **more)
    async with pair.house({"shelf": shelf}) as (_, host):
        shelf.gate = trio.Event()
        asked = await host.start("resources/read", {"uri": A})
        await trio.sleep(1)
        shelf.changes[A] = 1
        await shelf.conversation.tell("notifications/resources/list_changed")
        await trio.sleep(0.1)
        later = await host.start("resources/read", {"uri": A})
        await trio.sleep(1)
        assert shelf.reads == 2
        shelf.gate.set()
        assert (await asked.wait())["result"]["contents"][0]["text"] == "0"
        assert (await later.wait())["result"]["contents"][0]["text"] == "1"
        assert await text(host) == "1"


@pytest.mark.covers("K-8")
async def test_changed_lists_end_all_of_it(pair, autojump_clock):
    more = {} if pair.to_legacy else {"ttlMs": 60_000}
    shelf = Shelf(pair.upstream_version, **more)
    async with pair.house({"shelf": shelf}) as (house, host):
        assert [await text(host), await text(host, B)] == ["0", "0"]
        before, shelf.changes = shelf.reads, {A: 1, B: 1}
        await shelf.conversation.tell("notifications/resources/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        assert [await text(host), await text(host, B)] == ["1", "1"]
        assert shelf.reads == before + 2
        assert house.hub.reads.statistics().invalidations[DropCause.LISTS.value] >= 2


@pytest.mark.covers("K-8")
async def test_a_lost_session_ends_all_of_it(pair, autojump_clock):
    more = {} if pair.to_legacy else {"ttlMs": 60_000}
    shelf = Shelf(pair.upstream_version, **more)
    async with pair.house({"shelf": shelf}) as (_, host):
        assert [await text(host), await text(host)] == ["0", "0"]
        shelf.changes[A] = 1
        await shelf.conversation.close()
        await trio.testing.wait_all_tasks_blocked()
        assert await text(host) == "1"


@pytest.mark.covers("K-6")
async def test_what_cannot_be_read_anew_stands_in_marked(pair, autojump_clock):
    if pair.to_legacy:
        pytest.skip("what has no time of its own never stands in")
    shelf = Shelf(MODERN, ttlMs=1000, cacheScope="public")
    async with pair.house({"shelf": shelf}, upstreams={"shelf": {"timeouts": Timeouts(call=3.0)}}) as (_, host):
        await text(host)
        await trio.sleep(2)
        shelf.gate = trio.Event()
        result = await host.result("resources/read", {"uri": A})
        assert result["contents"][0]["text"] == "0"
        assert 2_000 <= result["_meta"][HUB_STALE]["ageMs"] < 10_000
        assert result["_meta"][HUB_STALE]["reason"] == "upstream_timeout"
        if not pair.from_legacy:
            assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
        await trio.sleep(60)
        assert (await host.error("resources/read", {"uri": A}))["data"]["hub"] == "upstream_timeout"
        shelf.gate.set()


async def test_another_configuration_ends_all_of_it(autojump_clock):
    shelf = Shelf(MODERN, ttlMs=60_000)
    async with a_house({"shelf": shelf}) as house:
        host = await house.host()
        await text(host)
        config = structs.replace(house.hub.config, upstreams={"shelf": UpstreamConfig(command="shelf", args=("x",))})
        await house.hub.prepare(config)
        house.hub.apply(config)
        await trio.testing.wait_all_tasks_blocked()
        await text(host)
        assert shelf.reads == 2
        config = structs.replace(config, cache=CacheConfig(enabled=False))
        house.hub.apply(config)
        for _ in range(2):
            await text(host)
        assert shelf.reads == 4
        house.hub.apply(structs.replace(config, upstreams={}))
        assert house.hub.reads.statistics().upstreams == ()


async def test_settings_that_come_to_nothing_end_none_of_it_for_good(autojump_clock):
    """The one that was to take its place never could, and is not wanted any more."""
    shelf = Shelf(MODERN, ttlMs=60_000)
    async with a_house({"shelf": shelf}) as house:
        host = await house.host()
        await text(host)
        before = house.hub.config
        other = UpstreamConfig(command="shelf", args=("x",), replace="start-first")
        shelf.refuses = True
        for config in (structs.replace(before, upstreams={"shelf": other}), before):
            await house.hub.prepare(config)
            house.hub.apply(config)
            await trio.sleep(1)
        reads = shelf.reads
        for _ in range(3):
            await text(host)
        assert shelf.reads == reads + 1


@pytest.mark.parametrize(
    "settings", [{"cache": CacheConfig(enabled=False)}, {"upstreams": {"shelf": {"cache": False}}}]
)
async def test_it_can_be_turned_off(pair, autojump_clock, settings):
    shelf = Shelf(pair.upstream_version)
    async with pair.house({"shelf": shelf}, **settings) as (_, host):
        for _ in range(3):
            await text(host)
        assert (shelf.reads, shelf.watched()) == (3, [])


async def test_clearing_by_command(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version)
    async with pair.house({"shelf": shelf}) as (house, host):
        for _ in range(3):
            await text(host)
            await trio.sleep(1)
        before = shelf.reads
        assert house.hub.reads.invalidate("shelf", DropCause.CLEARED) == 1
        assert house.hub.reads.invalidate(None, DropCause.CLEARED) == 0
        await text(host)
        assert shelf.reads == before + 1


async def test_errors_are_asked_for_again(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version)
    shelf.on["resources/read"] = lambda *_: Failure(-32603, "not now")
    async with pair.house({"shelf": shelf}) as (_, host):
        for _ in range(2):
            assert (await host.error("resources/read", {"uri": A}))["message"] == "not now"
        assert shelf.reads == 2


@pytest.mark.covers("K-11")
async def test_a_hit_needs_a_route(autojump_clock):
    shelf = Shelf(MODERN, ttlMs=60_000)
    async with a_house({"shelf": shelf}) as house:
        host = await house.host()
        await text(host)
        house.hub.apply(structs.replace(house.hub.config, upstreams={}))
        await trio.testing.wait_all_tasks_blocked()
        assert (await host.ask("resources/read", {"uri": A}))["error"]


async def test_a_host_that_wants_logs_and_progress_is_served_too(pair, autojump_clock):
    shelf = Shelf(pair.upstream_version, **({} if pair.to_legacy else {"ttlMs": 60_000}))
    async with pair.house({"shelf": shelf}) as (_, host):
        await host.set_level("debug")
        for number in range(3):
            result = await host.result("resources/read", {"uri": A}, token=f"t{number}")
            assert result["contents"][0]["text"] == "0"
        assert shelf.reads == 1
