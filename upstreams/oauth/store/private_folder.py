"""Private files in a private folder: read without following links, replaced as a whole, durable when it returns; locks
among processes beside them; and which folder it is, where homes are shared by machines.

One renewal of a grant is under way at a time, whoever does it, and the loop never waits for a lock. The file of a lock
also tells, beyond the death of who had it, that a renewal was begun: a request was sent, and its answer is not kept
yet. Whoever finds that knows that the answer may be lost.
"""

import fcntl
import os
import stat
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import trio

from config.atomic_writes import replace_private
from config.base_directories import NotPrivate, private_dir
from config.safe_reading import read_private
from hub.linux.this_machine import file_system_of, name_of_machine
from upstreams.oauth.model import OAuthProblem, OAuthUnavailable

MAX_FILE_BYTES: Final = 512 << 10
STEP_S: Final = 0.02
PATIENCE_S: Final = 60.0
"""Longer than any holder needs, who gives up a request after some seconds."""
MAX_MARK: Final = 20
SHARED: Final = frozenset({"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p"})
"""File systems that several machines may have."""


class NotKept(OAuthProblem):
    """Something cannot be kept, or what is kept must not be read; the text says why, and what to do."""


def make_private(folder: Path) -> None:
    """Make `folder` (0700), and those above it, if they are missing. Raises NotKept: it is not this user's alone, or
    cannot be made."""
    if not folder.parent.exists():
        make_private(folder.parent)  # `makedirs` gives them the mode that the umask leaves
    try:
        private_dir(str(folder))
    except NotPrivate as error:
        raise NotKept(f"What is kept of sign-ins has no safe place: {error}.") from None


def read_file(path: Path) -> bytes | None:
    """The content of a file; None if there is none. Raises NotKept: it is a link, another user's, others may read it,
    or it cannot be read."""
    try:
        data, found = read_private(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotKept(f"What is kept of a sign-in is not read: {path}: {error.strerror}; delete it.") from None
    if found.st_uid != os.geteuid():
        raise NotKept(f"What is kept of a sign-in is not read: {path} belongs to another user; delete it.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise NotKept(f"Others may read what is kept of a sign-in: run chmod 600 {path}, or delete it.")
    return data


def write_file(path: Path, data: bytes) -> None:
    """Let the file (0600) hold `data`. It is on disk when this returns; until then it is as it was. Raises NotKept: it
    cannot be written."""
    make_private(path.parent)
    try:
        replace_private(path, data, sync_name=True)
    except OSError as error:
        raise NotKept(f"A sign-in cannot be kept: {path.parent}: {error.strerror}; see to that.") from None


def aside_of(path: Path) -> Path:
    """The place where a file is kept that cannot be used."""
    return path.with_name(f"{path.name}.unreadable")


def move_aside(path: Path) -> Path:
    """Rename a file that cannot be used, in place of an older such one, and return its new place."""
    with suppress(OSError):
        os.replace(path, aside_of(path))
    return aside_of(path)


def remove_file(path: Path) -> None:
    """Remove the file, if it is there. Raises NotKept: it cannot be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NotKept(f"What is kept of a sign-in cannot be deleted: {path}: {error.strerror}.") from None


def names_in(folder: Path, suffix: str) -> list[str]:
    """The names of the files in `folder` that end with `suffix`, sorted; none if there is no such folder."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(suffix))
    except OSError:
        return []


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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):  # else it was deleted meanwhile
                stack.pop_all()
                return descriptor
    return None


def store_folder(state: Path) -> Path:
    """The folder below the state directory: one for each machine, if several share that. Blocks briefly."""
    folder = state / "oauth"
    if file_system_of(state) not in SHARED:
        return folder
    name = sha256(f"hubd oauth\0{name_of_machine()}".encode())
    return folder / f"machine-{name.hexdigest()[:12]}"
