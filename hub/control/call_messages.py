"""Messages about operations of hosts: those that are over, those that run, and what is counted of them. Pure.

`calls` answers with these, commands and pages show them. Every member has a default, since a hub of another version may
lack it. Times of day are seconds since 1970.
"""

from msgspec import Struct

from config.server_names import server_of


class CallFilter(Struct, frozen=True, kw_only=True):
    """The operations that somebody wants to see."""

    about: str = ""
    """The server, the number of the operation, or the name of a tool, as its host or its server knows it; "": all."""
    host: str = ""
    """The label of their host."""
    failed: bool = False
    """Only those that failed."""
    slower_s: float = 0.0
    """Those that took at least so long."""
    since: float = 0.0
    """Those that ended from then on."""

    def passes(self, call: "CallRow") -> bool:
        """True if an operation is wanted."""
        if self.about and self.about not in (call.upstream, server_of(call.upstream), call.ref, call.name, call.own):
            return False
        if (self.host and call.host != self.host) or (self.failed and not call.failed):
            return False
        return call.took_s >= self.slower_s and call.at >= self.since


class CallRow(Struct, frozen=True, kw_only=True):
    """One operation that is over."""

    ref: str = ""
    at: float = 0.0
    """The time when it was over."""
    took_s: float = 0.0
    waited_s: float | None = None
    """Seconds for which it waited before it was sent: for people, hooks, its turn or its server; None: nothing was sent
    for it."""
    first_answer_s: float | None = None
    """Seconds until its server first said something: progress, a question or its result; None: it did not."""
    method: str = ""
    upstream: str = ""
    name: str = ""
    """As its host knows it."""
    own: str = ""
    """The server's own name of a tool or prompt; "": it was a read."""
    host: str = ""
    principal: str = ""
    outcome: str = ""
    """"": it went well; `asked`, `cancelled`, or what went wrong."""
    failed: bool = False
    executed: str = ""
    """Of one that failed, whether the server acted on it, where the hub can tell: `yes`, `no` or `unknown`."""
    sent: int = 0
    """Bytes of its arguments."""
    size: int = 0
    """Bytes of its result."""
    tokens: int = 0
    """About how many tokens its result takes in a model's context."""
    cached: bool = False
    """It was answered from memory."""
    transport: str = ""
    """`unix` or `tcp`: the way in which its host came."""
    cost: float = 0.0
    """Its price by the configuration; 0: it has none, or was not carried out."""
    arguments: str | None = None
    """None: they were not recorded (`record` of its server), or not asked for."""
    result: str | None = None


class RunningRow(Struct, frozen=True, kw_only=True):
    """One operation that is not over."""

    ref: str = ""
    host: str = ""
    upstream: str = ""
    name: str = ""
    method: str = ""
    for_s: float = 0.0


class CallList(Struct, frozen=True, kw_only=True):
    """Operations that are over, the oldest first."""

    calls: tuple[CallRow, ...] = ()
    running: tuple[RunningRow, ...] = ()
    """Those that are not over, the oldest first; of one that is asked for by its number, that one alone."""
    lost: int = 0
    """The number of those before them that a reader too slow to follow has lost."""
    kept: int = 0
    """The number of operations that the hub keeps."""
    records: tuple[str, ...] = ()
    """The servers of whose calls arguments or results are recorded."""


class CallTotals(Struct, frozen=True, kw_only=True):
    """What is counted of all operations."""

    calls: int = 0
    """Since the hub started."""
    failed: int = 0
    lately: int = 0
    """In the last five minutes."""
    rate: float = 0.0
    """Operations a second, in the last minute."""
    failed_ratio: float | None = None
    """The part of the last five minutes' that failed, those that were cancelled left out; None: there were none."""
    p50_s: float | None = None
    """Percentiles are exact, of the last 128 durations of each tool; None: they are too few to tell."""
    p95_s: float | None = None
    p99_s: float | None = None
    busy: int = 0
    """The number of those that are not over."""
    cost: float = 0.0
    """Since the hub started, at the prices of now."""
