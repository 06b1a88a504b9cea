"""Which session of an upstream serves a call of a host, or its subscriptions.

`pool` knows which session belongs to whom. The selector knows what to do while a host has none: wait for the main
session as long as there is hope, then have a session of its own opened.

With a server of both eras the hub speaks the modern one: it needs no sessions. But tools written for the handshake era
ask in the middle of a call, which a modern request cannot carry, and the same server would ask a legacy host that came
to it directly. So a legacy host that can be asked gets a legacy session, if the server offers one; whether it does is
found out once and remembered. Legacy sessions are shared as `session_mode` says.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio
from msgspec import structs

from config.diff import config_key
from config.settings import UpstreamConfig
from hub.link import hub_errors
from hub.link.call_interface import Caller, Exchange
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.capabilities import can_be_asked
from hub.wire.mcp import L4, Era
from upstreams.availability import Availability
from upstreams.session_contract import StatusError
from upstreams.sessions.pool import Pool
from upstreams.sessions.pooled_session import PooledSession
from upstreams.sessions.session_opener import SessionOpener, SessionParts

log = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""Time that a call waits to see whether there is a handshake; a server that speaks has answered by then."""
ONE_ERA: Final = "one-era"
"""The section of the memory that lists servers without a legacy handshake."""


class LegacySessions:
    """The legacy sessions of one upstream. They serve no host before `activate`, nor if the server has no handshake."""

    def __init__(self, name: str, config: UpstreamConfig, parts: SessionParts, on_moved: Callable[[], None]) -> None:
        self._name = name
        self._config = config
        self._key = config_key(config)
        self._memory = parts.memory
        self.active = False
        """Hosts that can be asked are served."""
        self.pool = Pool(name, structs.replace(config, era="legacy"), parts.memory, on_moved)
        self.opener = SessionOpener(self.pool, parts, severity=logging.INFO)  # there is always the modern side

    def activate(self, era: Era, transport: str) -> None:
        """Serve hosts, if the server may have a legacy handshake: the upstream is connected."""
        wanted = era is Era.MODERN and self._config.era == "auto" and self._config.client_features == "auto"
        self.active = wanted and self._memory.get(ONE_ERA, self._key) is not True
        self.pool.decide_sharing(Era.LEGACY, transport)

    def deactivate(self) -> None:
        """Serve no host until `activate`: the upstream is stopped."""
        self.active = False

    def serve(self, caller: Caller) -> bool:
        """True if `caller` is to have a legacy session."""
        return self.active and caller.era is Era.LEGACY and can_be_asked(caller.capabilities)

    async def find(self, exchange: Exchange) -> PooledSession | None:
        """The session for the host of `exchange`, opened if need be; None: the modern session has to do.

        Raises:
            UpstreamUnavailable, Overloaded: as `SessionOpener.open_for`, if the server is known to have this era.
        """
        if (pooled := self.pool.find(exchange.caller)) is not None:
            return pooled
        try:
            with trio.move_on_after(PATIENCE_S):
                return await self.opener.open_for(exchange)
        except UpstreamUnavailable:
            error = self.opener.refused_with
            knows_no_handshake = isinstance(error, hub_errors.UpstreamVersionError | hub_errors.UpstreamProtocolError)
            if isinstance(error, StatusError):
                knows_no_handshake = 400 <= error.status < 500 and error.status not in (408, 429)
            if not knows_no_handshake:
                return None
        self.forget(one_era=True)
        log.info("%s has no legacy handshake; all hosts use its 2026-07-28 endpoint", self._name)
        return None

    def forget(self, *, one_era: bool = False) -> None:
        """Find out again whether the server has a legacy handshake; `one_era`: it has none."""
        self._memory.put(ONE_ERA, self._key, True if one_era else None)
        self.active = self.active and not one_era
        self.pool.forget_interactive()

    def adjust(self, config: UpstreamConfig) -> None:
        self._config = config
        self.pool.config = structs.replace(config, era="legacy")

    def version(self) -> str:
        """The legacy revision in use, as far as it is known."""
        pooled_sessions = self.pool.open_sessions()
        return pooled_sessions[0].session.facts.version if pooled_sessions else L4


