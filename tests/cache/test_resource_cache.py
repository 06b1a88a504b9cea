"""What may be kept of what is read, for whom, and for how long."""

import json

import msgspec
import pytest
import trio
import trio.testing

from cache.cache_entry import DropCause
from config.diff import source_of
from config.setting_declarations import Secret
from config.settings import CacheConfig, UpstreamConfig
from hub.link.hub_errors import DeadlineExceeded, UpstreamLoop, UpstreamUnauthorized, UpstreamUnavailable
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import HUB_STALE, L4, MODERN
from tests.support.cache_upstream import Host, Place, Served, read_of, reads_of

A = "note://a"


async def read(reads, server, host=None, uri=A):
    """The text, and what else there is."""
    reply = await reads.call(server, read_of(uri), host or Host(), server.call)
    members = json.loads(bytes(reply.value))
    return members.pop("contents")[0]["text"], {name: members[name] for name in members if name != "resultType"}


@pytest.mark.covers("F-D-11")
async def test_time_passes_while_the_machine_sleeps(nursery, autojump_clock, monkeypatch):
    server = Served(MODERN)
    server.more = {"ttlMs": 600_000, "cacheScope": "private"}
    reads = await reads_of(nursery, server)
    assert (await read(reads, server))[0] == "1"
    monkeypatch.setattr("hub.linux.boot_clock.slept_s", lambda: 300)
    assert await read(reads, server) == ("1", {"ttlMs": 300_000, "cacheScope": "private"})
    monkeypatch.setattr("hub.linux.boot_clock.slept_s", lambda: 8 * 3600)
    assert (await read(reads, server))[0] == "2"


@pytest.mark.covers("K-6", "K-9")
async def test_a_modern_upstream_says_how_long(nursery, autojump_clock):
    server = Served(MODERN)
    server.more = {"ttlMs": 5000, "cacheScope": "private"}
    reads = await reads_of(nursery, server)
    assert await read(reads, server) == ("1", server.more)
    await trio.sleep(2)
    assert await read(reads, server) == ("1", {"ttlMs": 3000, "cacheScope": "private"})
    await trio.sleep(3)
    assert (await read(reads, server))[0] == "2", "not fresh at the very end of its time"
    assert server.place.subscriptions.asked == []


async def test_nothing_is_believed_for_longer_than_an_hour(nursery, autojump_clock):
    server = Served(MODERN)
    server.more = {"ttlMs": 10**12}
    reads = await reads_of(nursery, server, stale_if_error_s=0)
    await read(reads, server)
    await trio.sleep(3599)
    assert (await read(reads, server))[0] == "1"
    await trio.sleep(1)
    assert (await read(reads, server))[0] == "2"


@pytest.mark.covers("K-9")
@pytest.mark.parametrize("ttl", [{}, {"ttlMs": -1}, {"ttlMs": 0}, {"ttlMs": "soon"}])
async def test_without_a_time_nothing_is_kept_that_cannot_be_watched(nursery, autojump_clock, ttl):
    server = Served(MODERN)
    server.more, server.capabilities = ttl, {"resources": raw({})}
    reads = await reads_of(nursery, server)
    assert [(await read(reads, server))[0] for _ in range(3)] == ["1", "2", "3"]
    assert server.place.subscriptions.asked == []


async def test_a_legacy_upstream_cannot_say_how_long(nursery, autojump_clock):
    server = Served(L4)
    server.more, server.capabilities = {"ttlMs": 5000}, {}
    reads = await reads_of(nursery, server)
    assert [(await read(reads, server))[0] for _ in range(2)] == ["1", "2"]


