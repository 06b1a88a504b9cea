"""Subscriptions at a legacy upstream: one request for each resource, one to end it.

Some SDKs never declare that resources can be subscribed to, whatever their servers do. So an upstream that does not
declare it is asked for what hosts subscribe to, and its own answer counts; only the hub itself takes it at its word.
"""

import logging
from contextlib import suppress
from math import inf
from typing import Final

import trio

from hub.link.hub_errors import DeadlineExceeded, HubError, without_frames
from hub.wire.jsonrpc import Failure, Reply, Result, raw
from hub.wire.mcp import METHOD_NOT_FOUND, SUBSCRIBE, UNSUBSCRIBE
from upstreams.questions.attribution import SEVERAL
from upstreams.session_contract import Session, capability
from upstreams.subscriptions.resource_subscription import Subscription, SubscriptionState
from upstreams.subscriptions.session_subscriptions import ANSWER_S, SessionSubscriptions

log = logging.getLogger(__name__)

ASKED_AT_ONCE: Final = 16


class LegacySubscriptions:
    """Keeps one legacy upstream subscribed to what is wanted."""

    def __init__(self, session: Session, subscriptions: SessionSubscriptions) -> None:
        self._session = session
        self._subscriptions = subscriptions
        self._limit = trio.CapacityLimiter(ASKED_AT_ONCE)

    async def run(self) -> None:
        """Keep the upstream subscribed for ever. Cancellation: all subscriptions are wanted again."""
        subscriptions = self._subscriptions
        offered = capability(self._session.facts, "resources", "subscribe")
        subscriptions.reset()
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    for subscription in subscriptions.in_state(SubscriptionState.WANTED):
                        if offered or subscription.subscribers:
                            subscription.state = SubscriptionState.ASKED
                            nursery.start_soon(self._subscribe, subscription, subscriptions.resets)
                        else:
                            subscriptions.refuse(subscription)
                    for subscription in subscriptions.overdue():
                        subscription.until = inf
                        if subscription.state is SubscriptionState.LIVE:
                            subscription.state = SubscriptionState.ENDING
                            nursery.start_soon(self._unsubscribe, subscription)
                        elif subscription.state is SubscriptionState.REFUSED:
                            subscriptions.forget(subscription)
                    await subscriptions.wait()
        finally:
            subscriptions.reset()

    async def _subscribe(self, subscription: Subscription, resets: int) -> None:
        subscriptions = self._subscriptions
        name = subscriptions.upstream
        answer: Reply | HubError = DeadlineExceeded(f"{name} did not answer a subscription in time", upstream=name)
        async with self._limit:
            with trio.move_on_after(ANSWER_S):
                try:
                    answer = await self._ask(SUBSCRIBE, subscription)
                except HubError as error:
                    answer = without_frames(error)
        if resets != subscriptions.resets:
            return  # the upstream may have forgotten it since: another task asks again
        if isinstance(answer, Result):
            subscriptions.confirm(subscription)
        elif isinstance(answer, Failure) and answer.code == METHOD_NOT_FOUND:
            subscriptions.refuse(subscription)
        else:
            subscriptions.refuse(subscription, answer)

    async def _ask(self, method: str, subscription: Subscription) -> Reply:
        self._speak_of(subscription)
        try:
            return await self._session.request(method, {"uri": raw(subscription.uri)})
        finally:
            self._speak_of(subscription)

    def _speak_of(self, subscription: Subscription) -> None:
        """The URI may be a secret of one host, and an upstream may log it."""
        with suppress(HubError):  # the session is over
            self._session.speak_of(subscription.whose or SEVERAL)

    async def _unsubscribe(self, subscription: Subscription) -> None:
        async with self._limit:
            with trio.move_on_after(ANSWER_S):
                try:
                    await self._ask(UNSUBSCRIBE, subscription)
                except HubError as error:
                    name, uri = self._subscriptions.upstream, subscription.uri
                    log.debug("%s could not be unsubscribed from %s: %s", name, uri, error)
        if subscription.state is SubscriptionState.ENDING:
            self._subscriptions.ended(subscription)
