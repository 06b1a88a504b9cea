"""Log records on stderr: plain lines for a person, JSON lines for a collector; never blocking the hub.

A full stderr pipe would stop the whole daemon for good, so a record is written only if the descriptor
takes it now; dropped records are counted, and the number is said once the reader is back.

Names of loggers: `hubd` or `hubd.<subject>`, which stay when modules move, for what users may filter by; `__name__` for
all else.
"""

import logging
import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
import trio

from hub.linux.socket_peers import own_path
from hub.shim import start_daemon
from hub.wire.printable import printable, printable_json
from upstreams.journal.journal import Journal

LINE_BYTES: Final = 4000
"""Below PIPE_BUF, so that a pipe that polls writable takes a whole line."""
OWN_NAME: Final = "hub"
"""The name of the hub's own log among those of its servers."""
IN_JOURNALS: Final = frozenset({"upstreams.transports.stdio.stderr"})
"""Loggers of what journals of servers have as well."""


class MaskingFormatter(logging.Formatter):
    """A form of records in which `mask` has taken secrets out of each text."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        super().__init__()
        self._mask = mask

    def message(self, record: logging.LogRecord) -> str:
        """The message of a record."""
        return self._mask(record.getMessage())

    def traceback(self, record: logging.LogRecord) -> str:
        """The traceback of a record; "": it has none."""
        return self._mask(self.formatException(record.exc_info)) if record.exc_info else ""


class JsonFormatter(MaskingFormatter):
    """One JSON object per record: time, level, logger, message, error; the last two are cut so that it fits a line."""

    def format(self, record: logging.LogRecord) -> str:
        message, error = _sound(self.message(record)), _sound(self.traceback(record))
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        room = LINE_BYTES // 2
        while True:  # escapes take up to six bytes a character, so the room for those is found by trying
            fields["message"] = message[:room]
            if error:
                fields["error"] = error[-room // 2 :]
            line = printable_json(msgspec.json.encode(fields).decode())
            if len(line.encode()) <= LINE_BYTES:
                return line
            room = room * 3 // 4


class PlainFormatter(MaskingFormatter):
    """`12:34:56 warning  message`, control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        text = self.message(record)
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():8} {printable(text)}"
        if error := self.traceback(record):
            line += "\n" + printable(error, keep="\n")
        return line


class StderrHandler(logging.Handler):
    """Writes to descriptor 2 without ever waiting for it. If that is the log file of a hub it goes on in a new one when
    it is large; a file that somebody else has chosen is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self._room = 0
        """Bytes that may be written before the size of the file is looked at."""
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        data = (self.format(record) + "\n").encode(errors="backslashreplace")
        try:
            if not any(events & select.POLLOUT for _, events in self._poll.poll(0)):
                self.dropped += 1
                return
            self._room -= len(data)
            if self._room < 0:
                self._make_room()
            if self.dropped:
                os.write(2, b"%d log records dropped: stderr was not read\n" % self.dropped)
                self.dropped = 0
            os.write(2, data)
        except OSError:  # stderr closed, or its disk full: work goes on without a log
            self.dropped += 1

    def _make_room(self) -> None:
        """Go on in a new file if this one is large. One that cannot be put aside is asked about again much later."""
        found = os.fstat(2)
        self._room = start_daemon.LOG_BYTES
        if stat.S_ISREG(found.st_mode) and found.st_size <= start_daemon.LOG_BYTES:
            self._room -= found.st_size
        elif stat.S_ISREG(found.st_mode):
            reopen(start_daemon.log_path())


class FaultCounter(logging.Handler):
    """Counts log records with a traceback: each is a fault of the hub's own, caught around a request or task."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.count += 1


class OwnLog(logging.Handler):
    """Keeps the last records of the hub's own log, for `hubd logs`. What servers wrote to stderr is in their journals.

    Records come from any thread; after `running_in` those of others are kept by the loop's own. `mask` takes secrets
    out of them."""

    def __init__(self, wall: Callable[[], float], mask: Callable[[str], str] = str) -> None:
        super().__init__(logging.INFO)
        self._form = MaskingFormatter(mask)
        self.journal = Journal(wall, OWN_NAME)
        self._thread = 0
        self._token: trio.lowlevel.TrioToken | None = None

    def running_in(self, token: trio.lowlevel.TrioToken) -> None:
        """The loop of `token` runs in this thread; whoever follows the journal waits there."""
        self._thread, self._token = threading.get_ident(), token

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in IN_JOURNALS:
            return
        text = printable(self._form.message(record)[:LINE_BYTES])
        if error := self._form.traceback(record):
            text += "\n" + printable(error, keep="\n")
        level = record.levelname.lower()
        add = partial(self.journal.add, level, text, level=level)
        if self._token is None or threading.get_ident() == self._thread:
            add()
        else:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(add)


def configure(mask: Callable[[str], str] = str) -> None:
    """Send all records of this process to stderr, in the form its reader can use; `mask` takes secrets out of them."""
    handler = StderrHandler()
    handler.setFormatter(PlainFormatter(mask) if sys.stderr.isatty() else JsonFormatter(mask))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False


def reopen(path: str) -> bool:
    """Go on writing in a new file at `path`, if the log is a file of that directory by now; whether it is."""
    try:
        current = os.readlink(own_path(2))
        if os.path.dirname(current) != os.path.dirname(path):
            return False
        both = (1, 2) if os.path.sameopenfile(1, 2) else (2,)
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return False
    for descriptor in both:
        os.dup2(new, descriptor)
    os.close(new)
    return True


def _sound(text: str) -> str:
    """`text` without lone surrogates, which no JSON can hold."""
    return text.encode(errors="backslashreplace").decode()
