"""The command line: the one place where errors become exit codes."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from os import EX_CONFIG, EX_OK, EX_SOFTWARE, EX_UNAVAILABLE
from traceback import extract_tb
from typing import Final, TextIO, cast

from config.diagnostics import ConfigError, EditError
from hub.cli.context import EX_FAILED, EX_INTERRUPTED, CommandFailed, Context, Output, UsageError
from hub.cli.parser import load_when_run, make_parser
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning, NotUnderstood
from hub.wire.printable import Printable

CODES: Final = (
    ((HubNotRunning, HubHangs), EX_UNAVAILABLE),
    (ConfigError, EX_CONFIG),
    (NotUnderstood, EX_SOFTWARE),
    ((ControlFailed, EditError), EX_FAILED),
)
"""Exit codes of errors; the first one that fits counts."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Never raises for anything that a user can cause."""
    if isinstance(sys.stdout, TextIOWrapper):  # texts of servers may hold lone surrogates, which JSON keeps
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)  # in its order with standard error
    if arguments[:1] == ["__complete"]:
        load_when_run("hub.cli.completion:complete")(make_parser(), arguments[1:])
        return EX_OK
    arguments, words = split_command(arguments)
    # made before the arguments are parsed, so that their errors have the same form
    output = Output(json=("--raw" if arguments[:1] == ["call"] else "--json") in arguments)
    with _printable():
        _run_and_flush(arguments, words, output)
    return output.code


def split_command(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The command line, and the words after `--` of `hubd add`: a command line of its own, with options of its own."""
    if arguments[:1] != ["add"] or "--" not in arguments:
        return arguments, ()
    at = list(arguments).index("--")
    return arguments[:at], arguments[at + 1 :]


@contextmanager
def _printable() -> Iterator[None]:
    """Make standard output and error safe: texts of servers, files and arguments must not control the terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and cast(TextIO, Printable(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _run_and_flush(arguments: Sequence[str], words: Sequence[str], output: Output) -> None:
    try:
        _run(arguments, words, output)
        output.end()
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:  # the disk is full, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter says it again as it exits
        output.exit_with(EX_FAILED)
        if not isinstance(error, BrokenPipeError):  # `hubd tools | head`: nobody reads any more
            output.fail(f"cannot write to standard output: {error.strerror}")


def _run(arguments: Sequence[str], words: Sequence[str], output: Output) -> None:
    """Run one command and report its error."""
    try:
        options, rest = make_parser().parse_known_args(arguments, Context(words=words, output=output))
        if rest:
            options.parser.refuse(rest)
        output.colour = getattr(options, "color", output.colour)
        options.command(options, output)
    except KeyboardInterrupt:
        output.exit_with(EX_INTERRUPTED)
    except OSError as error:
        if error.filename is None:
            raise
        output.fail(f"{error.filename}: {error.strerror}")
        output.exit_with(EX_FAILED)
    except Exception as error:  # noqa: BLE001 - the outermost level of a command: whatever it met is told in one line
        if isinstance(error, HubHangs):
            output.set(hub="hangs", pid=error.pid)
        if isinstance(error, UsageError) and not output.json:
            print(error.usage, end="", file=sys.stderr)
        known = next((code for kinds, code in CODES if isinstance(error, kinds)), 0)
        code = error.code if isinstance(error, CommandFailed) else known
        output.fail(str(error) if code else _describe_bug(error), code or EX_SOFTWARE)
        output.exit_with(code or EX_SOFTWARE)


def _describe_bug(error: Exception) -> str:
    """The message for an error that no command expects. It names the line, since there is no traceback."""
    last = extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(last.filename)}, line {last.lineno})"
    text = f"the command failed unexpectedly: {what}. If the running hub is another version, run `hubd stop` and try"
    return f"{text} again; else this is a bug of hubd: please report it"
