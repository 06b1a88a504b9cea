"""Loops of hubs: announcements of the hubs behind a hub."""

import json

import pytest
from msgspec import Raw

from hub.wire.hub_loops import (
    EXPERIMENTAL,
    HUBS,
    MAX_HOPS,
    MAX_HUBS,
    NO_HUBS,
    THIS_HUB,
    HubChain,
    announcement,
    join_chains,
    read_chain,
    with_chain,
)
from hub.wire.jsonrpc import raw


@pytest.mark.covers("F-D-17")
def test_a_hub_tells_itself_and_what_it_was_told():
    behind = join_chains([HubChain(frozenset({"b", "c"}), 2), HubChain(frozenset({"d"}), 1), NO_HUBS])
    assert behind == HubChain(frozenset("bcd"), 2)
    assert not behind.is_loop
    said = raw(announcement(behind))
    assert json.loads(bytes(memoryview(said))) == {HUBS: {"ids": [THIS_HUB, "b", "c", "d"], "hops": 3}}
    assert read_chain(said) == HubChain(frozenset({THIS_HUB, "b", "c", "d"}), 3)
    assert read_chain(said).is_loop


@pytest.mark.covers("F-D-17")
def test_a_way_that_is_too_long_is_a_loop():
    assert not HubChain(frozenset("x"), MAX_HOPS).is_loop
    assert HubChain(frozenset("x"), MAX_HOPS + 1).is_loop


@pytest.mark.parametrize(
    ("said", "behind"),
    [
        (None, NO_HUBS),
        (b"{}", NO_HUBS),
        (b'{"x":1}', NO_HUBS),
        (b"[]", NO_HUBS),
        (b'{"%s":null}', HubChain(frozenset(), 1)),
        (b'{"%s":{"ids":7,"hops":"x"}}', HubChain(frozenset(), 1)),
        (b'{"%s":{"ids":["a",1,"","a"],"hops":-3}}', HubChain(frozenset("a"), 1)),
        (b'{"%s":{"ids":["a"],"hops":1e400}}', HubChain(frozenset("a"), 1)),
        (b'{"%s":{"ids":["a"],"hops":99999999}}', HubChain(frozenset("a"), MAX_HUBS)),
        (b'{"%s":{"ids":["' + b"a" * 65 + b'"],"hops":2}}', HubChain(frozenset(), 2)),
    ],
)
def test_nonsense_does_no_harm(said, behind):
    value = None if said is None else Raw(said.replace(b"%s", HUBS.encode()))
    assert read_chain(value) == behind


def test_what_a_list_tells_replaces_what_the_handshake_told():
    capabilities = {"tools": Raw(b"{}"), EXPERIMENTAL: raw({"x": 1, **announcement(NO_HUBS)})}
    newer = with_chain(capabilities, HubChain(frozenset({"a", "b"}), 2))
    assert newer.keys() == capabilities.keys()
    assert read_chain(newer[EXPERIMENTAL]) == HubChain(frozenset({"a", "b"}), 2)
    assert json.loads(bytes(memoryview(newer[EXPERIMENTAL])))["x"] == 1
    assert read_chain(capabilities[EXPERIMENTAL]).hubs == {THIS_HUB}
