"""Last words: of the lines that a process wrote before it ended, the one that names the error. Pure.

A stack trace ends with frames and braces (Node) or begins with them (Python), and package runners add where their log
is. The last line that looks like the name of an error is the one to read: of causes that follow each other it is the
first cause, of Python's chained tracebacks the error that ended the program.
"""

import re
from collections.abc import Sequence
from typing import Final

LINE_CHARS: Final = 1_000
"""The part of a line that is looked at."""
_BEFORE: Final = (
    r"^[\s|+>\u00d7\u2570\u2500\u25b6\u2514\u251c\u2502]*"  # frames of groups of tracebacks, marks of uv
    r"(?:\[[^\]]{1,40}\]:?\s*|\d[\d:.,TZ/ -]{7,30}\s+){0,3}"  # brackets of causes and loggers, a time
)
_NAMED: Final = re.compile(
    _BEFORE + r"(?:"
    r"(?:Uncaught |Unhandled )?[\w.$]*(?:Error|Exception|Exit|Interrupt|Fault|Timeout)(?: \[\w+\])?(?::| \(|$)"
    r"|(?:fatal|error|panic|critical|fatal error)(?:\[\w+\])?:|Caused by:|thread '.*' panicked at"
    r"|docker: |[\w./-]+: (?:command )?not found\b|.*: No such file or directory)",
    re.IGNORECASE,
)
_HINTS: Final = re.compile(
    r"\b(?:error|fatal|failed|cannot|can't|could not|unable to|not found|no such|missing|denied|"
    r"refused|invalid|required|unauthorized|unknown|usage)\b",
    re.I,
)
_FRAME: Final = re.compile(r"^\s*(?:at\s|File \"|\^+\s*$|[\]}),;|\s]*$)|\b(?:Base)?ExceptionGroup\b")
"""Lines that only lead to the error."""
_NPM: Final = re.compile(r"^npm (?:error|ERR!) (?!code |syscall |path |dest |errno |A complete log )(?:\d{3}  ?)?\S")
"""npm says the error first, then what to do about it, and where its log is."""
_MARKS: Final = re.compile(r"^[|+\s]+|^npm (?:ERR!|error) (?:(?:\d{3}|E[A-Z]+) )?\s*")
"""The marks before the text of a line: the frame of a group of tracebacks, the name of npm."""


def error_line(lines: Sequence[str]) -> int | None:
    """The number of the line that names the error; None: no line does."""
    heads = [line[:LINE_CHARS] for line in lines]
    if (by_npm := next((at for at, head in enumerate(heads) if _NPM.search(head)), None)) is not None:
        return by_npm
    for pattern in (_NAMED, _HINTS):
        for at in range(len(heads) - 1, -1, -1):
            if pattern.search(heads[at]) and not _FRAME.search(heads[at]):
                return at
    return None


def last_words(lines: Sequence[str], most: int) -> list[str]:
    """The last `most` lines; if the one that names the error is not among them, it takes the place of the first."""
    tail = list(lines[-most:])
    at = error_line(lines)
    if tail and at is not None and at < len(lines) - most:
        tail[0] = lines[at]
    return tail


def telling_line(lines: Sequence[str]) -> str:
    """The line that names the error, without the marks of a trace around it; else the last one with a word in it."""
    at = error_line(lines)
    found = lines[at] if at is not None else next((line for line in reversed(lines) if re.search(r"\w", line)), "")
    return _MARKS.sub("", found.strip())


def sum_error_up(error: str) -> str:
    """An error as `last_error` of a status has it, on one line: what happened, then the line of the server that names
    the cause."""
    first, *said = error.splitlines() or [""]
    telling = telling_line(said)
    return f"{first}: {telling}" if telling and telling not in first else first
