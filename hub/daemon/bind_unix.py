"""The unix sockets of the daemon, bound, and its lock, which is held from before they are touched."""

import errno
import logging
import os
import select
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import trio

from config.diagnostics import ConfigError
from hub.linux.file_locks import try_lock

log = logging.getLogger("hubd.accept")

LOCK_TRIES: Final = 10
LOCK_PAUSE_MS: Final = 20
BACKLOG: Final = 1024
LOOK_S: Final = 10.0
"""Interval at which a hub checks that its sockets still exist."""


class AlreadyRunning(Exception):
    """Another daemon of this user holds the lock; the text names it."""


@contextmanager
def take_lock(path: Path) -> Iterator[None]:
    """Hold the daemon's lock, from before its sockets are touched. The kernel frees it, however the process ends.

    Tries for 0.2 s, since a shim that checks whether a daemon is alive holds the lock for a moment. Raises
    AlreadyRunning: another process holds the lock; ConfigError: the lock file cannot be made."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot make the lock {path}: {error.strerror}") from None
    try:
        for _ in range(LOCK_TRIES):
            if try_lock(descriptor):
                break
            select.poll().poll(LOCK_PAUSE_MS)
        else:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise AlreadyRunning(f"a hub is already running (process {holder or 'unknown'}); `hubd stop` ends it")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)


def bind_unix(path: Path) -> socket.socket:
    """Make a listening, non-blocking unix socket at `path`, mode 0600. The daemon's lock must be held.

    A stale socket is replaced in one step. Anything else at `path` is left alone. Raises AlreadyRunning: a process
    listens at `path` in spite of our lock; ConfigError: `path` is not a socket of ours, or a socket cannot be made
    there."""
    _refuse_unless_stale(path)
    draft = path.with_name(f".{os.getpid()}")  # not longer than the name: the path of a socket has a short limit
    draft.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(draft))
        draft.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        draft.replace(path)
    except OSError as error:
        listener.close()
        draft.unlink(missing_ok=True)
        raise ConfigError(f"cannot make the socket {path}: {os.strerror(error.errno or errno.EINVAL)}") from None
    return listener


def _refuse_unless_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        what = "belongs to another user" if stat.S_ISSOCK(found.st_mode) else "is not a socket"
        raise ConfigError(f"{path} {what}: move it away, or name another directory in HUBD_RUNTIME_DIR")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as error:
            raise AlreadyRunning(f"something holds {path}: {os.strerror(error.errno or 0)}") from None
    raise AlreadyRunning(f"something already listens on {path}; stop it first")


@asynccontextmanager
async def unix_listener(path: Path, given: socket.socket | None) -> AsyncIterator[trio.SocketListener]:
    """A 0600 unix socket at `path`. It is removed at the end, unless the service manager handed it over.

    The caller holds the daemon's lock."""
    listener = given or bind_unix(path)
    ours = _inode_at(path)
    try:
        yield trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    finally:
        is_ours = given is None and _inode_at(path) == ours  # another hub may have made its own by now
        listener.close()
        if is_ours:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - a directory entry in memory


async def await_removal(own: Iterable[Path], gone: Callable[[], None]) -> None:
    """Check now and then that these files are the same as before; call `gone` once one is not.

    Without them no host finds this hub, and hosts start another one. It happens: /tmp is cleaned up, or /run/user is
    removed when its user logs out, though the hub lives on."""
    before = {path: _inode_at(path) for path in own}
    while True:
        await trio.sleep(LOOK_S)
        for path, found in before.items():
            if _inode_at(path) != found:
                log.warning("%s was removed, so that hosts do not find this hub: it makes way for another one", path)
                gone()
                return


def _inode_at(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at `path`; None: there is none. The number is not reused while the file is open."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
