"""Changes in directories, as the kernel tells of them: inotify(7)."""

import ctypes
import os
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from trio.lowlevel import notify_closing, wait_readable

EVENTS: Final = 0xFC6
"""IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF (inotify(7))."""
READ_BYTES: Final = 1 << 16


class Inotify:
    """Watches directories, not those below them, until `close`. To be made in a thread: file systems may hang.
    `config.file_watcher` waits with it while files are quiet: the library that watches them wakes for every look.

    Raises:
        OSError: nothing can be watched: the kernel has no inotify, or the user's instances or watches are used up.
    """

    def __init__(self, directories: Iterable[str]) -> None:
        self._descriptor = -1
        library = _library()
        self._descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        for directory in directories:
            if library.inotify_add_watch(self._descriptor, os.fsencode(directory), EVENTS) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", directory)

    def __del__(self) -> None:
        """Close what was made for a task that has been cancelled meanwhile, or could not watch everything."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    async def wait(self) -> None:
        """Wait until something has happened in one of the directories since the last wait."""
        await wait_readable(self._descriptor)
        try:
            while os.read(self._descriptor, READ_BYTES):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Watch no more."""
        notify_closing(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1


@cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        raise OSError(f"{sys.platform} has no inotify")
    return library
