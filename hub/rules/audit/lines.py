"""Lines of the audit log, and the hashes that make a chain of them. Pure.

    {"t":"2026-11-22T09:17:00.123Z","n":41,"k":"begin", ... ,"h":"5c1f..."}

`h` is the SHA-256 of the `h` of the line before and of this line without it. Whoever edits, removes or moves a line
breaks the chain there. A file begins with the last `h` of the one before it, as `prev`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec

_HASH: Final = re.compile(rb'(\{.*),"h":"([0-9a-f]{64})"\}', re.S)
Draft = tuple[str, str, bool]
"""A record without its number: its time; its other members as JSON, without braces; and True if its call waits until it
is written, so that it is not to be written later."""


def draft(t: str, members: Mapping[str, object]) -> Draft:
    """A draft of these members, the kind `k` first."""
    return t, spell_members(members), False


def spell_members(members: Mapping[str, object]) -> str:
    """Members as JSON, without braces."""
    return msgspec.json.encode(members)[1:-1].decode()


def write_lines(drafts: Sequence[Draft], number: int, before: str) -> tuple[bytes, int, str]:
    """The lines of records, and the number and hash of the last one. `number` and `before` are those of the line before
    them; 0 and "": there is none."""
    lines = []
    for t, members, _ in drafts:
        number += 1
        text = f'{{"t":"{t}","n":{number},{members}'
        before = sha256(f"{before}{text}}}".encode()).hexdigest()
        lines.append(f'{text},"h":"{before}"}}\n')
    return "".join(lines).encode(), number, before


def hash_of(line: bytes, before: str) -> tuple[str, str]:
    """The hash that a line, without its end, says it has, and the one that it ought to have; "": it says none."""
    if (found := _HASH.fullmatch(line)) is None:
        return "", ""
    return found[2].decode(), sha256(before.encode() + found[1] + b"}").hexdigest()


class Stamps:
    """Times of day, in the form of records. Most are of the millisecond, or the second, of the one before."""

    def __init__(self) -> None:
        self._second = self._ms = -1
        self._seconds_text = self._text = ""

    def at(self, wall: float) -> str:
        """A time in seconds since 1970, in UTC."""
        ms = int(1000 * wall)
        if ms != self._ms:
            second = ms // 1000
            if second != self._second:
                self._second = second
                self._seconds_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._ms, self._text = ms, f"{self._seconds_text}.{ms % 1000:03d}Z"
        return self._text
