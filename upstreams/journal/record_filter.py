"""Filters of records of journals: by their level, their time, and what they are about. Pure."""

from typing import Final

from msgspec import Struct

from upstreams.status_facts import JournalRecord

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Those of MCP, the least first. What has none counts as `info`."""


class RecordFilter(Struct, frozen=True):
    """The records that somebody wants to see."""

    level: str = ""
    """The least level; "": all."""
    since: float = 0.0
    """Wall time, in seconds since 1970."""
    ref: str = ""
    """The operation that they are about; "": all."""
    servers: frozenset[str] = frozenset()
    """The logs that they are in, or the servers that records of the hub are about; none: all."""

    def passes(self, record: JournalRecord) -> bool:
        """True if a record is wanted."""
        if record.at < self.since or (self.ref and record.ref != self.ref):
            return False
        if self.servers and self.servers.isdisjoint((record.name, record.about)):
            return False
        return not self.level or _rank(record.level) >= _rank(self.level)


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("info")


EVERY_RECORD: Final = RecordFilter()
