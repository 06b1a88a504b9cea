"""Dropped: what was not told, since whoever was to hear it reads too slowly. Counts of the whole process."""

from collections import Counter
from typing import Final

DROPPED: Final[Counter[str]] = Counter(dict.fromkeys(("progress", "log", "event"), 0))
"""By what it was: `progress` and `log` for a host, an `event` for a dashboard."""
