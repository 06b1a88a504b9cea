"""HTTP/1.1 toward one upstream: h11 on trio streams, kept-alive connections, TLS by the system's trust store.

One request is one write of a prepared head and the body; the answer is read in the frame of whoever asked. What always
holds: a connection that goes back to the pool has carried a whole answer and nothing else; whatever ended otherwise, by
cancellation, by an error or by `discard`, was closed. Redirects are not followed and no content coding is accepted.

Deadlines are the caller's; only connecting and a stalled write are bounded here.
"""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import Final, Self

import trio
from trio.lowlevel import checkpoint

from hub.link import hub_errors
from hub.link.channel import gather
from hub.link.memory_budget import FREE_BYTES, Account
from hub.wire.http.request_parser import HeadParser
from upstreams.session_contract import Credential, RenewedHeaders
from upstreams.transports.connect_to_url import CONNECT_S, CannotConnect, Url
from upstreams.transports.http import response_parser, tcp_connection
from upstreams.transports.http.request_credentials import NOT_LET_IN, RequestCredentials
from upstreams.transports.http.response_parser import MalformedResponse, ResponseChunks, ResponseHead
from upstreams.transports.http.tcp_connection import ClientConnection, Died

KEPT_IDLE_S: Final = 4.0
"""Time that a connection may lie idle when its server does not say. Many close after 5 s, and a call that meets the
close halfway may not be repeated."""
KEPT_IDLE_MAX_S: Final = 60.0
KEPT_CONNECTIONS: Final = 128
MAX_INFORMATIONAL: Final = 8
MAX_BODY_BYTES: Final = 8 << 20
MAX_RECEIVE_BYTES: Final = 1 << 20
"""Bytes of a large answer that are read at once."""
PIECE_BYTES: Final = 32 << 10
"""Bytes of a chunked body that are decoded at once."""

log = logging.getLogger(__name__)


