"""Answer reader: takes answers off one kept connection, for operations that were begun on it without a task.

    expect    the answer is a plain one: it is passed on, and the next operation may come
              it is anything else: the reader becomes the task that sees to it in the ordinary way
    stop      another request takes the connection

A reader belongs to the event loop and not to a session, for a session that ends by itself leaves the operations that it
has to their answers. It ends with its connection, which ends with the `HttpClient` at the latest.
"""

import logging
from typing import Protocol

import trio

from hub.link.hub_errors import HubError
from upstreams.transports.http.client import BegunRequest, HttpClient, HttpReply
from upstreams.transports.http.poster import JSON
from upstreams.transports.http.response_head import MalformedResponse, head_end, is_informational
from upstreams.transports.http.tcp_connection import ClientConnection

log = logging.getLogger(__name__)


class BegunCall(Protocol):
    """An operation that was sent on a kept connection, and may be over already."""

    @property
    def sent(self) -> BegunRequest: ...

    def take(self, body: bytes) -> bool:
        """Take the body of a plain answer. True: the operation is over; False: `carry_on` must follow."""

    def fail(self, error: HubError) -> None:
        """There is no answer."""

    async def carry_on(self) -> None:
        """See to the answer in the ordinary way, from what has come of it."""


def read_answer(client: HttpClient, call: BegunCall) -> None:
    """Have the answer of `call` read."""
    connection = call.sent.connection
    reader = connection.reader
    if isinstance(reader, AnswerReader) and call.sent.is_whole:
        reader.expect(call)
        return
    if reader is not None:
        reader.stop()
    connection.reader = reader = AnswerReader(client, connection, call)
    trio.lowlevel.spawn_system_task(reader.run)


class AnswerReader:
    """The reader of `connection`, on which `call` was sent."""

    def __init__(self, client: HttpClient, connection: ClientConnection, call: BegunCall) -> None:
        self._client = client
        self._connection = connection
        self._call: BegunCall | None = call
        self._scope = trio.CancelScope()

    def expect(self, call: BegunCall) -> None:
        """Take what comes next as the answer of `call`."""
        self._call = call

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        """Take answers until the connection is closed, or another request's."""
        with self._scope:
            while await self._take():
                pass
        if self._connection.reader is self:  # or they would hold each other
            self._connection.reader = None

    async def _take(self) -> bool:
        """Wait for one answer and take it; False: it was the last."""
        connection, call = self._connection, self._call
        received = b"" if call is not None and not call.sent.is_whole else await connection.receive()
        call, self._call = self._call, None
        if call is None:  # a connection that lies idle says nothing but that it ends
            self._client.drop(connection)
            return False
        try:
            return await self._pass_on(call, received)
        except Exception:  # others need the event loop
            log.exception("an answer of %s could not be passed on", self._client.name)
            if connection.reader is self:
                self._client.drop(connection)
            call.fail(self._client.protocol_error("the hub failed over its answer, as its log says"))
            return False

    async def _pass_on(self, call: BegunCall, received: bytes) -> bool:
        connection = self._connection
        try:
            reply = await self._receive_head(call.sent, received)
        except HubError as error:
            call.fail(error)
            return False
        if reply is None or reply.status != 200 or reply.content_type != JSON:
            connection.reader = None
            await call.carry_on()
            return False
        try:
            with reply:
                body = await reply.read()
        except HubError as error:
            call.fail(error)
            return False
        if not call.take(body):
            connection.reader = None  # it lies idle already, and somebody may use it
            await call.carry_on()
        return connection.reader is self and not connection.closed

    async def _receive_head(self, sent: BegunRequest, received: bytes) -> HttpReply | None:
        """The reply that begins with `received`; None: it is none, as the ordinary way will find."""
        connection = self._connection
        try:
            while received and not (end := head_end(received)):
                connection.acknowledge()
                if not (more := await connection.receive()):
                    break
                received += more
            sent.received = received
            if received and end and not is_informational(received):
                sent.reply = self._client.reply_with(connection, received, end)
        except MalformedResponse:
            sent.received = received
        return sent.reply
