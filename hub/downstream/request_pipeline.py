"""The one way in for the requests of hosts: `take_on` decides, `answer` carries out.

    brought by                      taken on as
    a POST of a modern host         `StatelessHost`
    a POST of a legacy session      the session
    a message of a batch            the session or the connection
    a line of a connection          the connection
    completion in a shell           `StatelessHost`
    a revived session that          `StatelessHost`
      subscribes again

No other module calls `Router.at_once` or `Router.dispatch`, so that whatever is to see every request (admission, a
policy, metrics, an audit) has its place here, reads that are answered from the cache included. The name in a request
is the visible one; `hub.routing.resolve` tells its server. Handshakes have no such place: they are agreed between a
host and its carrier.
"""

import logging
from secrets import token_hex
from typing import Final

import trio

from hub.downstream.host import Host, StatelessHost
from hub.link.hub_errors import Draining, Overloaded
from hub.link.interface import Caller
from hub.link.rates import ReadPace
from hub.routing.host_exchange import HostExchange
from hub.routing.router import Router
from hub.wire.jsonrpc import Failure, Reply, Request, raw
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
"""Methods that can be repeated by a host that does not know whether its request was carried out."""


def take_on(
    host: Host | StatelessHost, router: Router, request: Request, caller: Caller, *, congested: bool = False
) -> Reply | trio.CancelScope:
    """Take a request on: its reply, if nothing need be waited for, or else the scope for `answer`, which must follow.

    A reply costs no cancel scope and no task. A `congested` host, which does not read its answers, has to wait for
    each, so that the limits of running requests apply. Errors of the hub become replies, as in `answer`.

    Raises:
        RemoteProtocolError: a request of `host` with this id is running.
        Overloaded: too many are.
    """
    if request.method == SET_LEVEL and isinstance(host, Host) and caller is host.caller:
        return host.change_level(router, request.params)
    if not (congested or request.id in host.calls or request.id in host.listens):
        try:
            reply = router.at_once(request, caller, host.view)
        except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
            return _fail(request, error)
        if reply is not None:
            return reply
    return host.begin(request.id, request.method)


async def answer(
    host: Host | StatelessHost,
    router: Router,
    request: Request,
    exchange: HostExchange,
    scope: trio.CancelScope,
    pace: ReadPace | None = None,
) -> Reply | None:
    """Carry out a request that `take_on` gave `scope`, when it is its turn by `pace`, and end it.

    It is answered by what `host` is shown when its turn comes. None: it was cancelled, and gets no answer, unless
    by `RunningRequests.cut_off`.

    Errors of the hub fail this request and nothing else: the answer carries a `ref`, under which the log has the rest.
    """
    try:
        with scope:
            if pace is not None:
                await pace.next()
            exchange.view = host.view  # a reload, or another project, may have changed it since the request came
            return await router.dispatch(request, exchange)
    except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
        return _fail(request, error)
    finally:
        exchange.close()
        host.end(request.id)
    return _stop(router, request, exchange) if scope in host.requests.stopped else None


async def serve(host: Host | StatelessHost, router: Router, request: Request, exchange: HostExchange) -> Reply | None:
    """`take_on` and `answer`, where there is nothing to do in between."""
    taken = take_on(host, router, request, exchange.caller)
    return await answer(host, router, request, exchange, taken) if isinstance(taken, trio.CancelScope) else taken


def _stop(router: Router, request: Request, exchange: HostExchange) -> Reply:
    error = Draining(STOPPED)
    error.retryable = request.method in HARMLESS
    return router.reply_to_failure(request, exchange, error)


def _fail(request: Request, error: Exception) -> Failure:
    ref = token_hex(4)
    log.error("cannot answer %s (ref %s)", request.method, ref, exc_info=error)
    data = raw({"ref": ref, "executed": "unknown", "retryable": False})
    return Failure(INTERNAL_ERROR, f"The hub failed to answer this request; its log says why at {ref}", data)


def overload(error: Overloaded) -> Failure:
    """The answer to a request that nothing was done for because there are too many."""
    return Failure(INTERNAL_ERROR, str(error), raw(error.facts()))
