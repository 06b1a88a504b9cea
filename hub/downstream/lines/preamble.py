"""The first line of a shim, before the host's own: who connects, and what it understands."""

from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Struct

from hub.wire.vocabulary import SHIM_LINE

VERSION: Final = 1
"""Of the lines between shims and the hub, see `hub.downstream.lines.server`."""

MAX_BYTES: Final = 4096


class Preamble(Struct, frozen=True, kw_only=True):
    """The host that connects. Labels, not credentials: any program of this user may claim any of them."""

    hubd: int = VERSION
    host: str = ""
    profile: str | None = None
    upstream: str | None = None
    bye: bool = False
    """True if the host understands a goodbye."""
    lists: bool = False
    """True if the host wants digests of lists."""
    cwd: str | None = None
    """Directory in which the host started the shim."""
    project: str | None = None
    """Directory that the host works in, if it is another."""

    @property
    def workplace(self) -> Path | None:
        """The directory that the host works in, as its shim knows it."""
        named = self.project or self.cwd
        return Path(named) if named else None


NOBODY: Final = Preamble()
"""Of a program that says nothing of itself."""
_decode = msgspec.json.Decoder(Preamble).decode


def parse_preamble(line: bytes) -> Preamble | None:
    """Decode the preamble in `line`; None: it is something else. Raises ValueError: it is one, but damaged or of
    another version."""
    if not line.startswith(SHIM_LINE):
        return None
    try:
        preamble = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"its first line cannot be read: {error}") from None
    if preamble.hubd != VERSION:
        said = f"it speaks version {preamble.hubd} of the first line"
        raise ValueError(f"{said}, this hub speaks {VERSION}; restart both")
    return preamble


async def read_preamble(stream: trio.abc.ReceiveStream) -> tuple[Preamble, bytes]:
    """The preamble of a new connection, or an empty one, and what was received beyond it.

    Raises:
        ValueError: as `parse_preamble`, or the line does not end within `MAX_BYTES`, or the stream ended within it.
        trio.BrokenResourceError: the peer is gone.
    Cancellation: what was received is lost.
    """
    received = bytearray()
    while True:
        if not SHIM_LINE.startswith(received[: len(SHIM_LINE)]):
            return NOBODY, bytes(received)
        line, newline, rest = received.partition(b"\n")
        if newline:
            return parse_preamble(bytes(line)) or NOBODY, bytes(rest)
        if len(received) > MAX_BYTES:
            raise ValueError(f"its first line is longer than {MAX_BYTES} bytes")
        data = await stream.receive_some(MAX_BYTES)
        if not data:
            if received:
                raise ValueError("it ended within its first line")
            return NOBODY, b""
        received += data
