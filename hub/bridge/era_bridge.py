"""Bridge between the eras: sends an operation to its upstream, and handles what comes in place of a result.

A legacy host waits for its operation to end, and is asked meanwhile. The request of a modern host ends with
`input_required`; its retry brings the answers and a sealed state, from which the operation goes on. A modern host whose
legacy server asked for what the host had not declared gets the error -32021.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import trio
from msgspec import Raw, structs

from hub.bridge import sealed_request_state
from hub.bridge.parking.parking import PARK, ParkedCalls, Work
from hub.bridge.pending_url_elicitations import PageVisits
from hub.bridge.questions_in_results import (
    Crossing,
    admit,
    call_to_the_end,
    check_answers,
    input_requests,
    kinds_of,
    read_wanted,
)
from hub.bridge.sealed_request_state import BadState, FirstRound, RequestState, RequestStates, input_required
from hub.bridge.tasks.task_bridge import ABSORBED, Tasks
from hub.bridge.url_elicitation import AGAIN, FindGuide, UrlElicitations, round_of
from hub.link.call_interface import HostEnd, Interim
from hub.link.hub_errors import UpstreamUnauthorized
from hub.wire import mcp
from hub.wire.capabilities import can_be_asked
from hub.wire.jsonrpc import (
    Failure,
    Reply,
    Request,
    Result,
    encode,
    open_object,
    peek_array,
    peek_object,
    peek_str,
    raw,
)
from hub.wire.mcp import Era, Kind, era_of
from hub.wire.modern_metadata import read_number

HUB: Final = "hub"
"""In place of the name of an upstream, in states of what the hub itself carries out."""
RELAY: Final = "relay"
RELAY_TTL_S: Final = 24 * 3600.0
"""Lifetime of a state of an upstream."""
MAX_WORDS: Final = 300
"""Characters of a server's own words in the error -32021; all of them are in its `data`."""
_TRUE: Final = Raw(b"true")


