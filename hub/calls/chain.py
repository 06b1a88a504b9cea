"""Chain: the stages that an operation of a host passes on its way to an upstream, and its reply on the way back.

    outer stages   once for each request of a host, and each owner of what it asks for
    the way back   the reply of the upstream becomes one for the host
    eras           between a host and an upstream of different eras; asks the rest as often as it needs
    inner stages   once for each message to the upstream
    the seam       `Upstream.begin`, `Upstream.call`

A stage says in one step whether it lets an operation pass, answers it, or has to wait. So an operation that nothing
holds up passes all of them and is sent in the step in which it came, without a task
(`hub.routing.run_chain`). `hub.routing.compose_chains` has the table of stages, in their order; a new idea is a
module with a stage, and a line there.
"""

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from functools import partial
from itertools import count
from secrets import randbits
from time import perf_counter
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from hub.bridge.era_bridge import EraBridge
from hub.bridge.questions_in_results import Crossing, may_want_input
from hub.bridge.sealed_request_state import NO_ROUND, FirstRound
from hub.bridge.tasks.translate_tasks import may_be_task
from hub.calls.host_exchange import HostExchange
from hub.catalog.upstream_entries import Route
from hub.link.call_interface import Exchange, Operation
from hub.link.log_context import spell_ref
from hub.wire import mcp
from hub.wire.capabilities import can_be_asked
from hub.wire.jsonrpc import Failure, Reply, Request, peek_str
from hub.wire.mcp import Kind
from hub.wire.trace_context import TRACEPARENT, read_parent
from upstreams.upstream import ManagedUpstream

next_ref: Final = count(randbits(32)).__next__
"""A number for one operation. It begins somewhere in each run, so that those of two runs are seldom taken for each
other."""


class Target(Struct, frozen=True, eq=False):
    """One thing of one upstream that hosts can ask for."""

    upstream: ManagedUpstream
    """The upstream itself: one that was replaced passes calls on to its successor."""
    route: Route
    """Its own name or URI there, and the arguments that a profile fixes."""
    exposed: str
    """The name or URI under which the host asks for it."""
    chain: "Chain"
    kind: Kind | None = None
    """The list it is in; None: something that need not be listed."""


class Intent(Struct, frozen=True, eq=False):
    """One operation that a host wants, resolved to its target. It keeps that and not the catalogue, so a call that
    lasts an hour holds no list of tools."""

    target: Target
    request: Request
    """The host's own, to which states are bound; of a meta call the call that it asks for."""
    operation: Operation
    """The same for the upstream, under its own names and URIs."""
    exchange: Exchange
    """Whom the upstream reports to and asks: the host's end of its request, or of work that the hub does for it."""
    host: HostExchange
    """The host's end of its request."""
    meta_call: str = ""
    """The tool of a meta call, as the host named it; "": the host called it directly."""
    hook: str = ""
    """The hook that wants a person to be asked, whatever the rules say; "": none does."""
    spares_asking: bool = False
    """A hook has agreed in place of a person."""
    begins_again: bool = True
    """The upstream may be called anew where a retry cannot go on; False: a person has agreed to one call only."""
    first: FirstRound = NO_ROUND
    """The request in which a person was first asked about it, if that was another; and what was agreed to."""
    ref: int = field(default_factory=next_ref)
    """Number by which people and records refer to it, written as eight hexadecimal digits."""
    began: float = field(default_factory=perf_counter)
    """The time when it was made, by that clock: whoever needs to know how long it took measures from there."""

    def facts(self) -> dict[str, object]:
        """What records say of it."""
        who, target = self.host.caller.identity, self.target
        about = {"p": who.principal, "host": who.host, "up": target.upstream.whole_name, "m": self.request.method}
        return {"ref": self.ref, **about, "name": target.exposed}

    def log_fields(self) -> dict[str, str]:
        """As `hub.link.log_context.LogSubject`."""
        target = self.target
        about = {"upstream": target.upstream.name, "ref": spell_ref(self.ref), "host": self.host.caller.identity.host}
        about |= {"method": self.request.method, "tool": target.exposed if target.kind is Kind.TOOL else ""}
        parent = read_parent(peek_str(self.operation.meta.get(TRACEPARENT)))
        return about if parent is None else about | {"trace_id": f"{parent.trace_id:032x}"}

    def send(self, next: "Next", operation: Operation, exchange: Exchange) -> Awaitable[Reply]:
        """Carry out another operation for this intent by `next`."""
        if operation is not self.operation or exchange is not self.exchange:
            self = structs.replace(self, operation=operation, exchange=exchange)
        return next(self)


Next = Callable[[Intent], Awaitable[Reply]]
"""The rest of the way: carries an intent out as `Upstream.call` does."""


class Wait(Enum):
    """The verdict of a stage that cannot tell at once."""

    WAIT = "wait"


WAIT: Final = Wait.WAIT
Outcome = Reply | Exception | None
"""How an intent ended: with a reply, with an error of the hub, or cancelled."""
_RETRY: Final = frozenset({"requestState", "inputResponses"})
"""Params of a retry."""


