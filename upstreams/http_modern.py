"""Streamable HTTP of 2026-07-28: every request stands for itself, and closing its stream cancels it (T-16).

The headers that repeat a request are made anew from what is sent (H-17). Which arguments of a tool its server wants to
see in headers is learnt from every `tools/list` that passes (H-16); tools that ask for it in a forbidden way are taken
out of the list (C-19).
"""

import logging
from typing import Final

from msgspec import Raw

from hub.wire.http import InvalidMirror, Mirror, mirror_headers, mirrored
from hub.wire.jsonrpc import EMPTY, Failure, Reply, Result, encode_request, peek_array, peek_object, peek_str, raw
from hub.wire.legacy import ServerFacts
from hub.wire.mcp import HEADER_MISMATCH, TOOLS_CALL, TOOLS_LIST, UNSUPPORTED_VERSION, Era, Kind
from hub.wire.modern import request_headers
from upstreams.http_post import CONTENT, Poster, StatusError, Take, field_lines
from upstreams.http_session import RESENDABLE, HttpConversation
from upstreams.session import SessionEvents

MAX_PAGES: Final = 100
_TRACES = (b"x-mcp-header", b"\\u00")
"""One of these stands in every schema that asks for headers (the name may be written with escapes)."""

log = logging.getLogger(__name__)


class ModernHttp(HttpConversation):
    """An upstream without sessions: there is only what its `server/discover` said, and a pool of connections."""

    era = Era.MODERN

    def __init__(self, poster: Poster, events: SessionEvents, facts: ServerFacts) -> None:
        super().__init__(poster, events)
        self.facts = facts
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        reply = await super().request(method, params)
        if method == TOOLS_LIST and isinstance(reply, Result):
            return Result(self._learn(reply.value))
        return reply

    async def send(self, id: int, method: str, params: dict[str, Raw], take: Take) -> Reply:
        reply = await self._ask(id, method, params, take)
        if isinstance(reply, Failure):
            if reply.code == HEADER_MISMATCH and method == TOOLS_CALL:  # C-20
                await self._refetch()
                return await self._ask(self.next_id(), method, params, take)
            if reply.code == UNSUPPORTED_VERSION:
                self.lost("it no longer speaks this revision")
        return reply

    async def _ask(self, id: int, method: str, params: dict[str, Raw], take: Take) -> Reply:
        headers = self._headers(method, params)
        try:
            with await self.poster.open(
                headers, encode_request(id, method, params), resend=method in RESENDABLE
            ) as reply:
                return await self.poster.read(reply, id, take)
        except StatusError as error:
            if error.failure is not None:  # an error without id is about the only request on this connection (T-22)
                return error.failure
            if error.status in (400, 404, 405):
                self.lost(f"it answers {error.status}, as no server of this revision does")
            raise

    # --- headers -----------------------------------------------------------------------------------------------------

    def _headers(self, method: str, params: dict[str, Raw]) -> bytes:
        fields = request_headers(method, params, self.facts.version)
        if method == TOOLS_CALL and self._mirrors:
            mirrors = self._mirrors.get(peek_str(params.get("name")) or "")
            if mirrors:
                fields += mirror_headers(mirrors, params.get("arguments", EMPTY))
        return CONTENT + field_lines(fields)

    def _learn(self, value: Raw) -> Raw:
        """Remember which tools of a page want headers; the page without tools that ask wrongly."""
        if not self._mirrors and not any(trace in bytes(value) for trace in _TRACES):
            return value
        page = peek_object(value)
        tools = peek_array(page.get("tools"))
        kept = [tool for tool in tools if self._learn_tool(peek_object(tool))]
        return value if len(kept) == len(tools) else raw({**page, "tools": kept})

    def _learn_tool(self, tool: dict[str, Raw]) -> bool:
        """Whether the tool may be listed."""
        name = peek_str(tool.get("name")) or ""
        self._mirrors.pop(name, None)
        try:
            mirrors = mirrored(tool.get("inputSchema", EMPTY))
        except InvalidMirror as error:
            log.warning("The tool %s of %s is left out: %s", name, self.name, error)
            return False
        if mirrors:
            self._mirrors[name] = mirrors
        return True

    async def _refetch(self) -> None:
        """Read all tools anew, because a call's headers did not fit; whoever keeps the list is told as well."""
        params: dict[str, Raw] = {}
        for _ in range(MAX_PAGES):
            reply = await self.request(TOOLS_LIST, params)
            cursor = peek_object(reply.value).get("nextCursor") if isinstance(reply, Result) else None
            if cursor is None or peek_str(cursor) is None or params.get("cursor") == cursor:
                break
            params = {"cursor": cursor}
        self.events.changed((Kind.TOOL,))