class EraBridge:
    """The bridge of one hub. `run` must be running; `on_lost`: the setting for tool calls that cannot go on."""

    def __init__(
        self, states: RequestStates, parking: ParkedCalls, tasks: Tasks, visits: PageVisits, *, on_lost: str = "error"
    ) -> None:
        self.parking = parking
        self.tasks = tasks
        self._states = states
        self._urls = UrlElicitations(states, visits)
        self._on_lost = on_lost
        self.nursery: trio.Nursery | None = None
        """Set while `run` is running."""

    def adjust(self, ttl_s: float, total_s: float, *, on_lost: str) -> None:
        """Change settings, for calls and questions to come."""
        self._on_lost = on_lost
        self.parking.adjust(ttl_s, total_s)
        self.tasks.handles.adjust(ttl_s)

    def follow_sign_ins(self, find_guide: FindGuide) -> None:
        """Send people who have to sign in where the guide says, from now on."""
        self._urls.find_guide = find_guide

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that outlive requests of hosts, until cancelled."""
        async with trio.open_nursery() as self.nursery:
            try:
                await self.nursery.start(self.parking.run)
                self.tasks.handles.work_in(self.nursery)
                task_status.started()
                await trio.sleep_forever()
            finally:
                self.nursery = None
                self.tasks.handles.work_in(None)

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start a task that outlives the request of its host, while `run` is running."""
        if self.nursery is not None:
            self.nursery.start_soon(work)

    def first_round(self, ref: int, ago_s: float) -> FirstRound:
        """The first round of an operation, which came so many seconds ago."""
        return self._states.first_round(ref, ago_s)

    async def forward(self, crossing: Crossing) -> Reply:
        """Carry out an operation, and return the reply for its host. Raises HubError: as `Upstream.call`; or the
        upstream asks what it may not ask; SignInNeeded: a person has to sign in, and the host cannot be asked for that.
        Cancellation: passes to the upstream."""
        state = None
        try:
            if crossing.operation.method not in mcp.MAY_ASK:
                return await crossing.call(crossing.operation, crossing.exchange)
            crossing = self.tasks.prepare(crossing)
            if crossing.exchange.is_step:
                return await self._urls.call_step(partial(self._call_to_the_end, crossing), crossing)
            if crossing.exchange.caller.era is Era.LEGACY:
                return self._urls.visit(await self._call_to_the_end(crossing), crossing)
            request = crossing.request
            if (text := sealed_request_state.state_of(request)) is None:
                if "inputResponses" in request.params and era_of(crossing.upstream.snapshot.version) is Era.MODERN:
                    # Unasked, but a server may take them: its affair. Questions without a state ask for no more.
                    crossing = crossing.with_params({"inputResponses": request.params["inputResponses"]})
                return await self._begin(crossing)
            try:
                principal = crossing.exchange.caller.identity.principal
                state = self._states.open(text, principal, request, crossing.upstream.name)
                if state.mode == sealed_request_state.ASK:  # no rule asks about it any more
                    return await self._begin(crossing)
                agreed = crossing.first.agreed or state.binding.first.agreed
                crossing = structs.replace(crossing, first=state.binding.first._replace(agreed=agreed))
                return _forbid_caching(await self._resume(state, crossing), request.method)
            except BadState as error:
                if error.reason == sealed_request_state.INVALID or not self._may_begin_again(crossing):
                    return error.failure
                return await self._begin(crossing)
        except UpstreamUnauthorized as error:
            if crossing.exchange.is_step:  # whose host was asked
                raise
            round = round_of(state) if state is not None and state.mode == AGAIN else 1
            if (asked := await self._urls.ask_to_sign_in(error, crossing, round=round)) is None:
                raise
            return asked

    async def carry_out(self, work: Work, exchange: HostEnd, request: Request) -> Reply:
        """Carry out work of the hub's own for a request of a host, which is asked meanwhile, whatever its era: that of
        a modern host may end with a question, and a retry goes on with it. Raises Draining: the hub is stopping;
        Exception: whatever `work` raises. Cancellation: cancels `work`."""
        caller = exchange.caller
        if caller.era is Era.MODERN and (text := sealed_request_state.state_of(request)) is not None:
            try:
                state = self._states.open(text, caller.identity.principal, request, HUB)
                if state.mode == PARK:
                    return await self.parking.resume(state, sealed_request_state.answers_of(request), exchange)
                if state.mode != sealed_request_state.ASK:  # else somebody was asked about it before it began
                    raise BadState(sealed_request_state.INVALID)
            except BadState as error:
                return error.failure
        if caller.era is Era.LEGACY or not can_be_asked(caller.capabilities):
            return await work(exchange)
        return await self.parking.begin(work, exchange, request, HUB)

    async def _begin(self, crossing: Crossing, *, round: int = 1) -> Reply:
        """Begin a call of a modern host. A legacy upstream may ask meanwhile, so its call may outlive the request."""
        exchange, version = crossing.exchange, crossing.upstream.snapshot.version
        if era_of(version) is Era.MODERN or not can_be_asked(exchange.caller.capabilities):
            reply = self._relay(await crossing.call(crossing.operation, exchange), crossing)
            reply = await self._finish(reply, crossing)
        else:

            async def work(call: HostEnd) -> Reply:
                return await self._call_to_the_end(structs.replace(crossing, exchange=call))

            first = crossing.first
            reply = await self.parking.begin(work, exchange, crossing.request, crossing.upstream.name, first)
        return self._urls.visit(reply, crossing, round=round)

    async def _resume(self, state: RequestState, crossing: Crossing) -> Reply:
        answers, upstream = sealed_request_state.answers_of(crossing.request), crossing.upstream
        if state.mode == PARK:
            return self._urls.visit(await self.parking.resume(state, answers, crossing.exchange), crossing)
        if state.mode == AGAIN:
            answer = await self._urls.resume(state, answers, upstream)
            return await self._begin(crossing, round=round_of(state)) if answer is None else answer
        if era_of(upstream.snapshot.version) is Era.LEGACY:  # it was another program that gave this state
            raise BadState(sealed_request_state.LOST)
        if state.mode == ABSORBED:
            return await self.tasks.resume(state, crossing)
        check_answers(answers, peek_object(state.members.get("k")), upstream)
        more = {"inputResponses": raw(answers)}
        if "s" in state.members:
            more["requestState"] = state.members["s"]  # the upstream's own, byte for byte
        asked = int(read_number(state.members.get("n")) or 0)
        return await self.tasks.handle_reply(self._relay(await crossing.again(more), crossing, asked), crossing)

    async def _call_to_the_end(self, crossing: Crossing) -> Reply:
        """The final reply of the upstream, tasks included; the host is asked on the way."""
        return await self._finish(await call_to_the_end(crossing), crossing)

    async def _finish(self, reply: Reply, crossing: Crossing) -> Reply:
        """Handle a reply that may be a task, or an error since the host did not declare something."""
        reply = await self.tasks.handle_reply(reply, crossing)
        lacking = crossing.exchange.lacking
        return reply if lacking is None else _explain(reply, lacking, crossing.upstream.name)

    def _relay(self, reply: Reply, crossing: Crossing, asked: int = 0) -> Reply:
        """Pass the questions of a modern upstream on to its modern host; other replies are returned unchanged. `asked`:
        forms and visits that the operation has asked for before.

        Not for what the hub itself asks on behalf of a task: that has a state of its own.
        """
        upstream = crossing.upstream
        version = upstream.snapshot.version
        wanted = None if era_of(version) is Era.LEGACY else read_wanted(reply, upstream.name, version)
        if wanted is None:
            return reply
        questions, state = wanted
        requests = input_requests(questions, crossing.exchange.caller, crossing.offered)
        asked = admit(upstream, questions, asked)
        kept = {"k": kinds_of(questions), "n": asked} | ({} if state is None else {"s": state})
        agreed = bool(crossing.first.agreed)  # this hub alone knows whether the yes was used
        sealed = self._states.seal(RELAY, crossing.binding, kept, ttl_s=RELAY_TTL_S, here=agreed)
        return input_required(requests or None, sealed)

    def _may_begin_again(self, crossing: Crossing) -> bool:
        """True if an operation that cannot go on may be repeated without asking: reads may, tool calls if the setting
        allows it."""
        if not crossing.begins_again:
            return False
        if crossing.operation.method != mcp.TOOLS_CALL or self._on_lost == "restart":
            return True
        if self._on_lost != "restart_safe":
            return False
        name = peek_str(crossing.operation.params.get("name"))
        tools = crossing.upstream.snapshot.lists[Kind.TOOL]
        hints = next((peek_object(tool.fields.get("annotations")) for tool in tools if tool.key == name), {})
        return any(hints.get(hint) == _TRUE for hint in ("readOnlyHint", "idempotentHint"))


