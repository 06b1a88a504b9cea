"""The control socket's server: newline JSON-RPC, for `hubd status` and its like. `hub.control.client` is the other end.

    status -> object    tools -> array    call {name, arguments} -> the tool's result
    cache -> object    cache_clear {name, or without} -> {cleared}
    restart {name} -> {}    reload -> what came of it    stop -> {}
    logs {name, lines, follow} -> {records}, and with `follow` then notifications `logs` {records, lost} for ever

It is a 0600 unix socket in a 0700 directory, and the peer's uid is checked as well. A request runs in a task of its
own; when the peer leaves, what it asked for is cancelled.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgspec
import trio
from msgspec import Raw

from hub.link.channel import ChannelClosed, LineChannel, LineReader, LineTooLong, Outbox, OutboxFull
from hub.link.interface import HubError
from hub.net.acceptor import Acceptor, share_of_descriptors
from hub.net.peer_credentials import peer_uid
from hub.wire.jsonrpc import (
    EMPTY,
    Failure,
    RemoteProtocolError,
    Reply,
    Request,
    Result,
    decode,
    encode_notification,
    encode_response,
    peek_str,
    raw,
)
from hub.wire.mcp import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from upstreams.journal.journal import Journal

log = logging.getLogger("hubd.control")
OUTBOX_BYTES: Final = 256 << 20
"""A list of 100 000 tools is one message."""
MAX_CONTROL_LINE_BYTES: Final = (16 << 20) + (64 << 10)
"""The largest message of a host, as the arguments of `hubd call`, and what goes around it."""
LINGER_S: Final = 5.0
LOG_LINES: Final = 100
"""Of the journal of an upstream, unless the client says how many."""
MAX_CONNECTIONS: Final = 64
"""Or an eighth of the descriptors, if that is less."""


class Controls(Protocol):
    """What can be asked of a daemon."""

    async def status(self) -> dict[str, object]: ...

    async def tools(self) -> list[object]: ...

    async def call(self, name: str, arguments: Raw) -> Raw: ...

    async def restart(self, name: str) -> None:
        """Start an upstream anew, without waiting for it.

        Raises:
            HubError: it cannot be.
        """
        ...

    async def cache(self) -> dict[str, object]:
        """What is kept of resources, as `cache.statistics.CacheStatistics`."""
        ...

    async def cache_clear(self, name: str | None) -> int:
        """Forget what was read of an upstream, or of all; how many resources were kept of it.

        Raises:
            HubError: there is none of this name.
        """
        ...

    def journal(self, name: str) -> Journal:
        """What an upstream said.

        Raises:
            HubError: there is none of this name.
        """
        ...

    async def reload(self) -> dict[str, object]:
        """Read the configuration again; what came of it."""
        ...

    async def stop(self) -> None: ...


async def serve_control(
    listener: trio.SocketListener,
    controls: Controls,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer everyone who connects, until cancelled. Closes the listener.

    Cancellation: running requests are cancelled and connections closed; clients of `stop` wait for just that.
    """

    acceptor = Acceptor("control connections", min(MAX_CONNECTIONS, share_of_descriptors(8)))
    async with trio.open_nursery() as connections:
        task_status.started()
        await acceptor.serve(listener, partial(_serve, controls=controls), connections)


async def _serve(stream: trio.SocketStream, controls: Controls) -> None:
    uid = peer_uid(stream.socket)
    if uid != os.getuid():
        log.warning("refused a control connection of uid %d", uid)
        return
    async with trio.open_nursery() as requests:
        outbox = Outbox(stream, requests, requests.cancel_scope.cancel, limit_bytes=OUTBOX_BYTES)
        channel = LineChannel(LineReader(stream, limit_bytes=MAX_CONTROL_LINE_BYTES), outbox)
        try:
            while True:
                line = await channel.receive()
                requests.start_soon(_answer, line, channel, controls)
        except LineTooLong:
            _send(channel, encode_response(None, Failure(INVALID_REQUEST, _TOO_LONG)))
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


async def _answer(line: bytes, channel: LineChannel, controls: Controls) -> None:
    try:
        request = decode(line)
    except RemoteProtocolError as error:
        _send(channel, encode_response(error.id, error.failure))
        return
    if isinstance(request, Request) and request.method == "logs":
        await _logs(request, channel, controls)
    elif isinstance(request, Request):
        reply = await _reply(request, controls)
        _send(channel, encode_response(request.id, reply))


