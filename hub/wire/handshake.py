"""The handshake of the legacy revisions, 2024-11-05 to 2025-11-25.

A conversation opens with `initialize`, in which the client proposes a revision and declares its capabilities; the
server answers with the revision it will speak; the client sends `notifications/initialized`, and from then on either
side may send requests. The hub is server towards hosts and client towards upstreams.

Where the revisions only say SHOULD, the hub is lenient with hosts (`hub.downstream`) and strict with itself
(`upstreams.transports.negotiation`):

- a host may send requests before `initialized`, and may leave it out; the hub as a client sends it first;
- a host may initialize again, which starts over: shims replay the handshake to a new daemon;
- notifications before the handshake is complete are ignored, not refused: they are never answered anyway;
- `ping` is answered at any time, in both directions.
"""

from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import RemoteProtocolError, detach, open_object, peek_object, peek_str, raw
from hub.wire.mcp import HUB_INFO, INVALID_PARAMS, L4, LEGACY_VERSIONS

MAX_PROGRAM_NAME: Final = 128
"""Characters of a program's name that tell it from others."""


def negotiate(requested: str) -> str:
    """Choose the revision to answer a host with: the requested one if the hub speaks it, else the latest legacy one.

    2026-07-28 has no handshake, so a host that asks for it by `initialize` gets 2025-11-25.
    """
    return requested if requested in LEGACY_VERSIONS else L4


def initialize_params(version: str, capabilities: dict[str, Raw]) -> dict[str, Raw]:
    """Make the params of the hub's own `initialize`."""
    return {"protocolVersion": raw(version), "capabilities": raw(capabilities), "clientInfo": HUB_INFO}


class ServerFacts(Struct, frozen=True):
    """An upstream's declaration in the handshake, detached from the message it came in."""

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
    """Read the result of the hub's own `initialize`; absent capabilities are taken as none.

    Raises:
        UnsupportedVersion: the upstream speaks no revision that the hub speaks.
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
        capabilities=detach_all(open_object(members.get("capabilities", b"{}"))),
        server_info=detach_all(peek_object(members.get("serverInfo"))),
        instructions=peek_str(members.get("instructions")) or "",
    )


def program_name(client_info: Raw | None) -> str:
    """The name that a program gives itself in `clientInfo`; "": none, or nothing that can be read."""
    return (peek_str(peek_object(client_info).get("name")) or "")[:MAX_PROGRAM_NAME]


def detach_all(members: dict[str, Raw]) -> dict[str, Raw]:
    """Copy members, so that they do not keep their message alive."""
    return {name: detach(value) for name, value in members.items()}
