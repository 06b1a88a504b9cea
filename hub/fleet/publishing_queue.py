"""Write-behind queue of facts published to the directory that hubs share."""

import logging
from typing import Final

import trio

from cache.interfaces import Directory, StoreUnreachable
from hub.link.fault_isolation import FaultLog
from hub.link.recent import Recent
from hub.link.waiting import DirtyFlag

log = logging.getLogger("hubd.replicas")

NOTE_S: Final = 49 * 3600.0
"""Lifetime of a fact: longer than a hub whose clock is a day late could revive the session."""
RETRY_S: Final = 5.0
MAX_FACTS: Final = 4_096


class PublishedFacts:
    """Facts still to be written to `directory`, the newest of each name. `run` must be running.

    Bounded: while the directory is away, the oldest facts are dropped.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._unwritten: Recent[str, bytes] = Recent(MAX_FACTS)
        self._news = DirtyFlag()
        self._faults = FaultLog(log, "telling other hubs of sessions")

    def __repr__(self) -> str:
        return f"<PublishedFacts [{len(self._unwritten)} unwritten]>"

    def put(self, name: str, value: bytes) -> None:
        """Queue a fact. Never blocks."""
        self._unwritten.put(name, value)
        self._news.set()

    async def run(self) -> None:
        """Write queued facts until cancelled."""
        while True:
            await self._news.take()
            try:
                await self.flush()
            except* StoreUnreachable:
                await self._later()
            except* Exception as errors:  # noqa: BLE001  # a fault is logged, and the work goes on
                self._faults.log_once(errors)
                self._unwritten.pop(next(iter(self._unwritten), ""), None)
                await self._later()

    async def _later(self) -> None:
        await trio.sleep(RETRY_S)
        self._news.set()

    async def flush(self) -> None:
        """Write all queued facts.

        Raises:
            StoreUnreachable: some are still to be written.
        """
        while self._unwritten:
            name, value = next(iter(self._unwritten.items()))
            await self._directory.put(name, value, NOTE_S)
            if self._unwritten.get(name) is value:
                del self._unwritten[name]
