"""The one way in for the requests of hosts: `take_on` decides; `answer` carries out what needs a task.

    brought by                                      taken on as
    a POST of a modern host                         `StatelessHost`
    a POST of a legacy session                      the session
    a message of a batch, or of a connection        the session or the connection
    completion in a shell                           `StatelessHost`
    a revived session that subscribes again         `StatelessHost`

No other module calls `Router.begin` or `Router.dispatch`, so whatever is to see every request, lists included, has its
place here: admission, limits of running requests, their record. The name in a request is the visible one. What is to
judge operations by the server and the tool that they mean is a stage (`hub.routing.compose_chains`). Handshakes are
agreed between a host and its carrier.

Batches are the arrays of revision 2025-03-26, which no other revision knows.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Final

import trio

from hub.calls.host_exchange import AskableHost, HostExchange, Send
from hub.downstream.host_conversations import Host
from hub.downstream.host_of_one_request import StatelessHost
from hub.downstream.taskless_request import Finish, TasklessRequest, stop
from hub.link.call_interface import RunningCall
from hub.link.hub_errors import Overloaded
from hub.link.rate_limits import ReadPace
from hub.routing.replies_for_hosts import report_bug
from hub.routing.router import Router
from hub.wire import jsonrpc, mcp
from hub.wire.jsonrpc import (
    Failure,
    Message,
    Notification,
    RemoteProtocolError,
    Reply,
    Request,
    Response,
    Result,
    decode,
)
from hub.wire.modern_metadata import progress_token


def take_on(
    host: Host | StatelessHost,
    router: Router,
    request: Request,
    exchange: HostExchange,
    finish: Finish | None = None,
    *,
    congested: bool = False,
) -> Reply | TasklessRequest | trio.CancelScope:
    """Take a request on: its reply, if nothing need be waited for; the quick request that it is from now on, which
    `finish` answers; or else the scope for `answer`, which must follow. Without `finish` it is never quick.

    Neither reply nor quick request cost a cancel scope and a task. A `congested` host, which does not read its answers,
    has to wait for each, so that the limits of running requests apply. Errors of the hub become replies, as in
    `answer`.

    Raises:
        RemoteProtocolError: a request of `host` with this id is running.
        Overloaded: too many are.
    """
    began = perf_counter()
    if request.method == mcp.SET_LEVEL and isinstance(host, Host) and exchange.caller is host.caller:
        changed = host.change_level(router, request.params)
        router.count(request, exchange, began, changed)
        return changed
    if not (congested or request.id in host.calls or request.id in host.listens):
        quick = None
        if finish is not None and host.has_room():
            quick = TasklessRequest(host, router, request, exchange, finish)
        begun: Reply | RunningCall | None
        try:
            begun = router.begin(request, exchange, None if quick is None else quick.done)
        except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
            begun = report_bug(request, error, exchange.ref)
        if isinstance(begun, (Result, Failure)):
            router.count(request, exchange, began, begun)
            return begun
        if begun is not None and quick is not None:
            quick.call = begun
            host.hold(request.id, quick)
            return quick
    try:
        return host.begin(request.id, request.method)
    except (RemoteProtocolError, Overloaded):
        exchange.close()
        raise


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
    began, reply = perf_counter(), None
    try:
        with scope:
            if pace is not None:
                await pace.next()
            if exchange.passage is None:  # a reload, or another project, may have changed it since the request came
                exchange.view = host.view
            reply = await router.dispatch(request, exchange)
            return reply
    except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
        reply = report_bug(request, error, exchange.ref)
        return reply
    finally:
        if request.method != mcp.LISTEN:  # which has no end
            router.count(request, exchange, began, reply)
        exchange.close()
        host.end(request.id)
    return stop(router, request, exchange) if scope in host.requests.stopped else None


async def serve(host: Host | StatelessHost, router: Router, request: Request, exchange: HostExchange) -> Reply | None:
    """`take_on` and `answer`, where there is nothing to do in between."""
    taken = take_on(host, router, request, exchange)
    if isinstance(taken, trio.CancelScope):
        return await answer(host, router, request, exchange, taken)
    assert not isinstance(taken, TasklessRequest), "there is nobody to answer it"
    return taken


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
                token = progress_token(message.params)
                exchange = HostExchange(host.caller, notify, progress_token=token, view=host.view, host=asked)
                try:
                    taken = take_on(host, router, message, exchange)
                except (RemoteProtocolError, Overloaded) as error:
                    taken = refusal_of(error)
                if isinstance(taken, trio.CancelScope):
                    nursery.start_soon(run, message, taken, exchange)
                elif not isinstance(taken, TasklessRequest):
                    reply(jsonrpc.encode_response(message.id, taken))
