"""A pair of connections to Redis or Valkey: one for commands, one that listens. The end of either ends both.

A connection that fails in any way is never used again, and a caller that stops waiting leaves its place in the queue to
the answer. So no answer is ever taken for that of another request.

Importing this module takes 0.2 s and 15 MB; only `cache.redis.store_link` does, in a thread and if a store is
configured.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final

import trio
from coredis.exceptions import ConnectionError as Lost

from cache.interfaces import StoreUnreachable
from cache.redis.coredis_connection import CoredisConnection, open_stream, refusal, tls_context, why
from cache.redis.url import StoreAddress

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

        Raises: CommandRefused, if the server refuses any of them; StoreUnreachable.
        """
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
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        for error in errors:
            if isinstance(error, Lost):
                self.fail(why(error))
                raise StoreUnreachable(why(error))
        for error in errors:
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
        opened, primaries, context = [], [], tls_context(self.address)
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
