"""The values that a new server needs: given by `--input KEY=VALUE`, asked at the terminal, or the publisher's defaults;
then it is shown as it will be written, and added if somebody agrees."""

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from getpass import getpass
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from config.hosts.secret_literals import NewSecrets
from config.registry.entry_of_answers import PATHS, Answers, about, check_answer, default_of, is_reference, missing
from config.registry.places_to_fill import Asked, Piece, Slot, all_asked
from config.registry.ways_to_run import Way
from config.secrets.store import SecretStore
from hub.cli.configuration.make_change import add_server
from hub.cli.context import EX_FAILED, Context, UsageError, agreed, ask_text, nearest
from hub.cli.registry.find_server import MAX_ASKED, as_written
from hub.wire.printable import printable

MAX_REPEATED: Final = 64
_REFERENCE: Final = re.compile(r"(?:Bearer )?\$\{[^{}]+\}")


def absolute(path: str) -> str:
    """A path as it is from everywhere."""
    return os.path.abspath(os.path.expanduser(path))


def check(slot: Slot, asked: Asked, text: str) -> str:
    """An answer that will do, in the form in which it is used; a file or folder must be there. Raises: ValueError."""
    found, kind = check_answer(slot, asked, text, absolute), asked.input.format
    is_there = {"file": os.path.isfile, "directory": os.path.isdir}.get(kind)
    if is_there is not None and not is_reference(found) and not is_there(found):
        raise ValueError(f"there is no {'folder' if kind == 'directory' else 'file'} {found}")
    return found


def read_inputs(pairs: Sequence[str], way: Way) -> dict[str, list[str]]:
    """The values of `--input`, checked. Raises: UsageError."""
    known = {asked.key: (slot, asked) for slot, asked in all_asked(way.slots)}
    found: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError("--input takes KEY=VALUE")
        if key not in known:
            there = f"there are: {', '.join(known)}" if known else "it asks for nothing"
            raise UsageError(f'--input: it has no "{printable(key)}"; {nearest(key, known) or there}')
        slot, asked = known[key]
        if key in found and not slot.repeated:
            raise UsageError(f"--input {key}: it has a value already")
        try:
            found.setdefault(key, []).append(check(slot, asked, text))
        except ValueError as error:
            raise UsageError(f"--input {key}: {error}") from None
    return found


def answers(
    way: Way, options: Context, server: str, new: NewSecrets, known: Answers, asked_before: Collection[str] = ()
) -> Answers:
    """All values: of the command line, those `known` before, of somebody at the terminal, and defaults. Secrets are put
    into `new`, and references to them into the answers; `server` is the name of the upstream. What was `asked_before`
    and may be left out is not asked again. Raises UsageError: something has to be said, and there is nobody to say
    it."""
    said = read_inputs(options.input, way)
    values = dict(known)
    asks = options.output.is_attended() and not options.yes
    asks_all = getattr(options, "ask", False)
    for slot, asked in all_asked(way.slots):
        default = default_of(slot, asked, absolute)
        texts = said.get(asked.key, [])
        if not texts and asked.key in values:
            continue
        if not texts and asks and (asked.required or asks_all or not (default or asked.key in asked_before)):
            texts = _ask(slot, asked, default)
        if texts:
            values[asked.key] = tuple(_keep(text, asked, server, new) for text in texts)
        elif default:
            values[asked.key] = tuple(map(Piece, asked.defaults or (default,)))
            for piece in values[asked.key]:
                if _is_path(slot, asked, piece.text) and not os.path.lexists(piece.text):
                    text = f"{piece.text} is what the publisher offers, and nothing is there"
                    options.output.warn(f"{asked.key}: {text}; --input {asked.key}=PATH names something of yours")
    if lacking := missing(way.slots, values):
        keys = ", ".join(f"{asked.key}{_why(asked)}" for asked in lacking)
        raise UsageError(f"these have to be said: {keys}; pass --input KEY=VALUE for each")
    return values


