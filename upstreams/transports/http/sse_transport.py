"""The deprecated HTTP+SSE of 2024-11-05: one event stream down, POSTs up.

The server's first event names the endpoint for POSTs; all its messages come as events of that one stream, so the stream
is the session and its end the end of both. What is above the bytes is a `Peer`, as for a child process.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final
from urllib.parse import urljoin

import trio

from hub.link import hub_errors
from hub.link.channel import ChannelClosed, OutboxFull
from hub.link.memory_budget import FREE_BYTES
from hub.link.peer import BadPeer
from hub.wire.jsonrpc import RemoteProtocolError, Request, RequestId, decode
from hub.wire.mcp import L1, L2
from upstreams.session_contract import COMMON, Session, SessionEvents, SessionTerms
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.answer_stream import AnswerStream, stream_headers
from upstreams.transports.http.poster import CONTENT, Poster, SessionUnknown
from upstreams.transports.negotiation import about, initialize
from upstreams.transports.shared_stream_session import StreamSession

ENDPOINT_S: Final = 5.0
"""Time limit for a server to name its endpoint."""
TURN_S: Final = 0.05
"""Time that a message waits until the one before it is accepted. Some servers accept a request only when it is done."""
QUEUED_BYTES: Final = 16 << 20
INBOX: Final = 64
"""Messages that wait to be heard, of `FREE_BYTES` in all. One that is larger counts as part of the stream meanwhile."""
MAX_POSTS: Final = 400
"""At one time: each call may take one until it is answered, and the rest is for answers to the server."""

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class SseChannel:
    """Whole messages to and from one server: POSTs to its endpoint, events of its stream. Satisfies `Channel`.

    `on_refused` is called with each request that the server did not take; it says whether anybody waits for the answer.
    """

    poster: Poster
    stream: AnswerStream
    target: str
    on_refused: Callable[[RequestId, hub_errors.HubError], bool] = lambda id, error: False

    def __post_init__(self) -> None:
        self._queue, self._to_post = trio.open_memory_channel[bytes](inf)
        self.queued_bytes = 0
        self._posts = trio.Semaphore(MAX_POSTS)
        self._inbox, self._messages = trio.open_memory_channel[bytes](INBOX)
        self._inbox_bytes = 0
        self._heard = trio.Event()
        """Set when something has left the inbox that held too much."""
        self._closed = False
        self.headers = CONTENT
        self.fault: hub_errors.HubError | None = None
        """The reason why it closed, if there is more to say than that it did."""

    def send(self, message: bytes) -> None:
        if self._closed:
            raise ChannelClosed
        if self.queued_bytes + len(message) > QUEUED_BYTES:
            raise OutboxFull
        self._queue.send_nowait(message)
        self.queued_bytes += len(message)

    async def receive(self) -> bytes:
        try:
            message = await self._messages.receive()
        except trio.EndOfChannel:
            raise ChannelClosed from None
        if self._inbox_bytes > FREE_BYTES:
            self._heard.set()
        self._inbox_bytes -= len(message)
        return message

    async def run(self) -> None:
        """Post and read until the stream ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._post_all)
            try:
                await self._read()
            except hub_errors.HubError as error:
                self.fault = self.fault or hub_errors.without_frames(error)
            finally:
                self._closed = True
                self._inbox.close()
            nursery.cancel_scope.cancel()

    async def _read(self) -> None:
        with self.stream:
            while (events := await self.stream.receive()) is not None:
                for kind, data in events:
                    if kind == "message":
                        self._inbox_bytes += len(data)
                        await self._inbox.send(data)
                        while self._inbox_bytes > FREE_BYTES:
                            self._heard = trio.Event()
                            await self._heard.wait()
                    else:
                        await self.stream.pace.keep(len(data))

    async def _post_all(self) -> None:
        """Start each POST when the one before it was accepted, or has had its turn."""
        async with trio.open_nursery() as nursery:
            async for message in self._to_post:
                self.queued_bytes -= len(message)
                accepted = trio.Event()
                await self._posts.acquire()
                nursery.start_soon(self._post, message, accepted)
                with trio.move_on_after(TURN_S):
                    await accepted.wait()

    async def _post(self, message: bytes, accepted: trio.Event) -> None:
        try:
            await self.poster.post_unanswered(self.headers, message, target=self.target)
        except hub_errors.HubError as error:
            request = decode(message, strict=False)  # whoever waits for the answer is told that there will be none
            if not isinstance(request, Request) or not self.on_refused(request.id, hub_errors.without_frames(error)):
                log.info("%s did not take a message: %s", self.poster.name, error)
            if isinstance(error, hub_errors.UpstreamUnavailable | hub_errors.UpstreamUnauthorized | SessionUnknown):
                self.fault = self.fault or hub_errors.without_frames(error)
                self.poster.client.close()
        finally:
            accepted.set()
            self._posts.release()


