"""The parser of the command line: the commands of `help_texts`, and options that several have."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NoReturn

from hub.cli.context import EX_USAGE, Command, Context, Output, UsageError, as_json, ask_hub, nearest, now
from hub.cli.help_texts import DESCRIPTION, ELSEWHERE, EPILOG, FAMILIES, FIRST_PAGE
from hub.cli.render.terminal import COLOURS, LEAST_COLUMNS
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning

DURATION: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?)(ms|[smhd])")
UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
LISTED_CHARS: Final = 12
LISTED: Final = re.compile(r" +\S+(?: \S+)* {2,}")
"""The name before a text in a list of the help."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors, and suggests what was probably meant."""

    hint = ""
    """Advice for an argument too many."""

    def __init__(self, **settings: Any) -> None:
        self._page = ""
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def replace_help(self, page: str) -> None:
        """Have `page` for the help, in place of what is made of the arguments."""
        self._page = page

    def format_help(self) -> str:
        """The help, with no line wider than the terminal."""
        from shutil import get_terminal_size

        return _fit(self._page or super().format_help(), max(LEAST_COLUMNS, get_terminal_size().columns))

    def error(self, message: str) -> NoReturn:
        """Raises: UsageError, which argparse would end the process for."""
        raise UsageError(message, self.format_usage())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown value. argparse looks commands up here, too."""
        if action.choices is None or value in action.choices:
            return
        meant = nearest(value, action.choices)
        if not isinstance(action.choices, dict):  # which those of commands are
            raise argparse.ArgumentError(
                action, f"{value} is none of {', '.join(action.choices)}{meant and f'; {meant}'}"
            )
        meant = ELSEWHERE.get(value) or meant or f"`{self.prog} --help` lists them"
        raise UsageError(f"there is no command {self.prog} {value}; {meant}")

    def _match_arguments_partial(self, actions: Sequence[argparse.Action], arg_strings_pattern: str) -> list[int]:
        """The words that each argument takes, as Python 3.13 counts them: one that may be missing is looked for again
        behind an option."""
        counts = super()._match_arguments_partial(actions, arg_strings_pattern)
        while counts and not counts[-1] and arg_strings_pattern.startswith("O", sum(counts)):
            counts.pop()
        return counts

    def add_flag(self, name: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=text)

    def add_value(self, name: str, metavar: str, text: str, **settings: Any) -> None:
        """Add an argument, or an option with a value."""
        self.add_argument(name, metavar=metavar, help=text, **settings)

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Refuse words that the parser does not take. Raises UsageError: always."""
        option = next((word for word in words if word.startswith("-")), None)
        if option is None:
            self.error(f"unexpected argument: {words[0]}{self.hint and f'; {self.hint}'}")
        name = option.partition("=")[0]
        meant = nearest(name, [name for action in self._actions for name in action.option_strings])
        self.error(f"there is no option {name}; {meant or f'`{self.prog} --help` lists them'}")


def _fit(text: str, width: int) -> str:
    """Paragraphs are filled anew, parts of a list go on below their texts."""
    lines: list[str] = []
    for is_prose, group in groupby(text.split("\n"), lambda line: line[:1] not in ("", " ")):
        found = list(group)
        if is_prose and max(map(len, found)) > width:
            found = [" ".join(found)]
        lines += (line if len(line) <= width else _fold(line, width) for line in found)
    return "\n".join(lines)


def _fold(line: str, width: int) -> str:
    listed = LISTED.match(line)
    blank = len(line) - len(line.lstrip())
    indent = listed.end() if listed and listed.end() < width // 2 else blank + 2 if blank else 0
    return fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def add(
    commands: Any,
    name: str,
    command: Command | str,
    text: str = "",
    *,
    json: bool | str = False,
    aliases: Sequence[str] = (),
) -> Parser:
    """Add a command. `text` says what it does or shows, unless `parser.FAMILIES` does; `json` gives it the option
    `--json`, and may describe its members; `aliases` are other names of it. A command that its family should not load
    is named by `MODULE:FUNCTION`."""
    text = text or commands.texts[name]
    members = f"--json prints one object:\n{json}\n\n" if isinstance(json, str) else ""
    parser: Parser = commands.add_parser(
        name,
        help=text,
        aliases=aliases,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"{members}exit codes, and errors with --json: see `hubd --help`",
    )
    parser.set_defaults(command=load_when_run(command) if isinstance(command, str) else command, parser=parser)
    add_color(parser, argparse.SUPPRESS)
    if json:
        parser.add_flag("--json", "print JSON")
    return parser


def load_when_run(place: str) -> Callable[..., None]:
    """A function that loads `MODULE:FUNCTION` each time it is called, and calls that."""
    module, _, name = place.partition(":")

    def run(*given: Any) -> None:
        getattr(import_module(module), name)(*given)

    return run


