"""A store that answers nonsense, whatever and wherever: it is not used, and used again once it answers as it should."""

import pytest
import trio

from hub.fleet.membership import Membership, Registration
from tests.support.redis_server import Store, stores
from tests.support.scripted_store import FIND, LOOK, SWAP, Scripted, bulk

ENDS = {
    "a bulk without end": {b"INFO": b"$99999999999999999999\r\n"},
    "a large bulk": {b"INFO": b"$536870912\r\n"},
    "a large list": {b"INFO": b"*2147483647\r\n"},
    "large in all": {b"INFO": b"*9\r\n" + bulk(b"x" * (1 << 20)) * 9},
    "nested lists": {b"INFO": b"*1\r\n" * 100_000},
    "nested sets": {b"INFO": b"~1\r\n" * 16_000 + b":1\r\n"},
    "nested keys": {b"INFO": b"%1\r\n" * 16_000 + b":1\r\n" * 16_001},
    "another protocol": {b"INFO": b"HTTP/1.1 400 Bad Request\r\n\r\n"},
    "no protocol": {b"INFO": b"\x00\xff\r\n"},
    "a line without end": {b"INFO": b"+" + b"x" * 100_000},
    "a long number": {b"INFO": b":" + b"9" * 4_000 + b"\r\n"},
    "an odd error": {b"INFO": b"-\xff\xfe\xfd oops\r\n"},
    "an error in a list": {b"INFO": b"*2\r\n-ERR x\r\n-ERR y\r\n"},
    "no greeting": {b"HELLO": b"*0\r\n"},
    "half a greeting": {b"HELLO": b"%1\r\n+proto\r\n:3\r\n"},
    "an odd greeting": {b"HELLO": b"%3\r\n+proto\r\n:3\r\n+version\r\n*0\r\n+id\r\n+x\r\n"},
    "it is a list": {b"INFO": b"*0\r\n"},
    "it is nothing": {b"INFO": b"_\r\n"},
    "it is many lines": {b"INFO": bulk(b"a:b\n" * 200_000)},
    "a ping that is refused": {b"PING": b"-ERR no\r\n"},
}
PUSHES = {
    "nothing": b">0\r\n",
    "a word": b">1\r\n" + bulk(b"message"),
    "null": b">1\r\n_\r\n",
    "a number": b">3\r\n" + bulk(b"message") + bulk(b"c") + b":1\r\n",
    "a list": b">3\r\n*0\r\n*0\r\n*0\r\n",
    "another": b">2\r\n" + bulk(b"invalidate") + b"_\r\n",
    "in a list": b"*1\r\n>1\r\n" + bulk(b"message"),
}
HARMLESS = {
    "time without end": {b"TIME": b"*2\r\n,inf\r\n,0\r\n"},
    "time of 30 digits": {b"TIME": b"*2\r\n" + bulk(b"9" * 30) + bulk(b"0")},
    "time before all": {b"TIME": b"*2\r\n" + bulk(b"-5000000000") + bulk(b"0")},
    "time is a list": {b"TIME": b"*2\r\n*0\r\n*0\r\n"},
    "time is a map": {b"TIME": b"%1\r\n:1\r\n:1\r\n"},
    "swap is a list": {SWAP: b"*0\r\n"},
    "a fact is a map": {FIND: b"%1\r\n:1\r\n:1\r\n"},
    "a fact is a number": {FIND: b":5\r\n"},
    "a fact is short": {FIND: bulk(b"x")},
    "a fact is an error": {FIND: b"-WRONGTYPE x\r\n"},
    "a look is a number": {LOOK: b":1\r\n"},
    "a look is short": {LOOK: b"*1\r\n" + bulk(b"ab" * 20)},
    "a look has no stamp": {LOOK: b"*5\r\n:1\r\n:1\r\n:1\r\n_\r\n_\r\n"},
    "a look has a long stamp": {LOOK: b"*5\r\n" + bulk(b"a" * 100_000) + b":1\r\n:1\r\n_\r\n_\r\n"},
    "a look has no time": {LOOK: b"*5\r\n" + bulk(b"ab" * 20) + b",inf\r\n,nan\r\n_\r\n_\r\n"},
    "a look is nothing": {LOOK: b"_\r\n"},
    "a look is empty": {LOOK: b"*0\r\n"},
    "a look is numbers": {LOOK: b"*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n"},
    "a look has odd time": {LOOK: b"*5\r\n" + bulk(b"ab" * 20) + bulk(b"x") + bulk(b"0") + b"_\r\n_\r\n"},
    "a look has an odd stamp": {LOOK: b"*5\r\n" + bulk(b"\xff" * 40) + b":1\r\n:0\r\n_\r\n_\r\n"},
    "a look finds lists": {LOOK: b"*5\r\n" + bulk(b"ab" * 20) + b":1\r\n:1\r\n*0\r\n*0\r\n"},
}


