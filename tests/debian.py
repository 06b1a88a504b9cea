"""Programs of Debian that tests drive: Redis, Valkey, HAProxy, nginx. `make deps` unpacks them, installing nothing."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

UNPACKED = Path(__file__).parent.parent / ".deps" / "debian"
FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")


class Program(NamedTuple):
    """How to start one: `Process([program.path, ...], log, env=program.env)`."""

    path: Path
    env: dict[str, str]
    """This process's environment, and where the libraries are that came with it."""


def program(name: str) -> Program:
    """The unpacked program, or else the one that is installed. Raises: AssertionError, when there is none."""
    if (found := find(name)) is None:
        raise AssertionError(f"{name} is neither in .deps/debian nor installed: make deps")
    return found


def find(name: str) -> Program | None:
    """The same, or None: for what not every Debian has."""
    for folder in FOLDERS:
        if (path := UNPACKED / folder / name).exists():
            return Program(path, {**os.environ, "LD_LIBRARY_PATH": _libraries()})
    installed = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    return Program(Path(installed), dict(os.environ)) if installed else None


def _libraries() -> str:
    """What LD_LIBRARY_PATH must say: each unpacked folder that holds shared libraries, then what it says now."""
    roots = [UNPACKED / "usr" / "lib", UNPACKED / "lib"]
    folders = [folder for root in roots for folder in (root, *root.glob("*-linux-gnu*")) if folder.is_dir()]
    return ":".join([*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
