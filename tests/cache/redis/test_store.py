"""What hubs share through a real Redis: what is found, by whom, and what is found no more."""

import time
from statistics import median

import pytest
import trio
import trio.testing

from cache.cache_entry import EVERYONE
from cache.redis.layout import MAX_FIELDS
from cache.shared_store import StoreUnreachable
from tests.support.debian import find
from tests.support.redis_server import SEALER, Store, elapsed_ms, entry, redis_server, stores

pytestmark = pytest.mark.real


@pytest.fixture(scope="module", params=["redis-server", "valkey-server"])
def server(request, tmp_path_factory):
    if request.param == "valkey-server" and find(request.param) is None:
        pytest.skip("this Debian has no Valkey")
    with redis_server(tmp_path_factory.mktemp("redis"), kind=request.param) as server:
        yield server


@pytest.fixture(autouse=True)
def _empty(server):
    server.resume()  # after a test that failed while it had it paused
    server.do("FLUSHALL")


async def test_what_one_hub_keeps_another_finds(one, other):
    await one.keep('{"text":"caf\\u00e9"}', fresh_s=100)
    found, ticket = await other.look_up("s", "a://x/y", "ann")
    assert bytes(found.value) == b'{"text":"caf\\u00e9"}'
    assert ticket is not None
    assert found.version == "2026-07-28"
    assert not found.public
    assert not found.observed
    assert 99 < found.fresh_until - trio.current_time() <= 100.01


@pytest.mark.covers("SEC-23")
async def test_nobody_finds_what_is_somebody_elses(one, other):
    await one.keep(owner="ann")
    assert await other.found(owner="ben") is None
    assert await other.found(owner=EVERYONE) is None
    assert await other.found(source="another configuration") is None
    assert await other.found(uri="a://x/y/") is None
    assert await other.found(owner="ann") == "value"


async def test_everyone_finds_what_is_public(one, other):
    await one.keep("for all", owner=EVERYONE, public=True)
    found, _ = await other.look_up("s", "a://x/y", "ben")
    assert bytes(found.value) == b"for all"
    assert found.public
    assert await other.found(owner=EVERYONE) == "for all"


async def test_the_fresher_one_is_found(one):
    ticket = await one.ticket()
    await one.put(ticket, "s", "a://x/y", EVERYONE, entry("for all", fresh_s=5, public=True))
    await one.put(ticket, "s", "a://x/y", "ann", entry("hers", fresh_s=50))
    assert await one.found(owner="ann") == "hers"
    assert await one.found(owner="ben") == "for all"


async def test_what_may_stand_in_is_found_when_it_is_no_longer_fresh(one, other):
    await one.keep(fresh_s=-0.001, stale_s=60)
    found, _ = await other.look_up("s", "a://x/y", "ann")
    now = trio.current_time()
    assert found.fresh_until < now
    assert 58 < found.stale_until - now < 61


async def test_nothing_is_kept_that_is_over(one):
    await one.keep(fresh_s=-1)
    assert await one.found() is None
    assert one.statistics().dropped == 1


async def test_what_is_observed_is_kept_without_an_end(one, other, server):
    await one.keep(fresh_s=float("inf"), observed=True)
    found, _ = await other.look_up("s", "a://x/y", "ann")
    assert found.observed
    assert found.fresh_until == float("inf")
    assert 3500_000 < server.do("PTTL", server.keys("*:e:*")[0]) <= 3600_000


async def test_it_is_gone_when_its_time_is_over(one, server):
    await one.keep(fresh_s=60)
    (name,) = server.keys("*:e:*")
    assert 0 < server.do("PTTL", name) <= 60_000


async def test_an_invalidation_reaches_every_hub(one, other, record_property):
    taken = []
    for _ in range(21):
        await one.keep()
        other.told.news.clear()
        began = time.perf_counter()
        one.invalidate("s", "a://x/y")
        assert await one.found() is None  # at once, written or not
        await other.told.until(lambda: ("stale", "s", "a://x/y") in other.told.news)
        taken.append(elapsed_ms(began))
        assert await other.found() is None
    record_property("invalidation_ms", round(median(taken), 2))
    assert not [news for news in one.told.news if news[0] == "stale"]  # it knows


async def test_all_of_a_source_is_invalidated(one, other):
    await one.keep(uri="a://x/1")
    await one.keep(uri="b://z", owner=EVERYONE)
    await one.keep(source="t")
    other.invalidate("s", None)
    await one.told.until(lambda: ("stale", "s", None) in one.told.news)
    assert await one.found(uri="a://x/1") is None
    assert await one.found(uri="b://z") is None
    assert await one.found(source="t") == "value"


URIS = ("a://x", "a://x/y", "a://x/y/z", "a://x/y/z?q", "a://x/y2", "b://x/y")


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ("a://x/y", {"a://x", "a://x/y", "a://x/y/z", "a://x/y/z?q"}),
        ("a://x/y/z?q", {"a://x", "a://x/y", "a://x/y/z", "a://x/y/z?q"}),
        ("a://x/y/other", {"a://x", "a://x/y"}),
        ("a://x", set(URIS) - {"b://x/y"}),
        ("b://x/y", {"b://x/y"}),
        ("c://", set()),
    ],
)
async def test_parts_and_wholes_change_together(one, other, changed, lost):
    for uri in URIS:
        await one.keep(uri=uri)
    other.invalidate("s", changed)
    await one.told.until(lambda: ("stale", "s", changed) in one.told.news)
    assert {uri for uri in URIS if await one.found(uri=uri) is None} == lost


