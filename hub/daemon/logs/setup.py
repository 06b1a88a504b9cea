"""Log of a process: its handlers, and the levels that the configuration wants."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from config.settings import LogConfig
from hub.daemon.logs.forms import JsonFormatter, PlainFormatter
from hub.daemon.logs.handlers import OwnLog, StderrHandler
from hub.daemon.logs.record_fields import fields_of

OURS: Final = ("hubd", "hub", "upstreams", "cache", "config")
"""The loggers that may say more than usual: those of libraries show headers and addresses."""


class LevelFilter(logging.Filter):
    """Lets records pass by the level of the server that they are about, or else of their logger, or else of all."""

    def __init__(self) -> None:
        super().__init__()
        self.adjust(LogConfig())

    def adjust(self, config: LogConfig) -> None:
        """Take over other levels."""
        self._least = number_of(config.level)
        self._levels = {name: number_of(level) for name, level in config.levels.items()}

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._levels:
            return record.levelno >= self._least
        names = fields_of(record).get("upstream", ""), *_with_parents(record.name)
        least = next((self._levels[name] for name in names if name in self._levels), self._least)
        return record.levelno >= least


class HubLog:
    """The log of this process: all records go to stderr, in the form its reader can use, and to `own`, for `hubd
    logs`; `mask` takes secrets out of them."""

    def __init__(self, wall: Callable[[], float], mask: Callable[[str], str] = str) -> None:
        self.own = OwnLog(wall, mask)
        self._mask = mask
        self._levels = LevelFilter()

    def install(self) -> None:
        """Have all records come here, and nowhere else."""
        handlers: list[logging.Handler] = [_handler(self._mask, os.environ), self.own]
        for handler in handlers:
            handler.addFilter(self._levels)
        root = logging.getLogger()
        root.handlers[:] = handlers
        root.setLevel(logging.INFO)
        logging.raiseExceptions = False

    def adjust(self, config: LogConfig) -> None:
        """Take over other levels, at once."""
        self._levels.adjust(config)
        least = min(map(number_of, (config.level, *config.levels.values())))
        for name in OURS:
            logging.getLogger(name).setLevel(least)


def number_of(level: str) -> int:
    """The level of that name, as records have it."""
    return logging.getLevelNamesMapping()[level.upper()]


def _handler(mask: Callable[[str], str], environ: Mapping[str, str]) -> logging.Handler:
    if _is_journal(environ.get("JOURNAL_STREAM")):
        from hub.daemon.logs.journald import JournaldHandler  # not above: few hubs are a service

        with suppress(OSError):  # its socket is out of reach: lines on stderr are not
            return JournaldHandler(mask)
    handler = StderrHandler()
    coloured = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    handler.setFormatter(PlainFormatter(mask, coloured=coloured) if sys.stderr.isatty() else JsonFormatter(mask))
    return handler


def _is_journal(stream: str | None) -> bool:
    """True if stderr is the stream of the journal with this device and inode."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return stream == f"{found.st_dev}:{found.st_ino}"


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
