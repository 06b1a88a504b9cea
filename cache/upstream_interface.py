"""Interface to the upstreams: what the cache needs of them. Protocols only; `upstreams` satisfies them."""

from typing import Protocol

from config.settings import UpstreamConfig
from hub.link.interface import Caller, Exchange, Operation, Program, Tenant
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import Era, Snapshot


class SessionSubscriptions(Protocol):
    """Subscriptions of one session, as in `upstreams.subscriptions.session_subscriptions`."""

    async def observe(self, uri: str, reader: Program) -> bool:
        """Subscribe for the hub itself, on behalf of the program `reader`; False: the upstream refused.

        Sets no deadline. Cancellation: the subscription is still wanted.
        """
        ...

    def is_observed(self, uri: str) -> bool:
        """True if changes are reported to the hub now."""
        ...

    def neglect(self, uri: str) -> None:
        """Give up the hub's own subscription."""
        ...


class Session(Protocol):
    """A conversation with an upstream."""

    @property
    def era(self) -> Era: ...


class PooledSession(Protocol):
    """A session and its owner, as in `upstreams.sessions.pooled_session`. Hashable by identity."""

    @property
    def tenant(self) -> Tenant | None:
        """The host that owns it; None: hosts share it."""
        ...

    @property
    def session(self) -> Session: ...

    @property
    def subscriptions(self) -> SessionSubscriptions: ...


class Upstream(Protocol):
    """One upstream, as in `upstreams.upstream`."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> UpstreamConfig: ...

    @property
    def snapshot(self) -> Snapshot: ...

    def session_for(self, caller: Caller) -> PooledSession | None:
        """The open session that serves `caller` now; None: not known. Raises nothing."""
        ...

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """As `hub.link.interface` says.

        Raises:
            HubError: there is no answer.
        """
        ...
