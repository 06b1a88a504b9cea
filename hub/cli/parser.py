"""The parser of all commands, and the pages of help above it."""

import argparse
import sys
from collections.abc import Container, Sequence
from typing import Any, Final

from hub.cli import (
    adding,
    completion,
    config,
    doctor,
    editing,
    environment,
    hub_commands,
    importing,
    install,
    secret_commands,
    service,
    token_commands,
    tool_commands,
)
from hub.cli.client import commands as client_commands
from hub.cli.profiles import commands as profile_commands
from hub.cli.registry import commands as registry_commands
from hub.cli.setup import command as setup
from hub.cli.sign_in import commands as sign_in_commands
from hub.cli.subcommand import EX_USAGE, Parser, add, add_color

FAMILIES: Final = {
    "the hub": (hub_commands, token_commands, service, doctor, completion),
    "its servers": (tool_commands, client_commands, sign_in_commands),
    "its configuration": (adding, registry_commands, editing, secret_commands, environment, config),
    "hosts": (setup, install, importing, profile_commands),
}
"""The modules with `add_commands`, by their titles in the help."""

DESCRIPTION: Final = """One MCP server for every AI host on this machine, and the client of all their
MCP servers.

A host is a program that uses MCP servers, such as Claude or Cursor; the
configuration calls the servers behind the hub its upstreams. To begin:
`hubd setup` finds what hosts have, tries it, and puts the hub between;
`hubd doctor` finds what is wrong."""
LISTED_CHARS: Final = 12
FIRST_PAGE: Final = {
    "to begin": {
        "setup": "find the servers of your hosts, put the hub between",
        "add": "add a server: hubd add NAME -- COMMAND, or hubd add URL",
        "search": "find servers in registries; hubd add NAME adds one",
        "doctor": "find what is wrong, with the fixes",
    },
    "to look": {
        "status": "servers and hosts, what is wrong first (--watch)",
        "tools": "the tools that hosts see",
        "logs": "what the hub and its servers said (-f)",
    },
    "to do": {
        "call": "call a tool: hubd call TOOL KEY=VALUE ...",
        "auth": "sign in at a server that wants it; logout",
        "enable": "turn a server on; disable, remove, restart",
        "edit": "edit the configuration",
        "start": "start the hub in the background; stop, serve",
    },
}
"""The page that plain `hubd` prints: at most 25 lines."""
EPILOG: Final = """`hubd help COMMAND` says more about each. ls, list and ps are status; up is
start; down is stop.

--json, which all take but `serve`, `connect` and `call` (there it is --raw),
prints one JSON value on standard output: what was found, what was done, or
with --dry-run what would be done. If it fails that is an object with the
member "error": {"code": EXIT_CODE, "message": "what happened, and what to do"},
beside what was done until then; the message is on standard error as well.
Nothing is asked. `hubd logs` prints one object per line, and so does `hubd
auth`: what is to be opened, at once, and the outcome.

Colours are shown on a terminal, unless NO_COLOR is set or TERM is dumb.

exit codes:
  0    done
  1    it failed or was refused, the tool reported an error, the doctor found
       something, or the service does not run
  2    wrong usage
  69   no hub is running, it hangs, its address is taken, or what is needed
       (a registry) cannot be reached
  70   a fault of the hub's own, or it answers what this version does not
       understand
  75   another hub of this user is running; of `connect`: the hub goes away
       again and again; of `add`, `enable`, `edit` and `restart`: the server is
       still starting
  78   the configuration cannot be used
  130  interrupted

files:
  $XDG_CONFIG_HOME/hubd (~/.config/hubd)
    hubd.toml              the configuration, where --config names no other
    upstreams.d/           further servers, as .toml or in any host's form
    imported/              servers that `hubd import` took over
    hubd.env               variables for the hub and its servers; they win over
                           the environment
  .hubd.toml, .mcp.json    servers of a project, once allowed by `hubd trust`
  $XDG_STATE_HOME/hubd (~/.local/state/hubd)
    token, keys            of the HTTP listener; that seal what hosts carry
    tokens.json            the tokens of single hosts, as hashes
    memory.json, sessions.json, catalogue/
                           hints that spare work after a restart
    usage.json             how often tools are called: names and counts
    trust.json             the projects that are allowed
    secrets.json           what `hubd secret` keeps, or that the keyring has it
    oauth/                 sign-ins at servers, sealed
    installed.json         what `hubd install` put into files of hosts
    originals.json         what `hubd import --disable-originals` took out of them
    backups/               files as they were before hubd edited them
    hubd.log               of a hub that `hubd connect` started
  $HUBD_RUNTIME_DIR, or $XDG_RUNTIME_DIR/hubd
    hubd.sock, control.sock, hubd.lock
"""


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
        lines = [_listed(name, text) for name, text in self._listed]
        return "\n".join([f"{self._title}:", *lines])


def make_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="hubd",
        usage="hubd COMMAND ...",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = hub_commands.version
    parser.add_argument("-v", "--version", action="store_const", const=version, dest="command", help="show the version")
    add_color(parser, "colours: on a terminal, always, never")
    parser.set_defaults(json=False, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS, prog="hubd")
    families = [_Family(commands, title) for title in FAMILIES]
    for listed, modules in zip(families, FAMILIES.values(), strict=True):
        for module in modules:
            module.add_commands(listed)
    _add_help(families[0], parser)
    parser.epilog = "\n\n".join([*map(str, families), EPILOG])
    parser.set_defaults(command=lambda options: _first_page(commands.choices))
    return parser


def _add_help(commands: Any, parser: Parser) -> None:
    asked = add(commands, "help", lambda options: _help(parser, options.words_of_command), "this page, or a command's")
    asked.add_argument("words_of_command", metavar="COMMAND", nargs="*", help="the command, such as cache clear")


def _help(parser: Parser, words: Sequence[str]) -> int:
    parser.parse_args([*words, "--help"])
    raise AssertionError("--help ends the command")


def _first_page(known: Container[str]) -> int:
    """Print the commands that most people need. Nothing was asked for, so this is wrong usage."""
    lines = ["usage: hubd COMMAND ...", "", DESCRIPTION.partition("\n\n")[0], ""]
    for title, commands in FIRST_PAGE.items():
        lines += [f"{title}:", *(_listed(name, text) for name, text in commands.items() if name in known)]
    lines += ["", "`hubd help` lists all commands, `hubd help COMMAND` explains one."]
    print("\n".join(lines), file=sys.stderr)
    return EX_USAGE


def _listed(name: str, text: str) -> str:
    return f"    {name.ljust(LISTED_CHARS)}{text}"
