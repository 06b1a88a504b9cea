"""The keeper of what is watched over a session of the handshake era: one request for each resource, one to end it."""

import logging
from contextlib import suppress
from math import inf
from typing import Final

import trio

from hub.link.interface import DeadlineExceeded, HubError, kept
from hub.wire.jsonrpc import Failure, Reply, raw
from hub.wire.mcp import SUBSCRIBE, UNSUBSCRIBE
from upstreams.questions.recent_calls import NOBODY
from upstreams.session import Session, capability
from upstreams.subscriptions.session_subscriptions import ANSWER_S, Watches
from upstreams.subscriptions.subscription import Stand, Watch, not_offered

log = logging.getLogger(__name__)

ASKED_AT_ONCE: Final = 16


class Subscribing:
    """Keeps one legacy upstream subscribed to what is watched."""

    def __init__(self, session: Session, watches: Watches) -> None:
        self._session = session
        self._watches = watches
        self._limit = trio.CapacityLimiter(ASKED_AT_ONCE)

    async def run(self) -> None:
        """Keep it subscribed for ever. Cancellation: all of it is wanted again."""
        watches = self._watches
        offered = capability(self._session.facts, "resources", "subscribe")
        watches.reset()
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    for watch in watches.standing(Stand.WANTED):
                        if offered:
                            watch.stand = Stand.ASKED
                            nursery.start_soon(self._subscribe, watch, watches.resets)
                        else:
                            watches.refuse(watch, not_offered(watches.upstream, watch.uri))
                    for watch in watches.overdue():
                        watch.until = inf
                        if watch.stand is Stand.LIVE:
                            watch.stand = Stand.ENDING
                            nursery.start_soon(self._unsubscribe, watch)
                        elif watch.stand is Stand.REFUSED:
                            watches.forget(watch)
                    await watches.wait()
        finally:
            watches.reset()

    async def _subscribe(self, watch: Watch, resets: int) -> None:
        watches = self._watches
        name = watches.upstream
        refusal: Failure | HubError = DeadlineExceeded(f"{name} did not answer a subscription in time", upstream=name)
        agreed = False
        async with self._limit:
            with trio.move_on_after(ANSWER_S):
                try:
                    reply = await self._ask(SUBSCRIBE, watch)
                    if isinstance(reply, Failure):
                        refusal = reply
                    else:
                        agreed = True
                except HubError as error:
                    refusal = kept(error)
        if resets != watches.resets:
            return  # the upstream may have forgotten it since: another task asks again
        if agreed:
            watches.confirm(watch)
        else:
            watches.refuse(watch, refusal)

    async def _ask(self, method: str, watch: Watch) -> Reply:
        self._speak_of(watch)
        try:
            return await self._session.request(method, {"uri": raw(watch.uri)})
        finally:
            self._speak_of(watch)

    def _speak_of(self, watch: Watch) -> None:
        """The URI may be a secret of one host, and an upstream may log it."""
        with suppress(HubError):  # the session is over, and nobody speaks of anything
            self._session.speak_of(watch.whose or NOBODY)

    async def _unsubscribe(self, watch: Watch) -> None:
        watches = self._watches
        async with self._limit:
            with trio.move_on_after(ANSWER_S):
                try:
                    await self._ask(UNSUBSCRIBE, watch)
                except HubError as error:
                    log.debug("%s was not told that %s is of no interest: %s", watches.upstream, watch.uri, error)
        if watch.stand is Stand.ENDING:
            watches.ended(watch)
