"""The one line of an error that names its cause. Pure.

What a server said last is often a stack trace or the help of a package manager, and its last line the least telling.
"""

import re
from collections.abc import Sequence
from typing import Final

from hub.wire.printable import printable

_NOISE: Final = re.compile(
    r"at .+[:(]\d+|File \".+\", line \d+|[\W_]*$|npm (ERR!|error) (code|path|errno|A complete log)\b"
)
"""Lines of a stack trace, lines without a letter, and what a package manager says about itself."""
_NPM: Final = re.compile(r"npm (?:ERR!|error) (?:\d{3}|E[A-Z]+)? *(\S.*)")
_NAMED: Final = re.compile(r"(?:[\w.]*(?:Error|Exception|Panic)|panic|fatal)(?: \[\w+\])?: *\S", re.I)
"""An error by its name, with a text of its own."""
_TELLING: Final = re.compile(
    r"\b(error|fatal|fail(s|ed|ure)?|cannot|can't|could not|unable|not found|no such|denied|refused|missing|required|"
    r"invalid|unknown|unauthorized|usage)\b",
    re.I,
)


def telling_line(lines: Sequence[str]) -> str:
    """The line that names the error, without the marks of a trace around it; "" if there is none with a word in it."""
    plain = [line.strip().lstrip("|+ ") for line in lines]
    plain = [line for line in plain if line and not _NOISE.match(line)]
    if npm := next((found[1] for line in plain if (found := _NPM.match(line))), None):
        return npm
    for pattern in (_NAMED, _TELLING):
        if named := [line for line in plain if pattern.search(line)]:
            return named[-1]
    return plain[-1] if plain else ""


def last_words(error: str) -> str:
    """An error as `last_error` of a status has it, on one line for a terminal: what happened, then the line of the
    server that names the cause."""
    first, *said = error.splitlines() or [""]
    telling = telling_line(said)
    return printable(f"{first}: {telling}" if telling and telling not in first else first)
