"""One connection to Redis or Valkey by coredis, over a stream that is open, and its errors in a few words.

Of coredis only the connections are used, not the client: connections match answers to requests and speak TLS and RESP3,
while the client's pool, retries and re-subscriptions would hide a slow server or a lost subscription.
`cache.redis.resp3_decoder` decodes answers with limits.
"""

import logging
import os
import ssl
from collections.abc import Callable
from typing import Any, Final

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream, connect_tcp, connect_unix
from anyio.abc import ByteStream
from coredis import exceptions
from coredis.connection import BaseConnection, TCPLocation

from cache.redis.layout import CommandRefused
from cache.redis.resp3_decoder import Resp3Decoder
from cache.redis.url import StoreAddress
from hub.link.sync_primitives import DirtyFlag
from hub.wire.printable import printable

logging.getLogger("coredis").setLevel(logging.CRITICAL + 1)  # it logs tracebacks of what is said here in a word

REASON_CHARS: Final = 200
STEP_BYTES: Final = 16 << 10
"""Bytes read at a time from the listening connection: messages may be short, and each costs a step."""
MAX_UNHEARD: Final = 256
"""Unhandled messages above which nothing more is read."""
_CODES: Final = {
    exceptions.ReadOnlyError: "READONLY",
    exceptions.AuthorizationError: "NOPERM",
    exceptions.WrongTypeError: "WRONGTYPE",
}


class CoredisConnection(BaseConnection):
    """A connection of coredis over an open stream: coredis would leak streams when it fails to connect.

    A connection for commands accepts answers only; a listening one reads no more messages than are handled.
    """

    def __init__(self, address: StoreAddress, stream: ByteStream, *, listens: bool) -> None:
        password = address.password.reveal() if address.password is not None else None
        place = TCPLocation(str(address), address.port)  # to be shown only
        super().__init__(place, username=address.username, password=password, db=address.db)
        self._parser: Any = Resp3Decoder(lambda is_message: listens if is_message else bool(self._requests))
        self._paced = _PacedStream(stream, self._unheard if listens else None)
        self.heard = self._paced.go_on
        """Called after each message: more may be read."""

    async def _connect(self) -> ByteStream:
        return self._paced

    def _unheard(self) -> int:
        return self._push_message_buffer_in.statistics().current_buffer_used

    @property
    def problem(self) -> BaseException | None:
        """The error that ended it."""
        return self._last_error

    def describe(self) -> str:
        return f"<Connection to {self.location!r}>"


class _PacedStream(ByteStream):
    """A stream that is not read while too many messages are `unheard`; None: no limit."""

    def __init__(self, stream: ByteStream, unheard: Callable[[], int] | None) -> None:
        self._stream = stream
        self._unheard = unheard
        self._flag = DirtyFlag()
        self.go_on = self._flag.set

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if self._unheard is None:
            return await self._stream.receive(max_bytes)
        while self._unheard() > MAX_UNHEARD:
            await self._flag.take()
        return await self._stream.receive(STEP_BYTES)

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


def tls_context(address: StoreAddress) -> ssl.SSLContext | None:
    """The terms of TLS with the server; None: there is none. Raises: OSError, if certificates cannot be read."""
    return ssl.create_default_context(cafile=address.ca) if address.tls else None


async def open_stream(address: StoreAddress, context: ssl.SSLContext | None) -> ByteStream:
    """Connect to the server. Raises: OSError."""
    if not address.host:
        return await connect_unix(address.path)
    if context is None:
        return await connect_tcp(address.host, address.port)
    return await connect_tcp(address.host, address.port, ssl_context=context, tls_standard_compatible=False)


def refusal(error: Exception) -> CommandRefused:
    """The refusal, with the code that coredis turned into a class."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return CommandRefused(code, why(error))
    code, _, text = why(error).partition(" ")
    return CommandRefused(code, text)


def why(error: BaseException) -> str:
    """The innermost cause of an error, in a few words."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    if isinstance(error, EndOfStream | BrokenResourceError | ClosedResourceError):
        return "the connection ended"
    if isinstance(error, exceptions.AuthenticationRequiredError):
        return "it asks for a password (cache.password)"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)  # without the address, which is named beside it
    text = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error) or type(error).__name__
    said = printable(" ".join(str(text)[: REASON_CHARS * 4].split()))[:REASON_CHARS].rstrip(".")
    return f"{said} (cache.password)" if isinstance(error, exceptions.AuthenticationFailureError) else said
