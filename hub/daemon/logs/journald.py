"""Journal of systemd: records as native datagrams, with a field for each thing that they are about."""

import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from errno import EMSGSIZE
from typing import Final

from hub.daemon.logs.forms import MaskingFormatter
from hub.daemon.logs.record_fields import fields_of

SOCKET: Final = "/run/systemd/journal/socket"
_SHORT_BYTES: Final = 8_000
"""So much of a text fits into any datagram."""
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


class JournaldHandler(logging.Handler):
    """Sends records to the journal without ever waiting for it; what it does not take is counted, and the number said.

    Raises:
        OSError: there is no journal.
    """

    def __init__(self, mask: Callable[[str], str] = str, path: str = SOCKET) -> None:
        super().__init__()
        self._form = MaskingFormatter(mask)
        self._path = path
        self.dropped = 0
        if not os.access(path, os.W_OK):
            raise OSError(f"no journal listens at {path}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    def close(self) -> None:
        self._socket.close()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        if self.dropped and self._send(f"{self.dropped} log records dropped: the journal did not take them", 4, {}):
            self.dropped = 0
        about = {"HUBD_LOGGER": record.name}
        about |= {f"HUBD_{name.upper()}": value for name, value in fields_of(record).items()}
        self.dropped += not self._send(self._form.whole(record), _priority(record.levelno), about)

    def _send(self, text: str, priority: int, about: Mapping[str, str]) -> bool:
        """Send a record; False: it was not taken."""
        fields = {"PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "hubd", **about}
        for size in (None, _SHORT_BYTES):
            data = b"".join(_field(name, value) for name, value in ({"MESSAGE": text[:size]} | fields).items())
            try:
                self._socket.sendto(data, self._path)
            except OSError as error:
                if error.errno != EMSGSIZE:  # it is full, or being restarted
                    return False
            else:
                return True
        return False


def _priority(level: int) -> int:
    return next((priority for least, priority in _PRIORITIES if level >= least), 7)


def _field(name: str, value: str) -> bytes:
    """A field in the journal's native form; with its length, where it has several lines."""
    data = value.encode(errors="backslashreplace")
    if b"\n" not in data:
        return b"%b=%b\n" % (name.encode(), data)
    return b"%b\n%b%b\n" % (name.encode(), struct.pack("<Q", len(data)), data)
