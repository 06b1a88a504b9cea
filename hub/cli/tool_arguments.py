"""Arguments of a tool call, from the `KEY=VALUE` words of a command line. Pure.

A value that is JSON is taken as JSON, unless the tool's schema wants text there and no type that the JSON has.
"""

import json
from collections.abc import Mapping, Sequence
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


def split(words: Sequence[str]) -> dict[str, str]:
    """Names and the text given for each; the last one of a name counts.

    Raises:
        ValueError: a word is not KEY=VALUE.
    """
    found = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ValueError(f'expected KEY=VALUE, got "{word}"')
        found[name] = text
    return found


def depends_on_schema(texts: Mapping[str, str]) -> bool:
    """True if any value is JSON, which could be meant as text, too."""
    return any(not isinstance(parse(text), str) for text in texts.values())


def typed(texts: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, each as JSON or as text, as `schema` (a tool's inputSchema) wants it."""
    return {name: _choose(text, wanted(schema, name)) for name, text in texts.items()}


def _choose(text: str, kinds: frozenset[str]) -> Any:
    value = parse(text)
    if "string" in kinds and not kinds & _kinds_of(value):
        return text
    return value


def _kinds_of(value: Any) -> frozenset[str]:
    return next(kinds for types, kinds in KINDS if isinstance(value, types))


def wanted(schema: Mapping[str, Any], name: str) -> frozenset[str]:
    """The types that a schema allows for one property, as far as it says so by `type`; empty: any."""
    properties = schema.get("properties")
    prop = properties.get(name) if isinstance(properties, dict) else None
    return _types(prop) if isinstance(prop, dict) else frozenset()


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
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
