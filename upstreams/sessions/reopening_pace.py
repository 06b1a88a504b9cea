"""Pacing: how soon sessions beside the main one may be opened again, so that a server that keeps crashing costs little.

could not be opened      no host gets a session for a while, longer each time
ended by itself          its host gets another when a call needs it: at once the first time, then after growing pauses,
                         during which calls wait; other hosts are not affected
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from math import ceil

import trio

from hub.link.backoff import HEALTHY_S, ExponentialBackoff, jitter
from hub.link.hub_errors import UpstreamUnavailable


@dataclass
class Crash:
    """The last time that a session of one owner ended by itself, and when the next one may be opened."""

    at: float
    not_before: float
    why: str = ""
    pauses: ExponentialBackoff = field(default_factory=partial(ExponentialBackoff, jitter))


class Pacing:
    """Pacing of the sessions of one upstream. `whose` names their owner: a tenant or a principal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._crashes: dict[Hashable, Crash] = {}
        """Crashes within the last `HEALTHY_S`, by owner."""
        self.reset()

    def reset(self) -> None:
        self.opened()
        self._crashes.clear()

    def opened(self) -> None:
        self._pauses = ExponentialBackoff(jitter)
        self._not_before = float("-inf")
        self._why_not = ""

    def failed(self, why: str) -> None:
        now = trio.current_time()
        self._not_before, self._why_not = now + self._pauses.next_s(now), why

    def crashed(self, whose: Hashable, why: str) -> None:
        now = trio.current_time()
        self._crashes = {each: crash for each, crash in self._crashes.items() if crash.at > now - HEALTHY_S}
        if crash := self._crashes.get(whose):
            crash.at, crash.not_before, crash.why = now, now + crash.pauses.next_s(now), why
        else:
            self._crashes[whose] = Crash(now, now)

    def not_before(self, whose: Hashable, patience_s: float) -> float:
        """Time at which the next session may be opened.

        Raises:
            UpstreamUnavailable: not within `patience_s`.
        """
        now, crash = trio.current_time(), self._crashes.get(whose)
        if self._not_before > now:
            raise self.too_soon(self._not_before - now, self._why_not)
        if crash is None:
            return now
        if crash.not_before > now + patience_s:
            raise self.too_soon(crash.not_before - now, crash.why)
        return crash.not_before

    def too_soon(self, wait_s: float, why: str) -> UpstreamUnavailable:
        """The error of a call that would have to wait for so long."""
        seconds = ceil(max(wait_s, 1))
        text = f"{self._name} could not be connected for this host: {why.rstrip('.')}."
        text += f" Try again in {seconds} second{'s' * (seconds != 1)}"
        for_people = f"{text}; `hubd status` shows how it is"
        text += ", or let the user look at `hubd status`."
        return UpstreamUnavailable(text, upstream=self._name, retry_after_ms=seconds * 1000, for_people=for_people)
