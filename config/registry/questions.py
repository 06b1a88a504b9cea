"""Questions to a person: whether an answer will do, and what is known without asking. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from config.registry.server_json import one_line
from config.registry.slots import Asked, Slot, all_asked
from config.registry.texts import Piece

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


def checked(slot: Slot, asked: Asked, text: str, absolute: Absolute, *, is_own: bool = True) -> str:
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
        return checked(slot, asked, asked.input.default, absolute, is_own=False)
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
