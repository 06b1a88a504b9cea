"""Handlers of log records: stderr, the counter of faults, and the log of this run.

A full stderr pipe would stop the whole daemon for good, so a record is written only if the descriptor
takes it now; dropped records are counted, and the number is said once the reader is back.
"""

import logging
import os
import select
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from hub.daemon.logs.forms import MaskingFormatter
from hub.daemon.logs.record_fields import fields_of
from hub.linux.peer_credentials import own_path
from hub.shim import start_daemon
from upstreams.journal.journal import Journal

OWN_NAME: Final = "hub"
"""The name of the hub's own log among those of its servers."""
IN_JOURNALS: Final = frozenset({"upstreams.transports.stdio.stderr"})
"""Loggers of what journals of servers have as well."""


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
        super().__init__()
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
        level, fields = record.levelname.lower(), fields_of(record)
        ref, about = fields.get("ref", ""), fields.get("upstream", "")
        add = partial(self.journal.add, level, self._form.whole(record), level=level, ref=ref, about=about)
        if self._token is None or threading.get_ident() == self._thread:
            add()
        else:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(add)


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
