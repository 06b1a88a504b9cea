"""Running requests of all hosts: how many each principal has, and what cancels them."""

from collections.abc import Mapping
from typing import ClassVar, Final

import trio
from msgspec import Raw, Struct

from hub.catalog.view_names import EVERYTHING, View
from hub.link.call_interface import RunningCall
from hub.link.hub_errors import Overloaded, Stopping
from hub.wire.jsonrpc import RequestId, peek_str
from hub.wire.mcp import LISTEN

PRINCIPAL_IN_FLIGHT: Final = 256


class RunningRequests:
    """All running requests but subscriptions, which have no end. `admit` and `release` come in pairs.

    A request is known by what cancels it: the scope of its task, or a `TasklessRequest`."""

    def __init__(self) -> None:
        self.stopped: set[RunningCall] = set()
        """Requests that `cut_off` has cancelled: these are answered all the same."""
        self._running: dict[RunningCall, None] = {}
        self.of: dict[str, int] = {}
        """Number of requests by principal, which is at most as follows."""
        self.most = PRINCIPAL_IN_FLIGHT
        self._none_left: trio.Event | None = None
        """Set when no request is running any more, if anybody waits for that."""

    @property
    def count(self) -> int:
        """Number of running requests."""
        return len(self._running)

    def admit(self, principal: str, request: RunningCall) -> None:
        """Count one more request of `principal`, until `release`. Raises Overloaded: too many are running already; or
        all were `cut_off`."""
        running = self.of.get(principal, 0)
        if running >= self.most:
            if not self.most:
                raise Stopping("The hub is stopping; try again in a moment", retry_after_ms=1000)
            raise Overloaded(f"{running} requests of this account are running already; wait for one to end")
        self.of[principal] = running + 1
        self._running[request] = None

    def release(self, principal: str, request: RunningCall) -> None:
        """A request that `admit` counted has ended."""
        del self._running[request]
        rest = self.of[principal] - 1
        if rest:
            self.of[principal] = rest
        else:
            del self.of[principal]
            if not self.of and self._none_left is not None:
                self._none_left.set()

    def cut_off(self) -> None:
        """Let no more requests begin, and cancel those that are running: each is answered that the hub is stopping.

        Requests that their hosts have cancelled stay unanswered. Subscriptions go on: they end with their connections.
        """
        self.most = 0
        for request in tuple(self._running):
            if not (isinstance(request, trio.CancelScope) and request.cancel_called):
                self.stopped.add(request)
                request.cancel()

    async def wait_none(self) -> None:
        """Wait until no request of any host is running."""
        while self._running:
            self._none_left = trio.Event()
            await self._none_left.wait()


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


def request_id(value: Raw | None) -> RequestId | None:
    """Read the request id in a notification."""
    text = peek_str(value)
    if text is not None or value is None:
        return text
    try:
        return int(bytes(value))
    except ValueError:
        return None
