"""One request of an attached host, from taking it on to its answer."""

import logging
from secrets import token_hex
from typing import Final
from weakref import WeakSet

import trio

from hub.catalog.view import View
from hub.downstream.hosts import Downstream, Downstreams, Router
from hub.link.interface import Caller, Draining, Overloaded
from hub.routing.host_exchange import HostExchange
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, raw
from hub.wire.mcp import (
    COMPLETE,
    INTERNAL_ERROR,
    LIST_METHOD,
    PROMPTS_GET,
    RESOURCES_READ,
    SET_LEVEL,
    SUBSCRIBE,
    UNSUBSCRIBE,
)

log = logging.getLogger("hubd.host")
STOPPED: Final = (
    "The hub was stopped before this request had ended, and it is not known whether it was carried out; "
    "find out before you repeat it, unless it changes nothing"
)
HARMLESS: Final = frozenset((*LIST_METHOD.values(), COMPLETE, PROMPTS_GET, RESOURCES_READ, SUBSCRIBE, UNSUBSCRIBE))
"""What may be repeated by whoever does not know whether it was carried out."""


def at_once(router: Router, request: Request, caller: Caller, view: View) -> Reply | None:
    """The answer to `request`, if nothing need be waited for: it costs no cancel scope, and nobody need watch over it.

    None: `answer` it. A wall, as that.
    """
    try:
        return router.at_once(request, caller, view)
    except Exception as error:  # noqa: BLE001 - wall: answer one request (M-06)
        return _failed(request, error)


async def answer(router: Router, request: Request, exchange: HostExchange, scope: trio.CancelScope) -> Reply | None:
    """Have `request` answered within `scope`; None: it was cancelled, and gets no answer (P-10), unless it was the hub
    that cancelled it, by `cut_off`.

    A wall: what goes wrong in here fails this request and nothing else. The answer carries a `ref`, under which the log
    says all (F-D-13).
    """
    exchange.begin()
    try:
        with scope:
            return await router.dispatch(request, exchange)
    except Exception as error:  # noqa: BLE001 - wall: answer one request (M-06)
        return _failed(request, error)
    finally:
        exchange.end()
    return _stopped(router, request, exchange) if scope in _cut_off else None


_cut_off: Final[WeakSet[trio.CancelScope]] = WeakSet()
"""Of requests that are to be answered though they were cancelled."""


def cut_off(hosts: Downstreams) -> None:
    """End all running requests of `hosts`, each with the answer that the hub is stopping; take on no more. What their
    hosts have cancelled stays unanswered."""
    for scope in hosts.close():
        if not scope.cancel_called:
            _cut_off.add(scope)
            scope.cancel()


def _stopped(router: Router, request: Request, exchange: HostExchange) -> Reply:
    error = Draining(STOPPED)
    error.retryable = request.method in HARMLESS
    return router.failed(request, exchange, error)


def _failed(request: Request, error: Exception) -> Failure:
    ref = token_hex(4)
    log.error("cannot answer %s (ref %s)", request.method, ref, exc_info=error)
    data = raw({"ref": ref, "executed": "unknown", "retryable": False})
    return Failure(INTERNAL_ERROR, f"The hub failed to answer this request; its log says why at {ref}", data)


def start(host: Downstream, router: Router, request: Request, caller: Caller) -> trio.CancelScope | Reply:
    """Take a request on, or answer it at once."""
    if request.method == SET_LEVEL and caller is host.caller:
        return host.set_level(router, request.params)
    try:
        return host.begin(request.id, request.method)
    except RemoteProtocolError as error:
        return error.failure
    except Overloaded as error:
        return overloaded(error)


def overloaded(error: Overloaded) -> Failure:
    """The answer to a request that nothing was done for because there are too many."""
    return Failure(INTERNAL_ERROR, str(error), raw(error.facts()))
