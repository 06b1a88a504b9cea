"""The command line: the one place where errors become exit codes."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from os import EX_CONFIG, EX_SOFTWARE, EX_UNAVAILABLE
from traceback import extract_tb
from typing import TextIO, cast

from config.errors import ConfigError, EditError
from hub.cli.context import EX_FAILED, EX_INTERRUPTED, EX_USAGE, Command, Context, Output, UsageError
from hub.cli.parser import load_when_run, make_parser
from hub.control.errors import ControlFailed, HubHangs, HubNotRunning, NotUnderstood
from hub.wire.printable import Printable


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Never raises for anything that a user can cause."""
    if isinstance(sys.stdout, TextIOWrapper):  # texts of servers may hold lone surrogates, which JSON keeps
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)  # in its order with standard error
    if arguments[:1] == ["__complete"]:
        return load_when_run("hub.cli.completion:complete")(make_parser(), arguments[1:])
    arguments, words = split_command(arguments)
    # made before the arguments are parsed, so that their errors have the same form
    output = Output(json=("--raw" if arguments[:1] == ["call"] else "--json") in arguments)
    with _printable():
        return _run_and_flush(arguments, words, output)


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


def _run_and_flush(arguments: Sequence[str], words: Sequence[str], output: Output) -> int:
    try:
        code = _run(arguments, words, output)
        output.end()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError as error:  # the disk is full, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter says it again as it exits
        if isinstance(error, BrokenPipeError):  # `hubd tools | head`: nobody reads any more
            return EX_FAILED
        return output.fail(EX_FAILED, f"cannot write to standard output: {error.strerror}")


def _run(arguments: Sequence[str], words: Sequence[str], output: Output) -> int:
    """Run one command and report its error; the exit code."""
    try:
        options, rest = make_parser().parse_known_args(arguments, Context(words=words, output=output))
        if rest:
            options.parser.refuse(rest)
        output.colour = getattr(options, "color", output.colour)
        command: Command = options.command
        return command(options)
    except HubNotRunning as error:
        return output.fail(EX_UNAVAILABLE, str(error))
    except HubHangs as error:
        output.set(hub="hangs", pid=error.pid)
        return output.fail(EX_UNAVAILABLE, str(error))
    except ConfigError as error:
        return output.fail(EX_CONFIG, str(error))
    except NotUnderstood as error:
        return output.fail(EX_SOFTWARE, str(error))
    except (ControlFailed, EditError) as error:
        return output.fail(EX_FAILED, str(error))
    except UsageError as error:
        if error.usage and not output.json:
            print(error.usage, end="", file=sys.stderr)
        return output.fail(EX_USAGE, str(error))
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except OSError as error:
        if error.filename is None:
            raise
        return output.fail(EX_FAILED, f"{error.filename}: {error.strerror}")
    except Exception as error:  # noqa: BLE001 - the outermost level of a command: whatever it met is told in one line
        return output.fail(EX_SOFTWARE, _describe_bug(error))


def _describe_bug(error: Exception) -> str:
    """The message for an error that no command expects. It names the line, since there is no traceback."""
    last = extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(last.filename)}, line {last.lineno})"
    return (
        f"the command failed unexpectedly: {what}. If the running hub is another version, "
        "run `hubd stop` and try again; else this is a bug of hubd: please report it"
    )
