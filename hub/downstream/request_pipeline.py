"""The one way in for the requests of hosts: `take_on` decides, `answer` carries out.

    brought by                                      taken on as
    a POST of a modern host                         `StatelessHost`
    a POST of a legacy session                      the session
    a message of a batch, or of a connection        the session or the connection
    completion in a shell                           `StatelessHost`
    a revived session that subscribes again         `StatelessHost`

No other module calls `Router.at_once` or `Router.dispatch`, so that whatever is to see every request (admission, a
policy, metrics, an audit) has its place here, reads that are answered from the cache included. The name in a request
is the visible one; `hub.routing.resolve` tells its server. Handshakes are agreed between a host and its carrier.

Batches are the arrays of revision 2025-03-26, which no other revision knows.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from hub.downstream.hosts import Host
from hub.downstream.running_requests import StatelessHost
from hub.link.call_interface import Caller
from hub.link.hub_errors import Draining, Overloaded
from hub.link.rate_limits import ReadPace
from hub.routing.host_exchange import AskableHost, HostExchange, Send
from hub.routing.host_replies import report_bug
from hub.routing.router import Router
from hub.wire import jsonrpc, mcp
from hub.wire.jsonrpc import Failure, Message, Notification, RemoteProtocolError, Reply, Request, Response, decode
from hub.wire.request_meta import progress_token

log = logging.getLogger("hubd.host")
STOPPED: Final = (
    "The hub was stopped before this request had ended, and it is not known whether it was carried out; "
    "find out before you repeat it, unless it changes nothing"
)
HARMLESS: Final = frozenset(
    (*mcp.LIST_METHOD.values(), mcp.COMPLETE, mcp.PROMPTS_GET, mcp.RESOURCES_READ, mcp.SUBSCRIBE, mcp.UNSUBSCRIBE)
)
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
    if request.method == mcp.SET_LEVEL and isinstance(host, Host) and caller is host.caller:
        return host.change_level(router, request.params)
    if not (congested or request.id in host.calls or request.id in host.listens):
        try:
            reply = router.at_once(request, caller, host.view)
        except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
            return report_bug(request, error)
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
        return report_bug(request, error)
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


def refusal_of(error: RemoteProtocolError | Overloaded) -> Failure:
    """The answer to a request that nothing was done for."""
    if isinstance(error, RemoteProtocolError):
        return error.failure
    return Failure(mcp.INTERNAL_ERROR, str(error), jsonrpc.raw(error.facts()))


MAX_BATCH: Final = 64


async def read_batch(data: bytes, version: str, pace: ReadPace) -> list[Message | RemoteProtocolError]:
    """Read the messages of an array, each in its turn by the `pace` of the host; an error in place of a malformed one.

    Raises:
        RemoteProtocolError: the whole array is refused: the revision of the session has no batches, it is empty or too
            long, or it holds an `initialize`.
    """
    if version != mcp.L2:
        raise RemoteProtocolError(mcp.INVALID_REQUEST, "An array is not a message here; send each message by itself")
    await pace.turn(len(data))
    parts = jsonrpc.split_batch(data)
    if len(parts) > MAX_BATCH:
        raise RemoteProtocolError(mcp.INVALID_REQUEST, f"A batch has at most {MAX_BATCH} messages")
    messages = []
    for part in parts:
        message = _read(part)
        messages.append(message)
        await (pace.turn(len(part)) if isinstance(message, Request) else pace.keep(len(part)))
    if any(isinstance(message, Request) and message.method == mcp.INITIALIZE for message in messages):
        raise RemoteProtocolError(mcp.INVALID_REQUEST, "initialize is never part of a batch")
    return messages


def _read(part: bytes) -> Message | RemoteProtocolError:
    try:
        return decode(part)
    except RemoteProtocolError as error:
        return error


def wants_answer(messages: list[Message | RemoteProtocolError]) -> bool:
    """True if any message has to be answered: a request, or a malformed message."""
    return any(isinstance(message, Request | RemoteProtocolError) for message in messages)


async def run_batch(
    host: Host,
    router: Router,
    messages: list[Message | RemoteProtocolError],
    *,
    notify: Send,
    asked: AskableHost,
    reply: Callable[[bytes], None],
) -> None:
    """Run all requests of a batch at the same time, begun one after another. `reply` gets each response as it comes,
    `notify` each notification before that. Questions go to `asked`.

    Cancellation: cancels all of it.
    """

    async def run(request: Request, scope: trio.CancelScope, exchange: HostExchange) -> None:
        result = await answer(host, router, request, exchange, scope, host.pace)
        if result is not None:
            reply(jsonrpc.encode_response(request.id, result))

    async with trio.open_nursery() as nursery:
        for message in messages:
            if isinstance(message, RemoteProtocolError):
                reply(jsonrpc.encode_response(message.id, message.failure))
            elif isinstance(message, Notification):
                host.notified(router, message)
            elif isinstance(message, Response):
                host.asking.answered(message)
            else:
                assert host.caller is not None, "batches belong to sessions"
                try:
                    taken = take_on(host, router, message, host.caller)
                except (RemoteProtocolError, Overloaded) as error:
                    taken = refusal_of(error)
                if isinstance(taken, trio.CancelScope):
                    token = progress_token(message.params)
                    exchange = HostExchange(host.caller, notify, progress_token=token, view=host.view, host=asked)
                    nursery.start_soon(run, message, taken, exchange)
                else:
                    reply(jsonrpc.encode_response(message.id, taken))
