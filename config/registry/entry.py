"""The entry of an upstream, made of a way and of a person's answers; and whether an answer will do. Pure.

The same answers make the same entry, so that what an update changes is what the publisher changed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from config.registry.packages import NotRunnable
from config.registry.server_json import RegistrySource, one_line
from config.registry.slots import Asked, Piece, Slot, all_asked, as_setting, fill_template
from config.registry.ways import Way

Absolute = Callable[[str], str]
"""Makes a path absolute, `~` included."""
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_REFERENCE = re.compile(r"(?<!\$)\$\{")
_TRUE, _FALSE = ("true", "yes", "y", "1", "on"), ("false", "no", "n", "0", "off")
MAX_TEXT = 8192


class Answers(Struct, frozen=True):
    """The answers that are known: for each key its values, of which only a repeated slot has several."""

    values: Mapping[str, tuple[Piece, ...]]

    def piece(self, key: str, at: int = 0) -> Piece | None:
        """The value of a key at a turn; the last one if there are not that many."""
        found = self.values.get(key, ())
        return found[min(at, len(found) - 1)] if found else None


def check_answer(slot: Slot, asked: Asked, text: str, absolute: Absolute, *, is_own: bool = True) -> str:
    """An answer in the form in which it is used. `is_own`: it is the user's, and may be a reference.

    Raises:
        ValueError: it will not do; the text says why, and shows nothing of a secret.
    """
    if not text:
        raise ValueError("it is empty; leave it out for none")
    if len(text) > MAX_TEXT:
        raise ValueError(f"it is longer than {MAX_TEXT} characters")
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise ValueError("it holds control characters")
    if is_own and _REFERENCE.search(text) and not asked.typed and slot.place != "mount":
        return text  # what it leads to is not known yet
    kind = asked.input.format
    if asked.input.choices and text not in asked.input.choices:
        raise ValueError(f"it has to be one of {', '.join(asked.input.choices)}")
    if kind == "number" and not _NUMBER.fullmatch(text):
        raise ValueError("it has to be a number, such as 8080 or 0.5")
    if kind == "boolean":
        if text.lower() not in (*_TRUE, *_FALSE):
            raise ValueError("it has to be true or false")
        return "true" if text.lower() in _TRUE else "false"
    if kind == "filepath" or asked.typed or (slot.place == "argument" and text.startswith("~/")):
        text = absolute(text)  # no shell will replace `~`
    if slot.place == "mount" and (set(text) & set(',"$') or not text.startswith("/")):
        raise ValueError("a folder of a container is an absolute path without commas, quotes or $")
    return text


def default_of(slot: Slot, asked: Asked, absolute: Absolute) -> str:
    """The default, if it can be used without asking anybody; "": there is none."""
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


def entry(way: Way, answers: Answers, source: RegistrySource) -> dict[str, Any]:
    """The settings of the upstream, in the order in which they are written.

    Raises:
        NotRunnable: an address came out that is none.
    """
    found = _of_remote(way, answers) if way.kind == "remote" else _of_package(way, answers)
    return {**found, "source": str(source)}


def words_without_answers(way: Way) -> list[str]:
    """The command line, with the keys in capitals where answers go; for people. Optional arguments are in brackets."""
    words = list(way.command)
    options = [slot for slot in way.slots if slot.place == "mount"]
    rest = [slot for slot in way.slots if slot.place == "argument"]
    for slot in options:
        words += [slot.name, _show(slot)]
    if way.image:
        words += [word for slot in way.slots if slot.place == "variable" for word in ("-e", slot.name)] + [way.image]
    return words + [word for slot in rest for word in _show_words(slot)]


def _of_package(way: Way, answers: Answers) -> dict[str, Any]:
    program, *words = way.command
    env = {slot.name: text for slot in way.slots if slot.place == "variable" for text in texts(slot, answers)}
    for slot in way.slots:
        if slot.place == "mount":
            words += [word for text in texts(slot, answers) for word in (slot.name, text)]
    if way.image:
        words += [word for name in env for word in ("-e", name)] + [way.image]
    for slot in way.slots:
        if slot.place == "argument":
            words += words_of(slot, answers)
    found: dict[str, Any] = {"command": program, "args": words}
    return found | ({"env": env} if env else {})


def _of_remote(way: Way, answers: Answers) -> dict[str, Any]:
    url = "".join(text for slot in way.slots if slot.place == "address" for text in texts(slot, answers))
    if not url.startswith(("https://", "http://", "${")):
        raise NotRunnable("its address is no URL")
    found: dict[str, Any] = {"url": url}
    headers = {slot.name: text for slot in way.slots if slot.place == "header" for text in texts(slot, answers)}
    if headers:
        found["headers"] = headers
    return found | ({"transport": way.transport} if way.transport else {})


def texts(slot: Slot, answers: Answers) -> list[str]:
    """The texts of a slot as settings have them: one, none if it is left out, or several if it is repeated."""
    return [as_setting(pieces) for pieces in _pieces(slot, answers)]


def _pieces(slot: Slot, answers: Answers) -> Iterator[list[Piece]]:
    template = slot.template
    if template is None:
        [asked] = slot.asked
        yield from ([piece] for piece in answers.values.get(asked.key, ()))
        return
    if any(asked.key not in answers.values for asked in slot.asked):
        return  # optional, and nothing was said
    keys = {asked.variable: asked.key for asked in slot.asked}
    turns = max((len(answers.values[key]) for key in keys.values()), default=1) if slot.repeated else 1
    fixed = {name: Piece(value) for name, value in slot.fixed}
    for turn in range(turns):
        pieces = {name: answers.piece(key, turn) for name, key in keys.items()}
        yield fill_template(template, {**fixed, **pieces}.get)


def words_of(slot: Slot, answers: Answers) -> list[str]:
    """The words of an argument."""
    if slot.name and slot.template == "" and not slot.asked:
        return [as_setting([Piece(slot.name)])]
    found = []
    for pieces in _pieces(slot, answers):
        if not slot.name:
            found.append(as_setting(pieces))
        elif slot.name.startswith("--") or slot.name.endswith("="):
            found.append(as_setting([Piece(f"{slot.name.removesuffix('=')}="), *pieces]))
        else:
            found += [as_setting([Piece(slot.name)]), as_setting(pieces)]
    return found


def _show(slot: Slot) -> str:
    keys = {asked.variable: asked.key for asked in slot.asked}
    if slot.template is None:
        return keys[""].upper()
    pieces = {
        **{name: Piece(value) for name, value in slot.fixed},
        **{name: Piece(keys[name].upper()) for name in keys},
    }
    return "".join(piece.text for piece in fill_template(slot.template, pieces.get))


def _show_words(slot: Slot) -> list[str]:
    if slot.name and slot.template == "" and not slot.asked:
        return [slot.name]
    text = _show(slot)
    if slot.name.startswith("--") or slot.name.endswith("="):
        words = [f"{slot.name.removesuffix('=')}={text}"]
    else:
        words = [slot.name, text] if slot.name else [text]
    optional = slot.asked and not any(asked.required or asked.input.default for asked in slot.asked)
    return [f"[{' '.join(words)}]"] if optional else words
