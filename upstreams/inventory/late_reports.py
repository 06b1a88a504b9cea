"""Late reports: upstreams that did not say in time what they offer when they were started last.

The first list of a host waits for upstreams that were never seen, within the grace. One that was late the last time is
not waited for: it would only delay what the others offer. What it offers follows as `list_changed`.
"""

from typing import Final

from config.identity import config_key
from config.settings import UpstreamConfig
from upstreams.memory import Memory

LATE: Final = "late"
"""The section of the memory that names them, by `config_key`."""


class LateReports:
    """Remembers upstreams that were late, until they list what they offer."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __contains__(self, config: UpstreamConfig) -> bool:
        return self._memory.get(LATE, config_key(config)) is True

    def note(self, config: UpstreamConfig) -> None:
        """An upstream has neither listed anything nor failed within the grace."""
        self._memory.put(LATE, config_key(config), True)

    def forget(self, config: UpstreamConfig) -> None:
        """An upstream has listed what it offers."""
        self._memory.put(LATE, config_key(config), None)
