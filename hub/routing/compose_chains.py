"""Stages of an operation, from the outside in: read this table first.

    outer, once for each request of a host, and each owner of what it asks for
        Recorder      makes the record of an operation that is over, and counts it (`hub.telemetry`)
        Tracing  has it traced (`hub.telemetry.tracing`)
        ContentRecorder  keeps arguments and results where that is wanted (`hub.telemetry.record_call_contents`)
        CutResults    cuts long results of tools where that is wanted (`hub.routing.large_results`)
        Gate          lets pass what no rule denies (`hub.rules.policy`)
        PinGate       refuses what is held back, since it was not approved (`hub.rules.pins`)
        SchemaCheck   refuses arguments and results that do not fit a tool's schemas (`hub.rules.schema_validation`)
        HookCalls     asks hooks about calls of tools (`hub.rules.hooks`)
        Ask           asks a person where a rule wants that (`hub.rules.approvals`)
        AuditTrail    has calls written down as they begin, in the audit log (`hub.rules.audit`)
        CallCount     counts calls of tools by host
        Resolver      remembers whose user interfaces an account reads (`hub.routing.resolve`)
        CachedCopy    answers a read from memory, in the form of the host
        WantedLevel   keeps upstreams as talkative as a modern request wants
    the way back      names and URIs of the host's view, its revision; lists that proved stale (`HostReplies`)
    eras              questions, parked calls, tasks, pages to visit, sign-ins (`EraStage`, over `hub.bridge`)
    inner, once for each message to the upstream
        SignInAnswer  answers in place of an upstream at which a person has to sign in
        SharedReads   one read for all hosts that want the same (`cache.resource_cache`)
        SentCalls     notes what a conversation has called, where rules go by that
        CallNote      tells the cache that a tool was called, which may have changed what was read
        Limit         waits for a place at an upstream that has limits (`hub.routing.upstream_limits`)
        MessageCount  counts what is sent (`hub.telemetry`)
        SentMessages  has it traced, and tells the upstream of the trace

A stage that has nothing to do for a target is not in its chain.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from cache.resource_cache import ResourceCache
from config.loading.checks.json_schemas import HAS_SCHEMAS
from config.security_settings import HookConfig
from config.server_names import RESERVED
from config.settings import UpstreamConfig
from hub.bridge.era_bridge import EraBridge
from hub.calls.chain import WAIT, Chain, EraStage, Intent, Next, Outcome, Stage, Wait
from hub.link.call_interface import Operation
from hub.routing.cached_copies_for_hosts import find_cached, is_plain
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.own_tools import call_sign_in_tool
from hub.routing.replies_for_hosts import HostReplies
from hub.routing.tool_usage import ToolUsage
from hub.routing.upstream_limits import UpstreamLimits
from hub.rules.audit.stage import AuditTrail
from hub.rules.audit.writer import SIGN_IN, Audit
from hub.rules.pins.pins import Pins
from hub.rules.pins.refuse_unapproved import METHODS, PinGate
from hub.telemetry.count_sent_messages import MessageCount
from hub.telemetry.record_call_contents import ContentRecorder
from hub.telemetry.recorder import Recorder
from hub.telemetry.tracing import Tracing
from hub.wire import mcp
from hub.wire.jsonrpc import Reply

if TYPE_CHECKING:
    from hub.routing.large_results import CutResults, LargeResults
    from hub.rules.schema_validation import SchemaChecks

OPERATIONS: Final = (mcp.TOOLS_CALL, mcp.PROMPTS_GET, mcp.RESOURCES_READ, mcp.COMPLETE)
BESIDE: Final = (mcp.SUBSCRIBE, mcp.TASKS_GET)
"""Methods that are no operation of a host's request: only the outer stages of their chains are passed."""
EVERY_DOOR: Final = (*OPERATIONS, *BESIDE, SIGN_IN)

LoadHooks = Callable[[tuple[HookConfig, ...]], Stage]
"""Loads the stage that asks hooks, and has it ask these."""


