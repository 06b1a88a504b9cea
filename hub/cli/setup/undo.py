"""What was done so far, so that it can be undone: the files of the hub as they were, and its service."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path


class Undo:
    """Steps that undo what was done, the last one first."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []

    def __repr__(self) -> str:
        return f"<Undo of {', '.join(what for what, _ in self._steps) or 'nothing'}>"

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, what: str, step: Callable[[], object]) -> None:
        """Remember how to undo `what`."""
        self._steps.append((what, step))

    def file(self, path: Path, before: bytes | None, now: datetime, backups: Path) -> None:
        """Remember the content of a file that is about to be written; None: there was none. Directories that are made
        for it go, too."""
        missing = [parent for parent in path.parents if not parent.exists()]

        def put_back() -> None:
            from config.files import read_file, remove_file, replace_file

            after = read_file(path)
            if before is None and after is not None:
                remove_file(path, was=after, now=now, backups=backups)
                for parent in missing:
                    with suppress(OSError):
                        parent.rmdir()
            elif before is not None and after != before:
                replace_file(path, before, was=after, now=now, backups=backups)

        self.add(str(path), put_back)

    def run(self) -> list[str]:
        """Undo everything; a sentence for each step that failed."""
        from config.errors import EditError

        failed = []
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except (EditError, OSError) as error:
                failed.append(f"{what} could not be put back: {error}")
        return failed
