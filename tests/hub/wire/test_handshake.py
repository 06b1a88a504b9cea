"""The handshake: which moves are possible, which revision is spoken, and what an upstream says about itself."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import Raw

from hub.wire.handshake import (
    TRANSITIONS,
    Event,
    Handshake,
    LocalProtocolError,
    Role,
    ServerFacts,
    State,
    UnsupportedVersion,
    initialize_params,
    negotiate,
    read_initialize_result,
)
from hub.wire.jsonrpc import RemoteProtocolError
from hub.wire.mcp import HUBD_VERSION, L1, L2, L3, L4, MODERN

# --- the table ------------------------------------------------------------------------------------------------------

STORIES = [
    (Role.SERVER, "initialize agree initialized request notification ping close", "open open"),
    (
        Role.SERVER,
        "ping notification initialize refuse initialize agree request initialized initialized request",
        "open",
    ),
    (Role.SERVER, "initialize agree initialized initialize agree request", "agreed"),
    (Role.CLIENT, "notification ping initialize ping notification agree initialized request ping", "open"),
    (Role.CLIENT, "initialize refuse close close", "closed"),
    (Role.CLIENT, "close", "closed"),
]


@pytest.mark.covers("V-13", "V-16", "V-17", "G-17")
@pytest.mark.parametrize(("role", "events", "end"), STORIES)
def test_stories(role: Role, events: str, end: str) -> None:
    handshake = Handshake(role)
    for event in events.split():
        assert handshake.feed(Event(event)) is handshake.state
    if not events.endswith("close"):
        assert handshake.state.value in end


@pytest.mark.covers("V-13", "V-17")
def test_a_host_asks_too_early() -> None:
    handshake = Handshake(Role.SERVER)
    with pytest.raises(RemoteProtocolError, match="send initialize first") as caught:
        handshake.feed(Event.REQUEST)
    assert caught.value.failure.code == -32600
    handshake.feed(Event.INITIALIZE)
    with pytest.raises(RemoteProtocolError, match=r"asked$"):
        handshake.feed(Event.REQUEST)
    assert repr(handshake) == "<Handshake as server: asked>"


@pytest.mark.covers("V-16", "V-17")
def test_our_own_haste_is_a_bug() -> None:
    handshake = Handshake(Role.CLIENT)
    with pytest.raises(LocalProtocolError):
        handshake.feed(Event.REQUEST)
    handshake.feed(Event.INITIALIZE)
    handshake.feed(Event.AGREE)
    with pytest.raises(LocalProtocolError):
        handshake.feed(Event.REQUEST)


class AnyConversation(RuleBasedStateMachine):
    """Whatever happens, nothing is asked of a conversation that was not agreed on, and closed is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.both = [Handshake(role) for role in Role]
        self.agreed = dict.fromkeys(Role, False)

    @rule(event=st.sampled_from(Event))
    def happen(self, event: Event) -> None:
        for handshake in self.both:
            before = handshake.state
            try:
                handshake.feed(event)
            except (RemoteProtocolError, LocalProtocolError):
                assert handshake.state is before
                continue
            if event is Event.AGREE:
                self.agreed[handshake.role] = True
            if event in (Event.REQUEST, Event.INITIALIZED):
                assert self.agreed[handshake.role]
            if before is State.CLOSED:
                assert handshake.state is State.CLOSED

    @invariant()
    def every_state_can_be_closed(self) -> None:
        for handshake in self.both:
            assert TRANSITIONS[handshake.role][handshake.state][Event.CLOSE] is State.CLOSED


TestAnyConversation = AnyConversation.TestCase


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
    "value",
    [b"[]", b"{}", b'{"protocolVersion":20250326}', b'{"protocolVersion":"2025-03-26","capabilities":[]}'],
)
def test_an_answer_that_makes_no_sense(value: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_initialize_result(Raw(value))


@pytest.mark.covers("V-15")
def test_an_answer_in_a_revision_we_do_not_speak() -> None:
    with pytest.raises(UnsupportedVersion, match="2026-07-28") as caught:
        read_initialize_result(Raw(b'{"protocolVersion":"2026-07-28","capabilities":{}}'))
    assert caught.value.offered == MODERN
