"""Answers of the hub about itself, typed: `DaemonApi` makes them, commands, checks and pages read them. Pure.

`hubd status --json` prints these members in this order, so a renamed one breaks programs. Every member has a default,
since a hub of another version may lack it.
"""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType

from cache.statistics import CacheStatistics
from hub.catalog.token_cost import BYTES_PER_TOKEN, tokens_of
from hub.control.call_messages import CallTotals
from upstreams.status_facts import JournalRecord, UpstreamStatus


class LargestTool(Struct, frozen=True):
    """The tool whose definition takes most of a model's context."""

    name: str = ""
    tokens: int = 0


class SignInFacts(Struct, frozen=True, kw_only=True):
    """The sign-in of the hub at an upstream that wants it."""

    state: str = ""
    """`none`, `needed`, `asking`, `good`, `renewing` or `waiting`."""
    issuer: str = ""
    """The authorization server; "": nobody has signed in."""
    expires_s: float | None = None
    """Seconds that the access token lives; None: nobody knows."""
    renewable: bool = False
    """It is renewed without a person."""
    note: str = ""
    """The note for a person, for instance that a renewal failed."""
    command: str = ""
    """The command by which a person signs in, such as `hubd auth notes`; "": the hub signs in as itself."""


class LimitStatus(Struct, frozen=True):
    """Messages of hosts to an upstream that has limits (`in_flight`, `per_minute`)."""

    running: int = 0
    waiting: int = 0
    """Messages that wait for their turn."""


class UpstreamRow(UpstreamStatus, frozen=True, kw_only=True):
    """One upstream as the hub uses it. State `unresolved`: not started, since a reference of its configuration has no
    value; without `failures` the hub left it out."""

    parked: int | None = None
    """Calls that wait for answers of hosts."""
    stale_config: str | None = None
    """The reason why it still runs with its earlier settings; None: it does not."""
    tokens: int | None = None
    """About how many tokens the definitions of its tools take in a model's context (`hub.catalog.instructions`)."""
    largest: LargestTool | None = None
    connected_ago_s: float | None = None
    """Seconds since it was connected and had listed what it offers, in this run of the hub or an earlier one; 0: it is
    connected. None: not within a day."""
    account: SignInFacts | None = None
    """None: it lets the hub in as it is, or the configuration says how."""
    serves: bool | None = None
    """Of one of several accounts: it serves where nobody says another; None: there is one."""
    limits: LimitStatus | None = None
    """None: it has none."""
    pins: tuple[str, ...] = ()
    """Sentences about its definitions that differ from what was approved, or hide something."""
    unchecked: tuple[str, ...] = ()
    """Tools by whose schemas nothing can be checked although the configuration says so, each with the reason."""
    changed: int = 0
    """Definitions that differ from what was approved."""
    slow: str = ""
    """The reason why it counts as slow, if it was called within the last minutes; "": it does not."""
    failing: str = ""
    """The same for its calls that fail."""


class HostRow(Struct, frozen=True, kw_only=True):
    """One attached host."""

    host: str = ""
    label: str = ""
    principal: str = ""
    transport: str = ""
    version: str | None = None
    endpoint: str = ""
    attached_s: float = 0.0
    idle_s: float = 0.0
    in_flight: int = 0
    asked: int = 0
    listening: bool = True
    """Notifications reach it at once: it has a connection, or over HTTP a stream, open for them."""
    tools: int | None = None
    """Tools that its model is shown."""
    tokens: int | None = None
    """About how many tokens these and the instructions take."""
    profile: str | None = None
    """The profile that it is shown; None: none chooses for it."""
    search: bool = False
    """It is in search mode: its model finds tools by searching."""


class ProfileRow(Struct, frozen=True, kw_only=True):
    """One profile."""

    name: str = ""
    hosts: int = 0
    """Attached hosts that are shown it."""
    tools: int = 0
    """Tools that these hosts' models are shown, unless one of them is in search mode by itself."""
    tokens: int = 0
    """About how many tokens these and the instructions take."""
    search: str = "auto"
    """The setting: `auto`, `on` or `off`."""
    warnings: tuple[str, ...] = ()
    """Sentences about it; they are among those of the whole hub, too."""