class SessionSelector:
    """Selects sessions of one upstream for calls and subscriptions."""

    def __init__(self, availability: Availability, opener: SessionOpener, legacy_sessions: LegacySessions) -> None:
        self.waiting = 0
        """Calls that wait for the main session."""
        self.needed_at = trio.current_time()
        """Time at which anybody waited for it last."""
        self._name = opener.pool.name
        self._availability = availability
        self._opener = opener
        self._pool = opener.pool
        self._legacy_sessions = legacy_sessions

    async def wait(self, exchange: Exchange) -> PooledSession:
        """The session for a call that finds none at once.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: it is not there in time, or not to be had.
            Overloaded: as `SessionOpener.open_for`.
        """
        caller = exchange.caller
        pooled = self._pool.find(caller)
        if pooled is None and self._pool.main is None:
            try:
                pooled = await self._wait_for_main(caller)
            except hub_errors.UpstreamUnauthorized:  # the owner has not signed in, which is no matter to others
                if not self._pool.has_own_account(caller):
                    raise
            if self._legacy_sessions.serve(caller):  # which was not known before
                pooled = await self._legacy_sessions.find(exchange) or pooled
        return pooled or await self._opener.open_for(exchange)

    async def _wait_for_main(self, caller: Caller) -> PooledSession | None:
        """Wait for a main session, or that of `caller`; the latter."""
        self.waiting += 1
        start_s = self._pool.config.timeouts.start
        try:
            with trio.move_on_after(start_s):
                while (pooled := self._pool.find(caller)) is None and self._pool.main is None:
                    self._availability.refuse_if_hopeless()
                    self._opener.hurry_main()
                    await self._availability.news.wait()
                return pooled
        finally:
            self.waiting -= 1
            self.needed_at = trio.current_time()
        start = self._opener.main_start
        progress = start.progress(trio.current_time()) if start else ""
        text = f"{self._name} did not become ready within {start_s:g} seconds"
        raise self._availability.unavailable(text, progress=progress)

    def peek(self, caller: Caller) -> PooledSession | None:
        """The open session that a call of `caller` would use at once, without claiming it. Raises nothing."""
        pool = self._legacy_sessions.pool if self._legacy_sessions.serve(caller) else self._pool
        pooled = pool.find(caller, claims=False)
        return None if pooled is None or pooled.over else pooled

    # --- for what hosts subscribe to ----------------------------------------------------------------------------------

    def for_subscriptions(self, caller: Caller) -> PooledSession | None:
        """The open session for the subscriptions of `caller`'s host; None: there is none now.

        A host that `legacy_sessions` serve has its subscriptions there from its first call on.

        Raises:
            UpstreamUnavailable: there never will be one.
        """
        legacy = self._legacy_sessions
        found = legacy.pool.for_subscriptions(caller) if legacy.serve(caller) else None
        return found or self._pool.for_subscriptions(caller) or self._pool.lend_main(caller)

    async def wait_for_subscriptions(self, exchange: Exchange) -> PooledSession:
        """The session for the subscriptions of the host of `exchange`, waited for or opened if there is none.

        Raises:
            HubError: it cannot be had.
        """
        caller = exchange.caller
        pooled = self.for_subscriptions(caller)
        if pooled is None and self._pool.main is None:
            await self._wait_for_main(caller)
            pooled = self.for_subscriptions(caller)
        if pooled is not None:
            return pooled
        if self._pool.needs_call_first(caller):
            text = f"{self._name} has no session for this host before it is called; call a tool of it first"
            raise UpstreamUnavailable(text, upstream=self._name)
        return await self._opener.open_for(exchange)

    async def reopen_for_subscriptions(self, exchange: Exchange) -> None:
        """Open the session for the subscriptions of the host of `exchange`, if nothing else is missing.

        Raises:
            HubError: it cannot be had.
        """
        pool, caller = self._pool, exchange.caller
        if pool.main is not None and self.for_subscriptions(caller) is None and not pool.needs_call_first(caller):
            await self._opener.open_for(exchange)
