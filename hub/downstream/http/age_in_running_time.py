"""Age of what is kept of sessions: the time that hubs have run since an entry of their journal was written.

The time of day cannot tell: it may be wrong for a while, by days, in both directions, and what was forgotten meanwhile
does not come back. How long hubs have run can only be too short: while none runs, while the machine sleeps, and for a
moment at the end of a hub that is killed, nothing counts.
"""

from typing import Final

from config.remembered_facts import Memory

NOTE_S: Final = 600.0
"""Interval for noting the running time; time after the last note is lost with the hub."""


class JournalClock:
    """Time that hubs have run with one journal, kept there in `clock` and `since`; seconds of the loop's clock."""

    def __init__(self, journal: Memory) -> None:
        self._journal = journal
        self._before = self._noted
        """Running time of all hubs when this one began."""
        self._ran = self._before
        self._began: float | None = None

    @property
    def _noted(self) -> float:
        noted = self._journal.get("clock", "ran")
        return float(noted) if isinstance(noted, int | float) else 0.0

    def run_on(self, now: float) -> None:
        """Count the time until `now`."""
        if self._began is None:
            self._began = now
        self._ran = self._before + now - self._began
        if self._ran - self._noted >= NOTE_S:
            self.note()

    def note(self) -> None:
        """Write the running time into the journal."""
        self._journal.put("clock", "ran", self._ran)

    def put(self, section: str, name: str, value: object) -> None:
        """Write an entry with its time; None: remove the entry."""
        self._journal.put(section, name, value)
        self._journal.put("since", f"{section}/{name}", None if value is None else int(self._ran))

    def is_older(self, section: str, name: str, than_s: float) -> bool:
        """True if an entry is older than `than_s`. An entry without a time, by another version or a killed hub, counts
        from now."""
        since = self._journal.get("since", f"{section}/{name}")
        if not isinstance(since, int) or since > self._ran:
            self._journal.put("since", f"{section}/{name}", int(self._ran))
            return False
        return self._ran - since >= than_s
