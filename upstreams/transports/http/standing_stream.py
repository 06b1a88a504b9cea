"""The standing GET stream of a legacy session: what the upstream says outside of any answer.

Opened when the handshake is done, and again whenever it ends, until the server says that it offers none (405, or
another 4xx at the first attempt). A 4xx later on means that the server forgot the session, which is renewed.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio
from msgspec import Struct

from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.rate_limits import TokenBucket
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import RemoteProtocolError, Response, decode, is_batch, split_batch
from hub.wire.mcp import L1, L2
from upstreams.transports.http.answer_stream import AnswerStream, stream_headers
from upstreams.transports.http.client import HttpReply
from upstreams.transports.http.poster import EVENTS
from upstreams.transports.http.streamable_session import StreamableSession

GREETING_S: Final = 0.5
"""Time limit for a server to open the stream before calls go ahead without it."""
MAX_WAIT_S: Final = 30.0

log = logging.getLogger(__name__)


class ServerSession(Struct, frozen=True):
    """A session at the server, from one handshake to the next."""

    id: str | None
    facts: ServerFacts

    @property
    def headers(self) -> bytes:
        """The lines that go with every request of this session."""
        lines = b"" if self.id is None else b"Mcp-Session-Id: %b\r\n" % self.id.encode("ascii")
        if self.facts.version not in (L1, L2):
            lines += b"MCP-Protocol-Version: %b\r\n" % self.facts.version.encode("ascii")
        return lines


@dataclass(eq=False, repr=False)
class StandingStream:
    """Keeps one GET stream open as long as `session` runs, if the server offers one.

    `current`: its session at the server; `renew` waits for another one in place of that, and raises UpstreamUnavailable
    if there is none.
    """

    session: StreamableSession
    current: Callable[[], ServerSession]
    renew: Callable[[ServerSession], Awaitable[None]]

    def __post_init__(self) -> None:
        self._scope = trio.CancelScope()
        self._stream: AnswerStream | None = None
        """The last stream that was open in this life, for its last event id."""
        self._decided = trio.Event()
        self._complaints = TokenBucket(1, 1)

    async def start(self, nursery: trio.Nursery) -> None:
        """Open it before the first call: many servers drop what they have to say while nobody listens."""
        self.session.events.hears(False)
        nursery.start_soon(self._run)
        with trio.move_on_after(GREETING_S):
            await self._decided.wait()

    def restart(self) -> None:
        """The session has a new id: what belongs to the old one is over."""
        self._stream = None
        self._scope.cancel()

    async def _run(self) -> None:
        wait_s = 0.0
        while True:
            self._scope = trio.CancelScope()
            with self._scope:
                opened_at = trio.current_time()
                seen = self._stream.events if self._stream else 0
                if not await self._listen():
                    self._decided.set()
                    return
                fresh = self._stream is not None and self._stream.events > seen
                lasted = trio.current_time() - opened_at > MAX_WAIT_S
                retry_s = self._stream.retry_s if self._stream else 1.0
                wait_s = retry_s if fresh or lasted else min(max(2 * wait_s, retry_s), MAX_WAIT_S)
                await trio.sleep(wait_s)

    async def _listen(self) -> bool:
        """Open the stream and read it to its end; whether it is worth coming back."""
        session, server_session = self.session, self.current()
        headers = stream_headers(server_session.headers, self._stream.last_id if self._stream else "")
        try:
            with await session.poster.client.request("GET", headers, resend=True) as reply:
                if reply.status == 200 and reply.content_type == EVENTS:
                    await self._read_stream(reply)
                    return True
            has_forgotten = reply.status in range(400, 500) and reply.status not in (405, 429)
            if has_forgotten and self._stream is not None and server_session.id is not None:
                await self.renew(server_session)
                return True
            return reply.status >= 500 or reply.status == 429
        except UpstreamUnavailable as error:
            session.end(error)
            return False
        except HubError as error:
            log.debug("The standing stream of %s broke: %s", session.name, error)
            return True

    async def _read_stream(self, reply: HttpReply) -> None:
        session = self.session
        if self._stream is None:
            self._stream = session.poster.answer_stream(reply)
        else:
            missed = not self._stream.last_id
            self._stream.go_on(reply)
            if missed:
                session.missed_something()
        self._decided.set()
        session.events.hears(True)
        try:
            while (events := await self._stream.receive()) is not None:
                for kind, data in events:
                    if kind == "message":
                        await self._deliver_event(self._stream, data)
                    else:
                        await self._stream.pace.keep(len(data))
        finally:
            session.events.hears(False)

    async def _deliver_event(self, stream: AnswerStream, data: bytes) -> None:
        """Deliver what an event says, each message when it is time. What follows one that is none is not read."""
        session, parts = self.session, [data]
        try:
            if is_batch(data):
                await stream.pace.turn(len(data))
                parts = split_batch(data)
            for part in parts:
                message = decode(part, strict=False)
                if isinstance(message, Response):
                    log.debug("%s sent a response on its standing stream, which is ignored", session.name)
                else:
                    session.deliver(message)
                await stream.pace.keep(len(part))
        except RemoteProtocolError as error:
            if self._complaints.take(trio.current_time()):
                log.info("%s sent what is not an MCP message on its standing stream: %s", session.name, error)
            await stream.pace.keep(len(data))
