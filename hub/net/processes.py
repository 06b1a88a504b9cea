"""Processes as the kernel knows them (proc_pid_stat(5))."""

from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")


class Process(NamedTuple):
    """One process: a number that is used again later, and when it began, in ticks since the machine did."""

    pid: int
    began: int


class Facts(NamedTuple):
    """The facts that the kernel tells of a process."""

    name: str
    parent: int
    began: int


def process(pid: int, proc: Path = PROC) -> Process | None:
    """The process that has this number now."""
    found = facts(pid, proc)
    return None if found is None else Process(pid, found.began)


def facts(pid: int, proc: Path) -> Facts | None:
    """Name, parent and start of a process (proc_pid_stat(5)); the name may hold anything but ends with the last ")"."""
    try:
        text = (proc / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(") ")
    fields = rest.split()
    if len(fields) < 20 or not fields[1].isdecimal() or not fields[19].isdecimal():
        return None
    return Facts(head.partition("(")[2], int(fields[1]), int(fields[19]))