class Line(NamedTuple):
    """A line of the table."""

    stage: Stage | Mapping[str, Stage]
    """Or the stage of each upstream that has one, by its name."""
    methods: Collection[str] = EVERY_DOOR
    """The doors by which it stands."""


class Chains:
    """The chains of one hub. `reads`: the resource cache, or None; `pins`: what is held back, or None. `audit`, or
    None, has settled which doors have records when `adjust` is called."""

    def __init__(
        self,
        live: LiveCatalog,
        resolver: Stage,
        levels: LogLevels,
        replies: HostReplies,
        bridge: EraBridge,
        usage: ToolUsage,
        reads: ResourceCache | None,
        pins: Pins | None = None,
        audit: Audit | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.messages = MessageCount()
        self.recorder = Recorder(self.messages)
        self._tracing = tracing
        if audit is not None:
            self.recorder.listeners.append(audit.hear)
        self.limits = UpstreamLimits()
        self.checks: SchemaChecks | None = None
        """The checks of schemas; None: no upstream wants any."""
        self._judge = live.judge
        self.gates: dict[str, Stage] = {}
        self.asking: dict[str, Stage] = {}
        """The stage that asks a person, by server."""
        self._load_ask: Callable[[], Stage] | None = None
        """Loads that stage; None: nobody has said yet how people are asked, and there are no rules before."""
        self.hooks: dict[str, Stage] = {}
        self._load_hooks: LoadHooks | None = None
        self.sent: dict[str, Stage] = {}
        self.contents = ContentRecorder()
        self._recorded: dict[str, Stage] = {}
        self.cut: dict[str, CutResults] = {}
        """The stage that cuts results, by server."""
        self.of_pipelines: Chain | None = None
        """What a call of a pipeline passes as a whole, before any of its steps; None: there are no rules."""
        self._live = live
        self.results: LargeResults | None = None
        """The results that are kept; None: none were ever cut."""
        self._pins = pins
        self._pin_gates: dict[str, Stage] = {}
        self._checked: dict[str, Stage] = {}
        self._trail = None if audit is None else AuditTrail(audit)
        self.outer = [
            Line(self.recorder, (*OPERATIONS, SIGN_IN)),
            *([] if tracing is None else [Line(tracing.received, OPERATIONS)]),
            Line(self._recorded, OPERATIONS),
            Line(self.cut, (mcp.TOOLS_CALL,)),
            Line(self.gates),
            Line(self._pin_gates, METHODS),
            Line(self._checked, (mcp.TOOLS_CALL,)),
            Line(self.hooks, (mcp.TOOLS_CALL,)),
            Line(self.asking, (*OPERATIONS, mcp.SUBSCRIBE)),
            Line(self.sent, (mcp.PROMPTS_GET, mcp.RESOURCES_READ)),  # here, since a copy may be at hand
            *([] if self._trail is None or audit is None else [Line(self._trail, audit.doors)]),
            Line(CallCount(usage), (mcp.TOOLS_CALL,)),
            Line(resolver, (mcp.RESOURCES_READ,)),
            *([] if reads is None else [Line(CachedCopy(live, reads), (mcp.RESOURCES_READ,))]),
            Line(WantedLevel(levels), (*OPERATIONS, SIGN_IN)),
        ]
        self.inner = [
            Line(SignInAnswer(), (SIGN_IN,)),
            *([] if reads is None else [Line(SharedReads(reads), (mcp.RESOURCES_READ,))]),
            Line(self.sent, (mcp.TOOLS_CALL,)),
            *([] if reads is None else [Line(CallNote(reads), (mcp.TOOLS_CALL,))]),
            Line(self.limits.stages, OPERATIONS),
            Line(self.messages, OPERATIONS),
            *([] if tracing is None else [Line(tracing.sent, OPERATIONS)]),
        ]
        self._way_back, self._refuse = replies.of_intent, replies.of_refusal
        self._eras = EraStage(bridge)
        self.adjust({})

    def adjust(self, configs: Mapping[str, UpstreamConfig], hooks: tuple[HookConfig, ...] = ()) -> None:
        """Compose the chains for upstreams with these configurations, by name, and these hooks. A call keeps the chain
        that it has."""
        self.limits.adjust(configs)
        if self._tracing is not None:
            self._tracing.adjust(configs, self.recorder.listeners, self.contents)
        stages = self.gates, self._pin_gates, self._checked, self.hooks, self.asking, self.sent, self._recorded
        for each in (*stages, self.cut):
            each.clear()
        self.contents.adjust(configs)
        self._recorded |= {name: self.contents for name, config in configs.items() if config.record}
        if self._trail is not None:
            self._trail.judge = None if self._judge.book is None else self._judge
        self.of_pipelines = None
        if self._judge.book is not None:
            self._put_rules(configs)
        if self._pins is not None:
            gate = PinGate(self._pins, self._refuse)
            self._pin_gates |= {name: gate for name, config in configs.items() if self._pins.may_hold(config)}
        self._check_schemas(configs)
        self._cut_results(configs)
        if hooks and self._load_hooks is not None and self._load_ask is not None:
            self.hooks |= dict.fromkeys(configs, self._load_hooks(hooks))
            self.asking |= dict.fromkeys(configs, self._load_ask())  # a hook may want a person to be asked
        own = {name for line in (*self.outer, *self.inner) if isinstance(line.stage, Mapping) for name in line.stage}
        self._chains = {name: {method: self._compose(name, method) for method in EVERY_DOOR} for name in ("", *own)}

    def ask_by(self, load_ask: Callable[[], Stage], load_hooks: LoadHooks) -> None:
        """Have people asked by the stage that `load_ask` loads, and hooks by that of `load_hooks`, from the next
        `adjust` on."""
        self._load_ask, self._load_hooks = load_ask, load_hooks

    def _cut_results(self, configs: Mapping[str, UpstreamConfig]) -> None:
        profiles = self._live.servers.rules.profiles.values()
        everywhere = any(profile.large_results_bytes for profile in profiles)
        names = [name for name, config in configs.items() if everywhere or config.large_results_bytes]
        if names:
            from hub.routing.large_results import CutResults, LargeResults  # not above: few hubs cut any

            self.results = self.results or LargeResults(trio.current_time, self._judge)
            self.cut |= dict.fromkeys(names, CutResults(self.results, self._live))

    def _check_schemas(self, configs: Mapping[str, UpstreamConfig]) -> None:
        wants = any(config.checked_schemas for config in configs.values())
        if self.checks is not None or wants:
            checks = self._load_checks()
            checks.adjust(configs)
            self._checked |= checks.stages

    def _load_checks(self) -> "SchemaChecks":
        from hub.rules.schema_validation import SchemaChecks  # not above: few want it, and it loads an extra

        self.checks = self.checks or SchemaChecks(self._judge.note)
        return self.checks

    def check_arguments(self, intent: Intent) -> Operation:
        """The operation of a call whose arguments were rewritten. Raises InvalidArguments: they do not fit the tool's
        input schema; without the extra `schema` nobody looks."""
        return self._load_checks().check(intent) if HAS_SCHEMAS else intent.operation

    def _put_rules(self, configs: Mapping[str, UpstreamConfig]) -> None:
        from hub.rules.policy.gate import Gate, SentCalls  # not above: only rules need it

        gate = Gate(self._judge, self._refuse)
        self.gates |= dict.fromkeys(configs, gate)
        asking: list[Stage] = []
        if names := list(filter(self._judge.may_ask, (RESERVED, *configs))):
            assert self._load_ask is not None, "people can be asked"
            asking.append(self._load_ask())
            self.asking |= dict.fromkeys(names, asking[0])
        self.of_pipelines = Chain((gate, *asking), self._way_back, self._eras, ())
        if self._judge.legs is not None:
            sent = SentCalls(self._judge)
            self.sent |= {name: sent for name, config in configs.items() if config.flow}

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
        catalog, is_private = self._live.of(host.view), self._live.judge.tells_readers_apart
        about = target.upstream, target.route.original, target.exposed, host.caller, catalog
        reply = find_cached(self._reads, *about, is_private=is_private)
        if reply is not None:
            host.note_cached()
        return reply


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
