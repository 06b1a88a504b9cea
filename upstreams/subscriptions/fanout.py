"""Whose business it is that a resource changed (N-11). Pure: time is an argument.

It is the business of those who watch it, else of those who watch what it is a part of, else of the one host that
watches anything in this session, if it alone uses it: an upstream may write a URI in another way than it was asked to.
But what it says only because the hub itself observes something, or because of a host that has just left, or that may be
about another host's call, is news for nobody here.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from hub.link.recent import Recent
from hub.wire.uri_parents import parents
from upstreams.subscriptions.subscription import LINGER_S, ResourceSubscriber, Subscription

MAX_STRAYS: Final = 64
MAX_LET_GO: Final = 256


class Fanout:
    """Of one session."""

    def __init__(self) -> None:
        self._strays: Recent[str, None] = Recent(MAX_STRAYS)
        """What changed lately that nobody had asked for by this name: parts of what the only host here watches."""
        self._let_go: Recent[str, float] = Recent(MAX_LET_GO)
        """What was observed till lately, and until when the upstream may still speak of it for that reason."""

    def __repr__(self) -> str:
        return f"<Fanout [{len(self._strays)} strays, {len(self._let_go)} let go]>"

    def let_go(self, uri: str, now: float) -> None:
        """The hub itself does not observe `uri` any more."""
        self._let_go.put(uri, now + LINGER_S)

    def whose(
        self, uri: str, subscriptions: Mapping[str, Subscription], *, alone: bool, now: float
    ) -> list[ResourceSubscriber]:
        """Who is to hear that `uri` changed. `alone`: whoever watches anything is one host, whose session it is."""
        left = ours = False
        for each in chain((uri,), parents(uri)):
            subscription = subscriptions.get(each)
            if subscription is not None and subscription.subscribers:
                return list(subscription.subscribers)
            left = left or (subscription is not None and subscription.is_left(now))
            ours = ours or subscription is not None or self._let_go.get(each, 0.0) > now
        if left or not alone:  # the former: it is the business of one who has just left
            return []
        if ours and uri not in self._strays:
            return []
        self._note_stray(uri)
        return list(
            {subscriber: None for subscription in subscriptions.values() for subscriber in subscription.subscribers}
        )

    def _note_stray(self, uri: str) -> None:
        """The upstream has spoken of it for the sake of something else. A host that hears of it may read it, and the
        hub observe it then; the host must hear of it as before."""
        self._strays.put(uri, None)
