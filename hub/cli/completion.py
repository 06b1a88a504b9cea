"""Completion in shells: `hubd completion SHELL` prints a script that calls the hidden `hubd __complete WORDS...`.

That prints what the last word may become, `NAME<TAB>DESCRIPTION` per line: commands and options as the parser has them,
names of servers and tools as the hub that runs has them. No hub is started, and one that is slow is not waited for.
Names that a shell would not take literally are left out: some of them come from servers, and shells insert them.
"""

import argparse
import json
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from hub.cli.context import Context, Output
from hub.cli.parser import Commands, Parser, add
from hub.control.interruptible_wait import now_s
from hub.wire.printable import printable

PATIENCE_S: Final = 1.0
"""Time limit for an answer of the hub."""
MAX_BYTES: Final = 32 << 20
DESCRIPTION_CHARS: Final = 80
NAME_CHARS: Final = 256
SAFE: Final = re.compile(r"[A-Za-z0-9_@+:,./-][A-Za-z0-9_@%+:,./=-]*")
"""Names that mean themselves in every shell."""

Found = Iterable[tuple[str, str]]
"""Names and their descriptions."""

SHELLS: Final = ("bash", "zsh", "fish")
"""Each has its script beside this module."""


def add_commands(commands: Any) -> None:
    """`completion`."""
    completion = add(commands, "completion", _print_script, json=True)
    completion.add_argument("shell", choices=SHELLS, help="the script's first line says where it goes")


def _print_script(options: Context, output: Output) -> None:
    script = Path(__file__).with_name(f"completion.{options.shell}").read_text(encoding="utf-8")
    output.set(shell=options.shell, script=script)
    output.say(script.rstrip("\n"))


def complete(parser: Parser, words: Sequence[str]) -> None:
    """`hubd __complete WORDS...`: print what the last word may become. Never fails, since it runs at every key."""
    try:
        lines = [f"{name}\t{printable(text)}" for name, text in completions(parser, words, ask)]
    except Exception:  # noqa: BLE001 - nothing can be said while somebody types
        return
    sys.stdout.write("".join(f"{line}\n" for line in lines))


Ask = Callable[[str], Any]
"""Asks the hub by a control method without params; its result, None: there is none."""


def completions(parser: Parser, words: Sequence[str], ask: Ask) -> list[tuple[str, str]]:
    """The words that the last of `words` may become, with descriptions."""
    *before, last = words or [""]
    found, start = _find(parser, *_join(before, last), ask)
    short = ((name, text.strip().partition("\n")[0][:DESCRIPTION_CHARS]) for name, text in found)
    is_option = start.startswith("-")  # a name that begins so would be taken for one
    found = ((name, text) for name, text in short if name.startswith(start) and name.startswith("-") is is_option)
    return [(name, text) for name, text in found if len(name) <= NAME_CHARS and SAFE.fullmatch(name)]


def _join(before: list[str], last: str) -> tuple[list[str], str]:
    """The words as the program will get them: bash cuts them at `=`, and wants what follows it."""
    if last == "=" and before:
        return before, ""
    return (before[:-1] if len(before) > 1 and before[-1] == "=" else before), last


def _find(parser: Parser, before: Sequence[str], last: str, ask: Ask) -> tuple[Found, str]:
    """The words that may stand behind `before`, and their beginning."""
    option, positionals = None, list[str]()
    if "--" in before:
        return (), last
    for word in before:
        if option is not None:
            option = None
        elif word.startswith("-") and word != "-":
            option = None if "=" in word else _option(parser, word)
        elif word == "help" and not positionals and "help" in _commands(parser):
            continue  # what follows is completed as if it stood there by itself
        elif (chosen := _commands(parser).get(word)) is not None:
            parser, positionals = cast(Parser, chosen), []
        else:
            positionals.append(word)
    if option is not None:
        return _values(option, ask), last
    if last.startswith("-"):
        name, equals, _ = last.partition("=")
        option = _option(parser, name) if equals else None
        if option is None:
            return _options(parser), last
        return ((f"{name}={value}", text) for value, text in _values(option, ask)), last
    if _commands(parser):
        return _command_names(parser), last
    return _positional(parser, positionals, ask), last


def _option(parser: Parser, word: str) -> argparse.Action | None:
    action = parser._option_string_actions.get(word)
    return action if action is not None and action.nargs != 0 else None


def _options(parser: Parser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        text = "colours: on a terminal, always, never" if action.dest == "color" else action.help or ""
        if text is not argparse.SUPPRESS:
            yield from ((name, text) for name in action.option_strings if name.startswith("--"))


def _commands(parser: Parser) -> Mapping[str, argparse.ArgumentParser]:
    return next((each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)), {})


def _command_names(parser: Parser) -> Found:
    """Commands by their main names: other names of one are the same parser."""
    commands = _commands(parser)
    if isinstance(commands, Commands):
        return [(name, f"{text[0].upper()}{text[1:]}.") for name, text in commands.texts.items()]
    names = {command: name for name, command in reversed([*commands.items()])}
    return [(name, command.description or "") for command, name in reversed(names.items())]