class ProjectRow(Struct, frozen=True, kw_only=True):
    """One project that hosts work in."""

    root: str = ""
    endpoint: str = ""
    hosts: int = 0


class BufferStatus(Struct, frozen=True, kw_only=True):
    """Bytes held for hosts and servers."""

    used: int = 0
    limit: int = 0
    highest: int = 0
    refused: int = 0
    """Number of times that there was no room."""
    evicted: int = 0
    """Late holders that had to give way."""


class ListenStatus(Struct, frozen=True, kw_only=True):
    """The addresses by which hosts reach the hub."""

    url: str = ""
    socket: str = ""
    wanted: str | None = None
    """The configured address, if the hub could not have it."""
    also: str | None = None
    """A second URL, which the hub had while the configured address was taken: hosts may know it."""
    squatted: bool = False
    """Another user held that address when the hub started."""


class ConfigStatus(Struct, frozen=True, kw_only=True):
    """The configuration in use."""

    files: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    loaded_at: str = ""
    """ISO 8601, UTC."""
    problem: str | None = None
    """The reason why the files are used as they were before, not as they are now."""
    problems: tuple[str, ...] = ()
    """All such reasons."""
    pending: tuple[str, ...] = ()
    """Settings that take effect at the next start."""
    warnings: tuple[str, ...] = ()


class LoopStatus(Struct, frozen=True, kw_only=True):
    """Blocks of the event loop, as the watchdog saw them."""

    blocked: int = 0
    longest_s: float = 0.0


class PeerRow(Struct, frozen=True, kw_only=True):
    """Another hub of the fleet."""

    name: str = ""
    run: str = ""
    url: str = ""


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """This hub in its fleet."""

    name: str = ""
    run: str = ""
    url: str = ""
    registered: bool = True
    """Other hubs can find it now."""
    peers: tuple[PeerRow, ...] = ()
    looking: bool = False
    """It started a moment ago and does not know all peers yet."""


class AuditStatus(Struct, frozen=True, kw_only=True):
    """The audit log."""

    records: int = 0
    """The number of the last record, since there is a log."""
    head: str = ""
    """Its hash: whoever has it can tell later whether anything before it was changed."""
    lost: int = 0
    """Records of this run that could not be written."""
    problem: str | None = None
    """The reason why nothing is written now."""
    required: bool = False
    """Calls are refused meanwhile."""
    removed: bool = False
    """Records that were written are missing; `hubd audit verify` says where."""
    short: bool = False
    """Records of the last days had to go, since there were so many."""
    log: str = ""
    """The path of its present file."""


class PipelineStepRow(Struct, frozen=True, kw_only=True):
    """One step of a pipeline."""

    id: str = ""
    tool: str = ""
    server: str = ""
    """The name of the server that has the tool; "": there is no such tool."""


class PipelineRow(Struct, frozen=True, kw_only=True):
    """One pipeline of the configuration."""

    name: str = ""
    """As hosts call it."""
    steps: tuple[PipelineStepRow, ...] = ()
    problem: str = ""
    """The reason why no host is shown it; "": hosts are shown it."""
    doubts: tuple[str, ...] = ()
    """Steps that will probably fail, as clauses."""


class Status(Struct, frozen=True, kw_only=True):
    """Everything `hubd status` shows. UNSET: the hub has no such part, or did not say."""

    version: str = "?"
    uptime_s: float = 0.0
    settled: bool = False
    """Every upstream was tried once."""
    upstreams: tuple[UpstreamRow, ...] = ()
    hosts: tuple[HostRow, ...] = ()
    projects: tuple[ProjectRow, ...] = ()
    cache: CacheStatistics | UnsetType = UNSET
    buffer: BufferStatus | UnsetType = UNSET
    warnings: tuple[str, ...] = ()
    idle_rules: tuple[str, ...] = ()
    """Sentences about rules that are probably mistyped."""
    listen: ListenStatus | UnsetType = UNSET
    config: ConfigStatus = ConfigStatus()
    root: bool = False
    loop: LoopStatus | UnsetType = UNSET
    faults: int = 0
    """Failures of the hub's own, each with a traceback in its log."""
    replica: ReplicaStatus | UnsetType = UNSET
    instructions_tokens: int = 0
    """About how many tokens the instructions of all servers take."""
    profiles: tuple[ProfileRow, ...] = ()
    """Profiles that are configured."""
    pipelines: tuple[PipelineRow, ...] = ()
    """Pipelines that are configured."""
    all_tools: int = 0
    """Tools that hosts are shown that no profile chooses for."""
    all_tokens: int = 0
    """About how many tokens these and the instructions take."""
    audit: AuditStatus | UnsetType = UNSET
    calls: CallTotals | UnsetType = UNSET
    requests: int = 0
    """Calls that a person is to decide on (`hubd approvals`)."""


