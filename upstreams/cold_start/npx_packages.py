"""Packages of one folder of npx: whether one that a server misses was to be installed there, and is not.

A server may also miss what nobody ever installed, such as a plug-in that its user names: then the folder is whole.
Reads a few files of the folder, bounded; they may be anything.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from config.loading.safe_reading import read_plain

LOCK: Final = "node_modules/.package-lock.json"
"""The file that npm writes when an install is done."""
MAX_LOCK_BYTES: Final = 1 << 23
MAX_PACKAGE_BYTES: Final = 1 << 20
MAX_IMPORTERS: Final = 8
"""Files named in the last words whose package is looked at."""
_NAMED: Final = re.compile(r"Cannot find (?:package|module) '([^'\0\n]{1,4096})'")
_FILE: Final = re.compile(r"/_npx/(?P<hash>[0-9a-f]{16})/(?P<path>node_modules/[^\0\n'\":]{1,4096})")
_PACKAGE: Final = re.compile(r"(?:@[\w.~-]+/)?[\w~][\w.~-]*")


def lacks_package(said: str, folder: Path) -> bool:
    """True if the last words of a server say that a package is missing, which is a dependency of what is installed in
    the folder, and is not there."""
    found = _NAMED.search(said)
    if found is None:
        return False
    package = _package_of(found[1], folder)
    return bool(package) and not _is_there(package, found[1], folder) and _is_wanted(package, said, folder)


def _package_of(name: str, folder: Path) -> str:
    """The package of what is missing: node names that, a part of it, or a file; "": it is none of the folder."""
    if name.startswith("/"):
        named = _FILE.search(name)
        if named is None or named["hash"] != folder.name:
            return ""
        name = named["path"].rpartition("node_modules/")[2]
    match = _PACKAGE.match(name)
    return match[0] if match and name[match.end() :][:1] in ("", "/") else ""


def _is_there(package: str, named: str, folder: Path) -> bool:
    if named.startswith("/") and not os.path.lexists(folder / LOCK):  # the install never ended: a package may be half
        return os.path.lexists(named)
    return os.path.lexists(folder / "node_modules" / package / "package.json")


def _is_wanted(package: str, said: str, folder: Path) -> bool:
    if any(package in _dependencies(path) for path in (folder / "package.json", *_importers(said, folder))):
        return True
    packages = _read(folder / LOCK, MAX_LOCK_BYTES).get("packages")
    return isinstance(packages, dict) and any(
        name.endswith(f"node_modules/{package}") or package in _listed(each) for name, each in packages.items()
    )


def _listed(each: object) -> Any:
    """The dependencies of one package of the lock: a server may use those of its dependencies, too."""
    found = each.get("dependencies") if isinstance(each, dict) else None
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


def _dependencies(path: Path) -> dict[str, Any]:
    found = _read(path, MAX_PACKAGE_BYTES).get("dependencies")
    return found if isinstance(found, dict) else {}


def _read(path: Path, max_bytes: int) -> dict[str, Any]:
    """The object in a file; an empty one, if there is none."""
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        data, _ = read_plain(path, max_bytes + 1)
        found = msgspec.json.decode(data) if len(data) <= max_bytes else None
        if isinstance(found, dict):
            return found
    return {}
