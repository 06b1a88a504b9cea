"""Router: one table from method to handler.

Requests about the hub itself (`initialize`, `server/discover`, `ping`) are answered here, and so are lists, from the
live catalogue; a list that may have changed is read again first (`hub.routing.list_updates`). Operations go to the
upstream that has the named thing: `hub.routing.resolve` finds it, `hub.routing.forwarding` sends them there.

A catalogue is a snapshot, which `hub.routing.live_catalog` swaps as a whole; no request sees half of a change.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec import Raw

from cache.resource_cache import ResourceCache
from hub.bridge.era_bridge import EraBridge
from hub.catalog.list_result import SETTLING_TTL_MS
from hub.catalog.search.meta_tools import CALL_READ_ONLY_TOOL, FIND_TOOLS, META_TOOLS, BadMetaCall, read_meta_call
from hub.catalog.view import EVERYTHING, View
from hub.link.call_interface import NOTHING, Caller, Tenant
from hub.link.hub_errors import HubError, failure_from
from hub.link.tool_usage import ToolUsage
from hub.routing import own_tools
from hub.routing.cached_reads import find_cached, is_plain
from hub.routing.forwarding import OperationForwarder
from hub.routing.host_exchange import HostExchange, ProgressUpkeep
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.resolve import Resolver
from hub.routing.subscriptions import Subscriptions
from hub.wire import mcp
from hub.wire.declarations import EXPERIMENTAL, NO_HUBS, HubChain, announcement, negotiate
from hub.wire.errors_for_hosts import resource_not_found
from hub.wire.http.mcp_headers import Mirror
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, Result, peek_object, peek_str, raw
from hub.wire.mcp import Era, Kind
from hub.wire.request_meta import read_number
from hub.wire.value_limits import data_of

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
NO_COMPLETION: Final = Result(raw({"completion": {"values": [], "total": 0, "hasMore": False}}))


def initialize_result(version: str, instructions: str, behind: HubChain = NO_HUBS) -> Raw:
    """The answer to `initialize`, after agreeing on `version`. `behind`: the hubs that upstreams are."""
    capabilities = {**_CAPABILITIES, EXPERIMENTAL: announcement(behind)}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": mcp.HUB_INFO}
    return raw(result | ({"instructions": instructions} if instructions else {}))


class Router:
    """Answers one request of one host. `usage` counts calls of tools; `reads`: the resource cache, or None."""

    def __init__(
        self,
        live: LiveCatalog,
        lists: ListUpdates,
        subscriptions: Subscriptions,
        levels: LogLevels,
        bridge: EraBridge,
        progress: ProgressUpkeep,
        usage: ToolUsage,
        reads: ResourceCache | None = None,
    ) -> None:
        self.upstreams = live.upstreams
        self.settled = live.settled
        self.live = live
        self._lists = lists
        self._subscriptions = subscriptions
        self._resolver = Resolver(live, lists)
        self._forwarder = OperationForwarder(live, levels, bridge, usage, reads)
        self._search = own_tools.ToolSearch()
        self.levels = levels
        self._bridge = bridge
        self._progress = progress
        self._reads = reads
        self._handlers: dict[str, Callable[[Request, HostExchange], Awaitable[Reply]]] = {
            mcp.PING: self._ping,
            mcp.DISCOVER: self._discover,
            mcp.TOOLS_CALL: partial(self._call_by_name, Kind.TOOL, "tool"),
            mcp.PROMPTS_GET: partial(self._call_by_name, Kind.PROMPT, "prompt"),
            mcp.RESOURCES_READ: self._read_resource,
            mcp.COMPLETE: self._complete,
            mcp.SUBSCRIBE: self._subscriptions.subscribe,
            mcp.UNSUBSCRIBE: self._subscriptions.unsubscribe,
            mcp.LISTEN: self._subscriptions.listen,
        }
        for kind, method in mcp.LIST_METHOD.items():
            self._handlers[method] = self._lister(kind)
        self._handlers |= bridge.tasks.handles.handlers(self._forwarder.reply_for_host)

    def digests(self, view: View) -> dict[str, str]:
        """By kind, a digest of the list that `view` shows, comparable between runs of the hub."""
        catalog = self.live.of(view)
        return {kind.value: catalog.digest(kind) for kind in Kind}

    def mirrors(self, tool: str, view: View) -> tuple[Mirror, ...]:
        """The arguments of a tool that modern hosts repeat in headers."""
        return self.live.of(view).names.mirrors(tool)

    def roots_changed(self, tenant: Tenant) -> None:
        """A host says that it works somewhere else now."""
        for upstream in self.upstreams.values():
            upstream.roots_changed(tenant)

    def removed(self, name: str, sid: str, view: View = EVERYTHING) -> None:
        """An upstream is not configured any more; hosts that still ask for its tools are told so, of what a project
        had only those at work there."""
        self._subscriptions.removed(name)
        self._resolver.removed(name, sid, view)

    def left(self, tenant: Tenant) -> None:
        """A conversation of a host is over."""
        self._subscriptions.left(tenant)
        self._bridge.parking.host_left(tenant)
        for upstream in self.upstreams.values():
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

    def at_once(self, request: Request, caller: Caller, view: View) -> Result | None:
        """The cached copy of the resource that `request` reads, for `caller`; None: only `dispatch` can tell."""
        if request.method != mcp.RESOURCES_READ or self._reads is None or not is_plain(request):
            return None
        uri, catalog = peek_str(request.params["uri"]), self.live.of(view)
        if uri is None or not (routes := catalog.resolve_uri(uri)):
            return None
        upstream = self.upstreams.get(routes[0].upstream)
        if upstream is None:
            return None
        result = find_cached(self._reads, upstream, routes[0].original, uri, caller, catalog)
        if result is not None:
            self._resolver.used_app(routes[0], caller)
        return result

    async def dispatch(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `request`. Raises nothing; errors are replies.

        Cancellation: passes to the upstream, which is told.
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            return Failure(mcp.METHOD_NOT_FOUND, f"Method not found: {request.method}")
        wants_progress = exchange.wants_progress
        if wants_progress:
            self._progress.add(exchange)
        try:
            reply = await handler(request, exchange)
            exchange.send_held()
            return reply
        except HubError as error:
            return self.reply_to_failure(request, exchange, error)
        except RemoteProtocolError as error:
            return error.failure
        finally:
            if wants_progress:
                exchange.drop_held()
                self._progress.remove(exchange)

    def reply_to_failure(self, request: Request, exchange: HostExchange, error: HubError) -> Reply:
        """The answer to a request that failed by `error`, as its host may see it."""
        return self._forwarder.reply_for_host(failure_from(error, request.method), request.method, "", "", exchange)

    async def _ping(self, request: Request, exchange: HostExchange) -> Reply:
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

    def _lister(self, kind: Kind) -> Callable[[Request, HostExchange], Awaitable[Reply]]:
        async def list_(request: Request, exchange: HostExchange) -> Reply:
            await self.live.wait(exchange.view)
            for upstream in self.upstreams.values():  # one that never connected has nothing that a call could ask for
                upstream.retry_if_due()
            cursor = request.params.get("cursor")
            text = None if cursor is None else peek_str(cursor)
            if cursor is not None and text is None:
                return Failure(mcp.INVALID_PARAMS, "A cursor is a string")
            if text is None:  # one that goes on with a list goes on with that
                await self._lists.freshen([part.name for part in self.live.of(exchange.view).parts], kind)
            caller = exchange.caller
            page = self.live.of(exchange.view).page(
                kind,
                caller.version,
                text,
                ui=mcp.UI_EXTENSION in peek_object(caller.capabilities.get("extensions")),
                principal=caller.identity.principal,
                ttl_ms=self._lists.ttl_ms,
            )
            return Result(page)

        return list_

    async def _call_by_name(self, kind: Kind, noun: str, request: Request, exchange: HostExchange) -> Reply:
        name = peek_str(request.params.get("name"))
        if name is None:
            return Failure(mcp.INVALID_PARAMS, f"{request.method} needs the name of a {noun}")
        if name in META_TOOLS and kind is Kind.TOOL and not exchange.view.server:
            return await self._meta_call(name, request, exchange)
        route = await self._resolver.find(kind, name, exchange)
        if route is None:
            return Failure(mcp.INVALID_PARAMS, f"Unknown {noun}: {name}; {kind.value}/list names those there are")
        return await self._forwarder.forward(request, exchange, route, "name", kind=kind)

    async def _meta_call(self, meta_tool: str, request: Request, exchange: HostExchange) -> Reply:
        """Answer a search, or make the call that a call of the hub's own tool is."""
        if meta_tool == FIND_TOOLS:
            await self.live.wait(exchange.view)
            return self._own(await self._search.find(request, self.live.of(exchange.view)), exchange)
        try:
            call = read_meta_call(request.params.get("arguments"))
        except BadMetaCall as error:
            return self._own(own_tools.refuse(str(error)), exchange)
        route = await self._resolver.find(Kind.TOOL, call.name, exchange)
        catalog = self.live.of(exchange.view)
        if route is None:
            return self._own(await self._search.unknown(call.name, catalog), exchange)
        if meta_tool == CALL_READ_ONLY_TOOL and (refusal := own_tools.not_for_reading(call.name, route, catalog)):
            return self._own(refusal, exchange)
        params = {**request.params, "name": raw(call.name), "arguments": call.arguments}
        called = Request(request.id, request.method, params)
        reply = await self._forwarder.forward(called, exchange, route, "name", kind=Kind.TOOL)
        found = own_tools.explain(reply, call.name, route, catalog)
        return own_tools.mark(self._own(found, exchange) if found is not reply else reply, call.name)

    def _own(self, reply: Reply, exchange: HostExchange) -> Reply:
        return self._forwarder.reply_for_host(reply, mcp.TOOLS_CALL, "", "", exchange)

    async def _read_resource(self, request: Request, exchange: HostExchange) -> Reply:
        uri = peek_str(request.params.get("uri"))
        if uri is None:
            return Failure(mcp.INVALID_PARAMS, "resources/read needs a uri")
        routes = await self._resolver.resource(uri, exchange)
        reply: Reply | None = None
        for route in routes:  # several only where local upstreams share files
            try:
                reply = await self._forwarder.forward(request, exchange, route, "uri", asked=uri)
            except HubError:
                if route is routes[-1]:
                    raise
            if isinstance(reply, Result):
                self._resolver.used_app(route, exchange.caller)
                break
        return reply or resource_not_found(uri, exchange.caller.version)

    async def _complete(self, request: Request, exchange: HostExchange) -> Reply:
        ref = peek_object(request.params.get("ref"))
        route, member = await self._resolver.reference(ref, exchange)
        if route is None:
            return Failure(mcp.INVALID_PARAMS, "ref names no prompt, resource or template that is listed")
        snapshot = self.upstreams[route.upstream].snapshot
        if "completions" not in snapshot.capabilities and snapshot.version != mcp.L1:  # L1 has no such capability
            return self._forwarder.reply_for_host(NO_COMPLETION, mcp.COMPLETE, route.upstream, "", exchange)
        params = {**request.params, "ref": raw({**ref, member: route.original})}
        reply = await self._forwarder.forward(Request(request.id, mcp.COMPLETE, params), exchange, route, None)
        if isinstance(reply, Failure) and reply.code in (mcp.METHOD_NOT_FOUND, mcp.INTERNAL_ERROR):
            original = peek_object(data_of(reply).get("upstream")).get("code")  # where the hub gives another code
            if mcp.METHOD_NOT_FOUND in (reply.code, read_number(original)):
                return self._forwarder.reply_for_host(NO_COMPLETION, mcp.COMPLETE, route.upstream, "", exchange)
        return reply