class Cleared(Struct, frozen=True):
    """Resources that `hubd cache clear` had forgotten."""

    cleared: int


class Reloaded(Struct, frozen=True, kw_only=True):
    """The outcome of a reload."""

    changed: bool = False
    summary: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    upstreams: dict[str, tuple[str, ...]] = {}
    """By name, the settings that changed."""
    settings: tuple[str, ...] = ()
    pending: tuple[str, ...]
    """Settings that take effect at the next start."""
    problem: str | None = None
    """The reason why nothing was changed, though the files may differ."""
    warnings: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    """Labels of attached hosts that were shown other lists before and do not ask again until they are restarted."""


class DashboardTicket(Struct, frozen=True, kw_only=True):
    """What opens the dashboard once."""

    url: str = ""
    """The address to open, ticket included."""
    page: str = ""
    """The same without the ticket, to be shown to people."""
    expires_s: float = 0.0
    session_s: float = 0.0
    """Seconds for which the page is signed in then."""
    printed: bool = False
    """It may be opened anywhere; else only by a browser of the hub's user on this machine."""
    is_blind: bool = False
    """The hub cannot tell whose browser it is, so that there are such tickets alone."""


class Logs(Struct, frozen=True):
    """Records of a journal, oldest first, and how many before them were lost by a reader too slow to follow."""

    records: tuple[JournalRecord, ...]
    lost: int = 0


class ToolUse(Struct, frozen=True, kw_only=True):
    """One tool of the common endpoint, and who called it."""

    name: str = ""
    """As hosts without a profile see it."""
    server: str = ""
    tool: str = ""
    """The server's own name of it."""
    tokens: int = 0
    """About how many tokens its definition takes in a model's context."""
    bytes: int = 0
    """The size that this is of: sums are made of these, since each number of tokens is rounded up."""
    calls: dict[str, int] = {}
    """By label, the calls of hosts in the last days."""
    last: str | None = None
    """The day of the last call, as in 2026-11-23; None: none is on record."""


class ToolUses(Struct, frozen=True, kw_only=True):
    """Every tool, and since when calls have been counted."""

    tools: tuple[ToolUse, ...] = ()
    since: str | None = None
    """The first day of the record; None: there is none (`[usage] keep = false`)."""
    today: str = ""
    days: int = 30
    """The last days whose calls are told."""


class PolicyRow(Struct, frozen=True, kw_only=True):
    """What the rules say of one tool, prompt or resource."""

    kind: str = ""
    """`tool`, `prompt` or `resource`."""
    name: str = ""
    server: str = ""
    effect: str = ""
    """`allow`, `ask`, `deny` or `held back`."""
    by_arguments: str = ""
    """The strictest effect that conditions on the arguments of a call may give instead; "": none."""
    rule: str = ""
    """The rule that says so: file and line, and where it stands there; `default`: none does."""


class PolicyReport(Struct, frozen=True, kw_only=True):
    """What the rules say of everything, for the hosts of one label."""

    ruled: bool = False
    """There are rules; else everything is allowed."""
    rows: tuple[PolicyRow, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about rules that mean nothing or could not be judged, and servers that are not believed."""
    failures: int = 0
    """Calls that were denied since a condition could not be judged."""


class PolicyExplanation(Struct, frozen=True, kw_only=True):
    """Why one thing is allowed, asked about or denied."""

    row: PolicyRow = PolicyRow()
    rules: tuple[str, ...] = ()
    """All rules that are about it for such hosts, each with its effect and selector, the first of each effect first."""
    facts: tuple[str, ...] = ()
    """What is known of it: marks and who says so."""


def tokens_together(tools: Iterable[ToolUse]) -> int:
    """About how many tokens these tools take."""
    return tokens_of(sum(each.bytes or BYTES_PER_TOKEN * each.tokens for each in tools))
