"""The legacy handshake: the chosen revision, and the declaration of an upstream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire.handshake import ServerFacts, UnsupportedVersion, initialize_params, negotiate, read_initialize_result
from hub.wire.jsonrpc import RemoteProtocolError
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
