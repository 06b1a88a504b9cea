"""Marks of children: which hub a process belongs to, and whose child that hub is.

Every child has a mark in its environment, which its own children inherit:

    HUBD_INSTANCE=PID.STARTED.PLACE.TOKEN.NUMBER[,...]

PID and STARTED (ticks since the boot) name the hub for as long as the machine runs, since a pid comes again but not at
the same tick; PLACE is the boot and the namespaces in which they mean that; TOKEN cannot be guessed; NUMBER is the
child's. A hub that is itself the child of a hub puts its own mark behind the one it was given. So nothing has to be
remembered.
"""

import os
import secrets
from contextlib import suppress
from typing import Final

from hub.linux.processes import read_stat
from hub.linux.this_machine import read_boot_id

MARKER: Final = "HUBD_INSTANCE"
"""In the environment of every child: which hub, and which of its children."""
OWN: Final = "hub"
"""The mark of a daemon that a shim started: it belongs to nobody, even if the shim was some hub's child."""
MAX_DEPTH: Final = 5
"""Most hubs that may be each other's children; more are a hub that starts itself."""
NOWHERE: Final = "nowhere"
"""The place of a hub that cannot find out where it is."""


def _place() -> str:
    """This boot and the namespaces of pids and times, in which a pid and a start are what they are."""
    boot = read_boot_id().replace("-", "")
    pids = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    try:
        times = os.readlink("/proc/self/ns/time").strip("time:[]")
    except FileNotFoundError:  # before Linux 5.6
        times = "0"
    return f"{boot}-{pids}-{times}"


def _name_of_this_hub() -> str:
    token = secrets.token_hex(8)
    with suppress(OSError):
        if (me := read_stat("self")) is not None:
            return f"{me.pid}.{me.began}.{_place()}.{token}"
    return f"{os.getpid()}.0.{NOWHERE}.{token}"


THIS_HUB: Final = _name_of_this_hub()
"""The beginning of the mark of all children of this process."""


def depth(mark: str) -> int:
    """The number of hubs that a process with this mark is below."""
    return sum("." in each for each in mark.split(","))


def mark_of(number: int, inherited: str) -> str:
    """The mark of a child of this hub, which has `inherited` itself."""
    mine = f"{THIS_HUB}.{number}"
    return f"{inherited},{mine}" if depth(inherited) else mine
