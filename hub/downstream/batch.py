"""Batches: the arrays of revision 2025-03-26, which no other revision knows."""

from collections.abc import Callable
from typing import Final

import trio

from hub.downstream.host import Host
from hub.downstream.request_pipeline import answer, overload, take_on
from hub.link.hub_errors import Overloaded
from hub.link.interface import Caller
from hub.link.rates import ReadPace
from hub.routing.host_exchange import AskableHost, HostExchange, Send
from hub.routing.router import Router
from hub.wire.jsonrpc import (
    Message,
    Notification,
    RemoteProtocolError,
    Reply,
    Request,
    Response,
    decode,
    encode_response,
    split_batch,
)
from hub.wire.mcp import INITIALIZE, INVALID_REQUEST, L2
from hub.wire.request_meta import progress_token

MAX_BATCH: Final = 64


async def read_batch(data: bytes, version: str, pace: ReadPace) -> list[Message | RemoteProtocolError]:
    """Read the messages of an array, each in its turn by the `pace` of the host; an error in place of a malformed one.

    Raises:
        RemoteProtocolError: the whole array is refused: the revision of the session has no batches
           , it is empty or too long, or it holds an `initialize`.
    """
    if version != L2:
        raise RemoteProtocolError(INVALID_REQUEST, "An array is not a message here; send each message by itself")
    await pace.turn(len(data))
    parts = split_batch(data)
    if len(parts) > MAX_BATCH:
        raise RemoteProtocolError(INVALID_REQUEST, f"A batch has at most {MAX_BATCH} messages")
    messages = []
    for part in parts:
        message = _read(part)
        messages.append(message)
        await (pace.turn(len(part)) if isinstance(message, Request) else pace.keep(len(part)))
    if any(isinstance(message, Request) and message.method == INITIALIZE for message in messages):
        raise RemoteProtocolError(INVALID_REQUEST, "initialize is never part of a batch")
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
    async with trio.open_nursery() as nursery:
        for message in messages:
            if isinstance(message, RemoteProtocolError):
                reply(encode_response(message.id, message.failure))
            elif isinstance(message, Notification):
                host.notified(router, message)
            elif isinstance(message, Response):
                host.answered(message)
            else:
                assert host.caller is not None, "batches belong to sessions"
                started = _take_on(host, router, message, host.caller)
                if isinstance(started, trio.CancelScope):
                    token = progress_token(message.params)
                    exchange = HostExchange(host.caller, notify, progress_token=token, view=host.view, host=asked)
                    nursery.start_soon(_run, host, router, message, started, exchange, reply)
                else:
                    reply(encode_response(message.id, started))


def _take_on(host: Host, router: Router, request: Request, caller: Caller) -> Reply | trio.CancelScope:
    try:
        return take_on(host, router, request, caller)
    except RemoteProtocolError as error:
        return error.failure
    except Overloaded as error:
        return overload(error)


async def _run(
    host: Host,
    router: Router,
    request: Request,
    scope: trio.CancelScope,
    exchange: HostExchange,
    reply: Callable[[bytes], None],
) -> None:
    result = await answer(host, router, request, exchange, scope, host.pace)
    if result is not None:
        reply(encode_response(request.id, result))