@pytest.fixture
def server(monkeypatch, nursery):
    return Scripted(monkeypatch, nursery)


async def until(is_so):
    """Look every tenth of a second of the test's clock."""
    with trio.fail_after(60):
        while not is_so():  # noqa: ASYNC110  # nobody tells
            await trio.sleep(0.1)


async def lives_through(server, nursery, caplog):
    """It is not used while it answers like that, for several links; and used afterwards."""
    store = Store("redis://127.0.0.1:1")
    membership = Membership(Registration("0" * 8, "a", ""), store.directory)
    async with stores(store, is_coherent=False):
        nursery.start_soon(membership.run)
        await until(lambda: server.links >= 4)
        assert ("gap",) not in store.told.news
        assert store.statistics().state == "away"
        assert len(store.told.said("WARNING")) == 1
        server.answers.clear()
        server.then.clear()
        await until(lambda: store.is_coherent and membership.status().registered)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.covers("F-X-04", "F-D-13", "SEC-16")
@pytest.mark.parametrize("answers", ENDS.values(), ids=ENDS)
async def test_what_is_no_answer_ends_the_link_and_nothing_else(autojump_clock, server, nursery, caplog, answers):
    server.answers |= answers
    await lives_through(server, nursery, caplog)


@pytest.mark.covers("F-X-04", "F-D-13", "SEC-16")
@pytest.mark.parametrize("said", PUSHES.values(), ids=PUSHES)
async def test_what_is_no_message_ends_the_link_and_nothing_else(autojump_clock, server, nursery, caplog, said):
    server.then[b"PING"] = said
    server.then[b"PUBLISH"] = said  # where nobody listens
    await lives_through(server, nursery, caplog)


@pytest.mark.covers("F-X-05")
@pytest.mark.parametrize("said", [b":1\r\n", b"_\r\n", b"*0\r\n", b"-ERR x\r\n"])
async def test_what_nobody_has_asked_for_ends_the_link(autojump_clock, server, nursery, caplog, said):
    server.then[b"INFO"] = said
    await lives_through(server, nursery, caplog)


@pytest.mark.covers("F-X-04", "F-D-13")
@pytest.mark.parametrize("answers", HARMLESS.values(), ids=HARMLESS)
async def test_odd_answers_to_looks_and_facts_are_none(autojump_clock, server, nursery, caplog, answers):
    store = Store("redis://127.0.0.1:1")
    membership = Membership(Registration("0" * 8, "a", ""), store.directory)
    async with stores(store):
        nursery.start_soon(membership.run)
        server.answers |= answers
        for _ in range(5):
            assert (await store.look_up("s", "a://x/y", "ann"))[0] is None
            await trio.sleep(2)
        assert LOOK not in answers or store.statistics().altered >= 5
        server.answers.clear()
        await until(lambda: store.is_coherent)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.covers("F-D-13", "SEC-16")
async def test_an_error_that_nobody_thought_of_ends_the_link_and_nothing_else(autojump_clock, server, nursery):
    store = Store("redis://127.0.0.1:1")
    faults = [ValueError("a"), KeyError("b"), ValueError("c")]
    on_gap = store.told.on_gap

    def faulty_on_gap():
        if faults:
            raise faults.pop()
        on_gap()

    store.told.on_gap = faulty_on_gap
    async with stores(store):
        assert not faults
        assert server.links == 4
    assert len(store.told.said("ERROR")) == 2, "each kind once"


@pytest.mark.covers("F-X-04")
async def test_no_more_is_read_than_was_heard(autojump_clock, server, nursery):
    """Messages that come faster than they are heard wait in the network, not here."""
    store = Store("redis://127.0.0.1:1")
    async with stores(store):
        listening = server.ends[-1]
        one = b">3\r\n" + bulk(b"message") + bulk(b"c") + bulk(b"x")
        before, most = listening.received, 0
        server.say(one * 40_000)
        while (heard := store.statistics().altered) < 40_000:
            await trio.lowlevel.checkpoint()
            most = max(most, (listening.received - before) // len(one) - heard)
        assert 256 < most < 256 + (16 << 10) // len(one) + 2
        assert store.is_coherent
