"""Channel: a connection that carries whole messages to and from one peer, and the ways in which it fails."""

from typing import Protocol


class ChannelClosed(Exception):
    """The peer is gone, or its channel was closed."""


class OutboxFull(Exception):
    """The queue for the peer is full; nothing of this message was queued."""


class LineTooLong(Exception):
    """A line passed the limit before its newline; framing is lost."""


class LineDropped(Exception):
    """There was no room for a line, which was read to its end and dropped. `edges` are its first and last bytes."""

    def __init__(self, edges: tuple[bytes, bytes]) -> None:
        super().__init__("there was no room for a line")
        self.edges = edges


class Channel(Protocol):
    """A connection that carries whole messages to and from one peer."""

    def send(self, message: bytes) -> None:
        """Queue one message, without newline.

        Raises:
            ChannelClosed, OutboxFull: as `Outbox.put`.
        """
        ...

    async def receive(self) -> bytes:
        """Wait for the next message, not yet decoded.

        Raises:
            ChannelClosed, LineTooLong: as `LineReader.receive`.
        """
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes sent that the peer has not taken yet."""
        ...

    async def flush(self) -> None:
        """Wait until the kernel has taken everything sent."""
        ...
