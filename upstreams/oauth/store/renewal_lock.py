"""Lock among processes for one renewal of a grant: one is under way at a time, whoever does it.

The loop never waits for a lock. The file of a lock also tells, beyond the death of who had it, that a renewal was
begun: a request was sent, and its answer is not kept yet. Whoever finds that knows that the answer may be lost.
"""

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from hub.linux.file_locks import try_lock
from upstreams.oauth.model import OAuthUnavailable
from upstreams.oauth.store.private_folder import NotKept, make_private

STEP_S: Final = 0.02
PATIENCE_S: Final = 60.0
"""Longer than any holder needs, who gives up a request after some seconds."""
MAX_MARK: Final = 20


class HeldLock:
    """A lock that is held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pending_generation(self) -> int | None:
        """The generation whose renewal was begun and not finished; None: there is none. Blocks."""
        text = os.pread(self._descriptor, MAX_MARK, 0).strip()
        return int(text) if text.isdigit() else None

    def begin(self, generation: int) -> None:
        """Note that the renewal of a generation begins; on disk when this returns. Blocks. Raises OSError: it cannot be
        written."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % generation, 0)
        os.fdatasync(self._descriptor) if hasattr(os, "fdatasync") else os.fsync(self._descriptor)

    def finish(self) -> None:
        """Note that no renewal is under way. Blocks."""
        os.ftruncate(self._descriptor, 0)


@asynccontextmanager
async def hold_lock(path: Path) -> AsyncIterator[HeldLock]:
    """Hold the lock file `path` (0600), which is made if it is missing. Raises NotKept: it cannot be made;
    OAuthUnavailable: another process has it for far too long. Cancellation: while waiting, nothing is left behind."""
    deadline = trio.current_time() + PATIENCE_S
    while True:
        if (descriptor := await trio.to_thread.run_sync(_try, path)) is not None:
            break
        if trio.current_time() >= deadline:
            raise OAuthUnavailable("another process of hubd has been renewing this sign-in for far too long")
        await trio.sleep(STEP_S)
    try:
        yield HeldLock(descriptor)
    finally:
        os.close(descriptor)


def open_lock(path: Path) -> int:
    """The descriptor of a file to be locked, which is made if it is missing. Raises NotKept: it cannot be opened."""
    make_private(path.parent)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotKept(f"{path} cannot be opened: {error.strerror}; delete it.") from None


def _try(path: Path) -> int | None:
    """An open file that is locked; None: another process has the lock."""
    descriptor = open_lock(path)
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        with suppress(OSError):
            is_ours = try_lock(descriptor)
            if is_ours and os.path.samestat(os.fstat(descriptor), os.lstat(path)):  # else it was deleted meanwhile
                stack.pop_all()
                return descriptor
    return None
