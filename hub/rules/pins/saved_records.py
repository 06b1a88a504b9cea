"""Records of pins in memory, each read when its server is first reviewed, and saved a moment after it changes."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import trio

from config.diff import what_runs
from config.settings import UpstreamConfig
from hub.rules.pins.store import ELSEWHERE, Opened, PinFolder
from hub.rules.policy.judge import Note

log = logging.getLogger("hubd.pins")
SAVE_AFTER_S: Final = 1.0
"""Time that changes are gathered before they are written."""
RETRY_S: Final = 30.0


class SavedRecords(dict[str, Opened]):
    """The records that were opened, by server. `lost` is called with the name of a server whose record another hub has
    replaced. `run` must be running; `save_now` is for the end."""

    def __init__(self, folder: PinFolder, note: Note, lost: Callable[[str], None]) -> None:
        self._folder, self._note, self._lost = folder, note, lost
        self.unsaved: set[str] = set()
        """Servers whose records have changed since they were saved."""
        self._dirty = trio.Event()
        self._saving = trio.Lock()
        self.problem = ""
        """The reason why something is not saved; "": everything is, or soon will be."""

    def open(self, name: str, config: UpstreamConfig) -> Opened:
        """The record of a server, which is read where nobody has; one of another command begins anew."""
        opened = self.get(name)
        if opened is None or opened.record.runs != what_runs(config):
            was_other = opened is not None
            opened = self[name] = self._folder.open(name, config)
            if opened.was_other or was_other:
                log.info("%s is pinned anew: its command, arguments or URL have changed", name)
                self._note("pin", up=name, what="anew")
            if opened.problem:
                log.warning("pins of %s: %s; nothing of it counts as approved", name, opened.problem)
                self._note("pin", up=name, what="unreadable")
        opened.record.ignore(config.pin_ignore)
        return opened

    def save_soon(self, name: str) -> None:
        self.unsaved.add(name)
        self._dirty.set()

    async def run(self) -> None:
        """Save what changes, for ever."""
        while True:
            await self._dirty.wait()
            await trio.sleep(SAVE_AFTER_S)
            await self.save()
            if self.problem:
                await trio.sleep(RETRY_S)

    async def save(self) -> None:
        """Write what is unsaved, in a thread. Cancellation: it is written all the same."""
        async with self._saving:
            self._note_saved(await trio.to_thread.run_sync(self._folder.write_all, self._drafts()))

    def save_now(self) -> None:
        """Write at once what is unsaved. Blocks; never raises."""
        self._note_saved(self._folder.write_all(self._drafts()))

    def _drafts(self) -> dict[str, bytes]:
        names, self.unsaved, self._dirty = self.unsaved, set(), trio.Event()
        return {name: self._folder.encode(self[name].record) for name in names}

    def _note_saved(self, problems: Mapping[str, str]) -> None:
        problem = ""
        for name, why in problems.items():
            if why == ELSEWHERE:  # what that has decided counts
                log.info("pins of %s: %s, and they are read again", name, ELSEWHERE)
                self.pop(name, None)
                self.unsaved.discard(name)  # it may have changed while it was written
                self._lost(name)
            else:
                problem = problem or why
                self.save_soon(name)
        if problem and not self.problem:
            log.warning("%s; it is kept in memory, and tried again", problem)
        self.problem = problem
