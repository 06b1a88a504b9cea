"""Fan-out of one session: which subscribers are told that a resource changed, and since when notifications are sure to
arrive. Pure: time is an argument.

Told are the subscribers of the resource, else those of a resource that it is a part of, else the one host that has any
subscription in this session, if it alone uses the session: an upstream may write a URI in another way than it was asked
to. But nobody is told what the upstream says only because the hub itself observes something, or because of a host that
has just left, nor what may be about another host's call.

Legacy upstreams notify over the session itself, or a stream beside it that may break. Modern ones tell of lists over a
stream that was asked for that (`upstreams.subscriptions.modern`).
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from math import inf
from typing import Final

from hub.link.recent import Recent
from hub.wire.mcp import Kind
from hub.wire.uri_parents import parents
from upstreams.subscriptions.subscription import LINGER_S, ResourceSubscriber, Subscription

MAX_STRAYS: Final = 64
MAX_LET_GO: Final = 256


class Fanout:
    """Fan-out of one session."""

    def __init__(self) -> None:
        self._strays: Recent[str, None] = Recent(MAX_STRAYS)
        """Resources that changed lately under a URI nobody had asked for: parts of what the only host subscribed to."""
        self._let_go: Recent[str, float] = Recent(MAX_LET_GO)
        """Resources that were observed till lately, and until when the upstream may speak of them for that reason."""

    def __repr__(self) -> str:
        return f"<Fanout [{len(self._strays)} strays, {len(self._let_go)} let go]>"

    def let_go(self, uri: str, now: float) -> None:
        """Note that the hub itself does not observe `uri` any more."""
        self._let_go.put(uri, now + LINGER_S)

    def whose(
        self, uri: str, subscriptions: Mapping[str, Subscription], *, alone: bool, now: float
    ) -> list[ResourceSubscriber]:
        """The subscribers to tell that `uri` changed. `alone`: all are of one host, which alone uses the session."""
        left = ours = False
        for each in chain((uri,), parents(uri)):
            subscription = subscriptions.get(each)
            if subscription is not None and subscription.subscribers:
                return list(subscription.subscribers)
            left = left or (subscription is not None and subscription.is_left(now))
            ours = ours or subscription is not None or self._let_go.get(each, 0.0) > now
        if left or not alone:  # the former: it concerns a host that has just left
            return []
        if ours and uri not in self._strays:
            return []
        # Told for the sake of another resource. A host that hears of it may read this one, and the hub observe it then;
        # the host must hear of changes as before.
        self._strays.put(uri, None)
        return list(
            {subscriber: None for subscription in subscriptions.values() for subscriber in subscription.subscribers}
        )


class Coverage:
    """Coverage of one session; at first the session is heard."""

    def __init__(self) -> None:
        self.since = -inf
        """`inf`: the session is not heard."""
        self.lists_since: dict[Kind, float] = {}
        """Since when a modern upstream tells of changes, by list."""

    def __repr__(self) -> str:
        return f"<Coverage since {self.since:g}, {len(self.lists_since)} lists>"

    @property
    def is_on(self) -> bool:
        """True if the session is heard now."""
        return self.since < inf

    def turn(self, now: float, *, on: bool) -> bool:
        """Note that the session is heard from now on, or no longer; whether that is new."""
        if on == self.is_on:
            return False
        self.since = now if on else inf
        return True

    def turn_lists(self, now: float, kinds: Iterable[Kind]) -> None:
        """Note that a modern upstream tells of changes of these lists from now on, and of no others."""
        self.lists_since = dict.fromkeys(kinds, now)
