"""Bridge between the eras: sends an operation to its upstream, and handles what comes in place of a result.

Request and reply are in the host's own era; everything between happens here. A legacy host waits for its operation to
end, and is asked meanwhile. The request of a modern host ends with `input_required`; its retry brings the answers and a
sealed state, from which the operation goes on.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import trio
from msgspec import Raw, structs

from hub.bridge.input_requests import capabilities_offered, check_answers, explain, input_requests, kinds_of
from hub.bridge.input_rounds import Wanted, answer_until_final, read_wanted
from hub.bridge.parking.parking import PARK, ParkedCalls
from hub.bridge.request_state import (
    INVALID,
    LOST,
    BadState,
    RequestState,
    RequestStates,
    answers_of,
    bind,
    input_required,
    state_of,
)
from hub.bridge.sign_in_visits import FindGuide, SignInVisits
from hub.bridge.tasks.task_replies import ABSORBED, Tasks
from hub.bridge.url_elicitation import AGAIN, PageVisits, UrlElicitations, round_of, wants_visits
from hub.link.hub_errors import UpstreamUnauthorized
from hub.link.interface import Caller, Exchange, HostEnd, Interim, Operation, Upstream
from hub.wire.capabilities import can_be_asked
from hub.wire.jsonrpc import Failure, Reply, Request, Result, encode, open_object, peek_object, peek_str, raw
from hub.wire.mcp import MAY_ASK, RESOURCES_READ, TOOLS_CALL, Era, Kind, era_of

RELAY: Final = "relay"
RELAY_TTL_S: Final = 24 * 3600.0
"""Lifetime of a state of an upstream."""


class EraBridge:
    """The bridge of one hub. `run` must be running; `on_lost`: the setting for tool calls that cannot go on."""

    def __init__(
        self, states: RequestStates, parking: ParkedCalls, tasks: Tasks, visits: PageVisits, *, on_lost: str = "error"
    ) -> None:
        self.parking = parking
        self.tasks = tasks
        self._states = states
        self._urls = UrlElicitations(states, visits)
        self._sign_ins = SignInVisits(self._urls)
        self._on_lost = on_lost

    def adjust(self, ttl_s: float, total_s: float, *, on_lost: str) -> None:
        """Change settings, for calls and questions to come."""
        self._on_lost = on_lost
        self.parking.adjust(ttl_s, total_s)
        self.tasks.handles.adjust(ttl_s)

    def follow_sign_ins(self, find_guide: FindGuide) -> None:
        """Send people who have to sign in where the guide says, from now on."""
        self._sign_ins.follow(find_guide)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that outlive requests of hosts, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.parking.run)
            await nursery.start(self.tasks.run)
            task_status.started()

    async def forward(self, upstream: Upstream, operation: Operation, exchange: HostEnd, request: Request) -> Reply:
        """Send `operation`, made from `request` of the host of `exchange`, and return the reply for that host.

        Raises:
            HubError: as `Upstream.call`; or the upstream asks what it may not ask.
            SignInNeeded: a person has to sign in, and the host cannot be asked for that.
        Cancellation: passes to the upstream.
        """
        caller, state = exchange.caller, None
        try:
            if operation.method not in MAY_ASK:
                return await upstream.call(operation, exchange)
            operation = self.tasks.prepare(upstream, operation)
            if caller.era is Era.LEGACY:
                reply = await self._call_to_the_end(upstream, operation, request, exchange)
                return self._visit(reply, upstream, caller, request)
            text = state_of(request)
            if text is None:
                if "inputResponses" in request.params and era_of(upstream.snapshot.version) is Era.MODERN:
                    # Unasked, but a server may take them: its affair. Questions without a state ask for no more.
                    operation = with_params(operation, {"inputResponses": request.params["inputResponses"]})
                return await self._begin(upstream, operation, exchange, request)
            try:
                state = self._states.open(text, caller.identity.principal, request, upstream.name)
                reply = await self._resume(state, upstream, operation, exchange, request)
                return _forbid_caching(reply, operation.method)
            except BadState as error:
                if error.reason == INVALID or not self._may_begin_again(upstream, operation):
                    return error.failure
                return await self._begin(upstream, operation, exchange, request)
        except UpstreamUnauthorized as error:
            round = round_of(state) if state is not None and state.mode == AGAIN else 1
            asked = await self._sign_ins.ask(error, upstream, caller, request, round=round)
            if asked is None:
                raise
            return asked

    async def _begin(
        self, upstream: Upstream, operation: Operation, exchange: HostEnd, request: Request, *, round: int = 1
    ) -> Reply:
        """Begin a call of a modern host. A legacy upstream may ask meanwhile, so its call may outlive the request."""
        caller = exchange.caller
        if era_of(upstream.snapshot.version) is Era.MODERN or not can_be_asked(caller.capabilities):
            reply = self._relay(await upstream.call(operation, exchange), upstream, caller, request)
            reply = await self.tasks.handle_reply(upstream, operation, exchange, reply, request)
            if exchange.lacking is not None:
                reply = explain(reply, exchange.lacking, upstream.name)
        else:
            work = partial(self._call_to_the_end, upstream, operation, request)
            reply = await self.parking.begin(work, exchange, request, upstream.name)
        return self._visit(reply, upstream, caller, request, round=round)

    async def _resume(
        self, state: RequestState, upstream: Upstream, operation: Operation, exchange: HostEnd, request: Request
    ) -> Reply:
        """Resume the call of `state` with the answers in `request`."""
        if state.mode == PARK:
            reply = await self.parking.resume(state, answers_of(request), exchange)
            return self._visit(reply, upstream, exchange.caller, request)
        if state.mode == AGAIN:
            answer = await self._urls.resume(state, upstream, request)
            if answer is not None:
                return answer
            return await self._begin(upstream, operation, exchange, request, round=round_of(state))
        if era_of(upstream.snapshot.version) is Era.LEGACY:  # it was another program that gave this state
            raise BadState(LOST)
        if state.mode == ABSORBED:
            return await self.tasks.resume(state, exchange, upstream, request)
        reply = await upstream.call(with_params(operation, _retry_of(state, request)), exchange)
        reply = self._relay(reply, upstream, exchange.caller, request)
        return await self.tasks.handle_reply(upstream, operation, exchange, reply, request)

    async def _call_to_the_end(
        self, upstream: Upstream, operation: Operation, request: Request, exchange: HostEnd
    ) -> Reply:
        """The final reply of `upstream`, tasks included; the host is asked on the way."""
        reply = await call_to_the_end(upstream, operation, exchange)
        reply = await self.tasks.handle_reply(upstream, operation, exchange, reply, request)
        return reply if exchange.lacking is None else explain(reply, exchange.lacking, upstream.name)

    def _visit(self, reply: Reply, upstream: Upstream, caller: Caller, request: Request, *, round: int = 1) -> Reply:
        """Handle an error that asks for a visit to a page; other replies are returned unchanged."""
        if isinstance(reply, Failure) and wants_visits(reply, upstream.version_for(caller)):
            return self._urls.ask_for_visits(reply, upstream, caller, request, round=round)
        return reply

    # --- modern to modern ---------------------------------------------------------------------------------------------

    def _relay(self, reply: Reply, upstream: Upstream, caller: Caller, request: Request) -> Reply:
        """Pass the questions of a modern upstream on to its modern host; other replies are returned unchanged.

        Not for what the hub itself asks on behalf of a task: that has a state of its own.
        """
        asked = _wants_of(reply, upstream)
        if asked is None:
            return reply
        may = capabilities_offered(upstream.config, caller.capabilities)
        requests = input_requests(asked.questions, caller, may)
        kept = {"k": kinds_of(asked.questions)} | ({} if asked.state is None else {"s": asked.state})
        binding = bind(upstream.name, caller.identity.principal, request)
        sealed = self._states.seal(RELAY, binding, kept, ttl_s=RELAY_TTL_S)
        return input_required(requests or None, sealed)

    # --- when there is nothing to go on from --------------------------------------------------------------------------

    def _may_begin_again(self, upstream: Upstream, operation: Operation) -> bool:
        """True if an operation may be repeated without asking: reads may, tool calls if the setting allows it."""
        if operation.method != TOOLS_CALL or self._on_lost == "restart":
            return True
        if self._on_lost != "restart_safe":
            return False
        name = peek_str(operation.params.get("name"))
        tool = next((each for each in upstream.snapshot.lists[Kind.TOOL] if each.key == name), None)
        hints = peek_object(tool.fields.get("annotations")) if tool else {}
        return any(hints.get(hint) == _TRUE for hint in ("readOnlyHint", "idempotentHint"))


_TRUE = Raw(b"true")


async def call_to_the_end(upstream: Upstream, operation: Operation, exchange: Exchange) -> Reply:
    """The final reply of `upstream`; the host of `exchange` is asked on the way.

    Raises:
        HubError: as `Upstream.call` and `input_required.answer_until_final`.
    Cancellation: passes to the upstream.
    """
    reply = await upstream.call(operation, exchange)
    version = upstream.snapshot.version  # of a server of both eras the newer, whose answers say what they are
    if era_of(version) is Era.LEGACY:
        return reply

    async def retry(more: dict[str, Raw]) -> Reply:
        return await upstream.call(with_params(operation, more), exchange)

    declared = capabilities_offered(upstream.config, exchange.caller.capabilities)
    visited = upstream.elicitations.on_complete
    return await answer_until_final(reply, retry, exchange, upstream.name, version, declared=declared, visited=visited)


def with_params(operation: Operation, more: Mapping[str, Raw]) -> Operation:
    """The same operation with further params."""
    return structs.replace(operation, params={**operation.params, **more})


def _wants_of(reply: Reply, upstream: Upstream) -> Wanted | None:
    version = upstream.snapshot.version
    return None if era_of(version) is Era.LEGACY else read_wanted(reply, upstream.name, version)


def _retry_of(state: RequestState, request: Request) -> dict[str, Raw]:
    """The params to call a modern upstream with again: the answers, and its own state byte for byte.

    Raises:
        RemoteProtocolError: -32602, an answer is none to what was asked under its key.
    """
    answers = answers_of(request)
    check_answers(answers, peek_object(state.members.get("k")), state.binding.upstream)
    kept = {"requestState": state.members["s"]} if "s" in state.members else {}
    return {"inputResponses": raw(answers), **kept}


def _forbid_caching(reply: Reply, method: str) -> Reply:
    """Forbid caching of a result that depends on answers."""
    if method != RESOURCES_READ or not isinstance(reply, Result) or isinstance(reply, Interim):
        return reply
    members: Mapping[str, object] = open_object(reply.value)
    return Result(Raw(encode({**members, "ttlMs": 0, "cacheScope": "private"})))
