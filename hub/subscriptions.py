"""What hosts want to be told of unasked: changed resources, and, of modern hosts, changed lists (bridging.md 8).

    legacy host   `resources/subscribe`, one request per resource; told where it is told all that belongs to no request
    modern host   `subscriptions/listen`, a request that runs until either side ends it, and is told on its own stream

Both are listeners: holders of watches at upstreams, told in the names of their endpoint, of nothing else (N-1, N-15).
What changes faster than a host reads is told once: a listener keeps one message per subject.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import trio
from msgspec import Raw, Struct

from hub.catalog import Catalog, Route
from hub.link.exchange import NOTHING, HubError, Overloaded, Tenant, failure_from
from hub.relay import HostExchange, Told
from hub.wire.jsonrpc import (
    Failure,
    RemoteProtocolError,
    Reply,
    Request,
    RequestId,
    Result,
    encode_notification,
    open_object,
    peek_array,
    peek_str,
    raw,
)
from hub.wire.mcp import (
    ACKNOWLEDGED,
    COMPLETED,
    HUB_INFO,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LIST_CHANGED,
    LIST_FLAGS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    RESOURCES_READ,
    RESULT_TYPE,
    SERVER_INFO_KEY,
    SUBSCRIBE,
    SUBSCRIPTION_KEY,
    TASKS_EXTENSION,
    UPDATED,
    Era,
    Kind,
    Snapshot,
)
from hub.wire.modern import split_meta
from hub.wire.translate import failure_for_host
from upstreams.watches import Holder, Watches

ACK_TIMEOUT_S: Final = 3.0
"""How long owners of resources may take until a listen is acknowledged without theirs."""
RETRY_S: Final = 0.25
"""How often it is tried to tell a host that did not read."""
MAX_WATCHED: Final = 1_000
"""Resources that one host watches."""
MAX_LISTENS: Final = 64
"""Streams that one host listens to."""


_LEFT: Final = Failure(INTERNAL_ERROR, "The host has left")


class Watched(Protocol):
    """What is needed of an upstream; `upstreams.upstream.Upstream` is one."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def watches(self) -> Watches: ...

    async def watch(self, uri: str, holder: Holder) -> Failure | None: ...


class Shown(Protocol):
    """What hosts are shown now, and who stands behind it; `hub.router.Router` is it."""

    catalog: Catalog
    settled: trio.Event

    @property
    def upstreams(self) -> Mapping[str, Watched]: ...


class TaskSide(Protocol):
    """Who knows of tasks, for listens that ask for them (bridging.md 11)."""

    async def listen(self, ids: list[str], stream: "Stream") -> list[str]:
        """Tell `stream`, from now on, what becomes of these tasks by `stream.say`; those that its host may hear of."""
        ...

    def left(self, stream: "Stream") -> None:
        """It listens no more."""
        ...


class Filter(Struct, frozen=True):
    """What a listen asks for."""

    lists: frozenset[str]
    """Flags, as in `LIST_FLAGS`."""
    uris: list[str] | None
    tasks: list[str] | None


# --- listeners --------------------------------------------------------------------------------------------------------


