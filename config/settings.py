"""The configuration as frozen structs. Each setting is declared here once, and nowhere else.

A declaration is `name: Annotated[TYPE, Setting(...)] = DEFAULT`, or `live`, `reconnect`, `restart` for its `reload`,
and below it a sentence for people; a name that Python keeps for itself has an underscore here (`pass_`) and none in
files. `config.setting_declarations` reads them for all that deal with settings: bounds (`loading.check`), variables
(`loading.resolve_values`), unknown settings (`loading.convert_to_structs`), what a change means (`diff`), what makes
two servers the same (`diff`, too), what may be shown and the JSON Schema (`show`). A secret has the type `Secret`.
Units are in the names.

A change is applied by `Hub.apply`, that of a server by `Upstream.adjust`, that of where hosts come in by
`HttpListener.apply`.

A new setting counts in our own files only: in files of hosts a closed list counts
(`loading.translate_host_entry.OUR_SETTINGS`).
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Struct, field

from config.name_globs import ALL
from config.profile_settings import MAX_NAME_BUDGET, MIN_NAME_BUDGET, Pipeline, Profile
from config.security_settings import (
    AccessConfig,
    ElicitationBudget,
    HiddenText,
    HookConfig,
    OAuthConfig,
    Pinning,
    PolicyConfig,
    SamplingBudget,
    Sandbox,
    UpstreamOAuth,
)
from config.setting_declarations import Secret, Setting, live, reconnect, restart

Hint = Literal["read-only", "destructive", "idempotent", "open-world"]
Flow = Literal["private", "untrusted", "outward"]
OFFICIAL: Final = "official"
OFFICIAL_URL: Final = "https://registry.modelcontextprotocol.io"
MAX_REGISTRIES: Final = 16
REGISTRY_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
OWNER: Final = "local"
"""The principal of the owner of the hub."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class RegistryConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One registry of servers that answers as that of modelcontextprotocol.io does (`/v0.1/servers`)."""

    url: Annotated[str, live(mask="url", pattern="https?://", hints="baseUrl address")] = ""
    """Its address, without `/v0.1`: https, or http on this machine. May hold `${VAR}`."""
    headers: Annotated[dict[str, Secret], live(hints="http_headers httpHeaders")] = {}
    """Sent with each request; `${secret:NAME}` and the other references are looked up when it is asked."""


def in_order(registries: Mapping[str, RegistryConfig]) -> dict[str, RegistryConfig]:
    """The registries in the order in which they are asked: as configured, then the official one, unless it is among
    them."""
    known = dict(registries)
    official = known.get(OFFICIAL)
    if official is None or not official.url:
        known[OFFICIAL] = RegistryConfig(url=OFFICIAL_URL, headers={} if official is None else official.headers)
    return known


MAX_QUEUE: Final = 10_000
"""So that a queue, and the record of what began within a minute, stay small."""
MIN_BUFFER: Final = 64 << 20
"""So that one request of 16 MiB fits into the quarter that a connection gets."""
MAX_REPLICA: Final = 16
REPLICA_NAME: Final = rf"[A-Za-z0-9]{{0,{MAX_REPLICA}}}"
MIN_TOKEN: Final = 16
TOKEN: Final = rf"[A-Za-z0-9._~+/-]{{{MIN_TOKEN},1024}}=*"
"""The form of a bearer token (RFC 6750)."""


def _server(**facts: Any) -> Setting:
    """Facts of a setting that says which server this is, with variables replaced."""
    return reconnect(identity="server", expanded=True, **facts)


Seconds = Annotated[float, live(above=0, unit="seconds")]
Price = Annotated[float, live(min=0, unit="your currency", zero="nothing")]


