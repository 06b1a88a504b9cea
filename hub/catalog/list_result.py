"""Results of list requests: entries as JSON, for how long they are good, and cursors of their pages. Pure."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.upstream_entries import UpstreamEntries
from hub.link.sealing import InvalidSeal, Sealer
from hub.wire.byte_checks import one_line
from hub.wire.hub_chains import HubChain, announcement
from hub.wire.jsonrpc import EMPTY, PiecedResult, RemoteProtocolError, encode
from hub.wire.mcp import CAPABILITY, HUB_INFO, INVALID_PARAMS, SERVER_INFO_KEY, Era, Kind, era_of
from hub.wire.upstream_snapshot import Freshness, Snapshot

SETTLING_TTL_MS: Final = 1_000
"""Milliseconds for which a list is good while some upstreams have not reported yet."""
SIGN_IN_TTL_MS: Final = 15_000
"""The same while some upstream shows a tool for signing in, which a person may do at any moment."""
MAX_TTL_MS: Final = 300_000
Ttl = Callable[[Snapshot, Kind], int]
"""Milliseconds for which hosts need not ask again for the list of one upstream."""
_SERVER_INFO: Final = encode({SERVER_INFO_KEY: HUB_INFO})[1:-1]


def freshness_of(
    parts: Sequence[UpstreamEntries], kind: Kind, ttl_ms: Ttl, *, settling: bool, varies: bool
) -> Freshness:
    """For how long a modern host need not ask again for the list that `parts` make, and whether it is the same for
    everyone. `settling`: some of them have not reported yet; `varies`: the hub
    shows hosts different lists."""
    most = SETTLING_TTL_MS if settling else MAX_TTL_MS
    if any(part.rule.sign_in is SignInTool.LISTED for part in parts):
        most = min(most, SIGN_IN_TTL_MS)
    contributors = [part for part in parts if CAPABILITY[kind] in part.snapshot.capabilities]
    found = [each.snapshot.freshness.get(kind) for each in contributors]
    is_public = bool(found) and all(each is not None and each.public for each in found)  # all of them say so
    are_modern = all(era_of(each.snapshot.version) is Era.MODERN for each in contributors)
    varies = varies or any(each.varies for each in contributors)
    ttl = min([most, *(ttl_ms(part.snapshot, kind) for part in parts)])
    return Freshness(ttl, public=is_public and are_modern and not varies)


def list_result(
    kind: Kind, version: str, items: Iterable[bytes], fresh: Freshness, behind: HubChain, cursor: str | None = None
) -> PiecedResult:
    """The result for hosts of this `version`. `items` are entries, or several of them with commas between, on one line;
    `cursor`: that of the next page; `behind`: the hubs behind this one."""
    pieces = [b'{"%b":[' % kind.value.encode()]
    for item in filter(None, items):
        pieces += (item, b",")
    pieces[-1] = b"]" if len(pieces) > 1 else pieces[0] + b"]"
    if cursor is not None:
        pieces.append(b',"nextCursor":%b' % encode(cursor))
    meta = one_line(encode(announcement(behind)))[1:-1] if behind else b""
    if era_of(version) is Era.MODERN:
        scope = b"public" if fresh.public else b"private"
        meta = b",".join(filter(None, (_SERVER_INFO, meta)))
        said = b',"resultType":"complete","ttlMs":%d,"cacheScope":"%b","_meta":{%b}'
        pieces.append(said % (fresh.ttl_ms or 0, scope, meta))
    elif meta:
        pieces.append(b',"_meta":{%b}' % meta)
    pieces.append(b"}")
    return PiecedResult(EMPTY, pieces=tuple(pieces))


class Cursors:
    """Cursors of one list for one principal. The list itself is part of them, so that they end when it changes."""

    def __init__(self, sealer: Sealer, kind: Kind, principal: str, names: Sequence[str]) -> None:
        digest = sha256("\0".join(names).encode()).hexdigest()
        self._purpose = f"cursor\0{kind.value}\0{principal}\0{digest}"
        self._sealer = sealer

    def cursor(self, offset: int) -> str:
        """The cursor of the page that begins at an entry."""
        return self._sealer.seal(self._purpose, b"%d" % offset)

    def offset(self, cursor: str) -> int:
        """The entry at which the page of a cursor begins.
        Raises: RemoteProtocolError, -32602, if the cursor is not of this list, or not this principal's."""
        try:
            return int(self._sealer.open(self._purpose, cursor))
        except InvalidSeal:
            raise RemoteProtocolError(INVALID_PARAMS, "cursor expired, list again") from None
