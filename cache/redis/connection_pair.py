"""A pair of connections to Redis or Valkey: one for commands, one that listens. The end of either ends both.

A connection that fails in any way is never used again, and a caller that stops waiting leaves its place in the queue to
the answer. So no answer is ever taken for that of another request.

Of coredis only the connections are used, not the client: connections match answers to requests and speak TLS and RESP3,
while the client's pool, retries and re-subscriptions would hide a slow server or a lost subscription.
`cache.redis.resp3_decoder` decodes answers with limits. Errors are told in a few words.

Importing this module takes 0.2 s and 15 MB; only `cache.redis.coherence_link` does, in a thread and if a store is
configured.
"""

import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final

import trio
from anyio import BrokenResourceError, ClosedResourceError, EndOfStream, connect_tcp, connect_unix
from anyio.abc import ByteStream
from coredis import exceptions as errors
from coredis.connection import BaseConnection, TCPLocation
from coredis.exceptions import ConnectionError as Lost

from cache.redis.layout import CommandRefused
from cache.redis.resp3_decoder import Resp3Decoder
from cache.redis.url import StoreAddress
from cache.shared_store import StoreUnreachable
from hub.link.sync_primitives import DirtyFlag
from hub.wire.printable import printable

logging.getLogger("coredis").setLevel(logging.CRITICAL + 1)  # it logs tracebacks of what is said here in a word

REASON_CHARS: Final = 200
STEP_BYTES: Final = 16 << 10
"""Bytes read at a time from the listening connection: messages may be short, and each costs a step."""
MAX_UNHEARD: Final = 256
"""Unhandled messages above which nothing more is read."""
_CODES: Final = {
    errors.ReadOnlyError: "READONLY",
    errors.AuthorizationError: "NOPERM",
    errors.WrongTypeError: "WRONGTYPE",
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


async def open_stream(address: StoreAddress, context: ssl.SSLContext | None) -> ByteStream:
    """Connect to the server; `context`: the terms of TLS with it. Raises: OSError."""
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
    if isinstance(error, errors.AuthenticationRequiredError):
        return "it asks for a password (cache.password)"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)  # without the address, which is named beside it
    text = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error) or type(error).__name__
    said = printable(" ".join(str(text)[: REASON_CHARS * 4].split()))[:REASON_CHARS].rstrip(".")
    return f"{said} (cache.password)" if isinstance(error, errors.AuthenticationFailureError) else said


OPEN_S: Final = 3.0
"""Time limit for opening both connections."""
SECTIONS: Final = (b"server", b"replication")
"""Sections of INFO that identify the primary."""
MAX_FACTS_BYTES: Final = 64 << 10
"""Bytes of each section that are parsed."""


