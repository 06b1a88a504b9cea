"""What all commands share: exit codes, what is said on standard error, how a command is added, the running daemon."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hub.control_client import ControlClient

if TYPE_CHECKING:
    from datetime import datetime

EX_OK: Final = 0
EX_FAILED: Final = 1
EX_USAGE: Final = 2
EX_UNAVAILABLE: Final = 69
EX_CONFIG: Final = 78
EX_INTERRUPTED: Final = 130

Command = Callable[[argparse.Namespace], int]
"""Carries out a command; the exit code."""


class UsageError(Exception):
    """The command line makes no sense; the text says how."""


def failed(code: int, text: str) -> int:
    """Say on standard error what went wrong; `code`."""
    print(f"hubd: {text}", file=sys.stderr)
    return code


def warn(text: str) -> None:
    """Say on standard error what works, and probably not as meant."""
    print(f"hubd: warning: {text}", file=sys.stderr)


def note(text: str) -> None:
    """Say on standard error what is worth knowing."""
    print(f"hubd: note: {text}", file=sys.stderr)


def is_attended() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str) -> str:
    """What is answered, in lower case.

    Raises:
        UsageError: nothing is, standard input has ended.
    """
    print(question, end=" ", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("there was no answer; nothing was changed")
    return line.strip().lower()


def agreed(question: str, *, default: bool) -> bool:
    """Whether the answer is yes; `default` is what a mere Enter means. No answer at all is a no."""
    try:
        answer = ask(f"{question} {'[Y/n]' if default else '[y/N]'}")
    except UsageError:
        return False
    return answer in ("y", "yes") or (default and not answer)


def add(commands: Any, name: str, command: Command, text: str, *, json: bool = False) -> argparse.ArgumentParser:
    """A command of this name; `text` says what it does or shows, `json` gives it the option `--json`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: see `hubd --help`",
    )
    parser.set_defaults(command=command)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def add_config(parser: argparse.ArgumentParser) -> None:
    """The option `--config`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="in place of the user's own hubd.toml")


def client() -> ControlClient:
    """The running daemon.

    Raises:
        HubNotRunning: there is none.
    """
    from config.paths import control_path

    return ControlClient(control_path())


def as_json(value: object) -> str:
    """`value` for people and programs alike."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def now() -> "datetime":
    """The wall time, in UTC."""
    from datetime import UTC, datetime

    return datetime.now(UTC)


def own_command() -> str:
    """The absolute path by which others are to start hubd: the one on PATH if that is this program, since it outlives
    updates; else this program's own.

    Raises:
        UsageError: it cannot be found.
    """
    import os
    import shutil

    beside = Path(sys.executable).with_name("hubd")
    started = Path(sys.argv[0]) if os.sep in sys.argv[0] and Path(sys.argv[0]).name == "hubd" else beside
    found = shutil.which("hubd")
    if found is not None and os.path.isabs(found) and (not started.exists() or os.path.samefile(found, started)):
        return found
    if not started.exists():
        raise UsageError("cannot find the command hubd: put its directory on PATH and run this again")
    return str(started.absolute())
