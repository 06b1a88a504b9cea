"""Streamable HTTP of both eras: the frame of a call, and serving until the session ends.

Each answer is read for the call that asked, so what arrives on it belongs to that call: there is no table of requests.
An answer in one piece, on a kept connection, is taken by the reader of that (`taskless_answers`), any other by the task
of the caller; there is no task per call. `run` owns the nursery in which everything else happens: withdrawals, answers
to questions of the upstream, the standing stream of legacy servers.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

import trio
from msgspec import Raw

from hub.link import hub_errors
from hub.link.call_interface import Done, Exchange, Operation, Program
from hub.wire.jsonrpc import Failure, Notification, Reply, Request
from hub.wire.mcp import COMPLETE, DISCOVER, LIST_METHOD, MESSAGE, PING, PROGRESS, PROMPTS_GET, RESOURCES_READ, Kind
from upstreams.deadline_watch import deadline_watch
from upstreams.running_call import Running
from upstreams.session_contract import COMMON, CallTimeouts, SessionEvents, SessionTerms
from upstreams.transports.http.answer_stream import OnMessage
from upstreams.transports.http.client import BegunRequest
from upstreams.transports.http.poster import Poster, takes_time
from upstreams.transports.http.taskless_answers import read_answer
from upstreams.transports.request_params_for_era import stamp_call, stamp_own
from upstreams.transports.session_base import SessionFrame, announce

RESENDABLE: Final = frozenset({*LIST_METHOD.values(), RESOURCES_READ, PROMPTS_GET, COMPLETE, PING, DISCOVER})
"""Requests that may be sent twice."""
SWEEP_S: Final = 30.0
PROBE_S: Final = 15.0
MAX_FAULTS: Final = 5
"""Calls in a row that may be answered with nonsense, or with a status that is none of MCP's."""
GOODBYE_S: Final = 2.0

Receive = Callable[[OnMessage], Awaitable[Reply]]
"""Waits for the reply to a call; what else is said goes to its argument."""

log = logging.getLogger(__name__)


class HttpCall(Running):
    """An operation over HTTP. While an `AnswerReader` has it, the watch over deadlines does, too; in a task that waits
    for its answer it is bounded by `scope`."""

    __slots__ = ("is_cancelled", "params", "rest", "scope", "sent", "session")

    sent: BegunRequest

    def __init__(
        self,
        session: "StreamableSession",
        operation: Operation,
        exchange: Exchange,
        timeouts: CallTimeouts,
        done: Done | None = None,
    ) -> None:
        Running.__init__(self, session.next_id(), operation, exchange, timeouts, session.now(), done)
        self.session = session
        version, offer = session.facts.version, session.declared
        self.params = stamp_call(session.era, version, operation, exchange, self.id, offer)
        self.rest: Receive | None = None
        """The rest of the work on the answer."""
        self.scope: trio.CancelScope | None = None
        self.is_cancelled = False

    def put_off(self, deadline: float) -> None:
        if self.scope is None:
            super().put_off(deadline)
        else:
            self.scope.deadline = deadline

    def on_message(self, message: Request | Notification) -> None:
        """The upstream said something while it answers."""
        self.touch()
        self.session.deliver(message, self)

    def on_cancel(self) -> None:
        if self.scope is None:
            self._abandon("The caller has cancelled")
        else:
            self.is_cancelled = True
            self.scope.cancel()

    def on_time_up(self) -> None:
        self._abandon("The time is up")
        self.end(self.session.too_late())

    def _abandon(self, reason: str) -> None:
        """End it, which a reader has, before there is an answer."""
        self.session.leave(self)
        self.session.poster.client.drop(self.sent.connection)
        self.session.withdraw(self.id, reason)

    # --- for its reader -----------------------------------------------------------------------------------------------

    def take(self, body: bytes) -> bool:
        session = self.session
        if self.id not in session.running:
            return True
        poster = session.poster
        if takes_time(body):
            self.rest = partial(poster.read_body, body, self.id)
            return False
        try:
            reply = poster.pick(body, self.id, self.on_message)
        except hub_errors.HubError as error:
            self.fail(error)
            return True
        if isinstance(reply, Failure) and session.needs_judgement(reply):
            self.rest = partial(session.judge, reply, self.operation.method, self.params)
            return False
        session.on_reply(self, reply)
        session.leave(self)
        self.end(reply)
        return True

    def fail(self, error: hub_errors.HubError) -> None:
        if self.id in self.session.running:  # else it is over already, or a fault of the hub
            self.session.leave(self)
            self.session.note_failure(error)
        self.end(hub_errors.without_frames(error))

    async def carry_on(self) -> None:
        session = self.session
        if self.id not in session.running:
            return
        session.watch.remove(self)
        try:
            rest = self.rest or partial(session.send, self.id, self.operation.method, self.params, begun=self.sent)
            self.end(await session.receive(self, rest))
        except hub_errors.HubError as error:
            self.end(hub_errors.without_frames(error))


