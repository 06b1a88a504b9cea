"""Answers of the hub about itself, in the words of either era: `initialize`, `server/discover`, `ping`."""

from typing import Final

from msgspec import Raw

from hub.catalog.list_result import SETTLING_TTL_MS
from hub.link.interface import NOTHING, Caller
from hub.wire.declarations import EXPERIMENTAL, NO_HUBS, HubChain, announcement
from hub.wire.jsonrpc import Failure, Reply, Result, raw
from hub.wire.mcp import ALL_VERSIONS, HUB_INFO, METHOD_NOT_FOUND, SERVER_INFO_KEY, TASKS_EXTENSION, UI_EXTENSION, Era

_CHANGING: Final = {"listChanged": True}
_EVERYTHING: Final = {
    "tools": _CHANGING,
    "prompts": _CHANGING,
    "resources": {"subscribe": True, **_CHANGING},
    "completions": {},
    "logging": {},
}
_CAPABILITIES: Final = {**_EVERYTHING, "extensions": {UI_EXTENSION: {}}}
"""A superset: legacy hosts read it once, while upstreams come, go and change."""
_MODERN_CAPABILITIES: Final = {**_EVERYTHING, "extensions": {UI_EXTENSION: {}, TASKS_EXTENSION: {}}}
"""Tasks are an extension of the modern revision only."""

DISCOVER_TTL_MS: Final = 60_000


def initialize_result(version: str, instructions: str, behind: HubChain = NO_HUBS) -> Raw:
    """The answer to `initialize`, after agreeing on `version`. `behind`: the hubs that upstreams are."""
    capabilities = {**_CAPABILITIES, EXPERIMENTAL: announcement(behind)}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": HUB_INFO}
    return raw(result | _optional(instructions))


def ping_reply(caller: Caller) -> Reply:
    """The answer to `ping`."""
    if caller.era is Era.MODERN:
        return Failure(METHOD_NOT_FOUND, "There is no ping in this revision")
    return NOTHING


def discover_reply(caller: Caller, instructions: str, behind: HubChain = NO_HUBS, *, settled: bool) -> Reply:
    """The answer to `server/discover`; to be asked for again soon, until all upstreams have `settled`."""
    if caller.era is Era.LEGACY:
        return Failure(METHOD_NOT_FOUND, "server/discover is a request of 2026-07-28; this connection is older")
    result = {
        "resultType": "complete",
        "supportedVersions": ALL_VERSIONS,
        "capabilities": {**_MODERN_CAPABILITIES, EXPERIMENTAL: announcement(behind)},
        "ttlMs": DISCOVER_TTL_MS if settled else SETTLING_TTL_MS,
        "cacheScope": "private",
        "_meta": {SERVER_INFO_KEY: HUB_INFO},
    }
    return Result(raw(result | _optional(instructions)))


def _optional(instructions: str) -> dict[str, object]:
    return {"instructions": instructions} if instructions else {}
