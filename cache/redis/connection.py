"""Two connections to a Redis or Valkey, from their making to the end of either: one asks, one listens.

Of coredis only its connections are used, not its client: they match answers to requests and speak TLS and RESP3, while
the client's pool, retries and re-subscriptions would hide what must be seen here (a slow server, a lost subscription).
A connection that fails in any way is never used again, so no answer is ever taken for that of another request; one who
gave up waiting leaves its place in the row to the answer (F-X-05). What comes is decoded in `cache.redis.replies`,
which believes nothing.

To import this module takes 0.2 s and 15 MB; only `cache.redis.member` does, in a thread and when a store is configured.
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
from coredis.connection import BaseConnection, TCPLocation
from coredis.exceptions import (
    AuthenticationFailureError,
    AuthenticationRequiredError,
    AuthorizationError,
    ReadOnlyError,
    WrongTypeError,
)
from coredis.exceptions import ConnectionError as Lost

from cache.redis.layout import Refused
from cache.redis.replies import ReplyParser
from cache.redis.url import StoreAddress
from cache.shared_store import Unreachable
from hub.link.wakeups import DirtyFlag
from hub.wire.printable import printable

logging.getLogger("coredis").setLevel(logging.CRITICAL + 1)  # it logs tracebacks of what is said here in a word

OPEN_S: Final = 3.0
"""How long it may take until both connections can be used."""
REASON_CHARS: Final = 200
STEP_BYTES: Final = 16 << 10
"""Read at a time from the connection that listens: messages may be as short as they like, and each costs a step."""
MAX_UNHEARD: Final = 256
"""Messages that have come and were not heard yet; as long as there are more, nothing is read."""
SECTIONS: Final = (b"server", b"replication")
"""Of INFO."""
MAX_FACTS_BYTES: Final = 64 << 10
"""Of each section that is read."""
_CODES: Final = {ReadOnlyError: "READONLY", AuthorizationError: "NOPERM", WrongTypeError: "WRONGTYPE"}


class ConnectionPair:
    """One life of two connections to the same primary."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.primary = ""
        """Which primary it is: the run of the server, and its replication id, which is another one each time that a
        server becomes a primary. After a failover and back the same server, in the same run, may have got deleted
        tokens back from the other one."""
        self._reason = ""
        self._scope = trio.CancelScope()
        self._asking: _Connection | None = None
        self._listening: _Connection | None = None

    def __repr__(self) -> str:
        return f"<ConnectionPair to {self.address}{', ' * bool(self._reason)}{self._reason}>"

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
                    self.fail("it is of no more use")
        return self._reason

    @property
    def _silence(self) -> str:
        tls = ", perhaps because it does not speak TLS (`rediss://`)" if self.address.tls else ""
        return f"no answer within {OPEN_S:g} s{tls}"

    def fail(self, reason: str) -> None:
        """End it; the first reason counts."""
        self._reason = self._reason or reason
        self._scope.cancel()

    async def ask(self, *command: bytes | str | int) -> Any:
        """The answer to one command, as coredis decodes RESP3: bytes, int, list, None.

        Raises: Refused; Unreachable.
        Cancellation: the command may or may not have been carried out.
        """
        (answer,) = await self.ask_each([command])
        return answer

    async def ask_each(self, commands: Iterable[Sequence[bytes | str | int]]) -> list[Any]:
        """As `ask`, for commands that are sent in one piece.

        Raises: Refused, if the server refuses any of them; Unreachable.
        """
        answers = await self.ask_all(commands)
        for answer in answers:
            if isinstance(answer, Refused):
                try:
                    raise answer
                finally:
                    del answer, answers  # or it and this frame would hold each other
        return answers

    async def ask_all(self, commands: Iterable[Sequence[bytes | str | int]]) -> list[Any]:
        """The answers to commands that are sent in one piece; what the server refuses is a `Refused` there.

        Raises: Unreachable.
        """
        if self._asking is None:
            raise Unreachable("there is no connection")
        try:
            requests = [
                self._asking.create_request(_word(command[0]), *command[1:], decode=False, raise_exceptions=False)
                for command in commands
            ]
            answers: list[Any] = [await request for request in requests]
        except Exception as error:  # noqa: BLE001  whatever coredis raises, the connection cannot be trusted
            self.fail(why(error))
            raise Unreachable(why(error)) from None
        return [self._judged(answer) for answer in answers]

    def _judged(self, answer: Any) -> Any:
        if isinstance(answer, Lost):
            self.fail(why(answer))
            raise Unreachable(why(answer))
        return _refusal(answer) if isinstance(answer, Exception) else answer

    async def check_primary(self) -> None:
        """Check that the server is still the same primary. Raises: Refused; Unreachable."""
        if _primary_of(await self.ask_each([(b"INFO", section) for section in SECTIONS])) != self.primary:
            raise Unreachable("a failover made it a primary anew")

    async def subscribe(self, channel: str) -> None:
        """Hear what is said in `channel` from now on. Raises: Refused; Unreachable."""
        connection = self._listening
        assert connection is not None
        try:
            connection.send_command(b"SUBSCRIBE", channel)
            # A subscription is agreed to out of row, refused in the row: in place of the answer to this.
            answer = await connection.create_request(b"PING", decode=False, raise_exceptions=False)
        except Exception as error:  # noqa: BLE001
            raise Unreachable(why(error)) from None
        self._judged(answer)
        if isinstance(answer, Exception):
            raise _refusal(answer)

    async def listen(self, hear: Callable[[bytes], None]) -> None:
        """Tell `hear` what others say in the channel, until the link ends."""
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
                            return self.fail("it sends a message that is none")
                    self._listening.heard()
        except Lost as error:
            self.fail(why(error))
        self.fail("the subscription ended")

    async def _open(self, nursery: trio.Nursery) -> None:
        """Raises: Unreachable, and whatever coredis raises."""
        context = _tls(self.address)
        opened, primaries = [], []
        for listens in (False, True):
            stream = await _stream(self.address, context)
            opened.append(_Connection(self.address, stream, listens=listens))
            await nursery.start(self._hold, opened[-1])
            info = [await opened[-1].create_request(b"INFO", section, decode=False) for section in SECTIONS]
            primaries.append(_primary_of(info))
        self._asking, self._listening = opened
        self.primary = primaries[0]
        if primaries[1] != self.primary:
            raise Unreachable("two connections reach two servers")

    async def _hold(self, connection: "_Connection", task_status: trio.TaskStatus[None]) -> None:
        await connection.run(task_status=task_status)
        self.fail("the connection ended" if connection.problem is None else why(connection.problem))