class Stage:
    """One stage of a chain, which knows no other. A subclass has `admits`, and `left` or `call` if it needs them."""

    def admits(self, intent: Intent) -> Reply | Wait | None:
        """Answer or refuse an intent, or let it pass (None); WAIT: only `call` can tell. Never blocks or raises."""
        return None

    def left(self, intent: Intent, outcome: Outcome) -> None:
        """An intent that `admits` let pass is over. Never blocks or raises."""

    async def call(self, intent: Intent, next: Next) -> Reply:
        """Carry out an intent for which `admits` was WAIT.

        Raises:
            HubError: there is no answer.
        Cancellation: passes to the upstream.
        """
        return await next(intent)


class EraStage:
    """The stage between hosts and upstreams of different eras."""

    def __init__(self, bridge: EraBridge) -> None:
        self._bridge = bridge

    def passes(self, intent: Intent) -> bool:
        """True if an intent goes to its upstream as it is, so that only its reply may need more: it is no retry, and
        nobody is asked while it runs in another way than that of their own era."""
        request, caller, snapshot = intent.request, intent.host.caller, intent.target.upstream.snapshot
        if request.method not in mcp.MAY_ASK:
            return True
        if self._bridge.nursery is None or (request.method == mcp.TOOLS_CALL and "tasks" in snapshot.capabilities):
            return False
        if caller.era is mcp.Era.LEGACY:
            return True
        if not _RETRY.isdisjoint(request.params):
            return False
        return not can_be_asked(caller.capabilities) or mcp.era_of(snapshot.version) is mcp.Era.MODERN

    def is_final(self, intent: Intent, reply: Reply) -> bool:
        """True if there is nothing to do about a reply to such an intent."""
        if intent.host.lacking is not None:
            return False
        if isinstance(reply, Failure):
            return reply.code != mcp.URL_ELICITATION_REQUIRED
        if reply.is_plain or intent.target.upstream.snapshot.version in mcp.LEGACY_VERSIONS:
            return True
        return not may_want_input(reply) and not may_be_task(reply)

    async def call(self, intent: Intent, next: Next) -> Reply:
        """As `Stage.call`. `next` may be called several times, with other operations and exchanges."""
        call = partial(intent.send, next)
        first = intent.first
        if not first.ref:
            first = self._bridge.first_round(intent.ref, perf_counter() - intent.began)._replace(agreed=first.agreed)
        crossing = Crossing(
            intent.target.upstream,
            intent.operation,
            intent.host,
            intent.request,
            call,
            begins_again=intent.begins_again,
            first=first,
        )
        return await self._bridge.forward(crossing)


class Step(NamedTuple):
    """A stage of a chain, and those of its methods that do something."""

    stage: Stage
    admits: Callable[[Intent], Reply | Wait | None] | None
    left: Callable[[Intent, Outcome], None] | None


class Chain:
    """The stages for some targets. Composed when something changes and never in a call. Never changes itself."""

    def __init__(
        self, outer: Iterable[Stage], way_back: Callable[[Intent, Reply], Reply], eras: EraStage, inner: Iterable[Stage]
    ) -> None:
        """`way_back` makes the reply of the upstream one for the host; those of `outer` stages are such already."""
        self.outer, self.inner = tuple(map(_step, outer)), tuple(map(_step, inner))
        self.way_back = way_back
        self.eras = eras


def _step(stage: Stage) -> Step:
    kind = type(stage)
    admits = None if kind.admits is Stage.admits else stage.admits
    return Step(stage, admits, None if kind.left is Stage.left else stage.left)


class Section:
    """The way of one intent through some stages, from the outside in. It passes them when it is made, until one has a
    `verdict`; `leave` must follow."""

    __slots__ = ("_at", "_steps", "intent", "verdict")

    def __init__(self, steps: tuple[Step, ...], intent: Intent) -> None:
        self.intent = intent
        intent.host.is_operation = True
        self.verdict: Reply | Wait | None = None
        """None: all let it pass."""
        self._steps = steps
        self._at = 0
        """Number of stages that it has passed."""
        for _, admits, _ in steps:
            if admits is not None and (verdict := admits(intent)) is not None:
                self.verdict = verdict
                break
            self._at += 1

    def leave(self, outcome: Outcome) -> None:
        """Tell the stages that it has passed, from the inside out."""
        for _, _, left in self._steps[: self._at][::-1]:
            if left is not None:
                left(self.intent, outcome)

    async def carry(self, last: Next) -> Reply:
        """Carry on behind the verdict, to `last` behind all stages; and `leave`."""
        outcome: Outcome = None
        try:
            if self.verdict is None:
                outcome = await last(self.intent)
            elif isinstance(self.verdict, Wait):
                rest = partial(go_through, self._steps[self._at + 1 :], last)
                outcome = await self._steps[self._at].stage.call(self.intent, rest)
            else:
                outcome = self.verdict
            return outcome
        except Exception as error:
            outcome = error
            raise
        finally:
            self.leave(outcome)
            del outcome  # a cycle: an error's traceback holds this frame


async def go_through(steps: tuple[Step, ...], last: Next, intent: Intent) -> Reply:
    """Carry out an intent through `steps`, and by `last` behind them. Raises as `Stage.call`."""
    return await Section(steps, intent).carry(last)
