"""Negotiation: finds the era of an upstream and shakes hands, over a `Peer`; the era found is remembered.

    discover --a result, with a revision in common--> modern
        | any other error, no answer in time, only older revisions
        v
    initialize --a result--> legacy
        | refused
        v
    discover once more: a server that was slow to start, or has changed its era since it was remembered

A modern error (-32020 to -32022) is never answered by `initialize`, unless the server itself names older
revisions. That a server died of the probe is for the transport to see, which starts another.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from msgspec import Raw

from config.diff import config_key
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.hub_errors import HubError, UpstreamProtocolError, UpstreamVersionError
from hub.link.peer import Peer
from hub.wire import mcp
from hub.wire.capabilities import ServerFacts, UnsupportedVersion, initialize_params, read_initialize_result
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Result, peek_array, peek_object, peek_str
from hub.wire.modern_metadata import newest_mutual, read_discover_result
from upstreams.session_contract import OWN_CAPABILITIES
from upstreams.transports.request_params_for_era import stamp_own

SHOWN: Final = 200


class HandshakeRefused(UpstreamProtocolError):
    """The upstream answered `initialize` with an error."""


def expect_era(config: UpstreamConfig, memory: Memory) -> mcp.Era | None:
    """The era that the configuration fixes, or that the upstream spoke last time; None: unknown."""
    text = memory.era(config_key(config)) if config.era == "auto" else config.era
    return mcp.Era(text) if text in ("legacy", "modern") else None


def remember(config: UpstreamConfig, memory: Memory, facts: ServerFacts) -> None:
    """Keep what was found, for the next start of this configuration."""
    if config.era == "auto":
        memory.remember_era(config_key(config), mcp.era_of(facts.version).value)


async def shake_hands(
    peer: Peer, config: UpstreamConfig, expected: mcp.Era | None, capabilities: dict[str, Raw] = OWN_CAPABILITIES
) -> ServerFacts:
    """Find the era and agree on a revision, declaring `capabilities`. Only the wait for the probe is bounded here.
    Raises UpstreamVersionError: no revision in common; UpstreamProtocolError: an answer was nonsense, or `initialize`
    was refused; ChannelClosed, OutboxFull, BadPeer: as `Peer.request`."""
    if config.era == "modern":
        if (facts := await discover(peer)) is None:
            raise UpstreamVersionError(f'it does not speak {mcp.MODERN}; remove era = "modern" from its configuration')
        return facts
    if expected is not mcp.Era.LEGACY:
        with trio.move_on_after(config.timeouts.probe):
            if (facts := await discover(peer)) is not None:
                return facts
    try:
        return await initialize(peer, capabilities)
    except HandshakeRefused:
        if config.era == "legacy" or (facts := await discover(peer)) is None:
            raise
        return facts


async def discover(peer: Peer) -> ServerFacts | None:
    """`find_modern` over a peer."""

    async def ask(version: str) -> Reply:
        return await peer.request(mcp.DISCOVER, stamp_own(mcp.Era.MODERN, version, {}))

    return await find_modern(ask)


async def find_modern(ask: Callable[[str], Awaitable[Reply | None]]) -> ServerFacts | None:
    """Put `server/discover` by `ask`, which is given the revision to do it in and returns None for no answer.

    None: not a modern server, or one with no modern revision in common. Raises HubError: a modern server that cannot be
    used; or as `ask`.
    """
    if isinstance(reply := await ask(mcp.MODERN), Failure) and reply.code in mcp.MODERN_ERRORS:
        offered = versions_in(reply)
        if (version := newest_mutual(offered)) or not set(offered) & set(mcp.LEGACY_VERSIONS):
            reply = await ask(version or mcp.MODERN)
    return None if reply is None else judge_discover(reply)


def judge_discover(reply: Reply) -> ServerFacts | None:
    """Judge an answer to `server/discover`; None: use `initialize`. Raises UpstreamVersionError: a modern server, but
    no revision in common; UpstreamProtocolError: a modern server that refuses this request for another reason."""
    if isinstance(reply, Failure):
        if reply.code == mcp.UNSUPPORTED_VERSION:
            _check_legacy(versions_in(reply))
        elif reply.code in mcp.MODERN_ERRORS:
            raise UpstreamProtocolError(f"it refuses server/discover: {reply.message[:SHOWN]} ({reply.code})")
        return None
    try:
        offered, facts = read_discover_result(reply.value)
    except RemoteProtocolError:
        return None
    if not facts.version:
        _check_legacy(offered)
        return None
    return facts


def _check_legacy(offered: tuple[str, ...]) -> None:
    """A server that speaks none of our modern revisions must speak a legacy one."""
    if not set(offered) & set(mcp.LEGACY_VERSIONS):
        shown = ", ".join(version[:20] for version in offered[:8]) or "none that it names"
        text = f"no revision in common: it speaks {shown}; hubd speaks {', '.join(mcp.ALL_VERSIONS)}"
        raise UpstreamVersionError(text)


def versions_in(failure: Failure) -> tuple[str, ...]:
    """The revisions that a -32022 error lists in its data."""
    data = peek_object(failure.data if isinstance(failure.data, Raw) else None)
    found = map(peek_str, peek_array(data.get("supported")))
    return tuple(version for version in found if version is not None)


async def initialize(peer: Peer, capabilities: dict[str, Raw] = OWN_CAPABILITIES) -> ServerFacts:
    """The handshake of the legacy revisions. Raises HandshakeRefused: answered with an error; UpstreamVersionError: no
    revision in common; UpstreamProtocolError: the answer is nonsense."""
    reply = await peer.request(mcp.INITIALIZE, initialize_params(mcp.L4, capabilities))
    facts = judge_initialize(reply)
    peer.notify(mcp.INITIALIZED, {})
    return facts


def judge_initialize(reply: Reply) -> ServerFacts:
    """Judge an answer to `initialize`. Raises as `initialize`."""
    if not isinstance(reply, Result):
        raise HandshakeRefused(f"it refused to initialize: {reply.message[:SHOWN]} ({reply.code})")
    try:
        return read_initialize_result(reply.value)
    except UnsupportedVersion as error:
        raise UpstreamVersionError(f"no revision in common: {error}") from None
    except RemoteProtocolError as error:
        raise UpstreamProtocolError(f"its answer to initialize is not one: {error}") from None


def about(error: HubError, name: str) -> HubError:
    """`error` as one that names its upstream; the text of what this module raises is a clause about "it"."""
    if error.upstream is not None:
        return error
    return type(error)(f"{name} cannot be used: {error}", upstream=name, executed=error.executed)
