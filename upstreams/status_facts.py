"""Facts that commands, metrics and pages show about an upstream; they decide nothing. Pure.

Every member has a default: `hubd status` also reads these from hubs of other versions.
"""

from msgspec import Struct


class JournalRecord(Struct, frozen=True):
    """One line of a journal."""

    at: float = 0.0
    """Wall time, in seconds since 1970."""
    kind: str = ""
    """`stderr`: the server wrote the line there; `log`: a log message of the server; `state`: a change of the
    upstream's state; `exit`: how a process ended; of the hub itself, the level of its log."""
    text: str = ""
    pid: int | None = None
    """The process that the line is about, if it is about one."""
    name: str = ""
    """The upstream, or `hub`."""
    level: str = ""
    """One of `upstreams.journal.record_filter.LEVELS`, or another one that a server made up; "": it has none."""
    ref: str = ""
    """The operation that it is about, as records write its number; "": none, or nobody knows."""
    about: str = ""
    """The upstream that a record of the hub itself is about."""


class LastExit(Struct, frozen=True):
    """The last time that a process of the upstream ended by itself."""

    how: str = ""
    """As a clause: `exited with status 1`."""
    code: int | None = None
    """None: it was killed."""
    signal: str | None = None
    ago_s: float = 0.0
    said: tuple[str, ...] = ()
    """The last lines of its stderr."""


class SandboxFacts(Struct, frozen=True):
    """The sandbox of the last process of an upstream."""

    preset: str = "off"
    why: str = ""
    """The reason why it has none; "": it was not to have one, or has it."""
    blamed: bool = False
    """The process ended soon after its start, or said that something was refused to it."""
    path: str = ""
    """What was refused, if it says so."""
    wants: str = "read"
    """`read`, or `write`."""


class Trouble(Struct, frozen=True, kw_only=True):
    """The part of `UpstreamStatus` that says how well it goes. None, here and there: it cannot be told."""

    since_s: float | None = None
    """Seconds in the present state: of a connected upstream, its uptime."""
    last_error: str | None = None
    last_error_ago_s: float | None = None
    last_exit: LastExit | None = None
    restarts: int | None = None
    """Number of times that it came back after it had ended by itself."""
    next_attempt_s: float | None = None
    """Seconds until the next attempt; None: it is being tried, or need not be, or waits for a call."""
    ends_lately: int | None = None
    """Number of times that it ended by itself or could not be started, within `lifecycle.LOOP_WINDOW_S`."""
    crash_loop: bool | None = None
    """That was `lifecycle.LOOP_ENDS` times or more, it is a process, and it is still tried."""


class Counts(Struct, frozen=True):
    """Numbers of entries that an upstream offers, by kind."""

    tools: int = 0
    prompts: int = 0
    resources: int = 0
    templates: int = 0


class UpstreamStatus(Trouble, frozen=True, kw_only=True):
    """One upstream, as `hubd status` shows it."""

    name: str = ""
    label: str = ""
    """The same with the name of its account, where there are several."""
    state: str = ""
    installing: bool = False
    """It is being connected, and a package runner is at work for that."""
    installing_s: float | None = None
    """Seconds since that began; None: it is not."""
    queued: bool = False
    """It is to be installed, and waits until others have been."""
    era: str | None = None
    version: str | None = None
    transport: str | None = None
    pid: int | None = None
    counts: Counts | None = None
    failures: int | None = None
    """Attempts in a row that failed."""
    health: str | None = None
    """`ok` or `silent`; None: it is not connected, or there is nothing to tell by."""
    silent_s: float | None = None
    """Seconds for which it has left pings unanswered."""
    in_flight: int | None = None
    degraded: tuple[str, ...] | None = None
    sessions: int | None = None
    mode: str | None = None
    """The choice of hosts that share the sessions."""
    unattributed: int | None = None
    """Questions refused because nobody can tell which host they are for."""
    beyond_budget: int | None = None
    """Questions refused because its configuration allows no more."""
    withheld_roots: int | None = None
    """Questions for roots refused because hosts share the session, or the configuration gives none."""
    sandbox: SandboxFacts | None = None
    """None: it is no process, or none was started yet."""
    settling: bool | None = None
    """Its lists may soon differ from these counts: it has not listed what it offers since it was connected, or is being
    tried."""
