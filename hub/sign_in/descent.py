"""The descent of processes: one that a host or a server runs is not a person at a terminal. A guard rail.

A model with a shell would otherwise agree in its user's place. It can still get out of the tree of its host (`setsid`
and the death of its parent are enough), so this keeps honest programs honest, and no others out.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from hub.linux.processes import PROC, Process, find_process, find_stat, pids

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


def why_of_a_host(asker: Process | None, shims: Iterable[Process], daemon: int, proc: Path = PROC) -> str:
    """The reason why `asker` may be a program of a host, or of a server, for the log: it descends from what started one
    of the attached `shims`, or from the hub itself; or it cannot be told. "": it is none.

    `shims` are those that were there when they attached: a number of one that has ended may be anybody's.
    """
    if asker is None:
        return "it cannot be told which process asks"
    if find_process(asker.pid, proc) != asker:
        return f"process {asker.pid}, which asked, has ended"
    starters = {starter: shim.pid for shim in shims if (starter := _starter(shim, proc)) is not None}
    for pid in (asker.pid, *_ancestors(asker.pid, proc)):
        if pid in starters:
            return f"process {asker.pid} is below process {pid}, which attached a host by process {starters[pid]}"
        if pid == daemon and pid != 1:
            return f"process {asker.pid} is below the hub"
    return ""


def _starter(shim: Process, proc: Path) -> int | None:
    """The program that attached a host by `shim`: its parent, or the next above that is no shell."""
    if find_process(shim.pid, proc) != shim:
        return None
    for pid in _ancestors(shim.pid, proc):
        found = find_stat(pid, proc)
        if found is None or pid == 1 or found.name in SERVICE_MANAGERS:
            return None
        if found.name not in SHELLS:
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
    for pid in pids(proc):
        found = find_stat(pid, proc)
        if found is not None:
            children.setdefault(found.parent, []).append(pid)
    waiting, seen = [top], 0
    while waiting and seen < MAX_PROCESSES:
        for child in children.pop(waiting.pop(), ()):
            seen += 1
            waiting.append(child)
            yield child


def _ancestors(pid: int, proc: Path) -> Iterator[int]:
    for _ in range(MAX_DEPTH):
        found = find_stat(pid, proc)
        if found is None or found.parent <= 0:
            return
        pid = found.parent
        yield pid
