"""Poster: one MCP message out by POST, its answer back; statuses, JSON or an event stream, `Retry-After`.

The answer is read in the frame of whoever posted, so a message on it belongs to that request and to no other: what is
not the response itself is handed to the caller's `on_message`. Knows no era; sessions do.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urljoin

import trio

from hub.link import hub_errors
from hub.link.rate_limits import ReadPace
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Response, decode, encode, is_batch, peek_object
from upstreams.fetch.proxy_tunnel import refusal
from upstreams.fetch.terms_and_answers import retry_after_s
from upstreams.session_contract import StatusError
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.answer_stream import AnswerStream, OnMessage, pick, pick_of_batch
from upstreams.transports.http.client import BegunRequest, HttpClient, HttpReply

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
CONTENT: Final = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
"""The headers of every POST, of either era."""
MAX_RETRY_AFTER_S: Final = 60.0
MAX_REFUSAL_BYTES: Final = 64 << 10
LARGE_BYTES: Final = 1 << 20
"""Bytes of an answer beyond which other tasks have their turn before it is passed on."""


class SessionUnknown(StatusError):
    """404: the upstream does not know the session (any more). Nothing was executed."""

    executed = hub_errors.Executed.NO


class Poster:
    """Posts messages to one MCP endpoint. Holds back while the upstream has asked for quiet (`Retry-After`)."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.name = client.name
        self.pace = ReadPace()
        """Rate limit of everything on any stream that is no response."""
        self._quiet_until = float("-inf")
        self._streams = False
        """The last answer came as events."""

    async def post_unanswered(
        self, headers: bytes, body: bytes, *, target: str | None = None, resend: bool = False
    ) -> None:
        """Post a message that is not answered on this connection; `target` in place of the client's own.

        `resend`: it may be sent twice. Raises HubError: as `post`, or it was not accepted.
        """
        with await self.post(headers, body, target=target, resend=resend) as reply:
            if not 200 <= reply.status < 300:
                await self.judge_refusal(reply, None)

    @property
    def can_begin(self) -> bool:
        """True if `begin` may do: the upstream wants no quiet, and answers in one piece."""
        return not self._streams and self.client.can_begin and not self._wants_quiet

    async def post(
        self,
        headers: bytes,
        body: bytes,
        *,
        target: str | None = None,
        resend: bool = False,
        begun: BegunRequest | None = None,
    ) -> HttpReply:
        """Post one message, return the answer, its status not yet judged. `begun`: it was sent already.

        An upstream that says 429 or 503 with `Retry-After` is asked once more after that time, if the deadline of the
        caller allows for it. Raises Overloaded: it does not; HubError: as `HttpClient.request`. Cancellation: closes
        the connection.
        """
        if begun is None:
            await self._be_quiet()
        reply = await self.client.request("POST", headers, body, target=target, resend=resend, begun=begun)
        if reply.status == 200:
            self._streams = reply.content_type == EVENTS
        if reply.status in (429, 503) and self._heed(reply):
            reply.discard()
            await self._be_quiet()
            reply = await self.client.request("POST", headers, body, target=target, resend=resend)
            self._heed(reply)
        return reply

    async def read(self, reply: HttpReply, id: int, on_message: OnMessage) -> Reply:
        """The response to request `id`. A stream that ends without it is an error. Raises HubError: as `judge_refusal`,
        or the answer is not a response to this request."""
        if reply.status != 200:
            return await self.judge_refusal(reply, id)
        if reply.content_type == JSON:
            return await self._read_json(reply, id, on_message)
        response = await self.answer_stream(reply).response(id, on_message)
        if response is None:
            raise self.no_response()
        return response

    async def _read_json(self, reply: HttpReply, id: int, on_message: OnMessage) -> Reply:
        body = await reply.read()
        return await self.read_body(body, id, on_message) if takes_time(body) else self.pick(body, id, on_message)

    async def read_body(self, body: bytes, id: int, on_message: OnMessage) -> Reply:
        """The response in the body of a JSON answer. Raises UpstreamProtocolError: there is none in it."""
        if is_batch(body):
            response = await pick_of_batch(body, id, on_message, self.name, self.pace)
            if response is None:
                raise self._something_else()
        else:
            response = self.pick(body, id, on_message)
        if len(body) > LARGE_BYTES:
            await trio.lowlevel.cancel_shielded_checkpoint()  # what becomes of it takes as long as reading it did
        return response

    def pick(self, body: bytes, id: int, on_message: OnMessage) -> Reply:
        """The response that a body is. Raises UpstreamProtocolError: it is none."""
        if (response := pick(body, id, on_message, self.name)) is None:
            raise self._something_else()
        return response

    def _something_else(self) -> hub_errors.UpstreamProtocolError:
        return self.error(f"{self.name} answered a request with something else than a response")

    def answer_stream(self, reply: HttpReply) -> AnswerStream:
        """The event stream that `reply` must be. Raises UpstreamProtocolError: it is something else, a web page for
        instance."""
        if reply.content_type != EVENTS:
            why = f"{self.name} answered status {reply.status} with a body that is neither JSON nor an event stream;"
            raise self.error(f"{why} is its URL the one of an MCP endpoint?")
        return AnswerStream(reply, self.name, self.pace)

    async def judge_refusal(self, reply: HttpReply, id: int | None) -> Reply:
        """Judge an answer that is not 200: a JSON-RPC error that answers `id` is its response, all else is raised.

        Statuses that are about who asks, or when, say more than any body: 401, 403, and what has a `Retry-After`.

        Raises:
            UpstreamUnauthorized, UpstreamDenied: 401, 403.
            UpstreamUnavailable: 407, of a proxy.
            Overloaded: 429, 503.
            SessionUnknown: 404.
            StatusError: anything else.
        """
        status = reply.status
        if status == 401:
            text = f"{self.name} needs a sign-in (HTTP 401): set `headers.Authorization` in its configuration"
            raise hub_errors.UpstreamUnauthorized(text, upstream=self.name)
        if status == 403:
            why = f"{self.name} refuses access with these credentials (403)"
            raise hub_errors.UpstreamDenied(why, upstream=self.name)
        if status == 407 and (proxy := self.client.url.proxy) is not None:
            text = f"The server {self.name} cannot be reached at {self.client.url.origin}: {refusal(proxy, status)}"
            raise hub_errors.UpstreamUnavailable(text, upstream=self.name)
        if status in (429, 503) and retry_after_s(reply.headers, MAX_RETRY_AFTER_S) is not None:
            raise self._overload()
        failure = await self._failure(reply, id) if 400 <= status < 500 else None
        if failure is not None and failure[0]:
            return failure[1]
        if status in (429, 503):
            raise self._overload(hub_errors.Executed.UNKNOWN if status == 503 else hub_errors.Executed.NO)
        raise self._status_error(reply, None if failure is None else failure[1])

    async def _failure(self, reply: HttpReply, id: int | None) -> tuple[bool, Failure] | None:
        """The JSON-RPC error in the body and whether it is surely about request `id`."""
        if reply.content_type != JSON:
            return None
        try:
            body = await reply.read(MAX_REFUSAL_BYTES)
            fields = peek_object(body)
            if "id" not in fields:  # an error need not say to which request
                body = encode({"id": None, **fields})
            message = decode(body, strict=False)
        except (hub_errors.HubError, RemoteProtocolError):
            return None
        if isinstance(message, Response) and isinstance(message.reply, Failure):
            return id is not None and message.id == id, message.reply
        return None

    def _status_error(self, reply: HttpReply, failure: Failure | None) -> StatusError:
        status = reply.status
        if status == 404:
            text = f"{self.name} answered 404: it knows neither this path nor this session"
            return SessionUnknown(text, upstream=self.name, status=404, failure=failure)
        text = f"{self.name} answered with HTTP status {status}"
        if 300 <= status < 400 and (place := self._origin(reply.headers.get("location", ""))):
            text += f", a redirect to {place}, which is not followed; put the final address into its url"
        elif 200 <= status < 300:
            text += " where a response was due"
        return StatusError(text, upstream=self.name, status=status, failure=failure)

    def _origin(self, location: str) -> str:
        """The origin of a redirect; never more, since the rest may hold secrets."""
        try:
            target = urljoin(self.client.url.origin + self.client.url.target, location)
            return parse_url(target).origin
        except ValueError:
            return "something that is not HTTP"

    # --- Retry-After --------------------------------------------------------------------------------------------------

    def _heed(self, reply: HttpReply) -> bool:
        """Remember how long the upstream wants quiet; False if it does not say."""
        seconds = retry_after_s(reply.headers, MAX_RETRY_AFTER_S)
        if reply.status not in (429, 503) or seconds is None:
            return False
        self._quiet_until = trio.current_time() + seconds
        return True

    @property
    def _wants_quiet(self) -> bool:
        return self._quiet_until > 0 and self._quiet_until > trio.current_time()  # the clock is slower than a look

    async def _be_quiet(self) -> None:
        if not self._wants_quiet:
            return
        if self._quiet_until >= trio.current_effective_deadline():
            raise self._overload()
        await trio.sleep_until(self._quiet_until)

    def _overload(self, executed: hub_errors.Executed = hub_errors.Executed.NO) -> hub_errors.Overloaded:
        wait_s = max(0.0, self._quiet_until - trio.current_time())
        text = f"{self.name} is overloaded" + (f"; try again in {wait_s:.0f} s" if wait_s else "")
        retry_ms = int(wait_s * 1000) if wait_s else None
        return hub_errors.Overloaded(text, upstream=self.name, executed=executed, retry_after_ms=retry_ms)

    def no_response(self) -> hub_errors.UpstreamProtocolError:
        return self.error(f"The event stream of {self.name} ended without a response")

    def error(self, text: str) -> hub_errors.UpstreamProtocolError:
        return hub_errors.UpstreamProtocolError(text, upstream=self.name)


def takes_time(body: bytes) -> bool:
    """True if only `Poster.read_body` can read the body of an answer: it is a batch, or large."""
    return len(body) > LARGE_BYTES or is_batch(body)


def field_lines(fields: Iterable[tuple[str, bytes]]) -> bytes:
    """Header fields as lines."""
    return b"".join([b"%b: %b\r\n" % (name.encode("ascii"), value) for name, value in fields])
