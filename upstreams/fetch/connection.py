"""Connection of a guarded request, dialled to a checked address, and counted while it is read (`Wire`)."""

import functools
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from upstreams.fetch.terms_and_answers import FetchFailed

ATTEMPT_S: Final = 3.0
"""Seconds for which one of several addresses is tried."""
MAX_ATTEMPTS: Final = 4
PIECE_BYTES: Final = 1 << 10
"""Bytes that are read at once: all that is parsed between two checkpoints. A chunk of one byte takes six, and 50 us."""

Dial = Callable[[str, int], Awaitable[trio.SocketStream]]
"""Connects to an address, which is no name, at a port; raises OSError."""
AnyStream = trio.SocketStream | trio.SSLStream[trio.abc.Stream]


class Wire:
    """The bytes of one request and its answer, and how many of them there were."""

    def __init__(self, stream: AnyStream, origin: str, limit_bytes: int) -> None:
        self._stream = stream
        self._origin = origin
        self._left = limit_bytes
        self.sent = False
        """Some of the request may have arrived."""
        self.answered = False
        """Some of an answer has come."""

    async def start_tls(self, tls: ssl.SSLContext, name: str) -> None:
        """Speak TLS from here on, with a peer that proves to be `name`. Raises FetchFailed: it does not."""
        try:
            self._stream = await secure(self._stream, tls, name)
        except (OSError, trio.BrokenResourceError, ssl.SSLError, ssl.CertificateError) as error:
            raise FetchFailed(f"{self._origin} cannot be reached: {reason(error)}") from None

    async def send(self, data: bytes) -> None:
        """Send all of `data`. Whether that succeeded is seen by the answer: who refuses early answers early."""
        self.sent = True
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def receive(self) -> bytes:
        """Some bytes; none at the end. Raises FetchFailed: more than the limit came."""
        try:
            data = bytes(await self._stream.receive_some(PIECE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""
        self.answered = self.answered or bool(data)
        self._left -= len(data)
        if self._left < 0:
            raise self.too_large()
        return data

    def too_large(self) -> FetchFailed:
        """The failure of an answer that is larger than one may be."""
        return FetchFailed(f"{self._origin} sends more than an answer may have", sent=True, too_large=True)

    def limit(self, more: int) -> None:
        """Let `more` bytes come from now on; with -1 the next ones are too many."""
        self._left = more

    def close(self) -> None:
        """Close at once. Idempotent."""
        close(self._stream)


async def connect(dial: Dial, addresses: Sequence[str], port: int, origin: str) -> trio.SocketStream:
    """A connection to one of `addresses`, tried one after the other. Raises FetchFailed: none takes it. Cancellation:
    leaves nothing open."""
    why = "it has no address"
    for address in addresses[:MAX_ATTEMPTS]:
        with trio.move_on_after(ATTEMPT_S if len(addresses) > 1 else float("inf")) as scope:
            try:
                return await dial(address, port)
            except OSError as error:
                why = reason(error)
        if scope.cancelled_caught:
            why = "no connection in time"
    raise FetchFailed(f"{origin} cannot be reached: {why}")


async def secure(stream: AnyStream, tls: ssl.SSLContext, name: str) -> trio.SSLStream[trio.abc.Stream]:
    """TLS over `stream`, with a peer that proves to be `name`. Raises trio.BrokenResourceError: it does not; the stream
    is closed."""
    over: trio.SSLStream[trio.abc.Stream]
    over = trio.SSLStream(stream, tls, server_hostname=name, https_compatible=True)
    try:
        await over.do_handshake()
    except BaseException:
        close(stream)
        raise
    return over


def close(stream: AnyStream) -> None:
    """Close the socket beneath `stream` at once. Idempotent."""
    bottom(stream).socket.close()


def bottom(stream: AnyStream) -> trio.SocketStream:
    """The TCP connection beneath `stream`."""
    lower: trio.abc.Stream = stream
    while isinstance(lower, trio.SSLStream):
        lower = lower.transport_stream
    assert isinstance(lower, trio.SocketStream)
    return lower


def reason(error: BaseException) -> str:
    """The reason why a connection could not be made, in words without paths."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'connection closed'})"
    if isinstance(error, socket.gaierror):
        return "its host name does not resolve"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()  # its own text repeats the address, as a tuple
    return "the connection failed"


@functools.cache
def system_trust() -> ssl.SSLContext:
    """The one TLS context: the system's certificate store (`SSL_CERT_FILE` and `SSL_CERT_DIR` count), certificates and
    names verified, TLS 1.2 at least. 24 ms to make."""
    context = ssl.create_default_context()
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.set_alpn_protocols(["http/1.1"])
    return context