# --- names ------------------------------------------------------------------------------------------------------------


def _values(option: argparse.Action, ask: Ask) -> Found:
    if option.choices is not None:
        return ((str(choice), "") for choice in option.choices)
    return NAMES[option.dest](ask) if option.dest in NAMES else ()


def _positional(parser: Parser, before: Sequence[str], ask: Ask) -> Found:
    """The values that the positional argument behind those of `before` may have."""
    actions = [action for action in parser._actions if not action.option_strings]
    if not actions or (len(before) >= len(actions) and actions[-1].nargs not in ("*", "+")):
        return ()
    action = actions[min(len(before), len(actions) - 1)]
    command = parser.prog.partition(" ")[2]
    if action.choices is not None:
        return ((str(choice), "") for choice in action.choices)
    if action.metavar == "HOST":
        return _hosts()
    if command == "call" and before:
        return _arguments(ask, before[0], before[1:])
    return OF_COMMANDS[command](ask) if command in OF_COMMANDS else ()


def _servers(ask: Ask) -> Iterator[tuple[str, str]]:
    for row in (ask("status") or {}).get("upstreams") or ():
        yield str(row.get("name")), str(row.get("state"))


def _profiles(ask: Ask) -> Iterator[tuple[str, str]]:
    for row in (ask("status") or {}).get("profiles") or ():
        yield str(row.get("name")), f"{row.get('tools')} tools"


def _tools(ask: Ask) -> Iterator[tuple[str, str]]:
    for tool in ask("tools") or ():
        yield str(tool.get("name")), str(tool.get("description") or tool.get("title") or "")


def _arguments(ask: Ask, name: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`KEY=` of each argument of a tool that is not given yet."""
    taken = {word.partition("=")[0] for word in given}
    schema = next((tool.get("inputSchema") for tool in ask("tools") or () if tool.get("name") == name), None)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for key, about in (properties if isinstance(properties, dict) else {}).items():
        if key not in taken and "=" not in key:
            yield f"{key}=", str(about.get("description") or about.get("type") or "") if isinstance(about, dict) else ""


def _registries() -> Iterator[tuple[str, str]]:
    """The registries of the user's own file, and the official one."""
    import tomllib

    from config.hub_paths import config_file
    from config.settings import OFFICIAL

    found = None
    with suppress(OSError, ValueError):
        found = tomllib.loads(config_file().read_text(encoding="utf-8")).get("registries")
    names = [*(found if isinstance(found, dict) else ()), OFFICIAL]
    return ((name, "registry of servers") for name in dict.fromkeys(names))


def _hosts() -> Iterator[tuple[str, str]]:
    from config.hosts.known_hosts import all_hosts

    return ((name, host.title) for name, host in all_hosts().items())


NAMES: Final[Mapping[str, Callable[[Ask], Found]]] = {
    "upstream": _servers,
    "server": _servers,
    "profile": _profiles,
    "pick": lambda ask: chain(_profiles(ask), _hosts()),
    "registry": lambda ask: _registries(),
}
"""The values of options."""
OF_COMMANDS: Final[Mapping[str, Callable[[Ask], Found]]] = {
    **dict.fromkeys(("restart", "enable", "disable", "remove", "cache clear", "auth", "logout", "update"), _servers),
    "approve": _servers,
    "check": lambda ask: chain(_servers(ask), _tools(ask)),
    "pins": lambda ask: chain(_servers(ask), [("check", "exit 1 if anything differs"), ("export", "write a file")]),
    "call": _tools,
    "tools": lambda ask: chain(_servers(ask), _tools(ask)),
    "logs": lambda ask: chain(_servers(ask), [("hub", "the hub's own log")]),
    "calls": lambda ask: chain(_servers(ask), _tools(ask)),
    "profile remove": _profiles,
    "profile entry": lambda ask: chain(_profiles(ask), _hosts()),
}
"""The values of what commands are about."""


def ask(method: str) -> Any:
    """Ask the hub that runs; its result, None: none answers in time. As `ControlClient`, which takes too long to
    import at every key."""
    from config.hub_paths import control_path
    from hub.linux.peer_credentials import ForeignPeer, refuse_foreign_hub

    until = now_s() + PATIENCE_S
    path, received = str(control_path()), bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hub:
        hub.settimeout(PATIENCE_S)
        try:
            hub.connect(path)
            refuse_foreign_hub(hub, path)
            hub.sendall(b'{"jsonrpc":"2.0","id":1,"method":"%s","params":{}}\n' % method.encode())
            while not received.endswith(b"\n"):
                hub.settimeout(max(0.001, until - now_s()))
                part = hub.recv(1 << 18)
                if not part or len(received) > MAX_BYTES:
                    return None
                received += part
        except (OSError, ForeignPeer):
            return None
    return json.loads(received).get("result")