class StreamableSession(SessionFrame):
    """One conversation over Streamable HTTP, already opened. Satisfies `upstreams.session_contract.Session`."""

    transport = "http"

    def __init__(self, poster: Poster, events: SessionEvents, terms: SessionTerms = COMMON) -> None:
        super().__init__(poster.name, events, terms)
        self.poster = poster
        self.next_id = count(1).__next__
        """Takes an id never used before in this session; also the progress token of the request."""
        self._nursery: trio.Nursery | None = None
        self._ended = trio.Event()
        self._end: hub_errors.HubError | None = None
        self._faults = 0
        """Calls in a row that were answered with something that is no answer."""
        self._answers = 0
        """Answers of the upstream to requests."""
        self.now = trio.lowlevel.current_clock().current_time
        self.watch = deadline_watch()
        self._checking = False
        self._suspected_at = float("-inf")

    # --- asking -------------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts) -> Reply:
        """Run an operation. Progress and logs of its answer go to `exchange`; each of them restarts the idle time.
        Raises DeadlineExceeded: nothing complete came within the idle time, or no response within the total; HubError:
        as `Poster` says. Cancellation: the upstream is told, the connection closed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = HttpCall(self, operation, exchange, timeouts)
        self._enter(call)
        return await self.receive(call, partial(self.send, call.id, operation.method, call.params))

    def begin(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, done: Done) -> Running | None:
        """As `Session.begin`: on a kept connection without TLS, while the server answers in one piece."""
        if not self.poster.can_begin:
            return None
        call = HttpCall(self, operation, exchange, timeouts, done)
        if (sent := self.send_at_once(call.id, operation.method, call.params)) is None:
            return None
        call.sent = sent
        self._enter(call)
        self.watch.add(call)
        read_answer(self.poster.client, call)
        return call

    async def receive(self, call: HttpCall, receive: Receive) -> Reply:
        """The reply that `receive` waits for, bounded by the time of `call`. Raises HubError: as `call`."""
        try:
            with trio.CancelScope(deadline=call.deadline) as call.scope:
                reply = await receive(call.on_message)
                self.on_reply(call, reply)
                return reply
        except trio.Cancelled:
            self.withdraw(call.id, "The caller has cancelled")
            raise
        except hub_errors.HubError as error:
            self.note_failure(error)
            raise
        finally:
            self.leave(call)
        if call.is_cancelled:
            self.withdraw(call.id, "The caller has cancelled")
            raise hub_errors.UpstreamLost("nobody waits for the answer", upstream=self.name)
        self.withdraw(call.id, "The time is up")
        raise self.too_late()

    def too_late(self) -> hub_errors.DeadlineExceeded:
        """The error of a call that was not answered in time; the session is given up if nothing else is, either."""
        if self.silent_s is not None:
            self.give_up("it answers neither pings nor calls")
        text = f"{self.name} did not answer in time; whether it acted is unknown"
        return hub_errors.DeadlineExceeded(text, upstream=self.name)

    def on_reply(self, call: HttpCall, reply: Reply) -> None:
        """`call` was answered."""
        self._faults = 0
        self._answers += 1
        if "task" in call.params:
            self._tokens.began(reply, call.id)

    def note_failure(self, error: hub_errors.HubError) -> None:
        """Judge what the failure of a call says of the session."""
        match error:
            case hub_errors.UpstreamUnavailable():
                self.end(error)
            case hub_errors.UpstreamUnauthorized():
                self._suspect(error)
            case hub_errors.UpstreamProtocolError():
                self._faults += 1
                if self._faults >= MAX_FAULTS:  # later sessions come at growing intervals
                    self.give_up(f"{MAX_FAULTS} calls in a row failed; the last: {error}")

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        """A request of the hub's own. Deadlines are the caller's. Raises HubError: as `call`. Cancellation: as
        `call`."""
        id = self.next_id()
        try:
            params = stamp_own(self.era, self.facts.version, params, self.terms.extensions)
            reply = await self.send(id, method, params, self.deliver)
            self._answers += 1
            return reply
        except trio.Cancelled:
            self.withdraw(id, "No longer needed")
            raise
        except hub_errors.UpstreamUnavailable as error:
            self.end(error)
            raise

    def _suspect(self, error: hub_errors.UpstreamUnauthorized) -> None:
        """A call was refused for its credentials: find out whether all calls are, so that it shows. Access
        that is denied to somebody who is known (403) says nothing of other calls."""
        due = trio.current_time() >= self._suspected_at + SWEEP_S
        if due and error.kind == hub_errors.UpstreamUnauthorized.kind and self._nursery is not None:
            self._suspected_at = trio.current_time()
            self._nursery.start_soon(self.check)

    async def check(self) -> None:
        """Find out whether the session is still good; end it if not."""
        if self._checking:
            return
        self._checking = True
        try:
            await self.probe()
        except (hub_errors.UpstreamUnavailable, hub_errors.UpstreamUnauthorized) as error:
            self.end(error)
        finally:
            self._checking = False

    async def probe(self) -> None:
        """Ask something that a server of any use answers; end the session if it says that it has none. Raises
        UpstreamUnavailable, UpstreamUnauthorized: there is no way to it."""
        harmless = hub_errors.UpstreamProtocolError, hub_errors.UpstreamLost, hub_errors.Overloaded
        with suppress(*harmless), trio.move_on_after(PROBE_S):
            await self.request(DISCOVER, {})

    async def listen(self, params: dict[str, Raw], hear: Callable[[Notification], None]) -> Reply:
        """Refuse: a legacy server says all of that on its standing stream."""
        text = f"{self.name} speaks a revision without such subscriptions"
        raise hub_errors.UpstreamUnavailable(text, upstream=self.name)

    async def send(
        self, id: int, method: str, params: dict[str, Raw], on_message: OnMessage, begun: BegunRequest | None = None
    ) -> Reply:
        """Post one request, read its answer. `begun`: `send_at_once` did post it."""
        raise NotImplementedError

    def send_at_once(self, id: int, method: str, params: dict[str, Raw]) -> BegunRequest | None:
        """Post one request now; None: as `HttpClient.begin`."""
        raise NotImplementedError

    def needs_judgement(self, failure: Failure) -> bool:
        """True if `judge` has something to do about `failure`."""
        return False

    async def judge(self, failure: Failure, method: str, params: dict[str, Raw], on_message: OnMessage) -> Reply:
        """The reply to a request in place of `failure`: it may have to be sent in another way."""
        return failure

    def withdraw(self, id: int, reason: str) -> None:
        """Tell the upstream that request `id` is cancelled, if closing its stream does not say so already."""

    # --- hearing ------------------------------------------------------------------------------------------------------

    def deliver(self, message: Request | Notification, running: Running | None = None) -> None:
        """Hand on what the upstream said while answering the call `running`, or on its own."""
        if isinstance(message, Request):
            log.debug("%s sent a request, %s, which is ignored", self.name, message.method)
        elif message.method == PROGRESS:
            self._report_progress(message.params, {} if running is None else {running.id: running})
        elif message.method == MESSAGE:
            if running is None and self.terms.exclusive:
                running = next(reversed(self.running.values()), None)
            self._report_log(message.params, running)
        elif not announce(self.events, message):
            log.debug("%s sent a %s, which is ignored", self.name, message.method)

    def speak_of(self, program: Program) -> None:
        """Do nothing: what the server says of a request comes with its answer."""

    # --- serving ------------------------------------------------------------------------------------------------------

    async def run(self, started: Callable[["StreamableSession"], None]) -> None:
        """Say that it has started, and serve the session until it ends.

        Raises:
            HubError: why it ended; a new session may do better.
        Cancellation: closes it in good order; calls still running end with `UpstreamLost`. When the session ends by
            itself they may go on: that no new connection is to be had need not mean that theirs are dead.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self.prepare(nursery)
                    started(self)
                    while not self._ended.is_set():
                        with trio.move_on_after(SWEEP_S):
                            await self._ended.wait()
                        self.poster.client.sweep()
                finally:
                    self._nursery = None  # it takes no more tasks once the last one in it is over
                nursery.cancel_scope.cancel()
        finally:
            ended = self._end is not None
            await self.finish()
            self.poster.client.close(abort=not ended)
        assert self._end is not None, "a session that attends no longer has ended"
        raise hub_errors.without_frames(self._end)

    async def prepare(self, nursery: trio.Nursery) -> None:
        """Start what belongs to the session besides calls."""

    async def finish(self) -> None:
        """Say goodbye, within `GOODBYE_S`."""

    def end(self, error: hub_errors.HubError) -> None:
        """The session is of no use any more: `run` raises `error`."""
        if self._end is None:
            self._end = hub_errors.without_frames(error)
            self._ended.set()
            self.events.ended()

    def missed_something(self) -> None:
        """The upstream may have changed without our hearing of it."""
        self.events.changed(tuple(Kind))
        self.events.forgotten()

    def give_up(self, why: str) -> None:
        """End the session: `why` says what happened."""
        self.end(hub_errors.UpstreamLost(f"The session with {self.name} ended: {why}", upstream=self.name))
