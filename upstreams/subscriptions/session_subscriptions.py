"""Session subscriptions: the resources that hosts, and the hub itself, are subscribed to over one session.

A session that ends takes its subscriptions with it; `upstreams.subscriptions_across_sessions` moves those of hosts.
State changes in sync methods only. `upstreams.subscriptions.legacy` and `upstreams.subscriptions.modern` tell the
upstream what is wanted.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final

import trio

from hub.link.call_interface import Program
from hub.link.hub_errors import HubError, UpstreamLost, without_frames
from hub.link.sync_primitives import DirtyFlag, Promise
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.uri_hierarchy import MAX_URI_CHARS
from upstreams.questions.attribution import SEVERAL
from upstreams.subscriptions.resource_subscription import (
    LINGER_S,
    Coverage,
    Fanout,
    InvalidationListener,
    ResourceSubscriber,
    Subscription,
    SubscriptionState,
    not_offered,
)

log = logging.getLogger(__name__)

ANSWER_S: Final = 30.0
"""Time limit for an upstream to agree."""
RETRY_S: Final = 30.0
MAX_PART_CHARS: Final = 8192
"""Longest URI of a change that is told to hosts, since what is told may have to be kept."""


@dataclass(eq=False, repr=False)
class SessionSubscriptions:
    """All subscriptions over one session."""

    upstream: str
    listener: InvalidationListener
    """Told of every change before any subscriber."""
    coverage: Coverage = field(default_factory=Coverage)
    others: Callable[[Hashable], bool] = lambda host: False
    """Tells whether any host but one uses the session, or did only lately."""
    resets: int = 0
    """Number of times that all was asked for anew; an answer to an earlier request does not count."""
    _news: DirtyFlag = field(default_factory=DirtyFlag)
    """Wakes the task that tells the upstream."""
    _subscriptions: dict[str, Subscription] = field(default_factory=dict)
    _hosts: Counter[Hashable] = field(default_factory=Counter)
    _fanout: Fanout = field(default_factory=Fanout)
    _over: bool = False

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._subscriptions.values()))

    @property
    def held(self) -> bool:
        """True if any host is subscribed to anything."""
        return bool(self._hosts)

    # --- what hosts want ----------------------------------------------------------------------------------------------

    async def subscribe(self, uri: str, subscriber: ResourceSubscriber) -> Failure | None:
        """Subscribe to `uri`; None once the upstream agreed, else its refusal. Deadlines are the caller's. Raises
        HubError: the upstream could not be asked. Cancellation: there is no subscription."""
        if self._over:
            raise self._loss()
        if len(uri) > MAX_URI_CHARS:
            return Failure(INVALID_PARAMS, f"A URI to subscribe to has at most {MAX_URI_CHARS} characters")
        subscription = self._hold(uri, subscriber)
        if subscription.is_live:
            subscription.subscribers[subscriber] = True
            return None
        is_agreed = False  # nor will it be, if this is cancelled
        try:
            refusal = await subscription.attempt.wait()
            is_agreed = refusal is None
        finally:
            if not is_agreed and not subscription.subscribers.get(subscriber):
                self.unsubscribe(uri, subscriber)
        if isinstance(refusal, HubError):
            raise without_frames(refusal)
        return refusal

    def adopt(self, uri: str, subscriber: ResourceSubscriber) -> None:
        """Subscribe `subscriber` to `uri`: it was subscribed before, and may have missed changes till now."""
        if self._over:
            return
        subscription = self._hold(uri, subscriber)
        subscription.subscribers[subscriber] = True
        if subscription.is_live:
            subscriber.updated(self.upstream, uri)

    def _hold(self, uri: str, subscriber: ResourceSubscriber) -> Subscription:
        subscription = self._subscriptions.setdefault(uri, Subscription(uri))
        if subscriber not in subscription.subscribers:
            subscription.subscribers[subscriber] = False
            self._hosts[subscriber.host] += 1
        subscription.concern(subscriber.exchange.caller.program)
        subscription.until = inf
        self._need(subscription)
        return subscription

    def _need(self, subscription: Subscription) -> None:
        if subscription.state is SubscriptionState.ENDING and subscription.attempt.is_fulfilled:
            subscription.attempt = Promise()
        elif subscription.state is SubscriptionState.REFUSED:
            subscription.want()
        if not subscription.is_live:
            self._news.set()

    def is_held(self, uri: str, subscriber: ResourceSubscriber) -> bool:
        """True if `subscriber` is subscribed, and the upstream has agreed."""
        subscription = self._subscriptions.get(uri)
        return subscription is not None and subscription.is_live and subscriber in subscription.subscribers

    def unsubscribe(self, uri: str, subscriber: ResourceSubscriber) -> None:
        """End the subscription of `subscriber`; after the last one, the upstream is told after a while."""
        subscription = self._subscriptions.get(uri)
        if subscription is None or subscriber not in subscription.subscribers:
            return
        del subscription.subscribers[subscriber]
        self._hosts[subscriber.host] -= 1
        if not self._hosts[subscriber.host]:
            del self._hosts[subscriber.host]
        if not subscription.subscribers:
            self._unused(subscription)

    def _unused(self, subscription: Subscription) -> None:
        if subscription.state in (SubscriptionState.WANTED, SubscriptionState.REFUSED) and not subscription.observed:
            self.forget(subscription)
        subscription.until = trio.current_time() + LINGER_S
        self._news.set()

    # --- what the hub itself observes ---------------------------------------------------------------------------------

    async def observe(self, uri: str, reader: Program = SEVERAL) -> bool:
        """Observe `uri`, which the program `reader` reads; whether the upstream has agreed to that. Deadlines are
        the caller's.

        If it does not agree, then or after the session was renewed, it is observed no more.

        Cancellation: it is observed all the same, when the upstream agrees; `neglect` ends that.
        """
        if self._over or len(uri) > MAX_URI_CHARS:
            return False
        subscription = self._subscriptions.setdefault(uri, Subscription(uri))
        subscription.concern(reader)
        if not subscription.observed:
            subscription.observed = True
            self._need(subscription)
            if subscription.is_live:
                self.listener.subscribed(uri)
        if not subscription.is_live:
            await subscription.attempt.wait()
        return self.is_observed(uri)

    def is_observed(self, uri: str) -> bool:
        """True if the hub is told of changes of `uri`, by its own wish, now."""
        subscription = self._subscriptions.get(uri)
        return subscription is not None and subscription.observed and subscription.is_live and self.coverage.is_on

    def neglect(self, uri: str) -> None:
        """Observe `uri` no longer. Without a subscriber, that ends the subscription."""
        if (subscription := self._subscriptions.get(uri)) is None or not subscription.observed:
            return
        subscription.observed = False
        if subscription.subscribers:
            return
        if subscription.state is SubscriptionState.WANTED:
            self.forget(subscription)
        now = trio.current_time()
        subscription.until = max(subscription.until, now) if subscription.until < inf else now
        self._fanout.let_go(uri, now)
        self._news.set()

    def heard_again(self) -> None:
        """Tell the listener what is observed again, after a time when the upstream was not heard."""
        for subscription in self.in_state(SubscriptionState.LIVE):
            if subscription.observed:
                self.listener.subscribed(subscription.uri)

    # --- what the upstream says ---------------------------------------------------------------------------------------

    def updated(self, uri: str) -> None:
        """Tell the listener, then the subscribers concerned and nobody else, that `uri` changed."""
        self.listener.resource_changed(uri)
        if len(uri) > MAX_PART_CHARS:
            log.debug("%s reports a change at a URI of %d characters", self.upstream, len(uri))
            return
        alone = len(self._hosts) == 1 and not self.others(next(iter(self._hosts)))
        for subscriber in self._fanout.whose(uri, self._subscriptions, alone=alone, now=trio.current_time()):
            subscriber.updated(self.upstream, uri)

    # --- what the tasks of an era do ----------------------------------------------------------------------------------

    async def wait(self) -> None:
        """Wait for something to do; at the latest until a subscription ends, or is to be asked for again."""
        known = self._subscriptions.values()
        ends = (each.again_at if each.observed else min(each.until, each.again_at) for each in known)
        with trio.move_on_at(min(ends, default=inf)):
            await self._news.take()
        for subscription in self.in_state(SubscriptionState.REFUSED):
            if subscription.again_at <= trio.current_time():
                subscription.want()

    def whose(self) -> Program:
        """The one program that asked for all subscriptions; `SEVERAL`: there is none."""
        programs = {subscription.whose for subscription in self._subscriptions.values()}
        return (programs.pop() if len(programs) == 1 else None) or SEVERAL

    def in_state(self, *stands: SubscriptionState) -> list[Subscription]:
        """Subscriptions in one of these states."""
        return [subscription for subscription in self._subscriptions.values() if subscription.state in stands]

    def overdue(self) -> list[Subscription]:
        """Subscriptions that nobody has come back to."""
        now = trio.current_time()
        return [each for each in self._subscriptions.values() if each.until <= now and not each.observed]

    def confirm(self, subscription: Subscription) -> None:
        """The upstream agreed. What it agreed to before may have changed meanwhile."""
        subscription.state = SubscriptionState.LIVE
        subscription.attempt.fulfil(None)
        if subscription.observed:
            self.listener.subscribed(subscription.uri)
        for subscriber in [subscriber for subscriber, known in subscription.subscribers.items() if known]:
            subscriber.updated(self.upstream, subscription.uri)
        subscription.subscribers = dict.fromkeys(subscription.subscribers, True)
        if not subscription.is_wanted:
            self._unused(subscription)

    def refuse(self, subscription: Subscription, refusal: Failure | HubError | None = None) -> None:
        """The upstream did not agree, for want of means or for this reason, or could not be asked. Earlier subscribers
        stay, and it is asked again later."""
        subscription.state, subscription.observed = SubscriptionState.REFUSED, False
        subscription.attempt.fulfil(refusal or not_offered(self.upstream, subscription.uri))
        if not subscription.subscribers:
            self.forget(subscription)
        elif any(subscription.subscribers.values()):  # one was told that it is subscribed
            subscription.again_at = trio.current_time() + RETRY_S
            self._news.set()

    def forget(self, subscription: Subscription) -> None:
        """End a subscription."""
        if self._subscriptions.get(subscription.uri) is subscription:
            del self._subscriptions[subscription.uri]
        subscription.attempt.fulfil(self._loss())

    def ended(self, subscription: Subscription) -> None:
        """The upstream has forgotten a subscription."""
        if subscription.is_wanted:  # a subscriber came back meanwhile
            subscription.want()
            self._news.set()
        else:
            self.forget(subscription)

    def reset(self) -> None:
        """Ask for everything again: the upstream may have forgotten all of it."""
        self.resets += 1
        now = trio.current_time()
        for subscription in list(self._subscriptions.values()):
            is_over = subscription.state is SubscriptionState.ENDING or subscription.until <= now
            if is_over and not subscription.is_wanted:
                self.forget(subscription)
            elif subscription.state is not SubscriptionState.WANTED:
                subscription.want()
        self._news.set()

    def end(self) -> None:
        """End all subscriptions: the session is over."""
        self._over = True
        for subscription in self._subscriptions.values():
            subscription.attempt.fulfil(self._loss())
        self._subscriptions.clear()
        self._hosts.clear()

    def _loss(self) -> HubError:
        return UpstreamLost(f"{self.upstream} ended before it took a subscription", upstream=self.upstream)
