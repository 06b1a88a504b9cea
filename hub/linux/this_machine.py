"""This machine: its name, the name of its present run, and its file systems."""

import os
from pathlib import Path
from typing import Final

_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")
MOUNTS: Final = Path("/proc/self/mountinfo")
MACHINE_ID: Final = Path("/etc/machine-id")


def read_boot_id() -> str:
    """The name of this run of the machine. Raises OSError: the system has none."""
    return _ID_PATH.read_text("ascii", "replace").strip()


def file_system_of(path: Path) -> str:
    """The type of the file system that `path` is on; "": nobody can say."""
    try:
        device = os.stat(path).st_dev
        mounts = MOUNTS.read_text(errors="replace")
    except OSError:
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == number and after:
            return after.split()[0]
    return ""


def name_of_machine() -> str:
    """The text that this machine alone has, which is not to be shown (machine-id(5)); else its host name."""
    try:
        id = MACHINE_ID.read_text(errors="replace").strip()
    except OSError:
        id = ""
    return id or os.uname().nodename
