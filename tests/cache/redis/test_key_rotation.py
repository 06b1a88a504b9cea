"""The sealing key is replaced hub by hub: two hubs, one of which is a step further, are one fleet all the same."""

import pytest

from cache.shared_store import Directory
from tests.support.redis_server import Store, stores

pytestmark = [pytest.mark.real, pytest.mark.covers("SEC-87")]

OLD, NEW = b"o" * 32, b"n" * 32
STEPS = [((OLD,), (OLD, NEW)), ((OLD, NEW), (NEW, OLD)), ((NEW, OLD), (NEW,))]
"""What hubs go by before and after each step."""


@pytest.fixture(params=STEPS, ids=["known", "first", "alone"])
async def pair(request, server, nursery):
    """A hub before the step and one after it, or the other way round."""
    made = [Store(server.url, key=keys[0], others=keys[1:]) for keys in request.param]
    async with stores(*made):
        yield made


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("changed", ["a://x/y", None])
async def test_what_one_says_is_stale_reaches_the_other(pair, back, changed):
    one, other = reversed(pair) if back else pair
    await other.keep("of before")
    one.invalidate("s", changed)
    await other.told.until(lambda: ("stale", "s", changed) in other.told.news)
    assert await other.found() is None
    assert await one.found() is None
    await other.keep("of after")
    assert await other.found() == "of after"
    assert await one.found() in (None, "of after")
    assert (one.statistics().altered, other.statistics().altered) == (0, 0)


@pytest.mark.parametrize("back", [False, True])
async def test_what_one_says_of_itself_the_other_finds(pair, back):
    one, other = (store.directory for store in (reversed(pair) if back else pair))
    await one.put("replica/1", b"http://10.0.0.5:8765", 15)
    assert await other.get("replica/1") == b"http://10.0.0.5:8765"
    assert not await other.swap("replica/1", None, b"mine", 15)
    assert not await other.swap("replica/1", b"else", b"mine", 15)
    await claim(one, other)
    await claim(other, one)
    await one.delete("replica/1")
    assert await other.get("replica/1") is None
    await other.put("replica/1", b"again", 15)
    assert await one.get("replica/1") == b"again"


async def claim(one: Directory, other: Directory) -> None:
    """What is taken over here is known there, however often it went to and fro."""
    owner = await one.get("session/1")
    assert await other.get("session/1") == owner
    for number, hub in enumerate((one, other, one, one, other)):
        assert await hub.swap("session/1", owner, b"%d" % number, 3600)
        owner = b"%d" % number
        assert [await one.get("session/1"), await other.get("session/1")] == [owner, owner]


@pytest.mark.parametrize("old_first", [False, True])
async def test_what_was_said_before_the_last_step_is_known_after_it(server, old_first):
    """Whoever asks for it meanwhile, under whichever key it was written."""
    first, second = (OLD, NEW) if old_first else (NEW, OLD)
    one, other, last = (
        Store(server.url, key=first, others=[second]),
        Store(server.url, key=NEW, others=[OLD]),
        Store(server.url, key=NEW),
    )
    async with stores(one, other, last):
        await one.directory.put("began", b"then", 60)
        assert await last.directory.get("began") == (None if old_first else b"then")
        assert await other.directory.get("began") == b"then"
        assert await last.directory.get("began") == b"then"
        names = server.keys("*:d:*")
        assert len(names) == 1 + old_first
        assert all(50_000 < server.do("PTTL", name) <= 60_000 for name in names)
        await other.directory.delete("began")
        assert [await each.directory.get("began") for each in (one, other, last)] == [None] * 3


async def test_what_somebody_puts_there_is_none_for_either(pair, server):
    one, other = (store.directory for store in pair)
    await one.put("session/1", b"one", 60)
    await other.swap("session/1", b"one", b"other", 60)
    for name in server.keys("*:d:*"):
        server.do("SET", name, b"x" * 60)
    assert [await one.get("session/1"), await other.get("session/1")] == [None, None]
    assert not await other.swap("session/1", None, b"mine", 60)


async def test_keys_that_have_nothing_in_common_share_nothing(server):
    """That is what a step too many comes to."""
    one, other = Store(server.url, key=OLD), Store(server.url, key=NEW)
    async with stores(one, other):
        await one.directory.put("replica/1", b"x", 15)
        assert await other.directory.get("replica/1") is None
