"""The one line of an error that names its cause. Pure.

What a server said last is often a stack trace or the help of a package manager, and its last line the least telling.
"""

import re
from collections.abc import Sequence
from typing import Final

from hub.wire.printable import printable
from upstreams.journal.last_words import error_line

_MARKS: Final = re.compile(r"^[|+\s]+|^npm (?:ERR!|error) (?:(?:\d{3}|E[A-Z]+) )?\s*")
"""The marks before the text of a line: the frame of a group of tracebacks, the name of npm."""


def telling_line(lines: Sequence[str]) -> str:
    """The line that names the error, without the marks of a trace around it; else the last one with a word in it."""
    at = error_line(lines)
    found = lines[at] if at is not None else next((line for line in reversed(lines) if re.search(r"\w", line)), "")
    return _MARKS.sub("", found.strip())


def last_words(error: str) -> str:
    """An error as `last_error` of a status has it, on one line for a terminal: what happened, then the line of the
    server that names the cause."""
    first, *said = error.splitlines() or [""]
    telling = telling_line(said)
    return printable(f"{first}: {telling}" if telling and telling not in first else first)
