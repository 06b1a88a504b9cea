"""Slots: the places of an entry that a server.json describes, in their order, and the names of what is asked. Pure.

A slot is an argument, a variable, a header or the address. Its text is fixed, a template with variables, or an answer.
Only the user's own words may hold references: `${secret:NAME}` that a publisher wrote, or that comes together where a
publisher's text and an answer meet, is plain text.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Literal, NamedTuple

from msgspec import Struct

from config.registry.server_json import Argument, ArgumentTemplate, Input

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")


class NotRunnable(ValueError):
    """A way of running a server that is not taken. The text says why, as what follows "it cannot be added: "."""


class Piece(NamedTuple):
    """A part of a text."""

    text: str
    typed: bool = False
    """True if it is the user's own."""


def names_in(template: str, known: Mapping[str, object]) -> list[str]:
    """The names in braces that are known, each once, in order."""
    return list(dict.fromkeys(name for name in _NAME.findall(template) if name in known))


def fill_template(template: str, pieces: Mapping[str, Piece]) -> list[Piece]:
    """The pieces of a template. What is in braces stays if none of `pieces` is called so."""
    parts = literal_parts(template, pieces)
    return [each for text, name in parts for each in (Piece(text), *([pieces[name]] if name else []))]


def as_setting(pieces: Sequence[Piece]) -> str:
    """The text as a setting has it: each `${` that the user did not type as a whole is escaped."""
    text = "".join(piece.text for piece in pieces)
    if "${" not in text:
        return text
    live: set[int] = set()
    at = 0
    for piece in pieces:
        if piece.typed:
            live |= {at + found.start() for found in re.finditer(r"\$\{", piece.text)}
        at += len(piece.text)
    return re.sub(r"\$\{", lambda found: "${" if found.start() in live else "$${", text)


def literal_parts(template: str, known: Container[str]) -> list[tuple[str, str]]:
    """The template as pairs: a text, and the name behind it; the last name is ""."""
    parts, end = [], 0
    for found in _NAME.finditer(template):
        if found[1] in known:
            parts.append((template[end : found.start()], found[1]))
            end = found.end()
    return [*parts, (template[end:], "")]


Place = Literal["mount", "argument", "variable", "header", "address"]
MAX_ASKED = 64


class Asked(Struct, frozen=True, kw_only=True):
    """Something that has to be known for a slot."""

    key: str
    """The KEY of `--input KEY=VALUE`, different from all others."""
    variable: str
    """The name in braces; "": it is the whole value of the slot."""
    input: Input
    required: bool
    secret: bool = False
    """True if nobody may see the answer."""
    typed: bool = False
    """True if a default will not do: the user has to have typed it."""
    least: float | None = None
    most: float | None = None
    """Bounds of a number."""
    defaults: tuple[str, ...] = ()
    """The values of a slot that has several unless somebody says others."""


class Slot(Struct, frozen=True, kw_only=True):
    """One place of an entry."""

    place: Place
    name: str
    """The option with its dashes, the variable or the header; "": a positional argument, or the address."""
    template: str | None
    """The fixed text, with names in braces; None: the value is what is asked."""
    asked: tuple[Asked, ...]
    fixed: tuple[tuple[str, str], ...] = ()
    """Variables of the template to which the publisher fixed the value."""
    repeated: bool = False

    @property
    def is_switch(self) -> bool:
        """True if it is an option without a value."""
        return self.place == "argument" and self.name != "" and self.template == "" and not self.asked

    @property
    def is_joined(self) -> bool:
        """True if it is an option that has its value behind `=`, in one word."""
        return self.place == "argument" and (self.name.startswith("--") or self.name.endswith("="))


def slots_of(templates: Iterable[tuple[Place, Sequence[ArgumentTemplate]]]) -> tuple[Slot, ...]:
    """The slots of templates in their places, with keys that differ.
    Raises: NotRunnable, if more would be asked than anybody answers."""
    keys: set[str] = set()
    slots = tuple(_slot(place, each, keys) for place, group in templates for each in group)
    if sum(len(slot.asked) for slot in slots) > MAX_ASKED:
        raise NotRunnable(f"it would ask for more than {MAX_ASKED} values")
    return slots


def all_asked(slots: Sequence[Slot]) -> Iterator[tuple[Slot, Asked]]:
    """The questions, each once, with its first slot, in order."""
    keys: set[str] = set()
    for slot in slots:
        for asked in slot.asked:
            if asked.key not in keys:
                keys.add(asked.key)
                yield slot, asked


def _slot(place: Place, template: ArgumentTemplate, keys: set[str]) -> Slot:
    """The slot of a template; its source is what the user of a mount has to type."""
    inputs: Mapping[str, Input] = {"": template}
    if template.value is not None:
        inputs = {name: template.variables[name] for name in names_in(template.value, template.variables)}
    asked = tuple(
        Asked(
            key=_free(variable or _hint(template), keys),
            variable=variable,
            input=each,
            required=each.is_required or template.is_required,
            secret=each.is_secret or template.is_secret,
            typed=place == "mount" and variable == _mount_source(template.value or ""),
        )
        for variable, each in inputs.items()
        if each.value is None  # the publisher fixed none
    )
    return Slot(
        place=place,
        name=template.name,
        template=template.value,
        asked=asked,
        fixed=tuple((name, each.value) for name, each in template.variables.items() if each.value is not None),
        repeated=isinstance(template, Argument) and template.is_repeated,
    )


def _mount_source(template: str) -> str:
    """The variable that a mount takes its source from."""
    for part in template.split(","):
        key, _, value = part.partition("=")
        if key in ("src", "source"):
            return value.strip("{}")
    return ""


def _hint(template: ArgumentTemplate) -> str:
    hint = template.value_hint if isinstance(template, Argument) else ""
    return template.name.lstrip("-").rstrip("=") or hint or "argument"


def _free(wanted: str, keys: set[str]) -> str:
    """`wanted` as a key that nothing else has, without what cannot be typed before `=`."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in wanted)[:64] or "value"
    numbered = (f"{plain}-{number}" for number in count(2))
    key = next(each for each in chain([plain], numbered) if each not in keys)
    keys.add(key)
    return key