def add_color(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option `--color`, which stands before or after the command."""
    parser.add_argument("--color", choices=COLOURS, default=argparse.SUPPRESS, help=text)


def add_config(parser: Parser) -> None:
    """Add the option `--config`."""
    parser.add_value("--config", "FILE", "in place of the user's own hubd.toml", type=Path)


def on_main_file(command: Command, *, needs_answer: bool = True) -> Command:
    """The same command, for the main file of the running hub where no option names one, which is noted: the usual
    file may be one that nobody reads. A hub that hangs is not waited for, and nothing is changed then (HubHangs),
    unless the command does without its answer."""

    def find() -> Path | None:
        from config.hub_paths import config_file
        from hub.control.methods import STATUS

        try:
            watched = ask_hub(STATUS).config.watched
        except (HubNotRunning, HubHangs, ControlFailed) as error:
            if needs_answer and not isinstance(error, HubNotRunning):
                raise
            return None
        is_usual = not watched or os.path.realpath(watched[0]) == os.path.realpath(config_file())
        return None if is_usual else Path(watched[0])

    def run(options: Context, output: Output) -> None:
        if options.config is None and (used := find()) is not None:
            options = options.replace(config=used)
            output.note(f"this is about {used}, which the running hub uses; --config names another file")
        command(options, output)

    return run


def number_of(noun: str) -> Callable[[str], int]:
    """The type of an argument that is a number of `noun`."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise argparse.ArgumentTypeError(f"expected a number of {noun} such as 50, not {text}")
        return int(text)

    return number


def seconds(text: str) -> float:
    """The type of an argument that is a duration, such as 2h."""
    if found := DURATION.fullmatch(text):
        return float(found[1]) * UNITS[found[2]]
    raise argparse.ArgumentTypeError(f"expected a duration such as 30s, 10m or 2h, not {text}")


def moment(text: str) -> datetime:
    """The type of an argument that is a time, or says how long ago it was."""
    with suppress(argparse.ArgumentTypeError):
        return now() - timedelta(seconds=seconds(text))
    with suppress(ValueError):
        return datetime.fromisoformat(text).astimezone(UTC)
    raise argparse.ArgumentTypeError(f"expected a time such as 2h or 2026-11-22T09:00, not {text}")


def add_no_wait(parser: Parser) -> None:
    """Add the option `--no-wait`."""
    parser.add_flag("--no-wait", "do not wait until the server is connected")


class Commands(dict[str, Any]):
    """The parsers of all commands by their names; one is made, and its module loaded, when it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        """The sentence of each command by its own name."""
        self._modules: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        for modules in FAMILIES.values():
            for module, rows in modules.items():
                for words, text in rows.items():
                    names = words.split()
                    self.texts[names[0]] = text
                    self._names[names[0]] = names
                    self._modules |= dict.fromkeys(names, module)
        self._modules["version"] = __name__  # apart from its family: it needs nothing of what that loads
        self.update(dict.fromkeys(self._modules))

    def __getitem__(self, name: str) -> Any:
        if super().__getitem__(name) is None:
            import_module(self._modules[name]).add_commands(self)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The parser of a command; `default`: there is no such command."""
        return self[name] if name in self._modules else default

    def add_parser(self, name: str, **settings: Any) -> Parser:
        """As argparse's own; called by `add_commands`."""
        for unused in ("help", "aliases"):  # which are listed above
            del settings[unused]
        parser = Parser(prog=f"hubd {name}", **settings)
        self.update(dict.fromkeys(self._names[name], parser))
        return parser


class _Lookup(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The argument that names a command."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.choices = self._name_parser_map = Commands()


def make_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(prog="hubd", usage="hubd COMMAND ...", description=DESCRIPTION)
    parser.add_argument(
        "-v", "--version", action="store_const", const=_version, dest="command", help="show the version"
    )
    add_color(parser, "colours: on a terminal, always, never")
    parser.set_defaults(json=False, parser=parser)
    lookup = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS, prog="hubd", action=_Lookup)
    commands: Any = lookup.choices
    parser.epilog = "\n\n".join([*map(_family, FAMILIES), EPILOG])
    parser.set_defaults(command=lambda options, output: _first_page(commands, output))
    return parser


def _family(title: str) -> str:
    rows = (row for rows in FAMILIES[title].values() for row in rows.items())
    return "\n".join([f"{title}:", *(_row_of(words.split()[0], text) for words, text in rows)])


def add_commands(commands: Any) -> None:
    """`help`, `version`."""
    add(commands, "version", _version, json=True)
    asked = add(commands, "help", lambda options, output: _help(options.words_of_command))
    asked.add_value("words_of_command", "COMMAND", "the command, such as cache clear", nargs="*")


def _version(options: Context, output: Output) -> None:
    from hub.wire.mcp import ALL_VERSIONS, HUBD_VERSION

    print(as_json({"version": HUBD_VERSION, "protocols": ALL_VERSIONS}) if options.json else f"hubd {HUBD_VERSION}")


def _help(words: Sequence[str]) -> NoReturn:
    make_parser().parse_args([*words, "--help"])
    raise AssertionError("--help ends the command")


def _first_page(known: Container[str], output: Output) -> None:
    """Print the commands that most people need. Nothing was asked for, so this is wrong usage."""
    output.exit_with(EX_USAGE)
    lines = ["usage: hubd COMMAND ...", "", DESCRIPTION.partition("\n\n")[0], ""]
    for title, commands in FIRST_PAGE.items():
        lines += [f"{title}:", *(_row_of(name, text) for name, text in commands.items() if name in known)]
    lines += ["", "`hubd help` lists all commands, `hubd help COMMAND` explains one."]
    print("\n".join(lines), file=sys.stderr)


def _row_of(name: str, text: str) -> str:
    return f"    {name.ljust(LISTED_CHARS)}{text}"
