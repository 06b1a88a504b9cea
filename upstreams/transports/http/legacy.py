"""Streamable HTTP of the legacy revisions: a handshake, a session id, streams that can be resumed, a standing stream.

    connect() --initialize--> run(): standing stream | calls --404--> renew(), once for all waiting; resend
                                                             --cancelled--> DELETE

What always holds: a request goes out under the session id current at that moment; when that very session turns out to
be unknown it is renewed once, in the name of the session and not of whoever noticed, and exactly the request that was
refused is sent again. An id is current when its handshake is complete, `initialized` included.
"""

import logging
import re
from contextlib import suppress
from typing import Final

import trio
from msgspec import Raw

from hub.link.hub_errors import HubError, Overloaded, UpstreamLost, UpstreamProtocolError, UpstreamUnavailable
from hub.link.peer import last_words
from hub.link.rate_limits import TokenBucket
from hub.wire import jsonrpc
from hub.wire.capabilities import initialize_params
from hub.wire.jsonrpc import Notification, Reply, Request, RequestId, Result, raw
from hub.wire.mcp import CANCELLED, INITIALIZE, INITIALIZED, L4, PING, SET_LEVEL, Era
from upstreams.questions.questions import Answering
from upstreams.running_call import Running
from upstreams.session_contract import COMMON, SessionEvents, SessionTerms, StatusError
from upstreams.transports.http.answer_stream import AnswerStream, OnMessage, stream_headers
from upstreams.transports.http.client import BegunRequest
from upstreams.transports.http.poster import CONTENT, JSON, Poster, SessionUnknown
from upstreams.transports.http.standing_stream import ServerSession, StandingStream
from upstreams.transports.http.streamable_session import GOODBYE_S, RESENDABLE, StreamableSession
from upstreams.transports.negotiation import about, judge_initialize

SET_LEVEL_S: Final = 15.0
"""Seconds that a renewed session may take to set its log level."""
RENEWAL_S: Final = 20.0
"""Seconds for a new handshake; as long as a first one has by default."""
RESUMPTIONS: Final = 3
"""Attempts in a row to resume a stream that brought nothing new."""
MAX_QUESTIONS: Final = 64
"""Requests of the upstream that are answered at one time; more are dropped."""
ANSWER_S: Final = 30.0
"""For sending an answer."""
_SESSION_ID = re.compile(r"[!-~]{1,1024}")

log = logging.getLogger(__name__)


