"""The cache of npx: the folder of one install, and the proof that it is broken.

npx installs what it runs into `_npx/HASH` of npm's cache, and afterwards takes for whole what stands there. An install
that was killed half-way leaves a folder with packages missing, and the server never starts again. Its last words prove
that: they name the folder, and a package that was to be installed there, for a server may also miss what nobody ever
installed, such as a plug-in. Such a folder is moved aside, within `_npx`, and npx installs anew.

Nothing else is ever moved: it must be the folder that this server is installed in, directly in the `_npx` of the cache
that its environment leads to; both must belong to this user and be no links. A folder that breaks again is not moved
before the server has been connected, for then the package itself lacks something. Nor is one from which another program
runs. A few files of the folder are read, bounded; they may be anything.
"""

import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from config.remembered_facts import Memory
from config.safe_reading import read_plain
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnavailable
from hub.linux.processes import pids, read_command_line
from upstreams.cold_start.start_gate import command_key

HASH = re.compile(r"[0-9a-f]{16}\Z")
_BELOW: Final = re.compile(r"(?P<cache>/[^\0\n'\"]*?)/_npx/(?P<hash>[0-9a-f]{16})(?=/|['\"\s]|$)")
_PARTIAL: Final = re.compile(r"npm (?:error|ERR!) .*(ENOTEMPTY|EEXIST|ENOENT)")
MAX_ASIDE: Final = 100
"""Folders of one name that may stand aside."""
LOCK: Final = "node_modules/.package-lock.json"
"""The file that npm writes when an install is done."""
MAX_LOCK_BYTES: Final = 1 << 23
MAX_PACKAGE_BYTES: Final = 1 << 20
MAX_IMPORTERS: Final = 8
"""Files named in the last words whose package is looked at."""
_NAMED: Final = re.compile(r"Cannot find (?:package|module) '([^'\0\n]{1,4096})'")
_FILE: Final = re.compile(r"/_npx/(?P<hash>[0-9a-f]{16})/(?P<path>node_modules/[^\0\n'\":]{1,4096})")
_PACKAGE: Final = re.compile(r"(?:@[\w.~-]+/)?[\w~][\w.~-]*")
log = logging.getLogger(__name__)
MENDED: Final = "npx_mended"
"""The section of the memory that lists servers whose folder was moved aside since they were connected last."""
MAX_COMMAND_BYTES: Final = 1 << 14
MAX_PROCESSES: Final = 1 << 16


class BrokenNpxCache(UpstreamUnavailable):
    """The server cannot start: its `folder` in the cache of npx (`.../_npx/HASH`) is broken; `why` is the proof."""

    def __init__(self, upstream: str, folder: Path, why: str) -> None:
        super().__init__(f"{upstream} cannot start: {folder} is broken", upstream=upstream)
        self.folder = folder
        self.why = why


def npm_cache(env: Mapping[str, str]) -> Path | None:
    """The cache of npm for a process with this environment; None: it has no home."""
    settings = {name.lower(): value for name, value in env.items() if value}  # of two spellings npm takes the last
    if cache := settings.get("npm_config_cache"):
        return Path(cache)
    if not (home := env.get("HOME")):
        return None
    with suppress(OSError, ValueError):
        user_config = settings.get("npm_config_userconfig", f"{home}/.npmrc")
        with open(user_config, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 16).splitlines()
        for line in lines:
            name, equals, value = line.partition("=")
            if equals and name.strip() == "cache":
                value = value.strip().strip("\"'").replace("${HOME}", home)
                return Path(home, value[2:]) if value.startswith("~/") else Path(value)
    return Path(home, ".npm")


def find_breakage(said: str, name: str, env: Mapping[str, str]) -> tuple[Path, str] | None:
    """The folder `name` that is broken, and why, as the last words of a server prove that npx has started with `env`;
    None: they do not. Reads a little of the file system."""
    if not name or "/_npx/" not in said or (cache := npm_cache(env)) is None:
        return None
    with suppress(OSError, ValueError):
        parent = os.path.realpath(cache / "_npx")
        folder = Path(parent, name)
        caches = {found["cache"] for found in _BELOW.finditer(said) if found["hash"] == name}
        is_named = any(os.path.realpath(f"{each}/_npx") == parent for each in caches)
        if is_named and _is_own_folder(folder) and (why := _reason(said, folder)):
            return folder, why
    return None


def move_aside(folder: Path) -> Path:
    """Rename a broken folder, so that npx does not find it; the folder as it is called then. Blocks. Raises OSError: it
    cannot be, or must not be."""
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
        there = set(os.listdir(parent))
        for number in range(1, MAX_ASIDE + 1):
            if (name := f"{folder.name}.broken-{number}") not in there:
                os.rename(folder.name, name, src_dir_fd=parent, dst_dir_fd=parent)
                return folder.parent / name
    finally:
        os.close(parent)
    raise FileExistsError(f"{folder} was moved aside {MAX_ASIDE} times")


