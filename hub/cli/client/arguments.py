"""Arguments of a tool call from the `KEY=VALUE` words of a command line. Pure.

A value that is JSON is taken as JSON, unless the tool's schema wants text there and no type that the JSON has.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

KINDS: Final[Sequence[tuple[type | tuple[type, ...], frozenset[str]]]] = (
    (bool, frozenset({"boolean"})),
    (int, frozenset({"integer", "number"})),
    (float, frozenset({"number"})),
    (str, frozenset({"string"})),
    (list, frozenset({"array"})),
    (dict, frozenset({"object"})),
    (type(None), frozenset({"null"})),
)
"""Type names of JSON Schema for each Python type; the first match counts, since a bool is an int to Python."""


FILES: Final = ("/", "./", "../", "~/")
"""Beginnings of a path behind `@`; anything else behind it is text, such as the name of a person."""
MAX_NESTING: Final = 16


def split(words: Sequence[str]) -> list[tuple[str, str]]:
    """Names and the text given for each, in order. Raises: ValueError, if a word is not KEY=VALUE."""
    found = []
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ValueError(f'expected KEY=VALUE, got "{word}"')
        found.append((name, text))
    return found


def depends_on_schema(pairs: Sequence[tuple[str, str]]) -> bool:
    """True if a name may be that of a nested argument, or a value is JSON, which could be meant as text."""
    return any("." in name or name.endswith("[]") or not isinstance(parse(text), str) for name, text in pairs)


def build_arguments(
    pairs: Sequence[tuple[str, str]], schema: Mapping[str, Any], read: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """The arguments, each as JSON or as text, as `schema` (a tool's inputSchema) wants it.

    `a.b=1` is the property b of the object a, unless the schema has a property of that whole name; `a[]=x` adds to the
    list a; `a=@PATH` is what `read` finds there. The last value of a name counts. Raises ValueError: two of them
    contradict each other, or one is nested too deep; OSError: a file cannot be read."""
    found: dict[str, Any] = {}
    for name, text in pairs:
        steps, adds = _steps(name, schema)
        place, at = found, schema
        for step in steps[:-1]:
            place, at = place.setdefault(step, {}), _property(at, step)
            if not isinstance(place, dict):
                raise ValueError(f"{name} is within {step}, which has a value of its own")
        last = steps[-1]
        if not adds:
            place[last] = _value(text, _types(_property(at, last)), read)
            continue
        items = place.setdefault(last, [])
        if not isinstance(items, list):
            raise ValueError(f"{name} adds to {last}, which is no list")
        item = _property(at, last).get("items")
        items.append(_value(text, _types(item) if isinstance(item, dict) else frozenset(), read))
    return found


def _steps(name: str, schema: Mapping[str, Any]) -> tuple[list[str], bool]:
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return [name], False
    adds = name.endswith("[]") and len(name) > 2
    steps = name.removesuffix("[]").split(".") if adds else name.split(".")
    if not all(steps):
        return [name], False
    if len(steps) > MAX_NESTING:
        raise ValueError(f"{name[:40]}... is nested more than {MAX_NESTING} deep; use --json")
    return steps, adds


def _property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    properties = schema.get("properties")
    found = properties.get(name) if isinstance(properties, dict) else None
    return found if isinstance(found, dict) else {}


def _value(text: str, kinds: frozenset[str], read: Callable[[str], str] | None) -> Any:
    if read is None or not text.startswith("@") or not (text[1:].startswith(FILES) or text == "@-"):
        value = parse(text)
        own = next(names for types, names in KINDS if isinstance(value, types))
        return text if "string" in kinds and not kinds & own else value
    content = read(text[1:])
    return parse(content) if kinds and "string" not in kinds else content


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a schema allows, as far as it says so by `type`; empty: any."""
    types = schema.get("type")
    found = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    for member in ("anyOf", "oneOf"):
        for branch in schema.get(member) or ():
            found |= _types(branch) if isinstance(branch, dict) else set()
    return frozenset(kind for kind in found if isinstance(kind, str))


def parse(text: str) -> Any:
    """`text` as JSON if it is JSON, else as it is. `NaN` and `Infinity` are text, as JSON has no such numbers."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> Any:
    raise ValueError(name)
