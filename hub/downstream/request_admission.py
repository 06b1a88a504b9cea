"""Admission of requests: how many of each principal run, and what cancels them."""

from typing import Final

import trio

from hub.link.call_interface import RunningCall
from hub.link.hub_errors import Overloaded, Stopping

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
