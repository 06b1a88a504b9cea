"""Streamable HTTP of 2026-07-28: every request stands for itself, and closing its stream cancels it.

The headers that repeat a request are made anew from what is sent. Which arguments of a tool its server wants to
see in headers is learnt from every `tools/list` that passes; tools that ask for it in a forbidden way are taken
out of the list.
"""

import logging
from collections.abc import Callable

from msgspec import Raw
from trio.lowlevel import checkpoint

from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.wire import jsonrpc
from hub.wire.capabilities import ServerFacts
from hub.wire.http.mirror_headers import InvalidMirror, Mirror, mirror_headers, mirrors_of
from hub.wire.jsonrpc import EMPTY, Failure, Notification, Reply, Request, Result, peek_object, peek_str, raw
from hub.wire.mcp import HEADER_MISMATCH, LISTEN, TOOLS_CALL, TOOLS_LIST, UNSUPPORTED_VERSION, Era, Kind
from hub.wire.modern_metadata import request_headers
from upstreams.inventory.read_lists import MAX_ENTRY_BYTES, first_of, walk
from upstreams.session_contract import COMMON, SessionEvents, SessionTerms, StatusError
from upstreams.transports.http.answer_stream import OnMessage
from upstreams.transports.http.client import BegunRequest
from upstreams.transports.http.poster import CONTENT, Poster, field_lines
from upstreams.transports.http.streamable_session import RESENDABLE, StreamableSession
from upstreams.transports.request_params_for_era import stamp_own

_TRACES = (b"x-mcp-header", b"\\u00")
"""One of these stands in every schema that asks for headers (the name may be written with escapes)."""

log = logging.getLogger(__name__)


class ModernHttp(StreamableSession):
    """An upstream without sessions: there is only what its `server/discover` said, and a pool of connections."""

    era = Era.MODERN

    def __init__(self, poster: Poster, events: SessionEvents, facts: ServerFacts, terms: SessionTerms = COMMON) -> None:
        super().__init__(poster, events, terms)
        self.facts = facts
        self._ping_s = 0.0
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}
        self._walked: dict[str, tuple[Mirror, ...]] = {}
        """Mirrored headers found by the walk that goes on, and the cursor of its next page."""
        self._next: str | None = None

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        reply = await super().request(method, params)
        if method == TOOLS_LIST and isinstance(reply, Result):
            return Result(await self._learn(peek_str(params.get("cursor")), reply.value))
        return reply

    async def listen(self, params: dict[str, Raw], hear: Callable[[Notification], None]) -> Reply:
        """Hold a `subscriptions/listen`; what comes on its stream belongs to it."""
        id = self.next_id()
        params = stamp_own(self.era, self.facts.version, params, self.terms.extensions)

        def on_message(message: Request | Notification) -> None:
            if isinstance(message, Notification):
                hear(message)

        try:
            return await self._post_request(id, LISTEN, params, on_message)
        except UpstreamUnavailable as error:
            self.end(error)
            raise

    def send_at_once(self, id: int, method: str, params: dict[str, Raw]) -> BegunRequest | None:
        return self.poster.client.begin(self._headers(method, params), jsonrpc.encode_request(id, method, params))

    async def send(
        self, id: int, method: str, params: dict[str, Raw], on_message: OnMessage, begun: BegunRequest | None = None
    ) -> Reply:
        reply = await self._post_request(id, method, params, on_message, begun)
        if isinstance(reply, Failure) and self.needs_judgement(reply):
            return await self.judge(reply, method, params, on_message)
        return reply

    def needs_judgement(self, failure: Failure) -> bool:
        return failure.code in (HEADER_MISMATCH, UNSUPPORTED_VERSION)

    async def judge(self, failure: Failure, method: str, params: dict[str, Raw], on_message: OnMessage) -> Reply:
        if failure.code == HEADER_MISMATCH and method == TOOLS_CALL and await self._refetch():
            return await self._post_request(self.next_id(), method, params, on_message)
        if failure.code == UNSUPPORTED_VERSION:
            self.give_up("it no longer speaks this revision")
        return failure

    async def _post_request(
        self, id: int, method: str, params: dict[str, Raw], on_message: OnMessage, begun: BegunRequest | None = None
    ) -> Reply:
        headers, body = self._headers(method, params), jsonrpc.encode_request(id, method, params)
        try:
            with await self.poster.post(headers, body, resend=method in RESENDABLE, begun=begun) as reply:
                return await self.poster.read(reply, id, on_message)
        except StatusError as error:
            if error.failure is not None:  # an error without id is about the only request on this connection
                return error.failure
            if error.status in (400, 404, 405) and method != LISTEN:
                self.give_up(f"it answers {error.status}, as no server of this revision does")
            raise

    # --- headers ------------------------------------------------------------------------------------------------------

    def _headers(self, method: str, params: dict[str, Raw]) -> bytes:
        fields = request_headers(method, params, self.facts.version)
        if method == TOOLS_CALL and self._mirrors:
            mirrors = self._mirrors.get(peek_str(params.get("name")) or "")
            if mirrors:
                fields += mirror_headers(mirrors, params.get("arguments", EMPTY))
        return CONTENT + field_lines(fields)

    async def _learn(self, cursor: str | None, value: Raw) -> Raw:
        """Remember which tools of a page want headers; the page without tools that ask wrongly.

        A walk that came to its end replaces what was known: tools that are gone want nothing. When two walks mix, what
        they say is only added.
        """
        page = peek_object(value)
        in_order = cursor is None or cursor == self._next
        if cursor is None:
            self._walked = {}
        if self._mirrors or any(trace in bytes(value) for trace in _TRACES):
            tools = first_of(page.get("tools", EMPTY))
            kept = []
            for tool in tools:
                if len(memoryview(tool)) <= MAX_ENTRY_BYTES and self._learn_tool(peek_object(tool)):
                    kept.append(tool)
                await checkpoint()
            if len(kept) < len(tools):
                value = raw({**page, "tools": kept})
        if in_order:
            self._next = peek_str(page.get("nextCursor"))
            if self._next is None:
                self._mirrors = self._walked
        return value

    def _learn_tool(self, tool: dict[str, Raw]) -> bool:
        """True if the tool may be listed."""
        name = peek_str(tool.get("name")) or ""
        self._mirrors.pop(name, None)
        try:
            mirrors = mirrors_of(tool.get("inputSchema", EMPTY))
        except InvalidMirror as error:
            log.warning("The tool %s of %s is left out: %s", name, self.name, error)
            return False
        if mirrors:
            self._mirrors[name] = self._walked[name] = mirrors
        return True

    async def _refetch(self) -> bool:
        """Read all tools anew, because a call's headers did not fit; whoever keeps the list is told as well."""
        try:
            await walk(self, Kind.TOOL)
        except HubError as error:
            log.warning("The tools of %s cannot be read anew: %s", self.name, error)
            return False
        self.events.changed((Kind.TOOL,))
        return True
