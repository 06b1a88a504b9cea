"""Carries one operation to its upstream, and on through everything that may come back in place of a result.

What the host asked for and what it gets are in words of its own era; everything between is settled here. An operation
of a legacy host is one long wait: it is asked on the way. One of a modern host ends with `input_required` and comes
back with the answers and a sealed state, which says where to go on.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Raw, structs

from hub.bridge.states import INVALID, BadState, State, States, answers_of, bind, input_required, state_of, wanted
from hub.link.exchange import Caller, Exchange, Interim, Operation, Question, UpstreamProtocolError
from hub.relay import HostExchange
from hub.wire.jsonrpc import Reply, Request, Result, encode, open_object, peek_object, peek_str, raw
from hub.wire.mcp import (
    INPUT_REQUIRED,
    MAY_ASK,
    QUESTIONS,
    RESOURCES_READ,
    RESULT_TYPE,
    TOOLS_CALL,
    Era,
    Kind,
    Snapshot,
    era_of,
)
from hub.wire.questions import Refused, check, for_host

RELAY: Final = "relay"
RELAY_TTL_S: Final = 24 * 3600.0
"""How long a state of an upstream is passed back to it (bridging.md 7.3)."""


class Callee(Protocol):
    """What is needed of an upstream; `upstreams.upstream.Upstream` is one."""

    name: str

    @property
    def snapshot(self) -> Snapshot: ...

    async def call(self, operation: Operation, exchange: Exchange) -> Reply: ...


class Carrier:
    """The bridge of one hub. `on_lost` is what becomes of tool calls whose state is no good any more."""

    def __init__(self, states: States, *, on_lost: str = "error") -> None:
        self._states = states
        self._on_lost = on_lost

    async def carry(self, upstream: Callee, operation: Operation, exchange: HostExchange, request: Request) -> Reply:
        """The reply to `operation`, which is what `request` of the host of `exchange` comes to at `upstream`.

        Raises:
            HubError: as `Upstream.call`; or the upstream asks what it may not ask.
        Cancellation: passes to the upstream.
        """
        caller = exchange.caller
        if caller.era is Era.LEGACY or operation.method not in MAY_ASK:
            return await upstream.call(operation, exchange)
        text = state_of(request)
        if text is None:
            return await self._begin(upstream, operation, exchange, request)
        try:
            state = self._states.open(text, caller.identity.principal, request)
            if state.binding.upstream != upstream.name:
                raise BadState(INVALID)
            return await self._resume(state, upstream, operation, exchange, request)
        except BadState as error:
            if error.reason == INVALID or not self._may_begin_again(upstream, operation):
                return error.failure
            return await self._begin(upstream, operation, exchange, request)

    async def _begin(self, upstream: Callee, operation: Operation, exchange: HostExchange, request: Request) -> Reply:
        """A first attempt of a modern host."""
        reply = await upstream.call(operation, exchange)
        return self._relay(reply, upstream, exchange.caller, request)

    async def _resume(
        self, state: State, upstream: Callee, operation: Operation, exchange: HostExchange, request: Request
    ) -> Reply:
        """Go on from `state` with the answers that `request` brings."""
        answers = answers_of(request)
        retry = {"inputResponses": raw(answers)}
        if "s" in state.members:
            retry["requestState"] = state.members["s"]
        again = structs.replace(operation, params={**operation.params, **retry})
        reply = await upstream.call(again, exchange)
        return _uncached(self._relay(reply, upstream, exchange.caller, request), operation.method)

    # --- modern to modern ---------------------------------------------------------------------------------------------

    def _relay(self, reply: Reply, upstream: Callee, caller: Caller, request: Request) -> Reply:
        """What a modern upstream wants to know, as its modern host may see it; other replies as they are (7.3)."""
        members = wants_input(reply, upstream)
        if members is None:
            return reply
        requests = {
            key: _relayed(value, upstream, caller) for key, value in peek_object(members.get("inputRequests")).items()
        }
        kept = {"s": members["requestState"]} if "requestState" in members else {}
        binding = bind(upstream.name, caller.identity.principal, request)
        sealed = self._states.seal(RELAY, binding, ttl_s=RELAY_TTL_S, **kept)
        return input_required(requests if "inputRequests" in members else None, sealed)

    # --- when there is nothing to go on from --------------------------------------------------------------------------

    def _may_begin_again(self, upstream: Callee, operation: Operation) -> bool:
        """Whether an operation may be carried out anew without asking: reading may, tools if the user said so."""
        if operation.method != TOOLS_CALL or self._on_lost == "restart":
            return True
        if self._on_lost != "restart_safe":
            return False
        name = peek_str(operation.params.get("name"))
        tool = next((each for each in upstream.snapshot.lists[Kind.TOOL] if each.key == name), None)
        hints = peek_object(tool.fields.get("annotations")) if tool else {}
        return any(hints.get(hint) == _TRUE for hint in ("readOnlyHint", "idempotentHint"))


_TRUE = Raw(b"true")


def wants_input(reply: Reply, upstream: Callee) -> dict[str, Raw] | None:
    """The members of an `input_required` result of a modern upstream; None: it is something else.

    Raises:
        UpstreamProtocolError: it asks for nothing (R-3).
    """
    if not isinstance(reply, Result) or INPUT_REQUIRED.encode() not in bytes(reply.value):
        return None
    members = open_object(reply.value)
    if era_of(upstream.snapshot.version) is Era.LEGACY or peek_str(members.get(RESULT_TYPE)) != INPUT_REQUIRED:
        return None
    if members.keys().isdisjoint(("inputRequests", "requestState")):
        text = f"{upstream.name} asks for input, but for none in particular"
        raise UpstreamProtocolError(text, upstream=upstream.name)
    return members


def _relayed(value: Raw, upstream: Callee, caller: Caller) -> Raw:
    """One input request of a modern upstream, for a modern host.

    Raises:
        UpstreamProtocolError: it asks what hosts cannot be asked, or what this one said it cannot do (R-5).
    """
    request = peek_object(value)
    method = peek_str(request.get("method"))
    if method not in QUESTIONS:
        raise UpstreamProtocolError(f"{upstream.name} asks for input of an unknown kind", upstream=upstream.name)
    question = Question(method, peek_object(request.get("params")), upstream.name, upstream.snapshot.version)
    try:
        check(question, caller.capabilities)
        return wanted(question, for_host(question, caller.version))
    except Refused as refused:
        text = f"{upstream.name} asked for input that this host cannot give: {refused.failure.message}"
        raise UpstreamProtocolError(text, upstream=upstream.name) from None


def _uncached(reply: Reply, method: str) -> Reply:
    """A result that depends on answers may not be kept by anyone (R-13, K-5)."""
    if method != RESOURCES_READ or not isinstance(reply, Result) or isinstance(reply, Interim):
        return reply
    members: Mapping[str, object] = open_object(reply.value)
    return Result(Raw(encode({**members, "ttlMs": 0, "cacheScope": "private"})))
