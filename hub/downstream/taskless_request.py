"""A request that no task carries: `TasklessRequest`; and the answer of requests that were cut off.

The router has begun it, and calls `done` with its outcome, in the task of whoever brought that. Like the cancel
scope of a request that has a task, it stands in the tables of running requests, by which it is cancelled.
"""

import logging
from collections.abc import Callable
from typing import Final

from hub.calls.host_exchange import HostExchange
from hub.downstream.host_conversations import Host
from hub.downstream.host_of_one_request import StatelessHost
from hub.link.call_interface import RunningCall
from hub.link.hub_errors import Draining
from hub.routing.replies_for_hosts import report_bug
from hub.routing.router import Router
from hub.wire import mcp
from hub.wire.jsonrpc import Reply, Request, RequestId

log = logging.getLogger("hubd.host")
STOPPED: Final = (
    "The hub was stopped before this request had ended, and it is not known whether it was carried out; "
    "find out before you repeat it, unless it changes nothing"
)
HARMLESS: Final = frozenset(
    (*mcp.LIST_METHOD.values(), mcp.COMPLETE, mcp.PROMPTS_GET, mcp.RESOURCES_READ, mcp.SUBSCRIBE, mcp.UNSUBSCRIBE)
)
"""Methods that can be repeated by a host that does not know whether its request was carried out."""

Finish = Callable[[RequestId, Reply | None], None]
"""Answers the request of this id; None: it was cancelled, and gets no answer."""


class TasklessRequest:
    """A running request without a task. `finish` is called once, when it is over."""

    __slots__ = ("_exchange", "_finish", "_host", "_request", "_router", "call")

    def __init__(
        self, host: Host | StatelessHost, router: Router, request: Request, exchange: HostExchange, finish: Finish
    ) -> None:
        self._host = host
        self._router = router
        self._request = request
        self._exchange = exchange
        self._finish = finish
        self.call: RunningCall | None = None
        """The call that carries it out; None: it has not begun, or is over."""

    def done(self, outcome: Reply | Exception | None) -> None:
        """Answer it, unless it was cancelled. Raises nothing: a fault of the hub fails this request alone."""
        if self.call is None or outcome is None:
            return
        self.call = None
        try:
            try:
                self._exchange.close()
            finally:
                self._host.end(self._request.id)
            if isinstance(outcome, Exception):
                outcome = self._router.reply_to_failure(self._request, self._exchange, outcome)
            self._finish(self._request.id, outcome)
        except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
            self._fail(error)

    def cancel(self) -> None:
        """End it, without an answer unless by `RunningRequests.cut_off`. Does nothing when it is over."""
        call, self.call = self.call, None
        if call is None:
            return
        try:
            call.cancel()
            self._exchange.close()
        except Exception:  # those that are cancelled with it are none the worse
            log.exception("%s could not be cancelled in order", self._request.method)
        self._host.end(self._request.id)
        is_stopped = self in self._host.requests.stopped
        self._finish(self._request.id, stop(self._router, self._request, self._exchange) if is_stopped else None)

    def _fail(self, error: Exception) -> None:
        try:
            self._finish(self._request.id, report_bug(self._request, error, self._exchange.ref))
        except Exception:
            log.exception("the host of %s could not be told", self._request.method)


def stop(router: Router, request: Request, exchange: HostExchange) -> Reply:
    """The answer to a request that was cut off."""
    error = Draining(STOPPED)
    error.retryable = request.method in HARMLESS
    return router.reply_to_failure(request, exchange, error)
