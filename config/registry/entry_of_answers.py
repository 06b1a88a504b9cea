"""The entry of an upstream, made of a way and of a person's answers; and whether an answer will do. Pure.

The same answers make the same entry, so that what an update changes is what the publisher changed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from config.registry.places_to_fill import Asked, NotRunnable, Piece, Slot, all_asked, as_setting, fill_template
from config.registry.server_json import RegistrySource, one_line
from config.registry.ways_to_run import Way

Absolute = Callable[[str], str]
"""Makes a path absolute, `~` included."""
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_REFERENCE = re.compile(r"(?<!\$)\$\{")
_TRUE, _FALSE = ("true", "yes", "y", "1", "on"), ("false", "no", "n", "0", "off")
MAX_TEXT = 8192
PATHS = ("filepath", "file", "directory")
"""Formats of answers that are paths; the last two must be there."""


Answers = Mapping[str, tuple[Piece, ...]]
"""The answers that are known: for each key its values, of which only a repeated slot has several."""


def check_answer(slot: Slot, asked: Asked, text: str, absolute: Absolute, *, is_own: bool = True) -> str:
    """An answer in the form in which it is used. `is_own`: it is the user's, and may be a reference.
    Raises: ValueError, if it will not do; the text says why, and shows nothing of a secret."""
    if not text:
        raise ValueError("it is empty; leave it out for none")
    if len(text) > MAX_TEXT:
        raise ValueError(f"it is longer than {MAX_TEXT} characters")
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise ValueError("it holds control characters")
    if is_own and is_reference(text) and not asked.typed and slot.place != "mount":
        return text  # what it leads to is not known yet
    kind = asked.input.format
    if asked.input.choices and text not in asked.input.choices:
        raise ValueError(f"it has to be one of {', '.join(asked.input.choices)}")
    if kind == "number" and not _NUMBER.fullmatch(text):
        raise ValueError("it has to be a number, such as 8080 or 0.5")
    if kind == "number" and not (asked.least is None or float(text) >= asked.least):
        raise ValueError(f"it has to be at least {asked.least:g}")
    if kind == "number" and not (asked.most is None or float(text) <= asked.most):
        raise ValueError(f"it has to be at most {asked.most:g}")
    if kind == "boolean":
        if text.lower() not in (*_TRUE, *_FALSE):
            raise ValueError("it has to be true or false")
        return "true" if text.lower() in _TRUE else "false"
    if kind in PATHS or asked.typed or (slot.place == "argument" and text.startswith("~/")):
        text = absolute(text)  # no shell will replace `~`
    if slot.place == "mount" and (set(text) & set(',"$') or not text.startswith("/")):
        raise ValueError("a folder of a container is an absolute path without commas, quotes or $")
    return text


def is_reference(text: str) -> bool:
    """True if what it leads to is not known yet."""
    return _REFERENCE.search(text) is not None


def default_of(slot: Slot, asked: Asked, absolute: Absolute) -> str:
    """The default, if it can be used without asking anybody; "": there is none."""
    if asked.defaults:
        return ", ".join(asked.defaults)
    if not asked.input.default or asked.typed or asked.secret:
        return ""
    try:
        return check_answer(slot, asked, asked.input.default, absolute, is_own=False)
    except ValueError:
        return ""


def missing(slots: Sequence[Slot], values: Mapping[str, object]) -> list[Asked]:
    """The questions that have to be answered and are not."""
    return [asked for _, asked in all_asked(slots) if asked.required and asked.key not in values]


def about(asked: Asked) -> str:
    """The words behind a question: description, choices, form. Not safe for a terminal yet."""
    parts = [one_line(asked.input.description)] if asked.input.description else []
    if asked.input.choices:
        parts.append(f"one of {one_line(', '.join(asked.input.choices), 400)}")
    elif asked.input.format in ("number", "boolean"):
        parts.append("a number" if asked.input.format == "number" else "true or false")
    if asked.input.placeholder:
        parts.append(f"such as {one_line(asked.input.placeholder, 100)}")
    return "; ".join(parts)


def entry(way: Way, answers: Answers, source: RegistrySource | None) -> dict[str, Any]:
    """The settings of the upstream, in the order in which they are written. `source`: None if no registry has it.
    Raises: NotRunnable, if an address came out that is none."""
    found: dict[str, Any]
    if way.kind == "remote":
        [url] = texts(way.slots_at("address")[0], answers) or [""]
        if not url.startswith(("https://", "http://", "${")):
            raise NotRunnable("its address is no URL")
        found = {"url": url, "headers": _table(way.slots_at("header"), answers), "transport": way.transport}
    else:
        env = _table(way.slots_at("variable"), answers)
        program, *words = _command_line(way, partial(_words_of, answers=answers), env)
        found = {"command": program, "args": words, "env": env}
    found = {name: value for name, value in found.items() if value not in ("", {})}
    return found if source is None else found | {"source": str(source)}


def words_without_answers(way: Way) -> list[str]:
    """The command line, with the keys in capitals where answers go; for people. Optional arguments are in brackets."""
    return _command_line(way, _show, [slot.name for slot in way.slots_at("variable")])


def texts(slot: Slot, answers: Answers) -> list[str]:
    """The texts of a slot as settings have them: one, none if it is left out, or several if it is repeated."""
    return [as_setting(pieces) for pieces in _pieces(slot, answers)]


def _table(slots: Sequence[Slot], answers: Answers) -> dict[str, str]:
    return {slot.name: text for slot in slots for text in texts(slot, answers)}


def _command_line(way: Way, words_of: Callable[[Slot], list[str]], env: Iterable[str]) -> list[str]:
    """The program and its arguments. `env`: the variables that a container is to get."""
    words = [*way.command, *(word for slot in way.slots_at("mount") for word in words_of(slot))]
    if way.image:
        words += [*(word for name in env for word in ("-e", name)), way.image]
    return words + [word for slot in way.slots_at("argument") for word in words_of(slot)]


def _words_of(slot: Slot, answers: Answers) -> list[str]:
    return [as_setting(word) for pieces in _pieces(slot, answers) for word in _words(slot, pieces)]


def _show(slot: Slot) -> list[str]:
    keys = {asked.key: (Piece(asked.key.upper()),) for asked in slot.asked}
    words = ["".join(piece.text for piece in word) for word in _words(slot, *_pieces(slot, keys))]
    needed = slot.place == "mount" or not slot.asked
    if needed or any(asked.required or asked.input.default for asked in slot.asked):
        return words
    return [f"[{' '.join(words)}]"]


def _words(slot: Slot, pieces: Sequence[Piece]) -> list[Sequence[Piece]]:
    """The words of a mount or an argument with one value."""
    if slot.is_switch:
        return [[Piece(slot.name)]]
    if slot.is_joined:
        return [[Piece(f"{slot.name.removesuffix('=')}="), *pieces]]
    return [[Piece(slot.name)], pieces] if slot.name else [pieces]


def _pieces(slot: Slot, answers: Answers) -> Iterator[list[Piece]]:
    """The pieces of each text of a slot."""
    if slot.template is None:
        [asked] = slot.asked
        yield from ([piece] for piece in answers.get(asked.key, ()))
        return
    if any(asked.key not in answers for asked in slot.asked):
        return  # optional, and nothing was said
    turns = max((len(answers[asked.key]) for asked in slot.asked), default=1) if slot.repeated else 1
    fixed = {name: Piece(value) for name, value in slot.fixed}
    for turn in range(turns):
        pieces = {asked.variable: answers[asked.key][: turn + 1][-1] for asked in slot.asked}  # or the last there is
        yield fill_template(slot.template, fixed | pieces)
