"""What a configuration says, as frozen structs. Reading files is `config.loading.one_file`'s work.

Units are in the names; defaults are those of the decisions (D-10, D-15). Each setting has a docstring, which is its
description in the JSON Schema that `hubd schema` prints (see `describe`).
"""

from typing import Final, Literal

from msgspec import Struct, field


class Secret:
    """A value that does not show itself: its repr and str are masked (SEC-61). Read it with `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class Timeouts(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds (D-15)."""

    start: float = 60.0
    """Spawn or connect until the handshake is complete."""
    probe: float = 3.0
    """Waiting for `server/discover` on stdio before falling back to `initialize`."""
    list: float = 15.0
    """A whole page walk of one list."""
    call: float = 300.0
    """A call without answer, progress or other message for it."""
    call_total: float = 3600.0
    """A call, whatever progress it reports."""
    session_idle: float = 300.0
    """A session that one host has for itself, without a call."""


class Restart(Struct, frozen=True, forbid_unknown_fields=True):
    """What follows when a server ends or cannot be started (D-10)."""

    attempts: int = 5
    """Failed attempts in a row until it is `failed`, and tried again only when a call needs it; 0: never given up."""


class UpstreamConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One MCP server: a command to run (stdio) or a URL (Streamable HTTP, or HTTP+SSE)."""

    command: str | None = None
    """The program to start: a name that is looked for in PATH, or a path, relative to `cwd`."""
    args: tuple[str, ...] = ()
    """What the program is given; `${VAR}`, `${VAR:-default}` and `${file:path}` are replaced, as in all texts here."""
    env: dict[str, Secret] = {}
    """Variables for the program, beside the few that every program needs (PATH, HOME, ...)."""
    cwd: str | None = None
    """Where the program runs: relative to the configuration file, and its directory unless said."""
    url: str | None = None
    """The address of a server that runs already."""
    headers: dict[str, Secret] = {}
    """Sent with each request to `url`."""
    transport: Literal["auto", "stdio", "http", "sse"] = "auto"
    """`http` is Streamable HTTP, `sse` the deprecated HTTP+SSE of 2024-11-05; `auto` finds out."""
    prefix: str | None = None
    """Server id in visible names, the table's name unless said; "": bare names (one upstream only)."""
    aliases: tuple[str, ...] = ()
    """Names it had before, by which its tools and prompts can still be called."""
    era: Literal["auto", "legacy", "modern"] = "auto"
    """The protocol it speaks. `legacy`: up to 2025-11-25, with a handshake; `modern`: 2026-07-28; `auto` finds out."""
    locality: Literal["auto", "local", "remote"] = "auto"
    """Whether its `file:` URIs mean files of this machine; `auto`: as its command or URL lets expect."""
    apps: bool = False
    """Its user interfaces are shown on the common endpoint, its tools listed once more for them (naming.md 6)."""
    session_mode: Literal["auto", "shared", "per_host", "singleton"] = "auto"
    """Which hosts share one session with it (bridging.md 6). `auto`: all, until it first asks a question; over HTTP
    each host has its own. `singleton`: it may only run once, so all share it for ever."""
    across_principals: bool = False
    """Hosts of different accounts may share a session, too (D-17)."""
    client_features: Literal["auto", "none"] = "auto"
    """`none`: it is told that hosts can neither sample nor be asked, nor have roots."""
    roots: Literal["auto", "none", "host"] | tuple[str, ...] = "auto"
    """Where hosts work. `auto`: told on sessions that one host has for itself; `host`: so that each host gets one; a
    list of `file://` URIs: these, whoever asks."""
    tasks: Literal["absorb", "off"] = "absorb"
    """`absorb`: hosts that know no tasks wait while the hub polls; `off`: it is not told that there may be tasks."""
    disabled: bool = False
    """It is listed in `hubd status` and never started."""
    start: Literal["eager", "lazy"] = "eager"
    """`lazy`: once it is known what it offers, it is started by the first call that needs it."""
    idle_stop_s: float = 0.0
    """It is stopped when no call or subscription has needed it for so long; the next call starts it. 0: never."""
    ping_s: float = 60.0
    """How often a session of the handshake era is pinged while nothing else happens on it; 0: never."""
    restart: Restart = Restart()
    """What follows when it ends or cannot be started."""
    replace: Literal["auto", "start-first", "stop-first"] = "auto"
    """When its settings change: whether the new one is started before the old one stops. `auto`: over HTTP."""
    timeouts: Timeouts = Timeouts()
    """How many seconds it may take."""
    tool_timeouts: dict[str, float] = {}
    """Seconds per upstream tool name, in place of `timeouts.call`."""
    cache: bool = True
    """Whether resources that were read from it may be kept (`[cache]`)."""


class CacheConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is kept of resources that were read, and where (D-14)."""

    enabled: bool = True
    """Whether anything is kept."""
    max_bytes: int = 64 << 20
    """How much is kept in memory, all entries together."""
    max_entries: int = 10_000
    """How many resources are kept in memory."""
    max_entry_bytes: int = 8 << 20
    """A resource larger than that is not kept."""
    stale_if_error_s: float = 60.0
    """How long after its time-to-live a resource may stand in for one that cannot be read anew, and says so; 0: not at
    all."""
    url: Secret | None = None
    """A Redis or Valkey that several hubs have in common: `redis://HOST:PORT/DB`, `rediss://` for TLS, or
    `unix:///path?db=0`."""
    username: str | None = None
    """The user to log in there as."""
    password: Secret | None = None
    """The password, best as a reference: `${file:/run/secrets/redis}`."""
    tls_ca: str | None = None
    """A file of certificates that that server's is checked against, in place of the system's."""


class ReplicaConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """This hub among others of the same configuration and `sealing_key`, which share `cache.url` (bridging.md 10)."""

    name: str = ""
    """A short name that no other has, letters and digits: the ids of its sessions begin with it, so that balancers can
    tell."""
    url: str = ""
    """Where the other hubs reach this one, such as `http://10.0.0.5:8765`; unless said, the address it listens on."""


DEFAULT_LISTEN: Final = "127.0.0.1:8765"


class HubConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything: how the hub listens, and its upstreams in configuration order."""

    listen: str = DEFAULT_LISTEN
    """HOST:PORT of Streamable HTTP; port 0 takes any free one."""
    behind_tls_proxy: bool = False
    """A trusted proxy ends TLS before `listen`; without saying so no address beyond loopback is taken (SEC-01)."""
    auth: Literal["token", "none"] = "token"
    """What HTTP asks for: the bearer token that `hubd token` shows, or nothing, which is allowed on loopback only."""
    allowed_hosts: tuple[str, ...] = ()
    """Further `Host` values, beside the loopback names with the bound port."""
    allowed_origins: tuple[str, ...] = ()
    """Further `Origin` values, beside the hub's own loopback origins."""
    startup_grace_s: float = 5.0
    """How long the first list waits for upstreams."""
    name_budget: int = 50
    """Characters of a visible name."""
    page_size: int = 0
    """Entries per page of a merged list; 0: everything in one page (S-31)."""
    drain_s: float = 30.0
    """How long a stop waits for calls."""
    park_ttl_s: float = 900.0
    """How long a question waits for its answer (bridging.md 7.1)."""
    park_total_s: float = 7200.0
    """How long one call may wait for answers, all rounds together."""
    on_lost: Literal["error", "restart_safe", "restart"] = "error"
    """What becomes of a tool call whose answers come too late: an error, or a new call (`restart_safe`: if the tool
    says that it only reads, or may be repeated)."""
    global_buffer_bytes: int = 256 << 20
    """How much the hub holds for all hosts and servers together: what has begun to arrive, what was not read yet, and
    what is kept for hosts that may come back. One connection gets a quarter of it at most."""
    synthetic_progress_s: float = 20.0
    """Hosts that asked for progress hear at least this often that a call is still running; 0: only what there is."""
    token: Secret | None = None
    """What HTTP asks for, in place of the token that the hub made: 16 or more characters; for hubs behind one
    balancer."""
    sealing_key: Secret | None = None
    """What seals all that hosts carry for the hub, in place of the key that it made: 64 hexadecimal digits, the same
    for all hubs behind one balancer. After a space another key that opens, too: the one before it, or the next one."""
    cache: CacheConfig = CacheConfig()
    """What is kept of resources that were read."""
    replica: ReplicaConfig = ReplicaConfig()
    """This hub among others."""
    include: tuple[str, ...] = ()
    """Further files, as paths or globs relative to this file; TOML or JSON, upstreams only."""
    upstreams: dict[str, UpstreamConfig] = field(default_factory=dict)
    """The MCP servers by name: lower-case words joined by single dashes, at most 16 characters."""
