"""The choice of a transport, which the configuration of an upstream makes, and a session over it."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.memory_budget import Budget
from hub.link.module_loading import load
from upstreams.session_contract import Session, SessionEvents, SessionSetup, SessionTerms

if TYPE_CHECKING:
    from upstreams.transports.stdio.sandbox.enclose import Sandboxes


async def run_session(
    config: UpstreamConfig,
    name: str,
    events: SessionEvents,
    memory: Memory,
    terms: SessionTerms,
    started: Callable[[Session], None],
    *,
    budget: Budget | None = None,
    environ: Mapping[str, str] = os.environ,
    sandboxes: "Sandboxes | None" = None,
) -> None:
    """Connect, shake hands, call `started` with the session, serve until the connection ends; then raise why.

    What the session queues and reads is counted in `budget`. A process gets its part of `environ`, and one of
    `sandboxes`; a server behind a URL is reached through the proxy that it names. Raises HubError: before `started`:
    the session could not be opened; after: why it ended. Cancellation: closes the connection in order. Either way
    running calls get `UpstreamLost`.
    """
    given = SessionSetup(config, name, events, memory, terms, budget or Budget(), environ)
    if config.command is not None:
        from upstreams.transports.stdio.session import StdioSession

        await StdioSession(given, sandboxes).run(started)
    elif config.speaks_websocket:
        await load("upstreams.transports.websocket.session")
        from upstreams.transports.websocket.session import WebSocketSession

        await WebSocketSession(given).run(started)
    else:
        await load("upstreams.transports.http.detect")
        from upstreams.transports.http.detect import run_http_session

        await run_http_session(given, started)