@pytest.mark.parametrize("changed", ["a://x/y", "a://x", "a://x/y/part", None])
async def test_a_reading_across_an_invalidation_is_found_by_nobody(one, other, changed):
    ticket = await one.ticket()  # the reading begins,
    other.invalidate("s", changed)  # it changes,
    await one.told.until(lambda: ("stale", "s", changed) in one.told.news)
    await one.put(ticket, "s", "a://x/y", "ann", entry("of before"))  # and what was read is from before that
    assert await one.found() is None
    assert await other.found() is None
    await other.keep("anew")
    assert await one.found() == "anew"


async def test_a_look_waits_for_what_is_to_be_invalidated(one, other):
    """So that what is read just after an invalidation can be kept."""
    await other.keep("of before")
    one.invalidate("s", "a://x/y")
    await one.keep("of after")
    assert await other.found() == "of after"


async def test_a_look_does_not_wait_long_for_that(server):
    store = Store(server.url, budget_s=0.05)
    async with stores(store):
        await store.keep()
        server.pause()
        store.invalidate("s", "a://x/y")
        began = time.perf_counter()
        assert await store.look_up("s", "a://x/y", "ann") == (None, None)
        assert elapsed_ms(began) > 45
        assert await store.look_up("t", "a://x/y", "ann") == (None, None)
        server.resume()
        await store.until_written()


@pytest.mark.parametrize("heard", [False, True])
async def test_a_look_across_an_invalidation_finds_nothing(one, server, heard):
    """Whether another hub says so or this one: what the look found may be from before."""
    await one.keep()
    server.pause()
    found = []

    async def look_up() -> None:
        found.append(await one.look_up("s", "a://x/y", "ann"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_up)
        await trio.testing.wait_all_tasks_blocked()
        if heard:
            one.on_stale("s", "a://unrelated")
        else:
            one.invalidate("s", "a://unrelated")
        server.resume()
    assert found == [(None, None)]
    await one.until_written()
    assert await one.found() == "value"


async def test_many_invalidations_are_written_together(one, other):
    await one.keep(uri="a://x/900")
    for number in range(1000):
        one.invalidate("s", f"a://x/{number}")
    await other.told.until(lambda: ("stale", "s", None) in other.told.news)
    assert sum(news[0] == "stale" for news in other.told.news) < 100
    assert await other.found(uri="a://x/900") is None


async def test_tokens_are_bounded(one, server):
    await one.keep(uri="first:1")
    (tokens,) = server.keys("*:t:" + SEALER.digest("s"))
    server.do("EVAL", f"for i = 1, {MAX_FIELDS} do redis.call('HSET', KEYS[1], i, i) end", 1, tokens)
    assert await one.found(uri="first:1") == "value"
    await one.keep(uri="second:1")
    assert server.do("HLEN", tokens) == 2
    assert 3500 < server.do("TTL", tokens) <= 3600
    assert await one.found(uri="first:1") is None
    assert await one.found(uri="second:1") == "value"


@pytest.mark.parametrize("uri", ["a://" + "x" * 2050, "a" + "/b" * 60])
async def test_odd_uris_are_not_shared_but_invalidate(one, other, uri):
    assert await one.look_up("s", uri, "ann") == (None, None)
    one.invalidate("s", uri)
    await other.told.until(lambda: ("stale", "s", uri) in other.told.news)


async def test_names_show_nothing(one, server):
    await one.keep("secret value", source="secret source", uri="secret://uri", owner="secret owner")
    one.invalidate("secret source", "secret://uri/part")
    await one.until_written()
    everything = [text for name in server.keys("*") for text in (name.encode(), server.do("DUMP", name))]
    assert len(everything) >= 4
    assert not [text for text in everything if b"secret" in text]


async def test_hubs_of_another_key_share_nothing(one, server):
    stranger = Store(server.url, key=bytes(32))
    async with stores(stranger):
        await one.keep()
        assert await stranger.found() is None
        stranger.invalidate("s", None)
        await stranger.until_written()
        assert await one.found() == "value"
        assert one.statistics().hubs == stranger.statistics().hubs == 1
        assert one.statistics().altered == stranger.statistics().altered == 0


async def test_hubs_are_counted(one, other):
    await one.told.until(lambda: one.statistics().hubs == 2) if one.statistics().hubs < 2 else None
    assert one.statistics().hubs == 2


async def test_nothing_is_asked_before_the_store_is_reached(server):
    store = Store(server.url)
    assert await store.look_up("s", "a://x/y", "ann") == (None, None)
    with pytest.raises(StoreUnreachable, match="is away"):
        await store.directory.get("name")


async def test_many_at_once_each_get_their_own(one, other):
    ticket = {n: await one.ticket(uri=f"a:{n}") for n in range(50)}
    async with trio.open_nursery() as nursery:
        for n in range(50):
            nursery.start_soon(one.put, ticket[n], "s", f"a:{n}", "ann", entry(f"value {n}" * n * 20))

    async def find(n: int) -> None:
        assert await other.found(uri=f"a:{n}") == f"value {n}" * n * 20 or n == 0

    async with trio.open_nursery() as nursery:
        for n in range(50):
            nursery.start_soon(find, n)
