"""Sharing: which hosts share a session, and its terms, by `session_mode` and related settings. Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Raw

from config.settings import UpstreamConfig
from hub.wire.capabilities import capabilities_of_session, capabilities_of_shared_session
from hub.wire.jsonrpc import EMPTY, peek_object, raw
from hub.wire.mcp import Era
from upstreams.session_contract import SessionTerms


class Sharing(Enum):
    """The choice of hosts that share a session; `hubd status` shows the values."""

    SHARED = "shared"
    PER_PERSON = "per person"
    """Shared by the hosts of one person: everybody has an account of their own."""
    SINGLETON = "singleton"
    PER_HOST = "per host"
    INTERACTIVE = "interactive"


EXCLUSIVE: Final = Sharing.PER_HOST, Sharing.INTERACTIVE
ONE_STREAM: Final = frozenset({"stdio", "ws"})
"""Transports over which all that a server says comes by one stream, which is the session."""
GRANT_EXTENSIONS: Final = {
    "client_credentials": "io.modelcontextprotocol/oauth-client-credentials",
    "id_jag": "io.modelcontextprotocol/enterprise-managed-authorization",
}
"""The extensions that are declared to an upstream by the `grant` of its sign-in, and to no other."""


def sharing_of(config: UpstreamConfig, era: Era, transport: str, interactive: bool) -> Sharing:
    """The sharing that `session_mode` means for an upstream that speaks `era` over `transport`."""
    if era is Era.MODERN:  # has no sessions; but a stream whose log messages name no call can be one host's alone
        return Sharing.PER_HOST if config.session_mode == "per_host" and transport in ONE_STREAM else Sharing.SHARED
    if config.roots == "host" or config.session_mode == "per_host":
        return Sharing.PER_HOST
    if config.session_mode == "singleton":
        return Sharing.SINGLETON
    if config.session_mode == "shared":
        return Sharing.SHARED
    if transport not in ONE_STREAM:
        return Sharing.PER_HOST
    return Sharing.INTERACTIVE if interactive else Sharing.SHARED


def terms_of(config: UpstreamConfig, capabilities: Mapping[str, Raw] | None = None) -> SessionTerms:
    """The terms of a session for a host with `capabilities`; None: for more than one host."""
    roots = config.roots if isinstance(config.roots, tuple) else None
    if config.roots == "host" and capabilities is None:
        roots = ()  # some tools exist only for clients with roots; a shared session has none to tell
    declared: dict[str, Raw] = {}
    if config.client_features == "auto":
        declared = capabilities_of_shared_session() if capabilities is None else capabilities_of_session(capabilities)
    if roots is not None:
        declared["roots"] = EMPTY
    elif config.roots == "none":
        declared.pop("roots", None)
    extension = GRANT_EXTENSIONS.get(config.oauth.grant) if config.signs_in else None
    extensions = {extension: EMPTY} if extension else {}
    if extensions:
        declared["extensions"] = raw({**peek_object(declared.get("extensions")), **extensions})
    return SessionTerms(
        declared,
        exclusive=capabilities is not None,
        client_features=config.client_features,
        absorbs_tasks=config.tasks == "absorb",
        tells_roots=config.roots in ("auto", "host"),
        roots=roots,
        extensions=extensions,
        ping_s=config.ping_s,
    )


def is_welcoming(terms: SessionTerms) -> bool:
    """True if a host is introduced before its first operation: it has roots, which a server may want to know."""
    return terms.exclusive and "roots" in terms.capabilities and terms.roots is None


def union(some: Mapping[str, Raw], more: Mapping[str, Raw]) -> dict[str, Raw]:
    """All capabilities that one or the other declares, objects within objects included."""
    differing = {name for name in some.keys() & more.keys() if some[name] != more[name]}
    both = {name: raw({**peek_object(some[name]), **peek_object(more[name])}) for name in differing}
    return {**some, **more, **both}
