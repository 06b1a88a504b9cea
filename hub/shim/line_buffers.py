"""Buffers of lines in the shim's two directions, and of what is written to the host without ever waiting. Part of the
shim: imports next to nothing.

Toward the hub bytes are passed on as they come. An unfinished line is kept, and goes to the next hub from its
beginning. Toward the host lines are passed on whole, so that a hub which dies in the middle of one leaves no half
behind; except lines of more than a megabyte, which are not held in memory.
"""

import _socket
import os

from hub.linux.peer_credentials import own_path
from hub.shim.mini_jsonrpc import EDGE
from hub.shim.replay import Replay

CHUNK_BYTES, LARGE_CHUNK_BYTES = 1 << 16, 1 << 18
"""Sizes of one read: the larger, for which the system must find memory, follows a read that was full."""
PARSED_BYTES = 1 << 16
"""Of a longer line in several pieces only the ends are read, so that the pieces need not be joined; unless the shim has
to know what the hub says in it."""
WHOLE_BYTES = 1 << 20
"""Longer lines of the hub are passed on as they come."""
MAX_HOST_LINE_BYTES = 16 << 20
"""Longer lines of the host are not kept, since the hub does not take them."""
PIPE_BYTES = 4096
"""PIPE_BUF: a pipe that polls writable takes this much without blocking."""
FILE_KIND, PIPE_KIND, SOCKET_KIND = 0o170000, 0o010000, 0o140000
"""Bits of a file's mode; importing `stat` costs too much."""


def _front(pieces: list[bytes]) -> bytes:
    """The beginning of a line in pieces."""
    front = b""
    for piece in pieces:
        front += piece[: EDGE - len(front)]
        if len(front) == EDGE:
            break
    return front


class ToHub:
    """Bytes on their way to the hub: one chunk, and the beginning of the line that it continues.

    `broken`: the hub has received part of a line that is too long to be kept, so no other hub can continue it."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._data = b""
        self._sent = self._noted = 0
        self._begun: list[bytes] = []
        self._begun_bytes = 0
        self.broken = False

    def __bool__(self) -> bool:
        return self._sent < len(self._data)

    @property
    def within_line(self) -> bool:
        """True if the hub is in the middle of a line, so that only its rest may follow."""
        return bool(self) or bool(self._begun)

    def put(self, data: bytes, own: int = 0) -> None:
        """The next chunk, once the last one has left; its first `own` bytes are the shim's."""
        self._data = data
        self._sent, self._noted = 0, own

    def send(self, hub: _socket.socket) -> None:
        """Send what the hub takes now. Raises OSError: it takes nothing now (BlockingIOError), or ever."""
        data = self._data
        self._sent += hub.send(memoryview(data)[self._sent :] if self._sent else data, _socket.MSG_DONTWAIT)
        while (end := data.find(b"\n", self._noted, self._sent) + 1) > 0:
            self._complete(data[self._noted : end])
            self._noted = end
        if self._sent == len(data):
            self._keep(data[self._noted :])
            self.put(b"")

    def _keep(self, begun: bytes) -> None:
        if begun:
            self._begun.append(begun)
            self._begun_bytes += len(begun)
            if self._begun_bytes > MAX_HOST_LINE_BYTES:
                self._begun[1:] = [begun]
                self.broken = True

    def _complete(self, end: bytes) -> None:
        """The hub has received the line that ends so; note the useful parts of it."""
        if not self._begun:
            self._replay.sent(end)
            return
        begun, large = self._begun, self._begun_bytes > PARSED_BYTES
        self._begun, self._begun_bytes, self.broken = [], 0, False
        if large:
            self._replay.sent(b"".join((_front(begun), begun[-1][-EDGE:], end[-EDGE:])), whole=False)
        else:
            self._replay.sent(b"".join((*begun, end)))

    def take_unreceived(self) -> bytes:
        """The host's lines that the lost hub has not received in full, each from its beginning."""
        unsent = b"".join((*self._begun, self._data[self._noted :]))
        self._begun, self._begun_bytes = [], 0
        self.put(b"")
        return unsent


