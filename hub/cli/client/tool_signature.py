"""A tool as a person calls it: a signature, its arguments, an example to change. Pure; schemas are of servers, so
everything is bounded."""

import json
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

MAX_ARGUMENTS: Final = 200
MAX_DEPTH: Final = 6
MAX_BRANCHES: Final = 6
MAX_VALUE_CHARS: Final = 60
MAX_WORDS: Final = 30
"""Words in an example; what is required beyond them is left to the reader."""
MAX_BREADTH: Final = 3
"""Depth below which a schema's branches are no longer told apart."""
PLACEHOLDERS: Final[Mapping[str, str]] = {"integer": "1", "number": "1", "boolean": "true", "null": "null"}
"""Values of an example, by their type."""

Schema = Mapping[str, Any]


class ToolArgument(NamedTuple):
    """One argument of a tool."""

    name: str
    kind: str
    required: bool
    description: str


def arguments(schema: Schema) -> list[ToolArgument]:
    """The arguments of a tool, those required first."""
    properties, required = _properties(schema), _list_required(schema)
    found = []
    for name, each in properties.items():
        text = _resolve(each, schema).get("description")
        about = text.strip().partition("\n")[0] if isinstance(text, str) else ""
        found.append(ToolArgument(name, kind_of(each, schema), name in required, about))
    return sorted(found, key=lambda argument: not argument.required)


def signature(name: str, schema: Schema) -> str:
    """`time__convert(time: string, zone?: string)`."""
    parts = (f"{each.name}{'' if each.required else '?'}: {each.kind}" for each in arguments(schema))
    return f"{name}({', '.join(parts)})"


def example(name: str, schema: Schema) -> str:
    """A command line that calls the tool with all that is required."""
    words = list(islice(_words(schema, schema, "", 0), MAX_WORDS + 1))
    more = " ..." if len(words) > MAX_WORDS else ""
    return shlex.join(["hubd", "call", name, *words[:MAX_WORDS]]) + more


def kind_of(schema: Any, root: Schema, depth: int = 0) -> str:
    """The values that a schema takes, in a few words: `string`, `list[integer]`, `"a" | "b"`."""
    schema = _resolve(schema, root)
    if depth > MAX_BREADTH:
        return "any"
    if "const" in schema:
        return _show(schema["const"])
    if isinstance(values := schema.get("enum"), list) and values:
        return _join([_show(value) for value in values])
    for member in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(member), list) and branches:
            return _join([kind_of(branch, root, depth + 1) for branch in branches[: MAX_BRANCHES + 1]])
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    named = [_kind(str(kind), schema, root, depth) for kind in names]
    return _join(named) if named else "object" if "properties" in schema else "any"


def _kind(kind: str, schema: Schema, root: Schema, depth: int) -> str:
    if kind == "array" and "items" in schema:
        return f"list[{kind_of(schema['items'], root, depth + 1)}]"
    return "list" if kind == "array" else kind


def _join(kinds: list[str]) -> str:
    kinds = list(dict.fromkeys(kinds))
    return " | ".join(kinds[:MAX_BRANCHES] + (["..."] if len(kinds) > MAX_BRANCHES else []))


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"


def _words(schema: Schema, root: Schema, within: str, depth: int) -> Iterator[str]:
    required = _list_required(schema)
    for name, each in _properties(schema).items():
        if name not in required:
            continue
        each = _resolve(each, root)
        key = f"{within}{name}"
        if _properties(each) and _list_required(each) and depth < MAX_DEPTH:
            yield from _words(each, root, f"{key}.", depth + 1)
        else:
            yield _word(key, each, root)


def _word(key: str, schema: Schema, root: Schema) -> str:
    value = _sample(schema)
    if value is not None:
        return f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    kind = kind_of(schema, root)
    if kind.startswith("list["):
        return f"{key}[]={_placeholder(kind.removeprefix('list[').removesuffix(']'), key)}"
    return f"{key}={_placeholder(kind, key)}"


def _sample(schema: Schema) -> Any:
    """A value that the schema itself gives: its example, default, constant or first choice; None: it gives none."""
    examples = schema.get("examples")
    given = [*(examples[:1] if isinstance(examples, list) else []), schema.get("default"), schema.get("const")]
    given += schema["enum"][:1] if isinstance(schema.get("enum"), list) else []
    return next((each for each in given if each is not None and len(_show(each)) < MAX_VALUE_CHARS), None)


def _placeholder(kind: str, key: str) -> str:
    first = kind.split(" | ")[0]
    if first == "string" or first == "any":
        return key.rpartition(".")[2].upper()
    return "{}" if first == "object" else PLACEHOLDERS.get(first, "[]" if first.startswith("list") else "...")


def _properties(schema: Schema) -> Mapping[str, Any]:
    found = schema.get("properties")
    return dict(list(found.items())[:MAX_ARGUMENTS]) if isinstance(found, dict) else {}


def _list_required(schema: Schema) -> set[str]:
    found = schema.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _resolve(schema: Any, root: Schema) -> Schema:
    """The schema that a local `$ref` names; anything that is no schema takes everything."""
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not (isinstance(reference, str) and reference.startswith("#/")):
            return schema
        found: Any = root
        for step in reference[2:].split("/")[:MAX_DEPTH]:
            found = found.get(step) if isinstance(found, dict) else None
        schema = found
    return {}