def _is_path(slot: Slot, asked: Asked, default: str) -> bool:
    """True if a default is a path, by its format or, of an argument, by its looks: few publishers say the format."""
    looks = slot.place == "argument" and default.startswith("/") and default.count("/") > 1
    return asked.input.format in PATHS or looks


def _why(asked: Asked) -> str:
    text = about(asked)
    return f" ({printable(text)})" if text else ""


def _keep(text: str, asked: Asked, server: str, new: NewSecrets) -> Piece:
    """An answer, or the reference to it if it is a secret that is no reference already. One that the publisher offered
    is the publisher's text, though somebody typed or chose it."""
    if text in (asked.input.default, *asked.input.choices):
        return Piece(text)
    if not asked.secret or _REFERENCE.fullmatch(text):
        return Piece(text, typed=True)
    wanted = "".join(c if c.isascii() and c.isalnum() else "_" for c in f"{server}_{asked.key}".upper())
    return Piece(f"${{secret:{new.name_for(wanted, text)}}}", typed=True)


def _ask(slot: Slot, asked: Asked, default: str) -> list[str]:
    """The answers of somebody at the terminal; none if it may be left out, or has a default, and is left out."""
    found: list[str] = []
    failures = 0
    while len(found) < MAX_REPEATED and failures < MAX_ASKED:
        text = _read_answer(asked, default if not found else "", again=bool(found))
        if not text and (found or default or not asked.required):
            return found  # without one the default counts, which is the publisher's text
        try:
            if not text:
                raise ValueError("it has to be said")
            found.append(check(slot, asked, text))
        except ValueError as error:
            failures += 1
            print(f"{asked.key}: {printable(str(error))}", file=sys.stderr)
            continue
        if not slot.repeated:
            return found
    if failures == MAX_ASKED:
        raise UsageError(f"there was no answer for {asked.key} that will do; nothing was changed")
    return found


def _read_answer(asked: Asked, default: str, *, again: bool) -> str:
    shown = f" [{printable(default)}]" if default else "" if asked.required and not again else " [Enter: none]"
    question = f"{asked.key}{_why(asked) if not again else ' (another one)'}{shown}:"
    if not asked.secret:
        return ask_text(question)
    try:
        return getpass(f"{question} ").strip()
    except EOFError:
        raise UsageError("there was no answer; nothing was changed") from None


class Chosen(Struct, frozen=True):
    """A server that is to be added if somebody agrees."""

    id: str
    way: Way
    make: Callable[[Answers], dict[str, Any]]
    """Makes its settings of answers."""
    prepare: Callable[[Path | None], AbstractContextManager[None]] | None = None
    """Prepares what it runs from, for the configuration of this main file, before it is written there."""


def add_chosen(options: Context, own: Mapping[str, Any], chosen: Chosen, *, default: bool = True) -> None:
    """Ask what a server needs, show what will be written, and add it if somebody agrees. `default`: the meaning of an
    empty answer. Raises: as `add_listed`."""
    output, id = options.output, chosen.id
    new = NewSecrets(SecretStore.open())
    got = answers(chosen.way, options, id, new, {})
    settings = chosen.make(got)
    for setting, value in own.items():  # of tables both count
        below = settings.get(setting)
        settings[setting] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    for line in as_written(settings) if got else ():
        output.say(line)
    if is_agreed(f'Add it as "{id}"?', options, default=default):
        if "source" in settings:
            output.set(source=settings["source"])
        if chosen.prepare is None or options.dry_run:
            return add_server(options.replace(name=id), settings, new)
        with chosen.prepare(options.config):
            add_server(options.replace(name=id), settings, new)


def is_agreed(question: str, options: Context, *, default: bool = True) -> bool:
    """True if somebody says yes, or need not: with `--yes` or `--dry-run` nobody is asked. A no is a failure, and said.
    Raises: UsageError."""
    if options.yes or options.dry_run:
        return True
    if not options.output.is_attended():
        raise UsageError("there is nobody to ask: pass --yes, or --dry-run to see what would be written")
    if agreed(question, default=default):
        return True
    options.output.say("nothing was changed")
    options.output.exit_with(EX_FAILED)
    return False
