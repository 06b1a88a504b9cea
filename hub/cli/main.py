"""The command line: one parser, one place where errors become exit codes."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from config.errors import ConfigError
from hub.cli import config, doctor, editing, hosts, importing, running, service
from hub.cli.base import EX_CONFIG, EX_FAILED, EX_INTERRUPTED, EX_UNAVAILABLE, EX_USAGE, UsageError, failed
from hub.control_client import ControlFailed, HubNotRunning

FAMILIES: Final = (running, config, editing, service, hosts, importing, doctor)
"""Modules that `add_commands`, in the order of the help."""

EPILOG: Final = """exit codes:
  0   done
  1   the tool reported an error, or the hub refused
  2   wrong usage
  69  no hub is running, or its address is taken
  75  another hub of this user is running
  78  the configuration cannot be used

files:
  $XDG_CONFIG_HOME/hubd/hubd.toml (~/.config/hubd/hubd.toml)  read when --config is not given
  upstreams.d/ and imported/ beside it                        further servers, as .toml, or in any host's form
  $XDG_STATE_HOME/hubd (~/.local/state/hubd)                  token, keys, memory, log of a hub that connect started
  $XDG_RUNTIME_DIR/hubd, or $HUBD_RUNTIME_DIR                 sockets and lock
"""


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Never raises for what a user can cause."""
    arguments, words = editing.apart(arguments)
    options = _parser().parse_args(arguments, argparse.Namespace(words=words))
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        code = command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except HubNotRunning as error:
        return failed(EX_UNAVAILABLE, str(error))
    except ConfigError as error:
        return failed(EX_CONFIG, str(error))
    except ControlFailed as error:
        return failed(EX_FAILED, str(error))
    except UsageError as error:
        return failed(EX_USAGE, str(error))
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except BrokenPipeError:  # `hubd tools | head`: nothing more can be said, not even by the interpreter as it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EX_FAILED
    except OSError as error:  # the disk is full, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed(EX_FAILED, f"cannot write to standard output: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hubd",
        description="One MCP server for every AI host on this machine, and the client of all their MCP servers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_const", const=running.version, dest="command", help="show the version"
    )
    parser.set_defaults(json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for family in FAMILIES:
        family.add_commands(commands)
    parser.set_defaults(command=lambda options: _usage(parser))
    return parser


def _usage(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return EX_USAGE
