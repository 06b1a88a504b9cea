"""The kernel's tables of sockets: who holds a port, who is at the other end of a connection, and who listens.

Linux keeps the uid of every TCP socket in `/proc/net/tcp` and `/proc/net/tcp6`, and every unix socket in
`/proc/net/unix`.
"""

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hub.linux.processes import PROC, Process, find_process, has_socket, pids

READINGS: Final = 3
"""Of a table of sockets, until a row is found: while others come and go, the kernel may leave out a row that is there,
or show it twice."""
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
            if has_socket(pid, inodes, proc):
                found.add(find_process(pid, proc))
    return {each for each in found if each is not None}


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
