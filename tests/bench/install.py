"""Installs what hubd is compared with, pinned in `pins.toml`: a virtual environment each, in `.build/compare`."""

import hashlib
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.support.processes import ROOT

BUILD: Final = ROOT / ".build" / "compare"
PINS: Final[dict[str, str]] = tomllib.loads(Path(__file__).with_name("pins.toml").read_text(encoding="utf-8"))


def version_of(name: str) -> str:
    """The version of that gateway."""
    return PINS[name].split()[0].partition("==")[2]


def program_of(name: str, program: str) -> Path:
    """A program in the environment of that gateway."""
    return BUILD / name / "bin" / program


def install(names: Iterable[str]) -> None:
    """Make the environments that are not made yet, or not of these pins. Raises CalledProcessError."""
    for name in names:
        directory = BUILD / name
        stamp = directory / ".stamp"
        made_of = hashlib.sha256(f"{sys.version} {PINS[name]}".encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_of:
            continue
        print(f"installing {PINS[name].split()[0]} into {directory.relative_to(ROOT)}", file=sys.stderr)  # noqa: T201
        venv.create(directory, clear=True)
        subprocess.run([ROOT / "tests/deps/install.sh", directory, *PINS[name].split()], check=True)
        stamp.write_text(made_of)
