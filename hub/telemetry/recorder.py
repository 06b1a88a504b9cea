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
from hub.link.hub_errors import Executed, HubError
from hub.link.log_context import log_about
from hub.link.rate_limits import TokenBucket
from hub.telemetry.count_sent_messages import MessageCount
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
from hub.telemetry.tally import BOUNDS_S, LEAST_S, MAX_OUTCOMES, OTHER_OUTCOME, CountingPlace, Histogram, Seconds, Tally
from hub.wire.jsonrpc import Failure, Reply, Result
from hub.wire.mcp import METHOD_NOT_FOUND

log = logging.getLogger("hubd.call")

KEEP: Final = 1_000
"""Operations that are kept."""
MAX_TALLIES: Final = 2_000
MAX_PLACES: Final = 4_096
OTHER: Final = "_other"
"""In place of the names of tools beyond that number."""
LINES: Final = 100.0
MAX_WHY: Final = 300
"""Characters of the reason in the log."""
LINES_PER_S: Final = 5.0
"""Failures that are logged at once, and a second from then on: a host that tries again and again fills no log."""


class Recorder(Stage):
    """Makes the record of each operation that is over."""

    def __init__(self, messages: MessageCount) -> None:
        """`messages`: what is sent for these."""
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
        self._places: dict[tuple[str, str, str, str, str], CountingPlace] = {}
        """By what `_find_place` is told; found anew when there are too many."""
        self._messages = messages
        self._lines = TokenBucket(LINES, LINES_PER_S)

    def adjust(self, keep: int) -> None:
        """Keep so many operations that are over."""
        if keep != self.ring.maxlen:
            self.ring = deque(self.ring, maxlen=keep)

    # Both methods call no function of ours for a plain call that nobody listens to, and look into one table together,
    # since every call comes by.

    def admits(self, intent: Intent) -> None:
        target, host, ref = intent.target, intent.host, intent.ref
        caller, own = host.caller, "" if target.kind is None else target.route.original
        about = target.upstream.name, intent.request.method, own, caller.identity.host, caller.transport
        host.place = self._places.get(about) or self._find_place(about)
        host.sent_at = host.answered_at = 0.0  # of another one of the same request
        self.running[ref] = intent

    def left(self, intent: Intent, outcome: Outcome) -> None:
        now = perf_counter()
        target, ref, host = intent.target, intent.ref, intent.host
        caller, took = host.caller, now - intent.began
        key, tally, use, histogram, served, _ = host.place
        sent = len(memoryview(intent.operation.params.get("arguments", NO_ARGUMENTS)))
        self.running.pop(ref, None)

        if type(outcome) is Result and outcome.says_error is False:
            result, executed, size, is_task = OK, "", len(memoryview(outcome.value)), False
            use.charged += 1
        else:
            result, executed, size, is_task = sum_up(outcome)
            histogram = tally.outcomes.get(result) or tally.histogram(result)
            about = key[1], OK if result == ASKED else result, caller.transport
            served = self.served.get(about) or self._find_served(about)
            if result in CHARGED or executed in MAY_HAVE_RUN:
                use.charged += 1
        bucket = 0 if took <= LEAST_S else bisect_left(BOUNDS_S, took)
        histogram.total_s += took
        histogram.buckets[bucket] += 1
        served.total_s += took
        served.buckets[bucket] += 1
        tally.last.append(took)
        tally.sent += sent
        use.size += size
        seconds = tally.seconds
        if now >= seconds.until:
            seconds.move(int(now))
        seconds.calls[seconds.place] += 1
        if result:
            if result not in NO_FAULTS:
                seconds.failed[seconds.place] += 1
            elif result in (CANCELLED, WAITS):
                seconds.cancelled[seconds.place] += 1

        name = target.exposed if target.kind is not None else strip_uri(target.exposed)
        ended = Ended(
            ref,
            now,
            took,
            key,
            name,
            caller.identity,
            result,
            executed,
            sent,
            size,
            caller.transport,
            host.is_cached,
            is_task,
            host.sent_at,
            host.answered_at,
        )
        self.ring.append(ended)
        for tell in self.listeners:
            tell(ended)
        if executed and self._lines.take(now):
            log_failure(ended, intent, outcome)

    def _find_place(self, about: tuple[str, str, str, str, str]) -> CountingPlace:
        """The place for calls by upstream, method, the upstream's own name, the label of the host and its transport."""
        upstream, method, own, host, transport = about
        if len(self._places) >= MAX_PLACES:
            self._places.clear()
        key = upstream, method, own
        told = key if key in self.tallies or len(self.tallies) < MAX_TALLIES else (upstream, method, OTHER)
        tally = self.tallies.setdefault(told, Tally(self.seconds.setdefault(upstream, Seconds())))
        use, served = tally.hosts.get(host) or tally.use(host), self._find_served((method, OK, transport))
        place = CountingPlace(key, tally, use, tally.histogram(OK), served, self._messages.find(*key))
        return self._places.setdefault(about, place)

    def count_beside(self, method: str, reply: Reply | None, began: float, transport: str) -> None:
        """Count a request that was no operation, or named nothing that there is. `began`: as `Intent.began`."""
        if isinstance(reply, Failure) and reply.code == METHOD_NOT_FOUND:
            method = OTHER_OUTCOME  # hosts invent methods
        self._find_served((method, sum_up(reply).outcome, transport)).observe(perf_counter() - began)

    def _find_served(self, key: tuple[str, str, str]) -> Histogram:
        """The histogram of what was served so."""
        method, _, transport = key
        if key not in self.served and sum(each[::2] == (method, transport) for each in self.served) >= MAX_OUTCOMES:
            key = method, OTHER_OUTCOME, transport
        return self.served.setdefault(key, Histogram())


def log_failure(ended: Ended, intent: Intent, outcome: Outcome) -> None:
    """Log an operation that failed by the hub's word; one of which nothing was sent is less of a matter."""
    level = logging.INFO if ended.executed == Executed.NO.value else logging.WARNING
    text, about = "%s: %s %s after %.3g s%s", {"error_type": ended.outcome}
    why = f": {outcome.for_log}"[:MAX_WHY] if isinstance(outcome, HubError) else ""
    with log_about(intent):
        log.log(level, text, ended.host, ended.name, ended.outcome, ended.took_s, why, extra=about)
