"""Busy processes: whether the processes of a session are at work.

They are if, within some seconds, they used processor time, waited for it or for a disk, or one of them was started.
Only `look_at_session` reads anything (proc_pid_stat(5)).
"""

import os
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

TICKS: Final = 3
WITHIN_S: Final = 15.0
"""Ticks of processor time, usually of 10 ms, that are work within so long; fewer are a timer of one who waits."""


class Use(NamedTuple):
    """The use that one process has made of the machine."""

    ticks: int
    """Of processor time, its children that ended included."""
    is_runnable: bool = False
    """It runs at this moment, or would if the machine had time for it."""


def look_at_session(session: int) -> dict[int, Use]:
    """The use that each process of a session has made of the machine so far.

    Blocks for some milliseconds. Empty where there is no /proc.
    """
    found = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if int(fields[3]) == session:
                found[int(name)] = Use(sum(map(int, fields[11:15])), fields[0] in (b"R", b"D"))
        except (OSError, ValueError, IndexError):  # it has ended
            continue
    return found


class BusyWatch:
    """Tells, from looks at a session one after the other, whether it is at work."""

    def __init__(self) -> None:
        self._seen: Mapping[int, Use] = {}
        self._ticks = 0
        self._since = -inf

    def __repr__(self) -> str:
        return f"<BusyWatch of {len(self._seen)} processes, {self._ticks} ticks>"

    def look(self, found: Mapping[int, Use], now: float) -> bool:
        """Note what the session has used by now; True if it was at work since this was True last."""
        if now - self._since > WITHIN_S:
            self._ticks, self._since = 0, now
        self._ticks += sum(max(0, use.ticks - self._seen.get(pid, use).ticks) for pid, use in found.items())
        is_new = bool(found.keys() - self._seen.keys())
        is_at_work = is_new or self._ticks >= TICKS or any(use.is_runnable for use in found.values())
        self._seen = found
        if is_at_work:
            self._ticks, self._since = 0, now
        return is_at_work
