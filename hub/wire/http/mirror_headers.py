"""HTTP headers of MCP that repeat the body: names, and tool arguments marked with `x-mcp-header`.

Read in this order: values of headers, parameters mirrored into headers. A header written here is visible ASCII without
line ends, so no argument of a tool can add a header.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import peek_array, peek_object, peek_str

_PREFIX, _SUFFIX = "=?base64?", "?="
_is_plain = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?", re.A).fullmatch
_is_field = re.compile(r"[\t -~]*", re.A).fullmatch
_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.A).fullmatch


class InvalidHeader(ValueError):
    """A header value that cannot be decoded, or that contradicts the body."""


def encode_header(value: str) -> bytes:
    """Encode `value` for `Mcp-Name` or `Mcp-Param-*`; anything but plain ASCII is wrapped in Base64."""
    if _is_plain(value) and not _is_wrapped(value):
        return value.encode()
    return b"=?base64?" + b64encode(value.encode()) + b"?="


def decode_header(value: str) -> str:
    """Decode a received `Mcp-Name` or `Mcp-Param-*`. Raises InvalidHeader: characters a header must not hold, or bad
    Base64 in the wrapper."""
    if not _is_field(value):
        raise InvalidHeader("it holds characters that belong into the Base64 form")
    if not _is_wrapped(value):
        return value
    coded = value[len(_PREFIX) : -len(_SUFFIX)].encode()
    try:
        plain = b64decode(coded, validate=True)
        text = plain.decode()
    except ValueError:
        raise InvalidHeader("its Base64 form is not Base64 of UTF-8") from None
    if b64encode(plain) != coded:
        raise InvalidHeader("its Base64 form is not canonical")
    return text


def _is_wrapped(value: str) -> bool:
    return value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX + _SUFFIX)


MAX_SCHEMAS: Final = 1_000
"""Nested schemas that are searched for one tool."""
X_MCP_HEADER: Final = "x-mcp-header"
_MIRRORED_TYPES = frozenset({"string", "integer", "boolean"})
_MAX_INTEGER = 2**53 - 1
_is_number = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.A).fullmatch
_ONE_SCHEMA = (
    *("not", "if", "then", "else", "items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
)
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAPS_OF_SCHEMAS = ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")


class InvalidMirror(ValueError):
    """A tool that asks for headers in a way the revision forbids; the tool is left out of the list."""


class Mirror(Struct, frozen=True):
    """One argument of a tool that its server wants repeated in a header."""

    header: str
    """The header's name, `Mcp-Param-` included."""
    path: tuple[str, ...]
    """Names of properties, from the root of the arguments."""


def asks_for_headers(value: Raw) -> bool:
    """True if a tool or a schema may ask for headers: it contains the word, or a letter written as an escape."""
    text = bytes(value)
    return b"x-mcp-header" in text or b"\\u00" in text


def mirrors_of(input_schema: Raw) -> tuple[Mirror, ...]:
    """The mirrors that a tool's `inputSchema` asks for. Raises InvalidMirror: a name is no header name or given twice,
    a type is not primitive, or properties alone do not lead to the parameter."""
    if not asks_for_headers(input_schema):
        return ()
    mirrors = tuple(_find(input_schema, (), iter(range(MAX_SCHEMAS))))
    if len({mirror.header.lower() for mirror in mirrors}) != len(mirrors):
        raise InvalidMirror("two parameters ask for the same header")
    return mirrors


def _find(schema: Raw, path: tuple[str, ...] | None, left: Iterator[int]) -> Iterator[Mirror]:
    """The mirrors in a schema. `path` None: `properties` alone do not lead to the schema, so mirrors are forbidden.

    `left` has an item for each schema that may still be searched.
    """
    if next(left, None) is None:
        raise InvalidMirror(f"x-mcp-header in more than {MAX_SCHEMAS} schemas")
    members = peek_object(schema)
    if X_MCP_HEADER in members:
        yield _mirror(members, path)
    for name, property in peek_object(members.get("properties")).items():
        yield from _find(property, None if path is None else (*path, name), left)
    alone = (members[keyword] for keyword in _ONE_SCHEMA if keyword in members)
    listed = (inner for keyword in _LISTS_OF_SCHEMAS for inner in peek_array(members.get(keyword)))
    named = (inner for keyword in _MAPS_OF_SCHEMAS for inner in peek_object(members.get(keyword)).values())
    for inner in chain(alone, listed, named):
        yield from _find(inner, None, left)


def _mirror(members: dict[str, Raw], path: tuple[str, ...] | None) -> Mirror:
    if not path:
        raise InvalidMirror("x-mcp-header stands where properties alone do not lead")
    if (name := peek_str(members[X_MCP_HEADER])) is None or not _is_token(name):
        raise InvalidMirror(f"the x-mcp-header of {path[-1]!r} is not a header name")
    declared = members.get("type")
    types = {peek_str(declared), *map(peek_str, peek_array(declared))} - {None, "null"}
    if len(types) != 1 or not types <= _MIRRORED_TYPES:
        raise InvalidMirror(f"the x-mcp-header of {path[-1]!r} needs the type string, integer or boolean")
    return Mirror("Mcp-Param-" + name, path)


def mirror_headers(mirrors: Sequence[Mirror], arguments: Raw) -> list[tuple[str, bytes]]:
    """The headers for one call. An argument that is absent, null or of another type has no header."""
    texts = ((mirror, _text(_value(mirror, arguments))) for mirror in mirrors)
    return [(mirror.header, encode_header(text)) for mirror, text in texts if text is not None]


def check_mirrors(mirrors: Sequence[Mirror], headers: Mapping[str, str], arguments: Raw) -> None:
    """Compare the headers of a call (lower-case names) with its arguments. Raises InvalidHeader: a header is missing,
    contradicts its argument, or cannot be decoded."""
    for mirror in mirrors:
        value = _value(mirror, arguments)
        if (wanted := _text(value)) is None:
            continue
        if (found := headers.get(mirror.header.lower())) is None:
            raise InvalidHeader(f"{mirror.header} is missing")
        text = decode_header(found)
        if text != wanted and (peek_str(value) is not None or _integer(text) != wanted):
            raise InvalidHeader(f"{mirror.header} differs from the argument")


def _value(mirror: Mirror, arguments: Raw) -> Raw | None:
    value: Raw | None = arguments
    for name in mirror.path:
        value = peek_object(value).get(name)
    return value


def _text(value: Raw | None) -> str | None:
    """The header text of a string, boolean or safe integer; None for anything else."""
    if value is None:
        return None
    if (text := peek_str(value)) is not None:
        return text
    return text if (text := bytes(value).decode()) in ("true", "false") else _integer(text)


def _integer(text: str) -> str | None:
    """A JSON number with an integral, safe value, in decimal: `1`, `1.0` and `1e0` are equal."""
    number = float(text) if _is_number(text) else 0.5
    return str(int(number)) if number.is_integer() and abs(number) <= _MAX_INTEGER else None
