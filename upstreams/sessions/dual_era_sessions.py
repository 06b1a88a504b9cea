"""Legacy sessions with a dual-era server, for legacy hosts that can be asked questions.

The hub speaks the modern era with such a server: it needs no sessions. But tools written for the handshake era ask in
the middle of a call, which a modern request cannot carry, and the same server would ask a legacy host that came to it
directly. So a legacy host that can be asked gets a legacy session, if the server offers one; whether it does is found
out once and remembered. Legacy sessions are shared as `session_mode` says.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio
from msgspec import structs

from config.diff import config_key
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamProtocolError, UpstreamUnavailable, UpstreamVersionError
from hub.link.interface import Caller, Exchange
from hub.wire.declarations import can_be_asked
from hub.wire.mcp import L4, Era
from upstreams.sessions.connector import SessionConnector, SessionParts
from upstreams.sessions.pool import Pool
from upstreams.sessions.pooled_session import PooledSession
from upstreams.transports.http.poster import StatusError

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
        self._active = False
        self.pool = Pool(name, structs.replace(config, era="legacy"), parts.memory, on_moved)
        self.connector = SessionConnector(self.pool, parts, severity=logging.INFO)  # there is always the modern side

    def activate(self, era: Era, transport: str) -> None:
        """Serve hosts, if the server may have a legacy handshake: the upstream is connected."""
        wanted = era is Era.MODERN and self._config.era == "auto" and self._config.client_features == "auto"
        self._active = wanted and self._memory.get(ONE_ERA, self._key) is not True
        self.pool.decide_sharing(Era.LEGACY, transport)

    def deactivate(self) -> None:
        """Serve no host until `activate`: the upstream is stopped for a while."""
        self._active = False

    def serve(self, caller: Caller) -> bool:
        """True if `caller` is to have a legacy session."""
        return self._active and caller.era is Era.LEGACY and can_be_asked(caller.capabilities)

    async def find(self, exchange: Exchange) -> PooledSession | None:
        """The session for the host of `exchange`, opened if need be; None: the modern session has to do.

        Raises:
            UpstreamUnavailable, Overloaded: as `SessionConnector.open_for`, if the server is known to have this era.
        """
        pooled = self.pool.find(exchange.caller)
        if pooled is not None:
            return pooled
        try:
            with trio.move_on_after(PATIENCE_S):
                return await self.connector.open_for(exchange)
        except UpstreamUnavailable:
            error = self.connector.refused_with
            knows_no_handshake = isinstance(error, UpstreamVersionError | UpstreamProtocolError)
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
        self._active = self._active and not one_era
        self.pool.forget_interactive()

    def adjust(self, config: UpstreamConfig) -> None:
        self._config = config
        self.pool.adjust(structs.replace(config, era="legacy"))

    def retire(self) -> None:
        """Serve nobody any more."""
        self._active = False

    def version(self) -> str:
        """The legacy revision in use, as far as it is known."""
        pooled_sessions = self.pool.open_sessions()
        return pooled_sessions[0].session.facts.version if pooled_sessions else L4
