"""Host of one request that belongs to no session or connection."""

from collections.abc import Mapping
from typing import ClassVar

import trio
from msgspec import Struct

from hub.catalog.view import EVERYTHING, View
from hub.downstream.running_requests import RunningRequests
from hub.wire.jsonrpc import RequestId
from hub.wire.mcp import LISTEN


class StatelessHost(Struct, eq=False):
    """The host of a single request that belongs to no session: a modern one over HTTP, or the hub's own user.

    `counts`: the request takes one of the places of its principal, and can be `cut_off`.
    """

    requests: RunningRequests
    principal: str
    view: View = EVERYTHING
    counts: bool = True
    _scope: trio.CancelScope | None = None

    calls: ClassVar[Mapping[RequestId, trio.CancelScope]] = {}
    listens: ClassVar[Mapping[RequestId, trio.CancelScope]] = {}
    """None are running: an id means nothing beyond its request."""

    def begin(self, id: RequestId, method: str = "") -> trio.CancelScope:
        """The scope of the request; `end` must follow. Subscriptions are not counted, since they have no end.

        Raises:
            Overloaded: too many requests of the principal are running.
        """
        if not self.counts or method == LISTEN:
            return trio.CancelScope()
        self._scope = self.requests.admit(self.principal)
        return self._scope

    def end(self, id: RequestId) -> None:
        """The request is over."""
        if self._scope is not None:
            self.requests.release(self.principal, self._scope)
            self._scope = None