class HttpReply:
    """An answer whose head has come. Read it to its end, or leave the `with` block: then its connection is closed."""

    def __init__(
        self, client: "HttpClient", connection: ClientConnection, head: ResponseHead, length: int, rest: bytes
    ) -> None:
        self.status = head.status
        self.headers = head.headers
        self._client = client
        self._connection = connection
        self._rest = rest
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        """Bytes of the body that have been taken."""
        self.missing = length if head.framing == "sized" else -1
        """Bytes of a body of a given length that have not been taken; -1: its length is not known."""
        self._chunks = ResponseChunks() if head.framing == "chunked" else None
        self._done = False
        self.held = 0
        """Bytes that the account of the client holds for this answer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._done:
            self.discard()
        elif self.held:  # the connection of an answer that came whole may serve others already
            self.hold(0)

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read(self, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
        """The whole body.

        Raises:
            UpstreamLost: the connection ended before the body did.
            ResultTooLarge: it is larger than `limit_bytes`.
            Overloaded: there is no room for it.
            UpstreamProtocolError: it is malformed.
        """
        body = self.begin_body(limit_bytes)
        while body is None:
            body = self.add(await self._more())
        return body

    @property
    def piece_bytes(self) -> int:
        """Bytes of the connection to take at once."""
        most = max(self.missing, tcp_connection.RECEIVE_BYTES)
        return PIECE_BYTES if self._chunks is not None else min(most, MAX_RECEIVE_BYTES)

    @property
    def takes_time(self) -> bool:
        """True if more chunks have come with the head than are decoded at once."""
        return self._chunks is not None and len(self._rest) > PIECE_BYTES

    def begin_body(self, limit_bytes: int = MAX_BODY_BYTES) -> bytes | None:
        """Begin to take the whole body without waiting, as `read`; the body, if it came with the head, None: `add` the
        rest. Raises: as `read`."""
        if self.missing > limit_bytes:
            raise self._too_large(limit_bytes)
        self._limit = limit_bytes
        if self._done:
            return b""
        if not self._rest or self.takes_time:
            return None
        data, self._rest = self._rest, b""
        return self._take(data) if len(data) == self.missing else self.add(data)

    def add(self, data: bytes) -> bytes | None:
        """Take more of a body that was begun; none: the peer has closed. The whole body, once it is there. Raises: as
        `read`."""
        piece = self._take(data) if data else self._close()
        self._size += len(piece)
        if self._size > self._limit:
            raise self._too_large(self._limit)
        gather(self._parts, piece)
        if self._done:
            if self.held:
                self.hold(0)
            return b"".join(self._parts)
        if self._size > FREE_BYTES:
            self.hold(self._size)
        return None

    def _close(self) -> bytes:
        """End a body of no given length: the peer has closed. Raises UpstreamLost: there should be more."""
        self.discard()
        if self.missing >= 0 or self._chunks is not None:
            raise self._client.answer_lost()
        return b""

    async def receive(self) -> bytes:
        """The next piece of the body; empty at its end. Raises UpstreamLost, UpstreamProtocolError: as `read`."""
        while not self._done:
            data = await self._more()
            if data := self._take(data) if data else self._close():
                return data
        return b""

    async def _more(self) -> bytes:
        """The next bytes of the connection, of a chunked body not many; none: the peer has closed."""
        data, self._rest = self._rest, b""
        if not data:
            self._connection.acknowledge()
            data = await self._connection.receive(self.piece_bytes)
        if self._chunks is not None and len(data) > PIECE_BYTES:
            data, self._rest = data[:PIECE_BYTES], data[PIECE_BYTES:]
            await checkpoint()  # chunks may be as small as an event
        return data

    def discard(self) -> None:
        """Give up on the rest of the body: closes the connection, which tells a modern upstream to stop."""
        if not self._done:  # else the connection may serve others already
            self._done = True
            self._client.drop(self._connection)
        if self.held:
            self.hold(0)

    def hold(self, size: int) -> None:
        """Count `size` bytes of this answer, those beyond `FREE_BYTES`, in place of what was counted before. Raises
        Overloaded: there is no room; the connection is closed and nothing is counted."""
        account, name = self._client.account, self._client.name
        if account is None:
            return
        more = max(0, size - FREE_BYTES) - self.held
        if more > 0 and not account.take(more, trio.current_time()):
            self.__exit__()
            log.info("%s sent more than there is room for (global_buffer_bytes): an answer was dropped", name)
            text = f"{name} has answered, but the hub holds too much to take it; try again in a moment"
            raise hub_errors.Overloaded(text, upstream=name, executed=hub_errors.Executed.YES)
        if more < 0:
            account.give(-more)
        self.held += more

    def _take(self, data: bytes) -> bytes:
        """`data` of the connection as data of the body."""
        if self._chunks is not None:
            try:
                data = self._chunks.feed(data)
            except MalformedResponse as error:
                self.discard()
                raise self._client.protocol_error(error) from None
            if self._chunks.complete:
                if self._rest:
                    raise self._more_than_one()
                self._finish()
        elif self.missing >= 0:
            if len(data) > self.missing:
                raise self._more_than_one()
            self.missing -= len(data)
            if not self.missing:
                self._finish()
        return data

    def _more_than_one(self) -> hub_errors.UpstreamProtocolError:
        self.discard()
        return self._client.protocol_error("it sent more than one answer to one request")

    def _finish(self) -> None:
        self._done = True
        self._client.give_back(self._connection)

    def _too_large(self, limit_bytes: int) -> hub_errors.ResultTooLarge:
        self.discard()
        text = f"The answer of {self._client.name} has more than {limit_bytes} bytes, which is too large; ask for less"
        return hub_errors.ResultTooLarge(text, upstream=self._client.name)


class BegunRequest:
    """A request that was sent on a kept connection, and what has come of its answer: bytes, or a reply."""

    __slots__ = ("connection", "is_whole", "pieces", "received", "reply", "sent", "shown", "within")

    def __init__(
        self,
        connection: ClientConnection,
        pieces: tuple[bytes, ...],
        sent: int,
        shown: tuple[Mapping[str, str], str] | None,
    ) -> None:
        self.connection = connection
        self.pieces = pieces
        self.sent = sent
        """Bytes of `pieces` that were sent at once."""
        self.is_whole = sent == sum(map(len, pieces))
        """All of it was."""
        self.shown = shown
        """The fields in it that may change."""
        self.received = b""
        self.reply: HttpReply | None = None
        self.within: object = None
        """A note of the sender: the session of the server in which it was sent."""

    async def finish(self, client: "HttpClient") -> HttpReply:
        """The reply, once its head is there. Raises Died, MalformedResponse."""
        if not self.is_whole:
            await self.connection.send_rest(self.pieces, self.sent)
        return self.reply or await client.receive_reply(self.connection, self.received)


@dataclass(eq=False, repr=False)
class HttpClient:
    """Requests to one origin, on behalf of the upstream `name`. Opens connections as needed and keeps some. Raises
    ValueError: a header that cannot be sent; the text does not repeat its value."""

    name: str
    url: Url
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request; those that are the hub's own to set are left out."""
    _: KW_ONLY
    tls: ssl.SSLContext | None = None
    connect_s: float = CONNECT_S
    """Time limit for connecting."""
    account: Account | None = None
    """Counts answers while they are read."""
    renewed_headers: RenewedHeaders | None = None
    """Gives other headers when these are refused (401), which are sent with the request once more."""
    credential: Credential | None = None
    """An Authorization that may change with each request: what was refused is sent once more."""

    def __post_init__(self) -> None:
        self._fields = RequestCredentials(self.name, self.url, self.headers, self.renewed_headers, self.credential)
        self._idle: list[ClientConnection] = []
        self._active: set[ClientConnection] = set()
        self._parser = HeadParser(response_parser.read_response)
        self._closed = False

    async def request(
        self,
        method: str,
        headers: bytes = b"",
        body: bytes | None = None,
        *,
        target: str | None = None,
        resend: bool = False,
        renews: bool = True,
        begun: BegunRequest | None = None,
    ) -> HttpReply:
        """Send a request, return when the head of its answer has come.

        `headers` are whole lines, each with its CRLF. `resend`: the request may be sent again when a kept connection
        turns out to be dead; else only if not a byte of it was taken. `renews`: it may be sent again with other headers
        when these are refused, which executed nothing. `begun`: it was sent already, by `begin`.

        Raises:
            UpstreamUnavailable: no connection, nothing sent.
            UpstreamLost: the connection ended before an answer came.
            UpstreamProtocolError: what came is not one HTTP/1.1 response, or has a content coding.
            UpstreamUnauthorized: it was refused, and the credential is none any more.
        Cancellation: closes the connection.
        """
        fields = self._fields
        if begun is None:
            credential = fields.credential
            if credential is not None and (credential.authorization is not fields.shown or credential.due < inf):
                await fields.refresh(credential)
            pieces, sent = self._message(method, headers, body, target), fields.current() if fields.may_change else None
        else:
            pieces, sent = begun.pieces, begun.shown
        while True:
            connection = begun.connection if begun is not None else self._reuse() or await self._connect()
            if begun is None:  # else `begin` has added it, and an empty answer may have given it back
                self._active.add(connection)
            try:
                if begun is not None:
                    sending, begun = begun, None
                    reply = await sending.finish(self)
                else:
                    await connection.send(*pieces)
                    reply = await self.receive_reply(connection)
                if reply.status not in NOT_LET_IN or sent is None:
                    return reply
                break
            except Died as died:
                self.drop(connection)
                if self._closed or died.answered or not connection.used or (died.sent and not resend):
                    if died.sent:
                        raise self.answer_lost() from None
                    text = f"The connection to {self.name} broke; nothing was sent"
                    raise hub_errors.UpstreamUnavailable(text, upstream=self.name) from None
            except MalformedResponse as error:
                self.drop(connection)
                raise self.protocol_error(error) from None
            except BaseException:
                self.drop(connection)
                raise

        try:
            replaced = await fields.replace(reply.status, reply.headers, sent, body or b"", again=not renews)
        except BaseException:
            reply.discard()
            raise
        if not replaced or not renews:
            return reply
        reply.discard()
        return await self.request(method, headers, body, target=target, resend=resend, renews=False)

    @property
    def can_begin(self) -> bool:
        """True if `begin` may do."""
        return bool(self._idle) and self._idle[-1].is_plain

    def begin(self, headers: bytes, body: bytes) -> BegunRequest | None:
        """Send a POST on an idle connection at once; `request` takes the answer. None: there is no such connection, or
        something is to be waited for first; nothing was sent."""
        fields = self._fields
        credential = fields.credential
        if credential is not None and (
            credential.authorization is not fields.shown or credential.due <= trio.current_time()
        ):
            return None
        pieces = self._message("POST", headers, body, None)
        while (connection := self._fit()) is not None:
            try:
                sent = connection.write(pieces)
            except Died:
                connection.close()
                continue
            self._active.add(connection)
            return BegunRequest(connection, pieces, sent, fields.current() if fields.may_change else None)
        return None

    def _message(self, method: str, headers: bytes, body: bytes | None, target: str | None) -> tuple[bytes, ...]:
        fields = self._fields
        prefix = fields.prefixes.get((method, target or "")) or fields.prefix(method, target or "")
        if body is None:
            return prefix, headers, b"\r\n"
        return prefix, headers, b"Content-Length: %d\r\n\r\n" % len(body), body

    def sweep(self) -> None:
        """Close idle connections that are past their time or were closed by the server."""
        now = trio.current_time()
        for connection in self._idle:
            if not connection.usable(now):
                connection.close()
        self._idle = [connection for connection in self._idle if not connection.closed]

    def close(self, *, abort: bool = True) -> None:
        """Open no more connections and close those there are. Idempotent.

        With `abort` requests still running end with `UpstreamLost`, else they may finish.
        """
        self._closed = True
        for connection in (*self._idle, *(self._active if abort else ())):
            connection.close()
        self._idle.clear()

    # --- for replies and readers --------------------------------------------------------------------------------------

    def give_back(self, connection: ClientConnection) -> None:
        """The exchange on `connection` is complete."""
        self._active.discard(connection)
        if self._closed or connection.expires_at <= 0 or len(self._idle) >= KEPT_CONNECTIONS:
            connection.close()
            return
        connection.expires_at += trio.current_time()
        connection.used = True
        self._idle.append(connection)

    def drop(self, connection: ClientConnection) -> None:
        """`connection` is not to be used again."""
        self._active.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.close()

    def protocol_error(self, why: object) -> hub_errors.UpstreamProtocolError:
        return hub_errors.UpstreamProtocolError(f"The server {self.name} broke HTTP: {why}", upstream=self.name)

    def answer_lost(self) -> hub_errors.UpstreamLost:
        text = f"The connection to {self.name} ended before its answer was complete; whether it acted is unknown"
        return hub_errors.UpstreamLost(text, upstream=self.name)

    # --- one exchange -------------------------------------------------------------------------------------------------

    async def receive_reply(self, connection: ClientConnection, received: bytes = b"") -> HttpReply:
        """The answer to what was sent, of which `received` has come. Raises Died: the connection ended before;
        MalformedResponse."""
        received = received or await connection.receive()
        informational = 0
        while True:
            if not received:
                raise Died(sent=True, answered=False)
            end = response_parser.head_end(received)
            if not end:
                more = await connection.receive()
                if not more:
                    raise Died(sent=True, answered=True)
                received += more
            elif response_parser.is_informational(received):
                informational += 1
                if informational > MAX_INFORMATIONAL or received.startswith(b"101", 9):
                    raise MalformedResponse("it sent interim answers in place of an answer")
                received = received[end:] or await connection.receive()
            else:
                return self.reply_with(connection, received, end)

    def reply_with(self, connection: ClientConnection, received: bytes, end: int) -> HttpReply:
        """The answer whose head, of `end` bytes, has come. Raises MalformedResponse."""
        head, length = self._parser.parse(received[:end])
        if head.status in (204, 304):
            length = 0
        if head.headers.get("content-encoding", "identity").lower() != "identity":
            raise MalformedResponse("its answer is compressed, though only plain answers are accepted")
        if not head.reusable:
            connection.expires_at = 0.0
        elif head.keep_alive_s is None:
            connection.expires_at = KEPT_IDLE_S
        else:
            connection.expires_at = min(head.keep_alive_s - 1.0, KEPT_IDLE_MAX_S)
        reply = HttpReply(self, connection, head, length, received[end:])
        if head.framing == "sized" and not length:
            reply._take(received[end:])
        return reply

    # --- connections --------------------------------------------------------------------------------------------------

    def _reuse(self) -> ClientConnection | None:
        """The connection that was used last, if there is one fit for use; nobody else reads it."""
        connection = self._fit()
        if connection is not None:
            connection.detach()
        return connection

    def _fit(self) -> ClientConnection | None:
        """The connection that was used last, if there is one fit for use."""
        now = trio.current_time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable(now):
                return connection
            connection.close()
        return None

    async def _connect(self) -> ClientConnection:
        if not self._closed:
            try:
                connection = await tcp_connection.connect(self.url, self.tls, within_s=self.connect_s)
            except CannotConnect as error:
                text = f"The server {self.name} cannot be reached at {self.url.origin}: {error}"
                raise hub_errors.UpstreamUnavailable(text, upstream=self.name) from None
            if not self._closed:
                return connection
            connection.close()
        why = f"The connection to {self.name} was closed; nothing was sent"
        raise hub_errors.UpstreamUnavailable(why, upstream=self.name)
