"""Stages of an operation, from the outside in: read this table first.

    outer, once for each request of a host, and each owner of what it asks for
        CallCount     counts calls of tools by host
        Resolver      remembers whose user interfaces an account reads (`hub.routing.resolve`)
        CachedCopy    answers a read from memory, in the form of the host
        WantedLevel   keeps upstreams as talkative as a modern request wants
    the way back      names and URIs of the host's view, its revision; lists that proved stale (`HostReplies`)
    eras              questions, parked calls, tasks, pages to visit, sign-ins (`EraStage`, over `hub.bridge`)
    inner, once for each message to the upstream
        SignInAnswer  answers in place of an upstream at which a person has to sign in
        SharedReads   one read for all hosts that want the same (`cache.resource_cache`)
        CallNote      tells the cache that a tool was called, which may have changed what was read
        Limit         waits for a place at an upstream that has limits (`hub.routing.upstream_limits`)

A stage that has nothing to do for a target is not in its chain.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from cache.resource_cache import ResourceCache
from config.settings import UpstreamConfig
from hub.bridge.era_bridge import EraBridge
from hub.calls.chain import WAIT, Chain, EraStage, Intent, Next, Outcome, Stage, Wait
from hub.link.tool_usage import ToolUsage
from hub.routing.cached_reads import find_cached, is_plain
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.own_tools import call_sign_in_tool
from hub.routing.replies_for_hosts import HostReplies
from hub.routing.upstream_limits import UpstreamLimits
from hub.wire import mcp
from hub.wire.jsonrpc import Reply

OPERATIONS: Final = (mcp.TOOLS_CALL, mcp.PROMPTS_GET, mcp.RESOURCES_READ, mcp.COMPLETE)
BESIDE: Final = (mcp.SUBSCRIBE, mcp.TASKS_GET)
"""Methods that are no operation of a host's request: only the outer stages of their chains are passed."""
SIGN_IN: Final = "sign-in"
"""In place of a method: calls of the hub's own tool for signing in at an upstream."""
EVERY_DOOR: Final = (*OPERATIONS, *BESIDE, SIGN_IN)


class Line(NamedTuple):
    """A line of the table."""

    stage: Stage | Mapping[str, Stage]
    """Or the stage of each upstream that has one, by its name."""
    methods: Collection[str] = EVERY_DOOR
    """The doors by which it stands."""


class Chains:
    """The chains of one hub. `reads`: the resource cache, or None."""

    def __init__(
        self,
        live: LiveCatalog,
        resolver: Stage,
        levels: LogLevels,
        replies: HostReplies,
        bridge: EraBridge,
        usage: ToolUsage,
        reads: ResourceCache | None,
    ) -> None:
        self.limits = UpstreamLimits()
        self.outer = [
            Line(CallCount(usage), (mcp.TOOLS_CALL,)),
            Line(resolver, (mcp.RESOURCES_READ,)),
            *([] if reads is None else [Line(CachedCopy(live, reads), (mcp.RESOURCES_READ,))]),
            Line(WantedLevel(levels), (*OPERATIONS, SIGN_IN)),
        ]
        self.inner = [
            Line(SignInAnswer(), (SIGN_IN,)),
            *([] if reads is None else [Line(SharedReads(reads), (mcp.RESOURCES_READ,))]),
            *([] if reads is None else [Line(CallNote(reads), (mcp.TOOLS_CALL,))]),
            Line(self.limits.stages, OPERATIONS),
        ]
        self._way_back = replies.of_intent
        self._eras = EraStage(bridge)
        self.adjust({})

    def adjust(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Compose the chains for upstreams with these configurations, by name. A call keeps the chain that it has."""
        self.limits.adjust(configs)
        own = {name for line in (*self.outer, *self.inner) if isinstance(line.stage, Mapping) for name in line.stage}
        self._chains = {name: {method: self._compose(name, method) for method in EVERY_DOOR} for name in ("", *own)}

    def _compose(self, name: str, method: str) -> Chain:
        outer, inner = _select(self.outer, name, method), _select(self.inner, name, method)
        return Chain(outer, self._way_back, self._eras, inner)

    def find(self, method: str, upstream: str, *, signs_in: bool = False) -> Chain:
        """The chain of operations of `method` at `upstream`; `signs_in`: of the hub's own tool for signing in there."""
        return self._chains.get(upstream, self._chains[""])[SIGN_IN if signs_in else method]


def _select(lines: Collection[Line], name: str, method: str) -> tuple[Stage, ...]:
    """The stages of operations of `method` at the upstream `name`; "": at one that has no stage of its own."""
    stages = [line.stage for line in lines if method in line.methods]
    found = [stage.get(name) if isinstance(stage, Mapping) else stage for stage in stages]
    return tuple(stage for stage in found if stage is not None)


class CallCount(Stage):
    """Counts calls of tools, by host."""

    def __init__(self, usage: ToolUsage) -> None:
        self._usage = usage

    def admits(self, intent: Intent) -> None:
        route = intent.target.route
        called = route.upstream, route.original, intent.exchange.caller.identity.host
        try:  # without a function call, since every call of a tool comes by
            self._usage.calls[called] += 1
        except KeyError:
            self._usage.begin(called)


class CachedCopy(Stage):
    """Answers a read with the cached copy in the form of the host, if there is one."""

    def __init__(self, live: LiveCatalog, reads: ResourceCache) -> None:
        self._live = live
        self._reads = reads

    def admits(self, intent: Intent) -> Reply | None:
        if not is_plain(intent.request):
            return None
        target, host = intent.target, intent.host
        catalog = self._live.of(host.view)
        return find_cached(self._reads, target.upstream, target.route.original, target.exposed, host.caller, catalog)


class WantedLevel(Stage):
    """Keeps upstreams as talkative as a modern request wants. The level of a session counts anyway."""

    def __init__(self, levels: LogLevels) -> None:
        self._levels = levels

    def admits(self, intent: Intent) -> None:
        caller = intent.host.caller
        if caller.log_level is not None and caller.era is mcp.Era.MODERN:
            self._levels.hold(caller.log_level)

    def left(self, intent: Intent, outcome: Outcome) -> None:
        caller = intent.host.caller
        if caller.log_level is not None and caller.era is mcp.Era.MODERN:
            self._levels.release(caller.log_level)


class SignInAnswer(Stage):
    """Answers in place of an upstream at which a person has to sign in."""

    def admits(self, intent: Intent) -> Wait:
        return WAIT

    async def call(self, intent: Intent, next: Next) -> Reply:
        return await call_sign_in_tool(intent.target.upstream, intent.exchange)


class SharedReads(Stage):
    """Reads a resource once for all hosts that want the same."""

    def __init__(self, reads: ResourceCache) -> None:
        self._reads = reads

    def admits(self, intent: Intent) -> Wait | None:
        return WAIT if intent.target.upstream.config.cache else None

    async def call(self, intent: Intent, next: Next) -> Reply:
        call = partial(intent.send, next)
        return await self._reads.call(intent.target.upstream, intent.operation, intent.exchange, call)


class CallNote(Stage):
    """Tells the cache that a tool was called, also without an answer: it may have changed what was read before."""

    def __init__(self, reads: ResourceCache) -> None:
        self._reads = reads

    def left(self, intent: Intent, outcome: Outcome) -> None:
        self._reads.note_call(intent.target.upstream.name)
