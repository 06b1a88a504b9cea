"""A connection to the daemon, which is started if it is absent. Part of the shim: it imports next to nothing.

Twenty shims that start at once start one daemon: whoever holds `start.lock` starts it, the others wait for the socket.
The daemon's own lock (`hubd.lock`) tells whether one is alive that does not listen yet, or no longer.
"""

import _socket
import fcntl
import os
import select
import sys

from config import places

DAEMON = (sys.executable, "-I", "-m", "hub", "serve")
START_LIMIT_S = 15.0
"""From the first look until a daemon that does not listen is given up."""
TAIL_BYTES = 1 << 14
LOG_BYTES = 4 << 20


class Unavailable(Exception):
    """There is no hub to talk to. The text says why, and what to do."""


def attach(directory: str) -> _socket.socket:
    """A connection to the daemon whose sockets are in `directory`; started first, if need be.

    Raises:
        Unavailable: it did not start, or does not listen after `START_LIMIT_S`.
    """
    path = f"{directory}/hubd.sock"
    if hub := _connect(path):
        return hub
    turn = os.open(f"{directory}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return _start_and_connect(path, turn, f"{directory}/hubd.lock")
    finally:
        os.close(turn)


def _start_and_connect(path: str, turn: int, life: str) -> _socket.socket:
    """Start a daemon when it is our turn and none is alive, and wait for `path` to answer."""
    mine, child = False, None
    delay_s, waited_s = 0.005, 0.0
    while waited_s < START_LIMIT_S:
        mine = mine or _locked(turn)
        if hub := _connect(path):
            return hub
        if mine and child is None and not _is_alive(life):
            child = _spawn()
        if _ended_within(child, delay_s):
            child = None
            if not _is_alive(life):  # else someone else's daemon was first
                raise Unavailable(f"the hub did not start: {_last_words()}")
        waited_s += delay_s
        delay_s = min(delay_s * 1.6, 0.25)
    raise Unavailable(f"the hub does not answer after {START_LIMIT_S:.0f} s; its log is {log_path()}")


def _connect(path: str) -> _socket.socket | None:
    hub = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        hub.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        hub.close()
        return None
    return hub


def _locked(descriptor: int) -> bool:
    """Take the lock if it is free; whether it is ours now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(life: str) -> bool:
    """Whether a daemon holds its lock. Looking takes the lock for a moment, which `hub.sockets.take_lock` waits out."""
    descriptor = os.open(life, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _ended_within(child: _socket.socket | None, seconds: float) -> bool:
    """Wait for `seconds`, or until the daemon we started has ended; whether it has."""
    poll = select.poll()
    if child is not None:
        poll.register(child.fileno(), select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _spawn() -> _socket.socket:
    """Start the daemon, detached, in its own session; the socket that reports its end.

    Forked twice, so that it is no child of ours: some hosts end a server by killing its whole tree. Its standard input
    is the other end of the socket that is returned.
    """
    ours, theirs = _socket.socketpair()
    log = os.open(log_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
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
                os.environ["HUBD_INSTANCE"] = "hub"  # whoever started us, it is nobody's child (upstreams.orphans)
                os.execv(DAEMON[0], DAEMON)
        finally:
            os._exit(0)
    os.waitpid(first, 0)
    theirs.close()
    os.close(log)
    return ours


def log_path() -> str:
    """The daemon's log; a large one is put aside first. Without a state directory there is none."""
    try:
        path = places.private_dir(places.state_dir()) + "/hubd.log"
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            os.rename(path, path + ".1")
    except (places.NotPrivate, OSError):
        return os.devnull
    return path


def _last_words() -> str:
    """The last line of the daemon's log."""
    path = log_path()
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
    except OSError:
        return "and its log cannot be read"
    last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{last.strip()[:1000]} (log: {path})"
