"""The folder that holds what is kept of sign-ins: on file systems that several machines share, each has its own, since
locks there cannot be relied on, and one machine's renewal would end the other's sign-in."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

SHARED: Final = frozenset({"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p"})
MOUNTS: Final = Path("/proc/self/mountinfo")
MACHINE_ID: Final = Path("/etc/machine-id")


def store_folder(state: Path, *, mounts: Path = MOUNTS, machine_id: Path = MACHINE_ID) -> Path:
    """The folder below the state directory. Blocks briefly."""
    folder = state / "oauth"
    try:
        device = os.stat(state).st_dev
        is_shared = kind_of_mount(mounts.read_text(errors="replace"), device) in SHARED
    except OSError:
        is_shared = False
    return folder / f"machine-{_machine(machine_id)}" if is_shared else folder


def kind_of_mount(mountinfo: str, device: int) -> str:
    """The type of the file system with the number `device`, by `/proc/self/mountinfo`; "": it is not there."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == number and after:
            return after.split()[0]
    return ""


def _machine(path: Path) -> str:
    """Names this machine; its id itself is not to be shown (machine-id(5))."""
    try:
        id = path.read_text(errors="replace").strip()
    except OSError:
        id = ""
    return sha256(f"hubd oauth\0{id or os.uname().nodename}".encode()).hexdigest()[:12]
