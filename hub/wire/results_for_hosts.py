"""Results of upstreams, and definitions in their lists, translated to the host's revision.

Unknown members may pass to every revision; unknown alternatives and changed types break older readers. So most payloads
pass untouched. Rewritten are: content blocks newer than the host's revision, structured content and schemas that are no
objects, members of the per-request era, and what belongs to one hop only.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from msgspec import Raw

from hub.wire import mcp
from hub.wire.excerpt_and_read_large_results import LARGE_BYTES, excerpt
from hub.wire.http.mirror_headers import X_MCP_HEADER, InvalidMirror, mirrors_of
from hub.wire.jsonrpc import NULL, Reply, Result, encode, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import Era, Kind, era_of
from hub.wire.modern_metadata import read_freshness
from hub.wire.total_item_limit import SMALL_BYTES, TooManyItems, open_result, refuse_too_many_items


class UnknownResultType(ValueError):
    """Not a complete result of its method: another `resultType`, or the method's member is missing."""


_SHAPES: Final[Mapping[str, tuple[str, str]]] = {
    mcp.TOOLS_CALL: ("content", "["),
    mcp.PROMPTS_GET: ("messages", "["),
    mcp.RESOURCES_READ: ("contents", "["),
    mcp.COMPLETE: ("completion", "{"),
}
"""The member that each result must have, and the first character of its value."""
_SCREENS = {method: f'"{name}":{opening}'.encode() for method, (name, opening) in _SHAPES.items()}
_OWN_KEYS: Final = b"io.modelcontextprotocol"
"""How the keys of `_meta` begin that may end here."""
_DOUBTS: Final[Mapping[str, tuple[bytes, ...]]] = {
    mcp.L1: (_OWN_KEYS, b'"structuredContent"', b'"resource_link"', b'"audio"'),
    mcp.L2: (_OWN_KEYS, b'"structuredContent"', b'"resource_link"'),
}
_DOUBTS_OF_OTHERS = (_OWN_KEYS, b'"structuredContent"')
"""Bytes because of which a result between legacy peers is opened."""
MAX_BLOCKS: Final = 5_000
"""Content blocks, or messages, of one result that are rewritten for older revisions: 40 ms."""
_OCTETS, _NOTHING = raw("application/octet-stream"), raw("")


def result_for_host(method: str, value: Raw, *, upstream: str, upstream_version: str, host_version: str) -> Raw:
    """Translate an upstream's result for a host; between legacy peers mostly `value` itself.

    `upstream` is the upstream's name, or empty for a result that the hub made in its place. Raises UnknownResultType:
    the upstream's fault; there is nothing to show to the host; TooManyItems: likewise; the result has too many items to
    be opened."""
    from_era, to_era = era_of(upstream_version), era_of(host_version)
    if from_era is to_era is Era.LEGACY:
        text = bytes(value) if memoryview(value).nbytes <= LARGE_BYTES else excerpt(value)
        doubts = _DOUBTS.get(host_version, _DOUBTS_OF_OTHERS)
        if text.find(_SCREENS.get(method, b"{")) >= 0:
            for doubt in doubts:  # a loop, since every call comes by
                if text.find(doubt) >= 0:
                    break
            else:
                return value
    if memoryview(value)[0] != ord("{"):
        raise UnknownResultType("a result is an object")
    found = peek_object(value, counted=True) if memoryview(value).nbytes <= SMALL_BYTES else open_result(value)
    members = _check(method, found, from_era)
    if to_era is Era.LEGACY:
        _make_legacy(method, members, from_era, upstream, host_version)
    else:
        _make_modern(method, members, from_era, upstream)
    return value if members == found else Raw(encode(members))


def make_plain_modern(value: Raw, upstream: str) -> Raw | None:
    """Translate a result that is plain (`Result.is_plain`) for a modern host, as `result_for_host` does; None: that has
    to. Legacy hosts get it as it is."""
    data = memoryview(value)
    if bytes(data[: len(_PLAIN)]) != _PLAIN:
        return None
    return Raw(b"".join((data[:-1], _end_of_modern(upstream))))


_PLAIN: Final = b'{"content":['


