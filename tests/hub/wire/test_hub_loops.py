"""What hubs tell each other of what is behind them."""

import json

import pytest
from msgspec import Raw

from hub.wire.hub_loops import (
    EXPERIMENTAL,
    HUBS,
    MAX_HOPS,
    MAX_HUBS,
    NOBODY,
    THIS_HUB,
    Behind,
    all_behind,
    read_behind,
    told,
    with_behind,
)
from hub.wire.jsonrpc import raw


@pytest.mark.covers("F-D-17")
def test_a_hub_tells_itself_and_what_it_was_told():
    behind = all_behind([Behind(frozenset({"b", "c"}), 2), Behind(frozenset({"d"}), 1), NOBODY])
    assert behind == Behind(frozenset("bcd"), 2)
    assert not behind.is_loop
    said = raw(told(behind))
    assert json.loads(bytes(memoryview(said))) == {HUBS: {"ids": [THIS_HUB, "b", "c", "d"], "hops": 3}}
    assert read_behind(said) == Behind(frozenset({THIS_HUB, "b", "c", "d"}), 3)
    assert read_behind(said).is_loop


@pytest.mark.covers("F-D-17")
def test_a_way_that_is_too_long_is_a_loop():
    assert not Behind(frozenset("x"), MAX_HOPS).is_loop
    assert Behind(frozenset("x"), MAX_HOPS + 1).is_loop


@pytest.mark.parametrize(
    ("said", "behind"),
    [
        (None, NOBODY),
        (b"{}", NOBODY),
        (b'{"x":1}', NOBODY),
        (b"[]", NOBODY),
        (b'{"%s":null}', Behind(frozenset(), 1)),
        (b'{"%s":{"ids":7,"hops":"x"}}', Behind(frozenset(), 1)),
        (b'{"%s":{"ids":["a",1,"","a"],"hops":-3}}', Behind(frozenset("a"), 1)),
        (b'{"%s":{"ids":["a"],"hops":1e400}}', Behind(frozenset("a"), 1)),
        (b'{"%s":{"ids":["a"],"hops":99999999}}', Behind(frozenset("a"), MAX_HUBS)),
        (b'{"%s":{"ids":["' + b"a" * 65 + b'"],"hops":2}}', Behind(frozenset(), 2)),
    ],
)
def test_nonsense_does_no_harm(said, behind):
    value = None if said is None else Raw(said.replace(b"%s", HUBS.encode()))
    assert read_behind(value) == behind


def test_what_a_list_tells_replaces_what_the_handshake_told():
    capabilities = {"tools": Raw(b"{}"), EXPERIMENTAL: raw({"x": 1, **told(NOBODY)})}
    newer = with_behind(capabilities, Behind(frozenset({"a", "b"}), 2))
    assert newer.keys() == capabilities.keys()
    assert read_behind(newer[EXPERIMENTAL]) == Behind(frozenset({"a", "b"}), 2)
    assert json.loads(bytes(memoryview(newer[EXPERIMENTAL])))["x"] == 1
    assert read_behind(capabilities[EXPERIMENTAL]).hubs == {THIS_HUB}
