"""Peer session: what sessions over one shared stream have in common, which are stdio and HTTP+SSE of 2024-11-05.

All answers and notifications arrive on one stream. Answers and progress find their call by id and token; a log message
names no call, so it is attributed only if all calls that run are of one host, and all that ended lately of its
program; nothing is guessed. The same goes for questions, which `questions` attributes.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio
from msgspec import Raw

from hub.link import hub_errors
from hub.link.call_interface import Done, Exchange, Operation, Program
from hub.link.channel import Channel, ChannelClosed, OutboxFull
from hub.link.outbox import Outbox
from hub.link.peer import BadPeer, Peer
from hub.link.sync_primitives import Wakeup
from hub.wire import mcp
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import Notification, RemoteProtocolError, Reply, peek_object
from upstreams.deadline_watch import deadline_watch
from upstreams.questions.attribution import host_of, task_begun, task_finished
from upstreams.running_call import Running
from upstreams.session_contract import COMMON, CallTimeouts, SessionEvents, SessionTerms
from upstreams.transports.request_params_for_era import stamp_call, stamp_own
from upstreams.transports.session_base import SessionFrame, announce

log = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 320
"""Calls in one session at a time."""
SILENT_TIMEOUTS: Final = 3
"""Timeouts in a row, with nothing heard meanwhile, until a session is given up."""
NO_FACTS: Final = ServerFacts("", {}, {}, "")
"""The facts of a server before hands are shaken."""
_END_TASKS: Final = frozenset({mcp.TASKS_RESULT, mcp.TASKS_CANCEL})


class _PeerCall(Running):
    """An operation that was sent over the peer of `session`; it is called with the answer."""

    __slots__ = ("began", "heard", "mark", "session")

    def __init__(
        self, session: "StreamSession", operation: Operation, exchange: Exchange, timeouts: CallTimeouts, done: Done
    ) -> None:
        peer, outbox = session.peer, session.outbox
        self.session = session
        self.began = now = session.clock.current_time()
        self.heard = peer.messages
        """Messages that had come before."""
        self.mark = outbox.accepted_bytes if outbox else 0
        """Bytes that the outbox had taken before."""
        Running.__init__(self, peer.next_id(), operation, exchange, timeouts, now, done)

    def __call__(self, answer: Reply | Exception) -> None:
        if isinstance(answer, Exception):
            self.session.on_over(self)
            self.end(answer if isinstance(answer, hub_errors.HubError) else self.session.failure(answer, self.mark))
            return
        operation = self.operation
        if "task" in operation.params or operation.method in _END_TASKS:
            self.session.on_task_reply(self, answer)
        self.session.on_over(self)
        self.end(answer)

    def on_cancel(self) -> None:
        self.session.peer.withdraw(self.id)
        self.session.on_over(self)

    def on_time_up(self) -> None:
        self.on_cancel()
        self.session.on_time_up(self)


class StreamSession(SessionFrame):
    """A session over a `Peer`. Satisfies `upstreams.session_contract.Session`. The `run` of a subclass gives `_attach`
    a channel, shakes hands through `self.peer`, says by `_agreed` what came of that, and calls `started` with
    itself."""

    def __init__(self, name: str, events: SessionEvents, terms: SessionTerms = COMMON) -> None:
        super().__init__(name, events, terms, one_stream=True)
        self.peer: Peer
        self.facts = NO_FACTS
        self.era = mcp.Era.LEGACY
        self.outbox: Outbox | None = None
        self._listens: dict[int, Callable[[Notification], None]] = {}
        """Receivers of what belongs to a `subscriptions/listen`, by its id."""
        self._silent_timeouts = 0
        self._counted_at = float("-inf")
        """Time of the last of them."""
        self._heard_then = 0
        self._fault = ""
        self._scope = trio.CancelScope()
        """The scope of the subclass's `run`: cancelled when the session is given up."""

    def _attach(self, channel: Channel, outbox: Outbox | None = None) -> Peer:
        self.outbox = outbox
        self.clock = trio.lowlevel.current_clock()  # asked twice in every call: without detours
        self.watch = deadline_watch()
        self.peer = Peer(
            channel,
            on_request=self._questions.receive,
            on_notification=self._on_notification,
            on_end=self._ended,
            on_complaint=self.events.note,
            mask=self.terms.mask,
            name=self.name,
        )
        return self.peer

    def _agreed(self, facts: ServerFacts) -> None:
        self.facts = facts
        self.era = mcp.era_of(facts.version)
        if self.era is mcp.Era.MODERN:  # there are no requests of the upstream, nor pings
            self.peer.refuse_requests()
            self._ping_s = 0.0

    async def _listen(self) -> None:
        """Read until the peer is gone or given up; then all calls have failed."""
        try:
            await self.peer.run()
        except BadPeer as error:
            self._fault = self._fault or str(error)

    async def _listen_to_end(self) -> None:
        await self._listen()
        self._scope.cancel()

    def _heard(self) -> int:
        return self.peer.messages

    async def _send_ping(self) -> None:
        """Ping; that the upstream knows no ping is an answer, too. Over HTTP+SSE this finds out that the server forgot
        the session."""
        try:
            await self.request(mcp.PING, {})
        except hub_errors.HubError as error:
            log.debug("%s was not pinged: %s", self.name, error)

    def _ended(self) -> None:
        """Send nothing more: what calls are told of that must stay true."""
        if self.outbox is not None:
            self.outbox.close()
        self.events.ended()

    def give_up(self, fault: str) -> None:
        """End the session because of what the upstream did."""
        self._fault = self._fault or fault
        self._scope.cancel()

    # --- asking -------------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts) -> Reply:
        await trio.lowlevel.checkpoint_if_cancelled()
        outcome: Wakeup[Reply] = Wakeup()
        return await outcome.wait(self.begin(operation, exchange, timeouts, outcome).cancel)

    def begin(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, done: Done) -> Running:
        if len(self.running) >= MAX_IN_FLIGHT:
            text = f"{self.name} has {MAX_IN_FLIGHT} calls to work off; try again later"
            raise hub_errors.Overloaded(text, upstream=self.name)
        if (principal := exchange.caller.identity.principal) != self._questions.principal:
            self._questions.serve(principal)
        call = _PeerCall(self, operation, exchange, timeouts, done)
        params = stamp_call(self.era, self.facts.version, operation, exchange, call.id, self.declared)
        try:
            self.peer.post(call.id, operation.method, params, call)
        except (ChannelClosed, OutboxFull) as error:
            raise self.failure(error, call.mark) from None
        self._enter(call)
        self.watch.add(call)
        return call

    def on_task_reply(self, call: _PeerCall, reply: Reply) -> None:
        """The reply to a call that was to begin a task or to end one."""
        recent_calls, now = self._questions.recent_calls, self.clock.current_time()
        if "task" in call.operation.params:
            self._tokens.began(reply, call.id)
            if (begun := task_begun(reply)) is not None:
                task, kept_s = begun
                recent_calls.begun(task, call.exchange.caller.program, now + kept_s, now)
        if call.operation.method in _END_TASKS:
            recent_calls.finished(task_finished(call.operation, reply), now)

    def on_over(self, call: _PeerCall) -> None:
        """`call` is over; the upstream may go on with it, and speak of it."""
        self.leave(call)
        if not self.terms.exclusive:
            self._questions.recent_calls.ended(call.exchange.caller.program, self.clock.current_time())

    def on_time_up(self, call: _PeerCall) -> None:
        """Count a timeout; after several in which nothing at all was heard, give the upstream up.

        Calls that ran side by side count once: one thing may be wrong with all of them, and others with none. An
        upstream that waits for an answer itself may have no time for others.
        """
        heard = self.peer.messages
        if heard == call.heard and call.began >= self._counted_at and not self._questions.waits:
            self._silent_timeouts = self._silent_timeouts + 1 if heard == self._heard_then else 1
            self._heard_then, self._counted_at = heard, self.clock.current_time()
            if self._silent_timeouts >= SILENT_TIMEOUTS:
                self.give_up(f"did not answer {SILENT_TIMEOUTS} calls in a row")
        text = f"{self.name} did not answer in time and was told to stop; whether it acted is unknown"
        call.end(hub_errors.DeadlineExceeded(text, upstream=self.name))

    async def request(self, method: str, params: dict[str, Raw], *, id: int | None = None) -> Reply:
        mark = self.outbox.accepted_bytes if self.outbox else 0
        params = stamp_own(self.era, self.facts.version, params, self.terms.extensions)
        try:
            return await self.peer.request(method, params, id=id)
        except (ChannelClosed, OutboxFull, BadPeer, RemoteProtocolError) as error:
            raise self.failure(error, mark) from None

    def speak_of(self, program: Program) -> None:
        if not self.terms.exclusive:
            self._questions.recent_calls.ended(program, self.clock.current_time())

    async def listen(self, params: dict[str, Raw], hear: Callable[[Notification], None]) -> Reply:
        id = self.peer.next_id()
        self._listens[id] = hear
        try:
            return await self.request(mcp.LISTEN, params, id=id)
        finally:
            del self._listens[id]

    def failure(self, error: Exception, mark: int) -> hub_errors.HubError:
        """The error of a call, made of `error` of the peer. Returned, not raised: raising an error that a frame holds
        makes a cycle, which keeps the message in memory."""
        name = self.name
        match error:
            case OutboxFull():
                return hub_errors.Overloaded(f"{name} does not take its input; nothing was sent", upstream=name)
            case RemoteProtocolError():
                text = f"{name} answered with a malformed message: {error}"
                return hub_errors.UpstreamProtocolError(text, upstream=name)
            case _ if self.outbox is not None and self.outbox.delivered_bytes <= mark:
                return hub_errors.UpstreamUnavailable(f"{name} ended before the call was sent to it", upstream=name)
            case BadPeer():
                return hub_errors.UpstreamProtocolError(f"{name} {error} and was stopped", upstream=name)
            case _:
                text = f"{name} ended while the call was with it; whether it acted is unknown"
                return hub_errors.UpstreamLost(text, upstream=name)

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _on_notification(self, notification: Notification) -> None:
        if notification.method == mcp.PROGRESS:
            self._report_progress(notification.params, self.running)
        elif notification.method == mcp.MESSAGE:
            if running := self._attribute():
                running.touch()
            self._report_log(notification.params, running)
        elif hear := self._subscription(notification):
            hear(notification)
        else:
            announce(self.events, notification)

    def _subscription(self, notification: Notification) -> Callable[[Notification], None] | None:
        """The receiver of a notification that belongs to a subscription. A cancelled subscription ends."""
        if self.era is mcp.Era.LEGACY:
            return None
        if notification.method == mcp.CANCELLED:
            if (id := _number(notification.params.get("requestId"))) in self._listens:
                self.peer.fail(id, RemoteProtocolError(mcp.INTERNAL_ERROR, "the subscription was cancelled"))
            return None
        return self._listens.get(_number(peek_object(notification.params.get("_meta")).get(mcp.SUBSCRIPTION_KEY)))

    def _attribute(self) -> Running | None:
        """The call that a message without an address belongs to: the newest, if all are of one host, and those that are
        over here but perhaps not there are of its program."""
        owner: Running | None = None
        for running in self.running.values():
            if owner is not None and not self.terms.exclusive and host_of(owner) != host_of(running):
                return None
            owner = running
        if owner is None or self.terms.exclusive or self._questions.is_plain(owner.exchange.caller.program):
            return owner
        return None

    def _notify(self, method: str, params: dict[str, Raw]) -> None:
        self.peer.notify(method, params)


def _number(value: Raw | None) -> int:
    """An id of ours; 0, which none has, for anything else."""
    text = b"" if value is None else bytes(value)
    return int(text) if text.isdigit() and len(text) < 20 else 0
