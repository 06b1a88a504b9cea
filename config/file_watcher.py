"""Watcher: waits for events in the directories of files, and says when their content may have changed.

    an event in a directory -> a moment of quiet -> look at all files -> other contents than last time? -> say so

All files are read every `POLL_S` anyway, for file systems that report no events. The library that watches wakes ten
times a second, so while files are quiet the loop itself waits for the kernel (`inotify`). If nothing can be watched
(this user's inotify instances may be used up), files are read often, and watching is tried again now and then.

Directories are watched, never files, for the watch of a file dies with the first editor that replaces it: those of
every path and of what it leads to, of every link on the way (Kubernetes swaps one), and their parents, since a
directory can be replaced as well. Files are compared by content, in a thread, so that other events there mean nothing.
"""

import hashlib
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import trio

from config.loading.document import SUFFIXES
from config.safe_reading import limit_of, read_plain
from hub.linux.inotify import Inotify

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

MAX_LINKS: Final = 40

Lookouts = dict[str, tuple[int, int]]
"""Directories to watch, and which they are."""

log = logging.getLogger("hubd.config")

STEP_MS: Final = 100
"""Milliseconds between looks for events. A second look that finds no more ends the waiting."""
QUIET_S: Final = 60.0
"""Once nothing has happened for so long, the loop waits for the kernel: the library wakes for every look."""
DEBOUNCE_MS: Final = 250
"""Milliseconds to wait at most until events cease."""
POLL_S: Final = 30.0
POLL_ALONE_S: Final = 2.0
"""Seconds between polls if nothing can be watched."""
LOOKS_ALONE: Final = 30
"""Polls after which watching is tried again."""


def inspect(files: Iterable[Path], directories: Iterable[Path]) -> tuple[bytes, Lookouts]:
    """A digest of all there is to read, and where to watch for changes of it."""
    digest = hashlib.sha256()
    found: set[str] = set()
    for path in dict.fromkeys([*files, *(entry for directory in directories for entry in _entries(directory))]):
        digest.update(os.fsencode(path) + b"\0" + _content(path))
        _look_out(path, found)
    for directory in directories:
        digest.update(b"\0".join(_below(directory)))
        _look_out(directory / "any", found)
    return digest.digest(), {path: key for path in sorted(found) if (key := _key(path)) is not None}


def _entries(directory: Path) -> list[Path]:
    try:
        return [directory / name for name in sorted(os.listdir(directory)) if name.endswith(SUFFIXES)]
    except OSError:
        return []


def _below(directory: Path) -> list[bytes]:
    """A directory, if it is one, and those in it: with a new one a pattern may lead to more files."""
    try:
        with os.scandir(os.fsencode(directory)) as entries:
            found = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(b".")]
        return [b".", *sorted(found)]
    except OSError:
        return []


def _content(path: Path) -> bytes:
    """A digest of a file, or the reason why it cannot be read."""
    try:
        data, _ = read_plain(path, limit_of(path) + 1)
    except OSError as error:
        return b"error %d" % (error.errno or 0)
    return b"file " + hashlib.sha256(data).digest()


def _look_out(path: Path, found: set[str]) -> None:
    """Add the directories in which something happens when `path` becomes another file."""
    directory, rest = "/", os.path.abspath(path).split("/")[:0:-1]
    links = 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            directory = os.path.dirname(directory)
            continue
        step = os.path.join(directory, name)
        try:
            is_link = stat.S_ISLNK(os.lstat(step).st_mode)
            target = os.readlink(step) if is_link and links < MAX_LINKS else ""
        except OSError:
            break  # it would have to be made here
        if target:
            links += 1
            found.add(directory)
            rest += target.split("/")[::-1]
            directory = "/" if target.startswith("/") else directory
        elif rest:
            directory = step
    found |= {directory, os.path.dirname(directory)}


def _key(directory: str) -> tuple[int, int] | None:
    """Device and inode of a directory; None if it cannot be watched."""
    try:
        facts = os.stat(directory)
    except OSError:
        return None
    watchable = stat.S_ISDIR(facts.st_mode) and os.access(directory, os.R_OK | os.X_OK)
    return (facts.st_dev, facts.st_ino) if watchable else None


