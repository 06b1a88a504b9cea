"""The Model Context Protocol: revisions, eras and kinds of entries that servers list; the words of `vocabulary`.

Sources: the revisions 2024-11-05 to 2026-07-28 of modelcontextprotocol.io/specification. "Legacy" revisions open with
an `initialize` handshake; the "modern" one carries its metadata in every request.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Raw

from hub.wire.vocabulary import *

HUBD_VERSION = "0.1.0"
HUB_NAME: Final = "hubd"
HUB_INFO: Final = Raw(f'{{"name":"{HUB_NAME}","title":"{HUB_NAME}","version":"{HUBD_VERSION}"}}')
"""The hub's `clientInfo` towards upstreams and `serverInfo` towards hosts."""

L1: Final = "2024-11-05"
L2: Final = "2025-03-26"
L3: Final = "2025-06-18"
L4: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
LEGACY_VERSIONS: Final = (L1, L2, L3, L4)
MODERN_VERSIONS: Final = (MODERN,)
ALL_VERSIONS: Final = (MODERN, L4, L3, L2, L1)
"""Newest first, as `server/discover` lists them."""


class Era(Enum):
    """The family of revisions that a conversation belongs to."""

    LEGACY = "legacy"
    MODERN = "modern"


def era_of(version: str) -> Era:
    """The era of a revision this module knows."""
    return Era.MODERN if version in MODERN_VERSIONS else Era.LEGACY


class Kind(Enum):
    """The four kinds of entries that a server lists. The value is the key of the list in the result."""

    TOOL = "tools"
    PROMPT = "prompts"
    RESOURCE = "resources"
    TEMPLATE = "resourceTemplates"

    __hash__ = object.__hash__  # that of `Enum` is a Python function


LIST_METHOD: Final = dict(zip(Kind, (TOOLS_LIST, PROMPTS_LIST, RESOURCES_LIST, TEMPLATES_LIST), strict=True))
IDENTIFIER: Final = dict(zip(Kind, ("name", "name", "uri", "uriTemplate"), strict=True))
"""The member by which an entry of each kind is addressed."""
CAPABILITY: Final = dict(zip(Kind, ("tools", "prompts", "resources", "resources"), strict=True))
LIST_CHANGED: Final[Mapping[str, tuple[Kind, ...]]] = {
    "notifications/tools/list_changed": (Kind.TOOL,),
    "notifications/prompts/list_changed": (Kind.PROMPT,),
    "notifications/resources/list_changed": (Kind.RESOURCE, Kind.TEMPLATE),
}
NAMED_BY: Final[Mapping[str, str]] = {
    TOOLS_CALL: "name",
    PROMPTS_GET: "name",
    RESOURCES_READ: "uri",
    TASKS_GET: "taskId",
    TASKS_UPDATE: "taskId",
    TASKS_CANCEL: "taskId",
}
"""The parameter that `Mcp-Name` mirrors."""
