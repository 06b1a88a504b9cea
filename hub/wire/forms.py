"""Forms of elicitation for hosts of 2025-06-18, and what they fill in put back (bridging.md 12.3).

That revision knows strings, numbers, booleans and plain enums. Options with titles become `enum` and `enumNames`;
a choice of several becomes one boolean per option, named `field::option`, and the booleans become a list again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw, Struct

from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw

TRUE = Raw(b"true")


class Unshowable(ValueError):
    """A form that cannot be put into older words."""


class OutOfBounds(ValueError):
    """Fewer or more options chosen than the form allows."""


class _Option(Struct, frozen=True):
    value: str
    title: str


class _Choice(Struct, frozen=True):
    """A field of which several options may be chosen. `boxes` maps the name of each boolean to its option."""

    field: str
    boxes: dict[str, _Option]
    members: dict[str, Raw]
    required: bool


def older_form(schema: Raw) -> Raw:
    """`requestedSchema` as a host of 2025-06-18 can read it; `schema` itself, if it can.

    Raises:
        Unshowable: a field is a list of anything but strings to choose from.
    """
    members = peek_object(schema)
    properties = peek_object(members.get("properties"))
    choices = {choice.field: choice for choice in _choices(members, properties)}
    older: dict[str, Raw] = {}
    for name, value in properties.items():
        if name in choices:
            older.update(_boxes(choices[name]))
        else:
            older[name] = _older_enum(value)
    if older == properties:
        return schema
    members["properties"] = raw(older)
    if choices and "required" in members:
        members["required"] = raw([each for each in peek_array(members["required"]) if peek_str(each) not in choices])
    return raw(members)


def newer_content(schema: Raw, content: Mapping[str, Raw]) -> dict[str, Raw]:
    """What was filled into `older_form(schema)`, as `schema` wants it. An optional field left alone stays away.

    Raises:
        OutOfBounds: see there.
    """
    members = peek_object(schema)
    newer = dict(content)
    for choice in _choices(members, peek_object(members.get("properties"))):
        given = {box: newer.pop(box) for box in choice.boxes if box in newer}
        chosen = [option.value for box, option in choice.boxes.items() if given.get(box) == TRUE]
        least, most = _bound(choice.members, "minItems"), _bound(choice.members, "maxItems")
        if not choice.required and not chosen and (not given or least):
            continue
        if (least is not None and len(chosen) < least) or (most is not None and len(chosen) > most):
            raise OutOfBounds(f"{choice.field}: {len(chosen)} chosen, {least or 0} to {most or 'all'} allowed")
        newer[choice.field] = raw(chosen)
    return newer


def _choices(members: dict[str, Raw], properties: dict[str, Raw]) -> Iterator[_Choice]:
    """All fields of several options, their booleans under names that nothing else in the form has."""
    required = set(map(peek_str, peek_array(members.get("required"))))
    taken = set(properties)
    for name, value in properties.items():
        field = peek_object(value)
        if peek_str(field.get("type")) != "array":
            continue
        boxes = {}
        for option in _options(field):
            box = f"{name}::{option.value}"
            while box in taken:
                box += "_"
            taken.add(box)
            boxes[box] = option
        yield _Choice(name, boxes, field, name in required)


def _options(field: dict[str, Raw]) -> list[_Option]:
    items = peek_object(field.get("items"))
    titled = _titled(items.get("anyOf", items.get("oneOf")))
    if titled is not None:
        return titled
    values = [peek_str(each) for each in peek_array(items.get("enum"))]
    if "enum" not in items or None in values:
        raise Unshowable("a list of anything but strings to choose from")
    return [_Option(value, value) for value in values if value is not None]


def _titled(value: Raw | None) -> list[_Option] | None:
    """Options with titles; None: it is something else."""
    if value is None:
        return None
    options = []
    for each in peek_array(value):
        option = peek_object(each)
        const = peek_str(option.get("const"))
        if const is None:
            return None
        options.append(_Option(const, peek_str(option.get("title")) or const))
    return options


def _boxes(choice: _Choice) -> Iterator[tuple[str, Raw]]:
    """The booleans that stand for one field."""
    label = peek_str(choice.members.get("title")) or choice.field
    default = set(map(peek_str, peek_array(choice.members.get("default"))))
    for box, option in choice.boxes.items():
        boolean: dict[str, Any] = {"type": "boolean", "title": f"{label}: {option.title}"}
        if "description" in choice.members:
            boolean["description"] = choice.members["description"]
        if "default" in choice.members:
            boolean["default"] = option.value in default
        yield box, raw(boolean)


def _older_enum(value: Raw) -> Raw:
    """A field of one option: `oneOf` becomes `enum` and `enumNames`."""
    members = peek_object(value)
    options = _titled(members.get("oneOf"))
    if options is None or "enum" in members:
        return value
    del members["oneOf"]
    members["enum"] = raw([option.value for option in options])
    members["enumNames"] = raw([option.title for option in options])
    return raw(members)


def _bound(members: dict[str, Raw], name: str) -> int | None:
    text = bytes(members.get(name, b""))
    return int(text) if text.isdigit() and len(text) < 10 else None