@lru_cache(maxsize=256)
def _end_of_modern(upstream: str) -> bytes:
    """The members that a plain result gets, and the end of it."""
    members: dict[str, Raw] = {}
    _make_modern(mcp.TOOLS_CALL, members, Era.LEGACY, upstream)
    return b"," + encode(members)[1:]


def make_private(reply: Reply) -> Reply:
    """A reply that nobody keeps for others."""
    members = peek_object(reply.value) if isinstance(reply, Result) else {}
    if peek_str(members.get("cacheScope")) != "public":
        return reply
    return Result(Raw(encode({**members, "cacheScope": raw("private")})))


def _check(method: str, found: dict[str, Raw], era: Era) -> dict[str, Raw]:
    """Check that a result is a complete one of `method`; return a copy of its members. Only tools may omit content."""
    kind = found.get("resultType")
    if era is Era.MODERN and kind is not None and peek_str(kind) != "complete":
        raise UnknownResultType(f"a result of type {bytes(kind)[:40].decode(errors='replace')}")
    name, opening = _SHAPES.get(method, ("", ""))
    forgetful = method == mcp.TOOLS_CALL and "task" not in found  # a task began though none was asked for
    members = {"content": Raw(b"[]"), **found} if forgetful else dict(found)
    if name and not _opens_with(members.get(name), opening):
        raise UnknownResultType(f"a result of {method} without {name}")
    return members


def _opens_with(value: Raw | None, opening: str) -> bool:
    return value is not None and memoryview(value)[0] == ord(opening)


def _make_modern(method: str, members: dict[str, Raw], era: Era, upstream: str) -> None:
    """Add the members that every result of the per-request era carries; a modern upstream's caching hints stay."""
    members["resultType"] = raw("complete")
    if method == mcp.RESOURCES_READ:
        freshness = read_freshness(members if era is Era.MODERN else {})
        members["ttlMs"] = raw(freshness.ttl_ms)
        members["cacheScope"] = raw("public" if freshness.public else "private")
    meta = _without_hop_keys(members.get("_meta"))
    if (theirs := meta.pop(mcp.SERVER_INFO_KEY, None)) is not None:
        meta[mcp.HUB_SERVER_INFO] = theirs
    meta[mcp.SERVER_INFO_KEY] = mcp.HUB_INFO
    if upstream:
        meta[mcp.HUB_SERVER] = raw(upstream)
    members["_meta"] = raw(meta)


def _make_legacy(method: str, members: dict[str, Raw], era: Era, upstream: str, host_version: str) -> None:
    """Remove members that legacy hosts do not know, and rewrite newer content for older revisions."""
    if era is Era.MODERN:
        for name in ("resultType", "ttlMs", "cacheScope"):
            members.pop(name, None)
    if "_meta" in members:
        before = peek_object(members["_meta"], counted=True)
        meta = _without_hop_keys(members["_meta"])
        meta.pop(mcp.SERVER_INFO_KEY, None)
        if not meta and before:
            del members["_meta"]
        elif len(meta) != len(before):
            members["_meta"] = raw(meta)
    if method == mcp.TOOLS_CALL:
        _make_structure_an_object(members)
        if host_version in (mcp.L1, mcp.L2):
            blocks = _items(members["content"], "content blocks")
            older = [_older_block(block, f"{upstream}/{at}", host_version) for at, block in enumerate(blocks)]
            members["content"] = members["content"] if older == blocks else raw(older)
    elif method == mcp.PROMPTS_GET and host_version in (mcp.L1, mcp.L2):
        older = []
        for at, message in enumerate(_items(members["messages"], "messages")):
            parts = peek_object(message, counted=True)
            content = parts.get("content", NULL)
            block = _older_block(content, f"{upstream}/{at}", host_version)
            older.append(message if block is content else raw({**parts, "content": block}))
        members["messages"] = raw(older)


def _without_hop_keys(meta: Raw | None) -> dict[str, Raw]:
    members = peek_object(meta, counted=True)
    for key in (mcp.RELATED_TASK_KEY, mcp.SUBSCRIPTION_KEY):
        members.pop(key, None)
    return members


