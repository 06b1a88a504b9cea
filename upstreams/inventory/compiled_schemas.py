"""Schemas of tools, compiled to check arguments and results, by the extra `schema` (jsonschema-rs).

A schema is a stranger's: nothing is ever fetched for it, patterns take linear time, and what would take too long to
check is not checked. Values are shown nowhere, since they may be secrets or long.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, structs

from config.loading.checks.json_schemas import HAS_SCHEMAS, BadSchema, compile_schema
from hub.wire.mcp import Kind
from hub.wire.printable import printable
from hub.wire.upstream_snapshot import ListEntry
from upstreams.inventory.read_lists import Listing

MAX_DEPTH: Final = 64
MAX_SUBSCHEMAS: Final = 5_000
"""Parts of a schema, with what references lead to in their place: about as many are looked at for each value."""
MAX_CHECKS: Final = 100_000
"""Checks of one value; where a schema refers to itself, the depth of the value makes them more."""
MAX_LISTED: Final = 64
"""The same where what does not fit is listed, which takes the square of it."""
MAX_LINES: Final = 5
LINE_CHARS: Final = 200
VALUE: Final = "\0"
"""In place of values in what the library says."""


class Uncheckable(Exception):
    """A schema by which nothing is checked. The text is the reason, as a clause."""

    fetches = False
    """It refers to what would have to be fetched."""


class ToolSchema:
    """A compiled schema."""

    def __init__(self, schema: Raw) -> None:
        """Raises Uncheckable: it is none, or too much."""
        try:
            decoded = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError):
            raise Uncheckable("is no JSON that can be read") from None
        self._recursions = _weigh(decoded)
        try:
            self._validator = compile_schema(decoded, mask=VALUE)
        except BadSchema as error:
            words = printable(str(error).replace(VALUE, "a part of it"))[:LINE_CHARS]
            foreign = printable(error.foreign)[:LINE_CHARS]
            found = Uncheckable(f"refers to {foreign}" if foreign else f"is not valid: {words}")
            found.fetches = bool(foreign)
            raise found from None

    def misfits(self, value: Any) -> list[str]:
        """The misfits of a value, a line each, at most `MAX_LINES`; none: it fits, or is too deep to be checked."""
        checks = self._recursions ** min(_depth(value), MAX_DEPTH)
        if checks > MAX_CHECKS or self._validator.is_valid(value):
            return []
        if checks > MAX_LISTED:
            return ["/: does not fit the schema"]
        lines = []
        for number, error in enumerate(self._validator.iter_errors(value)):
            if number == MAX_LINES - 1:
                lines.append("and more")
                break
            place = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.instance_path)
            text = error.message.removeprefix(f"{VALUE} is ").replace(VALUE, "the value")
            lines.append(printable(f"{place or '/'}: {text}")[:LINE_CHARS])
        return lines


def without_fetching(found: Mapping[Kind, Listing], names: Collection[str]) -> tuple[Mapping[Kind, Listing], list[str]]:
    """Lists without the tools whose schemas refer to what would have to be fetched, and the reason for each of these.
    `names`: the schemas that count."""
    if not names or Kind.TOOL not in found or not HAS_SCHEMAS:
        return found, []
    kept, reasons = [], []
    for tool in found[Kind.TOOL].entries:
        if why := next(_find_fetching(tool, names), ""):
            reasons.append(f"its tool {printable(tool.key)[:LINE_CHARS]} is left out: {why}, which is never fetched")
        else:
            kept.append(tool)
    return {**found, Kind.TOOL: structs.replace(found[Kind.TOOL], entries=tuple(kept))}, reasons


def _find_fetching(tool: ListEntry, names: Collection[str]) -> Iterator[str]:
    for name in names:
        schema = tool.fields.get(name)
        if schema is not None and b":" in (data := bytes(schema)) and (b"$ref" in data or b"$schema" in data):
            try:
                ToolSchema(schema)
            except Uncheckable as error:
                if error.fetches:
                    yield f"its {name} {error}"


# --- bounds -----------------------------------------------------------------------------------------------------------


def _depth(value: Any) -> int:
    """The levels of a value."""
    levels, level = 0, [value]
    while level := [each for it in level for each in _items(it)]:
        levels += 1
    return levels


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _weigh(schema: Any) -> int:
    """The number of places where a schema refers back to what they are in. Raises Uncheckable: it is too deep or too
    large, with what its references lead to in their place."""
    left = MAX_SUBSCHEMAS
    recursions = 0

    def look(part: Any, depth: int, within: tuple[str, ...]) -> None:
        nonlocal left, recursions
        left -= isinstance(part, dict)
        if depth > MAX_DEPTH or left < 0:
            raise Uncheckable("is too large to be checked by")
        target = part.get("$ref") if isinstance(part, dict) else None
        if isinstance(target, str) and target.startswith("#"):
            if target in within:
                recursions += 1
            else:
                look(_resolve(schema, target), depth + 1, (*within, target))
        for each in _items(part):
            if isinstance(each, dict | list):
                look(each, depth + 1, within)

    definitions = ("$defs", "definitions")
    is_object = isinstance(schema, dict)
    look({key: schema[key] for key in schema if key not in definitions} if is_object else schema, 0, ("#",))
    return recursions


def _resolve(schema: Any, pointer: str) -> Any:
    """The part of a schema that a reference within it leads to; None: nothing that is found by its path."""
    found = schema
    for part in pointer[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and len(key) < 6 and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found
