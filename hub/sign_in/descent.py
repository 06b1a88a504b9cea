"""Which processes descend from which: what a host or a server runs is not a person at a terminal. A guard rail.

A model with a shell would otherwise agree in its user's place. It can still get out of the tree of its host (`setsid`
and the death of its parent are enough), so this keeps honest programs honest, and no others out.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
MAX_DEPTH: Final = 64
MAX_PROCESSES: Final = 4096
SHELLS: Final = frozenset(
    ["sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "zsh", "env", "npm", "npx", "uvx", "timeout", "nice", "setsid"]
)
"""Programs that only start another one."""
SERVICE_MANAGERS: Final = frozenset(
    [
        "systemd",
        "init",
        "launchd",
        "openrc-init",
        "runit",
        "runsvdir",
        "s6-svscan",
        "dinit",
        "tini",
        "dumb-init",
        "docker-init",
        "catatonit",
        "supervisord",
        "sshd",
        "tmux",
        "screen",
        "login",
    ]
)
"""Programs that start everything of a user, and so say nothing of who asked."""


class Process(NamedTuple):
    """One process: a number that is used again later, and when it began, in ticks since the machine did."""

    pid: int
    began: int


class _Facts(NamedTuple):
    name: str
    parent: int
    began: int


def process(pid: int, proc: Path = PROC) -> Process | None:
    """The process that has this number now."""
    facts = _facts(pid, proc)
    return None if facts is None else Process(pid, facts.began)


def is_of_a_host(asker: Process | None, shims: Iterable[Process], daemon: int, proc: Path = PROC) -> bool:
    """True if `asker` may be a program of a host, or of a server: it descends from what started one of the attached
    `shims`, or from the hub itself; or it cannot be told."""
    if asker is None or process(asker.pid, proc) != asker:
        return True
    starters = {starter for shim in shims if (starter := _starter(shim, proc)) is not None}
    above = [asker.pid, *_ancestors(asker.pid, proc)]
    return any(pid in starters or (pid == daemon and pid != 1) for pid in above)


def _starter(shim: Process, proc: Path) -> int | None:
    """The program that attached a host by `shim`: its parent, or the next above that is no shell."""
    if process(shim.pid, proc) != shim:
        return None
    for pid in _ancestors(shim.pid, proc):
        facts = _facts(pid, proc)
        if facts is None or pid == 1 or facts.name in SERVICE_MANAGERS:
            return None
        if facts.name not in SHELLS:
            return pid
    return None


def is_below(top: int, *, holding: int, proc: Path = PROC) -> bool:
    """True if a process below `top` holds the socket of this inode, or one of this user that cannot be looked at may.
    Blocks for some milliseconds.

    The processes below are looked at and no others, so a browser of hundreds of processes costs nothing.
    """
    wanted = f"socket:[{holding}]"
    for pid in _below(top, proc):
        try:
            with os.scandir(proc / str(pid) / "fd") as entries:
                for entry in entries:
                    try:
                        if os.readlink(entry.path) == wanted:
                            return True
                    except OSError:
                        continue
        except FileNotFoundError:
            continue
        except OSError:
            if _uid(pid, proc) in (None, os.geteuid()):
                return True
    return False


def _uid(pid: int, proc: Path) -> int | None:
    """The effective uid of a process that hides its files, as programs of other users and some others do."""
    try:
        text = (proc / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return None
    line = next((line for line in text.split("\n") if line.startswith("Uid:")), "")
    return int(line.split()[2]) if len(line.split()) > 2 else None


def _below(top: int, proc: Path) -> Iterator[int]:
    """All processes that descend from `top`, without it."""
    children: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return
    for name in names:
        facts = _facts(int(name), proc)
        if facts is not None:
            children.setdefault(facts.parent, []).append(int(name))
    waiting, seen = [top], 0
    while waiting and seen < MAX_PROCESSES:
        for child in children.pop(waiting.pop(), ()):
            seen += 1
            waiting.append(child)
            yield child


def _ancestors(pid: int, proc: Path) -> Iterator[int]:
    for _ in range(MAX_DEPTH):
        facts = _facts(pid, proc)
        if facts is None or facts.parent <= 0:
            return
        pid = facts.parent
        yield pid


def _facts(pid: int, proc: Path) -> _Facts | None:
    """Name, parent and start of a process (proc_pid_stat(5)); the name may hold anything but ends with the last ")"."""
    try:
        text = (proc / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(") ")
    fields = rest.split()
    if len(fields) < 20 or not fields[1].isdecimal() or not fields[19].isdecimal():
        return None
    return _Facts(head.partition("(")[2], int(fields[1]), int(fields[19]))
