"""Upstreams, as far as the cache reads them; `upstreams` satisfies this."""

from typing import Protocol

from hub.link.call_interface import Caller, Program, Tenant, Upstream
from hub.wire.mcp import Era


class WatchedSubscriptions(Protocol):
    """Subscriptions of one session, as in `upstreams.subscriptions.session_subscriptions`."""

    async def observe(self, uri: str, reader: Program) -> bool:
        """Subscribe for the hub itself, on behalf of the program `reader`; False: the upstream refused.

        Sets no deadline. Cancellation: the subscription is still wanted.
        """

    def is_observed(self, uri: str) -> bool:
        """True if changes are reported to the hub now."""

    def neglect(self, uri: str) -> None:
        """Give up the hub's own subscription."""


class ReadableSession(Protocol):
    """A conversation with an upstream."""

    era: Era


class ReadablePooledSession(Protocol):
    """A session and its owner, as in `upstreams.sessions.pooled_session`. Hashable by identity."""

    tenant: Tenant | None
    """The host that owns it; None: hosts share it."""

    @property
    def session(self) -> ReadableSession: ...

    @property
    def subscriptions(self) -> WatchedSubscriptions: ...


class ReadableUpstream(Upstream, Protocol):
    """One upstream, as in `upstreams.upstream`."""

    def session_for(self, caller: Caller) -> ReadablePooledSession | None:
        """The open session that serves `caller` now; None: not known. Raises nothing."""
