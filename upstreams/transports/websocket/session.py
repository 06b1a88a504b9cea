"""A session with a server over a WebSocket. Its end is the end of the session: nothing is resumed or sent again.

connect -> shake hands -> serve -> it closes, falls silent, breaks the protocol, or `run` is cancelled -> close
"""

from collections.abc import Callable
from typing import Final

import trio

from hub.link.channel import ChannelClosed, OutboxFull
from hub.link.hub_errors import HubError, UpstreamLost, UpstreamProtocolError, UpstreamUnavailable, without_frames
from hub.link.outbox import Outbox
from hub.wire.mcp import Era
from upstreams.fetch.proxies import ProxyUnusable
from upstreams.session_contract import Session
from upstreams.transports.connect_to_url import WEBSOCKET, on_its_way, parse_url
from upstreams.transports.probing_session import EndedInHandshake, ProbingSession
from upstreams.transports.websocket.channel import WebSocketChannel
from upstreams.transports.websocket.handshake import open_websocket

PING_S: Final = 20.0
"""Silence after which the server is pinged, by a frame."""
PONG_S: Final = 20.0
"""Silence after that until the connection is given up."""


class WebSocketSession(ProbingSession):
    """One connection. Satisfies `upstreams.session_contract.Session`."""

    transport = "ws"

    async def _run_once(self, expected: Era | None, started: Callable[[Session], None]) -> None:
        name = self.name
        try:
            url = on_its_way(parse_url(self._config.url or "", WEBSOCKET), self._environ)
        except ProxyUnusable as error:
            raise UpstreamUnavailable(f"{name} cannot be reached: {error}", upstream=name) from None
        except ValueError as error:
            raise UpstreamUnavailable(f"{name} is configured wrongly: {error}", upstream=name) from None
        headers = {field: value.reveal() for field, value in self._config.headers.items()}
        stream, frames = await open_websocket(name, url, headers, self.terms)
        account = self._budget.account(f"upstream {name}")
        refused: HubError | None = None
        try:
            with trio.CancelScope() as self._scope:
                async with trio.open_nursery() as nursery:
                    broken = trio.Event()
                    outbox = Outbox(stream, nursery, broken.set, joins=True, account=account)
                    self._channel = WebSocketChannel(stream, frames, outbox, account)
                    self._attach(self._channel, outbox)
                    nursery.start_soon(self._listen_to_end)
                    nursery.start_soon(self._last_read, broken)
                    within = trio.move_on_after(self._config.timeouts.start)
                    if (refused := await self._shake_hands(within, expected, started)) is None:
                        nursery.start_soon(self._watch_connection)
                        await self._watch_silence(self._ping)
                    self._scope.cancel()
        finally:
            account.close()
            await self._channel.close()
        raise without_frames(refused or self._reason())

    async def _watch_connection(self) -> None:
        """Ping after silence; end a connection that stays silent."""
        reader = self._channel.reader
        while True:
            await trio.sleep_until(reader.heard_at + PING_S)
            asked_at = trio.current_time()
            if asked_at < reader.heard_at + PING_S:
                continue
            try:
                self._channel.ping()
                await self._channel.outbox.flush()  # it may be behind much that takes its time
            except (ChannelClosed, OutboxFull):
                return
            await trio.sleep(PONG_S)
            if reader.heard_at <= asked_at:
                self.give_up(f"did not answer a ping within {PONG_S:.0f} seconds")

    def _reason(self) -> HubError:
        """The reason why the session is over."""
        name = self.name
        if self._fault:
            return UpstreamProtocolError(f"{name} {self._fault} and was given up", upstream=name)
        why = self._channel.reader.fault or "closed the connection, or it was lost"
        if self.facts.version:
            return UpstreamLost(f"{name} {self.terms.mask(why)}", upstream=name)
        return EndedInHandshake(f"{name} {self.terms.mask(why)} before it could be used", upstream=name)
