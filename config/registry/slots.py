"""Slots: the places of an entry that a server.json describes, in their order, and the names of what is asked. Pure.

A slot is an argument, a variable, a header or the address. Its text is fixed, a template with variables, or an answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from config.registry.filled_templates import names_in
from config.registry.packages import NotRunnable
from config.registry.server_json import Argument, ArgumentTemplate, Input, KeyValue, Transport

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


def slots_of(
    mounts: Sequence[Argument], arguments: Sequence[Argument], variables: Sequence[KeyValue]
) -> tuple[Slot, ...]:
    """The slots of a package. `mounts`: arguments of the runner that were found harmless.

    Raises:
        NotRunnable: more would be asked than anybody answers.
    """
    keys: set[str] = set()
    found = [_slot("mount", each.name, each, keys, each.is_repeated, typed="source") for each in mounts]
    found += [_slot("argument", each.name, each, keys, each.is_repeated) for each in arguments]
    found += [_slot("variable", each.name, each, keys) for each in variables]
    return _refuse_crowd(found)


def slots_of_remote(remote: Transport) -> tuple[Slot, ...]:
    """The slots of a server that runs elsewhere: its address, and its headers.

    Raises:
        NotRunnable: more would be asked than anybody answers.
    """
    keys: set[str] = set()
    address = ArgumentTemplate(value=remote.url, variables=dict(remote.variables), is_required=True)
    found = [_slot("address", "", address, keys)]
    return _refuse_crowd([*found, *(_slot("header", each.name, each, keys) for each in remote.headers)])


def all_asked(slots: Sequence[Slot]) -> Iterator[tuple[Slot, Asked]]:
    """The questions, each with its slot, in order."""
    return ((slot, asked) for slot in slots for asked in slot.asked)


def _refuse_crowd(slots: list[Slot]) -> tuple[Slot, ...]:
    if sum(len(slot.asked) for slot in slots) > MAX_ASKED:
        raise NotRunnable(f"it would ask for more than {MAX_ASKED} values")
    return tuple(slots)


def _slot(
    place: Place, name: str, template: ArgumentTemplate, keys: set[str], repeated: bool = False, typed: str = ""
) -> Slot:
    """The slot of a template. `typed`: of a mount, the part whose variable the user has to type."""
    if template.value is None:
        asked = Asked(
            key=_key(template, name, keys),
            variable="",
            input=template,
            required=template.is_required,
            secret=template.is_secret,
        )
        return Slot(place=place, name=name, template=None, asked=(asked,), repeated=repeated)
    typed_name = _mount_source(template.value) if typed else ""
    asked_of = [
        Asked(
            key=_free(variable, keys),
            variable=variable,
            input=template.variables[variable],
            required=template.variables[variable].is_required or template.is_required,
            secret=template.variables[variable].is_secret or template.is_secret,
            typed=variable == typed_name,
        )
        for variable in names_in(template.value, _open(template.variables))
    ]
    fixed = tuple((known, each.value) for known, each in template.variables.items() if each.value is not None)
    return Slot(place=place, name=name, template=template.value, asked=tuple(asked_of), fixed=fixed, repeated=repeated)


def _open(variables: Mapping[str, Input]) -> dict[str, Input]:
    """Those that are asked: the publisher fixed no value."""
    return {name: each for name, each in variables.items() if each.value is None}


def _mount_source(template: str) -> str:
    """The variable that a mount takes its source from."""
    for part in template.split(","):
        key, _, value = part.partition("=")
        if key in ("src", "source"):
            return value.strip("{}")
    return ""


def _key(template: ArgumentTemplate, name: str, keys: set[str]) -> str:
    hint = template.value_hint if isinstance(template, Argument) else ""
    return _free(name.lstrip("-").rstrip("=") or hint or "argument", keys)


def _free(wanted: str, keys: set[str]) -> str:
    """`wanted` as a key that nothing else has, without what cannot be typed before `=`."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in wanted)[:64] or "value"
    key = plain
    number = 1
    while key in keys:
        number += 1
        key = f"{plain}-{number}"
    keys.add(key)
    return key
