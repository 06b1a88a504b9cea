"""The words of the Model Context Protocol: methods, keys and codes; and of the hub's own conversation with its shims.

The only place with spec strings. It imports nothing, not even typing, since the shim reads it, too; the hub finds these
names in `hub.wire.mcp`.
"""

# --- keys of `_meta` ----------------------------------------------------------------------------------------------

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CLIENT_INFO_KEY = PREFIX + "clientInfo"
CLIENT_CAPABILITIES_KEY = PREFIX + "clientCapabilities"
MAX_DECLARED_BYTES = 64 << 10
"""Size of each declaration of a host that the hub keeps: capabilities, name, roots."""
LOG_LEVEL_KEY = PREFIX + "logLevel"
SERVER_INFO_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"
RELATED_TASK_KEY = PREFIX + "related-task"
PROGRESS_TOKEN = "progressToken"
HOP_KEYS = frozenset(
    {PROGRESS_TOKEN, VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, RELATED_TASK_KEY}
)
"""Request `_meta` keys that mean something on one hop only: read, then never passed on."""

HUB_PREFIX = "dev.hubd/"
"""Prefix of the hub's own `_meta` keys; the labels `mcp` and `modelcontextprotocol` are reserved for the protocol."""
HUB_SERVER = HUB_PREFIX + "server"
HUB_STALE = HUB_PREFIX + "stale"
"""On a stale result that is served because a new read failed: its age, and the reason."""
HUB_ORIGINAL_NAME = HUB_PREFIX + "originalName"
HUB_ORIGINAL_URI = HUB_PREFIX + "originalUri"
HUB_FAILURE = HUB_PREFIX + "failure"
HUB_SERVER_INFO = HUB_PREFIX + "serverInfo"
HUB_TOOL = HUB_PREFIX + "tool"
HUB_POLICY = HUB_PREFIX + "policy"
"""On the result of a tool that was called by way of the hub's own: its name."""
HUB_TOOLS = "hub__"
"""Prefix of the hub's own tools."""
HUB_RESULTS = "hub://results/"
"""Prefix of the URIs of results that were cut."""
HUB_SESSION = HUB_PREFIX + "session"
"""The upstream session in which a legacy task began; for the hub's own use, never sent."""

# --- error codes --------------------------------------------------------------------------------------------------

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Legacy only; modern revisions use -32602."""
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""An answer with one of these identifies a modern server."""
URL_ELICITATION_REQUIRED = -32042

# --- methods ------------------------------------------------------------------------------------------------------

INITIALIZE = "initialize"
INITIALIZED = "notifications/initialized"
DISCOVER = "server/discover"
PING = "ping"
SET_LEVEL = "logging/setLevel"
COMPLETE = "completion/complete"
TOOLS_LIST = "tools/list"
TOOLS_CALL = "tools/call"
PROMPTS_LIST = "prompts/list"
PROMPTS_GET = "prompts/get"
RESOURCES_LIST = "resources/list"
RESOURCES_READ = "resources/read"
TEMPLATES_LIST = "resources/templates/list"
SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"
LISTEN = "subscriptions/listen"
SAMPLE = "sampling/createMessage"
ELICIT = "elicitation/create"
LIST_ROOTS = "roots/list"
QUESTIONS = frozenset({SAMPLE, ELICIT, LIST_ROOTS})
"""Requests that a server may send to a host."""
TASKS_GET = "tasks/get"
TASKS_RESULT = "tasks/result"
TASKS_UPDATE = "tasks/update"
TASKS_CANCEL = "tasks/cancel"
MAY_ASK = frozenset({TOOLS_CALL, PROMPTS_GET, RESOURCES_READ, TASKS_RESULT})
"""Operations during which a server may ask questions."""
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
ROOTS_CHANGED = "notifications/roots/list_changed"
ELICITED = "notifications/elicitation/complete"
TASK_CHANGED = "notifications/tasks"

RESULT_TYPE = "resultType"
COMPLETED = "complete"
INPUT_REQUIRED = "input_required"
TASK = "task"
"""The values of `resultType`."""
UI_EXTENSION = PREFIX + "ui"
TASKS_EXTENSION = PREFIX + "tasks"

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LIST_FLAGS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""Members of the filter of `subscriptions/listen` for changes of lists, and the notification of each."""

# --- the hub's own ------------------------------------------------------------------------------------------------

UPSTREAM_UNAVAILABLE = "upstream_unavailable"
UPSTREAM_LOST = "upstream_lost"
DRAINING = "draining"
"""Kinds of the hub's errors, in `data.hub`; `hub.link.hub_errors` has all of them."""
FOR_PEOPLE = "forPeople"
"""Member of `data` with the sentence for somebody at a terminal, where the message speaks to a model."""

SHIM_LINE = b'{"hubd":'
"""The beginning of every line between a shim and its hub that is not MCP (`hub.downstream.lines.server`)."""
GOODBYE = b'{"hubd":1,"bye":"stopping"}'
UNDERSTOOD = b'{"hubd":1,"bye":"understood"}'
CONTROL_PROBE = b'{"jsonrpc":"2.0","id":0,"method":"ping","params":{}}\n'
"""A hub of any version answers it at once on its control socket, be it with the error that there is no such method."""
