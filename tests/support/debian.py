"""Programs of Debian that tests drive: Redis, Valkey, HAProxy, nginx, gnome-keyring, bubblewrap, tmux, shells. `make
deps` unpacks them, and installs nothing."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

UNPACKED = Path(__file__).parents[2] / ".deps" / "debian"
FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")


class Program(NamedTuple):
    """A program to start: `Process([program.path, ...], log, env=program.env)`."""

    path: Path
    env: dict[str, str]
    """This process's environment, with the folders of the libraries that came with the program."""


def program(name: str) -> Program:
    """The unpacked program, or else the installed one. Raises: AssertionError if there is none."""
    if (found := find(name)) is None:
        raise AssertionError(f"{name} is neither in .deps/debian nor installed: make deps")
    return found


def find(name: str, unpacked: Path = UNPACKED) -> Program | None:
    """The same, or None: for programs that not every Debian has, or that are unpacked elsewhere."""
    for folder in FOLDERS:
        if (path := unpacked / folder / name).exists():
            return Program(path, {**os.environ, "LD_LIBRARY_PATH": libraries(unpacked)})
    installed = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    return Program(Path(installed), dict(os.environ)) if installed else None


def libraries(unpacked: Path = UNPACKED) -> str:
    """The value for LD_LIBRARY_PATH: each unpacked folder with shared libraries, then the present value."""
    roots = [unpacked / "usr" / "lib", unpacked / "lib"]
    folders = [folder for root in roots for folder in (root, *root.glob("*-linux-gnu*")) if folder.is_dir()]
    return ":".join([*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
