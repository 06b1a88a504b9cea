"""The control socket's server: newline JSON-RPC for the methods of `hub.control.methods`, which an API carries out.

It is a 0600 unix socket in a 0700 directory, and the peer's uid is checked as well. A request runs in a task of its
own; when the peer leaves, what it asked for is cancelled. An endless method sends on only when the peer has read what
was sent before.
"""

import logging
import os
from collections.abc import Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar
from functools import cache, partial
from inspect import signature
from typing import Any, Final, get_type_hints

import msgspec
import trio
from msgspec import Raw, structs

from hub.control.methods import ENDLESS, METHODS
from hub.link.channel import ChannelClosed, LineTooLong, OutboxFull
from hub.link.hub_errors import HubError
from hub.link.line_channel import LineChannel, LineReader
from hub.link.outbox import Outbox
from hub.linux.peer_credentials import peer_pid, peer_uid
from hub.net.acceptor import Acceptor, share_of_descriptors
from hub.wire import jsonrpc
from hub.wire.jsonrpc import EMPTY, Failure, RemoteProtocolError, Request, Result, encode_response, raw
from hub.wire.mcp import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

log = logging.getLogger("hubd.control")
OUTBOX_BYTES: Final = 256 << 20
"""A list of 100 000 tools is one message."""
MAX_CONTROL_LINE_BYTES: Final = 64 << 10
"""The largest request: no method takes more than a name and a few numbers."""
LINGER_S: Final = 5.0
TOO_LONG: Final = f"The message is too long; a request may have up to {MAX_CONTROL_LINE_BYTES >> 10} KiB"
asker: Final = ContextVar("asker", default=0)
"""The process that made the request which runs in this task; 0: it is not known."""
A_PERSON: Final = -1
"""In its place: a person, who has signed in at the dashboard."""
MAX_CONNECTIONS: Final = 64
"""Or an eighth of the descriptors, if that is less."""


async def serve_control(
    listener: trio.SocketListener, *apis: object, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Answer everyone who connects, until cancelled; each of `METHODS` is one of `apis`'. Closes the listener.

    Cancellation: running requests are cancelled and connections closed; clients of `stop` wait for just that."""
    acceptor = Acceptor("control connections", min(MAX_CONNECTIONS, share_of_descriptors(8)))
    async with trio.open_nursery() as connections:
        task_status.started()
        await acceptor.serve(listener, partial(_serve, apis=apis), connections)


async def _serve(stream: trio.SocketStream, apis: tuple[object, ...]) -> None:
    uid = peer_uid(stream.socket)
    if uid != os.getuid():
        log.warning("refused a control connection of uid %d", uid)
        return
    asker.set(peer_pid(stream.socket))
    async with trio.open_nursery() as requests:
        outbox = Outbox(stream, requests, requests.cancel_scope.cancel, limit_bytes=OUTBOX_BYTES)
        channel = LineChannel(LineReader(stream, limit_bytes=MAX_CONTROL_LINE_BYTES), outbox)
        try:
            while True:
                line = await channel.receive()
                requests.start_soon(_answer, line, channel, apis)
        except LineTooLong:
            _send(channel, encode_response(None, Failure(INVALID_REQUEST, TOO_LONG)))
            await _hang_up(stream, outbox)
        except ChannelClosed:
            pass
        requests.cancel_scope.cancel()


async def _hang_up(stream: trio.SocketStream, outbox: Outbox) -> None:
    """Let a peer that is still sending read its answer: drop what it sends until it stops, at most `LINGER_S`."""
    with trio.move_on_after(LINGER_S), suppress(trio.BrokenResourceError):
        await outbox.flush()
        await stream.send_eof()
        while await stream.receive_some(1 << 18):
            pass


async def _answer(line: bytes, channel: LineChannel, apis: tuple[object, ...]) -> None:
    try:
        request = jsonrpc.decode(line)
    except RemoteProtocolError as error:
        _send(channel, encode_response(error.id, error.failure))
        return
    if not isinstance(request, Request):
        return
    try:
        await _carry_out(request, channel, apis)
    except HubError as error:
        _refuse(channel, request, INTERNAL_ERROR, str(error))
    except Exception as error:
        log.exception("control request %s failed", request.method)
        text = f"The hub failed to answer: {type(error).__name__}; its log says more"
        _refuse(channel, request, INTERNAL_ERROR, text)


async def _carry_out(request: Request, channel: LineChannel, apis: tuple[object, ...]) -> None:
    """Call the method, and send its result."""
    method = METHODS.get(request.method)
    if method is None:
        text = f"There is no control method {request.method}; is this hubd newer than the hub?"
        _refuse(channel, request, METHOD_NOT_FOUND, text)
        return
    do = next(getattr(api, method.name) for api in apis if hasattr(api, method.name))
    try:
        params = structs.asdict(convert_params(do, request.params))
    except msgspec.MsgspecError as error:
        _refuse(channel, request, INVALID_PARAMS, f"{method.name}: {error}")
        return
    if method.name not in ENDLESS:
        result = await do(**params)
        _send(channel, encode_response(request.id, Result(EMPTY if result is None else to_json(result))))
        return
    async with aclosing(do(**params)) as results:
        _send(channel, encode_response(request.id, Result(to_json(await anext(results)))))
        await channel.flush()
        async for result in results:
            members = {name: raw(value) for name, value in structs.asdict(result).items()}
            _send(channel, jsonrpc.encode_notification(method.name, members))
            await channel.flush()


def convert_params(do: Callable[..., Any], given: object, *, strict: bool = True) -> msgspec.Struct:
    """What was `given` as a struct of what `do` takes, with its types and defaults; unless it is `strict`, numbers may
    be texts. Raises MsgspecError: that is something else."""
    return msgspec.json.decode(msgspec.json.encode(given), type=_params_type(do), strict=strict)


@cache
def _params_type(do: Callable[..., Any]) -> type[msgspec.Struct]:
    hints, takes = get_type_hints(do), signature(do).parameters.values()
    fields = [(each.name, hints[each.name], *(() if each.default is each.empty else (each.default,))) for each in takes]
    return msgspec.defstruct(do.__name__, fields, kw_only=True)


def _refuse(channel: LineChannel, request: Request, code: int, text: str) -> None:
    _send(channel, encode_response(request.id, Failure(code, text)))


def _send(channel: LineChannel, message: bytes) -> None:
    try:
        channel.send(message)
    except ChannelClosed:
        return
    except OutboxFull:
        log.warning("a control client does not read its answers; it is cut off")
        channel.outbox.close()


def to_json(value: object) -> Raw:
    """Encode as JSON. Names of files need not be UTF-8: bytes that are no text are escaped."""
    try:
        return raw(value)
    except UnicodeEncodeError:
        return raw(_text(msgspec.to_builtins(value, str_keys=True)))


def _text(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_text(key): _text(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_text(each) for each in value]
    return value
