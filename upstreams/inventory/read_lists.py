"""Reading lists page by page: bounded, and detached from the messages they came in."""

from typing import Final

from msgspec import Raw, Struct, structs
from trio.lowlevel import checkpoint

from hub.link.hub_errors import UpstreamProtocolError
from hub.linux.boot_clock import current_time
from hub.wire import mcp
from hub.wire.byte_checks import READ_ERRORS, without_doubles
from hub.wire.http.mirror_headers import asks_for_headers
from hub.wire.hub_chains import NO_HUBS, HubChain, join_chains, read_chain
from hub.wire.jsonrpc import Failure, detach, peek_object, peek_str, raw
from hub.wire.level_item_limit import first_items, members_decoder
from hub.wire.modern_metadata import read_freshness
from hub.wire.upstream_snapshot import Freshness, ListEntry
from upstreams.session_contract import Session

MAX_PAGES: Final = 100
MAX_ENTRIES: Final = 2_000
MAX_ENTRY_BYTES: Final = 64 << 10
MAX_LIST_BYTES: Final = 8 << 20
MAX_ENTRY_MEMBERS: Final = 64
"""Members of an entry itself, not of its schemas."""
MAX_LIST_MEMBERS: Final = 100_000
"""Members of all entries, at all levels: schemas are looked into for each revision of hosts."""
MAX_SEARCHED_MEMBERS: Final = 20_000
"""Members of all entries that may ask for headers, whose schemas are searched for that."""
TURN_BYTES: Final = 128 << 10
"""Bytes of entries that are opened before other tasks have their turn; each counts for `ENTRY_BYTES` at least."""
ENTRY_BYTES: Final = 1 << 10


class Listing(Struct, frozen=True):
    """One whole list, detached from the messages it came in."""

    entries: tuple[ListEntry, ...] = ()
    freshness: Freshness = Freshness()
    degraded: str = ""
    """The reason why it is incomplete; "" when it is whole."""
    behind: HubChain = NO_HUBS
    """The hubs it comes from."""
    begun_at: float = float("-inf")
    """Time at which the list was asked for; later changes may not be in it."""
    received_at: float = float("-inf")
    """Time at which the first page came; the ttl counts from then."""


async def walk(session: Session, kind: mcp.Kind) -> Listing:
    """Read all pages of one list; deadlines are the caller's. A cursor "" is like any other, none ends the walk.

    What is too much, or goes in circles, ends the walk and keeps what came before it. A cursor that is not good any
    more starts it over, once. Raises UpstreamProtocolError: a page is an error or no page; HubError: as
    `Session.request`."""
    if mcp.CAPABILITY[kind] not in session.facts.capabilities:
        return Listing(begun_at=current_time(), received_at=current_time())
    listing = await _walk(session, kind) or await _walk(session, kind, again=True)
    assert listing is not None, "it is started over once"
    return listing


async def _walk(session: Session, kind: mcp.Kind, *, again: bool = False) -> Listing | None:
    """As `walk`, from the first page to the last; None: it has to be started over."""
    list_ = _Gatherer(kind)
    params: dict[str, Raw] = {}
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        reply = await session.request(mcp.LIST_METHOD[kind], params)
        if isinstance(reply, Failure):
            if reply.code == mcp.METHOD_NOT_FOUND:
                break
            if reply.code == mcp.INVALID_PARAMS and params and not again:
                return None
            raise UpstreamProtocolError(f"{mcp.LIST_METHOD[kind]} failed: {reply.message[:200]} ({reply.code})")
        if (cursor := await list_.take(reply.value)) is None or list_.full:
            break
        if cursor in seen:
            list_.degraded = f"the pages of {kind.value} go in circles"
            break
        seen.add(cursor)
        params = {"cursor": raw(cursor)}
    else:
        list_.degraded = f"{kind.value} has more than {MAX_PAGES} pages"
    return list_.listing(session.era)


