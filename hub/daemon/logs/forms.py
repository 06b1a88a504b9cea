"""Forms of log records as text."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from hub.daemon.logs.record_fields import fields_of
from hub.wire.printable import printable, printable_json

LINE_BYTES: Final = 4000
"""Below PIPE_BUF, so that a pipe that polls writable takes a whole line."""
_COLOURS: Final = {logging.DEBUG: 2, logging.WARNING: 33, logging.ERROR: 31, logging.CRITICAL: 31}


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

    def whole(self, record: logging.LogRecord) -> str:
        """Message and traceback, printable and on several lines."""
        text = printable(self.message(record)[:LINE_BYTES])
        error = self.traceback(record)
        return f"{text}\n{printable(error, keep=chr(10))}" if error else text


class JsonFormatter(MaskingFormatter):
    """One JSON object per record: time, level, logger, what it is about, message, error; the last two are cut so that
    it fits a line."""

    def format(self, record: logging.LogRecord) -> str:
        message, error = _sound(self.message(record)), _sound(self.traceback(record))
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **{name: _sound(self._mask(value)) for name, value in fields_of(record).items()},
        }
        room = LINE_BYTES // 2
        while True:  # escapes take up to six bytes a character, so the room for those is found by trying
            fields["message"] = message[:room]
            if error:
                fields["error"] = error[-room // 2 :]
            line = printable_json(msgspec.json.encode(fields).decode())
            if len(line.encode()) <= LINE_BYTES or not room:
                return line
            room = room * 3 // 4


class PlainFormatter(MaskingFormatter):
    """`12:34:56 warning  c7f3a9b2 message`, control characters escaped; the level in colour if wanted."""

    def __init__(self, mask: Callable[[str], str] = str, *, coloured: bool = False) -> None:
        super().__init__(mask)
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        level, text = f"{record.levelname.lower():8}", self.message(record)
        if self._coloured and (colour := _COLOURS.get(record.levelno)):
            level = f"\x1b[{colour}m{level}\x1b[0m"
        ref = fields_of(record).get("ref", "")
        line = f"{self.formatTime(record, '%H:%M:%S')} {level} {printable(f'{ref} {text}' if ref else text)}"
        if error := self.traceback(record):
            line += "\n" + printable(error, keep="\n")
        return line


def _sound(text: str) -> str:
    """`text` without lone surrogates, which no JSON can hold."""
    return text.encode(errors="backslashreplace").decode()
