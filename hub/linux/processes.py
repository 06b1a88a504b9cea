"""Processes as the kernel knows them: `/proc` (proc_pid_stat(5)), and pidfds."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
PIPE_BYTES: Final = 1 << 20
"""The size of a pipe to or from a child."""
F_SETPIPE_SZ: Final = 1031


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


def signal_process(pidfd: int, number: int) -> None:
    """Send a signal to the process of this descriptor, and to no other that has its number by now.

    Raises:
        OSError: it has ended, or is another user's.
    """
    signal.pidfd_send_signal(pidfd, number)


def take_descriptors(popen: subprocess.Popen[bytes]) -> tuple[int, list[int]]:
    """A pidfd of a process, and its pipes, large and no longer in the hands of `popen`; all of them or none.

    Raises:
        OSError: there are too many descriptors.
    """
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
