"""Forms of elicitations and content of sampling messages, rewritten for older revisions that have fewer words.

2025-06-18 knows strings, numbers, booleans and plain enums in forms. Options with titles become `enum` and `enumNames`;
a choice of several options becomes one boolean per option, named `field::option`. In the answer the booleans become a
list again.

Until 2025-06-18 a sampling message has one block; since 2025-11-25 it may have several, and tool blocks. Content that
the reader's revision knows passes as it is.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import EMPTY, peek_array, peek_object, peek_str, raw
from hub.wire.level_item_limit import is_long_array
from hub.wire.mcp import L1, L2, L3, L4, LEGACY_VERSIONS, MODERN

TRUE = Raw(b"true")
MAX_FORM_BYTES: Final = 256 << 10
"""Size of a form that is rewritten: a thousand options with long titles take half of this."""
MAX_FIELDS: Final = 256
MAX_OPTIONS: Final = 1024
"""Options of all fields together: there are 600 time zones and 250 countries."""
MAX_REPEATED_CHARS: Final = 1 << 20
"""Characters of the fields' names, titles and descriptions, counted once per option, since each option repeats them."""
_REPEATED: Final = ("title", "description")


class Inexpressible(ValueError):
    """A form or message that the reader's revision has no words for, or a form that is too large for people."""


class SenderFault(ValueError):
    """Fewer or more options chosen than the form allows, or not a sampling message."""


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
    """Rewrite `requestedSchema` for a host of 2025-06-18; return `schema` itself if nothing needs to change. Raises
    Inexpressible: a list field has no string options, an option is given twice, or a limit is passed."""
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
    """Translate the answer to `older_form(schema)` back to `schema`. An optional field left empty stays absent. Raises
    SenderFault: fewer or more options are chosen than the form allows; Inexpressible: as `older_form`."""
    members, properties = _open(schema)
    newer = dict(content)
    for choice in _choices(members, properties):
        given = {box: newer.pop(box) for box in choice.boxes if box in newer}
        chosen = [option.value for box, option in choice.boxes.items() if given.get(box) == TRUE]
        least, most = _read_bound(choice.members, "minItems"), _read_bound(choice.members, "maxItems")
        if not choice.required and not chosen and (not given or least):
            continue
        if (least is not None and len(chosen) < least) or (most is not None and len(chosen) > most):
            raise SenderFault(f"{choice.field}: {len(chosen)} chosen, {least or 0} to {most or 'all'} allowed")
        newer[choice.field] = raw(chosen)
    return newer


def _open(schema: Raw) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """The members of a form, and its fields. Raises Inexpressible: the form is too large, or has too many fields."""
    if memoryview(schema).nbytes > MAX_FORM_BYTES:
        raise Inexpressible(f"it has more than {MAX_FORM_BYTES >> 10} KiB")
    members = peek_object(schema)
    properties = peek_object(members.get("properties"))
    if len(properties) > MAX_FIELDS or len(peek_array(members.get("required"))) > MAX_FIELDS:
        raise Inexpressible(f"it has more than {MAX_FIELDS} fields")
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
            raise Inexpressible("its fields with several options have too long names, titles or descriptions")
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
    if (options := _options_with_titles(items.get("anyOf", items.get("oneOf")), most)) is None:
        values = [peek_str(each) for each in _few(items.get("enum"), most)]
        if "enum" not in items or None in values:
            raise Inexpressible("a list of anything but strings to choose from")
        options = [_Option(value, value) for value in values if value is not None]
    if len({option.value for option in options}) < len(options):
        raise Inexpressible("an option is given twice")
    return options


def _few(value: Raw | None, most: int) -> list[Raw]:
    """The items of a list of options. Raises Inexpressible: there are more than `most`, the rest of `MAX_OPTIONS`."""
    items = peek_array(value)
    if len(items) > most:
        raise Inexpressible(f"it has more than {MAX_OPTIONS} options")
    return items


def _options_with_titles(value: Raw | None, most: int) -> list[_Option] | None:
    """Options with titles; None for anything else. Raises: Inexpressible, there are more than `most`."""
    if value is None:
        return None
    options = []
    for each in _few(value, most):
        option = peek_object(each)
        if (const := peek_str(option.get("const"))) is None:
            return None
        options.append(_Option(const, peek_str(option.get("title")) or const))
    return options


