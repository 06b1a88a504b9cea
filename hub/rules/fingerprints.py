"""Fingerprints of definitions: tools, prompts and templates as they were received, and instructions. Pure.

A fingerprint has two hashes, of the whole and of the words that a model reads. Neither knows the order of members, nor
how a number is written: `1` is `1.0`.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import encode
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import Snapshot

KINDS: Final = (Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE)
"""The lists whose entries are pinned."""
INSTRUCTIONS: Final = "instructions"
"""The key of a server's instructions."""
_PREFIX: Final = b"hubd-pin/1"
_TEXTS: Final = ("name", "title", "description")
SCHEMAS: Final = ("inputSchema", "outputSchema")
_PROPERTIES: Final = ("properties", "patternProperties")
_WORDS: Final = frozenset({"title", "description", "default", "enum", "const", "examples"})
_LARGEST: Final = float(1 << 53)
"""Whole numbers up to this are the same in JavaScript."""

Definition: TypeAlias = dict[str, Raw] | str
"""The members of an entry of a list, or instructions."""


class Fingerprint(Struct, frozen=True):
    """The two hashes of a definition."""

    hash: str
    words: str


def key_of(kind: Kind, name: str) -> str:
    """The key of an entry among the definitions of its server."""
    return f"{kind.value}/{name}"


def list_of(key: str) -> str:
    """The list that a key is of, or the instructions."""
    return key.partition("/")[0]


def split_key(key: str) -> tuple[Kind | None, str]:
    """The list that a key is of, and the server's own name of the entry; None: it is that of the instructions."""
    kind, slash, name = key.partition("/")
    return (Kind(kind), name) if slash else (None, key)


def definitions_of(snapshot: Snapshot) -> dict[str, Definition]:
    """All definitions of a server by their keys; of two of one name the first, as hosts are shown it."""
    found: dict[str, Definition] = {INSTRUCTIONS: snapshot.instructions}
    for kind in KINDS:
        for entry in snapshot.lists.get(kind, ()):
            found.setdefault(key_of(kind, entry.key), entry.fields)
    return found


def hash_of(key: str, definition: Definition, ignore: Iterable[str] = ()) -> str:
    """The hash of a definition, without the members that are to be ignored: `NAME`, or `NAME.NAME` below it."""
    return _hash(key, _read_without(key, definition, ignore))


def hash_listed(snapshot: Snapshot, kind: Kind, name: str, ignore: Iterable[str] = ()) -> str:
    """The hash of the definition that a server lists under its own name; "": it lists none."""
    found = snapshot.find(kind, name)
    return "" if found is None else hash_of(key_of(kind, name), found.fields, ignore)


def fingerprint(key: str, definition: Definition, ignore: Iterable[str] = ()) -> Fingerprint:
    """Both hashes of a definition, likewise."""
    value = _read_without(key, definition, ignore)
    return Fingerprint(_hash(key, value), _hash(key, sorted(words_of(value))))


def _read_without(key: str, definition: Definition, ignore: Iterable[str]) -> Any:
    ignored = tuple(ignore)
    return "" if key in ignored else _without(read(definition), ignored)


def _hash(key: str, value: Any) -> str:
    return sha256(b"%b %b\0%b" % (_PREFIX, list_of(key).encode(), _encode(value))).hexdigest()


def state_of(hashes: Mapping[str, str]) -> str:
    """The hash of all definitions of a server together, by their hashes."""
    return sha256(_encode(hashes)).hexdigest()[:16]


def read(definition: Definition) -> Any:
    """A definition as plain values; as text, if that is not possible."""
    if isinstance(definition, str):
        return definition
    try:
        return _decode(encode(definition))
    except READ_ERRORS:
        return {name: bytes(value).decode(errors="backslashreplace") for name, value in definition.items()}


def words_of(value: Any) -> list[tuple[str, str]]:
    """The words of a definition that was read, each behind its place: what a model reads of it."""
    if not isinstance(value, dict):
        return [(INSTRUCTIONS, str(value))]
    found = [*_texts(value)]
    if isinstance(about := value.get("annotations"), dict) and "title" in about:
        found.append(("annotations.title", _text(about["title"])))
    for schema in SCHEMAS:
        try:
            found += [*_of_schema(schema, value.get(schema))]
        except RecursionError:
            found.append((schema, "it is nested too deeply to be looked through"))
    arguments = value.get("arguments")  # of a prompt
    for at, argument in enumerate(arguments if isinstance(arguments, list) else ()):
        found += _texts(argument, f"arguments.{at}.")
    return found


def _texts(value: Any, above: str = "") -> Iterator[tuple[str, str]]:
    return ((above + name, _text(value[name])) for name in _TEXTS if isinstance(value, dict) and name in value)


def _of_schema(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """The words of a schema, or of a part of one."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _of_schema(f"{place}.{at}", each)
    for key, each in value.items() if isinstance(value, dict) else ():
        here = f"{place}.{key}"
        if key in _PROPERTIES and isinstance(each, dict):
            for name, schema in each.items():
                yield here, name
                yield from _of_schema(f"{here}.{name}", schema)
        elif key in _WORDS:
            yield here, _text(each)
        else:
            yield from _of_schema(here, each)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _without(value: Any, ignored: tuple[str, ...]) -> Any:
    if not ignored or not isinstance(value, dict):
        return value
    return {
        name: _without(each, tuple(path[len(name) + 1 :] for path in ignored if path.startswith(f"{name}.")))
        for name, each in value.items()
        if name not in ignored
    }


def _number(text: str) -> int | float | str:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return text
    return int(number) if number.is_integer() and abs(number) <= _LARGEST else number


_decode: Final = msgspec.json.Decoder(float_hook=_number).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
