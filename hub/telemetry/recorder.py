"""Recorder: the outermost stage of each chain, where every operation ends once, refused and cached ones included.

What hosts asked is counted here, with the outcome that they are told.
"""

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from hub.calls.chain import Intent, Outcome, Stage
from hub.link.call_interface import NO_ARGUMENTS
from hub.link.hub_errors import Executed
from hub.link.log_context import log_about
from hub.link.rate_limits import TokenBucket
from hub.telemetry.operation_record import (
    ASKED,
    CANCELLED,
    CHARGED,
    MAY_HAVE_RUN,
    NO_FAULTS,
    OK,
    WAITS,
    Ended,
    strip_uri,
    sum_up,
)
from hub.telemetry.tally import BOUNDS_S, MAX_OUTCOMES, OTHER_OUTCOME, SECONDS, Histogram, Seconds, Tally
from hub.wire.jsonrpc import Failure, Reply, Result
from hub.wire.mcp import METHOD_NOT_FOUND

log = logging.getLogger("hubd.call")

KEEP: Final = 1_000
"""Operations that are kept."""
MAX_TALLIES: Final = 2_000
OTHER: Final = "_other"
"""In place of the names of tools beyond that number."""
LINES: Final = 100.0
LINES_PER_S: Final = 5.0
"""Failures that are logged at once, and a second from then on: a host that tries again and again fills no log."""


class Recorder(Stage):
    """Makes the record of each operation that is over."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str, str], Tally] = {}
        """By upstream, method, and the upstream's own name of what was asked for; "": a read."""
        self.seconds: dict[str, Seconds] = {}
        """By upstream."""
        self.served: dict[tuple[str, str, str], Histogram] = {}
        """By method, outcome and transport of the host; what ended in a question went well."""
        self.ring: deque[Ended] = deque(maxlen=KEEP)
        """The last operations that are over, the oldest first."""
        self.running: dict[int, Intent] = {}
        """Operations that are not over, by their refs, the oldest first."""
        self.listeners: list[Callable[[Ended], None]] = []
        """Told of each operation that is over. Must not block or raise."""
        self._lines = TokenBucket(LINES, LINES_PER_S)

    def adjust(self, keep: int) -> None:
        """Keep so many operations that are over."""
        if keep != self.ring.maxlen:
            self.ring = deque(self.ring, maxlen=keep)

    # Both methods call no function of ours for a plain call that nobody listens to, since every call comes by.

    def admits(self, intent: Intent) -> None:
        self.running[intent.ref] = intent
        intent.host.sent_at = intent.host.answered_at = 0.0  # of another one of the same request

    def left(self, intent: Intent, outcome: Outcome) -> None:
        now = perf_counter()
        target, method, ref, host = intent.target, intent.request.method, intent.ref, intent.host
        took, name, own = now - intent.began, target.exposed, target.route.original
        result, error_type, executed, is_task = "", "", "", False
        if type(outcome) is Result and outcome.is_fine:
            size = memoryview(outcome.value).nbytes
        else:
            result, executed, size, is_task = sum_up(outcome)
            error_type = OK if result == ASKED else result
        if target.kind is None:
            name, own = strip_uri(name), ""
        key = (target.upstream.name, method, own)
        sent = memoryview(intent.operation.params.get("arguments", NO_ARGUMENTS)).nbytes
        who, transport = host.caller.identity, host.caller.transport
        self.running.pop(ref, None)

        tally = self.tallies.get(key) or self._begin_tally(key)
        histogram = tally.outcomes.get(result) or tally.histogram(result)
        place = method, error_type, transport
        served = self.served.get(place) or self._begin_histogram(*place)
        bucket = bisect_left(BOUNDS_S, took)
        histogram.count += 1
        histogram.total_s += took
        histogram.buckets[bucket] += 1
        served.count += 1
        served.total_s += took
        served.buckets[bucket] += 1
        tally.last.append(took)
        tally.sent += sent
        use = tally.hosts.get(who.host) or tally.use(who.host)
        use.size += size
        if result in CHARGED or executed in MAY_HAVE_RUN:
            use.charged += 1
        seconds, second = tally.seconds, int(now)
        if seconds.at != second:
            seconds.move(second)
        seconds.calls[second % SECONDS] += 1
        if result not in NO_FAULTS:
            seconds.failed[second % SECONDS] += 1
        elif result in (CANCELLED, WAITS):
            seconds.cancelled[second % SECONDS] += 1

        cached, sent_at, answered_at = host.is_cached, host.sent_at, host.answered_at
        ended = Ended(
            ref,
            now,
            took,
            key,
            name,
            who,
            result,
            executed,
            sent,
            size,
            transport,
            cached,
            is_task,
            sent_at,
            answered_at,
        )
        self.ring.append(ended)
        for tell in self.listeners:
            tell(ended)
        if executed and self._lines.take(now):
            log_failure(ended, intent)

    def _begin_tally(self, key: tuple[str, str, str]) -> Tally:
        """The tally of what was not counted yet."""
        upstream, method, _ = key
        if len(self.tallies) >= MAX_TALLIES:
            key = (upstream, method, OTHER)
        seconds = self.seconds.setdefault(upstream, Seconds())
        return self.tallies.setdefault(key, Tally(seconds))

    def count_beside(self, method: str, reply: Reply | None, began: float, transport: str) -> None:
        """Count a request that was no operation, or named nothing that there is. `began`: as `Intent.began`."""
        if isinstance(reply, Failure) and reply.code == METHOD_NOT_FOUND:
            method = OTHER_OUTCOME  # hosts invent methods
        key = method, sum_up(reply).outcome, transport
        (self.served.get(key) or self._begin_histogram(*key)).observe(perf_counter() - began)

    def _begin_histogram(self, method: str, outcome: str, transport: str) -> Histogram:
        """The histogram of what was not served yet."""
        if sum(each[::2] == (method, transport) for each in self.served) >= MAX_OUTCOMES:
            outcome = OTHER_OUTCOME
        return self.served.setdefault((method, outcome, transport), Histogram())


def log_failure(ended: Ended, intent: Intent) -> None:
    """Log an operation that failed by the hub's word; one of which nothing was sent is less of a matter."""
    level = logging.INFO if ended.executed == Executed.NO.value else logging.WARNING
    text, about = "%s: %s %s after %.3g s", {"error_type": ended.outcome}
    with log_about(intent):
        log.log(level, text, ended.host, ended.name, ended.outcome, ended.took_s, extra=about)