def _boxes(choice: _Choice) -> Iterator[tuple[str, Raw]]:
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
    Raises Inexpressible: there are more than `most` options."""
    members = peek_object(value)
    if (options := _options_with_titles(members.get("oneOf"), most)) is None or "enum" in members:
        return value, 0
    del members["oneOf"]
    members["enum"] = raw([option.value for option in options])
    members["enumNames"] = raw([option.title for option in options])
    return raw(members), len(options)


def _read_bound(members: dict[str, Raw], name: str) -> int | None:
    text = bytes(members.get(name, b""))
    return int(text) if text.isdigit() and len(text) < 10 else None


MAX_OBJECTS: Final = 20_000
"""Objects in the messages of a request; each is read."""
ROLES: Final = ("user", "assistant")
_VERSIONS: Final = (*LEGACY_VERSIONS, MODERN)
_BLOCKS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "text": (L1, ("text",)),
    "image": (L1, ("data", "mimeType")),
    "audio": (L2, ("data", "mimeType")),
    "tool_use": (L4, ("id", "name", "input")),
    "tool_result": (L4, ("toolUseId", "content")),
}
"""Content blocks: the first revision that has each, and its required members."""
_TOOL_BLOCKS: Final = ("tool_use", "tool_result")
SINGLE: Final = (L1, L2, L3)
"""Revisions in which a message has one block, and no tool blocks exist."""


def uses_tools(params: Mapping[str, Raw]) -> bool:
    """True if a sampling request needs a host that knows tools in sampling: it offers tools, or reports their use."""
    if "tools" in params or "toolChoice" in params:
        return True
    messages = params.get("messages", EMPTY)
    if not any(kind.encode() in bytes(messages) for kind in _TOOL_BLOCKS):
        return False
    if _is_much(messages):
        return True  # too much to be read
    contents = (peek_object(message).get("content", EMPTY) for message in peek_array(messages))
    return any(_kind(block) in _TOOL_BLOCKS for content in contents for block in _blocks(content))


def older_messages(messages: Raw, version: str) -> Raw:
    """Rewrite the messages of a request for a host of `version`: where a message has one block, each block becomes a
    message. Raises SenderFault: the messages are no sampling messages, or too many; Inexpressible: `version` cannot
    express a block."""
    if not _is_list(messages):
        raise SenderFault("messages are a list")
    if _is_much(messages):
        raise SenderFault("there is too much in the messages to look at each of them")
    older: list[Raw] = []
    for message in peek_array(messages):
        members = peek_object(message)
        blocks = read_blocks(members, version)
        if version in SINGLE and _is_list(members["content"]):
            older += [raw({**members, "content": block}) for block in blocks]
        else:
            older.append(message)
    return raw(older) if version in SINGLE else messages


def older_content(members: Mapping[str, Raw], version: str) -> Raw:
    """Rewrite the content of an answer for an upstream of `version`: where a message has one block, texts are joined.
    Raises SenderFault: the answer is no sampling message; Inexpressible: `version` cannot express a block, or several
    blocks."""
    blocks = read_blocks(members, version)
    if version not in SINGLE or not _is_list(members["content"]):
        return members["content"]
    if len(blocks) == 1:
        return blocks[0]
    if any(_kind(block) != "text" for block in blocks):
        raise Inexpressible(f"several blocks of content, which {version} has no words for")
    return raw({"type": "text", "text": "\n".join(peek_str(peek_object(block).get("text")) or "" for block in blocks)})


def read_blocks(members: Mapping[str, Raw], version: str) -> list[Raw]:
    """The content blocks of a message. Raises SenderFault: the message has no role, or a block has no known type;
    Inexpressible: `version` cannot express a block."""
    blocks = _blocks(members.get("content", EMPTY))
    if peek_str(members.get("role")) not in ROLES:
        raise SenderFault("a message is by user or assistant")
    for block in blocks:
        if (kind := _kind(block)) is None:
            raise SenderFault("content of no known type")
        if _VERSIONS.index(_BLOCKS[kind][0]) > _VERSIONS.index(version):
            raise Inexpressible(f"content of type {kind}, which {version} has no words for")
    return blocks


def _is_much(messages: Raw) -> bool:
    return is_long_array(messages) or bytes(messages).count(b"{") > MAX_OBJECTS


def _blocks(content: Raw) -> list[Raw]:
    return peek_array(content) if _is_list(content) and not is_long_array(content) else [content]


def _is_list(value: Raw) -> bool:
    return bytes(memoryview(value)[:1]) == b"["


def _kind(block: Raw) -> str | None:
    """The type of a content block; None: no revision knows it."""
    members = peek_object(block)
    if (kind := peek_str(members.get("type"))) is None or kind not in _BLOCKS:
        return None
    return kind if all(name in members for name in _BLOCKS[kind][1]) else None
