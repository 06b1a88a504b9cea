"""HTTP responses of gateways, read by hand in any pieces: JSON or events, of a length or in chunks."""


class CallFailed(Exception):
    """A request that was answered wrongly, by an error, or not at all."""


class Response:
    """The response to one request. `messages` are those that came since they were last taken."""

    def __init__(self) -> None:
        self.status = 0
        """0: its head is not whole yet."""
        self.session = ""
        self.is_done = False
        self.closes = False
        """No other request may follow on this connection."""
        self.messages: list[bytes] = []
        self._buffer = bytearray()
        """What is not understood yet: of the head, then of chunks."""
        self._body = bytearray()
        self._searched = 0
        """So much of `_body` holds no end of an event."""
        self._length: int | None = None

    @property
    def is_untouched(self) -> bool:
        """Nothing of it has come."""
        return not self.status and not self._buffer

    def feed(self, data: bytes) -> None:
        """Read these bytes, too. Raises CallFailed for what is no response."""
        if not self.status:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._read_head(bytes(self._buffer[: end + 2]))
            data = bytes(self._buffer[end + 4 :])
            self._buffer.clear()
            if self.status < 200:  # 100 Continue and the like
                self.status = 0
                return self.feed(data) if data else None
        if self._length is None:
            self._buffer += data
            self._read_chunks()
        else:
            self._body += data
            self.is_done = len(self._body) >= self._length
        if self._is_events:
            self._read_events()
        elif self.is_done and self._body:
            self.messages.append(bytes(self._body))

    def _read_head(self, head: bytes) -> None:
        if not head.startswith(b"HTTP/1.1 "):
            raise CallFailed("no HTTP response")
        lower = head.lower()
        self.status = int(head[9:12])
        self.closes = b"\r\nconnection: close\r\n" in lower
        self._is_events = b"\r\ncontent-type: text/event-stream" in lower
        is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in lower
        self._length = None if is_chunked else int(_field(head, lower, b"\r\ncontent-length:") or 0)
        self.session = _field(head, lower, b"\r\nmcp-session-id:").decode()

    def _read_chunks(self) -> None:
        at = 0
        while not self.is_done and (line := self._buffer.find(b"\r\n", at)) >= 0:
            size = int(self._buffer[at:line].partition(b";")[0], 16)
            end = line + 2 + size
            if len(self._buffer) < end + 2:
                break
            self.is_done = size == 0
            self._body += memoryview(self._buffer)[line + 2 : end]
            at = end + 2
        del self._buffer[:at]

    def _read_events(self) -> None:
        while True:
            ends = [(self._body.find(blank, self._searched), len(blank)) for blank in (b"\n\n", b"\r\n\r\n")]
            end, width = min((each for each in ends if each[0] >= 0), default=(-1, 0))
            if end < 0:
                self._searched = max(0, len(self._body) - 3)
                return
            lines = bytes(self._body[:end]).splitlines()
            del self._body[: end + width]
            self._searched = 0
            if data := b"\n".join(line[5:].lstrip() for line in lines if line.startswith(b"data:")):
                self.messages.append(data)


def _field(head: bytes, lower: bytes, name: bytes) -> bytes:
    at = lower.find(name)
    return head[at + len(name) : head.find(b"\r\n", at + 2)].strip() if at >= 0 else b""
