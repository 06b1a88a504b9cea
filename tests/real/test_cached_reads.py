"""Cached reads through a real hub and real servers: one read, and fresh after every update.

The official legacy server knows no time-to-live, but notifies of changes; the modern server has both. Both run over
stdio and HTTP; the hub's requests to them are counted on the way.
"""

import contextlib
import os
import shutil
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
import trio

from tests.real.reading_hosts import Reader, counted_in_lines, counted_in_pieces
from tests.real.recorded import OFFICIAL, SERVERS, Records, table
from tests.support.processes import PYTHON_2, free_port, running, running_hub

READS = 1000
HOSTS, AT_ONCE = 20, 12
"""Of them at once as many as one account may have in flight, nearly."""
TAKES = ("--takes", "0.2")
EVERYTHING = OFFICIAL / "server-everything" / "dist" / "index.js"


class Way(NamedTuple):
    """A server, and how to make it change something."""

    name: str
    uri: str
    change: str
    arguments: dict[str, str]


ITEM = "demo://resource/dynamic/text/"
TOGGLE = "toggle-subscriber-updates"
WAYS = [
    Way("every", f"{ITEM}1", TOGGLE, {}),
    Way("every-http", f"{ITEM}1", TOGGLE, {}),
    Way("ttl", "ttl://public", "change", {"which": "public"}),
    Way("ttl", "ttl://private", "change", {"which": "private"}),
    Way("ttl-http", "ttlhttp://public", "change", {"which": "public"}),
    Way("ttl-http", "ttlhttp://private", "change", {"which": "private"}),
]
ALL_WAYS = pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.name}-{way.uri.rpartition('/')[2]}")


class Site(NamedTuple):
    """A hub, and by the name of each upstream how often it was read so far."""

    hub: object
    counts: dict


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    records, node = Records(directory), shutil.which("node")
    counts = {}
    with contextlib.ExitStack() as stack:

        def child(name, *argv, **entries):
            command, *args = records.tee("upstream", name, argv)
            counts[name] = counted_in_lines(directory / f"upstream-{name}")
            return table(name, command=command, args=args, **entries)

        def behind(name, url, **entries):
            parts = urlsplit(url)
            relay = stack.enter_context(records.relay("upstream", name, parts.port))
            counts[name] = counted_in_pieces(relay)
            return table(name, url=parts._replace(netloc=relay.address).geturl(), **entries)

        port = free_port()
        env = {**os.environ, "PORT": str(port)}
        argv = ["node", EVERYTHING, "streamableHttp"]
        every = stack.enter_context(running(argv, directory / "every.log", env=env, merged=True))
        every.wait_for(f"port {port}")
        ttl = stack.enter_context(
            running([PYTHON_2, SERVERS / "ttl_server.py", "ttlhttp", "--http", *TAKES], directory / "t")
        )
        config = [
            "startup_grace_s = 60.0",
            child("every", node, EVERYTHING, session_mode="shared"),
            behind("every-http", f"http://127.0.0.1:{port}/mcp", session_mode="shared"),
            behind("every-own", f"http://127.0.0.1:{port}/mcp"),
            child("ttl", PYTHON_2, SERVERS / "ttl_server.py", "ttl", *TAKES),
            behind("ttl-http", ttl.wait_for(r"http://\S+")[0]),
        ]
        yield Site(stack.enter_context(running_hub(directory, "\n".join(config))), counts)


async def warm(reader, way, count):
    """Read until nothing is asked for any more: by then the hub hears of changes."""
    for _ in range(50):
        before = count()
        await reader.read(way.uri)
        if count() == before:
            return
    raise AssertionError(f"{way.uri} is read anew each time")


@pytest.mark.covers("SEC-23", "K-2")
@ALL_WAYS
async def test_a_thousand_readings_are_one(site, nursery, way):
    count = site.counts[way.name]
    readers = [await nursery.start(Reader(site.hub, way.name).run) for _ in range(HOSTS)]
    await readers[0].ask("resources/subscribe", uri=way.uri)
    await warm(readers[0], way, count)
    await readers[0].call(way.change, **way.arguments)
    await readers[0].heard_of(way.uri)
    if way.change == TOGGLE:  # or it would say so every five seconds
        await readers[0].call(TOGGLE)
    before = count()
    texts = set()

    async def read(reader):
        texts.update(await reader.read_many(way.uri, READS // HOSTS, AT_ONCE))

    async with trio.open_nursery() as inner:
        for reader in readers:
            inner.start_soon(read, reader)
    assert count() - before == 1
    assert len(texts) == 1
    nursery.cancel_scope.cancel()


@pytest.mark.covers("K-8", "N-11")
@ALL_WAYS
async def test_after_an_update_the_next_reading_is_fresh(site, nursery, way):
    """And a host that has subscribed is told, whoever made the change and whoever reads."""
    count = site.counts[way.name]
    watcher, reader, other = [await nursery.start(Reader(site.hub, way.name).run) for _ in range(3)]
    await watcher.ask("resources/subscribe", uri=way.uri)
    await warm(reader, way, count)
    for _ in range(2):
        old = await reader.read(way.uri)
        changed = await other.call(way.change, **way.arguments)
        if "Stopped" in str(changed):  # this one says nothing of changes
            changed = await other.call(way.change, **way.arguments)
        await watcher.heard_of(way.uri)
        before = count()
        new = await reader.read(way.uri)
        assert count() - before == 1
        if way.change != TOGGLE:
            assert new.split(",")[0] == changed["content"][0]["text"] != old.split(",")[0]
        assert await watcher.read(way.uri) == await other.read(way.uri) == new
        assert count() - before == 1
    if way.change == TOGGLE:
        await other.call(TOGGLE)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("SEC-23")
async def test_what_is_read_over_a_hosts_own_session_is_for_that_host(site, nursery):
    way = Way("every-own", f"{ITEM}7", TOGGLE, {})
    count = site.counts[way.name]
    readers = [await nursery.start(Reader(site.hub, way.name).run) for _ in range(2)]
    for reader in readers:
        before = count()
        await reader.read(way.uri)
        assert count() - before == 1
        await warm(reader, way, count)
    await warm(readers[0], way, count)  # what the other session agreed to may have made it doubtful
    before = count()
    for reader in readers:
        await reader.read(way.uri)
    assert count() == before
    nursery.cancel_scope.cancel()


@pytest.mark.covers("K-1", "K-6")
@pytest.mark.parametrize("name", ["ttl", "ttl-http"])
async def test_modern_hosts_are_told_what_is_left_of_the_time(site, nursery, name):
    scheme, count = name.replace("-", ""), site.counts[name]
    reader = await nursery.start(Reader(site.hub, name).run)
    for scope in ("public", "private"):
        await warm(reader, Way(name, f"{scheme}://{scope}", "change", {"which": scope}), count)
        first = await reader.ask("resources/read", modern=True, uri=f"{scheme}://{scope}")
        before = count()
        second = await reader.ask("resources/read", modern=True, uri=f"{scheme}://{scope}")
        assert count() == before
        assert first["cacheScope"] == second["cacheScope"] == scope
        assert 0 < second["ttlMs"] <= first["ttlMs"] <= 3_600_000
        assert first["contents"] == second["contents"]
    before, brief = count(), f"{scheme}://brief"
    result = await reader.ask("resources/read", modern=True, uri=brief)
    assert 0 <= result["ttlMs"] <= 300
    await trio.sleep(0.31)
    again = await reader.ask("resources/read", modern=True, uri=brief)
    assert again["contents"] != result["contents"]
    assert count() - before == 2
    nursery.cancel_scope.cancel()
