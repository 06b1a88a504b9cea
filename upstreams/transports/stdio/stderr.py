"""Stderr of a process: its last lines, and the log, neither of which it can flood.

A line that is neither logged nor among the last costs nothing of its own: such lines are counted by the chunk. So a
flood of the shortest lines takes no more of the hub than one of the longest.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hub.link.rate_limits import TokenBucket
from hub.wire.printable import printable
from upstreams.journal.error_line import last_words

log = logging.getLogger(__name__)

STDERR_LINES: Final = 200
STDERR_LINE_CHARS: Final = 4_000
STDERR_RATE: Final = 100 << 10
STDERR_BURST: Final = 1 << 20
"""Bytes that may be logged in a second, and at once; each line costs its bytes and `RECORD_PRICE`."""
RECORD_PRICE: Final = 1 << 10
"""Bytes that a record costs beside its text: so about 100 short lines are logged in a second, and 1 000 at once."""
TURN: Final = 100
"""Lines that are logged before others have their turn."""
DROPPED_EVERY_S: Final = 10.0
"""Shortest interval at which it is said that lines were dropped."""


@dataclass(eq=False, repr=False)
class StderrLog:
    """Takes what was read by `feed`; then `log_lines` is called until it has nothing more to log.

    Empty lines are not lines. The last lines are kept as they came, and masked for who asks for them. `_hear` is told
    each line that is logged. If it returns True, the line repeats one of the last process, and `info` only counts it.
    """

    _name: str
    _mask: Callable[[str], str] = str
    _hear: Callable[[str], object] = lambda line: None

    def __post_init__(self) -> None:
        self._partial = b""
        self._last: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._untold = b""
        """Whole lines that have not been logged yet."""
        self._loggable = TokenBucket(STDERR_BURST, STDERR_RATE)
        self._said_dropped_at = float("-inf")
        self.dropped_lines = 0
        """Since that was said."""
        self._repeated_lines = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        lines, end, rest = (self._partial + data).rpartition(b"\n")
        self._partial = rest[:STDERR_LINE_CHARS]
        if not end or not (lines := _dense(lines)):
            return
        self._last.extend(_line(each) for each in lines.rsplit(b"\n", STDERR_LINES)[-STDERR_LINES:])
        self._untold = self._untold + b"\n" + lines if self._untold else lines

    def log_lines(self, now: float) -> bool:
        """Log the next lines, at most `TURN`; whether there are more. What the limit does not allow is dropped."""
        lines = self._untold.split(b"\n", TURN)
        self._untold = lines.pop() if len(lines) > TURN else b""
        for number, each in enumerate(lines):
            if not (line := _line(each)):
                continue
            if not self._loggable.take(now, len(line) + RECORD_PRICE):
                self.dropped_lines += len(lines) - number
                self._drop_untold()
                break
            if self.dropped_lines and now >= self._said_dropped_at + DROPPED_EVERY_S:
                self._say_dropped(now)
            text = self._show(line.decode(errors="replace"))
            repeated = self._hear(text) is True
            self._repeated_lines += repeated
            log.log(logging.DEBUG if repeated else logging.INFO, "%s: %s", self._name, text)
        return bool(self._untold)

    def end(self, now: float) -> None:
        """Nothing more comes: say what has not been said."""
        self._drop_untold()
        if self.dropped_lines:
            self._say_dropped(now)
        if self._repeated_lines:
            text = "%s: %d lines as of its last process; `hubd logs %s` shows them"
            log.info(text, self._name, self._repeated_lines, self._name)

    def tail(self, lines: int = 8) -> str:
        """The last lines, the unfinished one included; the one that names the error is among them."""
        kept = [each.decode(errors="replace") for each in (*self._last, self._partial) if each]
        return "\n".join(map(self._show, last_words(kept, lines)))

    def raw_tail(self) -> str:
        """The last lines as they came, secrets included: to be looked at, not to be shown."""
        return b"\n".join((*self._last, self._partial)).decode(errors="replace")

    def _drop_untold(self) -> None:
        if self._untold:
            self.dropped_lines += self._untold.count(b"\n") + 1
            self._untold = b""

    def _say_dropped(self, now: float) -> None:
        text = f"{self.dropped_lines} lines of its stderr were dropped: it writes more than is logged"
        log.info("%s: %s", self._name, text)
        self._hear(f"[{text}]")
        self._said_dropped_at = now
        self.dropped_lines = 0

    def _show(self, line: str) -> str:
        return printable(self._mask(line))


def _line(line: bytes) -> bytes:
    return line.strip(b"\r")[:STDERR_LINE_CHARS]


def _dense(lines: bytes) -> bytes:
    """`lines` without the empty ones. Each pass halves a row of them, so that there are few passes."""
    lines = lines.replace(b"\r\n", b"\n")
    while b"\n\n" in lines:
        lines = lines.replace(b"\n\n", b"\n")
    return lines.strip(b"\r\n")
