"""JSON-RPC with one peer over a `Channel`: requests in both directions, each matched to its answer.

One task reads (`run`), and calls whoever waits for an answer: no event, no queue, no task in between. Each request of
the peer is answered in a task of its own, so that a slow answer never stops the reading; `ping` is answered at once. A
pending request is removed in the same step in which its answer is passed on or it is withdrawn, so a later answer is
only counted.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import count
from typing import Final

import trio
from msgspec import Raw

from hub.link.channel import Channel, ChannelClosed, LineDropped, LineTooLong, OutboxFull
from hub.link.hub_errors import Executed, Overloaded
from hub.link.rate_limits import TURN, ReadPace
from hub.link.sync_primitives import Wakeup
from hub.wire import jsonrpc
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, RequestId, Response, Result, raw
from hub.wire.mcp import CANCELLED, DISCOVER, INITIALIZE, INTERNAL_ERROR, PING
from hub.wire.salvage_ids import id_at_edges

log = logging.getLogger(__name__)

MAX_BAD_MESSAGES: Final = 1_000
"""Malformed messages in a row after which the peer is given up."""
MAX_QUESTIONS: Final = 64
"""Requests of the peer that are answered at a time."""
MAX_UNREAD_BYTES: Final = 256 << 10
"""Answers that the peer may leave unread; further requests are not answered. The peer is still read: it may write
before it reads."""
COMPLAIN_EVERY_S: Final = 1.0
SHOWN_CHARS: Final = 200
MASKED_BYTES: Final = 4_096
"""Beginning of a malformed message that is searched for secrets before it is cut: none is cut in two."""
UPSTREAM_CANCEL_S: Final = 5.0
"""Time limit for telling an upstream that an answer is no longer wanted."""
NEVER_CANCELLED: Final = frozenset({INITIALIZE, DISCOVER})
"""Requests that are never cancelled: `initialize`, as the protocol requires; a probe, since the server may be of
either era."""

OnRequest = Callable[[Request], Awaitable[Reply]]
"""Called when a request arrives, before any later message is read. The returned awaitable runs in a task of its own."""
OnNotification = Callable[[jsonrpc.Notification], None]
OnAnswer = Callable[[Reply | Exception], None]
"""Called once, in the task that reads, with the answer to a request, or with why there will be none: `ChannelClosed`,
`RemoteProtocolError` (it was malformed), `BadPeer`, or what `fail` was given."""


class BadPeer(Exception):
    """The peer broke the protocol for good: a message is too long, or too many are malformed."""


def last_words(within_s: float) -> trio.CancelScope:
    """A shielded scope for last messages while a task is being cancelled; always with a deadline."""
    return trio.move_on_after(within_s, shield=True)


@dataclass(eq=False, repr=False)
class Peer:
    """Requests and notifications over a `Channel`. Request ids are ours, counted up and never used twice."""

    _channel: Channel
    _: KW_ONLY
    on_request: OnRequest
    on_notification: OnNotification
    on_end: Callable[[], None] | None = None
    """Called once, before callers learn that there will be no answer."""
    on_complaint: Callable[[str], None] | None = None
    """Gets malformed messages, one a second at most, from which `mask` has taken the secrets, as in the log."""
    mask: Callable[[str], str] = str
    name: str = "peer"
    strict: bool = False

    def __post_init__(self) -> None:
        self.next_id = count(1).__next__
        """Takes a new id, to be passed to `request` or dropped."""
        self._waiting: dict[RequestId, OnAnswer] = {}
        self._answering: dict[RequestId, trio.CancelScope] = {}
        self._pace = ReadPace()
        self._bad_in_a_row = 0
        self._unread_bytes = 0
        """Bytes of answers written since the peer had last read everything."""
        self._complained_at = float("-inf")
        self._takes_requests = True
        self.ended = False
        self.messages = 0
        """Messages received and decoded."""
        self.stray_answers = 0
        """Answers without a waiting request: late, repeated, or to an unknown id."""
        self.bad_messages = 0
        self.refused_requests = 0

    @property
    def waiting(self) -> Collection[RequestId]:
        """Ids of the requests that wait for an answer."""
        return self._waiting.keys()

    # --- asking and telling -------------------------------------------------------------------------------------------

    def refuse_requests(self) -> None:
        """Answer no requests from now on, only count them: the revision has none in that direction."""
        self._takes_requests = False

    async def request(self, method: str, params: dict[str, Raw], *, id: int | None = None) -> Reply:
        """Send a request and wait for its answer.

        Raises:
            ChannelClosed: the peer is gone, before or after it got the request.
            OutboxFull: the peer does not read; nothing was sent.
            RemoteProtocolError: the answer was malformed.
            BadPeer: the peer was given up.
            Exception: the one that `fail` was given.
        Cancellation: the peer is told, except for `NEVER_CANCELLED`; a late answer is dropped.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        id = self.next_id() if id is None else id
        answer: Wakeup[Reply] = Wakeup()
        self.post(id, method, params, answer)
        return await answer.wait(partial(self.withdraw, id, is_told=method not in NEVER_CANCELLED))

    def post(self, id: int, method: str, params: dict[str, Raw], on_answer: OnAnswer) -> None:
        """Send a request; `on_answer` gets its answer, later.

        Raises:
            ChannelClosed, OutboxFull: as `request`.
        """
        if self.ended:
            raise ChannelClosed
        self._channel.send(jsonrpc.encode_request(id, method, params))
        self._waiting[id] = on_answer

    def withdraw(self, id: int, *, is_told: bool = True) -> None:
        """Wait for the answer to request `id` no more, and tell the peer."""
        if self._waiting.pop(id, None) is not None and is_told:
            self.notify(CANCELLED, {"requestId": raw(id)})

    def fail(self, id: RequestId, error: Exception) -> bool:
        """End request `id` with `error`, since no answer will come. False: no such request is waiting."""
        on_answer = self._waiting.pop(id, None)
        if on_answer is None:
            return False
        try:
            on_answer(error)
        except Exception:  # a fault ends this request alone
            log.exception("an error of %s could not be passed on", self.name)
        return True

    def notify(self, method: str, params: dict[str, Raw]) -> None:
        """Send a notification; drop it if the peer is gone or does not read."""
        self._send_if_possible(jsonrpc.encode_notification(method, params), method)

    def _send_if_possible(self, message: bytes, what: str) -> None:
        try:
            self._channel.send(message)
        except (ChannelClosed, OutboxFull):
            log.debug("%s did not get %s", self.name, what)

    # --- listening ----------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read until the channel closes. Every caller still waiting then gets `ChannelClosed`.

        Raises:
            BadPeer: a message is too long, or too many are malformed; waiting callers get it, too.
        Cancellation: as if the channel closed. Answers being made are abandoned.
        """
        fault = ""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                try:
                    await self._read(nursery)
                except ChannelClosed:
                    pass
                except LineTooLong:
                    fault = "sent a message that is too long"
                except BadPeer as error:
                    fault = str(error)
                self.end(fault)
                nursery.cancel_scope.cancel()
        finally:
            self.end(fault)
        if fault:
            raise BadPeer(fault)

    def end(self, fault: str = "") -> None:
        """Tell all waiting callers that there will be no answers. No requests can be sent from now on."""
        if not self.ended and self.on_end is not None:
            self.on_end()
        self.ended = True
        for id in list(self._waiting):
            self.fail(id, BadPeer(fault) if fault else ChannelClosed())

    async def _read(self, nursery: trio.Nursery) -> None:
        """Read messages; all but expected answers at the peer's pace."""
        while True:
            try:
                data = await self._channel.receive()
            except LineDropped as lost:
                log.info("%s sent more than there is room for (global_buffer_bytes): a message was dropped", self.name)
                id = id_at_edges(*lost.edges)
                if id is not None:
                    text = f"{self.name} has answered, but the hub holds too much to take it; try again in a moment"
                    self.fail(id, Overloaded(text, executed=Executed.YES))
                continue
            try:
                message = jsonrpc.decode(data, strict=self.strict)
            except RemoteProtocolError as error:
                if jsonrpc.is_batch(data):
                    await self._handle_batch(data, nursery)
                else:
                    await self._drop_malformed(data, error)
                continue
            if not self._handle(message, nursery):
                await self._pace.keep(len(data))
            elif self.messages % TURN == 0:
                await trio.lowlevel.checkpoint()  # other peers have their turn: each answer is passed on as it is read

    async def _handle_batch(self, data: bytes, nursery: trio.Nursery) -> None:
        """Take the messages of a batch (2025-03-26)."""
        await self._pace.turn(len(data))
        try:
            parts = jsonrpc.split_batch(data)
        except RemoteProtocolError as error:
            await self._drop_malformed(data, error)
            return
        for part in parts:
            try:
                message = jsonrpc.decode(part, strict=self.strict)
            except RemoteProtocolError as error:
                await self._drop_malformed(part, error)
            else:
                if self._handle(message, nursery):
                    await self._pace.turn(len(part))
                else:
                    await self._pace.keep(len(part))

    def _handle(self, message: jsonrpc.Message, nursery: trio.Nursery) -> bool:
        """Handle one message; True: it is an answer that a caller has waited for."""
        self.messages += 1
        if isinstance(message, Response):
            on_answer = None if message.id is None else self._waiting.pop(message.id, None)
            if on_answer is None:
                self.stray_answers += 1
                return False
            try:
                on_answer(message.reply)
            except Exception:  # a fault ends this request alone
                log.exception("an answer of %s could not be passed on", self.name)
            self._bad_in_a_row = 0
            return True
        self._bad_in_a_row = 0
        if isinstance(message, Request):
            self._handle_request(message, nursery)
        elif message.method == CANCELLED and self._takes_requests:
            for id, scope in self._answering.items():
                if raw(id) == message.params.get("requestId"):
                    scope.cancel()
        else:
            self.on_notification(message)
        return False

    async def _drop_malformed(self, data: bytes, error: RemoteProtocolError) -> None:
        """Drop a malformed message: requests in it are refused, callers that wait for an answer in it told at once."""
        self.bad_messages += 1
        self._bad_in_a_row += 1
        for found in jsonrpc.recover_ids(data, error):
            if found.id is None:
                continue
            if found.is_answer:
                self.fail(found.id, error)
            elif found.is_request and self._takes_requests and not self._ignores_answers():
                self._respond(found.id, error.failure, "an error")
        now = trio.current_time()
        if now - self._complained_at >= COMPLAIN_EVERY_S:
            self._complained_at = now
            shown = self.mask(data[:MASKED_BYTES].decode(errors="replace"))[:SHOWN_CHARS]
            log.warning("%s sent what is not a message (%s): %r", self.name, self.mask(str(error)), shown)
            if self.on_complaint is not None:
                self.on_complaint(f"sent what is not a message: {shown}")
        if self._bad_in_a_row >= MAX_BAD_MESSAGES:
            raise BadPeer(f"sent {MAX_BAD_MESSAGES} lines that are not messages, and nothing of use between them")
        await self._pace.keep(len(data))

    # --- answering ----------------------------------------------------------------------------------------------------

    def _handle_request(self, request: Request, nursery: trio.Nursery) -> None:
        if not self._takes_requests or self._ignores_answers():
            self.refused_requests += 1
        elif request.method == PING:
            self._respond(request.id, Result(jsonrpc.EMPTY), PING)
        elif len(self._answering) >= MAX_QUESTIONS or request.id in self._answering:
            self.refused_requests += 1
            failure = Failure(INTERNAL_ERROR, "Too many requests at a time, or one id used twice")
            self._respond(request.id, failure, "a refusal")
        else:
            scope = self._answering[request.id] = trio.CancelScope()
            nursery.start_soon(self._answer, request, self.on_request(request), scope)

    def _ignores_answers(self) -> bool:
        """True if the peer sends requests without reading the answers."""
        if not self._channel.queued_bytes:
            self._unread_bytes = 0
        return self._unread_bytes > MAX_UNREAD_BYTES

    def _respond(self, id: RequestId, reply: Reply, what: str) -> None:
        answer = jsonrpc.encode_response(id, reply)
        self._unread_bytes += len(answer)
        self._send_if_possible(answer, what)

    async def _answer(self, request: Request, answering: Awaitable[Reply], scope: trio.CancelScope) -> None:
        reply: Reply = Failure(INTERNAL_ERROR, "The request could not be answered")
        try:
            with scope:
                reply = await answering
        except Exception:  # a fault ends this request alone
            log.exception("answering %s of %s failed", request.method, self.name)
        finally:
            del self._answering[request.id]
        if not scope.cancelled_caught:
            self._respond(request.id, reply, "an answer")