class ToHost:
    """Bytes from the hub that wait for the rest of their line."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._begun: list[bytes] = []
        self._begun_bytes = 0
        self._passing = b""
        """The beginning of the line that is passed on as it comes."""

    def pass_on(self, data: bytes) -> list[bytes]:
        """The bytes that the host gets after `data`."""
        pieces: list[bytes] = []
        if self._begun or self._passing:
            end = data.find(b"\n") + 1
            if end:
                self._complete(data[:end], pieces)
                data = data[end:]
            elif self._passing:
                return [data]
        end = data.rfind(b"\n") + 1
        if end and (said := self._replay.on_hub_lines(data[:end])):
            pieces.append(said)
        if end < len(data):
            self._wait(data[end:], pieces)
        return pieces

    def _complete(self, end: bytes, pieces: list[bytes]) -> None:
        """The end of the line that waits, or is being passed on."""
        large = self._begun_bytes > PARSED_BYTES
        if self._passing:
            self._replay.on_hub_lines(self._passing)
            pieces.append(end)
        elif large and not self._replay.reads(front := _front(self._begun)):
            first = front + b"\n"
            said = self._replay.on_hub_lines(first)
            pieces += (*self._begun, end) if said is first else (said,)
        else:
            pieces.append(self._replay.on_hub_lines(b"".join((*self._begun, end))))
        self._begun, self._begun_bytes, self._passing = [], 0, b""

    def _wait(self, begun: bytes, pieces: list[bytes]) -> None:
        self._begun.append(begun)
        self._begun_bytes += len(begun)
        if self._begun_bytes > WHOLE_BYTES:
            self._passing = _front(self._begun) + b"\n"
            pieces += self._begun
            self._begun, self._begun_bytes = [], 0

    def end_of_line(self) -> bytes:
        """The end of a line that will never be completed: hosts skip a line that they cannot read."""
        passing, self._passing = self._passing, b""
        self._begun, self._begun_bytes = [], 0
        return b"\n" if passing else b""


class Outlet:
    """The host's standard input as the shim writes it, without ever waiting.

    The descriptor itself stays in blocking mode, since the host may share it. A pipe is opened again, which gives it a
    mode of its own; a socket gets a flag with each write."""

    def __init__(self, stdout: int) -> None:
        self.descriptor = stdout
        self.never_waits = False
        """False: `write` may be called only if the descriptor polls writable."""
        self._socket: _socket.socket | None = None
        kind = os.fstat(stdout).st_mode & FILE_KIND
        if kind == SOCKET_KIND:
            self._socket = _socket.socket(fileno=os.dup(stdout))
            self.never_waits = True
        elif kind == PIPE_KIND:
            try:
                self.descriptor = os.open(own_path(stdout), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                self.never_waits = True
            except OSError:  # another user's, or without a reader
                pass
        self._at_once = LARGE_CHUNK_BYTES if self.never_waits else PIPE_BYTES

    def write(self, data: bytes | memoryview) -> int:
        """Write; the number of bytes taken, at least one if the descriptor polls writable. Raises OSError: none is
        taken now (BlockingIOError), or nobody reads."""
        if self._socket is not None:
            return self._socket.send(data, _socket.MSG_DONTWAIT)
        return os.write(self.descriptor, data if len(data) <= self._at_once else memoryview(data)[: self._at_once])


def say(text: str) -> None:
    """Print a sentence on standard error, which the host logs."""
    from hub.wire.printable import printable

    try:  # noqa: SIM105  (importing contextlib would cost more than all of this)
        os.write(2, f"hubd connect: {printable(text.rstrip(), keep=chr(10))}\n".encode(errors="backslashreplace"))
    except OSError:
        pass
