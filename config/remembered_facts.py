"""Facts that the hub remembers between runs: they save work or keep names stable, and are never the only copy of a
decision.

One small JSON file, 0600, replaced as a whole. If it cannot be read the hub starts with nothing remembered; if it
cannot be written it runs on and tries again: a memory is never a reason to stop.
"""

import logging
from pathlib import Path
from typing import Final

import msgspec
import trio

from config.atomic_writes import replace_private
from config.safe_reading import MAX_BYTES, read_state

log = logging.getLogger("hubd.config")
FORMAT: Final = 1


class _File(msgspec.Struct, frozen=True):
    format: int
    sections: dict[str, dict[str, object]]


class Memory:
    """Values by section and key; plain JSON values only. With `path` None nothing outlives the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._sections: dict[str, dict[str, object]] = {}
        self._changed = False
        self.problem = ""
        """The reason why it is not saved; "" if it is, or soon will be."""
        self._unsaved = trio.Event()
        if path is not None:
            self._read(path)

    def get(self, section: str, key: str) -> object:
        """The value, or None."""
        return self._sections.get(section, {}).get(key)

    def keys(self, section: str) -> list[str]:
        """The keys of a section, the oldest first."""
        return list(self._sections.get(section, ()))

    def put(self, section: str, key: str, value: object) -> None:
        """Remember `value` from now on; on disk after the next `save`. None forgets."""
        values = self._sections.setdefault(section, {})
        if values.get(key) == value:
            return
        if value is None:
            del values[key]
        else:
            values[key] = value
        self._changed = True
        self.save_soon()

    def save_soon(self) -> None:
        """Wake the task in `unsaved`: something is to be saved, or soon will be put here."""
        self._unsaved.set()

    async def unsaved(self) -> None:
        """Wait until there is something to save that was not there at the last return. For one task."""
        await self._unsaved.wait()
        self._unsaved = trio.Event()

    def era(self, config_key: str) -> str | None:
        """The era ("legacy" or "modern") an upstream spoke last time."""
        value = self.get("eras", config_key)
        return value if isinstance(value, str) else None

    def remember_era(self, config_key: str, era: str | None) -> None:
        """Remember, or with None forget, what `era` returns."""
        self.put("eras", config_key, era)

    def save(self) -> None:
        """Write what changed. Blocks for one fsync; never raises, and what was not written is tried again."""
        if (draft := self.draft()) is not None:
            self.write(draft)

    def draft(self) -> bytes | None:
        """The bytes that `write` is to put on disk now; None if nothing has changed since the last draft."""
        if not self._changed or self._path is None:
            return None
        self._changed = False
        try:
            return msgspec.json.encode(_File(FORMAT, self._sections))
        except UnicodeEncodeError as error:
            self._failed(error)
            return None

    def write(self, draft: bytes) -> None:
        """Replace the file. May run in a thread beside everything but another `write`; never raises."""
        assert self._path is not None
        try:
            replace_private(self._path, draft)
        except OSError as error:
            self._failed(error)
        else:
            self.problem = ""

    def _failed(self, error: Exception) -> None:
        self._changed = True
        problem = f"cannot save {self._path}: {error}"
        if not self.problem:
            log.warning("%s; it is kept in memory", problem)
        self.problem = problem

    def _read(self, path: Path) -> None:
        file = read_state(path, MAX_BYTES, _File, "starting with nothing remembered")
        if file is None:
            return
        if file.format != FORMAT:
            log.warning("%s was written by another version of hubd; it is left alone and nothing is remembered", path)
            self._path = None
            return
        self._sections = file.sections