class Listener:
    """Who is told. Satisfies `upstreams.watches.Holder`; subclasses say how to `say` something."""

    def __init__(self, shown: Shown, host: Tenant, scope: str | None) -> None:
        self.host = host
        self.scope = scope
        self.wanted: dict[str, None] = {}
        """The URIs it watches or waits to, as the host writes them."""
        self.held: dict[str, list[Route]] = {}
        """Those that are watched, and where."""
        self.closed = False
        self._shown = shown
        self._forms: dict[tuple[str, str], dict[str, None]] = {}
        """How the host writes what an upstream calls so."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.host.identity.host}, {len(self.held)} resources>"

    def say(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        """Send a notification; an unsaid one of the same subject is replaced. Never blocks."""
        raise NotImplementedError

    def updated(self, upstream: str, uri: str) -> None:
        """As `Holder.updated`: in the host's own spelling, or, of a part of what it watches, in the hub's (N-11)."""
        for form in self._forms.get((upstream, uri)) or (self._catalog().emitter(upstream)(uri),):
            self.say(f"updated {form}", UPDATED, {"uri": raw(form)})

    async def watch(self, uri: str) -> Failure | None:
        """Have `uri` watched by whoever owns it; None if anybody agreed, else why the first did not.

        Cancellation: what is not agreed on by then is not watched.
        """
        routes = await self._routes(uri)
        if not routes:
            return Failure(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", raw({"uri": uri}))
        refusals: dict[str, Failure] = {}
        async with trio.open_nursery() as nursery:
            for route in routes:
                nursery.start_soon(self._watch_at, route, uri, refusals, nursery.cancel_scope)
        if uri in self.held:
            return None
        return next(refusals[route.upstream] for route in routes if route.upstream in refusals)

    async def _watch_at(self, route: Route, uri: str, refusals: dict[str, Failure], others: trio.CancelScope) -> None:
        key = (route.upstream, route.original)
        upstream = self._shown.upstreams[route.upstream]
        refusal: Reply | None = None
        if key not in self._forms:
            try:
                refusal = await upstream.watch(route.original, self)
            except HubError as error:
                refusal = failure_from(error, SUBSCRIBE)
        if isinstance(refusal, Failure):
            refusals[route.upstream] = refusal
        elif self.closed:
            refusals[route.upstream] = _LEFT
            upstream.watches.unwatch(route.original, self)
        else:
            self.held.setdefault(uri, []).append(route)
            self._forms.setdefault(key, {})[uri] = None
            others.deadline = min(others.deadline, trio.current_time() + ACK_TIMEOUT_S)

    def unwatch(self, uri: str) -> None:
        """Watch `uri` no more."""
        self.wanted.pop(uri, None)
        for route in self.held.pop(uri, ()):
            key = (route.upstream, route.original)
            self._forms[key].pop(uri, None)
            if not self._forms[key]:
                del self._forms[key]
                self._shown.upstreams[route.upstream].watches.unwatch(route.original, self)

    def close(self) -> None:
        """Watch nothing any more."""
        self.closed = True
        for uri in list(self.held):
            self.unwatch(uri)

    async def _routes(self, uri: str) -> list[Route]:
        routes = self._catalog().resolve_uri(uri)
        if not routes and not self._shown.settled.is_set():
            await self._shown.settled.wait()
            routes = self._catalog().resolve_uri(uri)
        return [route for route in routes if route.upstream in self._shown.upstreams]

    def _catalog(self) -> Catalog:
        return self._shown.catalog if self.scope is None else self._shown.catalog.scoped(self.scope)


class Subscriber(Listener):
    """A legacy session."""

    def __init__(self, shown: Shown, host: Tenant, scope: str | None, told: Told) -> None:
        super().__init__(shown, host, scope)
        self._told = told

    def say(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        self._told.tell(subject, encode_notification(method, params))


class Stream(Listener):
    """One listen of a modern host. Nothing is said before the acknowledgement (N-2), all of it under its id (N-3)."""

    def __init__(self, shown: Shown, exchange: HostExchange, id: RequestId, wanted: Filter) -> None:
        super().__init__(shown, exchange.caller.tenant, exchange.scope)
        self.caller = exchange.caller
        self.filter = wanted
        self._send = exchange.send
        self._meta = raw({SUBSCRIPTION_KEY: id})
        self._acknowledged = self._over = False
        self._unsaid: dict[str, bytes] = {}
        self._news = trio.Event()

    def say(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        message = encode_notification(method, {**params, "_meta": self._meta})
        if not self._acknowledged or self._unsaid or self._send(message) is False:
            self._unsaid[subject] = message
            self._news.set()

    def list_changed(self, kinds: set[Kind]) -> None:
        """Lists of these kinds changed; say so if the host asked for it."""
        for flag in self.filter.lists:
            method = LIST_FLAGS[flag]
            if kinds & set(LIST_CHANGED[method]):
                self.say(method, method, {})

    def acknowledge(self, tasks: list[str] | None) -> None:
        """Say what is listened to, before anything else."""
        honoured: dict[str, object] = {flag: True for flag in LIST_FLAGS if flag in self.filter.lists}
        if self.filter.uris is not None:
            honoured["resourceSubscriptions"] = [uri for uri in self.filter.uris if uri in self.held]
        if tasks is not None:
            honoured["taskIds"] = tasks
        params = {"_meta": self._meta, "notifications": raw(honoured)}
        self._send(encode_notification(ACKNOWLEDGED, params), vital=True)
        self._acknowledged = True

    async def run(self) -> None:
        """Say what could not be said at once, until the hub ends it."""
        while not self._over:
            if self._unsaid:
                self._say_unsaid()
            if self._unsaid:
                await trio.sleep(RETRY_S)
            else:
                await self._news.wait()
                self._news = trio.Event()
        self._say_unsaid()

    def _say_unsaid(self) -> None:
        for subject, message in list(self._unsaid.items()):
            if self._send(message) is False:
                return
            del self._unsaid[subject]

    def end(self) -> None:
        """End it from this side (N-6)."""
        self._over = True
        self._news.set()

    @property
    def result(self) -> Result:
        """What it is answered with in the end."""
        meta = {**open_object(self._meta), SERVER_INFO_KEY: HUB_INFO}
        return Result(raw({RESULT_TYPE: COMPLETED, "_meta": meta}))


# --- all of them ------------------------------------------------------------------------------------------------------


class Subscriptions:
    """All listeners. Satisfies `hub.notify.Audience`. `tasks` is who knows of tasks; None: nobody."""

    def __init__(self, shown: Shown) -> None:
        self.tasks: TaskSide | None = None
        self._shown = shown
        self._sessions: dict[Tenant, Subscriber] = {}
        self._streams: dict[Tenant, dict[Stream, None]] = {}
        self._ended = False

    def __repr__(self) -> str:
        return f"<Subscriptions [{len(self._sessions)} sessions, {sum(map(len, self._streams.values()))} streams]>"

    # --- legacy hosts

    async def subscribe(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `resources/subscribe`, once an owner of the resource has.

        Raises:
            Overloaded: the host watches too much.
            RemoteProtocolError: there is no URI.
        Cancellation: it is not subscribed.
        """
        uri, told = _legacy_request(request, exchange)
        if told is None:
            return _no_method(request)
        tenant = exchange.caller.tenant
        session = self._sessions.get(tenant)
        if session is None:
            session = self._sessions[tenant] = Subscriber(self._shown, tenant, exchange.scope, told)
        if uri in session.held:
            return NOTHING
        if uri not in session.wanted and self._watched(tenant) >= MAX_WATCHED:
            raise Overloaded(f"This host is subscribed to {MAX_WATCHED} resources already; unsubscribe from some")
        session.wanted[uri] = None
        try:
            refusal = await session.watch(uri)
        finally:
            if uri not in session.held:
                session.unwatch(uri)
        return NOTHING if refusal is None else self._refusal(refusal, uri, exchange)

    async def unsubscribe(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `resources/unsubscribe`. What is not subscribed to is just as good; the upstream hears of it later."""
        uri, told = _legacy_request(request, exchange)
        if told is None:
            return _no_method(request)
        session = self._sessions.get(exchange.caller.tenant)
        if session is not None:
            session.unwatch(uri)
        return NOTHING

    def _refusal(self, refusal: Failure, uri: str, exchange: HostExchange) -> Failure:
        """An upstream's refusal, as a host may see it: as one to read the resource."""
        version = exchange.caller.version
        return failure_for_host(
            refusal, RESOURCES_READ, upstream="", upstream_version=version, host_version=version, uri=uri
        )

    def left(self, tenant: Tenant) -> None:
        """A conversation is over, and what was subscribed to in it."""
        session = self._sessions.pop(tenant, None)
        if session is not None:
            session.close()

    # --- modern hosts

    async def listen(self, request: Request, exchange: HostExchange) -> Reply:
        """Answer `subscriptions/listen` when the hub ends it; tell what it asks for until then.

        Raises:
            Overloaded: the host listens to too much.
            RemoteProtocolError: the request is malformed.
        Cancellation: ends it.
        """
        if exchange.caller.era is Era.LEGACY:
            return _no_method(request)
        wanted = read_filter(request)
        if wanted.tasks is not None and TASKS_EXTENSION not in _extensions(exchange):
            needed = raw({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})
            return Failure(MISSING_CAPABILITY, "taskIds needs the tasks extension among the capabilities", needed)
        stream = Stream(self._shown, exchange, request.id, wanted)
        self._admit(stream)
        try:
            tasks = await self._confirm(stream)
            stream.acknowledge(tasks)
            await stream.run()
        finally:
            self._dismiss(stream)
        return stream.result

    def _admit(self, stream: Stream) -> None:
        if self._ended:
            raise Overloaded("The hub is stopping")
        mine = self._streams.get(stream.host, {})
        if len(mine) >= MAX_LISTENS:
            raise Overloaded(f"This host has {MAX_LISTENS} subscriptions open already; end some")
        room = MAX_WATCHED - self._watched(stream.host)
        stream.wanted = dict.fromkeys((stream.filter.uris or [])[: max(room, 0)])
        self._streams.setdefault(stream.host, {})[stream] = None

    async def _confirm(self, stream: Stream) -> list[str] | None:
        """Have everything watched that can be, in `ACK_TIMEOUT_S`; the tasks among it."""
        tasks: list[str] | None = None
        with trio.move_on_after(ACK_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for uri in stream.wanted:
                    nursery.start_soon(stream.watch, uri)
                if stream.filter.tasks is not None:
                    tasks = []
                    if self.tasks is not None:
                        tasks = await self.tasks.listen(stream.filter.tasks, stream)
        stream.wanted = dict.fromkeys(stream.held)
        return tasks

    def _dismiss(self, stream: Stream) -> None:
        stream.close()
        if self.tasks is not None:
            self.tasks.left(stream)
        del self._streams[stream.host][stream]
        if not self._streams[stream.host]:
            del self._streams[stream.host]

    def list_changed(self, kinds: set[Kind], scope: str | None) -> None:
        """Tell the streams of an endpoint which lists differ from what their hosts may have seen (N-8)."""
        for streams in self._streams.values():
            for stream in streams:
                if stream.scope == scope:
                    stream.list_changed(kinds)

    def end(self) -> None:
        """The hub stops: end all streams, and take no more."""
        self._ended = True
        for streams in self._streams.values():
            for stream in streams:
                stream.end()

    def _watched(self, host: Tenant) -> int:
        session = self._sessions.get(host)
        return (len(session.wanted) if session else 0) + sum(len(each.wanted) for each in self._streams.get(host, ()))


def read_filter(request: Request) -> Filter:
    """What a listen asks for. Members that this revision does not know are not listened to.

    Raises:
        RemoteProtocolError: -32602, it cannot be understood.
    """
    params, _ = split_meta(request.params)
    if "notifications" not in params:
        raise RemoteProtocolError(INVALID_PARAMS, "subscriptions/listen needs notifications, an object")
    wanted = open_object(params["notifications"])
    flags = {flag: bytes(wanted.get(flag, b"false")) for flag in LIST_FLAGS}
    if wrong := [flag for flag, value in flags.items() if value not in (b"true", b"false")]:
        raise RemoteProtocolError(INVALID_PARAMS, f"{wrong[0]} is true or false")
    return Filter(
        frozenset(flag for flag, value in flags.items() if value == b"true"),
        _strings(wanted, "resourceSubscriptions"),
        _strings(wanted, "taskIds"),
    )


def _strings(wanted: Mapping[str, Raw], name: str) -> list[str] | None:
    """The strings of a list, each once."""
    value = wanted.get(name)
    if value is None:
        return None
    found = [peek_str(item) for item in peek_array(value)]
    texts = [text for text in found if text is not None]
    if bytes(value)[:1] != b"[" or len(texts) < len(found):
        raise RemoteProtocolError(INVALID_PARAMS, f"{name} is a list of strings")
    return list(dict.fromkeys(texts))


def _extensions(exchange: HostExchange) -> dict[str, Raw]:
    declared = exchange.caller.capabilities.get("extensions")
    return {} if declared is None else open_object(declared)


def _legacy_request(request: Request, exchange: HostExchange) -> tuple[str, Told | None]:
    """The URI, and who is to be told of it; None: not a host of a session."""
    uri = peek_str(request.params.get("uri"))
    if exchange.caller.era is Era.MODERN or exchange.host is None:
        return "", None
    if uri is None:
        raise RemoteProtocolError(INVALID_PARAMS, f"{request.method} needs a uri")
    return uri, exchange.host.told


def _no_method(request: Request) -> Failure:
    return Failure(METHOD_NOT_FOUND, f"There is no {request.method} in this revision")
