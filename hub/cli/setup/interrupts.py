"""Signals that end a setup: one handler, which acts as Ctrl-C, or waits while something is done as a whole.

And the steps back from what was done so far: the files of the hub as they were, and its service.

Holding back changes no handler, so there is no moment in which a signal is lost or ends the process.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from config.atomic_writes import read_file, remove_file, replace_file
from config.diagnostics import EditError
from config.hub_paths import backup_dir
from hub.cli.context import now

HELD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal other than Ctrl-C that ends the command as Ctrl-C does."""


class _Interrupts:
    """The handler of all of them."""

    def __init__(self) -> None:
        self._depth = 0
        """Blocks that hold back now, one within the other."""
        self._came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._came = self._depth > 0
        if not self._came:
            raise KeyboardInterrupt if number == signal.SIGINT else Interrupted

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            came = self._came and not self._depth
            self._came = self._came and not came
        if came:
            raise KeyboardInterrupt


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let the other signals that end the command act as Ctrl-C does, so that it cleans up behind itself. Raises
    KeyboardInterrupt: one came."""
    handler = _Interrupts()
    before: dict[signal.Signals, signal._HANDLER] = {}
    try:
        with handler.hold_back():
            for number in HELD:
                before[number] = signal.signal(number, handler)
        yield
    finally:
        with handler.hold_back():
            for number, earlier in before.items():
                signal.signal(number, earlier)


@contextmanager
def hold_back() -> Iterator[None]:
    """Hold signals that end the command back until the block is done; within `as_ctrl_c` only. Raises
    KeyboardInterrupt: one came meanwhile; the block, and every block around it, was done all the same."""
    handler = signal.getsignal(signal.SIGINT)
    with handler.hold_back() if isinstance(handler, _Interrupts) else nullcontext():
        yield


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