@pytest.mark.covers("K-8")
async def test_what_is_watched_is_kept_until_it_changes(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    for _ in range(3):
        assert (await read(reads, server))[0] == "1"
        await trio.sleep(10_000)
    server.says.resource_changed(A)
    assert [(await read(reads, server))[0] for _ in range(2)] == ["2", "2"]
    assert server.place.subscriptions.asked == [A]


async def test_an_upstream_that_is_slow_to_agree_is_not_waited_for_twice(nursery, autojump_clock):
    server = Served(L4)
    server.place.subscriptions.slow_s = 1
    reads = await reads_of(nursery, server)
    began = trio.current_time()
    assert [(await read(reads, server))[0] for _ in range(3)] == ["1", "2", "3"]
    assert trio.current_time() - began == pytest.approx(0.1)
    assert server.place.subscriptions.asked == [A]


async def test_one_that_refuses_is_asked_again_after_a_while(nursery, autojump_clock):
    server = Served(L4)
    server.place.subscriptions.agrees = False
    reads = await reads_of(nursery, server)
    assert [(await read(reads, server))[0] for _ in range(2)] == ["1", "2"]
    server.place.subscriptions.agrees = True
    assert (await read(reads, server))[0] == "3"
    await trio.sleep(30)
    assert [(await read(reads, server))[0] for _ in range(2)] == ["4", "4"]
    assert server.place.subscriptions.asked == [A, A]


async def test_a_modern_one_without_a_time_is_watched_from_the_second_read_on(nursery, autojump_clock):
    server = Served(MODERN)
    server.more = {"ttlMs": 0}
    reads = await reads_of(nursery, server)
    await read(reads, server)
    await trio.testing.wait_all_tasks_blocked()
    assert server.place.subscriptions.asked == [A]
    assert [(await read(reads, server))[0] for _ in range(2)] == ["2", "2"]


async def test_what_changes_faster_than_it_is_read_is_let_go(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    await read(reads, server)
    for _ in range(2):
        server.says.resource_changed(A)
    assert server.place.subscriptions.live == set()
    assert [(await read(reads, server))[0] for _ in range(2)] == ["2", "3"]
    await trio.sleep(30)
    assert [(await read(reads, server))[0] for _ in range(2)] == ["4", "4"]


async def test_so_many_are_watched_and_those_read_last(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    for number in range(256):
        await read(reads, server, uri=f"note:{number}")
    await read(reads, server, uri="note:0")
    await read(reads, server, uri="note:256")
    assert len(server.place.subscriptions.live) == 256
    assert "note:1" not in server.place.subscriptions.live
    assert "note:0" in server.place.subscriptions.live


@pytest.mark.covers("K-3", "K-13", "SEC-23")
async def test_what_is_private_is_for_one_account(nursery, autojump_clock):
    server = Served(MODERN, across_principals=True)
    server.more = {"ttlMs": 5000, "cacheScope": "private"}
    reads = await reads_of(nursery, server)
    texts = [(await read(reads, server, Host(account)))[0] for account in ("alice", "bob", "alice", "bob")]
    assert texts == ["1", "2", "1", "2"]


@pytest.mark.covers("K-3", "SEC-23")
@pytest.mark.parametrize(("across", "expected"), [(True, ["1", "1"]), (False, ["1", "2"])])
async def test_that_it_is_public_is_a_claim(nursery, autojump_clock, across, expected):
    """Which is believed only where accounts share the upstream anyway."""
    server = Served(MODERN, across_principals=across)
    server.more = {"ttlMs": 5000, "cacheScope": "public"}
    reads = await reads_of(nursery, server)
    found = [await read(reads, server, Host(account)) for account in ("alice", "bob")]
    assert [text for text, _ in found] == expected
    assert {more["cacheScope"] for _, more in found} == {"public"}, "what hosts may do with it is the upstream's affair"


@pytest.mark.covers("SEC-23")
async def test_hosts_with_sessions_of_their_own_have_what_was_read_over_them(nursery, autojump_clock):
    server = Served(MODERN)
    server.more = {"ttlMs": 5000}
    hosts = [Host(label=label) for label in ("desk", "lap")]
    for host in hosts:
        server.places[host.caller.tenant] = Place(server, host.caller.tenant)
    reads = await reads_of(nursery, server)
    texts = [(await read(reads, server, host))[0] for host in (*hosts, *hosts)]
    assert texts == ["1", "2", "1", "2"]
    server.says.gap(hosts[0].caller.tenant)
    assert [(await read(reads, server, host))[0] for host in hosts] == ["3", "2"]


@pytest.mark.covers("K-5", "R-13")
@pytest.mark.parametrize(
    "operation",
    [read_of(requestState="s"), read_of(inputResponses={}), msgspec.structs.replace(read_of(), meta={"x.y/z": raw(1)})],
)
async def test_what_depends_on_more_than_the_uri_is_neither_kept_nor_given(nursery, autojump_clock, operation):
    server = Served(MODERN)
    server.more = {"ttlMs": 5000}
    reads = await reads_of(nursery, server)
    for _ in range(2):
        await reads.call(server, operation, Host(), server.call)
    assert len(server.reads) == 2
    assert reads.statistics().entries == 0
    await read(reads, server)
    await reads.call(server, operation, Host(), server.call)
    assert len(server.reads) == 4


@pytest.mark.covers("K-2")
@pytest.mark.parametrize(("version", "expected"), [(MODERN, 2), (L4, 1)])
async def test_what_a_host_can_do_is_part_of_what_a_modern_upstream_is_asked(
    nursery, autojump_clock, version, expected
):
    server = Served(version)
    server.more = {"ttlMs": 5000, "cacheScope": "public"}
    reads = await reads_of(nursery, server)
    for can in ((), ("elicitation",), (), ("elicitation",)):
        await read(reads, server, Host(can=can))
    assert len(server.reads) == expected


async def test_where_a_request_is_traced_makes_no_difference(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    for number in range(2):
        traced = msgspec.structs.replace(read_of(), meta={"traceparent": raw(str(number))})
        await reads.call(server, traced, Host(), server.call)
    assert server.reads == [A]


@pytest.mark.covers("SEC-23")
@pytest.mark.parametrize("reply", [Failure(-32603, "no"), None])
async def test_errors_are_not_kept(nursery, autojump_clock, reply):
    server = Served(L4)

    async def fail(operation, exchange):
        if reply is None:
            raise UpstreamUnavailable("no")
        return reply

    server.on_read = fail
    reads = await reads_of(nursery, server)
    for _ in range(2):
        if reply is None:
            with pytest.raises(UpstreamUnavailable):
                await reads.call(server, read_of(), Host(), server.call)
        else:
            assert await reads.call(server, read_of(), Host(), server.call) is reply
    assert len(server.reads) == 2
    assert reads.statistics().entries == 0


async def test_what_is_too_large_is_not_kept(nursery, autojump_clock):
    server = Served(L4)
    server.more = {"_meta": {"x": "y" * 1000}}
    reads = await reads_of(nursery, server, max_entry_bytes=1000)
    assert [(await read(reads, server))[0] for _ in range(2)] == ["1", "2"]
    assert reads.statistics().counts.refused == 2


@pytest.mark.parametrize("off", ["hub", "upstream"])
async def test_it_can_be_turned_off(nursery, autojump_clock, off):
    server = Served(L4, cache=off != "upstream")
    reads = await reads_of(nursery, server, enabled=off != "hub")
    assert [(await read(reads, server))[0] for _ in range(2)] == ["1", "2"]
    assert server.place.subscriptions.asked == []


# --- what makes it doubtful -------------------------------------------------------------------------------------------


@pytest.mark.covers("K-8", "N-11")
async def test_a_part_that_changed_is_a_change(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    for uri in ("a:b", "a:b/c", "a:d"):
        await read(reads, server, uri=uri)
    server.says.resource_changed("a:b/c/d")
    assert [(await read(reads, server, uri=uri))[0] for uri in ("a:b", "a:b/c", "a:d")] == ["4", "5", "3"]


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (lambda reads, server: server.says.resources_relisted(), DropCause.LISTS),
        (lambda reads, server: server.says.gap(None), DropCause.SESSION),
        (lambda reads, server: reads.invalidate("files", DropCause.CLEARED), DropCause.CLEARED),
        (lambda reads, server: reads.invalidate(None, DropCause.CLEARED), DropCause.CLEARED),
        (lambda reads, server: reads.on_stale(source_of(server.config), None), DropCause.ELSEWHERE),
        (lambda reads, server: reads.on_stale(source_of(server.config), A), DropCause.ELSEWHERE),
        (lambda reads, server: server.report_to(reads), DropCause.CONFIG),
    ],
)
@pytest.mark.covers("K-8")
async def test_everything_that_makes_it_doubtful(nursery, autojump_clock, event, cause):
    for version in (L4, MODERN):
        server = Served(version, name="files")
        server.more = {} if version == L4 else {"ttlMs": 60_000}
        reads = await reads_of(nursery, server)
        assert [(await read(reads, server))[0] for _ in range(2)] == ["1", "1"]
        event(reads, server)
        assert (await read(reads, server))[0] == "2"
        assert reads.statistics().invalidations[cause.value] == 1


@pytest.mark.covers("SEC-23")
async def test_another_configuration_has_other_entries(nursery, autojump_clock):
    old, new = Served(L4), Served(L4)
    reads = await reads_of(nursery, old)
    await read(reads, old)
    new.report_to(reads)
    await read(reads, new)
    assert [(await read(reads, old))[0] for _ in range(2)] == ["2", "3"], "the old one is not asked for what is kept"
    assert (await read(reads, new))[0] == "1"
    reads.forget_upstream("files")
    assert reads.statistics().entries == 0


def test_a_source_is_what_server_it_is_and_what_it_is_asked_with():
    def source(**more):
        return source_of(UpstreamConfig(**{"url": "https://a", **more}))

    assert source() == source(prefix="x") == source(aliases=("y",)) == source(ping_s=1.0)
    others = [source(headers={"Authorization": Secret(secret)}) for secret in ("one", "two")]
    assert len({source(), *others, source(url="https://b")}) == 4
    assert "one" not in others[0]


# --- stale, if it cannot be read --------------------------------------------------------------------------------------


@pytest.fixture
async def stale(nursery, autojump_clock):
    """Something kept, past its time, of an upstream that is away; and the cache."""
    server = Served(MODERN)
    server.more = {"ttlMs": 5000, "cacheScope": "public", "_meta": {"x": 1}}
    reads = await reads_of(nursery, server)
    await read(reads, server)
    await trio.sleep(10)
    server.away = True
    return server, reads


@pytest.mark.covers("K-6")
async def test_what_cannot_be_read_anew_may_be_stale_and_says_so(stale, autojump_clock):
    server, reads = stale
    text, more = await read(reads, server)
    assert text == "1"
    mark = more["_meta"].pop(HUB_STALE)
    assert more == {"ttlMs": 0, "cacheScope": "private", "_meta": {"x": 1}}
    assert (round(mark["ageMs"], -2), mark["reason"]) == (10_000, "upstream_unavailable")
    assert (reads.statistics().counts.stale, len(server.reads)) == (1, 2)
    await trio.sleep(55)
    with pytest.raises(UpstreamUnavailable):
        await read(reads, server)


@pytest.mark.covers("K-6")
async def test_an_upstream_that_is_away_is_not_waited_for_long(stale, autojump_clock):
    server, reads = stale
    server.away, server.place = False, None
    began = trio.current_time()

    async def come_back_at_last(operation, exchange):
        await trio.sleep_forever()

    server.on_read = come_back_at_last
    mark = (await read(reads, server))[1]["_meta"][HUB_STALE]
    assert (trio.current_time() - began, mark["reason"]) == (1.5, "upstream_unavailable")


async def test_nor_is_it_given_to_others(stale, autojump_clock):
    server, reads = stale
    with pytest.raises(UpstreamUnavailable):
        await read(reads, server, Host("bob"))


@pytest.mark.parametrize(
    ("error", "stands_in"), [(DeadlineExceeded, True), (UpstreamLoop, False), (UpstreamUnauthorized, False)]
)
async def test_it_stands_in_only_for_an_upstream_that_is_not_there(stale, autojump_clock, error, stands_in):
    server, reads = stale
    server.away = False

    async def fail(operation, exchange):
        raise error("no")

    server.on_read = fail
    if stands_in:
        assert (await read(reads, server))[0] == "1"
    else:
        with pytest.raises(error):
            await read(reads, server)


async def test_what_is_known_to_have_changed_does_not_stand_in(stale, autojump_clock):
    server, reads = stale
    server.says.resource_changed(A)
    with pytest.raises(UpstreamUnavailable):
        await read(reads, server)


async def test_the_end_of_a_session_alone_is_no_change(nursery, autojump_clock):
    server = Served(MODERN)
    server.more = {"ttlMs": 3_600_000}
    reads = await reads_of(nursery, server)
    await read(reads, server)
    server.says.gap(None)
    server.away = True
    assert HUB_STALE in (await read(reads, server))[1]["_meta"]
    await trio.sleep(61)
    with pytest.raises(UpstreamUnavailable):
        await read(reads, server)


async def test_what_is_observed_never_stands_in(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    await read(reads, server)
    server.says.gap(None)
    server.away = True
    with pytest.raises(UpstreamUnavailable):
        await read(reads, server)


# --- what is to be seen -----------------------------------------------------------------------------------------------


async def test_facts(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    await read(reads, server)
    await trio.sleep(3)
    await read(reads, server, uri="note://b")
    await read(reads, server)
    statistics = reads.statistics()
    assert (statistics.entries, statistics.oldest_s, statistics.newest_s, statistics.flights) == (2, 3.0, 0.0, 0)
    assert (statistics.counts.hits, statistics.counts.misses, statistics.counts.stored) == (1, 2, 2)
    assert [(each.name, each.entries, each.bytes) for each in statistics.upstreams] == [("files", 2, statistics.bytes)]
    assert statistics.store is None
    reads.forget_upstream("files")
    assert (reads.statistics().upstreams, reads.statistics().counts.hits) == ((), 1)


async def test_other_settings_are_taken_over(nursery, autojump_clock):
    server = Served(L4)
    reads = await reads_of(nursery, server)
    await read(reads, server)
    await read(reads, server, uri="note://b")
    reads.reconfigure(CacheConfig(max_entries=1))
    assert reads.statistics().entries == 1
    reads.reconfigure(CacheConfig(enabled=False))
    assert reads.statistics().entries == 0
    assert (await read(reads, server))[0] == "3"
