"""Subscriptions at a modern upstream: one stream for changes of lists, one for subscribed resources.

What a stream asks for cannot change. So when other resources are subscribed, another stream is opened, and the old one
is ended a while after the upstream has acknowledged the new one: make before break. A stream that ends is opened again.

Each stream may have a connection of its own, so a change told over the old stream may arrive after the acknowledgement,
and most changes are told over both: for a moment hosts may hear of one change twice, which the protocol allows.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import trio
from msgspec import Raw, Struct, field

from hub.link.backoff import ExponentialBackoff
from hub.link.hub_errors import DeadlineExceeded, HubError, without_frames
from hub.wire.jsonrpc import Failure, Notification, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import ACKNOWLEDGED, CAPABILITY, LIST_CHANGED, LIST_FLAGS, METHOD_NOT_FOUND, UPDATED, Kind
from upstreams.session_contract import Session, UpstreamEvents, capability
from upstreams.subscriptions.resource_subscription import SubscriptionState
from upstreams.subscriptions.session_subscriptions import ANSWER_S, SessionSubscriptions

log = logging.getLogger(__name__)

DEBOUNCE_S: Final = 0.05
OVERLAP_S: Final = 0.25
"""Time that a stream is read after another has replaced it: longer than a message of one connection may be late against
another connection. The next stream is not opened before: at most three at a time."""


class Stream(Struct, eq=False):
    """One stream for the resources `uris`."""

    uris: frozenset[str]
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    answered: trio.Event = field(default_factory=trio.Event)
    """Set when the stream was acknowledged, or is over."""
    confirmed: frozenset[str] | None = None
    refusal: Failure | HubError | None = None


class ModernSubscriptions:
    """Keeps the streams of one session. `missed` is called when changes may have been missed."""

    def __init__(
        self, session: Session, subscriptions: SessionSubscriptions, events: UpstreamEvents, missed: Callable[[], None]
    ) -> None:
        self._session = session
        self._subscriptions = subscriptions
        self._events = events
        self._missed = missed
        self._current: Stream | None = None
        self._pauses = ExponentialBackoff()
        self._not_before = float("-inf")

    async def run(self) -> None:
        """Listen for ever. Cancellation: ends the streams; all subscriptions are wanted again."""
        self._subscriptions.reset()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_lists)
                await self._keep_resources(nursery)
        finally:
            self._subscriptions.reset()

    # --- lists --------------------------------------------------------------------------------------------------------

    async def _keep_lists(self) -> None:
        flags = {
            flag: True
            for flag, method in LIST_FLAGS.items()
            if capability(self._session.facts, CAPABILITY[LIST_CHANGED[method][0]], "listChanged")
        }
        if not flags:
            return
        name, pauses, again = self._subscriptions.upstream, ExponentialBackoff(), False
        while True:
            pauses.opened(trio.current_time())
            hear = partial(self._hear_lists, again=again)
            reply: object
            try:
                reply = await self._session.listen({"notifications": raw(flags)}, hear)
            except HubError as error:
                reply = without_frames(error)
            if isinstance(reply, Failure) and reply.code == METHOD_NOT_FOUND:
                log.info("%s has no subscriptions: its lists are read again from time to time", name)
                return
            log.debug("%s ended its stream of list changes: %r", name, reply)
            self._subscriptions.coverage.turn_lists(trio.current_time(), ())
            self._missed()
            await trio.sleep(pauses.next_s(trio.current_time()))
            again = True

    def _hear_lists(self, notification: Notification, *, again: bool) -> None:
        if kinds := LIST_CHANGED.get(notification.method):
            self._events.changed(kinds)
        elif notification.method == ACKNOWLEDGED:
            honoured = peek_object(notification.params.get("notifications"))
            flags = [method for flag, method in LIST_FLAGS.items() if honoured.get(flag) == Raw(b"true")]
            told = [kind for method in flags for kind in LIST_CHANGED[method]]
            self._subscriptions.coverage.turn_lists(trio.current_time(), told)
            if again:  # nobody listened for a while
                self._events.changed(tuple(Kind))

    # --- resources ----------------------------------------------------------------------------------------------------

    async def _keep_resources(self, nursery: trio.Nursery) -> None:
        subscriptions = self._subscriptions
        offered = capability(self._session.facts, "resources", "subscribe")
        while True:
            await subscriptions.wait()
            for subscription in subscriptions.overdue():
                subscriptions.forget(subscription)
            if not offered:
                for subscription in subscriptions.in_state(SubscriptionState.WANTED):
                    subscriptions.refuse(subscription)
                continue
            await trio.sleep(DEBOUNCE_S)
            await trio.sleep_until(self._not_before)
            wanted = subscriptions.in_state(SubscriptionState.WANTED, SubscriptionState.LIVE)
            uris = frozenset(subscription.uri for subscription in wanted)
            if (old := self._current) is not None and not uris:
                self._current = None
                old.scope.cancel()
            elif old is not None and old.confirmed == uris:
                self._settle(old)
            elif uris:
                await self._replace(old, Stream(uris), nursery)

    async def _replace(self, old: Stream | None, new: Stream, nursery: trio.Nursery) -> None:
        """Open `new` in place of `old`, which stays if the upstream does not agree."""
        self._pauses.opened(trio.current_time())
        nursery.start_soon(self._follow, new)
        with trio.move_on_after(ANSWER_S):
            await new.answered.wait()
        if new.confirmed is None:
            self._disappoint(new)

    def _take_over(self, new: Stream) -> None:
        """The upstream has acknowledged `new`: the stream before it is read for a while yet."""
        old, self._current = self._current, new
        if old is not None:
            self._not_before = old.scope.deadline = trio.current_time() + OVERLAP_S
        self._settle(new)

    def _settle(self, stream: Stream) -> None:
        subscriptions = self._subscriptions
        for subscription in subscriptions.in_state(SubscriptionState.WANTED, SubscriptionState.LIVE):
            if subscription.uri not in (stream.confirmed or ()):
                if subscription.uri in stream.uris:
                    subscriptions.refuse(subscription)
            elif subscription.state is SubscriptionState.WANTED:
                subscriptions.confirm(subscription)

    def _disappoint(self, stream: Stream) -> None:
        """The upstream did not agree to `stream`. What it agreed to before is asked for again after a while."""
        stream.scope.cancel()
        subscriptions, name = self._subscriptions, self._subscriptions.upstream
        refusal = stream.refusal or DeadlineExceeded(f"{name} did not answer a subscription in time", upstream=name)
        for subscription in subscriptions.in_state(SubscriptionState.WANTED):
            if subscription.uri in stream.uris:
                subscriptions.refuse(subscription, refusal)

    async def _follow(self, stream: Stream) -> None:
        with stream.scope:
            try:
                params = {"notifications": raw({"resourceSubscriptions": sorted(stream.uris)})}
                self._session.speak_of(self._subscriptions.whose())
                reply = await self._session.listen(params, partial(self._hear, stream))
                stream.refusal = reply if isinstance(reply, Failure) else None
            except HubError as error:
                stream.refusal = without_frames(error)
        stream.answered.set()
        if stream is self._current:
            self._lost(stream)
        elif isinstance(stream.refusal, HubError):  # it broke off: nobody knows what else it would have said
            for uri in sorted(stream.confirmed or ()):
                self._subscriptions.updated(uri)

    def _lost(self, stream: Stream) -> None:
        """The current stream ended: open another one, but not at once."""
        log.debug("%s ended its stream of resource changes: %r", self._subscriptions.upstream, stream.refusal)
        self._current = None
        now = trio.current_time()
        self._not_before = now + self._pauses.next_s(now)
        self._subscriptions.reset()
        self._missed()

    def _hear(self, stream: Stream, notification: Notification) -> None:
        if notification.method == UPDATED:
            if (uri := peek_str(notification.params.get("uri"))) is not None:
                self._subscriptions.updated(uri)
        elif notification.method == ACKNOWLEDGED:
            is_first = stream.confirmed is None
            honoured = peek_object(notification.params.get("notifications"))
            stream.confirmed = _strings(honoured.get("resourceSubscriptions"))
            if is_first and not stream.scope.cancel_called:
                self._take_over(stream)
            stream.answered.set()


def _strings(value: Raw | None) -> frozenset[str]:
    return frozenset(text for item in peek_array(value) if (text := peek_str(item)) is not None)
