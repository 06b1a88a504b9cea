"""Which session of an upstream a host's call goes to, or its watches; waited for or opened, if it is not there (D-11).

Whose session is whose, `pool` and `elders` know. Here it is known what to do while there is none: wait for the main
session as long as there is hope, then have the host's own opened.
"""

import trio

from hub.link.interface import Caller, Exchange, UpstreamUnavailable
from upstreams.availability import Standing
from upstreams.sessions.connector import SessionConnector
from upstreams.sessions.legacy_sessions import LegacySessions
from upstreams.sessions.pooled_session import Place


class SessionSelector:
    """Finds places. Satisfies `upstreams.host_subscriptions.Places`; `start_s` is how long a call waits for the main
    session.
    """

    def __init__(
        self, name: str, standing: Standing, openings: SessionConnector, elders: LegacySessions, start_s: float
    ) -> None:
        self.start_s = start_s
        self.waiting = 0
        """Who waits for the main session."""
        self.needed_at = trio.current_time()
        """When anybody waited for it last."""
        self._name = name
        self._standing = standing
        self._openings = openings
        self._pool = openings.pool
        self._elders = elders

    def __repr__(self) -> str:
        return f"<SessionSelector for {self._name} [{self.waiting} waiting]>"

    async def wait(self, exchange: Exchange) -> Place:
        """The session for a call that finds none at once.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: it is not there in time, or not to be had.
            Overloaded: as `SessionConnector.open`.
        """
        caller = exchange.caller
        place = self._pool.find(caller)
        if place is None and self._pool.main is None:
            place = await self._wait_for_main(caller)
            if self._elders.serve(caller):  # which was not known before
                place = await self._elders.find(exchange) or place
        return place or await self._openings.open(exchange)

    async def _wait_for_main(self, caller: Caller) -> Place | None:
        """Wait for a main session, or that of `caller`; the latter."""
        self.waiting += 1
        try:
            with trio.move_on_after(self.start_s):
                while (place := self._pool.find(caller)) is None and self._pool.main is None:
                    self._standing.refuse_if_hopeless()
                    await self._standing.news()
                return place
        finally:
            self.waiting -= 1
            self.needed_at = trio.current_time()
        raise self._standing.unavailable(f"{self._name} did not become ready within {self.start_s:g} seconds")

    def having(self, caller: Caller) -> Place | None:
        """The open session that a call of `caller` would go to at once, for who only looks. Raises nothing."""
        pool = self._elders.pool if self._elders.serve(caller) else self._pool
        place = pool.find(caller, claims=False)
        return None if place is None or place.over else place

    # --- for what hosts watch -----------------------------------------------------------------------------------------

    def serving(self, caller: Caller) -> Place | None:
        """As `upstreams.host_subscriptions.Places.serving`. Whom `elders` serve watches there from the first
        call on.
        """
        elder = self._elders.pool.serving(caller) if self._elders.serve(caller) else None
        return elder or self._pool.serving(caller) or self._pool.lodging(caller)

    async def place_for(self, exchange: Exchange) -> Place:
        """As `upstreams.host_subscriptions.Places.place_for`."""
        if self._pool.main is None:
            await self._wait_for_main(exchange.caller)
        if place := self.serving(exchange.caller):
            return place
        if self._pool.is_shy(exchange.caller):
            text = f"{self._name} has no session for this host before it is called; call a tool of it first"
            raise UpstreamUnavailable(text, upstream=self._name)
        return await self._openings.open(exchange)

    async def reopen_for(self, exchange: Exchange) -> None:
        """As `upstreams.host_subscriptions.Places.reopen_for`."""
        caller = exchange.caller
        if self._pool.main is not None and self.serving(caller) is None and not self._pool.is_shy(caller):
            await self._openings.open(exchange)