class _Connection(BaseConnection):
    """One of coredis over a stream that is there: one that cannot connect leaves streams of its own behind.

    One that does not listen is told nothing but answers; one that does is told no more than it can hear.
    """

    def __init__(self, address: StoreAddress, stream: ByteStream, *, listens: bool) -> None:
        password = address.password.reveal() if address.password is not None else None
        place = TCPLocation(str(address), address.port)  # to be shown only
        super().__init__(place, username=address.username, password=password, db=address.db)
        self._parser: Any = ReplyParser(lambda is_message: listens if is_message else bool(self._requests))
        self._paced = _Paced(stream, self._unheard if listens else None)
        self.heard = self._paced.go_on
        """To be called after each message: more may be read."""

    async def _connect(self) -> ByteStream:
        return self._paced

    def _unheard(self) -> int:
        return self._push_message_buffer_in.statistics().current_buffer_used

    @property
    def problem(self) -> BaseException | None:
        """What has ended it."""
        return self._last_error

    def describe(self) -> str:
        return f"<Connection to {self.location!r}>"


class _Paced(ByteStream):
    """A stream of which nothing is read while too many messages are `unheard`; None: there are none."""

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


async def _stream(address: StoreAddress, context: ssl.SSLContext | None) -> ByteStream:
    """Raises: OSError."""
    if not address.host:
        return await connect_unix(address.path)
    if context is None:
        return await connect_tcp(address.host, address.port)
    return await connect_tcp(address.host, address.port, ssl_context=context, tls_standard_compatible=False)


def _tls(address: StoreAddress) -> ssl.SSLContext | None:
    """Raises: OSError, for a file of certificates that cannot be read."""
    return ssl.create_default_context(cafile=address.ca) if address.tls else None


def _primary_of(info: list[Any]) -> str:
    """The identity of a server that can be written to, by its answers to INFO. Raises: Unreachable."""
    facts = dict[str, str]()
    for answer in info:
        if not isinstance(answer, bytes):
            raise Unreachable("it does not say what it is")
        lines = (line.partition(":") for line in answer[:MAX_FACTS_BYTES].decode(errors="replace").splitlines())
        facts.update({name: value for name, _, value in lines})
    if facts.get("role", "master") != "master":
        raise Unreachable("it is a replica, which cannot be written to")
    if not facts.get("run_id"):
        raise Unreachable("it does not say which run it is")
    return facts["run_id"][:16] + facts.get("master_replid", "")[:16]


def _refusal(error: Exception) -> Refused:
    """What the server said, with the code in front that coredis made a class of."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return Refused(code, why(error))
    code, _, text = why(error).partition(" ")
    return Refused(code, text)


def _word(word: bytes | str | int) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


def why(error: BaseException) -> str:
    """What went wrong, in a few words: the innermost cause."""
    while (inner := _cause(error)) is not None:
        error = inner
    if isinstance(error, EndOfStream | BrokenResourceError | ClosedResourceError):
        return "the connection ended"
    if isinstance(error, AuthenticationRequiredError):
        return "it asks for a password (cache.password)"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)  # without the address, which is named beside it
    text = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error) or type(error).__name__
    said = printable(" ".join(str(text)[: REASON_CHARS * 4].split()))[:REASON_CHARS].rstrip(".")
    return f"{said} (cache.password)" if isinstance(error, AuthenticationFailureError) else said


def _cause(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    return error.__cause__
