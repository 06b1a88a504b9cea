"""Arguments of a tool that a profile fixes: hosts neither see them nor send them, and the hub puts them in. Pure.

Only what the root of the input schema names under `properties` can be fixed, since only that can be taken out for
certain. A schema that says the same thing in another way besides (`$ref`, `allOf`) would show the argument all the
same, or ask for it; such a tool cannot be shown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from hub.link.hub_errors import Executed, HubError
from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import RemoteProtocolError, encode, open_object, peek_array, peek_str, raw

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_FURTHER: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_FURTHER_NAMED: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_NAMES: Final = ("propertyNames", "const", "enum")
_COUNT: Final = "minProperties"
_PATTERNS: Final = "patternProperties"
_ANCHORS: Final = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_SHOWING: Final = ("default", "examples")
"""Members that may show values of the whole."""


class CannotFix(Exception):
    """The schema of a tool does not let an argument be fixed. The text says why, as a clause."""


class FixedArgumentSent(HubError):
    """A host sent an argument that its profile fixes; nothing was sent on."""

    kind = "fixed_argument"
    executed = Executed.NO


class FixedArguments:
    """The values that a profile gives to arguments of one tool. They do not show themselves."""

    def __init__(self, profile: str, values: Mapping[str, Any]) -> None:
        self._profile = profile
        self._values = {name: raw(value) for name, value in values.items()}

    def __repr__(self) -> str:
        return f"<FixedArguments {', '.join(self._values)}>"

    def fill(self, arguments: Raw | None) -> Raw:
        """The arguments that are sent in place of those of a host.
        Raises: FixedArgumentSent, if one of them is among those; RemoteProtocolError, -32602, if those are no JSON
        object."""
        sent = {} if arguments is None else open_object(arguments)
        for name in self._values:
            if name in sent:
                raise FixedArgumentSent(f'"{name}" is fixed by profile {self._profile}; leave it out')
        return raw({**sent, **self._values})


def without(schema: Raw | None, names: Collection[str]) -> Raw:
    """An input schema in which the arguments `names` are neither described nor required.
    Raises: CannotFix, if the schema does not name one of them, or says more of it than can be taken out."""
    members = _members(schema)
    properties = _members(members.get("properties"))
    for name in names:
        if name not in properties:
            raise CannotFix(f'its input schema names no "{name}" at the top level')
    if any(reference in members for reference in _REFERENCES):
        raise CannotFix("its input schema is defined somewhere else (`$ref`)")
    if _members(members.get(_PATTERNS)):
        raise CannotFix(f"its input schema may say more of the same under `{_PATTERNS}`")
    if any(_mentions(properties[name], _ANCHORS) for name in names):
        raise CannotFix("other parts of its input schema may refer to what it says of the argument")
    for keyword in (*_FURTHER, *_FURTHER_NAMED, *_NAMES):
        if keyword in members and _mentions(members[keyword], (*names, *_REFERENCES)):
            raise CannotFix(f"its input schema says more of the same under `{keyword}`")
    for keyword in _SHOWING:
        if keyword in members and _mentions(members[keyword], names):
            del members[keyword]
    members.pop(_COUNT, None)  # the fixed ones count, and only the server knows of them
    members["properties"] = raw({name: value for name, value in properties.items() if name not in names})
    if "required" in members:
        needed = [each for each in peek_array(members["required"]) if peek_str(each) not in names]
        members["required"] = Raw(encode(needed))
        if not needed:
            del members["required"]
    left = raw(members)
    is_named = any(keyword in members for keyword in ("$id", "id"))
    if any(_needs(reference, names, is_named=is_named) for reference in _references_in(left)):
        raise CannotFix("other parts of its input schema refer to what it says of the argument")
    return left


def misfits(schema: Raw | None, values: Mapping[str, Any]) -> Iterator[str]:
    """Clauses about values that a tool will refuse: plainly of another type than its input schema says of the argument,
    or none of those that it lists. Nothing else is judged, and no value is shown.
    """
    properties = _members(_members(schema).get("properties"))
    for name, value in values.items():
        said = _members(properties.get(name))
        if any(reference in said for reference in _REFERENCES):  # beside one, older drafts ignore all else
            continue
        types, listed = _small(said.get("type")), _small(said.get("enum"))
        types = [types] if isinstance(types, str) else types
        mine = _types_of(value)
        if isinstance(types, list) and types and all(each in [*_TYPES] and each not in mine for each in types):
            wanted = " or ".join(_TYPES[each][0] for each in dict.fromkeys(types))
            yield f'"{name[:60]}" is to be {wanted}, and is {_TYPES[mine[0]][0]}'
        elif isinstance(listed, list) and listed and not any(_equal(value, each) for each in listed):
            yield f'"{name[:60]}" is none of the values that its input schema lists'


_TYPES: Final[Mapping[str, tuple[str, set[type]]]] = {
    "string": ("a text", {str}),
    "integer": ("a whole number", {int}),
    "number": ("a number", {int, float}),
    "boolean": ("true or false", {bool}),
    "object": ("a table", {dict}),
    "array": ("a list", {list}),
    "null": ("nothing", {NoneType}),
}
"""The types of JSON, in words and in Python; the narrowest of two first."""
MAX_JUDGED_BYTES: Final = 16 << 10
"""Most bytes of a list of values in a schema that is looked at."""


def _small(value: Raw | None) -> Any:
    """The value of a member of a schema; None: it is not there, or not worth the time."""
    if value is None or len(bytes(value)) > MAX_JUDGED_BYTES:
        return None
    try:
        return msgspec.json.decode(value)
    except READ_ERRORS:
        return None


def _types_of(value: Any) -> Sequence[str]:
    """The types that a value has, the narrowest first."""
    own = int if isinstance(value, float) and value.is_integer() else type(value)
    return [name for name, (_, kinds) in _TYPES.items() if own in kinds]


def _equal(one: Any, other: Any) -> bool:
    """True if two values are the same in JSON, where true is no number. What is in lists and tables is not judged."""
    if isinstance(one, list | dict) and type(one) is type(other):
        return True
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _members(value: Raw | None) -> dict[str, Raw]:
    try:
        return {} if value is None else open_object(value)
    except RemoteProtocolError:
        return {}


def _mentions(value: Raw, words: Collection[str]) -> bool:
    """True if any text or key in `value` is one of `words`, or if it cannot be read."""
    try:
        texts = (text for each in _walk(value) for text in (each if isinstance(each, dict) else (each,)))
        return any(isinstance(text, str) and text in words for text in texts)
    except READ_ERRORS:
        return True


def _needs(reference: str, names: Collection[str], *, is_named: bool) -> bool:
    """True if a reference may lead to one of these arguments, or to the whole schema, which has them no more;
    `is_named`: that has a URI of its own, which references may begin with."""
    base, _, fragment = unquote(reference).partition("#")
    if fragment in ("", "/"):
        return is_named or not base
    _, keyword, *rest = f"{fragment}/".split("/")
    return keyword == "properties" and rest[0].replace("~1", "/").replace("~0", "~") in ("", *names)


def _references_in(schema: Raw) -> Iterator[str]:
    """The references in a schema that can be read; in one that cannot, that to the whole of it."""
    try:
        for each in _walk(schema):
            if isinstance(each, dict):
                yield from (text for key in _REFERENCES if isinstance(text := each.get(key), str))
    except READ_ERRORS:
        yield "#"


def _walk(value: Raw) -> Iterator[Any]:
    """All values within JSON."""
    left = [msgspec.json.decode(value)]
    while left:
        each = left.pop()
        yield each
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each
