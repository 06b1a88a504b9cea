"""One resource that is watched over one session, and where that stands with the upstream (bridging.md 8).

    WANTED --> ASKED --> LIVE ---> ENDING --> gone    the last holder has left, and `LINGER_S` are over
      ^           `----> REFUSED                      whoever asked is told
      `---- from anywhere, when the session is renewed: what was LIVE is asked for again and then changes may have been
            missed, so its holders are told that it changed (N-17)

There are two reasons for a watch. Hosts hold it, to be told of changes. And the hub itself may observe the resource, to
know how long a copy of it is good: nobody is told for that but the onlooker, and it keeps nothing open; for all else it
is as if nobody watched.
"""

from collections.abc import Hashable
from enum import Enum
from math import inf
from typing import Final, Protocol

import trio

from hub.link.interface import Exchange, HubError
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import INVALID_PARAMS
from upstreams.questions.recent_calls import SEVERAL

LINGER_S: Final = 30.0
"""How long a watch outlives its last holder, who may only be coming back."""


class ResourceSubscriber(Protocol):
    """Who is told of changes: a legacy session of a host, or one listen stream. Told apart by identity."""

    @property
    def host(self) -> Hashable:
        """Which host it belongs to."""
        ...

    @property
    def exchange(self) -> Exchange:
        """The operation by which it last asked to be told of something; it may be over."""
        ...

    def updated(self, upstream: str, uri: str) -> None:
        """`uri`, as the upstream writes it, changed. Never blocks."""
        ...


class SubscriptionState(Enum):
    """Where a watch stands with the upstream."""

    WANTED = "wanted"
    ASKED = "asked"
    LIVE = "live"
    REFUSED = "refused"
    ENDING = "ending"


class Attempt:
    """One attempt to have a watch agreed on; for whoever waits for how it ends."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.refusal: Failure | HubError | None = None

    def end(self, refusal: Failure | HubError | None = None) -> None:
        """The upstream agreed, or why it did not."""
        self.refusal = refusal
        self.over.set()


class Subscription:
    """One watched resource."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.subscribers: dict[ResourceSubscriber, bool] = {}
        """And whether the upstream has agreed to it before, in this session or another."""
        self.state = SubscriptionState.WANTED
        self.attempt = Attempt()
        self.observed = False
        """The hub itself has a use for it."""
        self.whose: int | None = None
        """The conversation whose business it is, or was; `SEVERAL`: that of several."""
        self.until = inf
        """When it ends, having no holders and not being observed."""
        self.again_at = inf
        """When to ask for it again, having been refused what was agreed to before."""

    def concern(self, conversation: int) -> None:
        """It is the business of `conversation`, too."""
        self.whose = conversation if self.whose in (None, conversation) else SEVERAL

    @property
    def is_known(self) -> bool:
        """Whether somebody was told that it is watched."""
        return any(self.subscribers.values())

    @property
    def is_wanted(self) -> bool:
        """Whether there is any reason for it."""
        return self.observed or bool(self.subscribers)

    def is_left(self, now: float) -> bool:
        """Whether it is there for a host that has just left, and may be coming back. Asked when nobody holds it."""
        return not self.observed or now < self.until < inf

    def want(self) -> None:
        """It is to be asked for, again."""
        if self.attempt.over.is_set():
            self.attempt = Attempt()
        self.state, self.again_at = SubscriptionState.WANTED, inf

    def fail(self, why: HubError) -> None:
        """Let nobody wait for it any more."""
        if not self.attempt.over.is_set():
            self.attempt.end(why)

    def __repr__(self) -> str:
        observed = " and observed" if self.observed else ""
        return f"<Subscription {self.uri} {self.state.value}, {len(self.subscribers)} subscribers{observed}>"


def not_offered(upstream: str, uri: str) -> Failure:
    """The answer to a subscription that the upstream has no means for, or does not agree to (bridging.md 4)."""
    data = raw({"hub": "not_subscribable", "upstream": upstream, "uri": uri})
    return Failure(INVALID_PARAMS, f"{upstream} does not take subscriptions to {uri}: it is not subscribable", data)
