"""What all commands share: exit codes, errors of usage, how a command is added, the way to the running daemon."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, Final

from hub.control_client import ControlClient

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
