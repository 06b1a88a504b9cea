"""Passage: the way of one intent through its chain, without a task as far as nothing holds it up.

    begin -> answered at once, or sent -> its reply -> `on_end`
          -> run, in the task of whoever asked          (a stage waits, or the upstream is not ready)
    sent  -> run, in a task of the hub -> `on_end`      (the reply is not the end of it)

`run` carries on from where the passage has come to: no stage is passed twice.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from hub.calls.chain import WAIT, Intent, Section, Wait, go_through
from hub.link.call_interface import RunningCall
from hub.link.hub_errors import UpstreamUnavailable
from hub.link.log_context import SUBJECT, spell_ref
from hub.wire.jsonrpc import Reply

log = logging.getLogger("hubd.host")

Start = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task of the hub that outlives whoever asked."""
OnEnd = Callable[[Reply | Exception | None], None]
"""Gets the outcome of a passage: the reply for the host, the error of the hub, or None if it was cancelled."""


class Passage:
    """One intent on its way. Satisfies `hub.link.call_interface.RunningCall`."""

    __slots__ = ("_first", "_inner", "_on_end", "_outer", "_running", "_scope", "_start", "intent")

    def __init__(self, intent: Intent) -> None:
        self.intent = intent
        self._outer = Section(intent.target.chain.outer, intent)
        self._inner: Section | None = None
        """The inner stages, as far as the first message has passed them."""
        self._first: Reply | Exception | None = None
        """The outcome of the first message, which was sent without a task."""
        self._running: RunningCall | None = None
        self._scope: trio.CancelScope | None = None

    def begin(self, on_end: OnEnd, start: Start) -> Reply | Wait | None:
        """Take the intent as far as it comes in one step.

        None: it was sent, and `on_end` gets its outcome, in a later step and never twice; it must not raise. A reply:
        that is all. WAIT: only `run` can go on. `start`: for a reply that is not the end of it.
        """
        intent, chain = self.intent, self.intent.target.chain
        if self._outer.verdict is None and chain.eras.passes(intent):
            self._inner = inner = Section(chain.inner, intent)
            if inner.verdict is None:
                try:
                    self._running = intent.target.upstream.begin(intent.operation, intent.exchange, self._hear)
                except Exception as error:  # noqa: BLE001 - `run` raises it, behind the stages
                    self._first = error
            if self._running is not None:
                self._on_end, self._start = on_end, start
                return None
        reply = self.answer()
        return WAIT if reply is None else reply

    def answer(self) -> Reply | None:
        """The reply of an outer stage, which ends it; None: there is none, and it can be run."""
        verdict = self._outer.verdict
        if verdict is None or isinstance(verdict, Wait):
            return None
        self._outer.leave(verdict)
        return verdict

    def cancel(self) -> None:
        """End it. What was sent the upstream is told of, and `on_end` gets None."""
        self._note_ref()
        if self._scope is not None:
            self._scope.cancel()
            return
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
        if self._inner is not None:
            self._inner.leave(None)
        self._outer.leave(None)
        if running is not None:
            self._on_end(None)

    def _hear(self, outcome: Reply | Exception) -> None:
        self._running = None
        intent, chain = self.intent, self.intent.target.chain
        try:
            if isinstance(outcome, Exception) or not chain.eras.is_final(intent, outcome):
                self._first, self._scope = outcome, trio.CancelScope()
                self._start(self._end)
                return
            assert self._inner is not None, "it was sent"
            self._inner.leave(outcome)
            reply = chain.way_back(intent, outcome)
        except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
            self._note_ref()
            self._outer.leave(error)
            self._on_end(error)
        else:
            self._outer.leave(reply)
            self._on_end(reply)

    async def _end(self) -> None:
        outcome: Reply | Exception | None = None
        try:
            assert self._scope is not None
            with self._scope:
                outcome = await self.run()
        except Exception as error:  # noqa: BLE001 - as in `_hear`
            outcome = error.with_traceback(None)
        try:
            self._on_end(outcome)
        except Exception:  # a wall: other tasks of the hub go on
            log.exception("an answer could not be given")

    async def run(self) -> Reply:
        """Carry the intent out, from where it has come to: no stage is passed twice. The reply for the host.

        Raises:
            HubError: there is no answer.
        Cancellation: passes to the upstream.
        """
        self._note_ref()
        before = SUBJECT.set(self.intent)
        try:
            return await self._outer.carry(self._cross)
        finally:
            SUBJECT.reset(before)
            if self._inner is not None:  # the eras have sent nothing
                inner, self._inner = self._inner, None
                inner.leave(None)

    def _note_ref(self) -> None:
        """Have a failure tell which operation it is about."""
        self.intent.host.note_ref(spell_ref(self.intent.ref))

    async def _cross(self, intent: Intent) -> Reply:
        chain = intent.target.chain
        return chain.way_back(intent, await chain.eras.call(intent, self._send))

    async def _send(self, intent: Intent) -> Reply:
        """Carry out one message to the upstream. What `begin` has passed is for the first."""
        if self._inner is None:
            return await go_through(intent.target.chain.inner, call_upstream, intent)
        inner, self._inner = self._inner, None
        inner.intent = intent
        return await inner.carry(self._call)

    async def _call(self, intent: Intent) -> Reply:
        first, self._first = self._first, None
        if first is None or isinstance(first, UpstreamUnavailable):  # nothing was sent
            return await call_upstream(intent)
        if not isinstance(first, Exception):
            return first
        try:
            raise first
        finally:
            del first  # a cycle: the exception's traceback holds this frame


async def call_upstream(intent: Intent) -> Reply:
    """The seam: behind all stages. Raises as `Upstream.call`."""
    return await intent.target.upstream.call(intent.operation, intent.exchange)
