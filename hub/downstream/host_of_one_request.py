"""Host of a single request that belongs to no session."""

from collections.abc import Mapping
from typing import ClassVar

import trio
from msgspec import Struct

from hub.catalog.endpoint_views import EVERYTHING, View
from hub.downstream.request_admission import RunningRequests
from hub.link.call_interface import RunningCall
from hub.wire.jsonrpc import RequestId
from hub.wire.mcp import LISTEN


class StatelessHost(Struct, eq=False):
    """The host of a single request that belongs to no session: a modern one over HTTP, or the hub's own user.

    `counts`: the request takes one of the places of its principal, and can be `cut_off`."""

    requests: RunningRequests
    principal: str
    view: View = EVERYTHING
    counts: bool = True
    _running: RunningCall | None = None

    calls: ClassVar[Mapping[RequestId, RunningCall]] = {}
    listens: ClassVar[Mapping[RequestId, trio.CancelScope]] = {}
    """None are running: an id means nothing beyond its request."""

    def has_room(self) -> bool:
        """True if the request may run."""
        return not self.counts or self.requests.of.get(self.principal, 0) < self.requests.most

    def begin(self, id: RequestId, method: str = "") -> trio.CancelScope:
        """The scope of the request; `end` must follow. Subscriptions are not counted, since they have no end. Raises
        Overloaded: too many requests of the principal are running."""
        scope = trio.CancelScope()
        if method != LISTEN:
            self.hold(id, scope)
        return scope

    def hold(self, id: RequestId, request: RunningCall) -> None:
        """The request runs, and `request` cancels it; `end` must follow. Raises as `begin`."""
        if self.counts:
            self.requests.admit(self.principal, request)
            self._running = request

    def end(self, id: RequestId) -> None:
        """The request is over."""
        if self._running is not None:
            self.requests.release(self.principal, self._running)
            self._running = None
