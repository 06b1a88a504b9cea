"""The parsers of `search`, `outdated` and `update`, and of what `add` takes for a server of a registry."""

from collections.abc import Mapping
from typing import Any, Final

from hub.cli.configuration.editing import MEMBERS
from hub.cli.configuration.main_file import on_main_file
from hub.cli.subcommand import Desk, Parser, add, add_config, add_no_wait, load_when_run

PACKAGES: Final = ("npm", "pypi", "oci", "mcpb")
_FOUND: Final = """\
  servers  of each: name, version, registry, runs_as, status, message (why), published, title, description
  more     whether there are more than were asked for"""
_OUTDATED: Final = """\
  servers  of each that came from a registry: name, source, version (what it has), newest, status (of what it has;
           "gone": the registry does not have it any more), message (why), problem (why nothing is known)"""

_UPDATED: Final = """\
  source     the entry of a registry that it was made of until now
  newest     the newest version there
  changes    what differs, each in words: commands, arguments, variables, headers"""


def add_commands(commands: Any) -> None:
    """`search`, `outdated`, `update`."""
    search = add(commands, "search", "hub.cli.registry.listing:search", json=_FOUND)
    search.add_argument("words_of_search", metavar="WORD", nargs="+", help="a part of a server's name")
    _add_registry(search)
    outdated = add(commands, "outdated", "hub.cli.registry.listing:list_outdated", json=_OUTDATED)
    command = on_main_file(load_when_run("hub.cli.registry.updating:update"))
    update = add(commands, "update", command, json=f"{MEMBERS}\n{_UPDATED}")
    update.add_argument("name", metavar="NAME", help="the server's name as `hubd status` shows it")
    _add_agreement(update)
    update.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")
    add_no_wait(update)
    for each in (search, outdated, update):
        add_config(each)


def add_options(parser: Parser) -> None:
    """The options of `add` for a server of a registry."""
    parser.add_argument("--as", dest="called", metavar="NAME", help="its name here; made of that in the registry")
    _add_registry(parser)
    parser.add_argument("--package", choices=PACKAGES, help="the package to run, where there are several ways")
    parser.add_argument("--remote", action="store_true", help="open its address, where there are several ways")
    _add_agreement(parser)


def says_options(options: Desk) -> str:
    """An option that is for servers of registries alone, and that was given; ""."""
    given: Mapping[str, Any] = {
        "--as": options.called,
        "--registry": options.registry,
        "--package": options.package,
        "--remote": options.remote,
        "--input": options.input,
    }
    return next((name for name, value in given.items() if value), "")


def _add_registry(parser: Parser) -> None:
    parser.add_argument("--registry", metavar="NAME", help="ask this one only, of [registries.NAME], or official")


def _add_agreement(parser: Parser) -> None:
    text = "a value that the server needs; again for each"
    parser.add_argument("--input", metavar="KEY=VALUE", action="append", default=[], help=text)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask; what has a default gets that")
