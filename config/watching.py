"""Watcher: waits for events in the directories of files, and says when their content may have changed.

    an event in a directory -> a moment of quiet -> look at all files -> other contents than last time? -> say so

The kernel says when something happens (inotify); all files are read every `POLL_S` anyway, for file systems that report
no events. If nothing can be watched (this user's inotify instances may be used up), files are read often, and watching
is tried again now and then.

Directories are watched, never files, for the watch of a file dies with the first editor that replaces it: those of
every path and of what it leads to, of every link on the way (Kubernetes swaps one), and their parents, since a
directory can be replaced as well. Files are compared by content, in a thread, so that other events there mean nothing.
"""

import hashlib
import logging
import os
import stat
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path
from typing import Final

import trio

from config.loading.document import SUFFIXES
from config.loading.safe_reading import limit_of, read_plain
from hub.linux.kernel_events import Inotify

MAX_LINKS: Final = 40
Lookouts = dict[str, tuple[int, int]]
"""Directories to watch, and which they are."""
log = logging.getLogger("hubd.config")
STEP_S: Final = 0.1
"""Seconds without an event that end the waiting for more of them."""
DEBOUNCE_S: Final = 0.25
"""Seconds to wait at most until events cease."""
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
            return [b".", *sorted(each.name for each in entries if each.is_dir() and not each.name.startswith(b"."))]
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
        self._news = trio.Event()
        """There is a reason to look that no file gives."""
        self._waiting = trio.CancelScope()
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
        self._news.set()
        self._waiting.cancel()

    async def run(self) -> None:
        """Watch, for ever. Cancellation takes effect at once; a thread may be there for another moment."""
        while True:
            self._news = trio.Event()
            if self._files or self._directories:
                await self._watch(self._news)
            else:
                await self._news.wait()

    async def _watch(self, news: trio.Event) -> None:
        """Until something else is to be watched, or another directory is where one was."""
        _, lookouts = await self._inspect()
        kernel = await self._open(lookouts)
        try:
            for _ in repeat(None, LOOKS_ALONE) if kernel is None else repeat(None):
                seen, now_there = await self._inspect()
                if news.is_set():
                    return
                if seen != self._seen:
                    self._seen = seen
                    self._changed()
                if news.is_set() or now_there != lookouts:
                    return
                with trio.move_on_after(POLL_ALONE_S if kernel is None else POLL_S) as self._waiting:
                    await _stir(kernel)
                self._is_again = self._is_again and news.is_set()
        finally:
            if kernel is not None:
                kernel.close()

    async def _inspect(self) -> tuple[bytes, Lookouts]:
        return await trio.to_thread.run_sync(inspect, self._files, self._directories, abandon_on_cancel=True)

    async def _open(self, lookouts: Lookouts) -> Inotify | None:
        """The events of these directories; None: nothing can be watched. Either is logged when it is new."""
        try:
            kernel = await trio.to_thread.run_sync(Inotify, lookouts, abandon_on_cancel=True)
        except OSError as error:
            if not self._is_alone:
                why = f"{error.strerror}: {os.strerror(error.errno)}" if error.errno else error
                log.warning("cannot watch configuration files (%s); they are looked at every %g s", why, POLL_ALONE_S)
            self._is_alone = True
            return None
        if self._is_alone:
            log.info("configuration files are watched again")
        self._is_alone = False
        return kernel


async def _stir(kernel: Inotify | None) -> None:
    """Wait until something happens, and then for a moment of quiet; None: for ever."""
    if kernel is None:
        await trio.sleep_forever()
    await kernel.wait()
    with trio.move_on_after(DEBOUNCE_S):
        quiet = False
        while not quiet:
            with trio.move_on_after(STEP_S) as step:
                await kernel.wait()
            quiet = step.cancelled_caught
