"""Messages about everything at a glance: how the hub, its servers and its hosts do, with figures of their operations.

`watch` answers with these; `hubd top` and the dashboard show them. Pure. Every member has a default, since
a hub of another version may lack it. None: it is not known. Percentiles are exact, of the last 128 durations of each
tool, and None where they are too few to tell.
"""

from msgspec import Struct

from hub.control.answers import HostRow, ProjectRow
from hub.control.call_messages import CallTotals, RunningRow


class Totals(CallTotals, frozen=True, kw_only=True):
    """What is counted of all operations, and what hosts are shown that no profile chooses for."""

    tools: int = 0
    tokens: int = 0
    """About how many tokens these and the instructions take."""


class LastError(Struct, frozen=True, kw_only=True):
    """The last operation at a server that failed."""

    error_type: str = ""
    name: str = ""
    ref: str = ""
    ago_s: float = 0.0


class ServerRow(CallTotals, frozen=True, kw_only=True):
    """One server, and what is counted of its operations."""

    name: str = ""
    label: str = ""
    """The same with the name of its account, where there are several."""
    state: str = ""
    word: str = ""
    """The state as people are told it."""
    why: str | None = None
    """The reason why it is not well, on one line."""
    health: str = ""
    """`good`, `busy` (it is coming), `off`, `warning` or `bad`."""
    tools: int | None = None
    tokens: int | None = None
    """About how many tokens their definitions take."""
    slow: bool = False
    """Its p95 is beyond the limit of its sort."""
    waiting: int = 0
    """Operations that wait for their turn, where it has limits."""
    last_error: LastError | None = None
    since_s: float | None = None
    """Seconds in its state."""
    era: str | None = None
    version: str | None = None
    transport: str | None = None
    mode: str | None = None
    pid: int | None = None
    changed: int = 0
    """Definitions that differ from what was approved."""
    spark: tuple[int, ...] = ()
    """Operations of the last five minutes, in steps of five seconds, the newest last, which is not over."""


class AttachedRow(HostRow, frozen=True, kw_only=True):
    """One attached host. Hosts of one label share `calls` and `cost`."""

    calls: int = 0
    """Operations that servers have carried out, since the hub started."""
    cost: float = 0.0


class CostRow(Struct, frozen=True, kw_only=True):
    """The cost of the operations of one label of hosts at one server, since the hub started."""

    host: str = ""
    server: str = ""
    calls: int = 0
    """Those that were carried out."""
    tokens: int = 0
    """About how many tokens their results take in a model's context."""
    cost: float = 0.0
    """At the prices of now."""


class SecondsRow(Struct, frozen=True, kw_only=True):
    """Operations by second, the newest last."""

    end: float = 0.0
    """The time of day of the last second."""
    calls: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


class LimitRow(Struct, frozen=True, kw_only=True):
    """The limits beyond which something is wrong."""

    failed_ratio: float = 0.0
    start_failed_ratio: float = 0.0
    session_s: float = 0.0
    p95_remote_s: float = 0.0
    p95_local_s: float = 0.0


class ReloadRow(Struct, frozen=True, kw_only=True):
    """The configuration in use."""

    loaded_at: str = ""
    problem: str | None = None


class Overview(Struct, frozen=True, kw_only=True):
    """Everything at a glance."""

    version: str = ""
    principal: str = ""
    """The account of whoever looks."""
    at: float = 0.0
    """The time of day."""
    uptime_s: float = 0.0
    settled: bool = False
    """Every server was tried once."""
    url: str = ""
    totals: Totals = Totals()
    seconds: SecondsRow = SecondsRow()
    limits: LimitRow = LimitRow()
    servers: tuple[ServerRow, ...] = ()
    hosts: tuple[AttachedRow, ...] = ()
    running: tuple[RunningRow, ...] = ()
    """The oldest first, fifty at most."""
    warnings: tuple[str, ...] = ()
    loop_longest_s: float = 0.0
    projects: tuple[ProjectRow, ...] = ()
    inbox: int = 0
    """Things that wait for a person."""
    questions: int = 0
    """Questions of servers that wait at their hosts, where they are answered."""
    reload: ReloadRow = ReloadRow()
    costs: tuple[CostRow, ...] = ()
    """The highest first, then those of most tokens."""
