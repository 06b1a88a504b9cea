"""Channel of newline-framed messages: a reader that never copies twice, and an outbox."""

import os
import re
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Final, cast

import trio
from trio.lowlevel import wait_readable

from hub.link.channel import ChannelClosed, LineDropped, LineTooLong, fileno_of, gather
from hub.link.memory_budget import FREE_BYTES, NO_LIMIT, Account, Budget
from hub.link.outbox import Outbox
from hub.wire.excerpt_and_read_large_results import LARGE_BYTES
from hub.wire.jsonrpc import Wire

RECEIVE_BYTES: Final = 1 << 18
MAX_LINE_BYTES: Final = 8 << 20
EDGE_BYTES: Final = 256
"""Bytes kept of each end of a dropped line: the id of the message is there."""
BLANK_BYTES: Final = 4 << 10
BLANK_PAUSE_S: Final = 0.01
"""Pause in reading a peer that sent `BLANK_BYTES` of blank lines in a row."""
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")


@dataclass(eq=False, repr=False)
class LineReader:
    """Reads newline-framed messages from one stream, with a limit.

    Lines are cut from what was read one by one as they are asked for, so a read of many short lines costs no more at
    once than one of few long lines. The scan for the newline never starts over, so a 16 MB line costs one pass.
    `received` was read from the stream before. Bytes of an incomplete line beyond `FREE_BYTES` are held on `account`.
    """

    _stream: trio.abc.ReceiveStream
    _: KW_ONLY
    limit_bytes: int = MAX_LINE_BYTES
    received: InitVar[bytes] = b""
    account: Account = field(default_factory=lambda: Budget(NO_LIMIT).account())

    def __post_init__(self, received: bytes) -> None:
        self._held = 0
        self._dropping: tuple[bytes, bytes] | None = None
        """First and, so far, last bytes of the line that is being dropped."""
        self._dropped_bytes = 0
        """Length of that line so far."""
        self._descriptor = fileno_of(self._stream)
        self._begun: list[bytes | bytearray] = []
        """The parts of a line whose newline has not arrived."""
        self._begun_bytes = 0
        self._data = received
        self._at = 0
        """Offset in `_data` of the next line."""
        self._is_lost = False

    async def receive(self) -> bytes:
        """Wait for the next line, without its newline; blank lines are skipped.

        Raises:
            ChannelClosed: the stream ended; a last line without newline is dropped, never parsed.
            LineDropped: there was no room for a line; the lines after it can be read.
            LineTooLong: all lines before it have been returned; nothing more can be read.
        """
        while True:
            data, at = self._data, self._at
            end = data.find(b"\n", at)
            if end < 0:
                await self._fill()
                continue
            self._at = end + 1
            line = data[at:end]
            if self._dropping is not None:
                raise self._drop(line)
            if self._begun:
                line = self._finish(line)
            if len(line) > self.limit_bytes:
                raise self._too_long()
            if line and not line.isspace():
                return line
            self._at = cast(re.Match[bytes], _BLANK.match(data, self._at)).end()
            if self._at - at >= BLANK_BYTES:
                await trio.sleep(BLANK_PAUSE_S)

    async def _fill(self) -> None:
        """Read on; keep the incomplete line."""
        if self._at < len(self._data):
            self._keep(self._data[self._at :])
        self._data, self._at = b"", 0
        size = self._begun_bytes if self._dropping is None else self._dropped_bytes
        if self._is_lost or size > self.limit_bytes:
            raise self._too_long()
        data = await self._read()
        if not data:
            raise ChannelClosed
        self._data = data

    async def _read(self) -> bytes:
        """Some bytes; empty when the stream ended or was closed.

        A descriptor is waited for and then read: trio's streams read first, in vain for nearly every message.
        """
        descriptor = self._descriptor
        try:
            if descriptor is None:
                return bytes(await self._stream.receive_some(RECEIVE_BYTES))
            while (number := descriptor()) >= 0:
                await wait_readable(number)
                if descriptor() != number:  # closed in the same moment: the number may be another file by now
                    break
                try:
                    return os.read(number, RECEIVE_BYTES)
                except BlockingIOError:
                    continue
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        return b""

    def _keep(self, rest: bytes) -> None:
        """Keep the bytes of an incomplete line, if there is room; of a dropped line, keep the end."""
        if self._dropping is not None:
            begin, end = self._dropping
            self._dropping = begin, (end + rest)[-EDGE_BYTES:]
            self._dropped_bytes += len(rest)
            return
        gather(self._begun, rest)
        self._begun_bytes += len(rest)
        if self._held or self._begun_bytes > FREE_BYTES:
            self._hold()

    def _hold(self) -> None:
        """Hold the incomplete line on the account; drop the line if there is no room."""
        account, now = self.account, trio.current_time()
        more = max(0, self._begun_bytes - FREE_BYTES) - self._held
        if not self._held:
            account.sends.start_wait(now)
        if more > 0 and not account.take(more, now):
            begun = self._take_begun()
            self._dropping = begun[:EDGE_BYTES], begun[-EDGE_BYTES:]
            self._dropped_bytes = len(begun)
            more = -self._held
        if more < 0:
            account.give(-more)
        self._held += more
        if self._held:
            account.sends.on_moved(more, now)
        else:
            account.sends.end_wait()

    def _drop(self, rest: bytes) -> LineDropped | LineTooLong:
        """Make the exception for a dropped line, whose end is `rest`."""
        assert self._dropping is not None
        begin, end = self._dropping
        self._dropping = None
        if self._dropped_bytes + len(rest) > self.limit_bytes:
            return self._too_long()
        return LineDropped((begin, (end + rest)[-EDGE_BYTES:]))

    def _finish(self, rest: bytes) -> bytes:
        """Join a line that was begun in earlier reads with `rest`."""
        self._begun.append(rest)
        line = self._take_begun()
        if self._held:
            self._hold()
        return line

    def _take_begun(self) -> bytes:
        begun, self._begun, self._begun_bytes = self._begun, [], 0
        return b"".join(begun)

    def _too_long(self) -> LineTooLong:
        """Forget what was read: where the next line begins is unknown."""
        self._is_lost = True
        self._dropping = None
        self._data, self._at = b"", 0
        self._begun, self._begun_bytes = [], 0
        if self._held:
            self._hold()
        return LineTooLong()


class LineChannel:
    """A `Channel` of newline-framed messages over an `Outbox` and a `LineReader`: pipes and unix sockets."""

    def __init__(self, reader: LineReader, outbox: Outbox) -> None:
        self.reader = reader
        self.outbox = outbox
        self.receive = reader.receive
        self.flush = outbox.flush

    def send(self, message: Wire) -> None:
        if not isinstance(message, bytes):
            self.outbox.put(*message, b"\n")
            return
        assert message.find(b"\n") < 0, "a message for a newline-framed peer holds a newline"
        if len(message) > LARGE_BYTES:
            self.outbox.put(message, b"\n")
        else:
            self.outbox.put(message + b"\n")

    @property
    def queued_bytes(self) -> int:
        return self.outbox.queued_bytes
