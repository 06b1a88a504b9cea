"""The questions of a setup. Where nobody can be asked, or `--yes` is given, the defaults are taken."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hub.cli.subcommand import Output, ask

if TYPE_CHECKING:
    from hub.cli.render.screen import Block


def may_ask(options: argparse.Namespace) -> bool:
    """True if somebody is to be asked."""
    output: Output = options.output
    return not options.yes and not options.dry_run and output.is_attended()


def move_secrets() -> bool:
    """Ask whether secrets are moved; Enter is a yes.

    Raises:
        UsageError: there was no answer.
    """
    text = "Move them to where `hubd secret` keeps them, the keyring or else a file only you can read? [Y/n]"
    while (answer := ask(text)) not in ("", "y", "yes", "n", "no"):
        _say_answers("y or Enter moves them, n leaves them in the files")
    return answer[:1] != "n"


def write_it(changes: "Sequence[Block]", output: Output) -> bool:
    """Ask for the one yes; `d` shows the changes of the files first. No answer is a no."""
    from hub.cli.subcommand import UsageError

    while True:
        try:
            answer = ask("Write this? [Y/n, d shows the changes]")
        except UsageError:
            return False
        if answer in ("", "y", "yes"):
            return True
        if answer in ("n", "no"):
            return False
        if answer == "d":
            output.progress.show(*changes)
        else:
            _say_answers("y or Enter writes it, n changes nothing, d shows the changes")


def _say_answers(text: str) -> None:
    print(f"The answers are: {text}.", file=sys.stderr)
