"""Log context: the subject of the log records of a task, so that modules log as ever and each record says what it is
about. A task has the subject of the task that started it, until it has one of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from msgspec import Struct


class LogSubject(Protocol):
    """The subject of log records: `hub.calls.chain.Intent` is one."""

    def log_fields(self) -> dict[str, str]:
        """The fields that tell it, by name: some of `upstream`, `ref`, `host`, `method`, `tool`, `trace_id`, `pid`."""


class UpstreamSubject(Struct, frozen=True):
    """An upstream, and its process, if it has one."""

    upstream: str
    pid: int | None = None

    def log_fields(self) -> dict[str, str]:
        """As `LogSubject`."""
        return {"upstream": self.upstream} | ({} if self.pid is None else {"pid": str(self.pid)})


_NINTH_DIGIT: Final = 1 << 32


def spell_ref(ref: int) -> str:
    """The number of an operation as people and records write it."""
    return hex(ref & 0xFFFFFFFF | _NINTH_DIGIT)[3:]  # in half the time of a format, since every call has records


SUBJECT: Final[ContextVar[LogSubject | None]] = ContextVar("log_subject", default=None)


@contextmanager
def log_about(subject: LogSubject) -> Iterator[None]:
    """Have records that are made within be about `subject`."""
    before = SUBJECT.set(subject)
    try:
        yield
    finally:
        SUBJECT.reset(before)
