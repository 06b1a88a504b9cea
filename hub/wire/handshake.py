"""The handshake of the legacy revisions, 2024-11-05 to 2025-11-25.

A conversation opens with `initialize`, in which the client proposes a revision and declares what it can do; the server
answers with the revision it will speak; the client says `notifications/initialized`, and from then on either side may
ask. The hub plays both parts: server towards hosts, client towards upstreams.

    FRESH --INITIALIZE--> ASKED --AGREE--> AGREED --INITIALIZED--> OPEN
                            |
                            +--REFUSE--> FRESH (server) or CLOSED (client)

`TRANSITIONS[role][state][event]` is all there is. The events are those of the conversation, whoever causes them, seen
from a role; what is not in the table breaks the protocol. Where the revisions only say SHOULD, the table is kind to
peers and strict with ourselves (V-17):

- a host may ask between `AGREED` and `OPEN`, and may forget `initialized` altogether; a client of ours may not;
- a host may initialise again, which starts over: shims replay the handshake to a new daemon (G-17);
- notifications before `OPEN` are ignored, not refused: they are never answered anyway (B-8);
- `ping` is legal in every state but the last, in both directions.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import RemoteProtocolError, detach, open_object, peek_object, peek_str, raw
from hub.wire.mcp import HUB_INFO, INVALID_PARAMS, INVALID_REQUEST, L4, LEGACY_VERSIONS


class Role(Enum):
    """Which part the hub plays."""

    CLIENT = "client"
    SERVER = "server"


class State(Enum):
    """How far a conversation has come."""

    FRESH = "fresh"
    ASKED = "asked"
    AGREED = "agreed"
    OPEN = "open"
    CLOSED = "closed"


class Event(Enum):
    """What moves it on."""

    INITIALIZE = "initialize"
    AGREE = "agree"
    """A result for `initialize` with a revision both speak."""
    REFUSE = "refuse"
    """An error for `initialize`, or a revision we do not speak (V-15)."""
    INITIALIZED = "initialized"
    PING = "ping"
    REQUEST = "request"
    """Any other request of the client."""
    NOTIFICATION = "notification"
    CLOSE = "close"


_ANYTIME = (Event.PING, Event.NOTIFICATION)


def _row(state: State, also: tuple[Event, ...] = (), **moves: State) -> dict[Event, State]:
    stay = dict.fromkeys((*_ANYTIME, *also), state)
    return stay | {Event[name.upper()]: to for name, to in moves.items()} | {Event.CLOSE: State.CLOSED}


TRANSITIONS: Final[Mapping[Role, Mapping[State, Mapping[Event, State]]]] = {
    Role.SERVER: {
        State.FRESH: _row(State.FRESH, initialize=State.ASKED),
        State.ASKED: _row(State.ASKED, agree=State.AGREED, refuse=State.FRESH),
        State.AGREED: _row(State.AGREED, (Event.REQUEST,), initialized=State.OPEN, initialize=State.ASKED),
        State.OPEN: _row(State.OPEN, (Event.REQUEST, Event.INITIALIZED), initialize=State.ASKED),
        State.CLOSED: {Event.CLOSE: State.CLOSED},
    },
    Role.CLIENT: {
        State.FRESH: _row(State.FRESH, initialize=State.ASKED),
        State.ASKED: _row(State.ASKED, agree=State.AGREED, refuse=State.CLOSED),
        State.AGREED: _row(State.AGREED, initialized=State.OPEN),
        State.OPEN: _row(State.OPEN, (Event.REQUEST,)),
        State.CLOSED: {Event.CLOSE: State.CLOSED},
    },
}


class LocalProtocolError(Exception):
    """We were about to break the protocol: a bug of ours, not of the peer."""


class Handshake:
    """One conversation's place in `TRANSITIONS`."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.state = State.FRESH

    def __repr__(self) -> str:
        return f"<Handshake as {self.role.value}: {self.state.value}>"

    def feed(self, event: Event) -> State:
        """Move on, and say where to.

        Raises:
            RemoteProtocolError: -32600, a host did what it may not do now (role SERVER).
            LocalProtocolError: we did (role CLIENT).
        """
        state = TRANSITIONS[self.role][self.state].get(event)
        if state is None:
            text = f"{event.value} is not possible while the session is {self.state.value}"
            if self.role is Role.CLIENT:
                raise LocalProtocolError(text)
            hint = "; send initialize first" if self.state is State.FRESH else ""
            raise RemoteProtocolError(INVALID_REQUEST, text + hint)
        self.state = state
        return state


def negotiate(requested: str) -> str:
    """The revision to answer a host with: its own, or else our latest (V-14).

    2026-07-28 has no handshake, so a host that asks for it by `initialize` gets 2025-11-25 (V-26).
    """
    return requested if requested in LEGACY_VERSIONS else L4


def initialize_params(version: str, capabilities: dict[str, Raw], hub_info: Raw = HUB_INFO) -> dict[str, Raw]:
    """The params of the hub's own `initialize`."""
    return {"protocolVersion": raw(version), "capabilities": raw(capabilities), "clientInfo": hub_info}


class ServerFacts(Struct, frozen=True):
    """What an upstream said about itself. Detached from the message it came in."""

    version: str
    capabilities: dict[str, Raw]
    server_info: dict[str, Raw]
    instructions: str


class UnsupportedVersion(RemoteProtocolError):
    """The upstream speaks no revision that the hub speaks."""

    def __init__(self, offered: str) -> None:
        super().__init__(
            INVALID_PARAMS, f"The server speaks {offered[:40]!r}, hubd speaks {', '.join(LEGACY_VERSIONS)}"
        )
        self.offered = offered


def read_initialize_result(value: Raw) -> ServerFacts:
    """The result of the hub's `initialize`. Kind where nothing hangs on it: absent capabilities are none.

    Raises:
        UnsupportedVersion: see there.
        RemoteProtocolError: not an object, no version, or capabilities that are no object.
    """
    members = open_object(value)
    version = peek_str(members.get("protocolVersion"))
    if version is None:
        raise RemoteProtocolError(INVALID_PARAMS, "The result of initialize has no protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise UnsupportedVersion(version)
    return ServerFacts(
        version,
        capabilities=detached(open_object(members.get("capabilities", b"{}"))),
        server_info=detached(peek_object(members.get("serverInfo"))),
        instructions=peek_str(members.get("instructions")) or "",
    )


def detached(members: dict[str, Raw]) -> dict[str, Raw]:
    """Members that do not keep their message alive."""
    return {name: detach(value) for name, value in members.items()}
