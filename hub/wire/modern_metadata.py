"""Metadata of the per-request era, 2026-07-28: each request carries its revision and its sender's capabilities.

From hosts: `read_metadata` and `check_headers` judge a request; a `RequestRefusal` has the HTTP status of its refusal.
To upstreams: `stamp` and `request_headers` make the same for a request of ours. `split_params` keeps the params and
the keys of `_meta` that mean something on one hop only, and passes the others.

Tokens of progress are part of it; progress must rise from one notification to the next.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from hub.wire import mcp
from hub.wire.capabilities import ServerFacts, detach_all
from hub.wire.http.mirror_headers import InvalidHeader, decode_header, encode_header
from hub.wire.jsonrpc import RemoteProtocolError, encode, open_object, peek_array, peek_object, peek_str, raw
from hub.wire.trace_context import TRACE_KEYS, without_malformed
from hub.wire.upstream_snapshot import Freshness


class RequestRefusal(RemoteProtocolError):
    """A modern request refused before anything is done for it. `status` is the HTTP status."""

    def __init__(self, code: int, message: str, *, status: int = 400, data: Raw | UnsetType = UNSET) -> None:
        super().__init__(code, message, data=data)
        self.status = status


MAX_META_BYTES: Final = 256 << 10
"""Size of `_meta` in a modern request."""


class Metadata(Struct, frozen=True):
    """Metadata of one request, as its sender claims; nothing of it is proved."""

    version: str
    capabilities: dict[str, Raw]
    log_level: str | None
    """Lowest severity of log messages wanted for this request; None: no log messages."""
    client_info: Raw | None


class _Meta(Struct):
    version: str | UnsetType = field(default=UNSET, name=mcp.VERSION_KEY)
    capabilities: dict[str, Raw] | UnsetType = field(default=UNSET, name=mcp.CLIENT_CAPABILITIES_KEY)
    log_level: str | UnsetType = field(default=UNSET, name=mcp.LOG_LEVEL_KEY)
    client_info: Raw | UnsetType = field(default=UNSET, name=mcp.CLIENT_INFO_KEY)


_decode_meta = msgspec.json.Decoder(_Meta).decode


def read_metadata(params: Mapping[str, Raw], headers: Mapping[str, str] | None = None) -> Metadata | None:
    """Read the metadata of a request; None: the request names no revision, so it is not a modern one.

    With `headers` (HTTP, lower-case names), a missing or different version header is found before the version itself is
    judged. Raises RequestRefusal: -32020, see above; -32022, a revision that is not spoken per request, with a list of
    those that are; -32602, no capabilities, or a member of a wrong type."""
    if (value := params.get("_meta")) is None:
        return None
    if len(memoryview(value)) > MAX_META_BYTES:
        if mcp.VERSION_KEY not in peek_object(value):
            return None
        raise RequestRefusal(mcp.INVALID_PARAMS, f"params._meta takes more than {MAX_META_BYTES} bytes")
    try:
        meta = _decode_meta(value)
    except msgspec.ValidationError as error:
        if mcp.VERSION_KEY not in peek_object(value):
            return None
        raise RequestRefusal(mcp.INVALID_PARAMS, f"params._meta: {error}") from None
    if meta.version is UNSET:
        return None
    if headers is not None:
        _compare("MCP-Protocol-Version", headers.get("mcp-protocol-version"), meta.version)
    if meta.version not in mcp.MODERN_VERSIONS:
        supported = raw({"supported": mcp.ALL_VERSIONS, "requested": meta.version})
        raise RequestRefusal(mcp.UNSUPPORTED_VERSION, "This revision is not spoken per request", data=supported)
    if meta.capabilities is UNSET:
        raise RequestRefusal(mcp.INVALID_PARAMS, f"params._meta lacks {mcp.CLIENT_CAPABILITIES_KEY}; say {{}} for none")
    level = None if isinstance(meta.log_level, UnsetType) else meta.log_level
    if level is not None and level not in mcp.LOG_LEVELS:
        raise RequestRefusal(mcp.INVALID_PARAMS, f"{mcp.LOG_LEVEL_KEY} is one of {', '.join(mcp.LOG_LEVELS)}")
    client_info = None if isinstance(meta.client_info, UnsetType) else meta.client_info
    return Metadata(meta.version, meta.capabilities, level, client_info)


def check_headers(headers: Mapping[str, str], method: str, params: Mapping[str, Raw], version: str) -> None:
    """Compare the headers of a request (lower-case names) with its body. Raises RequestRefusal: -32020; a header is
    missing, contradicts the body, or cannot be decoded."""
    _compare("MCP-Protocol-Version", headers.get("mcp-protocol-version"), version)
    _compare("Mcp-Method", headers.get("mcp-method"), method)
    if (name := mcp.NAMED_BY.get(method)) is None:
        return
    wanted, found = peek_str(params.get(name)), headers.get("mcp-name")
    if wanted is None and found is None:  # a call without a name, which the router refuses
        return
    try:
        text = None if found is None else decode_header(found)
    except InvalidHeader as error:
        raise RequestRefusal(mcp.HEADER_MISMATCH, f"Mcp-Name cannot be read: {error}") from None
    _compare("Mcp-Name", text, wanted)


def _compare(header: str, found: str | None, wanted: str | None) -> None:
    if found is None:
        raise RequestRefusal(mcp.HEADER_MISMATCH, f"The header {header} is missing; it repeats what the body says")
    if found != wanted:
        raise RequestRefusal(mcp.HEADER_MISMATCH, f"The header {header} differs from the body")


_HOP_PARAMS = frozenset({"task", "inputResponses", "requestState"})
_CROSSING: Final = frozenset(("name", "arguments", "uri", "ref", "argument", "context"))
"""Params that mean something at the upstream of a request."""
_MEANT: Final = _CROSSING | _HOP_PARAMS | {"_meta", "type"}
_MEANT_FOLDED: Final = frozenset(name.upper().casefold() for name in _MEANT)


def split_params(params: dict[str, Raw]) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """Split a host's params into a copy without those that are meant for the hub alone, and the members of `_meta` that
    may cross it.

    The hub offers hosts no legacy tasks, and only `hub.bridge` continues an operation with answers: a host's
    `requestState` must never reach an upstream unverified. Neither does what some servers would take for a member that
    the hub has judged, as `Name` for `name`.
    """
    params = dict(params)
    value = params.pop("_meta", None)
    if not params.keys() <= _CROSSING:
        params = {name: value for name, value in drop_lookalikes(params).items() if name not in _HOP_PARAMS}
    if value is None:
        return params, {}
    meta = {name: member for name, member in peek_object(value).items() if name not in mcp.HOP_KEYS}
    return params, meta if TRACE_KEYS.isdisjoint(meta) else without_malformed(meta)


def drop_lookalikes(members: Mapping[str, Raw]) -> dict[str, Raw]:
    """These members without those whose names differ from a name of params in case only: many servers in Go and C# read
    names without regard to case, and the last one counts."""
    return {name: value for name, value in members.items() if name in _MEANT or fold(name) not in _MEANT_FOLDED}


def fold(name: str) -> str:
    """A name as readers see it that do not regard case, by whichever table of letters, or that end texts at a NUL."""
    return name.partition("\0")[0].upper().casefold()


def stamp(
    meta: Mapping[str, Raw],
    *,
    version: str,
    capabilities: Mapping[str, Raw],
    log_level: str | None = None,
    progress_token: int | None = None,
) -> Raw:
    """Make the `_meta` of a request: the keys of `meta` that cross the hub, and those of this hop."""
    members: dict[str, Any] = {
        **meta,
        mcp.VERSION_KEY: version,
        mcp.CLIENT_INFO_KEY: mcp.HUB_INFO,
        mcp.CLIENT_CAPABILITIES_KEY: capabilities,
    }
    if log_level is not None:
        members[mcp.LOG_LEVEL_KEY] = log_level
    if progress_token is not None:
        members[mcp.PROGRESS_TOKEN] = progress_token
    return Raw(encode(members))


def request_headers(method: str, params: Mapping[str, Raw], version: str) -> list[tuple[str, bytes]]:
    """Make the headers that repeat a request to an upstream, from its final body."""
    headers = [("MCP-Protocol-Version", version.encode()), ("Mcp-Method", encode_header(method))]
    name = mcp.NAMED_BY.get(method)
    text = None if name is None else peek_str(params.get(name))
    if text is not None:
        headers.append(("Mcp-Name", encode_header(text)))
    return headers


def read_discover_result(value: Raw) -> tuple[tuple[str, ...], ServerFacts]:
    """Read the result of `server/discover`: the revisions that the server speaks, and its declaration for the newest of
    them that is ours, too ("": there is none). Raises RemoteProtocolError: the result is not complete, has no list of
    versions, or capabilities that are no object."""
    members = open_object(value)
    versions = tuple(map(peek_str, peek_array(members.get("supportedVersions"))))
    known = tuple(version for version in versions if version is not None)
    if not known or len(known) != len(versions):
        raise RemoteProtocolError(mcp.INVALID_PARAMS, "The result of server/discover has no list of supportedVersions")
    if "resultType" in members and peek_str(members["resultType"]) != "complete":
        raise RemoteProtocolError(mcp.INVALID_PARAMS, "The result of server/discover is not complete")
    return known, ServerFacts(
        newest_mutual(known) or "",
        capabilities=detach_all(open_object(members.get("capabilities", b"{}"))),
        server_info=detach_all(peek_object(peek_object(members.get("_meta")).get(mcp.SERVER_INFO_KEY))),
        instructions=peek_str(members.get("instructions")) or "",
    )


def read_freshness(members: Mapping[str, Raw]) -> Freshness:
    """Read the caching hints of a modern upstream's result; when in doubt, nothing may be kept or shared."""
    try:
        ttl_ms = msgspec.json.decode(members.get("ttlMs", b"0"), type=int | float)
    except msgspec.ValidationError:
        ttl_ms = 0
    return Freshness(max(0, int(min(ttl_ms, 2**53))), peek_str(members.get("cacheScope")) == "public")


def newest_mutual(supported: Iterable[str]) -> str | None:
    """The newest per-request revision that both sides speak; None: there is none, and `initialize` is to be used."""
    return max(set(supported) & set(mcp.MODERN_VERSIONS), default=None)


SMALL_STEP: Final = 1e-6
"""Increment of the hub's own progress: less than any real step."""


def read_number(value: Raw | None) -> float | None:
    """Parse a JSON number; None for anything else."""
    try:
        return float(bytes(value)) if value is not None else None
    except ValueError:
        return None


def slightly_above(last: float) -> float:
    """A value just above `last`, so that a peer's next value is above both; 0 if there was none."""
    return max(last + SMALL_STEP, math.nextafter(last, math.inf)) if math.isfinite(last) else 0.0


def progress_token(params: Mapping[str, Raw]) -> Raw | None:
    """The progress token of a request, if it has one."""
    if (meta := params.get("_meta")) is None:
        return None
    token = peek_object(meta).get(mcp.PROGRESS_TOKEN)
    return None if token is None or memoryview(token)[0] not in b'"-0123456789' else token
