"""Steps back from what a setup did so far: files as they were, and the service."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from config.atomic_writes import read_file, remove_file, replace_file
from config.diagnostics import EditError
from config.hub_paths import backup_dir
from hub.cli.context import now


class Undo:
    """Steps that undo what was done, the last one first."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []

    def add(self, what: str, step: Callable[[], object]) -> None:
        """Remember how to undo `what`."""
        self._steps.append((what, step))

    def file(self, path: Path, write: Callable[[], Path | None], *, before: bytes | None, after: bytes) -> Path | None:
        """Write a file by `write`, which returns its backup, and remember to put it back; the backup. `before` is its
        content, None for no file, `after` what is written. Directories that are made for it go, too. A file that holds
        something else by then is left: that is somebody's work. Raises whatever `write` raises: nothing is
        remembered."""
        missing = [parent for parent in path.parents if not parent.exists()]
        at, backups = now(), backup_dir()
        backup = write()

        def put_back() -> None:
            found = read_file(path)
            if found == before:
                return
            if found != after:
                where = "" if before is None else f"; as it was before: {backup or f'the latest in {backups}'}"
                raise EditError(f"it was changed meanwhile, and left as it is{where}")
            if before is not None:
                replace_file(path, before, was=after, now=at, backups=backups)
                return
            remove_file(path, was=after, now=at, backups=backups)
            for parent in missing:
                with suppress(OSError):
                    parent.rmdir()

        self.add(str(path), put_back)
        return backup

    def run(self) -> list[str]:
        """Undo everything; a sentence for each step that failed, none of which keeps the others from being done."""
        failed = []
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the next steps are done whatever this one raises
                failed.append(f"{what} could not be put back: {error}")
        return failed
