"""The context of a command: its options, its output, the questions it asks, the hub, what it read."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import cached_property
from os import EX_OK
from typing import TYPE_CHECKING, Any, Final

from config.hubd_executable import command_path, lasting_command, passing_place
from hub.cli.keyboard import read_line
from hub.cli.render.blocks import Block
from hub.cli.render.terminal import Screen
from hub.wire.printable import printable_json

if TYPE_CHECKING:
    from config.hosts.hub_entries import Records
    from config.hosts.known_hosts import Machine
    from config.hosts.removed_originals import Originals
    from config.loading.assemble import Loaded
    from hub.control.client import ControlClient
    from hub.control.methods import Method, Result

EX_FAILED: Final = 1
EX_USAGE: Final = 2
EX_INTERRUPTED: Final = 130
"""Exit codes that `os` has no name for; all others are those of sysexits.h (`os.EX_OK`, `os.EX_CONFIG`, ...)."""

CLOSE: Final = 0.7
"""Similarity above which an unknown name counts as a misspelt one (`difflib`)."""

MAX_ASKED: Final = 3
"""The times that a question is asked whose answer is neither yes nor no."""

Command = Callable[["Context", "Output"], None]
"""A command: takes its options and the output, whose `code` is the exit code."""


class CommandFailed(Exception):
    """A command cannot do what it should; the text says why, and what to do."""

    code = EX_FAILED
    """The exit code."""


class UsageError(CommandFailed):
    """The command line is wrong; the text says why."""

    code = EX_USAGE

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
        self.code = EX_OK
        """The exit code of the command: of several failures that of the first one."""
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

    def answer(self, value: object, draw: Callable[[], Iterable[Block]]) -> None:
        """Print all that a command has to say: `value` alone for programs, the blocks of `draw` for people."""
        if self.json:
            print(as_json(value))
        else:
            self.screen.show(*draw())

    def set(self, **members: Any) -> None:
        """Add members to the object for programs."""
        self._members |= members

    def member(self, name: str, default: Any = None) -> Any:
        """The value of a member of the object for programs so far."""
        return self._members.get(name, default)

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

    def remark(self, text: str) -> None:
        """Note something to people alone: where programs get only the answer."""
        if not self.json:
            self.note(text)

    def exit_with(self, code: int) -> None:
        """Let the command end with this code."""
        self.code = code

    def fail(self, text: str, code: int = EX_FAILED) -> None:
        """Report a failure. Of several failures the first code counts, and all texts are kept."""
        before = self._members.get("error")
        message = text if before is None else f"{before['message']}\n{text}"
        self._members["error"] = {"code": code if before is None else before["code"], "message": message}
        self.code = self.code or code
        self._tell(f"hubd: {text}")

    def _tell(self, text: str) -> None:
        print(_wrap(text), file=sys.stderr)

    def end(self) -> None:
        """Print the object, if there is one. An error alone takes one line, as a record of `hubd logs` does."""
        if self.json and self._members:
            alone = self._members.keys() == {"error"}
            print(as_line(self._members) if alone or self._in_lines else as_json(self._members))

    def is_attended(self) -> bool:
        """True if there is a person to ask."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty()


class Context(argparse.Namespace):
    """The options of one command, and what it works with; each is read once, when it is first asked for."""

    output: Output
    json: bool

    @cached_property
    def loaded(self) -> "Loaded":
        """The configuration as far as it can be used, as it was when the command first asked. Raises ConfigError:
        nothing of it can be used."""
        from config.loading.assemble import load_all

        return load_all(getattr(self, "config", None), os.environ, partly=True)

    @cached_property
    def machine(self) -> "Machine":
        """The machine and the user whose hosts the command is about."""
        from config.hosts.known_hosts import Machine

        return Machine.this()

    @cached_property
    def records(self) -> "Records":
        """The entries that hubd has put into files of hosts, as the command first found them: to look at, since another
        command may change them. Raises EditError: they cannot be read."""
        from config.hosts.hub_entries import Records
        from config.hub_paths import install_records_path

        return Records(install_records_path())

    @cached_property
    def originals(self) -> "Originals":
        """The servers that imports took out of files of hosts; otherwise as `records`."""
        from config.hosts.removed_originals import Originals
        from config.hub_paths import originals_path

        return Originals(originals_path())

    def replace(self, **changes: Any) -> "Context":
        """The same context with some options changed; the configuration, which these may bear on, is read anew."""
        return Context(**{name: value for name, value in {**vars(self), **changes}.items() if name != "loaded"})


def nearest(name: str, known: Iterable[str]) -> str:
    """A question whether a name of `known` was meant; "" if none is like it."""
    from difflib import get_close_matches  # not above: it is large, and most hubs never need it

    found = get_close_matches(name, list(known), 1, CLOSE)
    return f'did you mean "{found[0]}"?' if found else ""


def nearest_or_all(name: str, known: Collection[str]) -> str:
    """As `nearest`; if none is like it, the names that there are."""
    return nearest(name, known) or f"there are: {', '.join(known) or 'none'}"


def _wrap(text: str) -> str:
    """`text` in lines that fit standard error, without the movements of the cursor that live lines add."""
    screen = Screen.of(sys.stderr, os.environ, "never")
    if max(map(len, text.split("\n"))) < screen.width:  # without rich, which takes a moment
        return text
    return screen.render(text).rstrip("\n")


def ask(question: str) -> str:
    """As `ask_text`; the answer in lower case."""
    return ask_text(question).lower()


def ask_text(question: str) -> str:
    """Ask; the answer as it was typed, without blanks around it. Raises UsageError: there is none, since standard input
    has ended."""
    print(_wrap(question), end=" ", file=sys.stderr, flush=True)
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


def client() -> "ControlClient":
    """A connection to the running daemon. Raises HubNotRunning: none runs."""
    from config.hub_paths import control_path
    from hub.control.client import ControlClient

    return ControlClient(control_path())


def ask_hub(method: "Method[Result]", **params: object) -> "Result":
    """The result of one request to the running daemon. Raises HubNotRunning, HubHangs, ControlFailed, NotUnderstood: as
    `ControlClient`."""
    with client() as hub:
        return hub.request(method, **params)


def as_json(value: object) -> str:
    """`value` as JSON for people and programs: control characters are escaped."""
    return printable_json(json.dumps(value, indent=2, ensure_ascii=False))


def as_line(value: object) -> str:
    """`value` as JSON on one line, for people and programs."""
    return printable_json(json.dumps(value, ensure_ascii=False))


def now() -> datetime:
    """The wall time, in UTC."""
    return datetime.now(UTC)


def own_command() -> str:
    """The absolute path by which hosts and service managers start hubd. It outlives updates. Raises UsageError: the
    command cannot be found, or lies where a package runner keeps it for one run only."""
    if lasting := lasting_command():
        return lasting
    path = command_path()
    if path is None or (passing := passing_place(path)) is None:
        raise UsageError("cannot find the command hubd: put its directory on PATH and run this again")
    runner, remedy = passing
    text = f"this hubd lives in the cache of {runner} and would vanish from there, and with it the hub from your hosts:"
    raise UsageError(f"{text} run `{remedy}`, then `hubd` and this command again")
