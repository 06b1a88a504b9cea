"""Parts that all commands share: exit codes, output for people and programs, the parser, questions, the client."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hub.cli.keyboard import read_line
from hub.cli.render.screen import COLOURS, LEAST_COLUMNS, Block, Screen
from hub.wire.printable import printable_json

if TYPE_CHECKING:
    from datetime import datetime

    from config.loading.assemble import Loaded
    from hub.control.client import ControlClient
    from hub.control.methods import Method, Result

EX_FAILED: Final = 1
EX_USAGE: Final = 2
EX_INTERRUPTED: Final = 130
"""Exit codes that `os` has no name for; all others are those of sysexits.h (`os.EX_OK`, `os.EX_CONFIG`, ...)."""

CLOSE: Final = 0.7
"""Similarity above which an unknown name counts as a misspelt one (`difflib`)."""

ELSEWHERE: Final = {"usage": "`hubd tools --cost` shows how much of the tools is used"}
"""Commands that people look for, and what does that."""

MAX_ASKED: Final = 3
"""The times that a question is asked whose answer is neither yes nor no."""

LISTED: Final = re.compile(r" +\S+(?: \S+)* {2,}")
"""The name before a text in a list of the help."""

Command = Callable[["Desk"], int]
"""A command: takes its options, returns the exit code."""


class UsageError(Exception):
    """The command line is wrong; the text says why."""

    def __init__(self, text: str, usage: str = "") -> None:
        super().__init__(text)
        self.usage = usage
        """The usage line of the command; "": it is not shown."""


class Output:
    """Output of a command: sentences for people as it runs, or one JSON object for programs at its end (`--json`).

    The object stands alone on standard output, unless a program has to act before the end (`line`). A failure is its
    member `error`, and the same sentence is on standard error, where people look when another program reads the output.
    """

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.colour = "auto"
        """The value of `--color`."""
        self._in_lines = False
        self._members: dict[str, Any] = {}

    @cached_property
    def screen(self) -> Screen:
        """Standard output, for tables, colours and long lines."""
        return Screen.of(sys.stdout, os.environ, self.colour)

    @cached_property
    def progress(self) -> Screen:
        """Standard error, for lines that change while something is waited for; with `--json` they are not shown."""
        return Screen.of(sys.stderr, os.environ, self.colour, live=not self.json)

    def say(self, text: str) -> None:
        """Print a sentence for people."""
        if not self.json:
            print(text)

    def show(self, *blocks: Block) -> None:
        """Draw blocks for people: sentences, which wrap on a terminal, and tables."""
        if not self.json:
            self.screen.show(*blocks)

    def set(self, **members: Any) -> None:
        """Add members to the object for programs."""
        self._members |= members

    def items(self, name: str) -> list[Any]:
        """The content of a list in the object for programs so far."""
        found: list[Any] = self._members.get(name, [])
        return found

    def member(self, name: str) -> Any:
        """The value of a member of the object for programs so far; None: nothing was said."""
        return self._members.get(name)

    def append(self, name: str, item: Any) -> None:
        """Add an item to a list in the object for programs."""
        self._members.setdefault(name, []).append(item)

    def line(self, **members: Any) -> None:
        """Print an object for programs on a line of its own, at once; the one of the end takes one line then, too."""
        self._in_lines = True
        if self.json:
            print(as_line(members), flush=True)

    def warn(self, text: str) -> None:
        """Warn of something that works, and probably not as meant."""
        self.append("warnings", text)
        if not self.json:
            self._tell(f"hubd: warning: {text}")

    def note(self, text: str) -> None:
        """Note something worth knowing."""
        self.append("notes", text)
        if not self.json:
            self._tell(f"hubd: note: {text}")

    def fail(self, code: int, text: str) -> int:
        """Report a failure; returns `code`. Of several failures the first code counts, and all texts are kept."""
        before = self._members.get("error")
        message = text if before is None else f"{before['message']}\n{text}"
        self._members["error"] = {"code": code if before is None else before["code"], "message": message}
        self._tell(f"hubd: {text}")
        return code

    def _tell(self, text: str) -> None:
        """Print a sentence on standard error; on a terminal it is wrapped between words."""
        screen = Screen.of(
            sys.stderr, os.environ, "never"
        )  # not that of live lines, which adds movements of the cursor
        print(wrap(text, screen), file=sys.stderr)

    def end(self) -> None:
        """Print the object, if there is one. An error alone takes one line, as a record of `hubd logs` does."""
        if self.json and self._members:
            alone = self._members.keys() == {"error"}
            print(as_line(self._members) if alone or self._in_lines else as_json(self._members))

    def is_attended(self) -> bool:
        """True if there is a person to ask."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty()


class Desk(argparse.Namespace):
    """The desk of one command: its options, and what it works with; each is read once, when it is first asked for."""

    output: Output
    json: bool

    @cached_property
    def loaded(self) -> "Loaded":
        """The configuration as far as it can be used, as it was when the command first asked.

        Raises:
            ConfigError: nothing of it can be used.
        """
        from config.loading.assemble import load_all

        return load_all(getattr(self, "config", None), os.environ, partly=True)

    def replace(self, **changes: Any) -> "Desk":
        """The same desk with some options changed; what these may bear on is read anew."""
        return Desk(**{name: value for name, value in {**vars(self), **changes}.items() if name != "loaded"})


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors, and suggests what was probably meant."""

    hint = ""
    """Advice for an argument too many."""

    def format_help(self) -> str:
        """The help, with no line wider than the terminal."""
        from shutil import get_terminal_size

        return _fit(super().format_help(), max(LEAST_COLUMNS, get_terminal_size().columns))

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

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Refuse words that the parser does not take.

        Raises:
            UsageError: always.
        """
        option = next((word for word in words if word.startswith("-")), None)
        if option is None:
            self.error(f"unexpected argument: {words[0]}{self.hint and f'; {self.hint}'}")
        name = option.partition("=")[0]
        meant = nearest(name, [name for action in self._actions for name in action.option_strings])
        self.error(f"there is no option {name}; {meant or f'`{self.prog} --help` lists them'}")