class LegacyHttp(StreamableSession):
    """A session by handshake. Made by `connect`."""

    era = Era.LEGACY

    def __init__(self, poster: Poster, events: SessionEvents, terms: SessionTerms) -> None:
        super().__init__(poster, events, terms)
        self._renewal: trio.Event | None = None
        """Set when the renewal that is going on is over."""
        self._standing_stream = StandingStream(self, lambda: self.server_session, self.renew)
        self._level: dict[str, Raw] | None = None
        self._answering: dict[RequestId, trio.CancelScope] = {}
        """The requests of the upstream that are being answered."""
        self._complaints = TokenBucket(1, 1)

    @classmethod
    async def connect(cls, poster: Poster, events: SessionEvents, terms: SessionTerms = COMMON) -> "LegacyHttp":
        """Shake hands. Raises StatusError: the server knows no such thing; HandshakeRefused, UpstreamVersionError,
        UpstreamProtocolError: as `negotiation.judge_initialize`; HubError: as `call`."""
        session = cls(poster, events, terms)
        await session._start_server_session()
        return session

    # --- the handshake ------------------------------------------------------------------------------------------------

    async def _start_server_session(self) -> None:
        server_session = await self._shake_hands()
        head = CONTENT + server_session.headers
        await self.poster.post_unanswered(head, jsonrpc.encode_notification(INITIALIZED, {}))
        self.server_session, self._head, self.facts = server_session, head, server_session.facts

    async def _shake_hands(self) -> ServerSession:
        id = self.next_id()
        body = jsonrpc.encode_request(id, INITIALIZE, initialize_params(L4, self.terms.capabilities))
        with await self.poster.post(CONTENT, body, resend=True) as reply:
            session_id = reply.headers.get("mcp-session-id")
            answer = await self.poster.read(reply, id, self.deliver)
        if session_id is not None and not _SESSION_ID.fullmatch(session_id):
            raise self.poster.error(f"{self.name} gave a session id that cannot be sent back")
        try:
            return ServerSession(session_id, judge_initialize(answer))
        except HubError as error:
            raise about(error, self.name) from None

    async def renew(self, dead: ServerSession) -> None:
        """Wait for a new handshake in place of session `dead`, unless there has been one already. Raises
        UpstreamUnavailable: it failed, and the session has ended. Cancellation: stops the waiting, not the renewal."""
        if self.server_session is dead and self._renewal is None and self._end is None and self._nursery is not None:
            self._renewal = trio.Event()
            self._nursery.start_soon(self._renew, self._renewal)
        if self.server_session is dead and self._renewal is not None:
            await self._renewal.wait()
        if self.server_session is dead:
            text = f"{self.name} has forgotten its session, and there is no new one"
            raise UpstreamUnavailable(f"{text}: {self._end}" if self._end else text, upstream=self.name)

    async def _renew(self, over: trio.Event) -> None:
        log.info("%s has forgotten its session; starting a new one", self.name)
        for scope in self._answering.values():  # with it went what it asked
            scope.cancel()
        try:
            with trio.fail_after(RENEWAL_S):
                await self._start_server_session()
            if self._level is not None:
                id = self.next_id()
                with suppress(HubError), trio.move_on_after(SET_LEVEL_S):
                    body = jsonrpc.encode_request(id, SET_LEVEL, self._level)
                    await self._post_request(body, id, self.deliver, resend=True)
            self.missed_something()
            self._standing_stream.restart()
        except HubError as error:
            self.end(error)
        except trio.TooSlowError:
            self.give_up(f"it does not know it any more, and opened no new one within {RENEWAL_S:g} seconds")
        finally:
            self._renewal = None
            over.set()

    # --- asking -------------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        reply = await super().request(method, params)
        if method == SET_LEVEL and isinstance(reply, Result):
            self._level = params
        return reply

    def send_at_once(self, id: int, method: str, params: dict[str, Raw]) -> BegunRequest | None:
        sent = self.poster.client.begin(self._head, jsonrpc.encode_request(id, method, params))
        if sent is not None:
            sent.within = self.server_session
        return sent

    async def send(
        self, id: int, method: str, params: dict[str, Raw], on_message: OnMessage, begun: BegunRequest | None = None
    ) -> Reply:
        body = jsonrpc.encode_request(id, method, params)
        resend = method in RESENDABLE
        server_session = self._session_of(begun)
        try:
            return await self._post_request(body, id, on_message, resend=resend, begun=begun)
        except SessionUnknown:
            if server_session.id is None:
                raise
        except StatusError as error:
            if error.status == 400 and self._nursery is not None:  # many servers say that of a session they forgot
                self._nursery.start_soon(self.check)
            raise
        await self.renew(server_session)
        return await self._post_request(body, id, on_message, resend=resend)

    def _session_of(self, begun: BegunRequest | None) -> ServerSession:
        """The session in which a request was sent, or is sent now."""
        return begun.within if begun is not None and isinstance(begun.within, ServerSession) else self.server_session

    async def _post_request(
        self, body: bytes, id: int, on_message: OnMessage, *, resend: bool, begun: BegunRequest | None = None
    ) -> Reply:
        server_session = self._session_of(begun)
        with await self.poster.post(self._head, body, resend=resend, begun=begun) as reply:
            if reply.status != 200 or reply.content_type == JSON:
                return await self.poster.read(reply, id, on_message)

            def deliver(message: Request | Notification) -> None:
                if server_session is not self.server_session and isinstance(message, Request):
                    # after a renewal, its answer would go to another session
                    self._complain("%s asked in a session that it has forgotten; the question is dropped", self.name)
                else:
                    on_message(message)

            return await self._follow(self.poster.answer_stream(reply), server_session, id, deliver)

    async def _follow(
        self, stream: AnswerStream, server_session: ServerSession, id: int, on_message: OnMessage
    ) -> Reply:
        """Read a stream to its response, through breaks and polls, as long as the server gave ids."""
        tries = 0
        while True:
            seen = stream.events
            try:
                with stream:
                    response = await stream.response(id, on_message)
                if response is not None:
                    return response
                if not stream.last_id:
                    raise self.poster.no_response()
            except UpstreamLost:
                tries = 1 if stream.events > seen else tries + 1
                if not stream.last_id or tries > RESUMPTIONS:
                    raise
            await self._resume(stream, server_session)

    async def _resume(self, stream: AnswerStream, server_session: ServerSession) -> None:
        """Wait as the server asked, then come back for the rest. Raises UpstreamLost: the server has nothing to
        resume."""
        for _ in range(RESUMPTIONS):
            await trio.sleep(stream.retry_s)
            headers = stream_headers(server_session.headers, stream.last_id)
            try:
                reply = await self.poster.client.request("GET", headers, resend=True)
            except (UpstreamUnavailable, UpstreamLost):
                continue
            if reply.status == 200:
                stream.go_on(reply)
                return
            reply.discard()
            break
        raise self.poster.client.answer_lost()

    def withdraw(self, id: int, reason: str) -> None:
        """Closing the stream would not cancel."""
        self._notify(CANCELLED, {"requestId": raw(id), "reason": raw(reason)})

    def _notify(self, method: str, params: dict[str, Raw]) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(self._post_in_time, jsonrpc.encode_notification(method, params), GOODBYE_S)

    async def _post_in_time(self, message: bytes, limit_s: float, resend: bool = False) -> None:
        with trio.move_on_after(limit_s):
            try:
                await self.poster.post_unanswered(self._head, message, resend=resend)
            except HubError as error:
                log.info("%s did not take a message: %s", self.name, error)

    # --- hearing ------------------------------------------------------------------------------------------------------

    def deliver(self, message: Request | Notification, running: Running | None = None) -> None:
        if isinstance(message, Request):
            if message.id in self._answering:
                log.debug("%s sent the request %s twice", self.name, message.method)  # it was resumed from before it
            elif self._nursery is None or len(self._answering) >= MAX_QUESTIONS:
                self._complain("%s asks too much or too early; its %s is dropped", self.name, message.method)
            else:
                scope = self._answering[message.id] = trio.CancelScope()
                answering = self._questions.receive(message, running)
                self._nursery.start_soon(self._answer, message.id, answering, scope)
        elif message.method == CANCELLED:
            for asked, scope in self._answering.items():
                if raw(asked) == message.params.get("requestId"):
                    scope.cancel()
        else:
            super().deliver(message, running)

    def _complain(self, text: str, *values: object) -> None:
        """Say in the log what the server does wrong, now and then."""
        if self._complaints.take(trio.current_time()):
            log.warning(text, *values)

    async def _answer(self, id: RequestId, answering: Answering, scope: trio.CancelScope) -> None:
        try:
            with scope:
                reply = await answering
                answer = jsonrpc.encode_response(id, reply)
                await self._post_in_time(answer, ANSWER_S, True)  # a second copy answers nothing
        finally:
            del self._answering[id]

    # --- serving ------------------------------------------------------------------------------------------------------

    async def prepare(self, nursery: trio.Nursery) -> None:
        await self._standing_stream.start(nursery)
        nursery.start_soon(self._watch_silence, self.check)

    def _heard(self) -> int:
        return self._answers

    async def probe(self) -> None:
        await self._ping()

    async def _send_ping(self) -> None:
        """Ping, which finds out whether the server still knows the session. Strange answers are passed over."""
        try:
            await self.request(PING, {})
        except StatusError as error:
            if error.status >= 500:
                log.debug("%s answers no ping now: %s", self.name, error)
            else:
                self.end(error)
        except (Overloaded, UpstreamLost, UpstreamProtocolError) as error:  # it may still know the session
            log.debug("%s answers no ping now: %s", self.name, error)

    async def finish(self) -> None:
        """End the session at the server too, unless it is gone anyway."""
        if self._end is None and self.server_session.id is not None:
            with last_words(GOODBYE_S):
                try:
                    with await self.poster.client.request("DELETE", self.server_session.headers, resend=True):
                        pass
                except HubError as error:
                    log.debug("%s was not told that its session ends: %s", self.name, error)
