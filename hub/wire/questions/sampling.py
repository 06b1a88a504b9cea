"""Content of sampling messages, translated between revisions.

Until 2025-06-18 a message has one block; since 2025-11-25 it may have several, and tool blocks. Content that the
reader's revision knows passes as it is.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from hub.wire.jsonrpc import EMPTY, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import L1, L2, L3, L4, LEGACY_VERSIONS, MODERN
from hub.wire.member_limits import is_long_array

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


class MalformedMessage(ValueError):
    """Not a sampling message: its sender is at fault."""


class UnsupportedContent(ValueError):
    """A message that the reader's revision cannot express."""


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
    message.

    Raises:
        MalformedMessage: the messages are no sampling messages, or too many.
        UnsupportedContent: `version` cannot express a block.
    """
    if not _is_list(messages):
        raise MalformedMessage("messages are a list")
    if _is_much(messages):
        raise MalformedMessage("there is too much in the messages to look at each of them")
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

    Raises:
        MalformedMessage: the answer is no sampling message.
        UnsupportedContent: `version` cannot express a block, or several blocks.
    """
    blocks = read_blocks(members, version)
    if version not in SINGLE or not _is_list(members["content"]):
        return members["content"]
    if len(blocks) == 1:
        return blocks[0]
    if any(_kind(block) != "text" for block in blocks):
        raise UnsupportedContent(f"several blocks of content, which {version} has no words for")
    return raw({"type": "text", "text": "\n".join(peek_str(peek_object(block).get("text")) or "" for block in blocks)})


def read_blocks(members: Mapping[str, Raw], version: str) -> list[Raw]:
    """The content blocks of a message.

    Raises:
        MalformedMessage: the message has no role, or a block has no known type.
        UnsupportedContent: `version` cannot express a block.
    """
    blocks = _blocks(members.get("content", EMPTY))
    if peek_str(members.get("role")) not in ROLES:
        raise MalformedMessage("a message is by user or assistant")
    for block in blocks:
        kind = _kind(block)
        if kind is None:
            raise MalformedMessage("content of no known type")
        if _VERSIONS.index(_BLOCKS[kind][0]) > _VERSIONS.index(version):
            raise UnsupportedContent(f"content of type {kind}, which {version} has no words for")
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
    kind = peek_str(members.get("type"))
    if kind is None or kind not in _BLOCKS:
        return None
    return kind if all(name in members for name in _BLOCKS[kind][1]) else None
