"""Messages over a WebSocket: each is one text message of the peer, in one frame or several.

Text is read as lines are: a break ends each message, and none stands within one, where JSON has it between tokens only.
So `LineReader` bounds and counts what arrives, as for a process. All else that may come is control frames.
"""

from contextlib import suppress
from typing import Final

import trio
from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from hub.link.channel import LineTooLong
from hub.link.line_channel import LineReader
from hub.link.memory_budget import Account
from hub.link.outbox import Outbox
from hub.link.peer import last_words
from hub.link.rate_limits import ReadPace
from hub.wire.jsonrpc import Wire, join
from hub.wire.printable import printable
from upstreams.fetch.connection import AnyStream, close

RECEIVE_BYTES: Final = 64 << 10
CLOSE_S: Final = 2.0
"""Time limit for the closing handshake."""
SHORT_BYTES: Final = 256
"""Pieces of messages that are shorter are read at a pace, as what nobody asked for is."""
MAX_UNREAD_BYTES: Final = 256 << 10
"""Bytes that a peer may leave unread and still have its pings answered."""


class FrameReader(trio.abc.ReceiveStream):
    """The text of a peer, a line for each message. Control frames are answered on the way."""

    def __init__(self, stream: AnyStream, frames: Connection, outbox: Outbox) -> None:
        self._stream = stream
        self._frames = frames
        self._outbox = outbox
        self._pace = ReadPace()
        self.heard_at = trio.current_time()
        """Time of the last bytes of the peer."""
        self.code: int = CloseReason.NORMAL_CLOSURE
        """The code to close with."""
        self.fault = ""
        """The peer's part in the end of the connection, as a clause."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Some text; none at the end. As much as one frame holds of what has come."""
        while True:
            for event in self._frames.events():
                if isinstance(event, TextMessage):
                    text = event.data.encode().replace(b"\n", b" ")
                    await (self._pace.turn if len(text) > SHORT_BYTES else self._pace.keep)(len(text))
                    if text := text + b"\n" if event.message_finished else text:
                        return text
                elif isinstance(event, Ping):
                    if self._outbox.queued_bytes <= MAX_UNREAD_BYTES:
                        self._outbox.put(self._frames.send(event.response()))
                    await self._pace.keep(len(event.payload))
                elif isinstance(event, Pong):
                    await self._pace.keep(len(event.payload))
                else:
                    self._note_end(event)
                    return b""
            if not (data := bytes(await self._stream.receive_some(RECEIVE_BYTES))):
                return b""
            self.heard_at = trio.current_time()
            self._frames.receive_data(data)

    def _note_end(self, event: object) -> None:
        """Note why nothing more is read: the peer closes, or sends what has no meaning here."""
        if isinstance(event, BytesMessage):
            self.code, self.fault = CloseReason.UNSUPPORTED_DATA, "sent a binary message, which MCP has not"
        elif isinstance(event, CloseConnection) and self._frames.state is ConnectionState.OPEN:
            self.code, self.fault = event.code, "broke the WebSocket protocol"
        elif isinstance(event, CloseConnection):
            why = f": {printable(event.reason)}" if event.reason else ""
            self.fault = f"closed the connection (code {int(event.code)}{why})"
            self.code = event.code

    async def aclose(self) -> None:
        """Close the connection at once."""
        close(self._stream)
        await trio.lowlevel.checkpoint()


class WebSocketChannel:
    """A `Channel` over a WebSocket. `close` is to be awaited at the end, however that came."""

    def __init__(self, stream: AnyStream, frames: Connection, outbox: Outbox, account: Account) -> None:
        self._stream = stream
        self._frames = frames
        self.outbox = outbox
        self.reader = FrameReader(stream, frames, outbox)
        self._lines = LineReader(self.reader, account=account)

    def send(self, message: Wire) -> None:
        """As `Channel.send`."""
        self._send(TextMessage(join(message).decode(errors="replace")))

    async def receive(self) -> bytes:
        """As `Channel.receive`."""
        try:
            return await self._lines.receive()
        except LineTooLong:
            self.reader.code = CloseReason.MESSAGE_TOO_BIG
            raise

    @property
    def queued_bytes(self) -> int:
        return self.outbox.queued_bytes

    def ping(self) -> None:
        """Have the peer show that it is there."""
        self._send(Ping())

    def _send(self, event: TextMessage | Ping) -> None:
        self.outbox.put(self._frames.send(event))

    async def close(self) -> None:
        """Say that the connection ends, unless half a message was left on it, wait a little until the peer closes it,
        and do so. Not cancelled."""
        outbox = self.outbox
        try:
            if outbox.delivered_bytes == outbox.accepted_bytes:
                with last_words(CLOSE_S), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._stream.send_all(self._frames.send(CloseConnection(self.reader.code)))
                    while await self._stream.receive_some(RECEIVE_BYTES):  # or a reset could overtake what was said
                        pass
        finally:
            close(self._stream)
