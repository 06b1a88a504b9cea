"""Subscriptions of hosts: to changed resources and, of modern hosts, to changed lists and tasks.

    legacy host   `resources/subscribe`, one request per resource; told where it is told all that belongs to no request
    modern host   `subscriptions/listen`, a request that runs until either side ends it, and is told on its own stream

Both become listeners (`hub.routing.change_listeners`), which are kept and counted here.
"""

from typing import Final

import trio

from hub.bridge.tasks.polled_tasks import TaskHandles
from hub.bridge.tasks.translate_tasks import declares
from hub.calls.host_exchange import HostExchange, HostSession
from hub.catalog.endpoint_views import View
from hub.link.call_interface import NOTHING, Tenant
from hub.link.hub_errors import Overloaded
from hub.routing.change_listeners import (
    ACK_TIMEOUT_S,
    ChangeListener,
    Doors,
    LegacySubscription,
    ListenStream,
    read_filter,
)
from hub.routing.live_catalog import LiveCatalog
from hub.wire.capabilities import TASKS_NEEDED
from hub.wire.errors_for_hosts import failure_for_host
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, peek_str
from hub.wire.mcp import INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, RESOURCES_READ, Era, Kind

MAX_WATCHED: Final = 1_000
"""Resources that one host watches."""
MAX_LISTENS: Final = 64
"""Streams that one host listens to."""


