"""Router: one table from method to handler.

Requests about the hub itself (`initialize`, `server/discover`, `ping`) are answered here, and so are lists, from the
live catalogue; a list that may have changed is read again first (`hub.routing.list_updates`). Operations go to the
upstream that has the named thing (`hub.routing.resolve`), across the seam `Upstream.call`. Its reply is translated
once, for the revision of the host.

A catalogue is a snapshot, which `hub.routing.live_catalog` swaps as a whole; no request sees half of a change.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio
from msgspec import Raw

from hub.bridge.bridge import EraBridge
from hub.bridge.tasks.polled_tasks import Viewer
from hub.catalog.entries import Route
from hub.catalog.rewrite import LARGE_BYTES, localise, unchanged, untag_arguments
from hub.catalog.view import EVERYTHING, View
from hub.link.errors import HubError, UpstreamProtocolError, failure_from
from hub.link.interface import Caller, Interim, Operation, Tenant
from hub.routing.host_exchange import HostExchange, ProgressUpkeep
from hub.routing.list_updates import Lists
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.resolve import Resolver
from hub.routing.resource_reads import ResourceReads, is_plain
from hub.routing.server_info import discover_reply, initialize_result, ping_reply
from hub.routing.subscriptions import Subscriptions
from hub.wire.handshake import negotiate
from hub.wire.http.mcp_headers import Mirror
from hub.wire.item_limits import TooManyItems, peek_limited
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, Result, peek_object, peek_str, raw
from hub.wire.mcp import (
    COMPLETE,
    DISCOVER,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    L1,
    LIST_METHOD,
    LISTEN,
    METHOD_NOT_FOUND,
    PING,
    PROMPTS_GET,
    RESOURCES_READ,
    SUBSCRIBE,
    TOOLS_CALL,
    UI_EXTENSION,
    UNSUBSCRIBE,
    Kind,
)
from hub.wire.request_meta import split_meta
from hub.wire.translate import (
    UnknownResultType,
    failure_for_host,
    params_for_upstream,
    resource_not_found,
    result_for_host,
)

NO_COMPLETION: Final = Result(raw({"completion": {"values": [], "total": 0, "hasMore": False}}))


class Router:
    """Answers one request of one host. `reading`: the resource cache, or None."""

    def __init__(
        self,
        live: LiveCatalog,
        lists: Lists,
        subscriptions: Subscriptions,
        levels: LogLevels,
        bridge: EraBridge,
        progress: ProgressUpkeep,
        reading: ResourceReads | None = None,
    ) -> None:
        self.upstreams = live.upstreams
        self.settled = live.settled
        self._live = live
        self._lists = lists
        self._subscriptions = subscriptions
        self._resolver = Resolver(live, lists)
        self._levels = levels
        self._bridge = bridge
        self._progress = progress
        self._reading = reading
        self._looking_through = trio.CapacityLimiter(1)
        """Of large arguments for tags, in a thread, so that nobody else waits; one at a time, for the memory."""
        self._handlers: dict[str, Callable[[Request, HostExchange], Awaitable[Reply]]] = {
            PING: self._ping,
            DISCOVER: self._discover,
            TOOLS_CALL: partial(self._named, Kind.TOOL, "tool"),
            PROMPTS_GET: partial(self._named, Kind.PROMPT, "prompt"),
            RESOURCES_READ: self._read_resource,
            COMPLETE: self._complete,
            SUBSCRIBE: self._subscriptions.subscribe,
            UNSUBSCRIBE: self._subscriptions.unsubscribe,
            LISTEN: self._subscriptions.listen,
        }
        for kind, method in LIST_METHOD.items():
            self._handlers[method] = self._lister(kind)
        self._handlers |= bridge.tasks.handles.handlers(self._finish)

    def find_view(self, name: str) -> View | None:
        """The view of the endpoint /mcp/<name>; None: there is none."""
        return self._live.find(name)

    def digests(self, view: View) -> dict[str, str]:
        """By kind, a digest of the list that `view` shows, comparable between runs of the hub."""
        catalog = self._live.of(view)
        return {kind.value: catalog.digest(kind) for kind in Kind}

    def mirrors(self, tool: str, view: View) -> tuple[Mirror, ...]:
        """The arguments of a tool that modern hosts repeat in headers."""
        return self._live.of(view).mirrors(tool)

    def log_level_changed(self) -> None:
        """A legacy host set another log level, or one that had set one is gone."""
        self._levels.changed()

    def roots_changed(self, tenant: Tenant) -> None:
        """A host says that it works somewhere else now."""
        for upstream in self.upstreams.values():
            upstream.roots_changed(tenant)

    def removed(self, name: str, sid: str, view: View = EVERYTHING) -> None:
        """An upstream is not configured any more; hosts that still ask for its tools are told so, of what a project
        had only those at work there."""
        self._subscriptions.removed(name)
        self._bridge.tasks.forget(name)
        self._resolver.removed(name, sid, view)

    def left(self, tenant: Tenant) -> None:
        """A conversation of a host is over."""
        self._subscriptions.left(tenant)
        self._bridge.parking.host_left(tenant)
        for upstream in self.upstreams.values():
            upstream.left(tenant)

    def initialize(self, params: dict[str, Raw], view: View) -> tuple[Result, str, dict[str, Raw]]:
        """Answer the legacy handshake: the result, the negotiated revision, the host's capabilities.

        Raises:
            RemoteProtocolError: -32602, without a protocol version.
        """
        requested = peek_str(params.get("protocolVersion"))
        if requested is None:
            raise RemoteProtocolError(INVALID_PARAMS, "initialize needs a protocolVersion, for instance 2025-11-25")
        version = negotiate(requested)
        catalog = self._live.of(view)
        result = initialize_result(version, catalog.instructions, catalog.behind)
        return Result(result), version, peek_object(params.get("capabilities"))

    def at_once(self, request: Request, caller: Caller, view: View) -> Result | None:
        """The cached copy of the resource that `request` reads, for `caller`; None: only `dispatch` can tell."""
        if request.method != RESOURCES_READ or self._reading is None or not is_plain(request):
            return None
        uri, catalog = peek_str(request.params["uri"]), self._live.of(view)
        if uri is None or not (routes := catalog.resolve_uri(uri)):
            return None
        upstream = self.upstreams.get(routes[0].upstream)
        if upstream is None or not (result := self._reading.find(upstream, routes[0].original, uri, caller, catalog)):
            return None
        self._resolver.used_app(routes[0], caller)
        return result

    async def dispatch(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `request`. Raises nothing; errors are replies.

        Cancellation: passes to the upstream, which is told.
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            return Failure(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        if exchange.wants_progress:
            self._progress.begin(exchange)
        try:
            reply = await handler(request, exchange)
            exchange.finish()
            return reply
        except HubError as error:
            return self.failed(request, exchange, error)
        except RemoteProtocolError as error:
            return error.failure
        finally:
            if exchange.wants_progress:
                exchange.forget()
                self._progress.end(exchange)

    def failed(self, request: Request, exchange: HostExchange, error: HubError) -> Reply:
        """The answer to a request that failed by `error`, as its host may see it."""
        return self._finish(failure_from(error, request.method), request.method, "", "", exchange)

    # --- answered here ------------------------------------------------------------------------------------------------

    async def _ping(self, request: Request, exchange: HostExchange) -> Reply:
        return ping_reply(exchange.caller)

    async def _discover(self, request: Request, exchange: HostExchange) -> Reply:
        catalog = self._live.of(exchange.view)
        return discover_reply(exchange.caller, catalog.instructions, catalog.behind, settled=self.settled.is_set())

    def _lister(self, kind: Kind) -> Callable[[Request, HostExchange], Awaitable[Reply]]:
        async def list_(request: Request, exchange: HostExchange) -> Reply:
            await self._live.wait(exchange.view)
            for upstream in self.upstreams.values():  # one that never connected has nothing that a call could ask for
                upstream.retry_if_due()
            cursor = request.params.get("cursor")
            text = None if cursor is None else peek_str(cursor)
            if cursor is not None and text is None:
                return Failure(INVALID_PARAMS, "A cursor is a string")
            if text is None:  # one that goes on with a list goes on with that
                await self._lists.freshen([part.name for part in self._live.of(exchange.view).parts], kind)
            caller = exchange.caller
            page = self._live.of(exchange.view).page(
                kind,
                caller.version,
                text,
                ui=UI_EXTENSION in peek_object(caller.capabilities.get("extensions")),
                principal=caller.identity.principal,
                ttl_ms=self._lists.ttl_ms,
            )
            return Result(page)

        return list_

    # --- forwarded to one upstream ------------------------------------------------------------------------------------

    async def _named(self, kind: Kind, noun: str, request: Request, exchange: HostExchange) -> Reply:
        name = peek_str(request.params.get("name"))
        if name is None:
            return Failure(INVALID_PARAMS, f"{request.method} needs the name of a {noun}")
        route = self._live.of(exchange.view).route(kind, name) or await self._resolver.refresh_and_route(
            kind, name, exchange
        )
        if route is None:
            return Failure(INVALID_PARAMS, f"Unknown {noun}: {name}; {kind.value}/list names those there are")
        return await self._forward(request, exchange, route, "name", kind=kind)

    async def _read_resource(self, request: Request, exchange: HostExchange) -> Reply:
        uri = peek_str(request.params.get("uri"))
        if uri is None:
            return Failure(INVALID_PARAMS, "resources/read needs a uri")
        routes = await self._resolver.resource(uri, exchange)
        reply: Reply | None = None
        for route in routes:  # several only where local upstreams share files
            try:
                reply = await self._forward(request, exchange, route, "uri", asked=uri)
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
            return Failure(INVALID_PARAMS, "ref names no prompt, resource or template that is listed")
        snapshot = self.upstreams[route.upstream].snapshot
        if "completions" not in snapshot.capabilities and snapshot.version != L1:  # L1 has no such capability
            return self._finish(NO_COMPLETION, COMPLETE, route.upstream, "", exchange)
        params = {**request.params, "ref": raw({**ref, member: route.original})}
        reply = await self._forward(Request(request.id, COMPLETE, params), exchange, route, None)
        if isinstance(reply, Failure) and reply.code in (METHOD_NOT_FOUND, INTERNAL_ERROR) and _said_unknown(reply):
            return self._finish(NO_COMPLETION, COMPLETE, route.upstream, "", exchange)
        return reply

    async def _forward(
        self,
        request: Request,
        exchange: HostExchange,
        route: Route,
        named: str | None,
        *,
        kind: Kind | None = None,
        asked: str | None = None,
    ) -> Reply:
        """Send an operation to the upstream of `route`, under the upstream's own names and URIs.

        `named` is the param that names the thing, `kind` the list it is in, `asked` the URI as the host writes it.
        """
        upstream = self.upstreams[route.upstream]
        params, meta = split_meta(request.params)
        if named is not None:
            params[named] = raw(route.original)
        if "arguments" in params:
            params["arguments"] = await self._untagged(params["arguments"], route, exchange)
        operation = Operation(request.method, params_for_upstream(params), meta)
        way = self._reading.by_way_of(upstream) if self._reading and request.method == RESOURCES_READ else upstream
        carried = self._bridge.carry(way, operation, exchange, request)
        caller = exchange.caller
        try:
            reply = await (carried if caller.log_level is None else self._levels.hold(caller, carried))
        finally:  # without an answer, too: the call may have changed what was read before
            if kind is Kind.TOOL and self._reading is not None:
                self._reading.acted(upstream.name)
        if kind is not None and isinstance(reply, Failure) and _says_unknown_name(reply):
            upstream.changed((kind,))
        return self._finish(reply, request.method, upstream.name, upstream.snapshot.version, exchange, asked=asked)

    async def _untagged(self, arguments: Raw, route: Route, exchange: HostExchange) -> Raw:
        """Arguments with the upstream's own URIs in place of tagged ones."""
        untag = self._live.of(exchange.view).untagger(route.upstream)
        if untag is unchanged or memoryview(arguments).nbytes <= LARGE_BYTES:
            return untag_arguments(arguments, untag)
        work = partial(untag_arguments, arguments, untag)
        return await trio.to_thread.run_sync(work, limiter=self._looking_through)

    def _finish(
        self,
        reply: Reply,
        method: str,
        upstream: str,
        version: str,
        exchange: Viewer,
        *,
        asked: str | None = None,
    ) -> Reply:
        """`reply` as the host of `exchange` may see it: its revision, its names and URIs."""
        host = exchange.caller.version
        if isinstance(reply, Interim):
            return reply
        if isinstance(reply, Failure):
            return failure_for_host(
                reply,
                method,
                upstream=upstream,
                upstream_version=version,
                host_version=host,
                uri=asked,
                host_capabilities=exchange.caller.capabilities,
            )
        try:
            value = result_for_host(method, reply.value, upstream=upstream, upstream_version=version, host_version=host)
            if upstream:
                value = localise(value, self._live.of(exchange.view).emitter(upstream, asked))
        except (UnknownResultType, TooManyItems) as error:
            hub_error = UpstreamProtocolError(str(error), upstream=upstream)
            return self._finish(failure_from(hub_error, method), method, "", "", exchange)
        return Result(value)


def _says_unknown_name(failure: Failure) -> bool:
    """Whether an upstream does not know what it has listed, so that its list must be out of date."""
    text = failure.message.lower()
    return failure.code in (INVALID_PARAMS, METHOD_NOT_FOUND) and ("unknown" in text or "not found" in text)


def _said_unknown(failure: Failure) -> bool:
    """Whether an upstream said that it does not know the method, in its own code or under `data.upstream`."""
    if failure.code == METHOD_NOT_FOUND:
        return True
    origin = peek_object(peek_limited(failure.data if isinstance(failure.data, Raw) else None).get("upstream"))
    return origin.get("code") == raw(METHOD_NOT_FOUND)