class Watcher:
    """Calls `changed` in the task of `run`, whenever there are other contents than before."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._files: tuple[Path, ...] = ()
        self._directories: tuple[Path, ...] = ()
        self._seen: bytes | None = None
        self._is_again = False
        """The last look had no other reason than `look_again`."""
        self._aimed = trio.Event()
        """There is something to watch, since there was nothing."""
        self._stop = threading.Event()
        self._waiting = trio.CancelScope()
        self._stirred_at = float("-inf")
        """The time of the last event."""
        self._is_alone = False
        """True if nothing could be watched the last time, which was logged."""

    def watch(self, files: Iterable[Path], directories: Iterable[Path]) -> None:
        """Watch these from now on: files, there or not, and directories for files that may come.

        If that is news it counts as a change: they may have become something else since they were read.
        """
        files, directories = tuple(files), tuple(directories)
        if (files, directories) != (self._files, self._directories):
            self._files, self._directories = files, directories
            self._look()

    def look_again(self) -> None:
        """Look at all files now, and count it as a change: another reader has read them since the last look.

        If this is called for such a look as well, the next one waits for an event: files that differ at every reading,
        as those of the kernel may, are not to be read without a pause.
        """
        self._seen = None
        if not self._is_again:
            self._is_again = True
            self._look()

    def _look(self) -> None:
        self._seen = None
        self._aimed.set()
        self._stop.set()
        self._waiting.cancel()

    async def run(self) -> None:
        """Watch, for ever. Cancellation takes effect at once; a thread may be there for another moment."""
        while True:
            self._stop = threading.Event()
            try:
                await self._watch(self._stop)
            finally:
                self._stop.set()

    async def _watch(self, stop: threading.Event) -> None:
        """Until something else is to be watched, or another directory is where one was."""
        if not (self._files or self._directories):
            self._aimed = trio.Event()
            await self._aimed.wait()
            return
        look = partial(inspect, self._files, self._directories)
        _, lookouts = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
        notify = self._say(await trio.to_thread.run_sync(_open, lookouts, abandon_on_cancel=True))
        looks = 0
        self._stirred_at = trio.current_time()
        while True:
            seen, now_there = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
            if stop.is_set():
                return
            if seen != self._seen:
                self._seen = seen
                self._stirred_at = trio.current_time()
                self._changed()
            if now_there != lookouts:
                return
            if isinstance(notify, str):
                await trio.sleep(POLL_ALONE_S)
                looks += 1
                if looks >= LOOKS_ALONE:
                    return
            elif trio.current_time() - self._stirred_at < QUIET_S or await self._is_stirred(look, lookouts):
                wait = partial(_wait, notify, stop)
                with trio.CancelScope() as self._waiting:
                    notify = self._say(
                        await trio.to_thread.run_sync(wait, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
                    )
            self._is_again = self._is_again and stop.is_set()

    async def _is_stirred(self, look: Callable[[], tuple[bytes, Lookouts]], lookouts: Lookouts) -> bool:
        """True once the kernel says that something happens, or if it cannot say; false if what is there differs."""
        try:
            kernel = await trio.to_thread.run_sync(Inotify, lookouts, abandon_on_cancel=True)
        except OSError:
            return True
        try:
            while not self._stop.is_set():
                with trio.move_on_after(POLL_S) as self._waiting:
                    if await trio.to_thread.run_sync(look, abandon_on_cancel=True) != (self._seen, lookouts):
                        return False  # something has happened before the kernel was asked, or without its knowledge
                    await kernel.wait()
                    self._stirred_at = trio.current_time()
                    return True
                self._is_again = self._is_again and self._stop.is_set()
        finally:
            kernel.close()
        return False

    def _say(self, notify: "RustNotify | str") -> "RustNotify | str":
        """Return `notify`, and log once that nothing can be watched, with the reason, and that watching works again."""
        if isinstance(notify, str) and not self._is_alone:
            log.warning("cannot watch configuration files (%s); they are looked at every %g s", notify, POLL_ALONE_S)
        elif self._is_alone and not isinstance(notify, str):
            log.info("configuration files are watched again")
        self._is_alone = isinstance(notify, str)
        return notify


def _open(lookouts: Lookouts) -> "RustNotify | str":
    """The watcher, or the reason why nothing can be watched. In a thread."""
    try:
        notify: RustNotify = _load_rust().RustNotify([*lookouts], False, False, 0, False, True)
    except BaseException as error:  # noqa: BLE001
        return _why(error)
    return notify


def _load_rust() -> ModuleType:
    """The library's part in Rust (watchfiles.helpmanual.io/api/rust_backend), without the package around it: that loads
    `multiprocessing`, 0.7 MB in every hub. It is not loaded when the hub starts, which need not wait for it.
    """
    name = "watchfiles._rust_notify"
    rust = sys.modules.get(name)
    if rust is None:
        package = find_spec("watchfiles")  # of a top-level package this loads nothing
        spec = package and PathFinder.find_spec(name, package.submodule_search_locations)
        if not spec or not spec.loader:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        rust = module_from_spec(spec)
        spec.loader.exec_module(rust)
        sys.modules[name] = rust
    return rust


def _wait(notify: "RustNotify", stop: threading.Event) -> "RustNotify | str":
    """Wait until something may have happened, or `stop`; who watches from now on, as `_open`. In a thread."""
    try:
        notify.watch(DEBOUNCE_MS, STEP_MS, int(POLL_S * 1000), stop)
    except BaseException as error:  # noqa: BLE001
        return _why(error)
    return notify


def _why(error: BaseException) -> str:
    """The text of an error of the library, which raises RuntimeError for what the kernel refuses, UnicodeEncodeError
    for names, and BaseException where it is broken; it raises nothing else in a thread.
    """
    return str(error) or type(error).__name__
