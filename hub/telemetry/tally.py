"""Tallies: what is counted of the operations of one tool, prompt or kind of read of one upstream. Pure.

Counts never fall while the hub lives. Durations are in buckets, for whoever adds up over time, and the last ones as
they were, for people: percentiles of these are exact.
"""

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of buckets of durations, those of the OpenTelemetry conventions for MCP and three below them; one more
bucket has all that took longer."""
LEAST_S: Final = BOUNDS_S[0]
LAST: Final = 128
"""Durations that are kept as they were."""
FEWEST: Final = 5
"""Durations of which percentiles say something."""
SECONDS: Final = 300
MAX_HOSTS: Final = 100
"""Different hosts of one tally; those beyond that count as `OTHER_HOST`."""
OTHER_HOST: Final = "_other"
MAX_OUTCOMES: Final = 20
"""Different outcomes of one tally; those beyond that count as `OTHER_OUTCOME`."""
OTHER_OUTCOME: Final = "_OTHER"


class Histogram:
    """Durations in buckets."""

    __slots__ = ("buckets", "text", "total_s")

    def __init__(self) -> None:
        self.text: tuple[int, bytes] = -1, b""
        """The count at which it was last written for Prometheus, and how: most are as they were at the next time."""
        self.total_s = 0.0
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        """Durations by bucket, each in one only."""

    @property
    def count(self) -> int:
        """Durations in all."""
        return sum(self.buckets)

    def observe(self, duration_s: float) -> None:
        """Count a duration."""
        self.total_s += duration_s
        self.buckets[bisect_left(BOUNDS_S, duration_s)] += 1


def histogram_of(outcomes: dict[str, Histogram], outcome: str) -> Histogram:
    """That of an outcome; peers invent codes, so of these there are not too many."""
    if outcome not in outcomes and len(outcomes) >= MAX_OUTCOMES:
        outcome = OTHER_OUTCOME
    return outcomes.setdefault(outcome, Histogram())


class Seconds:
    """Operations of one upstream in each of the last `SECONDS` seconds."""

    __slots__ = ("at", "calls", "cancelled", "failed", "place", "until")

    def __init__(self) -> None:
        self.calls, self.failed, self.cancelled = [0] * SECONDS, [0] * SECONDS, [0] * SECONDS
        """By second modulo `SECONDS`."""
        self.at = 0
        """The latest second, by the clock of `Ended`."""
        self.place, self.until = 0, 0.0
        """The place of that one in the lists, and the time when it is over."""

    def move(self, second: int) -> None:
        """Begin with this second, if it is a later one."""
        for each in range(max(self.at + 1, second - SECONDS + 1), second + 1):
            self.calls[each % SECONDS] = self.failed[each % SECONDS] = self.cancelled[each % SECONDS] = 0
        self.at = max(self.at, second)
        self.place, self.until = self.at % SECONDS, self.at + 1.0

    def last(self, second: int, number: int = SECONDS) -> tuple[list[int], list[int]]:
        """Operations and failures in the last `number` seconds up to this one, the oldest first."""
        self.move(second)
        span = range(second - number + 1, second + 1)
        return [self.calls[each % SECONDS] for each in span], [self.failed[each % SECONDS] for each in span]

    def lately(self, second: int) -> tuple[int, int]:
        """Operations of all these seconds, without those that were cancelled or wait for a person, and failures."""
        self.move(second)
        return sum(self.calls) - sum(self.cancelled), sum(self.failed)


class Use:
    """What one host made of a tool, prompt or kind of read."""

    __slots__ = ("charged", "size")

    def __init__(self) -> None:
        self.charged = 0
        """Operations that their server has carried out, or may have."""
        self.size = 0
        """Bytes of results."""


class Tally:
    """What is counted of one tool, prompt or kind of read. Written by `Recorder`, read by all."""

    __slots__ = ("hosts", "last", "outcomes", "seconds", "sent")

    def __init__(self, seconds: Seconds) -> None:
        self.outcomes: dict[str, Histogram] = {}
        """By outcome as in `Ended`."""
        self.last: deque[float] = deque(maxlen=LAST)
        """The last durations, in seconds."""
        self.sent = 0
        """Bytes of arguments."""
        self.hosts: dict[str, Use] = {}
        """By the label of the host."""
        self.seconds = seconds
        """Those of its upstream."""

    def histogram(self, outcome: str) -> Histogram:
        """That of an outcome."""
        return histogram_of(self.outcomes, outcome)

    def use(self, host: str) -> Use:
        """That of a host which was not seen yet."""
        return self.hosts.setdefault(host if len(self.hosts) < MAX_HOSTS else OTHER_HOST, Use())

    @property
    def count(self) -> int:
        """Operations in all."""
        return sum(each.count for each in self.outcomes.values())


class CountingPlace(NamedTuple):
    """Where calls of one thing by hosts of one label are counted, looked up once for all of them."""

    key: tuple[str, str, str]
    """As in `Ended`."""
    tally: Tally
    use: Use
    fine: Histogram
    """Of the tally: for those that went well."""
    served: Histogram
    """For those of any tally that went well and came in this way."""
    sent: dict[str, Histogram]
    """For messages to the upstream, by outcome."""
