"""Host subscriptions: what each host is subscribed to at one upstream, moved from session to session.

A subscription belongs in the session that the calls of its host go to: the host may hear of what changes there. Each
session has its own `SessionSubscriptions`; here is noted which host subscribed to what, so that it can be moved:

    the host subscribes           in the session of its calls, which is opened if it would be its own
    the host changes session      moved there, and the host is told that all of it may have changed meanwhile
    the host has no session       kept for the next one, which is opened for it unless a call has to: at once, and at
                                  growing intervals if it does not last

So a host that only subscribes has a process of its own where a calling host has. `Pool.lend_main` is the exception.
"""

import logging
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import trio

from hub.link.backoff import ExponentialBackoff
from hub.link.call_interface import Caller, Exchange
from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.sync_primitives import DirtyFlag
from hub.wire.jsonrpc import Failure
from upstreams.sessions.find_session_for_host import SessionSelector
from upstreams.sessions.pooled_session import PooledSession
from upstreams.subscriptions.resource_subscription import ResourceSubscriber
from upstreams.subscriptions.session_subscriptions import ANSWER_S

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class SubscribedHost:
    """The subscriptions of one host, and its session."""

    host: Hashable
    exchange: Exchange
    pooled: PooledSession | None = None
    held: dict[tuple[str, ResourceSubscriber], None] = field(default_factory=dict)
    is_sought: bool = False
    """A task is opening a session for it."""
    pauses: ExponentialBackoff | None = None
    """Pauses between the sessions that were opened for it; None: there were none."""

    def move(self, pooled: PooledSession | None) -> None:
        """Have all of it watched in `pooled` from now on."""
        old, self.pooled = self.pooled, pooled
        for uri, subscriber in self.held:
            if old is not None:
                old.subscriptions.unsubscribe(uri, subscriber)
            if pooled is not None:
                pooled.subscriptions.adopt(uri, subscriber)


class HostSubscriptions:
    """Subscriptions of all hosts. `move_all` is called whenever a host may have another session than before."""

    def __init__(self, name: str, selector: SessionSelector) -> None:
        self._name = name
        self._selector = selector
        self._hosts: dict[Hashable, SubscribedHost] = {}
        self._missing = DirtyFlag()

    def __iter__(self) -> Iterator[SubscribedHost]:
        return iter(list(self._hosts.values()))

    def __bool__(self) -> bool:
        return bool(self._hosts)

    async def subscribe(self, uri: str, subscriber: ResourceSubscriber) -> Failure | None:
        """Subscribe `subscriber` to `uri`; None once the upstream agreed, else its refusal. Raises HubError: the
        upstream could not be asked. Cancellation: there is no subscription."""
        caller = subscriber.exchange.caller
        while True:
            pooled = await self._selector.wait_for_subscriptions(subscriber.exchange)
            try:
                refusal = await self._subscribe_at(pooled, uri, subscriber)
                if refusal is None and self._is_right(pooled, caller) and pooled.subscriptions.is_held(uri, subscriber):
                    self._keep_for(subscriber, uri, pooled)
                    return None
                if refusal is not None:
                    return refusal
            except HubError:
                if self._is_right(pooled, caller):
                    raise
            finally:
                if not self.is_held(uri, subscriber):
                    pooled.subscriptions.unsubscribe(uri, subscriber)

    async def _subscribe_at(self, pooled: PooledSession, uri: str, subscriber: ResourceSubscriber) -> Failure | None:
        with trio.move_on_after(ANSWER_S):
            return await pooled.subscriptions.subscribe(uri, subscriber)
        text = f"{self._name} did not take a subscription in time. Try again, or let the user look at `hubd status`."
        raise UpstreamUnavailable(text, upstream=self._name)

    def _is_right(self, pooled: PooledSession, caller: Caller) -> bool:
        return self._selector.for_subscriptions(caller) is pooled

    def _keep_for(self, subscriber: ResourceSubscriber, uri: str, pooled: PooledSession) -> None:
        entry = self._hosts.setdefault(subscriber.host, SubscribedHost(subscriber.host, subscriber.exchange))
        entry.exchange = subscriber.exchange
        if entry.pooled is not pooled:
            entry.move(pooled)
        entry.held[uri, subscriber] = None

    def is_held(self, uri: str, subscriber: ResourceSubscriber) -> bool:
        """True if `subscriber` is subscribed, and the upstream agreed at first."""
        entry = self._hosts.get(subscriber.host)
        return entry is not None and (uri, subscriber) in entry.held

    def unsubscribe(self, uri: str, subscriber: ResourceSubscriber) -> None:
        """End the subscription of `subscriber`."""
        if (entry := self._hosts.get(subscriber.host)) is None or (uri, subscriber) not in entry.held:
            return
        del entry.held[uri, subscriber]
        if entry.pooled is not None:
            entry.pooled.subscriptions.unsubscribe(uri, subscriber)
            entry.pooled.touch()
        if not entry.held:
            del self._hosts[subscriber.host]

    def take_over(self, other: "HostSubscriptions") -> None:
        """Take all subscriptions of `other`; hosts are told that the resources may have changed."""
        old, other._hosts = other._hosts, {}
        for host, entry in old.items():
            entry.move(None)
            fresh = self._hosts.setdefault(host, SubscribedHost(host, entry.exchange))
            fresh.held |= entry.held
            entry.held = {}
        self.move_all()

    def move_all(self) -> None:
        """Move all subscriptions to the sessions where they belong now."""
        for entry in list(self._hosts.values()):
            try:
                pooled = self._selector.for_subscriptions(entry.exchange.caller)
            except UpstreamUnavailable:
                pooled = None
            if pooled is not entry.pooled:
                entry.move(pooled)
            if pooled is None:
                self._missing.set()

    async def run(self) -> None:
        """Open missing sessions, for ever."""
        self._missing.set()
        async with trio.open_nursery() as nursery:
            while True:
                await self._missing.take()
                for entry in self._hosts.values():
                    if entry.pooled is None and not entry.is_sought:
                        entry.is_sought = True
                        nursery.start_soon(self._seek, entry)

    async def _seek(self, entry: SubscribedHost) -> None:
        try:
            if entry.pauses is None:
                entry.pauses = ExponentialBackoff()
            else:
                await trio.sleep(entry.pauses.next_s(trio.current_time()))
            entry.pauses.opened(trio.current_time())
            if entry.held and entry.pooled is None:
                await self._selector.reopen_for_subscriptions(entry.exchange)
        except HubError as error:
            log.debug("%s has no session to subscribe for %r: %s", self._name, entry.exchange.caller.identity, error)
            self._missing.set()
        finally:
            entry.is_sought = False
