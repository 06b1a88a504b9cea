"""What the hub says of itself to a new host, in the words of either era (bridging.md 4)."""

from typing import Final

from msgspec import Raw

from hub.catalog.catalog import SETTLING_TTL_MS
from hub.wire.hub_loops import EXPERIMENTAL, NO_HUBS, HubChain, announcement
from hub.wire.jsonrpc import raw
from hub.wire.mcp import ALL_VERSIONS, HUB_INFO, SERVER_INFO_KEY, TASKS_EXTENSION, UI_EXTENSION

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
"""Tasks are an extension of the modern revision only (X-10)."""

DISCOVER_TTL_MS: Final = 60_000


def initialize_result(version: str, instructions: str, behind: HubChain = NO_HUBS) -> Raw:
    """The answer to `initialize`, after agreeing on `version`. `behind`: the hubs that upstreams are."""
    capabilities = {**_CAPABILITIES, EXPERIMENTAL: announcement(behind)}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": HUB_INFO}
    return raw(result | _optional(instructions))


def discover_result(instructions: str, behind: HubChain = NO_HUBS, *, settled: bool) -> Raw:
    """The answer to `server/discover`; to be asked for again soon, until all upstreams have `settled`."""
    result = {
        "resultType": "complete",
        "supportedVersions": ALL_VERSIONS,
        "capabilities": {**_MODERN_CAPABILITIES, EXPERIMENTAL: announcement(behind)},
        "ttlMs": DISCOVER_TTL_MS if settled else SETTLING_TTL_MS,
        "cacheScope": "private",
        "_meta": {SERVER_INFO_KEY: HUB_INFO},
    }
    return raw(result | _optional(instructions))


def _optional(instructions: str) -> dict[str, object]:
    return {"instructions": instructions} if instructions else {}
