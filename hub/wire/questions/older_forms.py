"""Elicitation forms rewritten for hosts of 2025-06-18, and their answers translated back.

That revision knows strings, numbers, booleans and plain enums. Options with titles become `enum` and `enumNames`;
a choice of several options becomes one boolean per option, named `field::option`. In the answer the booleans become a
list again.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw

TRUE = Raw(b"true")
MAX_FORM_BYTES: Final = 256 << 10
"""Size of a form that is rewritten: a thousand options with long titles take half of this."""
MAX_FIELDS: Final = 256
MAX_OPTIONS: Final = 1024
"""Options of all fields together: there are 600 time zones and 250 countries."""
MAX_REPEATED_CHARS: Final = 1 << 20
"""Characters of the fields' names, titles and descriptions, counted once per option, since each option repeats them."""
_REPEATED: Final = ("title", "description")


class UnsupportedForm(ValueError):
    """A form that cannot be rewritten for the older revision, or is too large for people to fill in."""


class WrongOptionCount(ValueError):
    """Fewer or more options chosen than the form allows."""


class _Option(Struct, frozen=True):
    value: str
    title: str


class _Choice(Struct, frozen=True):
    """A field with a choice of several options. `boxes` maps the name of each boolean to its option."""

    field: str
    boxes: dict[str, _Option]
    members: dict[str, Raw]
    required: bool


def older_form(schema: Raw) -> Raw:
    """Rewrite `requestedSchema` for a host of 2025-06-18; return `schema` itself if nothing needs to change.

    Raises:
        UnsupportedForm: a list field has no string options, an option is given twice, or a limit is passed.
    """
    members, properties = _open(schema)
    choices = {choice.field: choice for choice in _choices(members, properties)}
    older: dict[str, Raw] = {}
    left = MAX_OPTIONS - sum(len(choice.boxes) for choice in choices.values())
    for name, value in properties.items():
        if name in choices:
            older.update(_boxes(choices[name]))
        else:
            older[name], count = _older_enum(value, left)
            left -= count
    if older == properties:
        return schema
    members["properties"] = raw(older)
    if choices and "required" in members:
        members["required"] = raw([each for each in peek_array(members["required"]) if peek_str(each) not in choices])
    return raw(members)


def newer_content(schema: Raw, content: Mapping[str, Raw]) -> dict[str, Raw]:
    """Translate the answer to `older_form(schema)` back to `schema`. An optional field left empty stays absent.

    Raises:
        WrongOptionCount: fewer or more options are chosen than the form allows.
        UnsupportedForm: as `older_form`.
    """
    members, properties = _open(schema)
    newer = dict(content)
    for choice in _choices(members, properties):
        given = {box: newer.pop(box) for box in choice.boxes if box in newer}
        chosen = [option.value for box, option in choice.boxes.items() if given.get(box) == TRUE]
        least, most = _read_bound(choice.members, "minItems"), _read_bound(choice.members, "maxItems")
        if not choice.required and not chosen and (not given or least):
            continue
        if (least is not None and len(chosen) < least) or (most is not None and len(chosen) > most):
            raise WrongOptionCount(f"{choice.field}: {len(chosen)} chosen, {least or 0} to {most or 'all'} allowed")
        newer[choice.field] = raw(chosen)
    return newer


def _open(schema: Raw) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """The members of a form, and its fields.

    Raises:
        UnsupportedForm: the form is too large, or has too many fields.
    """
    if memoryview(schema).nbytes > MAX_FORM_BYTES:
        raise UnsupportedForm(f"it has more than {MAX_FORM_BYTES >> 10} KiB")
    members = peek_object(schema)
    properties = peek_object(members.get("properties"))
    if len(properties) > MAX_FIELDS or len(peek_array(members.get("required"))) > MAX_FIELDS:
        raise UnsupportedForm(f"it has more than {MAX_FIELDS} fields")
    return members, properties


def _choices(members: dict[str, Raw], properties: dict[str, Raw]) -> Iterator[_Choice]:
    """All fields with a choice of several options; their booleans get names that are unique in the form.

    A name that is taken gets a number. No number is tried twice in a form, so all names together take no more attempts
    than there are names.
    """
    required = set(map(peek_str, peek_array(members.get("required"))))
    taken, numbers = set(properties), count(2)
    left, repeated = MAX_OPTIONS, 0
    for name, value in properties.items():
        field = peek_object(value)
        if peek_str(field.get("type")) != "array":
            continue
        options = _options(field, left)
        left -= len(options)
        repeated += len(options) * (len(name) + sum(memoryview(field.get(each, b"")).nbytes for each in _REPEATED))
        if repeated > MAX_REPEATED_CHARS:
            raise UnsupportedForm("its fields with several options have too long names, titles or descriptions")
        boxes = {}
        for option in options:
            label = box = f"{name}::{option.value}"
            while box in taken:
                box = f"{label}_{next(numbers)}"
            taken.add(box)
            boxes[box] = option
        yield _Choice(name, boxes, field, name in required)


def _options(field: dict[str, Raw], most: int) -> list[_Option]:
    items = peek_object(field.get("items"))
    options = _options_with_titles(items.get("anyOf", items.get("oneOf")), most)
    if options is None:
        values = [peek_str(each) for each in _few(items.get("enum"), most)]
        if "enum" not in items or None in values:
            raise UnsupportedForm("a list of anything but strings to choose from")
        options = [_Option(value, value) for value in values if value is not None]
    if len({option.value for option in options}) < len(options):
        raise UnsupportedForm("an option is given twice")
    return options


def _few(value: Raw | None, most: int) -> list[Raw]:
    """The items of a list of options.

    Raises:
        UnsupportedForm: there are more than `most`, the rest of `MAX_OPTIONS`.
    """
    items = peek_array(value)
    if len(items) > most:
        raise UnsupportedForm(f"it has more than {MAX_OPTIONS} options")
    return items


def _options_with_titles(value: Raw | None, most: int) -> list[_Option] | None:
    """Options with titles; None for anything else. Raises: UnsupportedForm, there are more than `most`."""
    if value is None:
        return None
    options = []
    for each in _few(value, most):
        option = peek_object(each)
        const = peek_str(option.get("const"))
        if const is None:
            return None
        options.append(_Option(const, peek_str(option.get("title")) or const))
    return options


def _boxes(choice: _Choice) -> Iterator[tuple[str, Raw]]:
    """The booleans that replace one field."""
    label = peek_str(choice.members.get("title")) or choice.field
    default = set(map(peek_str, peek_array(choice.members.get("default"))[:MAX_OPTIONS]))
    for box, option in choice.boxes.items():
        boolean: dict[str, Any] = {"type": "boolean", "title": f"{label}: {option.title}"}
        if "description" in choice.members:
            boolean["description"] = choice.members["description"]
        if "default" in choice.members:
            boolean["default"] = option.value in default
        yield box, raw(boolean)


def _older_enum(value: Raw, most: int) -> tuple[Raw, int]:
    """Rewrite a field with a choice of one option, `oneOf`, to `enum` and `enumNames`; also return how many it has.

    Raises:
        UnsupportedForm: there are more than `most` options.
    """
    members = peek_object(value)
    options = _options_with_titles(members.get("oneOf"), most)
    if options is None or "enum" in members:
        return value, 0
    del members["oneOf"]
    members["enum"] = raw([option.value for option in options])
    members["enumNames"] = raw([option.title for option in options])
    return raw(members), len(options)


def _read_bound(members: dict[str, Raw], name: str) -> int | None:
    text = bytes(members.get(name, b""))
    return int(text) if text.isdigit() and len(text) < 10 else None