class Timeouts(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds."""

    start: Seconds = 60.0
    """Spawn or connect until the handshake is complete."""
    probe: Seconds = 3.0
    """Waiting for `server/discover` on stdio before falling back to `initialize`."""
    list: Seconds = 15.0
    """A whole page walk of one list."""
    call: Seconds = 300.0
    """A call without answer, progress or other message for it."""
    call_total: Seconds = 3600.0
    """A call, whatever progress it reports."""
    session_idle: Seconds = 300.0
    """A session that one host has for itself, without a call."""


class Restart(Struct, frozen=True, forbid_unknown_fields=True):
    """Restarts of a server that ends or cannot be started."""

    attempts: Annotated[int, live(min=0, unit="attempts", zero="no limit")] = 5
    """Failed attempts in a row until it is `failed`, and tried again only when a call needs it; 0: never given up."""


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of all servers: a server's own value wins, tables are joined key by key, and `pass` adds to this one."""

    env: Annotated[dict[str, Secret], _server(needs="command", hints="environment envs environ")] = {}
    """Variables for the program, beside those of the hub that are passed on (PATH, HOME, certificates, ...)."""
    pass_: Annotated[
        tuple[str, ...], reconnect(needs="command", adds=True, mask="never", hints="env_vars env_pass")
    ] = field(default=(), name="pass")
    """Patterns of further variables of the hub that the program gets; `!` takes out. What looks like a secret is only
    passed by its full name."""
    transport: Annotated[Literal["auto", "stdio", "http", "sse", "ws"], reconnect(identity="server", hints="type")] = (
        "auto"
    )
    """`http` is Streamable HTTP, `sse` the deprecated HTTP+SSE of 2024-11-05, `ws` a WebSocket (extra `ws`); `auto`
    finds out."""
    tools: Annotated[tuple[str, ...], live(hints="allowed_tools allowedTools")] = ALL
    """Globs over its own names of tools, such as "read_*"; what begins with `!` is taken away, and if all do, the rest
    is left. Tools that are left out do not exist for hosts; `[]`: none of them does."""
    era: Annotated[Literal["auto", "legacy", "modern"], reconnect(identity="server")] = "auto"
    """The protocol it speaks. `legacy`: up to 2025-11-25, with a handshake; `modern`: 2026-07-28; `auto` finds out."""
    locality: Annotated[Literal["auto", "local", "remote"], live()] = "auto"
    """`local`: its `file:` URIs mean files of this machine; `auto`: as its command or URL suggests."""
    apps: Annotated[bool, live()] = False
    """Its user interfaces are shown on the common endpoint, its tools listed once more for them."""
    session_mode: Annotated[Literal["auto", "shared", "per_host", "singleton"], reconnect(identity="session")] = "auto"
    """Sharing of sessions with it among hosts. `auto`: all, until it first asks a question; over HTTP
    each host has its own. `singleton`: it may only run once, so all share it for ever."""
    across_principals: Annotated[bool, reconnect(identity="session")] = False
    """Hosts of different accounts may share a session, too."""
    client_features: Annotated[Literal["auto", "none"], reconnect(identity="session")] = "auto"
    """`none`: it is told that hosts can neither sample nor be asked, nor have roots."""
    roots: Annotated[Literal["auto", "none", "host"] | tuple[str, ...], reconnect(identity="session")] = "auto"
    """Roots that it is told. `auto`: those of the host, on sessions that one host has for itself; `host`: the same, and
    each host gets such a session; a list of `file://` URIs: these, whoever asks."""
    tasks: Annotated[Literal["absorb", "off"], reconnect()] = "absorb"
    """`absorb`: hosts that know no tasks wait while the hub polls; `off`: it is not told that there may be tasks."""
    disabled: Annotated[bool, reconnect(hints="enabled disable")] = False
    """It is listed in `hubd status` and never started."""
    start: Annotated[Literal["eager", "lazy"], live()] = "eager"
    """`lazy`: once it is known what it offers, it is started by the first call that needs it."""
    idle_stop_s: Annotated[float, live(min=0, unit="seconds", zero="never")] = 0.0
    """It is stopped when no call or subscription has needed it for so long; the next call starts it. 0: never."""
    ping_s: Annotated[float, live(min=0, unit="seconds", zero="never")] = 60.0
    """Interval of pings on a session of the handshake era while nothing else happens on it; 0: never."""
    restart: Annotated[Restart, live()] = Restart()
    """Restarts after it ended or could not be started."""
    replace: Annotated[Literal["auto", "start-first", "stop-first"], live()] = "auto"
    """Order when its settings change: the new one starts before the old one stops, or after; `auto`: by URL before."""
    timeouts: Annotated[Timeouts, live(hints="timeout timeout_s startup_timeout_sec tool_timeout_sec")] = Timeouts()
    """Time limits in seconds."""
    tool_timeouts: Annotated[dict[str, Seconds], live()] = {}
    """Seconds per upstream tool name, in place of `timeouts.call`."""
    in_flight: Annotated[int, live(min=0, unit="calls", zero="no limit", hints="max_concurrency")] = 0
    """Calls, prompts and reads that it carries out at a time; others wait, hosts in turns. 0: no limit."""
    per_minute: Annotated[int, live(min=0, max=MAX_QUEUE, unit="calls", zero="no limit", hints="rate_limit")] = 0
    """Calls, prompts and reads that begin there within a minute; others wait, hosts in turns. 0: no limit."""
    queue: Annotated[int, live(min=0, max=MAX_QUEUE, unit="calls", zero="none")] = 64
    """Calls, prompts and reads that may wait, if it has one of these two limits; beyond that the newest of the host
    that has most waiting is refused. 0: none waits."""
    sandbox: Annotated[Sandbox, reconnect(needs="command", short="preset", owner=True)] = Sandbox()
    """What its process may see, write and take of this machine: a preset, or a table with one."""
    sampling: Annotated[SamplingBudget, live(owner=True)] = SamplingBudget()
    """What it may have the models of hosts do for it."""
    elicitation: Annotated[ElicitationBudget, live(owner=True)] = ElicitationBudget()
    """What it may ask the people at hosts."""
    validate_: Annotated[Literal["off", "strict"], live(owner=True)] = field(default="off", name="validate")
    """`strict`: arguments that do not fit a tool's input schema are not sent (extra `schema`)."""
    validate_output: Annotated[Literal["off", "strict"], live(owner=True)] = "off"
    """`strict`: structured results that do not fit a tool's output schema are refused (extra `schema`)."""
    large_results_bytes: Annotated[int, live(min=0, unit="bytes", zero="all passes whole", hints="max_result")] = 0
    """Bytes of the text of a result above which it is cut; the rest is kept for an hour, for `hub__read_result`. 0: all
    passes whole."""
    cache: Annotated[bool, live()] = True
    """Resources that were read from it may be cached (`[cache]`)."""
    trace_context: Annotated[bool, live()] = True
    """It is told the trace that a call belongs to."""
    trace_baggage: Annotated[bool, live(owner=True)] = False
    """It is told the `baggage` of a trace, too, which is the host's data about its user; it is, while `[tracing]` is
    off."""
    arguments: Annotated[Literal["digest", "full"], live(owner=True)] = "digest"
    """What the audit log has of the arguments of its tools. `full`: all, up to 64 KiB, but for secrets of the
    configuration."""


class AccountSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One of several accounts at a server: what it has beside what the server's table says for all."""

    env: Annotated[dict[str, Secret], reconnect(expanded=True, hints="environment envs environ")] = {}
    """Variables for its own process."""
    headers: Annotated[dict[str, Secret], reconnect(expanded=True, hints="http_headers httpHeaders")] = {}
    """Sent with each of its requests."""
    oauth: Annotated[UpstreamOAuth, reconnect()] = UpstreamOAuth()
    """Signing in for it, where that differs from the server's."""


class UpstreamConfig(ServerSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One MCP server: a command to run (stdio) or a URL (Streamable HTTP, or HTTP+SSE)."""

    command: Annotated[str | None, _server(hints="cmd program executable")] = None
    """The program to start: a name that is looked for in PATH, or a path, relative to `cwd`."""
    args: Annotated[tuple[str, ...], _server(mask="arguments", needs="command")] = ()
    """Arguments of the program; `${VAR}`, `${VAR:-default}` and `${file:path}` are replaced, as in all texts here."""
    cwd: Annotated[str | None, _server(mask="never", needs="command", hints="workdir directory")] = None
    """Working directory of the program, relative to the configuration file; by default the directory of that file."""
    url: Annotated[
        str | None, _server(mask="url", pattern=r"(https?|wss?)://", hints="serverUrl httpUrl uri endpoint")
    ] = None
    """The address of a server that runs already."""
    headers: Annotated[dict[str, Secret], _server(needs="url", hints="http_headers httpHeaders")] = {}
    """Sent with each request to `url`."""
    oauth: Annotated[UpstreamOAuth, reconnect(needs="url")] = UpstreamOAuth()
    """Signing in at `url` by OAuth, where that differs from what the server says of itself."""
    account: Annotated[str, reconnect(identity="session")] = "shared"
    """Whose account is used. `shared`: the owner's, by all; `each`: every principal's own, signed in or with secrets of
    their own; where there are `accounts`, and in a project's file above all: the name of the one."""
    accounts: Annotated[dict[str, AccountSettings], reconnect(owner=True)] = {}
    """Several accounts there by name, such as "work" and "private"; the first serves where nothing else is said."""
    prefix: Annotated[str | None, live(owner=True)] = None
    """Server id in visible names, the table's name unless said; "": bare names (one upstream only)."""
    aliases: Annotated[tuple[str, ...], live()] = ()
    """Names it had before, by which its tools and prompts can still be called."""
    trusted: Annotated[bool, live(hints="trust", owner=True)] = False
    """Its tools are believed when they say that they only read: `hub__call_read_only_tool` takes them (search mode)."""
    pinning: Annotated[Pinning | None, live(hints="pin pins", owner=True)] = None
    """What happens to its definitions that are new or have changed, if not what `[policy]` says."""
    pin_ignore: Annotated[tuple[str, ...], live(mask="never", owner=True)] = ()
    """Members of its definitions that may change unnoticed, such as "description" or "_meta.built", for servers that
    write the date there; "instructions": these."""
    hidden_text: Annotated[HiddenText | None, live(owner=True)] = None
    """What happens to hidden characters in its definitions, if not what `[policy]` says."""
    rename: Annotated[dict[str, str], live(hints="renames", owner=True)] = {}
    """Other names for its tools, by its own names of them; the own one can still be called."""
    describe: Annotated[dict[str, str], live(hints="descriptions")] = {}
    """Descriptions in place of its own, by its own names of tools."""
    allow: Annotated[tuple[str, ...], live(mask="never", owner=True)] = ()
    """Selectors as in `[policy]`, by its own names of tools: what may be used, where the default is "deny"."""
    ask: Annotated[tuple[str, ...], live(mask="never")] = ()
    """Selectors by its own names: what a person is asked about, such as "merge_*"."""
    deny: Annotated[tuple[str, ...], live(mask="never")] = ()
    """Selectors by its own names: what does not exist for those whom it is about."""
    hints: Annotated[dict[str, tuple[Hint, ...]], live(hints="annotations", owner=True)] = {}
    """What you say of its tools, by globs over its own names: "read-only", "destructive", "idempotent", "open-world".
    It counts before what the server says, and hosts are told it."""
    flow: Annotated[tuple[Flow, ...] | dict[str, tuple[Flow, ...]], live(owner=True)] = ()
    """What its tools touch, or by globs over its own names what these touch: "private" data, "untrusted" text, or the
    world outside ("outward"). What is said of all counts for its prompts and resources, too. See `trifecta` of
    `[policy]`."""
    price: Annotated[
        float, live(min=0, unit="your currency", zero="nothing", hints="cost cost_per_call", owner=True)
    ] = 0.0
    """What a call of a tool costs, in a currency of yours; `hubd calls`, `hubd top` and the dashboard sum it up."""
    prices: Annotated[dict[str, Price], live(hints="costs", owner=True)] = {}
    """The same by globs over its own names of tools, such as "search_*"; of several that mean a tool the first
    counts."""
    record: Annotated[tuple[Literal["arguments", "result"], ...], live(hints="record_calls log_calls", owner=True)] = ()
    """What of its calls `hubd calls` and traces show beside figures: "arguments", "result"; at most 4 kB of each,
    without secrets of the configuration, in memory only."""
    source: Annotated[str, live(mask="never", pattern=r"[a-z][a-z0-9-]*:[^ ]+/[^ ]+@[^ ]+$|$")] = ""
    """The entry of a registry that it was made of, `REGISTRY:NAME@VERSION`, as `hubd add` wrote it; `hubd outdated` and
    `hubd update` go by it."""

    @property
    def is_each(self) -> bool:
        """True if every principal uses an account of their own."""
        return "each" in (self.account, self.oauth.account)

    @property
    def checked_schemas(self) -> tuple[str, ...]:
        """The schemas of its tools by which calls are checked."""
        checks = {"inputSchema": self.validate_, "outputSchema": self.validate_output}
        return tuple(name for name, how in checks.items() if how == "strict")

    @property
    def speaks_websocket(self) -> bool:
        """True if it is reached over a WebSocket."""
        return self.url is not None and (self.transport == "ws" or self.url.startswith(("ws://", "wss://")))

    @property
    def signs_in(self) -> bool:
        """True if the hub may sign in where the server wants that: it has a URL, and nothing else lets the hub in."""
        if self.url is None or self.oauth.grant == "none" or self.speaks_websocket:
            return False
        return not any(name.lower() == "authorization" for name in self.headers)

    @property
    def signs_in_by_person(self) -> bool:
        """True if a person signs in where the server wants that."""
        return self.signs_in and self.oauth.grant == "authorization_code"


def words_of_flow(upstream: UpstreamConfig) -> frozenset[str]:
    """The words of `flow` of all tools of a server."""
    flow = upstream.flow
    return frozenset(flow if isinstance(flow, tuple) else (word for words in flow.values() for word in words))


class CacheConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The cache of resources that were read, in memory and in a shared store."""

    enabled: Annotated[bool, live()] = True
    """Resources are cached."""
    max_bytes: Annotated[int, live(min=0, unit="bytes", hints="max_size size limit max_memory")] = 64 << 20
    """Size of the cache in memory, all entries together."""
    max_entries: Annotated[int, live(min=0, unit="entries")] = 10_000
    """Most resources in memory."""
    max_entry_bytes: Annotated[int, live(min=0, unit="bytes")] = 8 << 20
    """A larger resource is not cached."""
    stale_if_error_s: Annotated[float, live(min=0, unit="seconds", zero="not at all")] = 60.0
    """Time after its time-to-live for which a resource may stand in for one that cannot be read, and says so; 0: not at
    all."""
    url: Annotated[
        Secret | None,
        restart(expanded=True, mask="url", pattern=r"rediss?://[^@]*$|unix:///", hints="redis_url uri endpoint"),
    ] = None
    """A Redis or Valkey that several hubs have in common: `redis://HOST:PORT/DB`, `rediss://` for TLS, or
    `unix:///path?db=0`."""
    username: Annotated[str | None, restart(expanded=True)] = None
    """The user to log in there as."""
    password: Annotated[Secret | None, restart(expanded=True)] = None
    """The password, best as a reference: `${file:/run/secrets/redis}`."""
    tls_ca: Annotated[str | None, restart(expanded=True, path=True, hints="ca tls ca_file tls_ca_file cafile")] = None
    """A file of certificates that that server's is checked against, in place of the system's."""


class ReplicaConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """This hub among others of the same configuration and `sealing_key`, which share `cache.url`."""

    name: Annotated[str, restart(expanded=True, pattern=f"{REPLICA_NAME}$")] = ""
    """A short name that no other has, letters and digits: the ids of its sessions begin with it, so that balancers can
    tell."""
    url: Annotated[str, restart(expanded=True, mask="url", pattern=r"https?://[^/@]+$|$", hints="uri endpoint")] = ""
    """URL by which other hubs reach this one, such as `http://10.0.0.5:8765`; by default the address it listens on."""


DEFAULT_LISTEN: Final = "127.0.0.1:8765"


class UsageConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of which tools are called."""

    keep: Annotated[bool, live(hints="enabled")] = True
    """Calls of each tool are counted by host and day, and kept for 90 days: names and counts, no arguments. If not,
    what was counted is forgotten."""


class CallsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The calls that are kept for people to look at."""

    keep: Annotated[int, live(min=0, max=10_000, unit="calls", zero="none")] = 1_000
    """The last calls that `hubd calls` and the dashboard show, in memory only; 0: none."""


class ApprovalsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Asking people, where a rule wants that."""

    wait_s: Annotated[float, live(min=0, max=3600, unit="seconds", zero="not at all")] = 45.0
    """Time for which a call waits for an answer from outside its host, while `hubd approvals -f` runs; 0: not at
    all."""
    ttl_s: Annotated[float, live(min=1, max=86_400, unit="seconds")] = 900.0
    """Time for which a request waits for a decision, and a yes for the call."""
    remember: Annotated[Literal["once", "session", "always"] | None, live()] = None
    """The longest that a person is offered: for one call, until the conversation ends, or for `expire_days`. By itself
    "always", but "session" once there are several principals."""
    expire_days: Annotated[float, live(min=1, max=3650, unit="days")] = 90.0
    """Time for which "always" is good."""


class AuditConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The audit log: who called what, by which rule, and how it ended."""

    enabled: Annotated[bool, live()] = True
    """It is written, to `audit/audit.jsonl` in the state directory: digests of arguments, and neither arguments nor
    results."""
    required: Annotated[bool, live()] = False
    """A call that may change something is written down before it is sent, or else refused."""
    sync: Annotated[bool, live(hints="fsync fdatasync")] = False
    """What is written is on disk, and not only with the system, before it counts as written."""
    reads: Annotated[bool, live()] = False
    """Reads of resources and prompts are written down, too."""
    keep: Annotated[int, live(min=0, max=1000, unit="files", hints="max_files backups")] = 8
    """Files of 16 MiB that are kept beside the present one."""
    keep_days: Annotated[float, live(min=0, unit="days", zero="no limit", hints="max_days days retention")] = 90.0
    """Age above which such a file is removed. 0: no limit."""


class TracingConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Traces: spans of what hosts ask for, by OpenTelemetry (extra `otel`)."""

    enabled: Annotated[bool, live()] = False
    """Spans are sent to a collector, and servers are told of the trace."""
    endpoint: Annotated[str, live(expanded=True, mask="url", pattern=r"https?://|$", hints="url collector")] = ""
    """The collector, for OTLP over HTTP, such as "http://127.0.0.1:4318"; `/v1/traces` is added. By default what the
    variables OTEL_EXPORTER_OTLP_... of the hub say."""
    headers: Annotated[dict[str, Secret], live(expanded=True)] = {}
    """Sent with spans, such as `{ Authorization = "Bearer ${OTLP_TOKEN}" }`."""
    sample: Annotated[float, live(min=0, max=1, unit="of the traces", zero="none")] = 1.0
    """The part of traces that begin here which is sent; a host decides about those that it began."""


LogLevel = Literal["debug", "info", "warning", "error"]


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The log of the hub."""

    level: Annotated[LogLevel, live(hints="log_level loglevel")] = "info"
    """The least severe that is logged. `debug` shows no arguments of calls either."""
    levels: Annotated[dict[str, LogLevel], live()] = {}
    """Levels by the name of a server, for all that is about it, or of a logger, such as "hubd.reload"."""


class MetricsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Metrics for Prometheus."""

    enabled: Annotated[bool, live()] = True
    """`GET /metrics` answers, with the hub's token or the read-only one that `hubd token --metrics` prints."""


class DashboardConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The dashboard: the hub in a browser, opened by `hubd dashboard`."""

    enabled: Annotated[Literal["local", "on", "off"], live(hints="ui web page")] = "local"
    """Where it is shown. `local`: to browsers of this machine, and to none that come by a proxy or tunnel; `on`:
    wherever `listen` reaches; `off`: nowhere."""


class HubConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything: how the hub listens, and its upstreams in configuration order."""

    listen: Annotated[str, live(hints="host port address bind")] = DEFAULT_LISTEN
    """HOST:PORT of Streamable HTTP; port 0 takes any free one."""
    behind_tls_proxy: Annotated[bool, live()] = False
    """A trusted proxy ends TLS before `listen`; without saying so no address beyond loopback is taken."""
    auth: Annotated[Literal["token", "oauth", "proxy", "none"], live(hints="authentication")] = "token"
    """Access over HTTP. `token`: by the bearer token that `hubd token` shows, or one for each host; `oauth`: also by
    tokens of authorization servers; `proxy`: also as a trusted proxy says; `none`: by none, on loopback only."""
    allowed_hosts: Annotated[tuple[str, ...], live()] = ()
    """Further `Host` values, beside the loopback names with the bound port."""
    allowed_origins: Annotated[tuple[str, ...], live()] = ()
    """Further `Origin` values, beside the hub's own loopback origins."""
    startup_grace_s: Annotated[float, restart(min=0, unit="seconds")] = 5.0
    """Time that the first list waits for upstreams."""
    name_budget: Annotated[int, live(min=MIN_NAME_BUDGET, max=MAX_NAME_BUDGET, unit="characters")] = 50
    """Characters of a visible name."""
    page_size: Annotated[int, live(min=0, unit="entries", zero="everything in one page")] = 0
    """Entries per page of a merged list; 0: everything in one page."""
    drain_s: Annotated[float, live(min=0, unit="seconds")] = 30.0
    """Time that a stop waits for calls."""
    park_ttl_s: Annotated[float, live(min=0, unit="seconds")] = 900.0
    """Time that a question waits for its answer."""
    park_total_s: Annotated[float, live(min=0, unit="seconds")] = 7200.0
    """Time that one call may wait for answers, all rounds together."""
    on_lost: Annotated[Literal["error", "restart_safe", "restart"], live()] = "error"
    """Outcome of a tool call whose answers come too late: an error, or a new call (`restart_safe`: if the tool
    says that it only reads, or may be repeated)."""
    global_buffer_bytes: Annotated[int, live(min=MIN_BUFFER, max=1 << 40, unit="bytes")] = 256 << 20
    """Memory of the hub for all hosts and servers together: what has begun to arrive, what was not read yet, and
    what is kept for hosts that may come back. One connection gets a quarter of it at most."""
    synthetic_progress_s: Annotated[float, live(min=0, unit="seconds")] = 20.0
    """Hosts that asked for progress hear at least this often that a call is still running; 0: only what there is."""
    token: Annotated[Secret | None, live(expanded=True, pattern=f"{TOKEN}$")] = None
    """The bearer token over HTTP, in place of the one that the hub made: 16 or more characters; for hubs behind one
    balancer."""
    sealing_key: Annotated[Secret | None, restart(expanded=True, pattern=r"[0-9A-Fa-f]{64}( [0-9A-Fa-f]{64})?$")] = None
    """The key that seals all that hosts carry for the hub, in place of its own: 64 hexadecimal digits, the same for all
    hubs behind one balancer. After a space another key that opens, too: the one before it, or the next one."""
    cache: Annotated[CacheConfig, Setting(reload=None, hints="redis valkey store")] = CacheConfig()
    """The cache of resources."""
    replica: Annotated[ReplicaConfig, Setting(reload=None)] = ReplicaConfig()
    """This hub among others."""
    access: Annotated[AccessConfig, Setting(reload=None)] = AccessConfig()
    """Who is let in over HTTP."""
    policy: Annotated[PolicyConfig, Setting(reload=None)] = PolicyConfig()
    """Who may use what, and what of servers is taken for granted."""
    oauth: Annotated[OAuthConfig, Setting(reload=None)] = OAuthConfig()
    """Signing in at servers by OAuth."""
    usage: Annotated[UsageConfig, Setting(reload=None)] = UsageConfig()
    """The record of which tools are called."""
    calls: Annotated[CallsConfig, Setting(reload=None)] = CallsConfig()
    """The calls that are kept for people to look at."""
    hooks: Annotated[tuple[HookConfig, ...], live(hints="hook")] = ()
    """Programs that are asked about calls of tools, in this order."""
    approvals: Annotated[ApprovalsConfig, Setting(reload=None)] = ApprovalsConfig()
    """Asking people, where a rule wants that."""
    audit: Annotated[AuditConfig, Setting(reload=None, hints="audit_log")] = AuditConfig()
    """The audit log."""
    tracing: Annotated[TracingConfig, Setting(reload=None, hints="otel opentelemetry otlp traces")] = TracingConfig()
    """Traces."""
    log: Annotated[LogConfig, Setting(reload=None, hints="logging")] = LogConfig()
    """The log of the hub."""
    metrics: Annotated[MetricsConfig, Setting(reload=None, hints="prometheus")] = MetricsConfig()
    """Metrics for Prometheus."""
    dashboard: Annotated[DashboardConfig, Setting(reload=None)] = DashboardConfig()
    """The dashboard, a page in a browser."""
    defaults: Annotated[ServerSettings, Setting(reload=None)] = ServerSettings()
    """Settings of all servers, but for what says which server one is."""
    registries: Annotated[dict[str, RegistryConfig], Setting(reload=None, hints="registry")] = {}
    """Registries of servers by name, asked by `hubd search` and `hubd add` in this order, before the official one."""
    profiles: Annotated[dict[str, Profile], live(hints="profile views")] = field(default_factory=dict)
    """The part of all servers that some hosts are shown, by the name of the profile."""
    pipelines: Annotated[dict[str, Pipeline], live(hints="pipeline")] = field(default_factory=dict)
    """Tools made of several calls; each is listed as `hub__NAME`."""
    include: Annotated[tuple[str, ...], Setting(reload=None)] = ()
    """Further files, as paths or globs relative to this file; TOML or JSON, upstreams only."""
    upstreams: Annotated[
        dict[str, UpstreamConfig],
        Setting(reload=None, hints="mcpServers mcp_servers mcpservers servers context_servers server mcp"),
    ] = field(default_factory=dict)
    """The MCP servers by name: lower-case words joined by single dashes, at most 32 characters."""

    @property
    def serves_several(self) -> bool:
        """True if others than the owner of the hub are let in."""
        if self.auth == "none":
            return False
        return self.auth in ("oauth", "proxy") or any(t.principal not in ("", OWNER) for t in self.access.tokens)
