"""What the cache needs of the upstream side; `upstreams` has it. Protocols only."""

from typing import Protocol

from config.schema import UpstreamConfig
from hub.link.interface import Caller, Exchange, Operation, Tenant
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import Era, Snapshot


class SessionSubscriptions(Protocol):
    """What is watched over one session; `upstreams.subscriptions.session_subscriptions.SessionSubscriptions` is one."""

    async def observe(self, uri: str, reader: int) -> bool:
        """Have the hub itself told of changes, since the conversation `reader` reads it; True once that is so, False:
        it cannot be had.

        Deadlines are the caller's. Cancellation: it is still wanted.
        """
        ...

    def is_observed(self, uri: str) -> bool:
        """Whether the hub is told of changes now."""
        ...

    def neglect(self, uri: str) -> None:
        """The hub itself does not want to be told of it any more."""
        ...


class Session(Protocol):
    """A conversation with an upstream."""

    @property
    def era(self) -> Era: ...


class PooledSession(Protocol):
    """One session, and whose it is; `upstreams.sessions.pooled_session.PooledSession` is one. Hashable by identity."""

    @property
    def tenant(self) -> Tenant | None:
        """Whose own it is; None: hosts share it."""
        ...

    @property
    def session(self) -> Session: ...

    @property
    def subscriptions(self) -> SessionSubscriptions: ...


class Upstream(Protocol):
    """One upstream; `upstreams.upstream.Upstream` is one."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> UpstreamConfig: ...

    @property
    def snapshot(self) -> Snapshot: ...

    def session_for(self, caller: Caller) -> PooledSession | None:
        """The open session that serves `caller` now; None: that is not known. Raises nothing."""
        ...

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """As `hub.link.interface` says.

        Raises:
            HubError: there is no answer.
        """
        ...