class SseSession(StreamSession):
    """A session over HTTP+SSE. Made by `connect`, opened by `run`."""

    transport = "sse"

    def __init__(
        self, poster: Poster, events: SessionEvents, stream: AnswerStream, target: str, terms: SessionTerms
    ) -> None:
        super().__init__(poster.name, events, terms)
        self._client = poster.client
        self._channel = SseChannel(poster, stream, target, lambda id, error: self.peer.fail(id, error))

    @classmethod
    async def connect(cls, poster: Poster, events: SessionEvents, terms: SessionTerms = COMMON) -> "SseSession":
        """Open the event stream and wait for the endpoint. Raises UpstreamProtocolError: what is there is no HTTP+SSE
        server, or its endpoint has another origin; HubError: as `Poster.judge_refusal`. Cancellation: closes the
        stream."""
        reply = await poster.client.request("GET", stream_headers(b""), resend=True)
        try:
            if reply.status != 200:
                await poster.judge_refusal(reply, None)
            stream = poster.answer_stream(reply)
            return cls(poster, events, stream, await _endpoint(poster, stream), terms)
        except BaseException:
            reply.discard()
            raise

    async def run(self, started: Callable[[Session], None]) -> None:
        """Shake hands, and serve until the stream ends. As `run_session`."""
        failed: hub_errors.HubError | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                self._attach(self._channel)
                nursery.start_soon(self._channel.run)
                nursery.start_soon(self._listen_to_end)
                failed = await self._shake_hands()
                if failed is None:
                    started(self)
                    await self._watch_silence(self._ping)
                nursery.cancel_scope.cancel()
        finally:
            self._client.close()
        raise hub_errors.without_frames(failed or self._why())

    async def _shake_hands(self) -> hub_errors.HubError | None:
        try:
            facts = await initialize(self.peer, self.terms.capabilities)
        except (ChannelClosed, OutboxFull, BadPeer):
            return self._why()
        except RemoteProtocolError as error:
            text = f"{self.name} answered initialize with nonsense: {error}"
            return hub_errors.UpstreamProtocolError(text, upstream=self.name)
        except hub_errors.HubError as error:
            return hub_errors.without_frames(about(error, self.name))
        self._agreed(facts)
        if facts.version not in (L1, L2):
            self._channel.headers = CONTENT + b"MCP-Protocol-Version: %b\r\n" % facts.version.encode("ascii")
        return None

    def _why(self) -> hub_errors.HubError:
        why = self._fault or "ended its event stream, and the session with it"
        return self._channel.fault or hub_errors.UpstreamLost(f"{self.name} {why}", upstream=self.name)


async def _endpoint(poster: Poster, stream: AnswerStream) -> str:
    events: list[tuple[str, bytes]] | None = []
    with trio.move_on_after(ENDPOINT_S):
        while events is not None and not events:
            events = await stream.receive()
    if not events or events[0][0] != "endpoint":
        raise poster.error(f"{poster.name} opened an event stream, but named no endpoint to post to")
    if len(events) > 1:
        raise poster.error(f"{poster.name} spoke before it was spoken to")
    own = poster.client.url
    try:
        url = parse_url(urljoin(own.origin + own.target, events[0][1].decode()))
    except ValueError:
        raise poster.error(f"{poster.name} named an endpoint that is not a URL") from None
    if url.origin != own.origin:
        raise poster.error(f"{poster.name} named an endpoint at {url.origin}, another origin than its own; refused")
    return url.target
