"""Capabilities: the handshake of 2024-11-05 to 2025-11-25, in which peers declare a revision and theirs, and those of
hosts as the hub declares them to upstreams.

Where the revisions only say SHOULD, the hub is lenient with hosts (`hub.downstream`) and strict with itself
(`upstreams.transports.negotiation`): a host may send requests before `initialized`, or leave it out; it may initialize
again, which starts over, as shims do with a new daemon; notifications before the handshake is complete are ignored.

A modern upstream gets the exact capabilities with each request; a legacy upstream gets them once, for the session.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import EMPTY, RemoteProtocolError, detach, open_object, peek_object, peek_str, raw
from hub.wire.mcp import HUB_INFO, INVALID_PARAMS, L4, LEGACY_VERSIONS, TASKS_EXTENSION, UI_EXTENSION

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
        ours = ", ".join(LEGACY_VERSIONS)
        super().__init__(INVALID_PARAMS, f"The server speaks {offered[:40]!r}, hubd speaks {ours}")
        self.offered = offered


def read_initialize_result(value: Raw) -> ServerFacts:
    """Read the result of the hub's own `initialize`; absent capabilities are taken as none. Raises UnsupportedVersion:
    the upstream speaks no revision that the hub speaks; RemoteProtocolError: not an object, no version, or capabilities
    that are no object."""
    members = open_object(value)
    if (version := peek_str(members.get("protocolVersion"))) is None:
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


FORM: Final = "form"
URL: Final = "url"
ASKABLE: Final = frozenset({"sampling", "elicitation", "roots"})
"""A host with one of these capabilities can be asked questions."""
PASSIVE_EXTENSIONS: Final = (UI_EXTENSION,)
"""Extensions that need nothing of the hub, and are declared to upstreams as they are."""
PASSIVE: Final = raw({UI_EXTENSION: {"mimeTypes": ["text/html;profile=mcp-app"]}})
"""Declaration of these extensions for all hosts: servers offer an extension's entries only to peers that declare it."""

TASKS_NEEDED: Final = raw({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})
"""Data of the error -32021, when a host needs the tasks extension."""


def capabilities_for_upstream(
    capabilities: Mapping[str, Raw], *, client_features: str = "auto", absorbs_tasks: bool = True
) -> dict[str, Raw]:
    """Make the declaration in a request to a modern upstream for a host with `capabilities`. Shared: never change it.

    `client_features`: "none" withholds every capability to be asked. `absorbs_tasks`: the hub waits for tasks that the
    host cannot wait for; otherwise the tasks extension is not declared, and no task may begin.
    """
    known = [capabilities.get(name) for name in _FEATURES]
    texts = tuple(None if value is None else bytes(value) for value in known)
    build = _modern if sum(map(len, filter(None, texts))) <= _MEMO_BYTES else _modern.__wrapped__
    return build(texts, client_features != "none", absorbs_tasks)


_FEATURES: Final = ("roots", "sampling", "elicitation", "extensions")
_MEMO_BYTES: Final = 2048


@lru_cache(maxsize=128)
def _modern(texts: tuple[bytes | None, ...], may_ask: bool, absorbs_tasks: bool) -> dict[str, Raw]:
    members = {name: Raw(text) for name, text in zip(_FEATURES, texts, strict=True) if text is not None}
    known = _select_known(members, roots=EMPTY) if may_ask else {}
    theirs = peek_object(members.get("extensions"))
    extensions = _select(theirs, PASSIVE_EXTENSIONS)
    if absorbs_tasks:
        extensions[TASKS_EXTENSION] = theirs.get(TASKS_EXTENSION, EMPTY)
    if extensions:
        known["extensions"] = raw(extensions)
    return known


def capabilities_of_shared_session() -> dict[str, Raw]:
    """Capabilities declared by `initialize` on a session shared by all hosts: all the hub can bridge, never roots."""
    return {"sampling": raw({"tools": {}}), "elicitation": raw({FORM: {}, URL: {}}), "extensions": PASSIVE}


def capabilities_of_session(host_capabilities: Mapping[str, Raw]) -> dict[str, Raw]:
    """Capabilities declared by `initialize` on a session of one host, with `host_capabilities`, alone."""
    roots = _select(peek_object(host_capabilities.get("roots")), ("listChanged",))
    known = _select_known(host_capabilities, roots=raw(roots))
    if extensions := _select(peek_object(host_capabilities.get("extensions")), PASSIVE_EXTENSIONS):
        known["extensions"] = raw(extensions)
    return known


def covers(declared: Mapping[str, Raw], needed: Mapping[str, Raw]) -> bool:
    """True if a session that declared `declared` can serve a host with the capabilities `needed`."""
    return _features(needed) <= _features(declared)


def _select_known(members: Mapping[str, Raw], *, roots: Raw) -> dict[str, Raw]:
    known = {}
    if "roots" in members:
        known["roots"] = roots
    if "sampling" in members:  # without `context`: through a hub it would mean every upstream
        known["sampling"] = raw(_select(peek_object(members["sampling"]), ("tools",)))
    if "elicitation" in members:
        known["elicitation"] = raw(_select(peek_object(members["elicitation"]), (FORM, URL)))
    return known


def _select(members: Mapping[str, Raw], names: tuple[str, ...]) -> dict[str, Raw]:
    return {name: members[name] for name in names if name in members}


def _features(capabilities: Mapping[str, Raw]) -> set[str]:
    """The capabilities that make a difference to an upstream."""
    features = {name for name in ("roots", "sampling") if name in capabilities}
    features |= {f"elicitation.{mode}" for mode in elicitation_modes(capabilities)}
    features |= _select(peek_object(capabilities.get("extensions")), PASSIVE_EXTENSIONS).keys()
    if "tools" in peek_object(capabilities.get("sampling")):
        features.add("sampling.tools")
    return features


def can_be_asked(capabilities: Mapping[str, Raw]) -> bool:
    """True if a host with `capabilities` can be asked any question."""
    return not ASKABLE.isdisjoint(capabilities)


def elicitation_modes(capabilities: Mapping[str, Raw]) -> set[str]:
    """The modes of elicitation that a host knows; an empty declaration, `{}`, means forms."""
    if "elicitation" not in capabilities:
        return set()
    return set(_select(peek_object(capabilities["elicitation"]), (FORM, URL))) or {FORM}
