"""Subscription: one resource over one session, and its state with the upstream.

    WANTED --> ASKED --> LIVE ---> ENDING --> gone    the last subscriber has left, and `LINGER_S` are over
      ^           `----> REFUSED                      whoever asked is told
      `---- from anywhere, when the session is renewed: what was LIVE is asked for again and then changes may have been
            missed, so its subscribers are told that it changed

There are two reasons for a subscription. Hosts want to be told of changes. And the hub itself may observe the resource,
to know how long a cached copy is good: only the invalidation listener is told then, and no session is kept open for
it.
"""

from collections.abc import Hashable
from enum import Enum
from math import inf
from typing import Final, Protocol

import trio

from hub.link.hub_errors import HubError
from hub.link.interface import Exchange, Program
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import INVALID_PARAMS
from upstreams.questions.attribution import SEVERAL

LINGER_S: Final = 30.0
"""Seconds that a subscription outlives its last subscriber, who may be coming back."""


class ResourceSubscriber(Protocol):
    """A listener of a host: a legacy session, or one listen stream. Compared by identity."""

    @property
    def host(self) -> Hashable:
        """The host that the subscriber belongs to."""
        ...

    @property
    def exchange(self) -> Exchange:
        """The operation by which the host last subscribed to something; it may be over."""
        ...

    def updated(self, upstream: str, uri: str) -> None:
        """`uri`, as the upstream writes it, changed. Never blocks."""
        ...


class SubscriptionState(Enum):
    """State of a subscription with the upstream."""

    WANTED = "wanted"
    ASKED = "asked"
    LIVE = "live"
    REFUSED = "refused"
    ENDING = "ending"


class Attempt:
    """One attempt to have the upstream agree, to wait for."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.refusal: Failure | HubError | None = None

    def end(self, refusal: Failure | HubError | None = None) -> None:
        """The upstream agreed, or why it did not."""
        self.refusal = refusal
        self.over.set()


class Subscription:
    """One resource that is subscribed to."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.subscribers: dict[ResourceSubscriber, bool] = {}
        """By subscriber: whether the upstream has agreed before, in this session or another."""
        self.state = SubscriptionState.WANTED
        self.attempt = Attempt()
        self.observed = False
        """The hub itself observes the resource."""
        self.whose: Program | None = None
        """The program that asked for it; `SEVERAL`: several did."""
        self.until = inf
        """Time at which the subscription ends, having no subscribers and not being observed."""
        self.again_at = inf
        """Time at which to ask again for what was agreed to before and then refused."""

    def concern(self, program: Program) -> None:
        """Note that `program` asked for it, too."""
        self.whose = program if self.whose in (None, program) else SEVERAL

    @property
    def is_known(self) -> bool:
        """True if any subscriber was told that it is subscribed."""
        return any(self.subscribers.values())

    @property
    def is_wanted(self) -> bool:
        """True if a host or the hub wants it."""
        return self.observed or bool(self.subscribers)

    def is_left(self, now: float) -> bool:
        """True if the subscription lingers for a host that has just left. Asked when there is no subscriber."""
        return not self.observed or now < self.until < inf

    def want(self) -> None:
        """Have it asked for, again."""
        if self.attempt.over.is_set():
            self.attempt = Attempt()
        self.state, self.again_at = SubscriptionState.WANTED, inf

    def fail(self, why: HubError) -> None:
        """End the attempt: nobody waits any more."""
        if not self.attempt.over.is_set():
            self.attempt.end(why)

    def __repr__(self) -> str:
        observed = " and observed" if self.observed else ""
        return f"<Subscription {self.uri} {self.state.value}, {len(self.subscribers)} subscribers{observed}>"


def not_offered(upstream: str, uri: str) -> Failure:
    """The answer to a subscription that the upstream has no means for, or does not agree to."""
    data = raw({"hub": "not_subscribable", "upstream": upstream, "uri": uri})
    return Failure(INVALID_PARAMS, f"{upstream} does not take subscriptions to {uri}: it is not subscribable", data)
