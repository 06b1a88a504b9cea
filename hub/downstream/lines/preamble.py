"""Preamble and goodbye between `hubd connect` and the hub: lines that cannot be mistaken for JSON-RPC.

    {"hubd":1,"host":"...","upstream":"...",...}    the shim, before the host's own bytes: who connects
    {"hubd":1,"bye":"stopping"}                     the hub is about to stop, and asks for no more requests
    {"hubd":1,"bye":"understood"}                   the shim has sent its last request; the rest is for the next hub
    {"hubd":1,"lists":{}}                           the hub will say what its lists are
    {"hubd":1,"lists":{"toolsListChanged":"..."}}   digests of the lists that the host may see now, once it is known
                                                    where it works; each time that it was told of a change, after that

The goodbye goes only to shims with `"bye":true` in their preamble, the digests to those with `"lists":true`: after a
restart of the hub they tell their host of the lists that differ, and no others. Shims and hubs ignore members that
they do not know. A program that connects and speaks MCP at once is served too, without a name.
"""

from typing import Final

import msgspec
import trio
from msgspec import Struct

from hub.wire.vocabulary import SHIM_LINE

MAX_BYTES: Final = 4096
VERSION: Final = 1


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


_decode = msgspec.json.Decoder(Preamble).decode


def parse_preamble(line: bytes) -> Preamble | None:
    """Decode the preamble in `line`; None: it is something else.

    Raises:
        ValueError: it is one, but damaged or of another version.
    """
    if not line.startswith(SHIM_LINE):
        return None
    try:
        preamble = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"its first line cannot be read: {error}") from None
    if preamble.hubd != VERSION:
        raise ValueError(
            f"it speaks version {preamble.hubd} of the first line, this hub speaks {VERSION}; restart both"
        )
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
            return Preamble(), bytes(received)
        line, newline, rest = received.partition(b"\n")
        if newline:
            return parse_preamble(bytes(line)) or Preamble(), bytes(rest)
        if len(received) > MAX_BYTES:
            raise ValueError(f"its first line is longer than {MAX_BYTES} bytes")
        data = await stream.receive_some(MAX_BYTES)
        if not data:
            if received:
                raise ValueError("it ended within its first line")
            return Preamble(), b""
        received += data
