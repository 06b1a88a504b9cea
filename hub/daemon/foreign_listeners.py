"""Listeners of other users at the hub's port: hosts that know its address send their token to whoever listens there.

Linux keeps the uid of every TCP socket in `/proc/net/tcp` and `/proc/net/tcp6`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
MAX_BYTES: Final = 16 << 20
"""The part of a table that is read: 100 000 sockets."""
LISTENING: Final = "0A"


def is_held_by_another_user(port: int, tables: tuple[Path, ...] = TABLES, uid: int | None = None) -> bool:
    """True if a socket at `port` may belong to a user other than `uid`, by default that of this process.

    A holder that is in no table counts as another user: it may have bound the port without listening yet, or the
    system hides its tables.
    """
    own = os.geteuid() if uid is None else uid
    holders = {holder for table in tables for holder in _holders(table, port)}
    return holders != {own}


def _holders(table: Path, port: int) -> Iterator[int]:
    try:
        with table.open("rb") as file:
            lines = file.read(MAX_BYTES).decode("ascii", "replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) > 7 and fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
            yield int(fields[7])
