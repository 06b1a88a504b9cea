"""Connections that are cut at any byte, and requests that are given up: each gets its own answer, or none."""

import random

import pytest
import trio

from cache.redis.connection_pair import ConnectionPair
from cache.redis.layout import look_up_command
from cache.redis.url import StoreAddress
from cache.shared_store import StoreUnreachable
from tests.support.redis_server import Relay

pytestmark = pytest.mark.real


@pytest.mark.covers("F-X-05")
async def test_no_answer_is_ever_that_of_another_request(server, nursery):
    """The connection is cut after each byte of the answers: each request gets its own, or none."""
    relay = Relay(server.socket)
    await nursery.start(relay.run)
    values = {f"k{n}": b"value %d\r\n$4\r\n" % n * n for n in range(6)}
    for name, value in values.items():
        server.do("SET", name, value)
    server.do("SET", "n" + server.do("EVAL", "return redis.sha1hex('t t')", 0).decode(), b"kept")
    server.do("HSET", "h", "*", "t", "sx", "t")
    cuts, answered = 0, 0

    async def serve(link: ConnectionPair) -> None:
        nonlocal cuts, answered
        relay.limit = limit

        async def get(name: str) -> None:
            nonlocal answered
            try:
                assert await link.execute(b"GET", name) == values[name]
                answered += 1
            except StoreUnreachable:
                pass

        async def look_up() -> None:
            try:
                found = await link.execute(*look_up_command("h", ["*", "sx"], ["n", ""], "new", 100))
                assert found[3:] == [b"kept", None]
            except StoreUnreachable:
                pass

        async with trio.open_nursery() as asking:
            for name in values:
                asking.start_soon(get, name)
            asking.start_soon(look_up)

    limit = 0
    while cuts == limit:  # until nothing was cut
        limit += 1
        reason = await ConnectionPair(StoreAddress(host="127.0.0.1", port=relay.port)).run(serve)
        if reason != "it is no longer needed":
            cuts += 1
    assert limit > 300
    assert answered > limit


@pytest.mark.covers("F-X-05")
async def test_a_link_that_is_cut_while_it_is_made_says_why(server, nursery):
    relay = Relay(server.socket)
    await nursery.start(relay.run)

    made = False

    async def serve(link: ConnectionPair) -> None:
        nonlocal made
        made = True

    reasons, limit = set(), 1
    while not made:
        relay.limit = limit
        reasons.add(await ConnectionPair(StoreAddress(host="127.0.0.1", port=relay.port)).run(serve))
        limit += 1 if limit < 40 else 41
    assert limit > 1000
    assert "" not in reasons


@pytest.mark.covers("F-X-05")
async def test_those_who_give_up_leave_no_answer_to_others(server):
    for n in range(20):
        server.do("SET", f"k{n}", f"value {n}" * n * 50)
    chance = random.Random(5)
    asked = got = 0
    patience_s = 0.0002

    async def ask_for(link: ConnectionPair, n: int) -> None:
        nonlocal asked, got
        asked += 1
        with trio.move_on_after(chance.uniform(0, patience_s)):
            assert await link.execute(b"GET", f"k{n}") == (f"value {n}" * n * 50).encode()
            got += 1

    async def serve(link: ConnectionPair) -> None:
        nonlocal patience_s
        while got < 100:  # at first nobody waits long enough, whatever the machine
            patience_s *= 1.1
            async with trio.open_nursery() as nursery:
                for n in range(20):
                    nursery.start_soon(ask_for, link, n)

    assert await ConnectionPair(StoreAddress(path=str(server.socket))).run(serve) == "it is no longer needed"
    assert asked - got > 100