def _reason(said: str, folder: Path) -> str:
    """The error that proves a breakage of the folder, which the lines name; "": there is none."""
    if lacks_package(said, folder):
        return "ERR_MODULE_NOT_FOUND" if "ERR_MODULE_NOT_FOUND" in said else "MODULE_NOT_FOUND"
    return "" if (found := _PARTIAL.search(said)) is None else found[1]


def _is_own_folder(folder: Path) -> bool:
    about = os.lstat(folder)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and folder.parent.name == "_npx"


def lacks_package(said: str, folder: Path) -> bool:
    """True if the last words of a server say that a package is missing, which is a dependency of what is installed in
    the folder, and is not there."""
    if (found := _NAMED.search(said)) is None:
        return False
    package = _package_of(found[1], folder)
    return bool(package) and not _is_there(package, found[1], folder) and _is_wanted(package, said, folder)


def _package_of(name: str, folder: Path) -> str:
    """The package of what is missing: node names that, a part of it, or a file; "": it is none of the folder."""
    if name.startswith("/"):
        if (named := _FILE.search(name)) is None or named["hash"] != folder.name:
            return ""
        name = named["path"].rpartition("node_modules/")[2]
    return match[0] if (match := _PACKAGE.match(name)) and name[match.end() :][:1] in ("", "/") else ""


def _is_there(package: str, named: str, folder: Path) -> bool:
    if named.startswith("/") and not os.path.lexists(folder / LOCK):  # the install never ended: a package may be half
        return os.path.lexists(named)
    return os.path.lexists(folder / "node_modules" / package / "package.json")


def _is_wanted(package: str, said: str, folder: Path) -> bool:
    manifests = (folder / "package.json", *_importers(said, folder))
    if any(package in _dependencies_of(_read(path, MAX_PACKAGE_BYTES)) for path in manifests):
        return True
    packages = _read(folder / LOCK, MAX_LOCK_BYTES).get("packages")
    return isinstance(packages, dict) and any(
        name.endswith(f"node_modules/{package}") or package in _dependencies_of(each) for name, each in packages.items()
    )


def _dependencies_of(package: object) -> Any:
    found = package.get("dependencies") if isinstance(package, dict) else None
    return found if isinstance(found, dict) else ()


def _importers(said: str, folder: Path) -> Iterator[Path]:
    """The `package.json` of packages in the folder whose files the words name."""
    for number, found in enumerate(_FILE.finditer(said)):
        if number == MAX_IMPORTERS:
            return
        before, _, rest = found["path"].rpartition("node_modules/")
        match = _PACKAGE.match(rest)
        if found["hash"] == folder.name and match and ".." not in before.split("/"):
            yield folder / before / "node_modules" / match[0] / "package.json"


def _read(path: Path, max_bytes: int) -> dict[str, Any]:
    """The object in a file; an empty one, if there is none."""
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        data, _ = read_plain(path, max_bytes + 1)
        found = msgspec.json.decode(data) if len(data) <= max_bytes else None
        if isinstance(found, dict):
            return found
    return {}


def forget_mending(config: UpstreamConfig, memory: Memory) -> None:
    """The server is connected."""
    memory.put(MENDED, command_key(config), None)


async def mend(name: str, config: UpstreamConfig, found: BrokenNpxCache, memory: Memory) -> UpstreamUnavailable:
    """Move the broken folder of a server aside, if that has not been done; the error that says what became of it.

    The sentence is for hosts; paths are in the notes, for `hubd status`. Cancellation: it is moved all the same.
    """
    folder, why = found.folder, found.why

    def broken(outcome: str, remedy: str) -> UpstreamUnavailable:
        text = f"{name} cannot start: its folder in the cache of npx is incomplete ({why}){outcome}"
        error = UpstreamUnavailable(text, upstream=name)
        error.add_note(remedy)
        return error

    if memory.get(MENDED, command_key(config)) is not None:
        remedy = f"remove it and restart the server, or ask the package's author: rm -r {folder}"
        return broken(", again after it was installed anew", remedy)
    if pid := await trio.to_thread.run_sync(user_of, folder):
        remedy = f"end process {pid} and restart the server, or remove it yourself: rm -r {folder}"
        return broken(", and another program runs from it", remedy)
    memory.put(MENDED, command_key(config), folder.name)
    try:
        aside: Path = await trio.to_thread.run_sync(move_aside, folder)
    except OSError as error:
        remedy = f"{error.strerror or error}; remove it yourself: rm -r {folder}"
        return broken(", and it cannot be moved aside", remedy)
    log.warning("%s: %s is incomplete (%s), and was moved to %s", name, folder, why, aside)
    remedy = f"{folder} is called {aside.name} now and may be removed"
    return broken("; it was moved aside, and npx installs it anew", remedy)


def user_of(folder: Path) -> int:
    """The id of a living process whose command line names the folder; 0: there is none that can be seen. Blocks."""
    needle = os.fsencode(f"/{folder.parent.name}/{folder.name}/")
    found = (pid for pid in pids()[:MAX_PROCESSES] if needle in read_command_line(pid, MAX_COMMAND_BYTES))
    return next(found, 0)
