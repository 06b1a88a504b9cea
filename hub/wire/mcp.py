"""Vocabulary of the Model Context Protocol: revisions, methods, keys and codes. The only place with spec strings.

Sources: the revisions 2024-11-05 to 2026-07-28 of modelcontextprotocol.io/specification. "Legacy" revisions open with
an `initialize` handshake; the "modern" one carries its metadata in every request.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Raw, Struct

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


# --- keys of `_meta` ----------------------------------------------------------------------------------------------

PREFIX: Final = "io.modelcontextprotocol/"
VERSION_KEY: Final = PREFIX + "protocolVersion"
CLIENT_INFO_KEY: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES_KEY: Final = PREFIX + "clientCapabilities"
MAX_DECLARED_BYTES: Final = 64 << 10
"""Size of each declaration of a host that the hub keeps: capabilities, name, roots."""
LOG_LEVEL_KEY: Final = PREFIX + "logLevel"
SERVER_INFO_KEY: Final = PREFIX + "serverInfo"
SUBSCRIPTION_KEY: Final = PREFIX + "subscriptionId"
RELATED_TASK_KEY: Final = PREFIX + "related-task"
PROGRESS_TOKEN: Final = "progressToken"
HOP_KEYS: Final = frozenset(
    {PROGRESS_TOKEN, VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, RELATED_TASK_KEY}
)
"""Request `_meta` keys that mean something on one hop only: read, then never passed on."""

HUB_PREFIX: Final = "dev.hubd/"
"""Prefix of the hub's own `_meta` keys; the labels `mcp` and `modelcontextprotocol` are reserved for the protocol."""
HUB_SERVER: Final = HUB_PREFIX + "server"
HUB_STALE: Final = HUB_PREFIX + "stale"
"""On a stale result that is served because a new read failed: its age, and the reason."""
HUB_ORIGINAL_NAME: Final = HUB_PREFIX + "originalName"
HUB_ORIGINAL_URI: Final = HUB_PREFIX + "originalUri"
HUB_FAILURE: Final = HUB_PREFIX + "failure"
HUB_SERVER_INFO: Final = HUB_PREFIX + "serverInfo"
HUB_SESSION: Final = HUB_PREFIX + "session"
"""The upstream session in which a legacy task began; for the hub's own use, never sent."""

# --- error codes --------------------------------------------------------------------------------------------------

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Legacy only; modern revisions use -32602."""
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""An answer with one of these identifies a modern server."""
URL_ELICITATION_REQUIRED: Final = -32042

# --- methods ------------------------------------------------------------------------------------------------------

INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
DISCOVER: Final = "server/discover"
PING: Final = "ping"
SET_LEVEL: Final = "logging/setLevel"
COMPLETE: Final = "completion/complete"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
PROMPTS_LIST: Final = "prompts/list"
PROMPTS_GET: Final = "prompts/get"
RESOURCES_LIST: Final = "resources/list"
RESOURCES_READ: Final = "resources/read"
TEMPLATES_LIST: Final = "resources/templates/list"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
LISTEN: Final = "subscriptions/listen"
SAMPLE: Final = "sampling/createMessage"
ELICIT: Final = "elicitation/create"
LIST_ROOTS: Final = "roots/list"
QUESTIONS: Final = frozenset({SAMPLE, ELICIT, LIST_ROOTS})
"""Requests that a server may send to a host."""
TASKS_GET: Final = "tasks/get"
TASKS_RESULT: Final = "tasks/result"
TASKS_UPDATE: Final = "tasks/update"
TASKS_CANCEL: Final = "tasks/cancel"
MAY_ASK: Final = frozenset({TOOLS_CALL, PROMPTS_GET, RESOURCES_READ, TASKS_RESULT})
"""Operations during which a server may ask questions."""
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
MESSAGE: Final = "notifications/message"
UPDATED: Final = "notifications/resources/updated"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
ELICITED: Final = "notifications/elicitation/complete"
TASK_CHANGED: Final = "notifications/tasks"

RESULT_TYPE: Final = "resultType"
COMPLETED: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
TASK: Final = "task"
"""The values of `resultType`."""
UI_EXTENSION: Final = PREFIX + "ui"
TASKS_EXTENSION: Final = PREFIX + "tasks"

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Kind(Enum):
    """The four kinds of entries that a server lists. The value is the key of the list in the result."""

    TOOL = "tools"
    PROMPT = "prompts"
    RESOURCE = "resources"
    TEMPLATE = "resourceTemplates"


LIST_METHOD: Final[Mapping[Kind, str]] = {
    Kind.TOOL: TOOLS_LIST,
    Kind.PROMPT: PROMPTS_LIST,
    Kind.RESOURCE: RESOURCES_LIST,
    Kind.TEMPLATE: TEMPLATES_LIST,
}
IDENTIFIER: Final[Mapping[Kind, str]] = {
    Kind.TOOL: "name",
    Kind.PROMPT: "name",
    Kind.RESOURCE: "uri",
    Kind.TEMPLATE: "uriTemplate",
}
"""The member by which an entry of each kind is addressed."""
CAPABILITY: Final[Mapping[Kind, str]] = {
    Kind.TOOL: "tools",
    Kind.PROMPT: "prompts",
    Kind.RESOURCE: "resources",
    Kind.TEMPLATE: "resources",
}
LIST_CHANGED: Final[Mapping[str, tuple[Kind, ...]]] = {
    "notifications/tools/list_changed": (Kind.TOOL,),
    "notifications/prompts/list_changed": (Kind.PROMPT,),
    "notifications/resources/list_changed": (Kind.RESOURCE, Kind.TEMPLATE),
}
LIST_FLAGS: Final[Mapping[str, str]] = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""Members of the filter of `subscriptions/listen` for changes of lists, and the notification of each."""
NAMED_BY: Final[Mapping[str, str]] = {
    TOOLS_CALL: "name",
    PROMPTS_GET: "name",
    RESOURCES_READ: "uri",
    TASKS_GET: "taskId",
    TASKS_UPDATE: "taskId",
    TASKS_CANCEL: "taskId",
}
"""The parameter that `Mcp-Name` mirrors."""


class Entry(Struct, frozen=True):
    """One tool, prompt, resource or template as its upstream listed it."""

    key: str
    """The upstream's own name, URI or URI template."""
    fields: dict[str, Raw]
    """All members of the entry, `key` included, in the upstream's order and bytes."""


class Freshness(Struct, frozen=True):
    """A modern upstream's caching hints for a list. `ttl_ms` None: there are none (legacy)."""

    ttl_ms: int | None = None
    public: bool = False


class Snapshot(Struct, frozen=True):
    """One upstream's lists and declarations at one moment. Never changed, only replaced by a new snapshot."""

    upstream: str
    version: str
    """Negotiated revision; "" while never connected."""
    capabilities: dict[str, Raw]
    server_info: dict[str, Raw]
    instructions: str
    lists: dict[Kind, tuple[Entry, ...]]
    freshness: dict[Kind, Freshness]
    local: bool
    """stdio or loopback: the upstream's `file` URIs mean this machine's files."""
    degraded: tuple[str, ...] = ()
    """Why the lists are incomplete (too many entries, pages that go in circles); empty when they are complete."""
