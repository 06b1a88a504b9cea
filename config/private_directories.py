"""Directories that are this user's alone, made and checked. Plain strings: the shim imports this, and nothing heavy."""

import os

from hub.linux.peer_credentials import has_all_users

ROOT = 0
UNMAPPED = 65534
"""The number that files of users have who have none here."""


class NotPrivate(Exception):
    """A directory that must be ours alone is not, or cannot be made."""


def make_dirs(path: str) -> None:
    """The directory `path`, and those above it, made for this user alone (0700) where they are missing.
    Raises: OSError, if they cannot be made, or would lie in a directory of another user, whom they would lock out: root
    has the HOME of whoever ran `sudo`. `strerror` says it for people."""
    if not os.path.isdir(path):
        refuse_foreign_place(path)
        os.makedirs(path, mode=0o700, exist_ok=True)


def refuse_foreign_place(path: str) -> None:
    """Raise OSError, as `refuse_foreign_dir`, if `path`, which is not there, would lie in a directory or home directory
    of another user."""
    above = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    home = os.path.expanduser("~")
    if path.startswith(f"{home}/") and os.path.isdir(home):
        refuse_foreign_dir(home)
    refuse_foreign_dir(above)


def refuse_foreign_dir(directory: str, found: "os.stat_result | None" = None) -> None:
    """Raise, if nothing is to be made in `directory`, since it belongs to another user than this one or root.
    `found`: what is known of it.
    Raises: OSError, if it does, or that cannot be told."""
    owner = (found or os.stat(directory)).st_uid
    # One may stand for users that this container or sandbox has no number for, such as the root outside.
    is_unmapped = owner == UNMAPPED and has_all_users() is False
    if owner not in (ROOT, os.geteuid()) and not is_unmapped:
        what = "the home directory" if directory == os.path.expanduser("~") else "the directory"
        text = f"{what} {directory} belongs to another user (uid {owner}); run this as that user"
        raise PermissionError(1, text, directory)


def private_dir(path: str) -> str:
    """Make the directory `path` if it is missing, and be sure that it is this user's and no other user may enter it.

    One called `hubd` that others could enter but not write is closed to them: someone made it to put a hubd.toml there,
    with all XDG directories the same.
    Raises: NotPrivate, if it is something else; nothing was changed."""
    try:
        make_dirs(path)
        found = os.lstat(path)
    except FileExistsError:
        raise NotPrivate(f"{path} is not a directory: move it away") from None
    except OSError as error:
        raise NotPrivate(f"cannot make the directory {path}: {error.strerror}") from None
    if found.st_mode & 0o170000 != 0o040000:
        raise NotPrivate(f"{path} is a link, not a directory: move it away")
    if found.st_uid != os.getuid():
        todo = "run this as that user" if _is_home_of(found.st_uid) else "move it away"
        raise NotPrivate(f"the directory {path} belongs to another user (uid {found.st_uid}): {todo}")
    if found.st_mode & 0o077:
        if path.endswith("/hubd") and not found.st_mode & 0o022:
            _close_to_others(path, found)
            return path
        import shlex  # not above: the shim loads this module, and shlex brings re, which doubles its start

        raise NotPrivate(f"others may enter the directory {path}: run `chmod 700 {shlex.quote(str(path))}`")
    return path


def _close_to_others(path: str, found: os.stat_result) -> None:
    """Close the directory that was `found` at `path` to others, and none that took its place; else raise NotPrivate."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not os.path.samestat(os.fstat(descriptor), found):
                raise NotPrivate(f"the directory {path} was changed by another program meanwhile; run this again")
            os.fchmod(descriptor, 0o700)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise NotPrivate(f"the directory {path} cannot be closed to others: {error.strerror}") from None


def _is_home_of(uid: int) -> bool:
    try:
        return os.stat(os.path.expanduser("~")).st_uid == uid
    except OSError:
        return False
