"""Private files in a private folder: read without following links, replaced as a whole, durable when it returns; and
which folder it is, where homes are shared by machines.
"""

import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from config.atomic_writes import replace_private
from config.private_directories import NotPrivate, private_dir
from config.safe_reading import read_private
from hub.linux.this_machine import file_system_of, name_of_machine
from upstreams.oauth.model import OAuthProblem

MAX_FILE_BYTES: Final = 512 << 10
SHARED: Final = frozenset({"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p"})
"""File systems that several machines may have."""


class NotKept(OAuthProblem):
    """Something cannot be kept, or what is kept must not be read; the text says why, and what to do."""


def make_private(folder: Path) -> None:
    """Make `folder` (0700), and those above it, if they are missing. Raises NotKept: it is not this user's alone, or
    cannot be made."""
    if not folder.parent.exists():
        make_private(folder.parent)  # `makedirs` gives them the mode that the umask leaves
    try:
        private_dir(str(folder))
    except NotPrivate as error:
        raise NotKept(f"What is kept of sign-ins has no safe place: {error}.") from None


def read_file(path: Path) -> bytes | None:
    """The content of a file; None if there is none. Raises NotKept: it is a link, another user's, others may read it,
    or it cannot be read."""
    try:
        data, found = read_private(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotKept(f"What is kept of a sign-in is not read: {path}: {error.strerror}; delete it.") from None
    if found.st_uid != os.geteuid():
        raise NotKept(f"What is kept of a sign-in is not read: {path} belongs to another user; delete it.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise NotKept(f"Others may read what is kept of a sign-in: run chmod 600 {path}, or delete it.")
    return data


def write_file(path: Path, data: bytes) -> None:
    """Let the file (0600) hold `data`. It is on disk when this returns; until then it is as it was. Raises NotKept: it
    cannot be written."""
    make_private(path.parent)
    try:
        replace_private(path, data, sync_name=True)
    except OSError as error:
        raise NotKept(f"A sign-in cannot be kept: {path.parent}: {error.strerror}; see to that.") from None


def aside_of(path: Path) -> Path:
    """The place where a file is kept that cannot be used."""
    return path.with_name(f"{path.name}.unreadable")


def move_aside(path: Path) -> Path:
    """Rename a file that cannot be used, in place of an older such one, and return its new place."""
    with suppress(OSError):
        os.replace(path, aside_of(path))
    return aside_of(path)


def remove_file(path: Path) -> None:
    """Remove the file, if it is there. Raises NotKept: it cannot be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NotKept(f"What is kept of a sign-in cannot be deleted: {path}: {error.strerror}.") from None


def names_in(folder: Path, suffix: str) -> list[str]:
    """The names of the files in `folder` that end with `suffix`, sorted; none if there is no such folder."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(suffix))
    except OSError:
        return []


def store_folder(state: Path) -> Path:
    """The folder below the state directory: one for each machine, if several share that. Blocks briefly."""
    folder = state / "oauth"
    if file_system_of(state) not in SHARED:
        return folder
    name = sha256(f"hubd oauth\0{name_of_machine()}".encode())
    return folder / f"machine-{name.hexdigest()[:12]}"