async def _reply(request: Request, controls: Controls) -> Reply:
    """The wall around one request."""
    handler = _HANDLERS.get(request.method)
    if handler is None:
        return Failure(
            METHOD_NOT_FOUND, f"There is no control method {request.method}; is this hubd newer than the hub?"
        )
    try:
        return await handler(request.params, controls)
    except Exception as error:
        log.exception("control request %s failed", request.method)
        return Failure(INTERNAL_ERROR, f"The hub failed to answer: {type(error).__name__}; its log says more")


def _send(channel: LineChannel, message: bytes) -> None:
    try:
        channel.send(message)
    except ChannelClosed:
        return
    except OutboxFull:
        log.warning("a control client does not read its answers; it is cut off")
        channel.outbox.close()


async def _status(params: dict[str, Raw], controls: Controls) -> Reply:
    return Result(_told(await controls.status()))


async def _tools(params: dict[str, Raw], controls: Controls) -> Reply:
    return Result(raw(await controls.tools()))


async def _call(params: dict[str, Raw], controls: Controls) -> Reply:
    name = peek_str(params.get("name"))
    if name is None:
        return Failure(INVALID_PARAMS, "call needs the name of a tool")
    try:
        return Result(await controls.call(name, params.get("arguments", EMPTY)))
    except HubError as error:
        return Failure(INTERNAL_ERROR, str(error))


async def _cache(params: dict[str, Raw], controls: Controls) -> Reply:
    return Result(raw(await controls.cache()))


async def _cache_clear(params: dict[str, Raw], controls: Controls) -> Reply:
    name = peek_str(params.get("name"))
    if name is None and "name" in params:
        return Failure(INVALID_PARAMS, "cache_clear needs the name of an upstream, or none for all")
    try:
        return Result(raw({"cleared": await controls.cache_clear(name)}))
    except HubError as error:
        return Failure(INVALID_PARAMS, str(error))


async def _restart(params: dict[str, Raw], controls: Controls) -> Reply:
    name = peek_str(params.get("name"))
    if name is None:
        return Failure(INVALID_PARAMS, "restart needs the name of an upstream")
    try:
        await controls.restart(name)
    except HubError as error:
        return Failure(INVALID_PARAMS, str(error))
    return Result(EMPTY)


async def _reload(params: dict[str, Raw], controls: Controls) -> Reply:
    return Result(_told(await controls.reload()))


async def _stop(params: dict[str, Raw], controls: Controls) -> Reply:
    await controls.stop()
    return Result(EMPTY)


def _told(value: object) -> Raw:
    """As JSON, with what is no text escaped: names of files need not be UTF-8."""
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


async def _logs(request: Request, channel: LineChannel, controls: Controls) -> None:
    """Answer with the last records; then, if it is to be followed, with those that come, until the client leaves. One
    that reads too slowly loses the oldest: nothing more is taken up while it has not read what was sent before."""
    lines = bytes(request.params.get("lines", b""))
    try:
        journal = controls.journal(peek_str(request.params.get("name")) or "")
    except HubError as error:
        _send(channel, encode_response(request.id, Failure(INVALID_PARAMS, str(error))))
        return
    with journal.follow() as follower:
        records = journal.tail(int(lines[:9]) if lines.isdigit() else LOG_LINES)
        _send(channel, encode_response(request.id, Result(raw({"records": records}))))
        while request.params.get("follow") == _TRUE:
            await channel.flush()
            more, lost = await follower.next()
            _send(channel, encode_notification("logs", {"records": raw(more), "lost": raw(lost)}))


_TRUE: Final = Raw(b"true")
_TOO_LONG: Final = "The message is too long; the arguments of a call may have up to 16 MiB"

_HANDLERS: Final[dict[str, Callable[[dict[str, Raw], Controls], Awaitable[Reply]]]] = {
    "status": _status,
    "tools": _tools,
    "call": _call,
    "cache": _cache,
    "cache_clear": _cache_clear,
    "restart": _restart,
    "reload": _reload,
    "stop": _stop,
}
