"""Router: one table from method to handler.

Requests about the hub itself (`initialize`, `server/discover`, `ping`) are answered here, and so are lists, from the
live catalogue; a list that may have changed is read again first (`hub.routing.list_updates`). Operations become
intents (`hub.routing.make_intents`), which pass the stages of their chain to the upstream
(`hub.routing.run_chain`).

A catalogue is a snapshot, which `hub.routing.live_catalog` swaps as a whole; no request sees half of a change.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from cache.resource_cache import ResourceCache
from config.security_settings import HookConfig
from config.settings import UpstreamConfig
from hub.bridge.era_bridge import EraBridge
from hub.calls.chain import Intent, Wait
from hub.calls.host_exchange import HostExchange, ProgressUpkeep
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.catalog.list_result import SETTLING_TTL_MS
from hub.catalog.search import meta_tools
from hub.link.call_interface import NOTHING, RunningCall, Tenant
from hub.link.hub_errors import HubError
from hub.routing.compose_chains import Chains
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.make_intents import Intents
from hub.routing.own_tools import Operate, OwnTools, refuse, result_of
from hub.routing.replies_for_hosts import HostReplies, report_bug
from hub.routing.resolve import Resolver
from hub.routing.run_chain import OnEnd, Passage
from hub.routing.subscription_requests import Subscriptions
from hub.routing.tool_usage import ToolUsage
from hub.rules.audit.writer import Audit
from hub.rules.pins.pins import Pins
from hub.telemetry.tracing import Tracing
from hub.wire import mcp
from hub.wire.capabilities import negotiate
from hub.wire.http.mirror_headers import Mirror
from hub.wire.hub_chains import EXPERIMENTAL, NO_HUBS, HubChain, announcement
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, Result, peek_object, peek_str, raw
from hub.wire.mcp import Era, Kind

if TYPE_CHECKING:
    from hub.catalog.pipelines.pipeline_tools import ShownPipeline

_CHANGING: Final = {"listChanged": True}
_EVERYTHING: Final = {
    "tools": _CHANGING,
    "prompts": _CHANGING,
    "resources": {"subscribe": True, **_CHANGING},
    "completions": {},
    "logging": {},
}
_CAPABILITIES: Final = {**_EVERYTHING, "extensions": {mcp.UI_EXTENSION: {}}}
"""A superset: legacy hosts read it once, while upstreams come, go and change."""
_MODERN_CAPABILITIES: Final = {**_EVERYTHING, "extensions": {mcp.UI_EXTENSION: {}, mcp.TASKS_EXTENSION: {}}}
"""Tasks are an extension of the modern revision only."""

DISCOVER_TTL_MS: Final = 60_000


def initialize_result(version: str, instructions: str, behind: HubChain = NO_HUBS) -> Raw:
    """The answer to `initialize`, after agreeing on `version`. `behind`: the hubs that upstreams are."""
    capabilities = {**_CAPABILITIES, EXPERIMENTAL: announcement(behind)}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": mcp.HUB_INFO}
    return raw(result | ({"instructions": instructions} if instructions else {}))


@dataclass(eq=False, repr=False)
class Router:
    """Answers one request of one host. `usage` counts calls of tools; `reads`: the resource cache, or None; `audit`
    writes them down, or None; `tracing` makes spans of them."""

    live: LiveCatalog
    _lists: ListUpdates
    _subscriptions: Subscriptions
    levels: LogLevels
    _bridge: EraBridge
    _progress: ProgressUpkeep
    usage: InitVar[ToolUsage]
    reads: InitVar[ResourceCache | None] = None
    pins: InitVar[Pins | None] = None
    audit: InitVar[Audit | None] = None
    tracing: InitVar[Tracing | None] = None

    def __post_init__(
        self,
        usage: ToolUsage,
        reads: ResourceCache | None,
        pins: Pins | None,
        audit: Audit | None,
        tracing: Tracing | None,
    ) -> None:
        live, bridge = self.live, self._bridge
        self._on_left: Callable[[Tenant], None] = lambda tenant: None
        """Told of each conversation that is over."""
        self.upstreams = live.upstreams
        self.settled = live.settled
        self._resolver = Resolver(live, self._lists)
        self._replies = HostReplies(live)
        names = meta_tools.READ_RESULT, meta_tools.LIST_RESOURCES, meta_tools.READ_RESOURCE
        optional = dict.fromkeys(names, self._call_optional)
        self._own = OwnTools(live, self._replies.of_hub, self._run_pipeline, optional)
        guards = pins, audit, tracing
        self.chains = Chains(live, self._resolver, self.levels, self._replies, bridge, usage, reads, *guards)
        self._intents = Intents(live, self._resolver, self.chains, self._replies, self._own)
        self._handlers: dict[str, Callable[[Request, HostExchange], Awaitable[Reply]]] = {
            mcp.PING: self._ping,
            mcp.DISCOVER: self._discover,
            mcp.TOOLS_CALL: self._call,
            mcp.PROMPTS_GET: self._operate,
            mcp.RESOURCES_READ: self._read,
            mcp.COMPLETE: self._complete,
            mcp.SUBSCRIBE: self._subscriptions.subscribe,
            mcp.UNSUBSCRIBE: self._subscriptions.unsubscribe,
            mcp.LISTEN: self._subscriptions.listen,
        }
        self._at_once: dict[str, Callable[[Request, HostExchange], Reply | None]] = {mcp.PING: self._pong}
        for kind, method in mcp.LIST_METHOD.items():
            self._handlers[method] = partial(self._list, kind)
            self._at_once[method] = partial(self._list_at_once, kind)
        self._handlers |= bridge.tasks.handles.handlers(self._replies.of_upstream, self._intents)
        self._subscriptions.doors = self._intents

    def adjust(self, configs: Mapping[str, UpstreamConfig], hooks: tuple[HookConfig, ...] = ()) -> None:
        """Compose the chains of operations anew, for upstreams with these configurations, by name, and these hooks.
        What lasts is judged by them; a call keeps the chain that it has."""
        self.chains.adjust(configs, hooks)
        self._subscriptions.judge()

    def digests(self, view: View) -> dict[str, str]:
        """By kind, a digest of the list that `view` shows, comparable between runs of the hub."""
        catalog = self.live.of(view)
        return {kind.value: catalog.digest(kind) for kind in Kind}

    def mirrors(self, tool: str, view: View) -> tuple[Mirror, ...]:
        """The arguments of a tool that modern hosts repeat in headers."""
        return self.live.of(view).names.mirrors(tool)

    def roots_changed(self, tenant: Tenant) -> None:
        """A host says that it works somewhere else now."""
        for upstream in self.live.running.values():
            upstream.roots_changed(tenant)

    def removed(self, name: str, sid: str, view: View = EVERYTHING) -> None:
        """An upstream is not configured any more; hosts that still ask for its tools are told so, of what a project
        had only those at work there."""
        self._subscriptions.removed(name)
        self._resolver.removed(name, sid, view)

    def account_removed(self, name: str) -> None:
        """An account at a server is not configured any more."""
        self._subscriptions.removed(name)

    def tell_of_ends(self, on_left: Callable[[Tenant], None]) -> None:
        """Tell of each conversation that is over."""
        self._on_left = on_left

    def left(self, tenant: Tenant) -> None:
        """A conversation of a host is over."""
        self._subscriptions.left(tenant)
        if self.live.judge.legs is not None:
            self.live.judge.legs.left(tenant)
        self._on_left(tenant)
        self._bridge.parking.host_left(tenant)
        for upstream in self.live.running.values():
            upstream.host_left(tenant)

    def initialize(self, params: dict[str, Raw], view: View) -> tuple[Result, str, dict[str, Raw]]:
        """Answer the legacy handshake: the result, the negotiated revision, the host's capabilities.

        Raises:
            RemoteProtocolError: -32602, without a protocol version.
        """
        requested = peek_str(params.get("protocolVersion"))
        if requested is None:
            raise RemoteProtocolError(mcp.INVALID_PARAMS, "initialize needs a protocolVersion, for instance 2025-11-25")
        version = negotiate(requested)
        catalog = self.live.of(view)
        result = initialize_result(version, catalog.instructions, catalog.behind)
        return Result(result), version, peek_object(params.get("capabilities"))

    def begin(self, request: Request, exchange: HostExchange, done: OnEnd | None) -> Reply | RunningCall | None:
        """Answer `request` at once, or begin to without a task: what runs then, and can be cancelled. None: `dispatch`
        can go on, from there; if it never does, `HostExchange.close` has to be called.

        `done` gets the outcome, once; never before this returns. It must not raise. Without it nothing is begun.
        """
        try:
            if request.method not in mcp.MAY_ASK:
                answer = self._at_once.get(request.method)
                return None if answer is None else answer(request, exchange)
            intent = self._intents.make(request, exchange)
        except Exception as error:  # noqa: BLE001 - the hub's error fails this request and nothing else
            return self.reply_to_failure(request, exchange, error)
        if intent is None:
            return None
        passage = Passage(intent)
        if done is None:
            reply = passage.answer()
            if reply is None:
                exchange.defer(passage)
            return reply
        if exchange.wants_progress:
            done = partial(self._end, exchange, done)
        taken = passage.begin(done, self._bridge.start)
        if taken is None:
            if exchange.wants_progress:
                self._progress.add(exchange)
            return passage
        if isinstance(taken, Wait):
            exchange.defer(passage)
            return None
        return taken

    async def dispatch(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `request`, going on where `begin` stopped. Raises nothing; errors are replies.

        Cancellation: passes to the upstream, which is told.
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            return Failure(mcp.METHOD_NOT_FOUND, f"Method not found: {request.method}")
        passage, reply = exchange.passage, None
        exchange.defer(None)
        if exchange.wants_progress:
            self._progress.add(exchange)
        try:
            reply = await (handler(request, exchange) if passage is None else passage.run())
            return reply
        except (HubError, RemoteProtocolError) as error:
            return self.reply_to_failure(request, exchange, error)
        finally:
            if exchange.wants_progress:
                self._progress.remove(exchange, is_answered=reply is not None)

    def _end(self, exchange: HostExchange, done: OnEnd, outcome: Reply | Exception | None) -> None:
        self._progress.remove(exchange, is_answered=isinstance(outcome, Reply))
        done(outcome)

    def count(self, request: Request, exchange: HostExchange, began: float, reply: Reply | None) -> None:
        """Count a request that ended with this reply, if there is no record of it; None: it was cancelled. `began`: by
        `time.perf_counter`."""
        if not exchange.is_operation:
            self.chains.recorder.count_beside(request.method, reply, began, exchange.caller.transport)

    def reply_to_failure(self, request: Request, exchange: HostExchange, error: Exception) -> Reply:
        """The answer to a request that failed by `error`, as its host may see it."""
        if isinstance(error, HubError):
            return self._replies.of_error(error, request.method, exchange, exchange.ref)
        return error.failure if isinstance(error, RemoteProtocolError) else report_bug(request, error, exchange.ref)

    async def _ping(self, request: Request, exchange: HostExchange) -> Reply:
        return self._pong(request, exchange)

    def _pong(self, request: Request, exchange: HostExchange) -> Reply:
        if exchange.caller.era is Era.MODERN:
            return Failure(mcp.METHOD_NOT_FOUND, "There is no ping in this revision")
        return NOTHING

    async def _discover(self, request: Request, exchange: HostExchange) -> Reply:
        if exchange.caller.era is Era.LEGACY:
            return Failure(mcp.METHOD_NOT_FOUND, "server/discover is a request of 2026-07-28; this connection is older")
        catalog = self.live.of(exchange.view)
        result: dict[str, object] = {
            "resultType": "complete",
            "supportedVersions": mcp.ALL_VERSIONS,
            "capabilities": {**_MODERN_CAPABILITIES, EXPERIMENTAL: announcement(catalog.behind)},
            "ttlMs": DISCOVER_TTL_MS if self.settled.is_set() else SETTLING_TTL_MS,  # soon again, until all have
            "cacheScope": "private",
            "_meta": {mcp.SERVER_INFO_KEY: mcp.HUB_INFO},
        }
        return Result(raw(result | ({"instructions": catalog.instructions} if catalog.instructions else {})))

    async def _list(self, kind: Kind, request: Request, exchange: HostExchange) -> Reply:
        await self.live.wait(exchange.view)
        if "cursor" not in request.params:  # one that goes on with a list goes on with that
            await self._lists.freshen([part.name for part in self.live.of(exchange.view).parts], kind)
        return self._page(kind, request, exchange)

    def _list_at_once(self, kind: Kind, request: Request, exchange: HostExchange) -> Reply | None:
        """The list, if it can be shown and has not changed; else None."""
        if not self.live.is_shown(exchange.view):
            return None
        names = [part.name for part in self.live.of(exchange.view).parts]
        if "cursor" not in request.params and not self._lists.are_fresh(names, kind):
            return None
        return self._page(kind, request, exchange)

    def _page(self, kind: Kind, request: Request, exchange: HostExchange) -> Reply:
        for upstream in self.upstreams.values():  # one that never connected has nothing that a call could ask for
            upstream.retry_if_due()
        cursor = request.params.get("cursor")
        text = None if cursor is None else peek_str(cursor)
        if cursor is not None and text is None:
            return Failure(mcp.INVALID_PARAMS, "A cursor is a string")
        caller = exchange.caller
        return self.live.of(exchange.view).page(
            kind,
            caller.version,
            text,
            ui=mcp.UI_EXTENSION in peek_object(caller.capabilities.get("extensions")),
            principal=caller.identity.principal,
            ttl_ms=self._lists.ttl_ms,
        )

    async def _call(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `tools/call`: tools of the hub's own are no upstream's."""
        name = peek_str(request.params.get("name")) or ""
        if name.startswith(mcp.HUB_TOOLS):
            await self.live.settled.wait()  # before it is not known which there are
            if (own := self._own.find(name, exchange.view)) is not None:
                return await own(request, exchange, self._operate)
            if self.chains.of_pipelines is not None and not exchange.view.server:
                from hub.routing.pipelines.judge_whole import note_denied  # not above: few hubs have one

                note_denied(request, exchange, name, self.chains.of_pipelines, self.live)
        return await self._operate(request, exchange)

    async def _call_optional(self, request: Request, exchange: HostExchange, operate: Operate) -> Reply:
        """Answer a call of one of the tools that only some views list."""
        from hub.routing import resource_tools  # not above: few hubs have one

        given, view = request.params.get("arguments"), exchange.view
        match peek_str(request.params.get("name")):
            case meta_tools.LIST_RESOURCES:
                for kind in (Kind.RESOURCE, Kind.TEMPLATE):
                    await self._lists.freshen([part.name for part in self.live.of(view).parts], kind)
                reply: Reply = result_of(resource_tools.list_resources(self.live.of(view), given))
            case meta_tools.READ_RESOURCE:
                reply = await resource_tools.read_resource(request, exchange, self._read)
                profile = self.live.profile_of(view)
                limit = 0 if profile is None else profile.large_results_bytes
                if limit and self.chains.results is not None:
                    routes = self.live.of(view).resolve_uri(peek_str(peek_object(given).get("uri")) or "")
                    source = (routes[0], Kind.RESOURCE) if routes else None
                    reply = self.chains.results.cut(reply, limit, exchange.caller, meta_tools.READ_RESOURCE, source)
            case _ if self.chains.results is not None:
                reply = result_of(self.chains.results.read(given, exchange))
            case _:
                reply = refuse("no result was ever cut")
        return self._replies.of_hub(reply, exchange)

    async def _read(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `resources/read`: results that were cut are no upstream's."""
        results, uri = self.chains.results, peek_str(request.params.get("uri")) or ""
        if results is None or not uri.startswith(mcp.HUB_RESULTS) or exchange.view.server:
            return await self._operate(request, exchange)
        return self._replies.of_hub(results.read_resource(uri, exchange), exchange, request.method)

    async def _run_pipeline(
        self, pipeline: "ShownPipeline", request: Request, exchange: HostExchange, operate: Operate
    ) -> Reply:
        """Answer a call of a pipeline."""
        from hub.routing.pipelines.run import PipelineRun  # not above: few hubs have one

        async def run(arguments: Raw | None) -> Reply:
            work = PipelineRun(pipeline, request, exchange, operate, self._replies, self.live, arguments)
            return await work.answer(self._bridge)

        if (chain := self.chains.of_pipelines) is None:
            return await run(request.params.get("arguments"))
        from hub.routing.pipelines.judge_whole import pass_rules

        return await pass_rules(pipeline, request, exchange, chain, self.live, run)

    async def _operate(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer a call, a prompt or a read; of several owners the first that has it."""
        intents = await self._intents.wait_for(request, exchange)
        if not isinstance(intents, list):
            return intents
        for intent in intents[:-1]:
            with suppress(HubError):
                if isinstance(reply := await Passage(intent).run(), Result):
                    return reply
        return await Passage(intents[-1]).run()

    async def _complete(self, request: Request, exchange: HostExchange) -> Reply:
        intent = await self._intents.complete(request, exchange)
        return await Passage(intent).run() if isinstance(intent, Intent) else intent
