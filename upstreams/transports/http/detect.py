"""Detection: finds out what the server behind a URL speaks, then speaks it.

    server/discover --DiscoverResult, or a modern error--> ModernHttp
          |
          any other answer below 500 --> initialize --success--> LegacyHttp
                                             |
                                             400, 404, 405 --> GET --`endpoint`--> SseConversation

401, 403, 5xx, time-outs and broken connections say nothing about the era: they are raised, to be tried again later.
What was found is remembered for this configuration and believed until it is contradicted.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import trio
from msgspec import Raw

from config.identity import config_key
from config.settings import UpstreamConfig
from hub.link.budget import Budget
from hub.link.errors import HubError, ResultTooLarge, UpstreamProtocolError, UpstreamUnavailable, UpstreamVersionError
from hub.link.interface import Exchange, Operation
from hub.wire.handshake import ServerFacts
from hub.wire.jsonrpc import Notification, Reply, encode_request
from hub.wire.mcp import DISCOVER, MODERN, Era
from hub.wire.request_meta import request_headers
from upstreams.session import COMMON, CallTimeouts, EraMemory, SessionEvents, SessionTerms, stamp_own
from upstreams.transports.http.client import HttpClient
from upstreams.transports.http.connection import parse_url
from upstreams.transports.http.legacy import LegacyHttp
from upstreams.transports.http.modern import ModernHttp
from upstreams.transports.http.poster import CONTENT, Poster, StatusError, field_lines
from upstreams.transports.http.sse_transport import SseConversation
from upstreams.transports.negotiation import about, find_modern

SSE: Final = "sse"
"""Remembered in place of an era."""
Conversation = ModernHttp | LegacyHttp | SseConversation

log = logging.getLogger(__name__)


def open_http(
    config: UpstreamConfig,
    name: str,
    events: SessionEvents,
    memory: EraMemory,
    terms: SessionTerms = COMMON,
    budget: Budget | None = None,
) -> "WebSession":
    """An unopened session with the server at `config.url`; its answers are counted in `budget` while they are read."""
    return WebSession(config, name, events, memory, terms, budget)


class WebSession:
    """One session with an upstream by URL, of whatever transport and era it turns out to be."""

    def __init__(
        self,
        config: UpstreamConfig,
        name: str,
        events: SessionEvents,
        memory: EraMemory,
        terms: SessionTerms = COMMON,
        budget: Budget | None = None,
    ) -> None:
        self.terms = terms
        self._account = (budget or Budget()).account(f"upstream {name}")
        self._config = config
        self._name = name
        self._events = events
        self._memory = memory
        self._key = config_key(config)
        self._conversation: Conversation | None = None

    def __repr__(self) -> str:
        return f"<WebSession {self._name}: {self._conversation or 'unopened'}>"

    @property
    def era(self) -> Era:
        return self._open().era

    @property
    def facts(self) -> ServerFacts:
        return self._open().facts

    @property
    def transport(self) -> str:
        return "http" if self._conversation is None else self._conversation.transport

    @property
    def pid(self) -> None:
        return None

    @property
    def is_pinged(self) -> bool:
        return self._conversation is not None and self._conversation.is_pinged

    @property
    def silent_s(self) -> float | None:
        return None if self._conversation is None else self._conversation.silent_s

    def _open(self) -> Conversation:
        if self._conversation is None:
            raise UpstreamUnavailable(f"{self._name} is not connected", upstream=self._name)
        return self._conversation

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Find out what the server speaks, shake hands, serve until the end. As `Session.run`."""
        poster = Poster(self._client())
        try:
            self._conversation = await self._find(poster)
        except BaseException:
            poster.client.close()
            raise
        await self._conversation.run(task_status=task_status)

    async def call(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts) -> Reply:
        return await self._open().call(operation, exchange, timeouts)

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        return await self._open().request(method, params)

    def speak_of(self, conversation: int) -> None:
        self._open().speak_of(conversation)

    async def welcome(self, exchange: Exchange) -> None:
        await self._open().welcome(exchange)

    def roots_changed(self) -> None:
        self._open().roots_changed()

    async def listen(self, params: dict[str, Raw], hear: Callable[[Notification], None]) -> Reply:
        return await self._open().listen(params, hear)

    def _client(self) -> HttpClient:
        headers = {name: value.reveal() for name, value in self._config.headers.items()}
        try:
            return HttpClient(self._name, parse_url(self._config.url or ""), headers, account=self._account)
        except ValueError as error:
            raise UpstreamUnavailable(f"{self._name} is configured wrongly: {error}", upstream=self._name) from None

    # --- what does it speak? ------------------------------------------------------------------------------------------

    async def _find(self, poster: Poster) -> Conversation:
        if self._config.transport == "sse":
            return await SseConversation.open(poster, self._events, self.terms)
        if self._config.era == "modern":
            return await self._as_modern(poster) or self._not_modern()
        if self._config.era == "legacy":
            return await self._as_legacy(poster)
        remembered = self._memory.era(self._key)
        if remembered in (Era.LEGACY.value, SSE):
            try:
                return await self._as_remembered(poster, remembered)
            except (UpstreamProtocolError, UpstreamVersionError) as error:
                log.info("%s no longer speaks what it spoke before (%s); detecting again", self._name, error)
                self._memory.remember_era(self._key, None)
        found: Conversation = await self._as_modern(poster) or await self._as_legacy(poster)
        kind = SSE if isinstance(found, SseConversation) else found.era.value
        self._memory.remember_era(self._key, kind)
        return found

    async def _as_remembered(self, poster: Poster, kind: str | None) -> Conversation:
        if kind == SSE:
            return await SseConversation.open(poster, self._events, self.terms)
        return await LegacyHttp.open(poster, self._events, self.terms)

    async def _as_modern(self, poster: Poster) -> ModernHttp | None:
        facts = await discover(poster)
        return None if facts is None else ModernHttp(poster, self._events, facts, self.terms)

    def _not_modern(self) -> ModernHttp:
        text = f'{self._name} does not speak {MODERN}; remove era = "modern" from its configuration'
        raise UpstreamVersionError(text, upstream=self._name)

    async def _as_legacy(self, poster: Poster) -> LegacyHttp | SseConversation:
        try:
            return await LegacyHttp.open(poster, self._events, self.terms)
        except StatusError as error:
            if error.status not in (400, 404, 405) or self._config.transport != "auto":
                raise
            try:
                return await SseConversation.open(poster, self._events, self.terms)
            except UpstreamProtocolError:
                raise error from None


async def discover(poster: Poster) -> ServerFacts | None:
    """Ask as the modern era would; None: the server does not belong to it.

    Raises:
        UpstreamVersionError, UpstreamProtocolError: it does, but it cannot be used.
        HubError: the answer is no sign of any era.
    """
    try:
        return await find_modern(partial(_ask_discover, poster))
    except HubError as error:
        raise about(error, poster.name) from None


async def _ask_discover(poster: Poster, version: str) -> Reply | None:
    """One attempt. None: an answer below 500 that is neither a result nor a JSON-RPC error."""
    params = stamp_own(Era.MODERN, version, {})
    headers = CONTENT + field_lines(request_headers(DISCOVER, params, version))
    try:
        with await poster.open(headers, encode_request(1, DISCOVER, params), resend=True) as reply:
            return await poster.read(reply, 1, lambda message: None)
    except StatusError as error:
        if 300 <= error.status < 400 or error.status >= 500:
            raise
        return error.failure
    except (UpstreamProtocolError, ResultTooLarge):
        return None  # a body that is no answer at all: what comes of `initialize` will be told