def _fit(text: str, width: int) -> str:
    """Paragraphs are filled anew, parts of a list go on below their texts."""
    from itertools import groupby

    lines: list[str] = []
    for is_prose, group in groupby(text.split("\n"), lambda line: line[:1] not in ("", " ")):
        found = list(group)
        if is_prose and max(map(len, found)) > width:
            found = [" ".join(found)]
        lines += (line if len(line) <= width else _fold(line, width) for line in found)
    return "\n".join(lines)


def _fold(line: str, width: int) -> str:
    from textwrap import fill

    listed = LISTED.match(line)
    blank = len(line) - len(line.lstrip())
    indent = listed.end() if listed and listed.end() < width // 2 else blank + 2 if blank else 0
    return fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def nearest(name: str, known: Iterable[str]) -> str:
    """A question whether a name of `known` was meant; "" if none is like it."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), 1, CLOSE)
    return f'did you mean "{found[0]}"?' if found else ""


def wrap(text: str, screen: Screen) -> str:
    """`text` in lines that fit the screen."""
    if max(map(len, text.split("\n"))) < screen.width:  # without rich, which takes a moment
        return text
    return screen.render(text).rstrip("\n")


def ask(question: str) -> str:
    """Ask; the answer in lower case.

    Raises:
        UsageError: there is none, since standard input has ended.
    """
    return ask_text(question).lower()


def ask_text(question: str) -> str:
    """Ask; the answer as it was typed, without blanks around it.

    Raises:
        UsageError: as `ask`.
    """
    print(wrap(question, Screen.of(sys.stderr, os.environ, "never")), end=" ", file=sys.stderr, flush=True)
    try:
        line = read_line(sys.stdin)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # what follows is a line of its own
        raise
    if not line:
        raise UsageError("there was no answer; nothing was changed")
    return line.strip()


def agreed(question: str, *, default: bool) -> bool:
    """Ask for a yes; `default` is what a mere Enter means. No answer at all is a no; one that is neither is asked for
    again, three times at most."""
    for _ in range(MAX_ASKED):
        try:
            answer = ask(f"{question} {'[Y/n]' if default else '[y/N]'}")
        except UsageError:
            return False
        if answer in ("", "y", "yes", "n", "no"):
            return answer in ("y", "yes") or (default and not answer)
        print("answer y for yes or n for no", file=sys.stderr)
    return False


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
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{members}exit codes, and errors with --json: see `hubd --help`",
    )
    parser.set_defaults(command=load_when_run(command) if isinstance(command, str) else command, parser=parser)
    add_color(parser, argparse.SUPPRESS)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def load_when_run(place: str) -> Callable[..., int]:
    """A function that loads `MODULE:FUNCTION` each time it is called, and calls that."""
    module, _, name = place.partition(":")

    def run(*given: Any) -> int:
        code: int = getattr(import_module(module), name)(*given)
        return code

    return run


def add_color(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option `--color`, which stands before or after the command."""
    parser.add_argument("--color", choices=COLOURS, default=argparse.SUPPRESS, help=text)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option `--config`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="in place of the user's own hubd.toml")


def add_no_wait(parser: argparse.ArgumentParser) -> None:
    """Add the option `--no-wait`."""
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the server is connected")


def client() -> "ControlClient":
    """A connection to the running daemon.

    Raises:
        HubNotRunning: none runs.
    """
    from config.hub_paths import control_path
    from hub.control.client import ControlClient

    return ControlClient(control_path())


def ask_hub(method: "Method[Result]", **params: object) -> "Result":
    """The result of one request to the running daemon.

    Raises:
        HubNotRunning, HubHangs, ControlFailed, NotUnderstood: as `ControlClient`.
    """
    with client() as hub:
        return hub.request(method, **params)


def as_json(value: object) -> str:
    """`value` as JSON for people and programs: control characters are escaped."""
    return printable_json(json.dumps(value, indent=2, ensure_ascii=False))


def as_line(value: object) -> str:
    """`value` as JSON on one line, for people and programs."""
    return printable_json(json.dumps(value, ensure_ascii=False))


def now() -> "datetime":
    """The wall time, in UTC."""
    from datetime import UTC, datetime

    return datetime.now(UTC)


def own_command() -> str:
    """The absolute path by which hosts and service managers start hubd. It outlives updates.

    Raises:
        UsageError: the command cannot be found, or lies where a package runner keeps it for one run only.
    """
    from config.own_program import command_path, lasting_command, passing_place

    if (lasting := lasting_command()) is not None:
        return lasting
    path = command_path()
    passing = None if path is None else passing_place(path)
    if passing is None:
        raise UsageError("cannot find the command hubd: put its directory on PATH and run this again")
    runner, remedy = passing
    raise UsageError(
        f"this hubd lives in the cache of {runner} and would vanish from there, and with it the hub from your hosts: "
        f"run `{remedy}`, then `hubd` and this command again"
    )
