"""The cache of npx: the folder of one install, and the proof that it is broken.

npx installs what it runs into `_npx/HASH` of npm's cache, and afterwards takes for whole what stands there. An install
that was killed half-way leaves a folder with packages missing, and the server never starts again. Its last words prove
that: they name the folder, and a package that was to be installed there (`npx_packages`). Such a folder is moved aside,
within `_npx`, and npx installs anew.

Nothing else is ever moved: the folder must be the one that this server is installed in, lie directly in the `_npx` of
the cache that its environment leads to, be no link and belong to this user, and so must `_npx`.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from hub.link.hub_errors import UpstreamUnavailable
from upstreams.cold_start.npx_packages import lacks_package

HASH = re.compile(r"[0-9a-f]{16}\Z")
_BELOW: Final = re.compile(r"(?P<cache>/[^\0\n'\"]*?)/_npx/(?P<hash>[0-9a-f]{16})(?=/|['\"\s]|$)")
_PARTIAL: Final = re.compile(r"npm (?:error|ERR!) .*(ENOTEMPTY|EEXIST|ENOENT)")
MAX_ASIDE: Final = 100
"""Folders of one name that may stand aside."""


class Breakage(Struct, frozen=True):
    """A folder of the cache that is broken."""

    folder: Path
    """`.../_npx/HASH`."""
    why: str
    """The proof, in short."""


class BrokenNpxCache(UpstreamUnavailable):
    """The server cannot start: its folder in the cache of npx is broken."""

    def __init__(self, message: str, breakage: Breakage, *, upstream: str | None = None) -> None:
        super().__init__(message, upstream=upstream)
        self.breakage = breakage


def npm_cache(env: Mapping[str, str]) -> Path | None:
    """The cache of npm for a process with this environment; None: it has no home."""
    for name, value in env.items():
        if name.lower() == "npm_config_cache" and value:
            return Path(value)
    home = env.get("HOME")
    if not home:
        return None
    with suppress(OSError, ValueError):
        user_config = next((value for name, value in env.items() if name.lower() == "npm_config_userconfig"), "")
        for line in _lines_of(Path(user_config or f"{home}/.npmrc")):
            name, equals, value = line.partition("=")
            if equals and name.strip() == "cache":
                value = value.strip().strip("\"'").replace("${HOME}", home)
                return Path(home, value[2:]) if value.startswith("~/") else Path(value)
    return Path(home, ".npm")


def find_breakage(said: str, name: str, env: Mapping[str, str]) -> Breakage | None:
    """The breakage of the folder `name` that the last words of a server prove, which npx has started with `env`; None:
    none. Reads a little of the file system."""
    if not name or "/_npx/" not in said or (cache := npm_cache(env)) is None:
        return None
    try:
        parent = os.path.realpath(cache / "_npx")
    except (OSError, ValueError):
        return None
    folder = Path(parent, name)
    for found in _BELOW.finditer(said):
        if found["hash"] != name:
            continue
        with suppress(OSError, ValueError):
            if os.path.realpath(f"{found['cache']}/_npx") == parent and _is_own_folder(folder):
                why = _reason(said, folder)
                return Breakage(folder, why) if why else None
    return None


def move_aside(folder: Path) -> Path:
    """Rename a broken folder, so that npx does not find it; the folder as it is called then. Blocks.

    Raises:
        OSError: it cannot be, or must not be.
    """
    if folder.parent.name != "_npx" or not HASH.match(folder.name):
        raise PermissionError(f"{folder} is no folder of npx")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    parent = os.open(folder.parent, flags)
    try:
        if os.fstat(parent).st_uid != os.geteuid():
            raise PermissionError(f"{folder.parent} belongs to another user")
        about = os.stat(folder.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            raise PermissionError(f"{folder} is no folder of this user")
        for number in range(1, MAX_ASIDE + 1):
            name = f"{folder.name}.broken-{number}"
            if not _exists(name, parent):
                os.rename(folder.name, name, src_dir_fd=parent, dst_dir_fd=parent)
                return folder.parent / name
    finally:
        os.close(parent)
    raise FileExistsError(f"{folder} was moved aside {MAX_ASIDE} times")


def _reason(said: str, folder: Path) -> str:
    """The error that proves a breakage of the folder, which the lines name; "": there is none."""
    if lacks_package(said, folder):
        return "ERR_MODULE_NOT_FOUND" if "ERR_MODULE_NOT_FOUND" in said else "MODULE_NOT_FOUND"
    found = _PARTIAL.search(said)
    return "" if found is None else found[1]


def _is_own_folder(folder: Path) -> bool:
    about = os.lstat(folder)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and folder.parent.name == "_npx"


def _exists(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _lines_of(path: Path) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(1 << 16).splitlines()
