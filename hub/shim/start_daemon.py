"""Connect to the daemon, and start it if there is none. Part of the shim: imports next to nothing.

Twenty shims that start at once start one daemon: the holder of `start.lock` starts it, the others wait for the socket.
The daemon's own lock (`hubd.lock`) shows whether a daemon lives that does not listen yet, or no longer.
"""

import _socket
import fcntl
import os
from time import monotonic  # noqa: TID251 - nothing here runs under trio

from config.base_directories import state_dir
from config.hubd_executable import daemon_command
from config.private_directories import NotPrivate, private_dir
from hub.linux.peer_credentials import ForeignPeer, refuse_foreign_hub

START_LIMIT_S = 15.0
"""Time limit for a new daemon to listen, if none is alive."""
ALIVE_LIMIT_S = 45.0
"""The same if one is alive: it may be stopping in order, which takes as long as its calls (`drain_s`)."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.25
OWN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for files that only hubs make: follow no link, and do not wait for the writer of a pipe."""
TAIL_BYTES = 1 << 14
LOG_BYTES = 4 << 20
"""A larger log file is put aside, by a shim that starts a daemon and while the hub runs (`hub.daemon.logs`)."""


class Unavailable(Exception):
    """There is no hub to talk to. The text says why, and what to do; `code` is the exit code."""

    def __init__(self, text: str, code: int = os.EX_UNAVAILABLE) -> None:
        super().__init__(text)
        self.code = code


class DaemonStart:
    """One attempt to connect to the daemon whose sockets are in `directory`, and to start it if need be.

    `step` never waits: it is called again after `pause_s`, or when there is something to read from `child`. Raises
    NotPrivate: the directory cannot be used."""

    def __init__(self, directory: str) -> None:
        private_dir(directory)  # it may have been removed since, for instance when the user had logged out
        self._path = f"{directory}/hubd.sock"
        self._life = f"{directory}/hubd.lock"
        self._turn = f"{directory}/start.lock"
        self._turn_descriptor = -1
        self._mine = False
        self._began_at = monotonic()
        self.child: _socket.socket | None = None
        """A socket that ends with the daemon that was started, and then holds its exit code."""
        self.pause_s = FIRST_PAUSE_S

    def step(self) -> _socket.socket | None:
        """A connection, or None: not yet. Raises Unavailable: the daemon did not start, does not listen in time, or
        another user does; OSError: a file of the hub is something else."""
        hub, listens = self._connect()
        if hub is not None:
            return hub
        if self._turn_descriptor < 0:
            self._turn_descriptor = os.open(self._turn, OWN | os.O_RDWR | os.O_CREAT, 0o600)
        if not self._mine and (mine := _locked(self._turn_descriptor)):
            self._mine = mine
            hub, listens = self._connect()  # the last owner of the lock may have started it
            if hub is not None:
                return hub
        alive = listens or is_alive(self._life)
        if self.child is not None and (code := _exit_code(self.child)) is not None:
            self.child.close()
            self.child = None
            if not alive:  # else another daemon was first
                text = f"the hub did not start: {_last_words()}"
                raise Unavailable(text, code if code == os.EX_CONFIG else os.EX_UNAVAILABLE)
        elif self._mine and self.child is None and not alive:
            self.child = _spawn()
        limit_s = ALIVE_LIMIT_S if alive else START_LIMIT_S
        if monotonic() - self._began_at > limit_s:
            remedy = "; `hubd stop --force` ends it" if alive else ""
            raise Unavailable(f"the hub does not answer after {limit_s:.0f} s{remedy}; its log is {log_path()}")
        self.pause_s = min(self.pause_s * 1.6, LONGEST_PAUSE_S)
        return None

    def _connect(self) -> tuple[_socket.socket | None, bool]:
        """As `connect`; also whether somebody listens, whose backlog may be full."""
        try:
            hub = connect(self._path)
        except BlockingIOError:
            return None, True
        return hub, hub is not None

    def close(self) -> None:
        """Release the lock, so that others may try. A daemon that was started lives on."""
        if self.child is not None:
            self.child.close()
            self.child = None
        if self._turn_descriptor >= 0:
            os.close(self._turn_descriptor)
            self._turn_descriptor = -1


def connect_if_alive(directory: str, gone: bytes) -> _socket.socket | None:
    """A connection to a daemon that is alive, and not the one that is `gone`; None: there is none now.

    The lock is checked first: where a service manager holds the socket, connecting would start a daemon."""
    try:
        if is_alive(f"{directory}/hubd.lock") and lock_owner(directory) != gone:
            return connect(f"{directory}/hubd.sock")
    except (OSError, Unavailable):
        pass
    return None


def lock_owner(directory: str) -> bytes:
    """The contents of the daemon's lock: the pid of its present or last owner."""
    try:
        descriptor = os.open(f"{directory}/hubd.lock", OWN)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 32)
    finally:
        os.close(descriptor)


def connect(path: str) -> _socket.socket | None:
    """A connection to the listener at `path`; None: there is none. Never waits. Raises Unavailable: another user
    listens there; BlockingIOError: the listener's backlog is full."""
    connected = None
    hub = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        hub.setblocking(False)
        hub.connect(path)
        hub.setblocking(True)
        refuse_foreign_hub(hub, path)
        connected = hub
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    except ForeignPeer as error:
        raise Unavailable(str(error)) from None
    finally:
        if connected is None:
            hub.close()
    return connected


def _locked(descriptor: int) -> bool:
    """Take the lock if it is free; whether this process has it now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_alive(life: str) -> bool:
    """True if a daemon of this user holds its lock. Looking makes no lock, and shares one for a moment, which
    `hub.daemon.bind_unix.take_lock` waits out. Raises OSError: the path is something else, such as a link or a file of
    another user."""
    try:
        descriptor = os.open(life, OWN)
    except FileNotFoundError:
        return False
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(1, "the lock of the hub belongs to another user", life)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _exit_code(child: _socket.socket) -> int | None:
    """The exit code of a daemon that has ended; -1: it is not known. None: it runs."""
    try:
        said = child.recv(16, _socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return -1
    return int(said) if said.isdigit() else -1


def _spawn() -> _socket.socket:
    """Start the daemon, detached, in its own session; the socket that reports its end.

    Forked twice, so that it is no child of ours: some hosts end a server by killing its whole tree. Its standard input
    is the other end of the socket that is returned."""
    ours, theirs = _socket.socketpair()
    log = os.open(log_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    command = daemon_command()
    first = os.fork()
    if first == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                for descriptor, target in ((theirs.fileno(), 0), (log, 1), (log, 2)):
                    os.dup2(descriptor, target)
                os.closerange(3, 65536)
                os.chdir("/")
                os.umask(0o077)
                # Whoever started us, it is nobody's child (hub.linux.child_marks).
                os.environ["HUBD_INSTANCE"] = "hub"
                os.execv(command[0], command)
        finally:
            os._exit(0)
    os.waitpid(first, 0)
    theirs.close()
    os.close(log)
    return ours


def log_path() -> str:
    """The daemon's log; a large one is put aside first. Without a state directory there is none."""
    try:
        path = private_dir(state_dir()) + "/hubd.log"
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            os.rename(path, path + ".1")
        if os.path.exists(path) and not os.path.isfile(path):  # whoever writes to a pipe waits for a reader
            return os.devnull
    except (NotPrivate, OSError):
        return os.devnull
    return path


def _last_words() -> str:
    """The last line of the daemon's log."""
    path = log_path()
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            lines = log.read(TAIL_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return "and its log cannot be read"
    last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{last.strip().removeprefix('hubd: ')[:1000]} (log: {path})"
