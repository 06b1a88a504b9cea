"""Change listeners: a legacy session, or one `subscriptions/listen` of a modern host, that is told of changes.

A listener watches resources at upstreams and is told of these only, in the names of its view. Changes that come faster
than its host reads merge: at most one message per subject waits.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import trio
from msgspec import Raw, Struct

from hub.bridge.tasks.polled_tasks import Viewer
from hub.calls.host_exchange import HostExchange, HostSession, keep_untold
from hub.catalog.endpoint_views import View
from hub.catalog.upstream_entries import Route
from hub.link.call_interface import Tenant
from hub.link.hub_errors import HubError, failure_from
from hub.routing.live_catalog import LiveCatalog
from hub.wire import jsonrpc, mcp
from hub.wire.errors_for_hosts import resource_not_found
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, RequestId, Result, raw
from hub.wire.mcp import Kind
from hub.wire.modern_metadata import split_params
from hub.wire.total_item_limit import MAX_ITEMS, has_too_many_items, read_strings
from upstreams.subscriptions.resource_subscription import ResourceSubscriber

ACK_TIMEOUT_S: Final = 3.0
"""Seconds that owners of resources have to agree, until a host is answered without theirs."""
RETRY_S: Final = 0.25
"""Seconds between attempts to tell a host that does not read."""
_LEFT: Final = Failure(mcp.INTERNAL_ERROR, "The host has left")


class Doors(Protocol):
    """The ways to owners of resources for the host that looks; `hub.routing.make_intents.Intents` is one."""

    async def subscribe(
        self, route: Route, uri: str, viewer: Viewer, subscriber: ResourceSubscriber, /
    ) -> Failure | None:
        """Have the owner tell a subscriber of changes; None: it agreed. Raises HubError: it could not be asked."""

    def refusal(self, route: Route, uri: str, viewer: Viewer, /) -> Failure | None:
        """The refusal of such a subscription by the stages of now; None: it may go on."""


class Filter(Struct, frozen=True):
    """Filter of a `subscriptions/listen`."""

    lists: frozenset[str]
    """Flags, as in `LIST_FLAGS`."""
    uris: list[str] | None
    tasks: list[str] | None


def read_filter(request: Request) -> Filter:
    """Read the filter of a `subscriptions/listen`. Members that this revision does not know are left out.

    Raises:
        RemoteProtocolError: -32602, it cannot be understood.
    """
    params, _ = split_params(request.params)
    if "notifications" not in params:
        raise RemoteProtocolError(mcp.INVALID_PARAMS, "subscriptions/listen needs notifications, an object")
    if has_too_many_items(params["notifications"]):
        raise RemoteProtocolError(mcp.INVALID_PARAMS, f"notifications has more than {MAX_ITEMS} items")
    wanted = jsonrpc.open_object(params["notifications"])
    flags = {flag: bytes(wanted.get(flag, b"false")) for flag in mcp.LIST_FLAGS}
    if wrong := [flag for flag, value in flags.items() if value not in (b"true", b"false")]:
        raise RemoteProtocolError(mcp.INVALID_PARAMS, f"{wrong[0]} is true or false")
    on = frozenset(flag for flag, value in flags.items() if value == b"true")
    return Filter(on, _strings(wanted, "resourceSubscriptions"), _strings(wanted, "taskIds"))


def _strings(wanted: Mapping[str, Raw], name: str) -> list[str] | None:
    return read_strings(wanted[name], name) if name in wanted else None


class ChangeListener:
    """A host that is told of changes; subclasses send the notifications.

    Satisfies `upstreams.subscriptions.resource_subscription.ResourceSubscriber`.
    """

    def __init__(self, live: LiveCatalog, doors: Doors, exchange: HostExchange) -> None:
        self._doors = doors
        self.caller = exchange.caller
        self.host: Tenant = exchange.caller.tenant
        self.exchange = exchange
        """Exchange of the request that asked for something last."""
        self.view = exchange.view
        self.wanted: dict[str, None] = {}
        """URIs that it watches or waits to watch, as the host writes them."""
        self.held: dict[str, list[Route]] = {}
        """URIs that are watched, and their owners."""
        self.closed = False
        self._live = live
        self._forms: dict[tuple[str, str], dict[str, None]] = {}
        """By upstream and its own URI: the forms in which the host writes that URI."""

    def notify(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        """Send a notification; an unsent one of the same subject is replaced. Never blocks."""
        raise NotImplementedError

    def updated(self, upstream: str, uri: str) -> None:
        """Tell of a change in the host's own spelling; of a part of a watched resource, in the hub's; if the host may
        not know of that part, of the resource that it watches."""
        forms: Iterable[str] | None = self._forms.get((upstream, uri))
        if forms is None:
            forms = (self._live.of(self.view).emitter(upstream)(uri),)
            if self._doors.refusal(Route(upstream, uri), uri, self) is not None:
                around = [own for own in self._forms if own[0] == upstream and uri.startswith(own[1])]
                forms = [form for own in around for form in self._forms[own]]
        for form in forms:
            self.notify(f"updated {form}", mcp.UPDATED, {"uri": raw(form)})

    async def watch(self, uri: str) -> Failure | None:
        """Have `uri` watched by its owners; None if one agreed, else the refusal of the first.

        Cancellation: what is not agreed on by then is not watched.
        """
        routes = await self._routes(uri)
        if not routes:
            return resource_not_found(uri, mcp.L4)
        refusals: dict[str, Failure] = {}
        async with trio.open_nursery() as nursery:
            for route in routes:
                nursery.start_soon(self._watch_at, route, uri, refusals, nursery.cancel_scope)
        if uri in self.held:
            return None
        return next(refusals[route.upstream] for route in routes if route.upstream in refusals)

    async def _watch_at(self, route: Route, uri: str, refusals: dict[str, Failure], others: trio.CancelScope) -> None:
        key = (route.upstream, route.original)
        upstream = self._live.running[route.upstream]
        refusal: Reply | None = None
        while refusal is None and key not in self._forms and not upstream.is_subscribed(route.original, self):
            try:
                refusal = await self._doors.subscribe(route, uri, self, self)
            except HubError as error:
                refusal = failure_from(error, mcp.SUBSCRIBE)
        if isinstance(refusal, Failure):
            refusals[route.upstream] = refusal
        elif self.closed:
            refusals[route.upstream] = _LEFT
            upstream.unsubscribe(route.original, self)
        elif (late := self._refusal(route, uri)) is not None:  # since the upstream was asked
            refusals[route.upstream] = late
            if key not in self._forms:
                upstream.unsubscribe(route.original, self)
        else:
            self._forms.setdefault(key, {})[uri] = None
            held = self.held.setdefault(uri, [])
            if route not in held:  # it may have been asked for twice at one time
                held.append(route)
            others.deadline = min(others.deadline, trio.current_time() + ACK_TIMEOUT_S)

    def unwatch(self, uri: str) -> None:
        """Watch `uri` no more."""
        self.wanted.pop(uri, None)
        self._release(uri, self.held.pop(uri, ()))

    def _release(self, uri: str, routes: Iterable[Route]) -> None:
        for route in routes:
            key = (route.upstream, route.original)
            self._forms[key].pop(uri, None)
            if not self._forms[key]:
                del self._forms[key]
                if route.upstream in self._live.running:
                    self._live.running[route.upstream].unsubscribe(route.original, self)

    def removed(self, upstream: str) -> None:
        """An upstream is gone for good."""
        self._drop(lambda route, uri: route.upstream == upstream)

    def moved(self, view: View) -> None:
        """Its host is shown another view now; it watches no more what is not in there."""
        self.view = view
        self._drop(lambda route, uri: self._refusal(route, uri) is not None)

    def judge(self) -> None:
        """Watch no more what stages refuse by now."""
        self._drop(lambda route, uri: self._doors.refusal(route, uri, self) is not None)

    def _refusal(self, route: Route, uri: str) -> Failure | None:
        if route not in self._owners(uri):
            return resource_not_found(uri, mcp.L4)
        return self._doors.refusal(route, uri, self)

    def _drop(self, is_over: Callable[[Route, str], bool]) -> None:
        """Watch no more where that is over; what was watched there has changed."""
        for uri, routes in list(self.held.items()):
            if over := [route for route in routes if is_over(route, uri)]:
                self.notify(f"updated {uri}", mcp.UPDATED, {"uri": raw(uri)})
                routes[:] = [route for route in routes if route not in over]
                self._release(uri, over)
                if not routes:
                    self.unwatch(uri)

    def close(self) -> None:
        """Watch nothing any more."""
        self.closed = True
        for uri in list(self.held):
            self.unwatch(uri)

    def _owners(self, uri: str) -> list[Route]:
        """The routes to `uri`, to the account that serves there where an owner has several."""
        catalog = self._live.of(self.view)
        routes = catalog.resolve_uri(uri)
        if not catalog.accounts:
            return routes
        return [Route(catalog.accounts.get(each.upstream, each.upstream), each.original) for each in routes]

    async def _routes(self, uri: str) -> list[Route]:
        routes = self._owners(uri)
        if not routes and not self._live.settled.is_set():
            await self._live.settled.wait()
            routes = self._owners(uri)
        return [route for route in routes if route.upstream in self._live.running]


class LegacySubscription(ChangeListener):
    """A legacy session."""

    def __init__(self, live: LiveCatalog, doors: Doors, exchange: HostExchange, session: HostSession) -> None:
        super().__init__(live, doors, exchange)
        self._session = session

    def notify(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        self._session.tell(subject, jsonrpc.encode_notification(method, params))


class ListenStream(ChangeListener):
    """One `subscriptions/listen`. Nothing is sent before the acknowledgement, and everything bears its id."""

    def __init__(self, live: LiveCatalog, doors: Doors, exchange: HostExchange, id: RequestId, wanted: Filter) -> None:
        super().__init__(live, doors, exchange)
        self.filter = wanted
        self._send = exchange.send
        self._meta = raw({mcp.SUBSCRIPTION_KEY: id})
        self._acknowledged = self._over = False
        self._unsent: dict[str, bytes] = {}
        self._news = trio.Event()

    def notify(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        message = jsonrpc.encode_notification(method, {**params, "_meta": self._meta})
        if not self._acknowledged or self._unsent or self._send(message) is False:
            keep_untold(self._unsent, subject, message)
            self._news.set()

    def list_changed(self, kinds: set[Kind]) -> None:
        """Lists of these kinds changed; say so if the host asked for it."""
        for flag in self.filter.lists:
            method = mcp.LIST_FLAGS[flag]
            if kinds & set(mcp.LIST_CHANGED[method]):
                self.notify(method, method, {})

    def acknowledge(self, tasks: list[str] | None) -> None:
        """Send the acknowledgement: the part of the filter that is honoured."""
        honoured: dict[str, object] = {flag: True for flag in mcp.LIST_FLAGS if flag in self.filter.lists}
        if self.filter.uris is not None:
            honoured["resourceSubscriptions"] = [uri for uri in self.filter.uris if uri in self.held]
        if tasks is not None:
            honoured["taskIds"] = tasks
        params = {"_meta": self._meta, "notifications": raw(honoured)}
        self._send(jsonrpc.encode_notification(mcp.ACKNOWLEDGED, params), vital=True)
        self._acknowledged = True

    async def run(self) -> None:
        """Send what could not be sent at once, until the hub ends the stream."""
        while not self._over:
            if self._unsent:
                self._send_unsent()
            if self._unsent:
                await trio.sleep(RETRY_S)
            else:
                await self._news.wait()
                self._news = trio.Event()
        self._send_unsent()

    def _send_unsent(self) -> None:
        for subject, message in list(self._unsent.items()):
            if self._send(message) is False:
                return
            del self._unsent[subject]

    def end(self) -> None:
        """End it from this side."""
        self._over = True
        self._news.set()

    @property
    def result(self) -> Result:
        """The answer to the request, at the end."""
        meta = {**jsonrpc.open_object(self._meta), mcp.SERVER_INFO_KEY: mcp.HUB_INFO}
        return Result(raw({mcp.RESULT_TYPE: mcp.COMPLETED, "_meta": meta}))