_decode_page = members_decoder(*(kind.value for kind in mcp.Kind), "nextCursor", "ttlMs", "cacheScope", "_meta").decode


def _members(page: Raw) -> dict[str, Raw]:
    try:
        return {name: value for name, value in structs.asdict(_decode_page(page)).items() if value}
    except READ_ERRORS:
        return {}


class _Gatherer:
    """Puts the pages of one list together."""

    def __init__(self, kind: mcp.Kind) -> None:
        self._kind = kind
        self._entries: dict[str, ListEntry] = {}
        self._bytes = 0
        self._members = 0
        self._searched = 0
        self._seen = 0
        self._ttl_ms: int | None = None
        self._public = True
        self._behind = NO_HUBS
        self._begun_at = current_time()
        self._received_at: float | None = None
        self.full = False
        self.degraded = ""

    async def take(self, page: Raw) -> str | None:
        """Add one page; its cursor."""
        if self._received_at is None:
            self._received_at = current_time()
        members = _members(page)
        if self._kind.value not in members:
            raise UpstreamProtocolError(f"A page of {self._kind.value} is not a list")
        if "_meta" in members:
            self._behind = join_chains((self._behind, read_chain(members["_meta"])))
        freshness = read_freshness(members)
        ttl_ms = freshness.ttl_ms or 0
        self._ttl_ms = ttl_ms if self._ttl_ms is None else min(self._ttl_ms, ttl_ms)
        self._public = self._public and freshness.public
        opened = 0
        for item in first_of(members[self._kind.value]):
            size = self._add(item)
            if self.full:
                break
            opened += max(size, ENTRY_BYTES)
            if opened >= TURN_BYTES:
                opened = 0
                await checkpoint()
        return peek_str(members.get("nextCursor"))

    def _add(self, item: Raw) -> int:
        size = len(memoryview(item))
        self._seen += 1
        if size > MAX_ENTRY_BYTES:
            self.degraded = f"an entry of {self._kind.value} larger than {MAX_ENTRY_BYTES >> 10} KiB was left out"
            return 0
        members = bytes(item).count(b":")
        self._members += members
        if self._kind is mcp.Kind.TOOL and asks_for_headers(item):
            self._searched += members
            if self._searched > MAX_SEARCHED_MEMBERS:
                self.degraded = f"{self._kind.value} that seem to ask for headers have too much in them: left out"
                return size
        if self._seen > MAX_ENTRIES or self._members > MAX_LIST_MEMBERS or self._bytes >= MAX_LIST_BYTES:
            self.full = True
            self.degraded = f"{self._kind.value} is too large: only its first {len(self._entries)} entries are used"
            return size
        try:
            item = without_doubles(item)  # else some would read what others never see
        except (ValueError, *READ_ERRORS):
            self.degraded = f"an entry of {self._kind.value} that cannot be read was left out"
            return size
        fields = peek_object(detach(item))
        if len(fields) > MAX_ENTRY_MEMBERS:
            self.degraded = f"an entry of {self._kind.value} with more than {MAX_ENTRY_MEMBERS} members was left out"
            return size
        key = peek_str(fields.get(mcp.IDENTIFIER[self._kind]))
        if key and key not in self._entries:  # the first of two wins
            self._entries[key] = ListEntry(key, fields)
            self._bytes += size
        return size

    def listing(self, era: mcp.Era) -> Listing:
        fresh = Freshness() if era is mcp.Era.LEGACY else Freshness(self._ttl_ms or 0, self._public)
        entries, begun_at = tuple(self._entries.values()), self._begun_at
        received_at = begun_at if self._received_at is None else self._received_at
        return Listing(entries, fresh, self.degraded, self._behind, begun_at, received_at)


def first_of(items: Raw) -> list[Raw]:
    """As many items of a page as may be used, and one more; none, if it is no array."""
    try:
        return first_items(items, MAX_ENTRIES + 1)
    except READ_ERRORS:
        return []