def _forbid_caching(reply: Reply, method: str) -> Reply:
    if method != mcp.RESOURCES_READ or not isinstance(reply, Result) or isinstance(reply, Interim):
        return reply
    members: Mapping[str, object] = open_object(reply.value)
    return Result(Raw(encode({**members, "ttlMs": 0, "cacheScope": "private"})))


def _explain(reply: Reply, lacking: Mapping[str, Mapping[str, object]], upstream: str) -> Reply:
    """The error -32021 in place of `reply`, if that is a failure; other replies are returned unchanged.

    `lacking`: the capabilities that were asked for in vain, as `requiredCapabilities` has them.
    """
    if isinstance(reply, Failure):
        if reply.code == mcp.URL_ELICITATION_REQUIRED:
            return reply  # it says itself what it needs
        words = reply.message
        theirs: dict[str, Any] = {"server": upstream, **reply.members()}
    else:
        members = peek_object(reply.value)
        if members.get("isError") != _TRUE:
            return reply
        content = members.get("content", Raw(b"[]"))
        texts = (peek_str(peek_object(part).get("text")) for part in peek_array(content))
        words = next(filter(None, texts), "")
        words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}..."
        theirs = {"server": upstream, "content": content}
    names = (f"{name}.{part}" if part else name for name, parts in lacking.items() for part in parts or ("",))
    text = f"{upstream} failed after asking for what this host did not declare ({', '.join(names)}): {words}"
    data = {"requiredCapabilities": lacking, "upstream": theirs}
    return Failure(mcp.MISSING_CAPABILITY, text.removesuffix(": "), raw(data))
