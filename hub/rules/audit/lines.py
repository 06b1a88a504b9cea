"""Lines of the audit log, and the hashes that make a chain of them. Pure.

    {"t":"2026-11-22T09:17:00.123Z","n":41,"k":"begin", ... ,"h":"5c1f..."}

`h` is the SHA-256 of the `h` of the line before and of this line without it. Whoever edits, removes or moves a line
breaks the chain there. A file begins with the last `h` of the one before it, as `prev`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec

MAX_SECONDS: Final = 256
"""Seconds whose text is kept."""
_HASH: Final = re.compile(rb'(\{.*),"h":"([0-9a-f]{64})"\}', re.S)
Draft = tuple[bytes, bytes, bool]
"""A record without its number: its time; its other members as JSON, without braces; and True if its call waits until it
is written, so that it is not to be written later."""


def draft(t: bytes, members: Mapping[str, object]) -> Draft:
    """A draft of these members, the kind `k` first."""
    return t, msgspec.json.encode(members)[1:-1], False


def write_line(found: Draft, number: int, before: str) -> tuple[bytes, str]:
    """The line of a record, and its hash. `before`: that of the line before it; "": there is none."""
    text = b'{"t":"%b","n":%d,%b' % (found[0], number, found[1])
    h = sha256(b"%b%b}" % (before.encode(), text)).hexdigest()
    return b'%b,"h":"%b"}\n' % (text, h.encode()), h


def hash_of(line: bytes, before: str) -> tuple[str, str]:
    """The hash that a line, without its end, says it has, and the one that it ought to have; "": it says none."""
    if (found := _HASH.fullmatch(line)) is None:
        return "", ""
    return found[2].decode(), sha256(before.encode() + found[1] + b"}").hexdigest()


class Stamps:
    """Times of day, in the form of records."""

    def __init__(self) -> None:
        self._seconds: dict[int, bytes] = {}

    def at(self, wall: float) -> bytes:
        """A time in seconds since 1970, in UTC."""
        second = int(wall)
        if (text := self._seconds.get(second)) is None:  # of most there was one before
            if len(self._seconds) >= MAX_SECONDS:
                self._seconds.clear()
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
            self._seconds[second] = text
        return b"%b.%03dZ" % (text, 1000 * (wall - second))
