"""One subscription, and its fan-out: which subscribers are told that a resource changed, and since when notifications
are sure to arrive. Time is an argument.

Told are the subscribers of the resource, else those of a resource that it is a part of, else the one host that has any
subscription in this session, if it alone uses the session: an upstream may write a URI in another way than it was asked
to. But nobody is told what the upstream says only because the hub itself observes something, or because of a host that
has just left, nor what may be about another host's call.

Legacy upstreams notify over the session itself, or a stream beside it that may break. Modern ones tell of lists over a
stream that was asked for that (`upstreams.subscriptions.modern`).
"""

from collections.abc import Hashable, Iterable
from enum import Enum
from itertools import chain
from math import inf
from typing import Final, Protocol

from msgspec import Struct, field

from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Exchange, Program, Tenant
from hub.link.hub_errors import HubError
from hub.link.sync_primitives import Promise
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import INVALID_PARAMS, Kind
from hub.wire.uri_hierarchy import parents
from upstreams.questions.attribution import SEVERAL

LINGER_S: Final = 30.0
"""Seconds that a subscription outlives its last subscriber, who may be coming back."""


class ResourceSubscriber(Protocol):
    """A listener of a host: a legacy session, or one listen stream. Compared by identity."""

    @property
    def host(self) -> Hashable:
        """The host that the subscriber belongs to."""

    @property
    def exchange(self) -> Exchange:
        """The operation by which the host last subscribed to something; it may be over."""

    def updated(self, upstream: str, uri: str) -> None:
        """`uri`, as the upstream writes it, changed. Never blocks."""


class InvalidationListener(Protocol):
    """Told of everything that may make cached resources of one upstream stale, before any host and in whatever session.
    An event may be told more than once, and when nothing was lost; never too late. No method blocks or raises."""

    def resource_changed(self, uri: str) -> None:
        """A session said that `uri` changed, whoever subscribed to it; perhaps only a part of what is subscribed to."""

    def resources_relisted(self) -> None:
        """The lists of resources or templates may differ from before."""

    def subscribed(self, uri: str) -> None:
        """The hub is told of changes of `uri` from now on, or again; earlier changes may have been missed."""

    def gap(self, tenant: Tenant | None) -> None:
        """Changes may have been missed in the session of one host, None: in a shared one. The session is over, serves
        others than before, was renewed, or was silent for a while."""


class SubscriptionState(Enum):
    """State of a subscription with the upstream."""

    WANTED = "wanted"
    ASKED = "asked"
    LIVE = "live"
    REFUSED = "refused"
    ENDING = "ending"


class Subscription(Struct, eq=False):
    """One resource that is subscribed to."""

    uri: str
    subscribers: dict[ResourceSubscriber, bool] = {}
    """By subscriber: whether the upstream has agreed before, in this session or another."""
    state: SubscriptionState = SubscriptionState.WANTED
    attempt: Promise[Failure | HubError | None] = field(default_factory=Promise)
    """The outcome of the attempt to have the upstream agree: None, or why it does not."""
    observed: bool = False
    """The hub itself observes the resource."""
    whose: Program | None = None
    """The program that asked for it; `SEVERAL`: several did."""
    until: float = inf
    """Time at which the subscription ends, having no subscribers and not being observed."""
    again_at: float = inf
    """Time at which to ask again for what was agreed to before and then refused."""

    def concern(self, program: Program) -> None:
        self.whose = program if self.whose in (None, program) else SEVERAL

    @property
    def is_live(self) -> bool:
        """True if the upstream has agreed to it."""
        return self.state is SubscriptionState.LIVE

    @property
    def is_wanted(self) -> bool:
        """True if a host or the hub wants it."""
        return self.observed or bool(self.subscribers)

    def is_left(self, now: float) -> bool:
        """True if the subscription lingers for a host that has just left. Asked when there is no subscriber."""
        return not self.observed or now < self.until < inf

    def want(self) -> None:
        """Have it asked for, again."""
        if self.attempt.is_fulfilled:
            self.attempt = Promise()
        self.state, self.again_at = SubscriptionState.WANTED, inf


def not_offered(upstream: str, uri: str) -> Failure:
    """The answer to a subscription that the upstream has no means for, or does not agree to."""
    data = raw({"hub": "not_subscribable", "upstream": upstream, "uri": uri})
    return Failure(INVALID_PARAMS, f"{upstream} does not take subscriptions to {uri}: it is not subscribable", data)


MAX_STRAYS: Final = 64
MAX_LET_GO: Final = 256


class Fanout:
    """Fan-out of one session."""

    def __init__(self) -> None:
        self._strays: BoundedDict[str, None] = BoundedDict(MAX_STRAYS)
        """Resources that changed lately under a URI nobody had asked for: parts of what the only host subscribed to."""
        self._let_go: BoundedDict[str, float] = BoundedDict(MAX_LET_GO)
        """Resources that were observed till lately, and until when the upstream may speak of them for that reason."""

    def let_go(self, uri: str, now: float) -> None:
        """Note that the hub itself does not observe `uri` any more."""
        self._let_go.put(uri, now + LINGER_S)

    def whose(self, uri: str, known: dict[str, Subscription], *, alone: bool, now: float) -> list[ResourceSubscriber]:
        """The subscribers to tell that `uri` changed. `alone`: all are of one host, which alone uses the session."""
        left = ours = False
        for each in chain((uri,), parents(uri)):
            if (subscription := known.get(each)) is not None and subscription.subscribers:
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
        return list(dict.fromkeys(subscriber for each in known.values() for subscriber in each.subscribers))


class Coverage(Struct, eq=False):
    """Coverage of one session; at first the session is heard."""

    since: float = -inf
    """`inf`: the session is not heard."""
    lists_since: dict[Kind, float] = {}
    """Since when a modern upstream tells of changes, by list."""

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
