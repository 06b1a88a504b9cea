"""Processes as the kernel knows them: `/proc` (proc_pid_stat(5)), and pidfds; and its tables of sockets: who holds a
port, who is at the other end of a connection, and who listens.

Linux keeps the uid of every TCP socket in `/proc/net/tcp` and `/proc/net/tcp6`, and every unix socket in
`/proc/net/unix`.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
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
READINGS: Final = 3
"""Of a table of sockets, until a row is found: while others come and go, the kernel may leave out a row that is there,
or show it twice."""


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


def children(pid: int, proc: Path = PROC) -> list[int]:
    """The children of a process that have not ended. Raises OSError: it has ended, or nobody can say."""
    found: list[int] = []
    for thread in os.listdir(proc / str(pid) / "task"):
        found += map(int, (proc / str(pid) / "task" / thread / "children").read_bytes().split())
    return found


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
            if _holds(pid, {holding}, proc):
                return True
        except FileNotFoundError:
            continue
        except OSError:
            if _uid(pid, proc) in (None, os.geteuid()):
                return True
    return False


def _holds(pid: int, inodes: Collection[int], proc: Path) -> bool:
    """True if a process has a socket of one of these inodes. Raises OSError: it has ended, or cannot be looked at."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    with os.scandir(proc / str(pid) / "fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if os.readlink(entry.path) in wanted:
                    return True
    return False


def find_clients(port: int, proc: Path = PROC) -> set[Process]:
    """The processes that are connected to a port of this machine, as far as they can be looked at. Blocks for some
    milliseconds."""
    inodes, end = set(), b":%04X" % port
    for name in ("tcp", "tcp6"):
        for fields in map(bytes.split, _read(proc / "net" / name).splitlines()[1:]):
            if len(fields) > 9 and fields[3] == ESTABLISHED and fields[2] == fields[1].partition(b":")[0] + end:
                inodes.add(int(fields[9]))
    found: set[Process | None] = set()
    for pid in pids(proc) if inodes else ():
        with suppress(OSError):
            if _holds(pid, inodes, proc):
                found.add(find_process(pid, proc))
    return {each for each in found if each is not None}


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


TABLES: Final = (PROC / "net/tcp", PROC / "net/tcp6")
UNIX: Final = PROC / "net/unix"
MAX_BYTES: Final = 16 << 20
"""The part of a table that is read: 100 000 sockets, which other users can make, too. A connection in the rest is not
found, so it is nobody's."""
LISTENING: Final = "0A"
ESTABLISHED: Final = b"01"
ACCEPTS: Final = "00010000"
"""The flags of a unix socket that listens."""

Address = tuple[str, int]


def is_held_by_another_user(port: int, tables: tuple[Path, ...] = TABLES, uid: int | None = None) -> bool:
    """True if a socket at `port` may belong to a user other than `uid`, by default that of this process.

    A holder that is in no table counts as another user: it may have bound the port without listening yet, or the
    system hides its tables.
    """
    own = os.geteuid() if uid is None else uid
    for _ in range(READINGS):
        if holders := {holder for table in tables for holder in _holders(table, port)}:
            return holders != {own}
    return True


def _holders(table: Path, port: int) -> Iterator[int]:
    for line in _read(table).decode("ascii", "replace").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
            yield int(fields[7])


def find_peer(own: Address, peer: Address, proc: Path = PROC) -> tuple[int, int] | None:
    """The uid and the inode of the socket at `peer` that is connected to `own`; None: there is not exactly one."""
    for _ in range(READINGS):
        rows = {row for name in ("tcp", "tcp6") for row in _rows(proc / "net" / name, peer, own)}
        if len(rows) == 1:
            [(state, uid, inode)] = rows
            return (uid, inode) if state == ESTABLISHED and inode else None
    return None


def _rows(table: Path, peer: Address, own: Address) -> Iterator[tuple[bytes, int, int]]:
    """State, uid and inode of the sockets in `table` between these ends."""
    data = _read(table)
    for near in _spellings(peer):
        for far in _spellings(own):
            wanted = b": %b %b " % (near, far)
            at = data.find(wanted)
            while at >= 0:
                fields = data[at : data.find(b"\n", at)].split()
                if len(fields) > 9 and fields[7].isdigit() and fields[9].isdigit():
                    yield fields[3], int(fields[7]), int(fields[9])
                at = data.find(wanted, at + 1)


def _spellings(end: Address) -> Iterator[bytes]:
    """An address and port as the tables write it: words of 32 bits in the machine's order. Of one of IPv4 also as the
    mapped one of IPv6, which a socket of both families has."""
    host, port = end
    host = host.removeprefix("::ffff:") if "." in host else host
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return
    for data in (packed, bytes(10) + b"\xff\xff" + packed) if len(packed) == 4 else (packed,):
        words = struct.unpack(f"{'<' if sys.byteorder == 'little' else '>'}{len(data) // 4}I", data)
        yield b"".join(b"%08X" % word for word in words) + b":%04X" % port


def listening_paths(table: Path = UNIX) -> set[str]:
    """The paths of all listening unix sockets, as they were bound. Raises OSError: the kernel does not show them."""
    with table.open("rb") as file:
        lines = os.fsdecode(file.read(MAX_BYTES)).split("\n")[1:]
    return {parts[7] for line in lines if len(parts := line.split(None, 7)) == 8 and parts[3] == ACCEPTS}


def _read(table: Path) -> bytes:
    """The beginning of a table; b"": the kernel does not show it."""
    try:
        with table.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return b""