class Subscriptions:
    """All listeners. `tasks` tells of tasks; None: there are none."""

    def __init__(self, live: LiveCatalog, tasks: TaskHandles | None = None) -> None:
        self._live = live
        self.doors: Doors
        """The ways to owners of resources; set by the router."""
        self._tasks = tasks
        self._sessions: dict[Tenant, LegacySubscription] = {}
        self._streams: dict[Tenant, dict[ListenStream, None]] = {}
        self._ended = False

    async def subscribe(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `resources/subscribe`, once an owner of the resource has.

        Raises:
            Overloaded: the host watches too much.
            RemoteProtocolError: there is no URI, or no such request in this revision.
        Cancellation: it is not subscribed.
        """
        uri, host = _legacy_request(request, exchange)
        tenant = exchange.caller.tenant
        session = self._sessions.get(tenant)
        if session is None:
            session = self._sessions[tenant] = LegacySubscription(self._live, self.doors, exchange, host)
        session.exchange, session.view = exchange, exchange.view
        if uri in session.held:
            return NOTHING
        if uri not in session.wanted and self._watch(tenant) >= MAX_WATCHED:
            raise Overloaded(f"This host is subscribed to {MAX_WATCHED} resources already; unsubscribe from some")
        session.wanted[uri] = None
        try:
            refusal = await session.watch(uri)
        finally:
            if uri not in session.held:
                session.unwatch(uri)
        if refusal is not None:
            version = exchange.caller.version  # the refusal is seen as one to read the resource
            return failure_for_host(
                refusal, RESOURCES_READ, upstream="", upstream_version=version, host_version=version, uri=uri
            )
        host.watches(uri, on=True)
        return NOTHING

    async def unsubscribe(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `resources/unsubscribe`, also of a resource that is not watched; the upstream hears of it later."""
        uri, host = _legacy_request(request, exchange)
        host.watches(uri, on=False)
        session = self._sessions.get(exchange.caller.tenant)
        if session is not None:
            session.unwatch(uri)
        return NOTHING

    def left(self, tenant: Tenant) -> None:
        """A conversation is over, and with it its subscriptions."""
        session = self._sessions.pop(tenant, None)
        if session is not None:
            session.close()

    async def listen(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `subscriptions/listen` when the hub ends it; until then tell its host what it asks for.

        Raises:
            Overloaded: the host listens to too much.
            RemoteProtocolError: the request is malformed.
        Cancellation: ends it.
        """
        if exchange.caller.era is Era.LEGACY:
            raise _no_method(request)
        wanted = read_filter(request)
        if wanted.tasks is not None and not declares(exchange.caller.capabilities):
            return Failure(MISSING_CAPABILITY, "taskIds needs the tasks extension among the capabilities", TASKS_NEEDED)
        stream = ListenStream(self._live, self.doors, exchange, request.id, wanted)
        self._admit(stream)
        try:
            tasks = await self._confirm(stream)
            stream.acknowledge(tasks)
            await stream.run()
        finally:
            self._dismiss(stream)
        return stream.result

    def _admit(self, stream: ListenStream) -> None:
        if self._ended:
            raise Overloaded("The hub is stopping")
        mine = self._streams.get(stream.host, {})
        if len(mine) >= MAX_LISTENS:
            raise Overloaded(f"This host has {MAX_LISTENS} subscriptions open already; end some")
        room = MAX_WATCHED - self._watch(stream.host)
        stream.wanted = dict.fromkeys((stream.filter.uris or [])[: max(room, 0)])
        self._streams.setdefault(stream.host, {})[stream] = None

    async def _confirm(self, stream: ListenStream) -> list[str] | None:
        """Have resources watched within `ACK_TIMEOUT_S`; returns the tasks that are followed."""
        tasks: list[str] | None = None
        with trio.move_on_after(ACK_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for uri in stream.wanted:
                    nursery.start_soon(stream.watch, uri)
                if stream.filter.tasks is not None:
                    tasks = [] if self._tasks is None else await self._tasks.listen(stream.filter.tasks, stream)
        stream.wanted = dict.fromkeys(stream.held)
        return tasks

    def _dismiss(self, stream: ListenStream) -> None:
        stream.close()
        if self._tasks is not None:
            self._tasks.unlisten(stream)
        del self._streams[stream.host][stream]
        if not self._streams[stream.host]:
            del self._streams[stream.host]

    def list_changed(self, kinds: set[Kind], view: View) -> None:
        """Tell the streams that are shown `view` which lists differ from what their hosts may have seen."""
        for streams in self._streams.values():
            for stream in streams:
                if stream.view == view:
                    stream.list_changed(kinds)

    def removed(self, upstream: str) -> None:
        """An upstream is gone for good: nobody watches anything there any more."""
        for listener in self._listeners():
            listener.removed(upstream)

    def judge(self) -> None:
        """The tables of stages are others now: nobody watches any more what he may not. (Tasks are judged anew before
        each word about them.)"""
        for listener in self._listeners():
            listener.judge()

    def _listeners(self) -> list[ChangeListener]:
        return [*self._sessions.values(), *(each for streams in self._streams.values() for each in streams)]

    @property
    def stateless(self) -> list[ListenStream]:
        """The streams of hosts without a conversation: each says itself what it is shown."""
        return [stream for host, streams in self._streams.items() if not host.conversation for stream in streams]

    def shown(self, tenant: Tenant, view: View, kinds: set[Kind]) -> None:
        """A host is shown `view` now, or something else there, and perhaps not the resources it watches; it is told of
        lists of these kinds."""
        session = self._sessions.get(tenant)
        if session is not None:
            session.moved(view)
        for stream in self._streams.get(tenant, ()):
            stream.moved(view)
            stream.list_changed(kinds)

    def end_streams(self) -> None:
        """The hub stops: end all streams, and take no more."""
        self._ended = True
        for streams in self._streams.values():
            for stream in streams:
                stream.end()

    def _watch(self, host: Tenant) -> int:
        session = self._sessions.get(host)
        return (len(session.wanted) if session else 0) + sum(len(each.wanted) for each in self._streams.get(host, ()))


def _legacy_request(request: Request, exchange: HostExchange) -> tuple[str, HostSession]:
    """The URI, and who is to be told of it. Raises RemoteProtocolError: it is no host of a session, or names no URI."""
    if exchange.caller.era is Era.MODERN or exchange.host is None:
        raise _no_method(request)
    if (uri := peek_str(request.params.get("uri"))) is None:
        raise RemoteProtocolError(INVALID_PARAMS, f"{request.method} needs a uri")
    return uri, exchange.host.session


def _no_method(request: Request) -> RemoteProtocolError:
    return RemoteProtocolError(METHOD_NOT_FOUND, f"There is no {request.method} in this revision")
