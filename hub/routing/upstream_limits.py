"""UpstreamLimits of one upstream: so many messages at a time, so many begun a minute, and so many that wait for that.

A place is held from a message to its reply, and by nothing else: not by a person who thinks about a question in a
result, nor by what is answered from memory. Answers, retries of parked calls, `tasks/*`, pings and cancellations are no
messages here, so nobody waits for a place while it holds one; only a server that calls itself through the hub does.
The time in the queue counts toward `timeouts.call_total`.
"""

from collections.abc import Mapping
from functools import partial
from math import ceil, inf
from typing import Final

import trio
from msgspec import structs

from config.settings import UpstreamConfig
from hub.calls.chain import WAIT, Intent, Next, Outcome, Stage, Wait
from hub.control.answers import LimitStatus
from hub.link.fair_limits import Places, Turn
from hub.link.hub_errors import DeadlineExceeded, Executed, Overloaded
from hub.link.sync_primitives import Wakeup
from hub.wire.jsonrpc import Reply
from upstreams.deadline_watch import deadline_watch

RETRY_S: Final = 1.0
"""Time after which a refused host may try again, if nobody can tell when there will be room."""
UNLIMITED: Final = UpstreamConfig()


class UpstreamLimits:
    """The limits of all upstreams of a hub."""

    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}
        """The stage of each upstream that has limits, by its name."""
        self._known: dict[str, Limit] = {}
        """Beside these, those of upstreams that have none any more, while calls are counted there."""

    def adjust(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Take over the configurations of all upstreams, by name."""
        limited = [name for name, config in configs.items() if config.in_flight or config.per_minute]
        for name in limited:
            self._known.setdefault(name, Limit(name))
        for name, limit in self._known.items():
            limit.adjust(configs.get(name, UNLIMITED))
        self._known = {name: limit for name, limit in self._known.items() if name in limited or limit.places.running}
        self.stages.clear()
        self.stages.update((name, self._known[name]) for name in limited)

    def status(self, name: str) -> LimitStatus | None:
        """Numbers of calls of an upstream; None: it has no limits."""
        places = self._known[name].places if name in self.stages else None
        return None if places is None else LimitStatus(places.running, places.waiting)


class Limit(Stage):
    """The limits of the upstream of one name, and of each that takes its place. Satisfies `Timed`."""

    def __init__(self, name: str) -> None:
        self.deadline = inf
        """Time at which the next may begin, unless it has to wait for a reply."""
        self.places = Places()
        self._name = name

    def adjust(self, config: UpstreamConfig) -> None:
        """Take over other limits."""
        self.places.adjust(config.in_flight, config.queue, config.per_minute)
        self._admit()
        while (turn := self.places.dismiss()) is not None:
            turn.wake(self._overload())

    def admits(self, intent: Intent) -> Wait | None:
        return None if self.places.take(trio.current_time()) else WAIT

    def left(self, intent: Intent, outcome: Outcome) -> None:
        self.places.release()
        self._admit()

    async def call(self, intent: Intent, next: Next) -> Reply:
        """See `Stage.call`.

        Raises:
            Overloaded: too many wait.
            DeadlineExceeded: its turn did not come in time; or as `Upstream.call`.
        """
        waited_s = await self._wait(intent)
        try:
            return await intent.send(next, structs.replace(intent.operation, waited_s=waited_s), intent.exchange)
        finally:
            self.left(intent, None)

    async def _wait(self, intent: Intent) -> float:
        """Wait for a place; the seconds that it took. Cancellation: it waits no more."""
        places, began, total_s = self.places, trio.current_time(), intent.target.upstream.config.timeouts.call_total
        if places.take(began):
            return 0.0
        wakeup: Wakeup[None] = Wakeup()
        turn = Turn(intent.host.caller.tenant, wakeup, goes_first=_goes_on(intent))
        if (refused := places.join(turn)) is not None:
            if refused is turn:
                raise self._overload()
            refused.wake(self._overload())
        self._watch(began)
        with trio.move_on_after(total_s):
            await wakeup.wait(partial(places.withdraw, turn))
            return trio.current_time() - began
        text = f"{self._name} is busy: the call waited in its queue until its time was up, and nothing was sent"
        raise DeadlineExceeded(text, upstream=self._name, executed=Executed.NO)

    def _overload(self) -> Overloaded:
        now = trio.current_time()
        opens_at = self.places.opens_at(now)
        wait_s = ceil(max(RETRY_S, opens_at - now if opens_at < inf else 0.0))
        text = f"{self._name} is busy and its queue is full, so nothing was sent; try again in {wait_s} s"
        return Overloaded(text, upstream=self._name, retry_after_ms=wait_s * 1000)

    def _admit(self) -> None:
        """Let those go on who have a place now."""
        if not self.places.waiting:
            return
        now = trio.current_time()
        while (turn := self.places.next(now)) is not None:
            turn.wake(None)
        self._watch(now)

    def _watch(self, now: float) -> None:
        """See to it that the next goes on in time."""
        self.deadline = self.places.opens_at(now) if self.places.waiting else inf
        watch = deadline_watch()
        (watch.add if self.deadline < inf else watch.remove)(self)

    def on_time_up(self) -> None:
        """See `Timed`."""
        self._admit()
        self._watch(trio.current_time())


def _goes_on(intent: Intent) -> bool:
    """True if it is the next round of an operation: it has answers, or a state of the upstream, which only the bridge
    adds. Answers of a host to what nobody asked begin something."""
    given = intent.request.params
    is_unasked = "inputResponses" in given and "requestState" not in given
    return not is_unasked and not {"inputResponses", "requestState"}.isdisjoint(intent.operation.params)
