"""A change of a resource whose name a server spells in another way than whoever read it."""

import json

import pytest
import trio

from cache.resource_index import is_trackable
from hub.wire.normalize_uri import normalize
from tests.support.cache_upstream import Host, Served, read_of, reads_of

SPELLINGS = [
    ("note://a/My Note", "note://a/My%20Note"),
    ("note://a/caf\u00e9", "note://a/caf%C3%A9"),
    ("note://a/%7bb%7d", "note://a/{b}"),
    ("HTTP://Example.com/x", "http://example.com/x"),
    ("http://example.com", "http://example.com/"),
    ("http://example.com:80/x", "http://example.com/x"),
    ("http://[::1]:80/x?q", "http://[::1]/x?q"),
    ("file:/a/b", "file:///a/b"),
    ("file://localhost/a/b", "file:///a/b"),
    ("file:///a/./b", "file:///a/b"),
    ("file:///a/%2e%2e/b", "file:///b"),
    ("file:///a\\b", "file:///a/b"),
    (" note://a ", "note://a"),
    ("note://a\tb/c", "note://ab/c"),
    ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
]


async def text_of(reads, server, uri):
    reply = await reads.call(server, read_of(uri), Host(), server.call)
    return json.loads(bytes(reply.value))["contents"][0]["text"]


@pytest.mark.covers("K-8", "N-11")
@pytest.mark.parametrize(("one", "other"), [*SPELLINGS, *((other, one) for one, other in SPELLINGS)])
async def test_a_change_is_one_in_whatever_spelling(nursery, autojump_clock, one, other):
    server = Served()
    reads = await reads_of(nursery, server)
    await text_of(reads, server, one)
    server.says.resource_changed(other)
    assert await text_of(reads, server, one) == "2"
    server.says.resource_changed(other + "/part")
    assert await text_of(reads, server, one) == "3"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("uri", ["mailto:x", "note://a", "note://a/b c?d#e", "file:///C:/x", "urn:isbn:1", "a"])
def test_ordinary_names_are_followed(uri):
    assert is_trackable(uri)


def test_different_ones_stay_different():
    uris = ["note://a/b", "note://a/c", "note://b/b", "note://a/b/", "note://a/b?c", "file:///a/b", "memo://a/b"]
    assert len({normalize(uri) for uri in uris}) == len(uris)


class Told:
    """A store that nothing is found in, and what was invalidated there. In place of `cache.redis.store.RedisStore`."""

    is_coherent = True

    def __init__(self):
        self.void = []

    async def look_up(self, source, uri, owner, abilities=""):
        await trio.lowlevel.checkpoint()
        return None, None

    def invalidate(self, source, uri):
        self.void.append(uri)


@pytest.mark.covers("N-11")
async def test_other_hubs_drop_all_if_it_cannot_be_told_what_changed(nursery, autojump_clock):
    """Of what is read from the store afterwards, nothing may be older than what is dropped here."""
    server, store = Served(), Told()
    await reads_of(nursery, server, shared=store)
    server.says.resource_changed("note://a/b")
    server.says.resource_changed("note://a" + "/b" * 70)
    server.says.resource_changed("note://a/../b")
    assert store.void == ["note://a/b", None, None]
    nursery.cancel_scope.cancel()
