"""What somebody else wrote to the store, or moved there, is a miss (F-X-04); strangers cannot speak to hubs."""

import pytest
import trio

from cache.redis.layout import ValueSealer
from hub.link.sealing import OVERHEAD_BYTES
from tests.support.redis_server import KEY, SEALER, Store, redis_server, stores


@pytest.fixture(scope="module")
def _server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(_server):
    _server.do("FLUSHALL")
    return _server


@pytest.fixture
async def store(server, nursery):
    store = Store(server.url)
    async with stores(store):
        yield store


def changed(sealed: bytes) -> list[tuple[str, bytes]]:
    places = (0, 11, 12, 40, len(sealed) - 17, len(sealed) - 1)
    flipped = [(f"bit {n}", sealed[:n] + bytes([sealed[n] ^ 1]) + sealed[n + 1 :]) for n in places]
    cut = [(f"{n} bytes", sealed[:n]) for n in (1, 27, 28, len(sealed) - 1)]
    return [*flipped, *cut, ("longer", sealed + b"\0"), ("other", b"x" * 100), ("json", b'["2026",1]\n{}')]


@pytest.mark.real
@pytest.mark.covers("F-X-04")
async def test_altered_and_foreign_values_are_misses(store, server):
    await store.keep("genuine")
    (name,) = server.keys("*:e:*")
    sealed = server.do("GET", name)
    for count, (_how, value) in enumerate(changed(sealed), 1):
        server.do("SET", name, value)
        assert await store.found() is None
        assert store.statistics().altered == count
    server.do("SET", name, sealed)
    assert await store.found() == "genuine"
    assert len(store.told.said("WARNING")) == 1
    assert store.is_coherent


@pytest.mark.real
@pytest.mark.covers("F-X-04", "SEC-23")
async def test_values_in_the_session_for_others_are_misses(store, server):
    await store.keep("ann's", owner="ann")
    (hers,) = server.keys("*:e:*")
    await store.keep("ben's", owner="ben")
    (his,) = set(server.keys("*:e:*")) - {hers}
    server.do("COPY", his, hers, "REPLACE")
    assert await store.found(owner="ann") is None
    assert await store.found(owner="ben") == "ben's"
    server.do("DEL", his)
    store.invalidate("s", "a://x/y")  # the same reader, but what was there before it changed
    await store.until_written()
    await store.keep("anew", owner="ben")
    (new,) = set(server.keys("*:e:*")) - {hers}
    server.do("COPY", hers, new, "REPLACE")
    assert await store.found(owner="ben") is None
    assert store.statistics().altered == 2


@pytest.mark.real
@pytest.mark.covers("F-X-04")
async def test_things_of_other_kinds_and_sizes_are_misses(store, server):
    await store.keep()
    (name,) = server.keys("*:e:*")
    server.do("SET", name, b"x" * (store.max_bytes + OVERHEAD_BYTES + 257))
    assert await store.found() is None
    server.do("DEL", name)
    server.do("LPUSH", name, "x")
    assert await store.found() is None
    assert store.statistics().altered == 2
    (tokens,) = server.keys("*:t:" + SEALER.digest("s"))
    server.do("SET", tokens, "x")
    assert await store.look_up("s", "a://x/y", "ann") == (None, None)
    assert store.statistics().altered == 3
    store.invalidate("s", None)
    await store.until_written()
    assert await store.ticket()


@pytest.mark.real
@pytest.mark.covers("F-X-04")
async def test_too_large_results_are_not_shared(server):
    store = Store(server.url, max_entry_bytes=100)
    async with stores(store):
        await store.keep("x" * 100)
        assert await store.found() == "x" * 100
        await store.keep("x" * 101, uri="b://")
        assert await store.found(uri="b://") is None
        assert store.statistics().dropped == 1
    store = Store(server.url)
    async with stores(store):
        await store.keep("x" * (1 << 20), uri="c://")
        assert len(await store.found(uri="c://")) == 1 << 20


@pytest.mark.real
@pytest.mark.covers("F-X-04")
async def test_strangers_cannot_speak_for_hubs(store, server):
    said, channel = store.overheard(), server.channel()
    other = Store(server.url)
    async with stores(other):
        other.invalidate("s", "a://x/y")
        await store.told.until(lambda: ("stale", "s", "a://x/y") in store.told.news)
    genuine = said[-1]
    for _how, odd in changed(genuine):
        server.do("PUBLISH", channel, odd)
    server.do("PUBLISH", channel, genuine)  # said again: the worst is a miss
    await store.told.until(lambda: store.told.news.count(("stale", "s", "a://x/y")) == 2)
    assert store.statistics().altered == len(changed(genuine))
    assert store.is_coherent


@pytest.mark.real
@pytest.mark.covers("F-X-04")
async def test_altered_facts_of_the_directory_are_none(store, server):
    await store.directory.put("replica/1", b"http://here", 60)
    await store.directory.put("replica/2", b"http://there", 60)
    one, two = server.keys("*:d:*")
    genuine = server.do("GET", one)
    server.do("COPY", one, two, "REPLACE")
    assert [await store.directory.get(f"replica/{n}") for n in (1, 2)].count(None) == 1
    server.do("SET", one, genuine[:-1])
    assert [await store.directory.get(f"replica/{n}") for n in (1, 2)] == [None, None]
    assert store.statistics().altered == 3
    assert not await store.directory.swap("replica/1", b"http://here", b"", 60)
    assert not await store.directory.swap("replica/2", b"http://there", b"", 60)


async def test_old_words_of_its_own_prove_nothing(autojump_clock):
    """A replay of what a hub said does not make it believe that it is heard."""
    from cache.redis.hub_messages_and_heartbeats import Bus

    bus = Bus(ValueSealer(KEY))
    bus.reset("channel", 0.0)
    first, second = bus.heartbeat(), bus.heartbeat()
    assert not bus.is_proven
    bus.receive(first, 1.0)
    assert bus.is_proven
    bus.receive(second, 2.0)
    bus.receive(first, 4.0)
    assert not bus.is_deaf(5.0)
    assert bus.is_deaf(5.1)
    bus.reset("channel", 6.0)
    bus.receive(second, 6.0)
    assert not bus.is_proven
    await trio.lowlevel.checkpoint()


def test_a_vault_opens_only_what_it_sealed_for_that_name():
    sealer, same, other = ValueSealer(KEY), ValueSealer(KEY), ValueSealer(bytes(32))
    sealed = sealer.seal("name", b"value")
    assert same.open("name", sealed) == b"value"
    assert same.open("name2", sealed) is None
    assert other.open("name", sealed) is None
    assert sealer.seal("name", b"value") != sealed
    assert len(sealed) == len(b"value") + OVERHEAD_BYTES
    assert sealer.namespace == same.namespace != other.namespace
    assert sealer.digest("a", "bc") != sealer.digest("ab", "c")
    assert sealer.digest("a") != other.digest("a")