def _make_structure_an_object(members: dict[str, Raw]) -> None:
    """Drop structured content that is no object; if there is no text block, add one with the same content."""
    if (structured := members.get("structuredContent")) is None or _opens_with(structured, "{"):
        return
    del members["structuredContent"]
    blocks = _items(members["content"], "content blocks")
    if not any(peek_str(peek_object(block, counted=True).get("type")) == "text" for block in blocks):
        members["content"] = raw([*blocks, {"type": "text", "text": bytes(structured).decode()}])


def _items(value: Raw, what: str) -> list[Raw]:
    """The items of a list, to be read one by one. Raises TooManyItems: there are too many for that."""
    if memoryview(value).nbytes > SMALL_BYTES:
        refuse_too_many_items(value, f"the list of {what} in a result")
    items = peek_array(value, counted=True)
    if len(items) > MAX_BLOCKS:
        text = f"a result has {len(items)} {what}; for a host of this revision the hub reads {MAX_BLOCKS} at most"
        raise TooManyItems(text)
    return items


def _older_block(block: Raw, place: str, host_version: str) -> Raw:
    members = peek_object(block, counted=True)
    kind = peek_str(members.get("type"))
    kept = {name: members[name] for name in ("annotations", "_meta") if name in members}
    if kind == "resource_link":
        lines = (peek_str(members.get(name)) for name in ("title", "name", "uri", "mimeType", "description"))
        return raw({"type": "text", "text": "\n".join(line for line in lines if line), **kept})
    if kind == "audio" and host_version == mcp.L1:
        resource = {
            "uri": f"{mcp.HUB_NAME}://{quote(place)}/audio",
            "mimeType": members.get("mimeType", _OCTETS),
            "blob": members.get("data", _NOTHING),
        }
        return raw({"type": "resource", "resource": resource, **kept})
    return block


_BOOLEANS: Final[Mapping[bytes, Raw]] = {b"true": Raw(b"{}"), b"false": Raw(b'{"not":{}}')}


def entry_for_host(kind: Kind, fields: dict[str, Raw], host_version: str) -> dict[str, Raw]:
    """Translate a definition for a host of `host_version`; return `fields` itself if nothing changes.

    Tools lose `execution`. For legacy hosts they also lose `x-mcp-header`, an output schema that is no object, and
    boolean schemas of properties. Modern hosts see a valid `x-mcp-header`, and the hub checks the headers they send; an
    invalid one, which no host may obey, is removed.
    """
    if kind is not Kind.TOOL:
        return fields
    legacy = era_of(host_version) is Era.LEGACY
    changed: dict[str, Raw | None] = {}
    if "execution" in fields:
        changed["execution"] = None
    if (schema := fields.get("inputSchema")) is not None:
        changed["inputSchema"] = _tidy(schema, legacy) if legacy or not _is_sound(schema) else schema
    output = fields.get("outputSchema")
    if legacy and output is not None:
        is_object = peek_str(peek_object(output).get("type")) == "object"
        changed["outputSchema"] = _tidy(output, legacy) if is_object else None
    if all(value is fields[name] for name, value in changed.items()):
        return fields
    result = ((name, changed.get(name, value)) for name, value in fields.items())
    return {name: value for name, value in result if value is not None}


def _is_sound(schema: Raw) -> bool:
    try:
        mirrors_of(schema)
    except InvalidMirror:
        return False
    return True


def _tidy(schema: Raw, legacy: bool) -> Raw:
    """Remove the annotations and booleans named by `entry_for_host`; return the same `Raw` if there are none."""
    if not _may_be_untidy(bytes(schema), legacy):
        return schema
    members = peek_object(schema)
    properties = peek_object(members.get("properties"))
    tidied = {
        name: (legacy and _BOOLEANS.get(text)) or _tidy(value, legacy)
        for name, value in properties.items()
        if _may_be_untidy(text := bytes(value), legacy)
    }
    if X_MCP_HEADER not in members and all(properties[name] is value for name, value in tidied.items()):
        return schema
    members.pop(X_MCP_HEADER, None)
    if properties:
        members["properties"] = raw({**properties, **tidied})
    return raw(members)


def _may_be_untidy(schema: bytes, legacy: bool) -> bool:
    return b"x-mcp-header" in schema or (legacy and (b"true" in schema or b"false" in schema))
