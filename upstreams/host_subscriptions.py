"""What hosts watch at one upstream, and over which of its sessions (bridging.md 8).

A watch belongs in the session that the calls of its host go to: what changes in there is what that host may hear of.
Each session keeps its own `Watches`; here it is known who holds what, so that it can be moved:

    the host asks        into the session of its calls, opened if it would get one of its own; held once the upstream
                         agreed
    it gets another      moved there, and the host is told that all of it may have changed meanwhile (N-17)
    it has none          kept for the next; if no call has to open that, it is opened for what was watched: at once, and
                         at longer and longer intervals if it does not last

So a host that only watches has a process of its own where one that calls has. `Pool.lodging` is the exception.
"""

import logging
from collections.abc import Hashable
from typing import Protocol

import trio

from hub.link.backoff import Pauses
from hub.link.interface import Caller, Exchange, HubError, UpstreamUnavailable
from hub.link.wakeups import Flag
from hub.wire.jsonrpc import Failure
from upstreams.sessions.pooled_session import Place
from upstreams.subscriptions.session_subscriptions import ANSWER_S
from upstreams.subscriptions.subscription import Holder

log = logging.getLogger(__name__)


class Places(Protocol):
    """Who knows the sessions; `upstreams.sessions.selector.SessionSelector` is one."""

    def serving(self, caller: Caller) -> Place | None:
        """The open session that watches of `caller`'s host belong in; None: there is none now.

        Raises:
            UpstreamUnavailable: there never will be.
        """
        ...

    async def place_for(self, exchange: Exchange) -> Place:
        """That session, waited for or opened.

        Raises:
            HubError: it cannot be had.
        """
        ...

    async def reopen_for(self, exchange: Exchange) -> None:
        """Open that session, if it is missing and opening it is all that it takes.

        Raises:
            HubError: it cannot be had.
        """
        ...


class Household:
    """What one host holds, and where."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.place: Place | None = None
        self.held: dict[tuple[str, Holder], None] = {}
        self.is_sought = False
        """A task sees to it that there is a session."""
        self.pauses: Pauses | None = None
        """Between the sessions that were opened for it; None: there were none."""

    def move(self, place: Place | None) -> None:
        """Have all of it watched in `place` from now on."""
        old, self.place = self.place, place
        for uri, holder in self.held:
            if old is not None:
                old.watches.unwatch(uri, holder)
            if place is not None:
                place.watches.adopt(uri, holder)


class HostSubscriptions:
    """All households. `settle` is to be called whenever a host may have another session than before."""

    def __init__(self, name: str, places: Places) -> None:
        self._name = name
        self._places = places
        self._households: dict[Hashable, Household] = {}
        self._missing = Flag()

    def __repr__(self) -> str:
        held = sum(len(household.held) for household in self._households.values())
        return f"<HostSubscriptions at {self._name}: {held} of {len(self._households)} hosts>"

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self._households)

    async def watch(self, uri: str, holder: Holder) -> Failure | None:
        """Watch `uri` for `holder`; None once the upstream agreed, else why it did not.

        Raises:
            HubError: it could not be asked.
        Cancellation: the holder does not hold it.
        """
        caller = holder.exchange.caller
        while True:
            place = self._places.serving(caller) or await self._places.place_for(holder.exchange)
            try:
                refusal = await self._watch_at(place, uri, holder)
                if refusal is None and self._is_right(place, caller) and place.watches.is_held(uri, holder):
                    self._keep_for(holder, uri, place)
                    return None
                if refusal is not None:
                    return refusal
            except HubError:
                if self._is_right(place, caller):
                    raise
            finally:
                if not self.is_held(uri, holder):
                    place.watches.unwatch(uri, holder)

    async def _watch_at(self, place: Place, uri: str, holder: Holder) -> Failure | None:
        with trio.move_on_after(ANSWER_S):
            return await place.watches.watch(uri, holder)
        text = f"{self._name} did not take a subscription in time. Try again, or let the user look at `hubd status`."
        raise UpstreamUnavailable(text, upstream=self._name)

    def _is_right(self, place: Place, caller: Caller) -> bool:
        return self._places.serving(caller) is place

    def _keep_for(self, holder: Holder, uri: str, place: Place) -> None:
        household = self._households.get(holder.host)
        if household is None:
            household = self._households[holder.host] = Household(holder.exchange)
        household.exchange = holder.exchange
        if household.place is not place:
            household.move(place)
        household.held[uri, holder] = None

    def is_held(self, uri: str, holder: Holder) -> bool:
        """Whether `holder` watches it, and the upstream agreed to that at first."""
        household = self._households.get(holder.host)
        return household is not None and (uri, holder) in household.held

    def unwatch(self, uri: str, holder: Holder) -> None:
        """`holder` watches it no longer."""
        household = self._households.get(holder.host)
        if household is None or (uri, holder) not in household.held:
            return
        del household.held[uri, holder]
        if household.place is not None:
            household.place.watches.unwatch(uri, holder)
            household.place.idle_since = trio.current_time()
        if not household.held:
            del self._households[holder.host]

    def take_over(self, other: "HostSubscriptions") -> None:
        """Have all that is held at `other` watched here from now on; hosts are told that it may have changed."""
        old, other._households = other._households, {}
        for host, household in old.items():
            household.move(None)
            fresh = self._households.setdefault(host, Household(household.exchange))
            fresh.held |= household.held
            household.held = {}
        self.settle()

    def settle(self) -> None:
        """Have everything watched where it belongs now."""
        for household in list(self._households.values()):
            try:
                place = self._places.serving(household.exchange.caller)
            except UpstreamUnavailable:
                place = None
            if place is not household.place:
                household.move(place)
            if place is None:
                self._missing.set()

    async def run(self) -> None:
        """Open the sessions that are missing, for ever."""
        self._missing.set()
        async with trio.open_nursery() as nursery:
            while True:
                await self._missing.take()
                for household in self._households.values():
                    if household.place is None and not household.is_sought:
                        household.is_sought = True
                        nursery.start_soon(self._seek, household)

    async def _seek(self, household: Household) -> None:
        try:
            if household.pauses is None:
                household.pauses = Pauses()
            else:
                await trio.sleep(household.pauses.next_s(trio.current_time()))
            household.pauses.opened(trio.current_time())
            if household.held and household.place is None:
                await self._places.reopen_for(household.exchange)
        except HubError as error:
            log.debug("%s is not watched for %r: %s", self._name, household.exchange.caller.identity, error)
            self._missing.set()
        finally:
            household.is_sought = False
