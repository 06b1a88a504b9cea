"""Detection: finds out what the server behind a URL speaks, then speaks it.

    server/discover --DiscoverResult, or a modern error--> ModernHttp
          |
          any other answer below 500 --> initialize --success--> LegacyHttp
                                             |
                                             400, 404, 405 --> GET --`endpoint`--> SseSession

401, 403, 5xx, time-outs and broken connections say nothing about the era: they are raised, to be tried again later.
What was found is remembered for this configuration and believed until it is contradicted.
"""

import logging
from collections.abc import Callable
from typing import Final

from config.diff import config_key
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link import hub_errors
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import Reply, encode_request
from hub.wire.mcp import DISCOVER, MODERN, Era
from hub.wire.modern_metadata import request_headers
from upstreams.fetch.proxies import ProxyUnusable
from upstreams.session_contract import COMMON, Session, SessionEvents, SessionSetup, SessionTerms, StatusError
from upstreams.transports.connect_to_url import on_its_way, parse_url
from upstreams.transports.http.client import HttpClient
from upstreams.transports.http.legacy import LegacyHttp
from upstreams.transports.http.modern import ModernHttp
from upstreams.transports.http.poster import CONTENT, Poster, field_lines
from upstreams.transports.http.sse_transport import SseSession
from upstreams.transports.negotiation import about, find_modern
from upstreams.transports.request_params_for_era import stamp_own

SSE: Final = "sse"
"""Remembered in place of an era."""
Found = ModernHttp | LegacyHttp | SseSession

log = logging.getLogger(__name__)


async def run_http_session(given: SessionSetup, started: Callable[[Session], None]) -> None:
    """Find out what the server at `config.url` speaks, shake hands, serve until the end. As `run_session`."""
    name, config, terms = given.name, given.config, given.terms
    headers = {field: value.reveal() for field, value in config.headers.items()}
    account = given.budget.account(f"upstream {name}")
    try:
        url = on_its_way(parse_url(config.url or ""), given.environ)
        renewed, credential = terms.renewed_headers, terms.credential
        client = HttpClient(name, url, headers, account=account, renewed_headers=renewed, credential=credential)
    except ProxyUnusable as error:
        raise hub_errors.UpstreamUnavailable(f"{name} cannot be reached: {error}", upstream=name) from None
    except ValueError as error:
        raise hub_errors.UpstreamUnavailable(f"{name} is configured wrongly: {error}", upstream=name) from None
    try:
        session = await find_session(Poster(client), config, given.events, given.memory, terms)
    except BaseException:
        client.close()
        raise
    await session.run(started)


async def find_session(
    poster: Poster, config: UpstreamConfig, events: SessionEvents, memory: Memory, terms: SessionTerms
) -> Found:
    """A session in what the server speaks, to be run; what that is will be remembered. Raises HubError: there is no way
    to it, or it speaks nothing that is known."""
    name, key = poster.name, config_key(config)

    async def find_as_modern() -> ModernHttp | None:
        facts = await discover(poster, terms)
        return None if facts is None else ModernHttp(poster, events, facts, terms)

    async def find_as_legacy() -> LegacyHttp | SseSession:
        try:
            return await LegacyHttp.connect(poster, events, terms)
        except StatusError as error:
            if error.status not in (400, 404, 405) or config.transport != "auto":
                raise
            try:
                return await SseSession.connect(poster, events, terms)
            except hub_errors.UpstreamProtocolError:
                raise error from None

    if config.transport == "sse":
        return await SseSession.connect(poster, events, terms)
    if config.era == "legacy":
        return await find_as_legacy()
    if config.era == "modern":
        if (modern := await find_as_modern()) is None:
            text = f'{name} does not speak {MODERN}; remove era = "modern" from its configuration'
            raise hub_errors.UpstreamVersionError(text, upstream=name)
        return modern
    if (remembered := memory.era(key)) in (Era.LEGACY.value, SSE):
        try:
            return await (SseSession if remembered == SSE else LegacyHttp).connect(poster, events, terms)
        except (hub_errors.UpstreamProtocolError, hub_errors.UpstreamVersionError) as error:
            log.info("%s no longer speaks what it spoke before (%s); detecting again", name, error)
            memory.remember_era(key, None)
    found: Found = await find_as_modern() or await find_as_legacy()
    memory.remember_era(key, SSE if isinstance(found, SseSession) else found.era.value)
    return found


async def discover(poster: Poster, terms: SessionTerms = COMMON) -> ServerFacts | None:
    """Ask as the modern era would; None: the server does not belong to it. Raises UpstreamVersionError,
    UpstreamProtocolError: it does, but it cannot be used; HubError: the answer is no sign of any era."""

    async def ask(version: str) -> Reply | None:
        """One attempt. None: an answer below 500 that is neither a result nor a JSON-RPC error."""
        params = stamp_own(Era.MODERN, version, {}, terms.extensions)
        headers = CONTENT + field_lines(request_headers(DISCOVER, params, version))
        try:
            with await poster.post(headers, encode_request(1, DISCOVER, params), resend=True) as reply:
                return await poster.read(reply, 1, lambda message: None)
        except StatusError as error:
            if 300 <= error.status < 400 or error.status >= 500:
                raise
            return error.failure
        except (hub_errors.UpstreamProtocolError, hub_errors.ResultTooLarge):
            return None  # a body that is no answer at all: what comes of `initialize` will be told

    try:
        return await find_modern(ask)
    except hub_errors.HubError as error:
        raise about(error, poster.name) from None
