"""The command line: one parser, one place where errors become exit codes."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from os import EX_CONFIG, EX_SOFTWARE, EX_UNAVAILABLE
from typing import Any, Final, TextIO, cast

from config.errors import ConfigError, EditError
from hub.cli import config, doctor, editing, hub_commands, importing, install, secret_commands, service
from hub.cli.setup import command as setup
from hub.cli.subcommand import EX_FAILED, EX_INTERRUPTED, EX_USAGE, Command, Output, Parser, UsageError, add_color
from hub.control.errors import ControlFailed, HubNotRunning, NotUnderstood
from hub.wire.printable import Printable

FAMILIES: Final = {
    "the hub": (hub_commands, service, doctor),
    "its configuration": (editing, secret_commands, config),
    "hosts": (setup, install, importing),
}
"""The modules with `add_commands`, by their titles in the help."""

DESCRIPTION: Final = """One MCP server for every AI host on this machine, and the client of all their MCP servers.

A host is a program that uses MCP servers, such as Claude or Cursor; the configuration calls the servers behind the hub
its upstreams. To begin: `hubd setup` finds what hosts have, tries it, and puts the hub between; `hubd doctor` finds
what is wrong."""
LISTED_CHARS: Final = 12
EPILOG: Final = """`hubd COMMAND --help` says more about each.

--json, which all take but `serve`, `connect` and `call` (there it is --raw), prints one JSON value on standard output:
what was found, what was done, or with --dry-run what would be done. If it fails that is an object with the member
"error": {"code": EXIT_CODE, "message": "what happened, and what to do"}, beside what was done until then; the message
is on standard error as well. Nothing is asked. `hubd logs` prints one object per line.

exit codes:
  0    done
  1    it failed or was refused, the tool reported an error, the doctor found something, or the service does not run
  2    wrong usage
  69   no hub is running, or its address is taken
  70   a fault of the hub's own, or it answers what this version does not understand
  75   another hub of this user is running; of `connect`: the hub goes away again and again
  78   the configuration cannot be used
  130  interrupted

files:
  $XDG_CONFIG_HOME/hubd (~/.config/hubd)
    hubd.toml              the configuration, where --config names no other
    upstreams.d/           further servers, as .toml or in any host's form
    imported/              servers that `hubd import` took over
    hubd.env               variables for the hub and its servers; they win over the environment
  .hubd.toml, .mcp.json    servers of a project, once allowed by `hubd trust`
  $XDG_STATE_HOME/hubd (~/.local/state/hubd)
    token, keys            of the HTTP listener; that seal what hosts carry
    memory.json, sessions.json, catalogue/
                           hints that spare work after a restart
    trust.json             the projects that are allowed
    secrets.json           what `hubd secret` keeps, or that the keyring has it
    installed.json         what `hubd install` put into files of hosts
    originals.json         what `hubd import --disable-originals` took out of them
    backups/               files as they were before hubd edited them
    hubd.log               of a hub that `hubd connect` started
  $HUBD_RUNTIME_DIR, or $XDG_RUNTIME_DIR/hubd
    hubd.sock, control.sock, hubd.lock
"""


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Never raises for anything that a user can cause."""
    if isinstance(sys.stdout, TextIOWrapper):  # texts of servers may hold lone surrogates, which JSON keeps
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments, words = editing.split_command(arguments)
    # made before the arguments are parsed, so that their errors have the same form
    output = Output(json=("--raw" if arguments[:1] == ["call"] else "--json") in arguments)
    with _printable():
        return _run_and_flush(arguments, words, output)


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
    except BrokenPipeError:  # `hubd tools | head`: nothing more can be said, not even by the interpreter as it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EX_FAILED
    except OSError as error:  # the disk is full, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.fail(EX_FAILED, f"cannot write to standard output: {error.strerror}")


def _run(arguments: Sequence[str], words: Sequence[str], output: Output) -> int:
    """Run one command and report its error; the exit code.

    Raises:
        OSError: standard output cannot be written.
    """
    try:
        options, rest = _parser().parse_known_args(arguments, argparse.Namespace(words=words, output=output))
        if rest:
            options.parser.refuse(rest)
        output.colour = getattr(options, "color", output.colour)
        command: Command = options.command
        return command(options)
    except HubNotRunning as error:
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
        return output.fail(EX_SOFTWARE, _unexpected(error))


def _unexpected(error: Exception) -> str:
    """The message for an error that no command expects. It names the line, since there is no traceback."""
    from traceback import extract_tb

    last = extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(last.filename)}, line {last.lineno})"
    return (
        f"the command failed unexpectedly: {what}. If the running hub is another version, "
        "run `hubd stop` and try again; else this is a bug of hubd: please report it"
    )


class _Family:
    """One family of commands: passes them to the parser, and lists them in the help, which argparse cannot group."""

    def __init__(self, commands: Any, title: str) -> None:
        self._commands = commands
        self._title = title
        self._listed: list[tuple[str, str]] = []

    def add_parser(self, name: str, *, help: str, **settings: Any) -> Parser:
        self._listed.append((name, help))
        parser: Parser = self._commands.add_parser(name, **settings)
        return parser

    def __str__(self) -> str:
        lines = [f"    {name.ljust(LISTED_CHARS)}{text}" for name, text in self._listed]
        return "\n".join([f"{self._title}:", *lines])


def _parser() -> Parser:
    parser = Parser(
        prog="hubd",
        usage="hubd COMMAND ...",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_const", const=hub_commands.version, dest="command", help="show the version"
    )
    add_color(parser, "colours: on a terminal, always, never")
    parser.set_defaults(json=False, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS, prog="hubd")
    families = [_Family(commands, title) for title in FAMILIES]
    for listed, modules in zip(families, FAMILIES.values(), strict=True):
        for module in modules:
            module.add_commands(listed)
    parser.epilog = "\n\n".join([*map(str, families), EPILOG])
    parser.set_defaults(command=lambda options: _usage(parser))
    return parser


def _usage(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return EX_USAGE
