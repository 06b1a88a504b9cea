"""Processes as the kernel knows them: `/proc` (proc_pid_stat(5)), and pidfds."""

import fcntl
import os
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
PIPE_BYTES: Final = 1 << 20
"""The size of a pipe to or from a child."""
F_SETPIPE_SZ: Final = 1031
MAX_DEPTH: Final = 64
MAX_PROCESSES: Final = 4096


class Process(NamedTuple):
    """One process: a number that is used again later, and when it began, in ticks since the machine did."""

    pid: int
    began: int


class ProcessStat(NamedTuple):
    """The facts that the kernel tells of a process."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    ticks: int
    """Of processor time, its children that ended included."""
    began: int
    """In clock ticks since the boot."""
    terminal: int = 0
    """The number of the terminal that controls it; 0: none does."""


def read_stat(pid: int | str, proc: Path = PROC) -> ProcessStat | None:
    """The facts of a process; None: there is none of that number. The name may hold anything but ends with the last
    ")".

    Raises:
        OSError: nobody can say.
    """
    try:
        with open(proc / str(pid) / "stat", "rb") as file:
            head, _, rest = file.read().rpartition(b") ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = rest.split()
    try:
        number, _, name = head.partition(b" (")
        return ProcessStat(
            pid=int(number),
            name=name.decode("utf-8", "replace"),
            state=fields[0].decode(),
            parent=int(fields[1]),
            session=int(fields[3]),
            ticks=sum(map(int, fields[11:15])),
            began=int(fields[19]),
            terminal=int(fields[4]),
        )
    except (ValueError, IndexError):
        return None


def find_stat(pid: int, proc: Path = PROC) -> ProcessStat | None:
    """The facts of a process; None: there is none of that number, or nobody can say."""
    try:
        return read_stat(pid, proc)
    except OSError:
        return None


def find_process(pid: int, proc: Path = PROC) -> Process | None:
    """The process that has this number now."""
    found = find_stat(pid, proc)
    return None if found is None else Process(pid, found.began)


def find_program(pid: int, proc: Path = PROC) -> str:
    """The file that a process runs, be it replaced by now; of one that hides it, its name. "": nobody can say."""
    try:
        return os.readlink(proc / str(pid) / "exe").removesuffix(" (deleted)")
    except OSError:
        found = find_stat(pid, proc)
        return "" if found is None else found.name


def pids(proc: Path = PROC) -> list[int]:
    """The numbers of all processes; []: the system does not show them."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return []


def open_pidfd(pid: int) -> int | None:
    """A descriptor of a process, to be closed; None: there is none of that number, or the kernel has no such thing."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


@contextmanager
def hold(pid: int) -> Iterator[int | None]:
    """A descriptor of a process, as `open_pidfd`, which is closed afterwards."""
    process = open_pidfd(pid)
    try:
        yield process
    finally:
        if process is not None:
            os.close(process)


def take_descriptors(popen: subprocess.Popen[bytes]) -> tuple[int, list[int]]:
    """A pidfd of a process, and its pipes, large and no longer in the hands of `popen`; all of them or none. Raises
    OSError: there are too many descriptors."""
    pipes = [pipe for pipe in (popen.stdin, popen.stdout, popen.stderr) if pipe is not None]
    made: list[int] = []
    try:
        made.append(os.pidfd_open(popen.pid))
        made += (os.dup(pipe.fileno()) for pipe in pipes)
    except OSError:
        for descriptor in made:
            os.close(descriptor)
        raise
    for pipe, descriptor in zip(pipes, made[1:], strict=True):
        pipe.close()
        with suppress(OSError):  # the user's budget for large pipes is spent
            fcntl.fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES)
    return made[0], made[1:]


def read_command_line(pid: int, most: int) -> bytes:
    """The first bytes of the arguments of a process, a zero after each; none: it has ended, or is another user's."""
    try:
        with open(PROC / str(pid) / "cmdline", "rb") as file:
            return file.read(most)
    except OSError:
        return b""


def is_below(top: int, *, holding: int, proc: Path = PROC) -> bool:
    """True if a process below `top` holds the socket of this inode, or one of this user that cannot be looked at may.
    Blocks for some milliseconds.

    The processes below are looked at and no others, so a browser of hundreds of processes costs nothing.
    """
    for pid in _below(top, proc):
        try:
            if has_socket(pid, {holding}, proc):
                return True
        except FileNotFoundError:
            continue
        except OSError:
            if _uid(pid, proc) in (None, os.geteuid()):
                return True
    return False


def has_socket(pid: int, inodes: Collection[int], proc: Path) -> bool:
    """True if a process has a socket of one of these inodes. Raises OSError: it has ended, or cannot be looked at."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    with os.scandir(proc / str(pid) / "fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if os.readlink(entry.path) in wanted:
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


def ancestors(pid: int, proc: Path = PROC) -> Iterator[int]:
    """The processes above one, its parent first, at most `MAX_DEPTH`."""
    for _ in range(MAX_DEPTH):
        found = find_stat(pid, proc)
        if found is None or found.parent <= 0:
            return
        pid = found.parent
        yield pid
