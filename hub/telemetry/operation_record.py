"""Ended: the record of one operation of a host that is over. Pure.

It has no argument, no result, and of a URI neither the query nor the fragment nor who it names as its user.
"""

import re
from typing import Final, NamedTuple

from msgspec import Struct

from hub.calls.chain import Outcome
from hub.link.call_interface import Identity, Interim
from hub.link.hub_errors import ApprovalRequired, CallDenied, Executed, HubError
from hub.wire.errors_for_hosts import Concealed
from hub.wire.jsonrpc import Failure, Result, peek_object, peek_str
from hub.wire.mcp import RESULT_TYPE, TASK, URL_ELICITATION_REQUIRED

OK: Final = ""
ASKED: Final = "asked"
CANCELLED: Final = "cancelled"
TOOL_ERROR: Final = "tool_error"
NO_FAILURES: Final = frozenset({OK, ASKED, CANCELLED})
"""Outcomes that count as no failure."""
WAITS: Final = ApprovalRequired.kind
NO_FAULTS: Final = NO_FAILURES | {WAITS}
"""Outcomes that say nothing against a server: its host gets an error of a call that waits for a person, too."""
CHARGED: Final = frozenset({OK, TOOL_ERROR, CANCELLED})
"""Outcomes of calls that are charged."""
MAY_HAVE_RUN: Final = frozenset({Executed.YES.value, Executed.UNKNOWN.value})
"""Values of `Ended.executed` of failures that are charged, too."""
_USER: Final = re.compile(r"(?<=://)[^/@]*@")


class Ended(Struct, frozen=True, gc=False):
    """One operation that is over: `tools/call`, `prompts/get`, `resources/read` or `completion/complete`."""

    ref: int
    """The number of its intent."""
    at: float
    """The time when it was over, by `time.perf_counter`."""
    took_s: float
    key: tuple[str, str, str]
    """The upstream, the method, and the upstream's own name of a tool or prompt; "": it was a read."""
    name: str
    """As its host knows it."""
    who: Identity
    outcome: str
    """`""`: it went well; `asked`: it ended in a question, and its host goes on with another one; `cancelled`; else
    what went wrong: `tool_error`, the code of the upstream's error, or the kind of the hub's own."""
    executed: str
    """Whether the server acted on an operation that failed, where the hub can tell: `yes`, `no` or `unknown`."""
    sent: int
    """Bytes of the arguments."""
    size: int
    """Bytes of the result."""
    transport: str
    """`unix` or `tcp`: the way in which its host came."""
    cached: bool = False
    """It was answered from memory."""
    is_task: bool = False
    """Its result is the handle of a task, which goes on."""
    sent_at: float = 0.0
    """The time when it went to its upstream, by the same clock; 0: nothing was sent for it."""
    answered_at: float = 0.0
    """The time when that first said something: progress, a question or the reply; 0: it did not."""

    @property
    def upstream(self) -> str:
        """The name of the upstream."""
        return self.key[0]

    @property
    def method(self) -> str:
        """The method."""
        return self.key[1]

    @property
    def own(self) -> str:
        """The upstream's own name of a tool or prompt; "": it was a read."""
        return self.key[2]

    @property
    def host(self) -> str:
        """The label of the host."""
        return self.who.host

    @property
    def principal(self) -> str:
        """The account of the host."""
        return self.who.principal


class Summary(NamedTuple):
    """What an outcome says, by the names of `Ended`."""

    outcome: str = OK
    executed: str = ""
    size: int = 0
    is_task: bool = False


def sum_up(outcome: Outcome) -> Summary:
    """Sum an outcome up."""
    if isinstance(outcome, Result):
        size = len(memoryview(outcome.value))
        if not isinstance(outcome, Interim):
            return Summary(TOOL_ERROR if outcome.tells_error() else OK, "", size)
        is_task = peek_str(peek_object(outcome.value).get(RESULT_TYPE)) == TASK
        return Summary(OK if is_task else ASKED, "", size, is_task)
    if isinstance(outcome, HubError):
        return Summary(outcome.kind, outcome.executed.value)
    if isinstance(outcome, Concealed):
        return Summary(CallDenied.kind, CallDenied.executed.value)
    if isinstance(outcome, Failure):
        return Summary(ASKED if outcome.code == URL_ELICITATION_REQUIRED else str(outcome.code))
    if outcome is None:
        return Summary(CANCELLED)
    return Summary("internal")


def is_unknown(ended: Ended) -> bool:
    """True if nobody knows whether an operation that failed was carried out."""
    return ended.executed == Executed.UNKNOWN.value


def strip_uri(uri: str) -> str:
    """A URI without its query, its fragment, and who it names as its user."""
    return _USER.sub("", re.split(r"[?#]", uri, maxsplit=1)[0])