class ConnectionPair:
    """Two connections to the same primary."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.primary = ""
        """Identity of the primary: the run of the server, and its replication id, which changes whenever it becomes a
        primary. A server that was a replica meanwhile may have got deleted tokens back from the other server."""
        self._reason = ""
        self._scope = trio.CancelScope()
        self._commanding: CoredisConnection | None = None
        self._listening: CoredisConnection | None = None

    async def run(self, serve: "Callable[[ConnectionPair], Awaitable[None]]") -> str:
        """Connect and `serve` until either connection ends or `fail` is called; returns why it is over.

        Cancellation: both connections are closed.
        """
        with self._scope:
            async with trio.open_nursery() as nursery:
                with trio.move_on_after(OPEN_S) as opening:
                    try:
                        await self._open(nursery)
                    except Exception as error:  # noqa: BLE001  coredis wraps much, being cancelled among it
                        self.fail(self._silence if opening.cancel_called else why(error))
                if opening.cancelled_caught:
                    self.fail(self._silence)
                if not self._reason:
                    await serve(self)
                    self.fail("it is no longer needed")
        return self._reason

    @property
    def _silence(self) -> str:
        tls = ", perhaps because it does not speak TLS (`rediss://`)" if self.address.tls else ""
        return f"no answer within {OPEN_S:g} s{tls}"

    def fail(self, reason: str) -> None:
        """End both connections; the first reason counts."""
        self._reason = self._reason or reason
        self._scope.cancel()

    async def execute(self, *command: bytes | str | int) -> Any:
        """The answer to one command: bytes, int, list, None.
        Raises: CommandRefused; StoreUnreachable.
        Cancellation: the command may or may not have been carried out.
        """
        (answer,) = await self.execute_each([command])
        return answer

    async def execute_each(self, commands: Iterable[Sequence[bytes | str | int]]) -> list[Any]:
        """The answers to commands that are sent in one piece.
        Raises: CommandRefused, if the server refuses any of them; StoreUnreachable."""
        if self._commanding is None:
            raise StoreUnreachable("there is no connection")
        try:
            requests = [
                self._commanding.create_request(_word(command[0]), *command[1:], decode=False, raise_exceptions=False)
                for command in commands
            ]
            answers: list[Any] = [await request for request in requests]
        except Exception as error:  # noqa: BLE001  whatever coredis raises, the connection cannot be trusted
            self.fail(why(error))
            raise StoreUnreachable(why(error)) from None
        self._check(answers)
        return answers

    def _check(self, answers: Iterable[Any]) -> None:
        """Raise what is wrong with any of the answers: the connection was lost, or else a command was refused."""
        wrong = [answer for answer in answers if isinstance(answer, Exception)]
        for error in wrong:
            if isinstance(error, Lost):
                self.fail(why(error))
                raise StoreUnreachable(why(error))
        for error in wrong:
            raise refusal(error)

    async def check_primary(self) -> None:
        """Check that the server is still the same primary. Raises: CommandRefused; StoreUnreachable."""
        if _primary_of(await self.execute_each([(b"INFO", section) for section in SECTIONS])) != self.primary:
            raise StoreUnreachable("it was a replica meanwhile")

    async def subscribe(self, channel: str) -> None:
        """Subscribe to `channel`. Raises: CommandRefused; StoreUnreachable."""
        connection = self._listening
        assert connection is not None
        try:
            connection.send_command(b"SUBSCRIBE", channel)
            # A subscription is agreed to out of row, refused in the row: in place of the answer to this.
            answer = await connection.create_request(b"PING", decode=False, raise_exceptions=False)
        except Exception as error:  # noqa: BLE001
            raise StoreUnreachable(why(error)) from None
        self._check([answer])

    async def listen(self, hear: Callable[[bytes], None]) -> None:
        """Pass each message of the channel to `hear`, until the connection ends."""
        assert self._listening is not None
        try:
            async with aclosing(self._listening.push_messages) as messages:
                async for message in messages:
                    match message:
                        case [b"message", bytes(), bytes(said)]:
                            hear(said)
                        case [b"subscribe" | b"unsubscribe", *_]:
                            pass
                        case _:
                            return self.fail("it sends an invalid message")
                    self._listening.heard()
        except Lost as error:
            self.fail(why(error))
        self.fail("the subscription ended")

    async def _open(self, nursery: trio.Nursery) -> None:
        """Raises: StoreUnreachable, and whatever coredis raises."""
        opened, primaries = [], []
        context = ssl.create_default_context(cafile=self.address.ca) if self.address.tls else None
        for listens in (False, True):
            stream = await open_stream(self.address, context)
            opened.append(CoredisConnection(self.address, stream, listens=listens))
            await nursery.start(self._hold, opened[-1])
            info = [await opened[-1].create_request(b"INFO", section, decode=False) for section in SECTIONS]
            primaries.append(_primary_of(info))
        self._commanding, self._listening = opened
        self.primary = primaries[0]
        if primaries[1] != self.primary:
            raise StoreUnreachable("two connections reach two servers")

    async def _hold(self, connection: CoredisConnection, task_status: trio.TaskStatus[None]) -> None:
        await connection.run(task_status=task_status)
        self.fail("the connection ended" if connection.problem is None else why(connection.problem))


def _primary_of(info: list[Any]) -> str:
    """The identity of a writable server, from its answers to INFO. Raises: StoreUnreachable."""
    facts = dict[str, str]()
    for answer in info:
        if not isinstance(answer, bytes):
            raise StoreUnreachable("it does not answer INFO")
        lines = (line.partition(":") for line in answer[:MAX_FACTS_BYTES].decode(errors="replace").splitlines())
        facts.update({name: value for name, _, value in lines})
    if facts.get("role", "master") != "master":
        raise StoreUnreachable("it is a replica, which cannot be written to")
    if not facts.get("run_id"):
        raise StoreUnreachable("its INFO has no run_id")
    return facts["run_id"][:16] + facts.get("master_replid", "")[:16]


def _word(word: bytes | str | int) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()
