"""Parked calls of a hub: calls of modern hosts to legacy upstreams, which may ask and so outlive their requests.

    begin  --- waits for ---+                            +--- task of the call: Upstream.call, ParkedCall.ask
                      ParkedCall: outcome, or a round <--+
    resume --- waits for ---+                            +--- its clock: window, deadline, drain

All tasks are in one nursery. A clock runs only from the first question of a call until a retry is attached. The phases
of a call are in `parked_call_phases`.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from msgspec import Raw

from hub.bridge.parking.known_roots import KnownRoots
from hub.bridge.parking.parked_call import ParkedCall
from hub.bridge.parking.parked_call_phases import CallEvent, ParkedState, Phase
from hub.bridge.sealed_request_state import (
    ELSEWHERE,
    EXPIRED,
    LOST,
    NO_ROUND,
    BadState,
    FirstRound,
    RequestState,
    RequestStates,
    bind,
    input_required,
)
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import HostEnd, Interim, Tenant
from hub.link.fault_isolation import keep_going
from hub.link.hub_errors import Draining, Executed, HubError, UpstreamLost, without_frames
from hub.link.memory_budget import Budget
from hub.wire.jsonrpc import Reply, Request, Result, peek_str
from hub.wire.mcp import LIST_ROOTS
from hub.wire.questions.askable_questions import Question, QuestionRefusal

log = logging.getLogger(__name__)

PARK: Final = "park"
"""Mode of the request states made here."""
COALESCE_S: Final = 0.025
"""Time to wait for further questions after the first."""
DRAIN_S: Final = 2.0
"""Time for an upstream to end a call by itself after its questions stayed unanswered."""
MAX_PARKED: Final = 512
MAX_PARKED_EACH: Final = 32
"""Calls that wait for answers: in all, and of one principal."""
TOMBSTONE_S: Final = 3600.0
MAX_TOMBSTONES: Final = 4096
SWEEP_S: Final = 60.0

_ALONE: Final = (Phase.PARK, Phase.DONE)
"""Phases in which no request is attached."""

Work = Callable[[HostEnd], Awaitable[Reply]]
"""Work of a call, on the exchange that it is given."""


class ParkedCalls:
    """All parked calls of one hub. `ttl_s` and `total_s` limit the wait for answers in calls to come, as in
    `ParkedState`."""

    def __init__(self, states: RequestStates, *, ttl_s: float, total_s: float, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        """Memory of what is held while calls wait."""
        self._states = states
        self.ttl_s, self.total_s = ttl_s, total_s
        self._nursery: trio.Nursery | None = None
        self._calls: dict[str, ParkedCall] = {}
        """Running calls that have asked, by id."""
        self._tombstones: BoundedDict[str, tuple[str, float]] = BoundedDict(MAX_TOMBSTONES)
        """The reason why the call of an id is gone, and until when that is remembered."""
        self.roots = KnownRoots()

    def adjust(self, ttl_s: float, total_s: float) -> None:
        """Change how long answers are waited for, in calls to come."""
        self.ttl_s, self.total_s = ttl_s, total_s

    def calls_without_request(self, upstream: str) -> int:
        """Number of calls of `upstream` without an attached request: their hosts may come back."""
        return sum(each.upstream == upstream and each.state.phase in _ALONE for each in self._calls.values())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks of all calls. Cancellation: upstreams are told; requests still attached get `Draining`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await keep_going("Looking after parked calls", self._sweep)
            finally:
                self._nursery = None

    # --- requests of hosts --------------------------------------------------------------------------------------------

    async def begin(
        self, work: Work, exchange: HostEnd, request: Request, upstream: str, first: FirstRound = NO_ROUND
    ) -> Reply:
        """Run `work` at `upstream` for `request` of the host of `exchange`, which is the `first` of its requests.

        It is given an exchange that lasts as long as it does. Returns what it returns; or, if it asks before, a result
        that asks for input, and the call goes on for `resume`. Raises Draining: the hub is stopping; Exception:
        whatever `work` raises. Cancellation: cancels `work`."""
        if self._nursery is None:
            raise Draining("The hub is stopping", upstream=upstream, executed=Executed.NO)
        state = ParkedState(exchange.caller, ttl_s=self.ttl_s, total_s=self.total_s)
        call = ParkedCall(self._ask, self.abandon, exchange, request, upstream, state, first)
        self._nursery.start_soon(self._carry_out, call, work)
        return await call.wait()

    async def resume(self, state: RequestState, answers: dict[str, Raw], exchange: HostEnd) -> Reply:
        """Resume the call of `state` with the answers of the host of `exchange`, by key.

        Returns as `begin`. Raises BadState: there is no such call any more, or the state was used; RemoteProtocolError:
        an answer is malformed; the host may try again with the same state; Exception: as `begin`. Cancellation: cancels
        the call."""
        id = peek_str(state.members["i"]) or ""
        if (call := self._calls.get(id)) is None:
            reason, _ = self._tombstones.get(id, (EXPIRED if state.expired else LOST, 0.0))
            raise BadState(ELSEWHERE if self._states.is_elsewhere(state.run) else reason)
        round = int(bytes(state.members["n"]))
        call.state.retry(round, answers, exchange.caller, trio.current_time())
        if call.state.phase is Phase.PARK:
            call.patience.deadline = call.state.deadline
            return self._round(call)
        call.clock.cancel()
        if call.state.phase is Phase.GONE:
            self._bury(call)
            return call.outcome()
        call.attach(exchange)
        return await call.wait()

    def abandon(self, call: ParkedCall) -> None:
        """Cancel a call whose attached request was cancelled."""
        if call.state.phase is not Phase.GONE:
            call.state.feed(CallEvent.LEFT)
            self._bury(call)
        call.clock.cancel()
        call.scope.cancel()

    def host_left(self, tenant: Tenant) -> None:
        """End the parked calls of a host that has left for good."""
        for call in self._calls.values():
            if call.caller.tenant == tenant:
                call.patience.cancel()

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def _carry_out(self, call: ParkedCall, work: Work) -> None:
        outcome: Reply | Exception | None = None
        try:
            with call.scope:
                outcome = await work(call)
        except HubError as error:
            outcome = without_frames(error)
        except Exception as error:  # noqa: BLE001 raised again where the outcome is awaited
            outcome = error
        finally:
            self._ended(call, outcome)
            outcome = None  # it may hold this frame

    def _ended(self, call: ParkedCall, outcome: Reply | Exception | None) -> None:
        """End a call; `outcome` None: it was cancelled."""
        nobody_waits = call.state.phase is Phase.GONE
        call.state.end_call(lost=outcome is None or isinstance(outcome, UpstreamLost))
        call.over.set()
        if nobody_waits:
            call.clock.cancel()
            self._release(call)
            if isinstance(outcome, Exception) and not isinstance(outcome, HubError):
                log.error("%r failed when nobody waited for it any more", call, exc_info=outcome)
            return
        text = "The hub was stopped before the upstream answered"
        call.end_request(outcome or Draining(text, upstream=call.upstream))
        if call.state.phase is Phase.GONE:
            call.clock.cancel()
            self._bury(call)

    async def _keep_time(self, call: ParkedCall) -> None:
        """Collect the questions of a call, show them, wait for answers, give up. Catches and logs everything."""
        try:
            with call.clock:
                await trio.sleep(COALESCE_S)
                call.state.begin_round(trio.current_time())
                call.end_request(self._round(call))
                with call.patience:
                    call.patience.deadline = call.state.deadline
                    await trio.sleep_forever()
                log.info("nobody answered what %s asked in %s", call.upstream, call.request.method)
                call.state.expire()
                self._bury(call)
                await trio.sleep(DRAIN_S)
                call.scope.cancel()
        except Exception:
            log.exception("the questions of %s cannot be put to a host: its call is given up", call.upstream)
            text = f"The hub failed to pass on what {call.upstream} asked; its log says why"
            call.end_request(HubError(text, upstream=call.upstream))
            self.abandon(call)

    def _round(self, call: ParkedCall) -> Interim:
        """The result that puts the latest round to a host."""
        state = call.state
        assert call.binding is not None, "it has asked"
        left_s = state.deadline - trio.current_time()
        sealed = self._states.seal(PARK, call.binding, {"i": call.id, "n": state.round}, ttl_s=left_s, here=True)
        return input_required(state.input_requests(), sealed)

    # --- questions of upstreams ---------------------------------------------------------------------------------------

    async def _ask(self, call: ParkedCall, question: Question) -> Reply:
        """Have a question of `call` answered, unless the reply is known already. Raises QuestionRefusal."""
        now = trio.current_time()
        if (roots := self.roots.answer(question, call.caller, call.id, now)) is not None:
            return Result(roots)
        key = self._open_question(call, question, now)
        try:
            reply = await call.state.open[key].reply.wait()
        finally:  # it is open still, if the upstream waits for it no longer
            asks = call.state.phase is Phase.ASK
            call.state.withdraw_question(key)
            if asks and call.state.phase is Phase.RUN:
                call.clock.cancel()
        if question.method == LIST_ROOTS and isinstance(reply, Result):
            self.roots.remember(call.caller, call.id, reply.value, trio.current_time())
        return reply

    def _open_question(self, call: ParkedCall, question: Question, now: float) -> str:
        if self._nursery is None:
            raise QuestionRefusal("The hub is stopping")
        runs = call.state.phase is Phase.RUN
        if runs and not self._hold(call, question, now):
            log.warning("%s asks, and too many calls wait for answers already: refused", call.upstream)
            raise QuestionRefusal("Too many calls wait for answers of their hosts")
        key = call.state.open_question(question, now)
        if runs:
            if call.binding is None:
                call.id = secrets.token_hex(16)
                call.binding = bind(call.upstream, call.caller.identity.principal, call.request, call.first)
            self._calls[call.id] = call
            call.clock, call.patience = trio.CancelScope(), trio.CancelScope()
            self._nursery.start_soon(self._keep_time, call)
        return key

    def _hold(self, call: ParkedCall, question: Question, now: float) -> bool:
        """Hold the memory that `call` takes while it waits for an answer; False: no room, or too many wait."""
        principal = call.caller.identity.principal
        waiting = [each.caller.identity.principal for each in self._calls.values() if each.state.phase is not Phase.RUN]
        if len(waiting) >= MAX_PARKED or waiting.count(principal) >= MAX_PARKED_EACH:
            return False
        size = sum(map(len, question.params.values()))
        if call.account is None:
            size += sum(map(len, call.request.params.values()))
            call.account = self.budget.account(principal)
        return call.account.take(size, now)

    def _release(self, call: ParkedCall) -> None:
        """Give back what `_hold` has counted, for good."""
        if call.account is not None:
            call.account.close()

    # --- what is over -------------------------------------------------------------------------------------------------

    def _bury(self, call: ParkedCall) -> None:
        """Forget a call that is over, except for the reason, which a late retry is told."""
        self._release(call)
        self.roots.forget(call.id)
        if self._calls.pop(call.id, None) is not None and call.state.round:
            self._tombstones.put(call.id, (call.state.reason, trio.current_time() + TOMBSTONE_S))

    async def _sweep(self) -> None:
        """Forget expired tombstones and roots, for ever."""
        while True:
            await trio.sleep(SWEEP_S)
            now = trio.current_time()
            for id in [id for id, (_, until) in self._tombstones.items() if until <= now]:
                del self._tombstones[id]
            self.roots.sweep(now)
