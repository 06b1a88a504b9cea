"""Definitions in lists of upstreams, translated to the host's revision."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from hub.wire.http.mcp_headers import X_MCP_HEADER, InvalidMirror, mirrors_of
from hub.wire.jsonrpc import peek_object, peek_str, raw
from hub.wire.mcp import Era, Kind, era_of

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
    schema = fields.get("inputSchema")
    if schema is not None:
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
        name: _tidy_property(value, text, legacy)
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


def _tidy_property(schema: Raw, text: bytes, legacy: bool) -> Raw:
    plain = _BOOLEANS.get(text) if legacy else None
    return _tidy(schema, legacy) if plain is None else plain
