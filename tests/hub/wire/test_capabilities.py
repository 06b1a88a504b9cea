"""The legacy handshake: the chosen revision, and the declaration of an upstream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire.capabilities import ServerFacts, UnsupportedVersion, initialize_params, negotiate, read_initialize_result
from hub.wire.hub_chains import (
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
from hub.wire.jsonrpc import RemoteProtocolError, raw
from hub.wire.mcp import HUBD_VERSION, L1, L2, L3, L4, MODERN

# --- revisions ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("V-14", "V-26")
@pytest.mark.parametrize(
    ("requested", "answered"),
    [(L1, L1), (L2, L2), (L3, L3), (L4, L4), (MODERN, L4), ("1999-01-01", L4), ("", L4), ("DRAFT-2026-v1", L4)],
)
def test_negotiation(requested: str, answered: str) -> None:
    assert negotiate(requested) == answered


@pytest.mark.covers("V-14")
@given(st.text())
def test_only_legacy_revisions_are_negotiated(requested: str) -> None:
    assert negotiate(requested) in (L1, L2, L3, L4)


# --- the two messages -----------------------------------------------------------------------------------------------


@pytest.mark.covers("V-13")
def test_our_initialize() -> None:
    params = initialize_params(L4, {"roots": Raw(b"{}")})
    assert {name: json.loads(bytes(value)) for name, value in params.items()} == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "hubd", "title": "hubd", "version": HUBD_VERSION},
    }


@pytest.mark.covers("V-15", "V-19")
def test_their_answer() -> None:
    full = b'{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"x"},"instructions":"Do"}'
    assert read_initialize_result(Raw(full)) == ServerFacts(L2, {"tools": Raw(b"{}")}, {"name": Raw(b'"x"')}, "Do")
    bare = ServerFacts(L1, {}, {}, "")
    for kind in (
        b'{"protocolVersion":"2024-11-05"}',
        b'{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":null,"instructions":7}',
    ):
        assert read_initialize_result(Raw(kind)) == bare


@pytest.mark.covers("V-15", "V-19", "F-P-12")
@pytest.mark.parametrize(
    "value", [b"[]", b"{}", b'{"protocolVersion":20250326}', b'{"protocolVersion":"2025-03-26","capabilities":[]}']
)
def test_an_answer_that_makes_no_sense(value: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_initialize_result(Raw(value))


@pytest.mark.covers("V-15")
def test_an_answer_in_a_revision_we_do_not_speak() -> None:
    with pytest.raises(UnsupportedVersion, match="2026-07-28") as caught:
        read_initialize_result(Raw(b'{"protocolVersion":"2026-07-28","capabilities":{}}'))
    assert caught.value.offered == MODERN


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
