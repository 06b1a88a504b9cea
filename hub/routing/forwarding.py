"""Forwarding of one operation to one upstream.

Host and upstream use different names and URIs, and perhaps different revisions. They are exchanged here: in the
operation before it is sent across the seam `Upstream.call`, and in the reply, once, for the revision of the host.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from cache.resource_cache import ResourceCache
from hub.bridge.era_bridge import EraBridge
from hub.bridge.input_rounds import Crossing
from hub.bridge.tasks.polled_tasks import Viewer
from hub.catalog.embedded_uris import LARGE_BYTES, identity, localise, untag_arguments
from hub.catalog.entries import Route
from hub.link.call_interface import Exchange, Interim, Operation
from hub.link.hub_errors import UpstreamProtocolError, failure_from
from hub.link.tool_usage import ToolUsage
from hub.routing.host_exchange import HostExchange
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.own_tools import call_sign_in_tool
from hub.wire.errors_for_hosts import failure_for_host
from hub.wire.jsonrpc import Failure, Reply, Request, Result, raw
from hub.wire.mcp import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCES_READ, TOOLS_CALL, Era, Kind
from hub.wire.request_meta import params_for_upstream, split_meta
from hub.wire.results_for_hosts import UnknownResultType, result_for_host
from hub.wire.value_limits import TooManyItems


class OperationForwarder:
    """Sends operations to upstreams. `reads`: the resource cache, or None; `usage` counts calls of tools."""

    def __init__(
        self,
        live: LiveCatalog,
        levels: LogLevels,
        bridge: EraBridge,
        usage: ToolUsage,
        reads: ResourceCache | None = None,
    ) -> None:
        self._live = live
        self._levels = levels
        self._bridge = bridge
        self._usage = usage
        self._reads = reads
        self._untagging = trio.CapacityLimiter(1)
        """Threads that look through large arguments, so that nobody else waits: one, for the memory."""

    async def forward(
        self,
        request: Request,
        exchange: HostExchange,
        route: Route,
        named: str | None,
        *,
        kind: Kind | None = None,
        asked: str | None = None,
    ) -> Reply:
        """Send `request` to the upstream of `route`; the reply as the host may see it.

        `named` is the param that names the thing, `kind` the list it is in, `asked` the URI as the host writes it.

        Raises:
            HubError: as `Upstream.call`; or FixedArgumentSent, an argument is one that the host's profile fixes.
            RemoteProtocolError: -32602, the arguments hold more URIs than the hub looks up.
        Cancellation: passes to the upstream.
        """
        upstream, caller = self._live.upstreams[route.upstream], exchange.caller
        operation = await self._operation(request, exchange, route, named)
        call: Callable[[Operation, Exchange], Awaitable[Reply]] = upstream.call
        if route.signs_in:
            call = partial(call_sign_in_tool, upstream)
        elif kind is Kind.TOOL:
            called = route.upstream, route.original, caller.identity.host
            try:  # without a function call, since every call of a tool comes by
                self._usage.calls[called] += 1
            except KeyError:
                self._usage.begin(called)
        elif self._reads and request.method == RESOURCES_READ:
            call = partial(self._reads.call, upstream)
        crossing = Crossing(upstream, operation, exchange, request, call)
        try:
            if caller.log_level is None or caller.era is Era.LEGACY:  # the level of a session counts anyway
                reply = await self._bridge.forward(crossing)
            else:
                with self._levels.use(caller.log_level):
                    reply = await self._bridge.forward(crossing)
        finally:  # without an answer, too: the call may have changed what was read before
            if kind is Kind.TOOL and self._reads is not None:
                self._reads.note_call(upstream.name)
        if kind is not None and isinstance(reply, Failure) and reply.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
            text = reply.message.lower()
            if "unknown" in text or "not found" in text:  # it has listed that, so its list must be out of date
                upstream.mark_stale((kind,))
        return self.reply_for_host(
            reply, request.method, upstream.name, upstream.snapshot.version, exchange, asked=asked
        )

    async def _operation(self, request: Request, exchange: HostExchange, route: Route, named: str | None) -> Operation:
        """The operation that `request` asks for, under the upstream's own names and URIs."""
        params, meta = split_meta(request.params)
        if named is not None:
            params[named] = raw(route.original)
        if (arguments := params.get("arguments")) is not None:
            untag = self._live.of(exchange.view).untagger(route.upstream)
            if untag is not identity and memoryview(arguments).nbytes > LARGE_BYTES:
                work = partial(untag_arguments, arguments, untag)
                params["arguments"] = await trio.to_thread.run_sync(work, limiter=self._untagging)
            else:
                params["arguments"] = untag_arguments(arguments, untag)
        if route.fixed is not None:  # last, so that it is sent as it was written
            params["arguments"] = route.fixed.fill(params.get("arguments"))
        return Operation(request.method, params_for_upstream(params), meta)

    def reply_for_host(
        self, reply: Reply, method: str, upstream: str, version: str, exchange: Viewer, *, asked: str | None = None
    ) -> Reply:
        """`reply` as the host of `exchange` may see it: in its revision, with the names and URIs of its view.

        `upstream`, "" for the hub's own replies, speaks the revision `version`; `asked` is the URI as the host writes
        it.
        """
        host = exchange.caller.version
        if isinstance(reply, Interim):
            return reply
        if isinstance(reply, Result) and reply.is_plain and method == TOOLS_CALL and exchange.caller.era is Era.LEGACY:
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
            return self.reply_for_host(failure_from(hub_error, method), method, "", "", exchange)
        return Result(value)
