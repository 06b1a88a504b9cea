"""The methods of a hub's control socket: one table, which its server and its client read. Pure.

A new method is one more row here and the method of that name of `hub.daemon.api.DaemonApi`. What it takes are
the params, by name and type; it returns a `result`. A method of `ENDLESS` is an iterator of results instead.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct, convert

from cache.statistics import CacheStatistics
from config.show.server_environment import ShownEnvironment
from hub.control import answers
from hub.control import approval_messages as approvals
from hub.control import sign_in_messages as messages
from hub.control.answers import Cleared, Logs, PolicyExplanation, PolicyReport, Reloaded, Status, ToolUses
from hub.control.call_messages import CallList
from hub.control.overview_messages import Overview
from hub.control.pin_messages import PinnedServer

ANSWER_S: Final = 30.0
SIGN_IN_S: Final = 90.0
"""Other servers are asked meanwhile, one after the other."""
LOG_LINES: Final = 100
"""Default number of journal lines."""
CALL_LINES: Final = 20
"""Default number of operations."""

Result = TypeVar("Result")


class Nothing(Struct, frozen=True):
    """No result but that it is done."""


class Method(NamedTuple, Generic[Result]):
    """One row of the table."""

    name: str
    result: type[Result]
    max_bytes: int = 1 << 20
    """The largest answer that is read."""
    answer_s: float = ANSWER_S
    """Seconds in which the answer has to come."""


Object = dict[str, Any]

STATUS: Final = Method("status", Status, 32 << 20)
TOOLS: Final = Method("tools", list[Object], 256 << 20)  # as much as a hub sends: 100 000 tools are one answer
TOOL_USE: Final = Method("tool_use", ToolUses, 64 << 20)
POLICY: Final = Method("policy", PolicyReport, 64 << 20)
EXPLAIN_POLICY: Final = Method("explain_policy", PolicyExplanation)
CACHE: Final = Method("cache", CacheStatistics, 32 << 20)
CACHE_CLEAR: Final = Method("cache_clear", Cleared)
METRICS: Final = Method("metrics", str, 256 << 20)
RESTART: Final = Method("restart", Nothing)
RELOAD: Final = Method("reload", Reloaded, 16 << 20)
ENVIRONMENT: Final = Method("environment", ShownEnvironment)
LOGS: Final = Method("logs", Logs, 16 << 20)
CALLS: Final = Method("calls", CallList, 64 << 20)
WATCH: Final = Method("watch", Overview, 32 << 20)
STOP: Final = Method("stop", Nothing)
SIGN_IN: Final = Method("sign_in", messages.SignInStep, answer_s=SIGN_IN_S)
SIGN_IN_FINISH: Final = Method("sign_in_finish", messages.SignInOutcome, answer_s=SIGN_IN_S)
SIGN_IN_STATUS: Final = Method("sign_in_status", messages.SignInAccounts)
SIGN_IN_TRIALS: Final = Method("sign_in_trials", messages.SignInTrials)
SIGN_OUT: Final = Method("sign_out", messages.SignedOut, answer_s=SIGN_IN_S)
PINS: Final = Method("pins", list[PinnedServer], 64 << 20)
APPROVE_PINS: Final = Method("approve_pins", int)
EXPORT_PINS: Final = Method("export_pins", str, 64 << 20)
DEMAND_PERSON: Final = Method("demand_person", Nothing)
TICKET: Final = Method("ticket", answers.DashboardTicket)
END_PAGES: Final = Method("end_pages", Nothing)
READ_TOKENS: Final = Method("read_tokens", Nothing)
APPROVALS: Final = Method("approvals", approvals.ApprovalList, 16 << 20)
APPROVAL_SHOW: Final = Method("approval_show", approvals.ShownRequest, 128 << 20)
APPROVAL_GIVE: Final = Method("approval_give", approvals.DecidedRequest)
APPROVAL_DENY: Final = Method("approval_deny", approvals.DecidedRequest)
APPROVAL_REVOKE: Final = Method("approval_revoke", list[str])

METHODS: Final[Mapping[str, Method[Any]]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Method)
}
ENDLESS: Final = frozenset({LOGS.name, CALLS.name, WATCH.name, SIGN_IN.name, APPROVALS.name})
"""Methods that answer once, and send further results as notifications of the same name."""


def read(method: Method[Result], value: object) -> Result:
    """The result in an answer of JSON. Unknown members pass, and null counts as missing: other versions are read, too.
    Raises ValidationError: it is no such result."""
    told = isinstance(method.result, type) and issubclass(method.result, Struct)  # else a server's, to be left alone
    return convert(_without_nulls(value) if told else value, method.result)


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
