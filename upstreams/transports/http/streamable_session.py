"""Streamable HTTP of both eras: the frame of a call, and serving until the session ends.

Each answer is read in the frame of the call that asked, so what arrives on it belongs to that call: attribution is
lexical, and there is no table of requests. There is no task per call either. `run` owns the nursery in which everything
else happens: withdrawals, answers to questions of the upstream, the standing stream of legacy servers.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

import trio
from msgspec import Raw

from hub.link import hub_errors
from hub.link.call_interface import Done, Exchange, Operation, Program
from hub.wire.jsonrpc import Notification, Reply, Request
from hub.wire.mcp import COMPLETE, DISCOVER, LIST_METHOD, MESSAGE, PING, PROGRESS, PROMPTS_GET, RESOURCES_READ, Kind
from upstreams.questions.running import Running
from upstreams.session import (
    COMMON,
    CallTimeouts,
    Session,
    SessionEvents,
    SessionTerms,
    announce,
    stamp_call,
    stamp_own,
)
from upstreams.transports.http.poster import Poster
from upstreams.transports.session_frame import SessionFrame

RESENDABLE: Final = frozenset({*LIST_METHOD.values(), RESOURCES_READ, PROMPTS_GET, COMPLETE, PING, DISCOVER})
"""Requests that may be sent twice."""
SWEEP_S: Final = 30.0
PROBE_S: Final = 15.0
MAX_FAULTS: Final = 5
"""Calls in a row that may be answered with nonsense, or with a status that is none of MCP's."""
GOODBYE_S: Final = 2.0

log = logging.getLogger(__name__)


class _ScopedCall(Running):
    """An operation that is carried out in the task of its caller, within `scope`."""

    __slots__ = ("scope",)

    def __init__(self, id: int, operation: Operation, exchange: Exchange, timeouts: CallTimeouts) -> None:
        Running.__init__(self, id, operation, exchange, timeouts, trio.current_time(), None)
        self.scope = trio.CancelScope(deadline=self.deadline)

    def put_off(self, deadline: float) -> None:
        self.deadline = self.scope.deadline = deadline


class StreamableSession(SessionFrame):
    """One conversation over Streamable HTTP, already opened. Satisfies `upstreams.session.Session`."""

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
        self._checking = False
        self._suspected_at = float("-inf")

    # --- asking -------------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts) -> Reply:
        """Run an operation. Progress and logs of its answer go to `exchange`; each of them restarts the idle time.
        Raises DeadlineExceeded: nothing complete came within the idle time, or no response within the total; HubError:
        as `Poster` says. Cancellation: the upstream is told, the connection closed."""
        id = self.next_id()
        params = stamp_call(self.era, self.facts.version, operation, exchange, id, self._declared)
        running = _ScopedCall(id, operation, exchange, timeouts)
        self._enter(running)

        def on_message(message: Request | Notification) -> None:
            running.touch()
            self.deliver(message, running, id)

        try:
            with running.scope:
                reply = await self.send(id, operation.method, params, on_message)
                if self._faults:
                    self._faults = 0
                if "task" in params:
                    self._tokens.began(reply, id)
                return reply
        except trio.Cancelled:
            self.withdraw(id, "The caller has cancelled")
            raise
        except hub_errors.UpstreamUnavailable as error:
            self.end(error)
            raise
        except hub_errors.UpstreamUnauthorized as error:
            self._suspect(error)
            raise
        except hub_errors.UpstreamProtocolError as error:
            self._faults += 1
            if self._faults >= MAX_FAULTS:  # later sessions come at growing intervals
                self.give_up(f"{MAX_FAULTS} calls in a row failed; the last: {error}")
            raise
        finally:
            self._leave(running)
        self.withdraw(id, "The time is up")
        if self.silent_s is not None:
            self.give_up("it answers neither pings nor calls")
        text = f"{self.name} did not answer in time; whether it acted is unknown"
        raise hub_errors.DeadlineExceeded(text, upstream=self.name)

    def begin(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, done: Done) -> Running | None:
        return None

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        """A request of the hub's own. Deadlines are the caller's. Raises HubError: as `call`. Cancellation: as
        `call`."""
        id = self.next_id()
        try:
            params = stamp_own(self.era, self.facts.version, params, self.terms.extensions)
            return await self.send(id, method, params, self.deliver)
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
        self, id: int, method: str, params: dict[str, Raw], on_message: Callable[[Request | Notification], None]
    ) -> Reply:
        """Post one request, read its answer."""
        raise NotImplementedError

    def withdraw(self, id: int, reason: str) -> None:
        """Tell the upstream that request `id` is cancelled, if closing its stream does not say so already."""

    # --- hearing ------------------------------------------------------------------------------------------------------

    def deliver(self, message: Request | Notification, running: Running | None = None, id: int | None = None) -> None:
        """Hand on what the upstream said while answering call `id`, which is `running`, or on its own."""
        if isinstance(message, Request):
            log.debug("%s sent a request, %s, which is ignored", self.name, message.method)
        elif message.method == PROGRESS:
            self._report_progress(message.params, {} if running is None or id is None else {id: running})
        elif message.method == MESSAGE:
            if running is None and self.terms.exclusive:
                running = next(reversed(self.running.values()), None)
            self._report_log(message.params, running)
        elif not announce(self.events, message):
            log.debug("%s sent a %s, which is ignored", self.name, message.method)

    def speak_of(self, program: Program) -> None:
        """Do nothing: what the server says of a request comes with its answer."""

    # --- serving ------------------------------------------------------------------------------------------------------

    async def run(self, started: Callable[[Session], None]) -> None:
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
