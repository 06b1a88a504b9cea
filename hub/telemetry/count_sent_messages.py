"""Message count: the innermost stage of each chain, behind which a message of an operation goes to its upstream. What
was sent is counted here, whoever asked, with the outcome that the upstream made.
"""

import logging
from bisect import bisect_left
from time import perf_counter
from typing import Final

from hub.calls.chain import Intent, Outcome, Stage
from hub.link.hub_errors import Executed, HubError
from hub.telemetry.operation_record import ASKED, OK, sum_up
from hub.telemetry.tally import BOUNDS_S, LEAST_S, Histogram, histogram_of
from hub.wire.jsonrpc import Failure, Result
from hub.wire.mcp import TOOLS_CALL

log = logging.getLogger("hubd")

MAX_TOOLS: Final = 2_000
"""Tools of all upstreams together that are told apart."""
OTHER: Final = "_other"
"""In place of the names of tools beyond that number."""
_REPLIES: Final = Result, Failure


class MessageCount(Stage):
    """Counts messages to upstreams: those that were sent, for any number of hosts that wait for the same answer."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, str, str], dict[str, Histogram]] = {}
        """By upstream, method, and the upstream's own name of a tool that it lists, then by outcome; "": no tool.
        What ended in a question went well."""
        self._began: dict[int, float] = {}
        """The times at which messages were sent that are under way, by the intent's ref."""
        self._is_full = False

    def admits(self, intent: Intent) -> None:
        self._began[intent.ref] = now = perf_counter()
        if not (host := intent.host).sent_at:
            host.sent_at = now

    def left(self, intent: Intent, outcome: Outcome) -> None:
        now = perf_counter()
        host, result = intent.host, OK
        took, outcomes = now - self._began.pop(intent.ref, now), host.place.sent
        if not host.answered_at:
            if isinstance(outcome, _REPLIES):
                host.answered_at = now
            elif isinstance(outcome, HubError) and outcome.executed is Executed.NO:
                host.sent_at = 0.0
        if type(outcome) is not Result or outcome.says_error is not False:
            if isinstance(outcome, HubError) and outcome.executed is Executed.NO:
                return  # nothing was sent
            found = sum_up(outcome).outcome
            result = OK if found == ASKED else found
        histogram = outcomes.get(result) or histogram_of(outcomes, result)
        histogram.total_s += took
        histogram.buckets[0 if took <= LEAST_S else bisect_left(BOUNDS_S, took)] += 1

    def find(self, upstream: str, method: str, tool: str) -> dict[str, Histogram]:
        """The histograms of messages for this, by outcome."""
        key = upstream, method, tool if method == TOOLS_CALL else ""
        if key[2] and key not in self.sent and len(self.sent) >= MAX_TOOLS:
            key = upstream, method, OTHER
            if not self._is_full:
                log.warning("hosts called more than %d tools: metrics count further ones together", MAX_TOOLS)
                self._is_full = True
        return self.sent.setdefault(key, {})
