"""Answers that no task waits for: `AnswerReader` takes them off one kept connection, for operations begun on it.

    expect    a plain answer comes, in however many pieces: it is passed on, and the next operation may come
              it is anything else: a task sees to it in the ordinary way, and the reader leaves the connection

Tasks belong to the event loop and not to a session, for a session that ends by itself leaves the operations that it has
to their answers. A reader ends with its connection, which ends with the `HttpClient` at the latest.
"""

import logging
from typing import Protocol

import trio

from hub.link.hub_errors import HubError
from upstreams.transports.http.client import BegunRequest, HttpClient, HttpReply
from upstreams.transports.http.poster import JSON
from upstreams.transports.http.response_parser import MalformedResponse, head_end, is_informational
from upstreams.transports.http.tcp_connection import RECEIVE_BYTES, ClientConnection

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
    if not isinstance(reader, AnswerReader):
        reader = AnswerReader(client, connection)
        connection.attach(reader, client)
    reader.expect(call)


class AnswerReader:
    """The reader of `connection`. Satisfies `tcp_connection.EventReader`."""

    __slots__ = ("_call", "_client", "_connection", "_reply")

    def __init__(self, client: HttpClient, connection: ClientConnection) -> None:
        self._client = client
        self._connection = connection
        self._call: BegunCall | None = None
        """The call that is to be answered next."""
        self._reply: HttpReply | None = None
        """Its answer, when the head has come, and not the whole body."""

    def expect(self, call: BegunCall) -> None:
        """Take what comes next as the answer of `call`."""
        self._call = call
        if not call.sent.is_whole:
            self.on_closed()

    def on_closed(self) -> None:
        """Have what will come no more, or cannot come yet, seen to in the ordinary way."""
        call, reply, self._call, self._reply = self._call, self._reply, None, None
        if call is not None:
            self._leave(call, reply)

    def on_event(self, hung_up: bool) -> None:
        connection, call, reply = self._connection, self._call, self._reply
        limit = RECEIVE_BYTES if reply is None else reply.piece_bytes
        if (received := connection.read(limit)) is None:
            return
        if call is None:  # a connection that lies idle says nothing but that it ends
            self._client.drop(connection)
            return
        self._call = self._reply = None
        try:
            self._take(call, reply, received)
        except HubError as error:
            call.fail(error)
        except Exception as error:  # noqa: BLE001 - others need the event loop
            self._fail(call, error)
        if (hung_up or len(received) == limit) and connection.reader is self:
            connection.heed(bytes=True)

    def _take(self, call: BegunCall, reply: HttpReply | None, received: bytes) -> None:
        """Take the beginning of an answer, or more of `reply`. Raises HubError: there is none."""
        if reply is not None:
            body = reply.add(received)
        else:
            sent = call.sent
            sent.received += received
            try:
                end = head_end(sent.received)
                if not end and received:
                    self._wait(call, None)
                    return
                if end and not is_informational(sent.received):
                    reply = sent.reply = self._client.reply_with(self._connection, sent.received, end)
            except MalformedResponse:  # as the ordinary way will find
                pass
            if reply is None or not is_plain(reply):
                self._leave(call)
                return
            body = reply.begin_body()
        if body is None:
            self._wait(call, reply)
        elif not call.take(body):
            self._leave(call)

    def _wait(self, call: BegunCall, reply: HttpReply | None) -> None:
        """Wait for the rest of an answer, or of its head."""
        self._call, self._reply = call, reply
        self._connection.acknowledge()

    def _leave(self, call: BegunCall, reply: HttpReply | None = None) -> None:
        """Leave the connection, which may lie idle already, and have an answer seen to in the ordinary way. `reply`:
        the connection was closed in the middle of this."""
        if self._connection.reader is self:
            self._connection.detach()  # now, for somebody may use it before the task begins
        trio.lowlevel.spawn_system_task(self._carry_on, call, reply)

    async def _carry_on(self, call: BegunCall, reply: HttpReply | None) -> None:
        try:
            if reply is None:
                await call.carry_on()
            else:
                reply.discard()
                call.fail(self._client.answer_lost())
        except Exception as error:  # noqa: BLE001 - others need the event loop
            self._fail(call, error)

    def _fail(self, call: BegunCall, error: Exception) -> None:
        log.error("an answer of %s could not be passed on", self._client.name, exc_info=error)
        if self._connection.reader is self:
            self._client.drop(self._connection)
        call.fail(self._client.protocol_error("the hub failed over its answer, as its log says"))


def is_plain(reply: HttpReply) -> bool:
    """True if the reply is an answer in one piece, and to take what has come of it takes no time."""
    return reply.status == 200 and reply.content_type == JSON and not reply.takes_time
