"""Session selection: which session of an upstream serves a call of a host, or its subscriptions.

`pool` and `dual_era_sessions` know which session belongs to whom. The selector knows what to do while a host has none:
wait for the main session as long as there is hope, then have a session of its own opened.
"""

import trio

from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnauthorized, UpstreamUnavailable
from hub.link.interface import Caller, Exchange
from upstreams.availability import Availability
from upstreams.sessions.connector import SessionConnector
from upstreams.sessions.dual_era_sessions import LegacySessions
from upstreams.sessions.pooled_session import PooledSession


class SessionSelector:
    """Selects sessions of one upstream for calls and subscriptions."""

    def __init__(
        self,
        name: str,
        availability: Availability,
        connector: SessionConnector,
        legacy_sessions: LegacySessions,
        config: UpstreamConfig,
    ) -> None:
        self.waiting = 0
        """Calls that wait for the main session."""
        self.needed_at = trio.current_time()
        """Time at which anybody waited for it last."""
        self._name = name
        self._availability = availability
        self._connector = connector
        self._pool = connector.pool
        self._legacy_sessions = legacy_sessions
        self.adjust(config)

    def __repr__(self) -> str:
        return f"<SessionSelector for {self._name} [{self.waiting} waiting]>"

    def adjust(self, config: UpstreamConfig) -> None:
        """Go by the limits of `config`."""
        self._start_s = config.timeouts.start

    async def wait(self, exchange: Exchange) -> PooledSession:
        """The session for a call that finds none at once.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: it is not there in time, or not to be had.
            Overloaded: as `SessionConnector.open_for`.
        """
        caller = exchange.caller
        pooled = self._pool.find(caller)
        if pooled is None and self._pool.main is None:
            try:
                pooled = await self._wait_for_main(caller)
            except UpstreamUnauthorized:  # the owner has not signed in, which is no matter to others
                if not self._pool.has_own_account(caller):
                    raise
            if self._legacy_sessions.serve(caller):  # which was not known before
                pooled = await self._legacy_sessions.find(exchange) or pooled
        return pooled or await self._connector.open_for(exchange)

    async def _wait_for_main(self, caller: Caller) -> PooledSession | None:
        """Wait for a main session, or that of `caller`; the latter."""
        self.waiting += 1
        try:
            with trio.move_on_after(self._start_s):
                while (pooled := self._pool.find(caller)) is None and self._pool.main is None:
                    self._availability.refuse_if_hopeless()
                    self._connector.hurry_main()
                    await self._availability.news()
                return pooled
        finally:
            self.waiting -= 1
            self.needed_at = trio.current_time()
        start = self._connector.main_start
        progress = start.progress(trio.current_time()) if start else ""
        text = f"{self._name} did not become ready within {self._start_s:g} seconds"
        raise self._availability.unavailable(text, progress=progress)

    def peek(self, caller: Caller) -> PooledSession | None:
        """The open session that a call of `caller` would use at once, without claiming it. Raises nothing."""
        pool = self._legacy_sessions.pool if self._legacy_sessions.serve(caller) else self._pool
        pooled = pool.find(caller, claims=False)
        return None if pooled is None or pooled.over else pooled

    # --- for what hosts subscribe to ----------------------------------------------------------------------------------

    def for_subscriptions(self, caller: Caller) -> PooledSession | None:
        """The open session for the subscriptions of `caller`'s host; None: there is none now.

        A host that `dual_era_sessions` serves has its subscriptions there from its first call on.

        Raises:
            UpstreamUnavailable: there never will be one.
        """
        legacy = self._legacy_sessions
        found = legacy.pool.for_subscriptions(caller) if legacy.serve(caller) else None
        return found or self._pool.for_subscriptions(caller) or self._pool.borrowed_main(caller)

    async def wait_for_subscriptions(self, exchange: Exchange) -> PooledSession:
        """The session for the subscriptions of the host of `exchange`, waited for or opened.

        Raises:
            HubError: it cannot be had.
        """
        if self._pool.main is None:
            await self._wait_for_main(exchange.caller)
        if pooled := self.for_subscriptions(exchange.caller):
            return pooled
        if self._pool.needs_call_first(exchange.caller):
            text = f"{self._name} has no session for this host before it is called; call a tool of it first"
            raise UpstreamUnavailable(text, upstream=self._name)
        return await self._connector.open_for(exchange)

    async def reopen_for_subscriptions(self, exchange: Exchange) -> None:
        """Open the session for the subscriptions of the host of `exchange`, if nothing else is missing.

        Raises:
            HubError: it cannot be had.
        """
        pool, caller = self._pool, exchange.caller
        if pool.main is not None and self.for_subscriptions(caller) is None and not pool.needs_call_first(caller):
            await self._connector.open_for(exchange)
