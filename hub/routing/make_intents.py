"""Intents of hosts' requests: the one place where a request becomes an operation of an upstream.

A request is resolved once, by one snapshot of the catalogue, when its turn comes. What is not there is waited for
(`Resolver`); then it is resolved by the snapshot of then. Calls by way of the hub's own tools are unwrapped before
that, so an intent never names a tool of the hub's own in another's place.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import takewhile
from typing import Final

import trio
from msgspec import Raw, Struct, structs

from config.loading.split_accounts import running_as
from config.server_names import server_of
from hub.bridge.sealed_request_state import NO_ROUND
from hub.bridge.tasks.polled_tasks import Viewer
from hub.bridge.tasks.translate_tasks import TaskTicket
from hub.calls.chain import Intent, Section, Target, go_through
from hub.calls.host_exchange import HostExchange, tell_nobody
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import home_of
from hub.catalog.rewrite_embedded_uris import LARGE_BYTES, untag_arguments
from hub.catalog.search.meta_tools import CALL_READ_ONLY_TOOL, CALLS, BadMetaCall
from hub.catalog.upstream_entries import Route
from hub.link.call_interface import NOTHING, Call, Operation
from hub.link.hub_errors import CallDenied
from hub.routing.compose_chains import Chains
from hub.routing.live_catalog import LiveCatalog
from hub.routing.own_tools import OwnTools, not_for_reading, refuse, unwrap
from hub.routing.replies_for_hosts import NO_COMPLETION, HostReplies
from hub.routing.resolve import Resolver
from hub.routing.run_chain import call_upstream
from hub.rules.policy.judge import LEGS
from hub.rules.policy.verdict import Effect
from hub.wire.errors_for_hosts import NO_REFERENCE, NOUNS, conceal, resource_not_found, unknown_name
from hub.wire.jsonrpc import Failure, Reply, Request, peek_object, peek_str, raw
from hub.wire.mcp import COMPLETE, INVALID_PARAMS, L1, PROMPTS_GET, SUBSCRIBE, TASKS_GET, TASKS_UPDATE, TOOLS_CALL, Kind
from hub.wire.modern_metadata import drop_lookalikes, split_params
from upstreams.subscriptions.resource_subscription import ResourceSubscriber
from upstreams.upstream import ManagedUpstream

_encode_name: Final = lru_cache(maxsize=1024)(raw)
DENIED: Final = conceal(NO_REFERENCE)
"""The outcome of what rules deny outright, for its record: whatever its host is told."""
KINDS: Final = {TOOLS_CALL: Kind.TOOL, PROMPTS_GET: Kind.PROMPT}


class Wanted(Struct, frozen=True):
    """The thing that a request names."""

    request: Request
    """The host's own, or the call that its meta call asks for."""
    member: str
    """The param that names it."""
    exposed: str
    kind: Kind | None = None
    """The list it is in; None: a resource, which need not be listed."""
    meta_tool: str = ""
    """The tool of the hub's own by way of which it is called."""


@dataclass(eq=False, repr=False)
class Intents:
    """Makes the intents of what hosts of `_live` ask for."""

    _live: LiveCatalog
    _resolver: Resolver
    _chains: Chains
    _replies: HostReplies
    _own: OwnTools

    def __post_init__(self) -> None:
        self._untagging = trio.CapacityLimiter(1)
        """Threads that look through large arguments, so that nobody else waits: one, for the memory."""

    def make(self, request: Request, exchange: HostExchange) -> Intent | None:
        """The intent of a call, a prompt or a read, by the catalogue as it is; None: it has to be waited for, or is
        refused.

        Raises:
            HubError: FixedArgumentSent, an argument is one that the host's profile fixes; AccountRefused, it names an
                account that the host may not choose.
            RemoteProtocolError: -32602, the arguments hold more URIs than the hub looks up.
        """
        wanted = self._read(request, exchange)
        if not isinstance(wanted, Wanted) or wanted.meta_tool == CALL_READ_ONLY_TOOL:
            return None
        catalog = self._live.of(exchange.view)
        if wanted.kind is not None:
            route = catalog.route(wanted.kind, wanted.exposed)
        else:
            routes = catalog.resolve_uri(wanted.exposed)
            route = routes[0] if len(routes) == 1 else None
        arguments = wanted.request.params.get("arguments")
        if route is None or route.upstream not in self._live.upstreams:
            return None
        if arguments is not None and memoryview(arguments).nbytes > LARGE_BYTES:
            return None
        return self._make(wanted, route, exchange, catalog)

    async def wait_for(self, request: Request, exchange: HostExchange) -> list[Intent] | Reply:
        """The intents of a call, a prompt or a read, in the order in which they are to be tried: several only where
        local upstreams share files. Or the refusal, as the host may see it.

        Raises:
            UpstreamUnavailable: the upstream is disabled, or not configured any more.
            HubError, RemoteProtocolError: as `make`.
        """
        wanted = self._read(request, exchange)
        if not isinstance(wanted, Wanted):
            return wanted
        if wanted.kind is None:
            routes = await self._resolver.resource(wanted.exposed, exchange)
            if not routes:
                not_found = resource_not_found(wanted.exposed, exchange.caller.version)
                return self._refuse_denied(wanted, exchange, not_found)
        else:
            route = await self._resolver.find(wanted.kind, wanted.exposed, exchange)
            if route is None:
                return await self._refuse(wanted, exchange)
            routes = [route]
        if wanted.meta_tool == CALL_READ_ONLY_TOOL:
            refusal = not_for_reading(wanted.exposed, routes[0], self._live.of(exchange.view))
            if refusal is not None:
                return self._replies.of_hub(refusal, exchange)
        catalog, arguments = self._live.of(exchange.view), wanted.request.params.get("arguments")
        untagged = None
        if arguments is not None and memoryview(arguments).nbytes > LARGE_BYTES:
            work = partial(untag_arguments, arguments, partial(catalog.untagger, routes[0].upstream))
            untagged = await trio.to_thread.run_sync(work, limiter=self._untagging)
        return [self._make(wanted, route, exchange, catalog, untagged) for route in routes]

    async def complete(self, request: Request, exchange: HostExchange) -> Intent | Reply:
        """The intent of a completion, or its refusal. Raises as `wait_for`."""
        ref = drop_lookalikes(peek_object(request.params.get("ref")))
        route, member = await self._resolver.reference(ref, exchange)
        kind, exposed = Kind.PROMPT if member == "name" else None, peek_str(ref.get(member)) or ""
        if route is None:
            return self._refuse_denied(Wanted(request, "", exposed, kind), exchange, NO_REFERENCE)
        snapshot = self._live.upstreams[route.upstream].snapshot
        if "completions" not in snapshot.capabilities and snapshot.version != L1:  # L1 has no such capability
            return self._replies.of_upstream(NO_COMPLETION, COMPLETE, route.upstream, "", exchange)
        params = {**request.params, "ref": raw({**ref, member: route.original})}
        wanted = Wanted(Request(request.id, COMPLETE, params), "", exposed, kind)
        return self._make(wanted, route, exchange, self._live.of(exchange.view))

    def call_about_task(self, ticket: TaskTicket, viewer: Viewer) -> Call:
        """The way of requests about the task of a ticket."""
        intent = self._about_task(ticket, viewer)
        return partial(intent.send, partial(go_through, intent.target.chain.outer, call_upstream))

    def check_answers(self, ticket: TaskTicket, viewer: Viewer) -> None:
        """Raises CallDenied: the task of a ticket may have no answers of this host, by the rules of now."""
        judge, ask = self._live.judge, self._chains.asking.get(ticket.upstream)
        intent = self._about_task(ticket, viewer)
        verdict = judge.judge(viewer.caller, viewer.view, intent.target)
        if verdict.rule != LEGS:  # the call that began the task was judged
            return
        update, first = Request(0, TASKS_UPDATE, {}), NO_ROUND._replace(agreed=ticket.agreed)
        intent = structs.replace(intent, request=update, first=first)
        if verdict.effect is Effect.DENY or ask is None or ask.admits(intent) is not None:  # nobody is asked in between
            judge.note_denial(intent, verdict)
            raise CallDenied.because(verdict.reason, ticket.upstream)

    def note_denial(self, ticket: TaskTicket, viewer: Viewer, method: str) -> None:
        """As `TaskDoors.note_denial`."""
        route, judge = Route(ticket.upstream, ticket.tool), self._live.judge
        intent = self._beside(TASKS_GET, route, ticket.exposed or ticket.tool, viewer, Kind.TOOL)
        verdict = judge.judge(viewer.caller, viewer.view, intent.target)
        if verdict.effect is Effect.DENY:
            judge.note_denial(structs.replace(intent, request=Request(0, method, {})), verdict)

    def cut(self, reply: Reply, ticket: TaskTicket, viewer: Viewer) -> Reply:
        """As `TaskDoors.cut`."""
        stage = self._chains.cut.get(ticket.upstream)
        return reply if stage is None else stage.cut(self._about_task(ticket, viewer), reply)

    def may_follow(self, ticket: TaskTicket, viewer: Viewer) -> bool:
        """True if a host may hear of the task of a ticket, by the stages of now."""
        return _refusal(self._about_task(ticket, viewer)) is None

    def _about_task(self, ticket: TaskTicket, viewer: Viewer) -> Intent:
        """By the name under which the host called the tool; if it has another now, or the ticket says none, by any that
        is allowed."""
        server = server_of(ticket.upstream)
        part = self._live.of(viewer.view).part(server)
        names = {ticket.tool} if part is None else part.names_of(ticket.tool)
        names = {ticket.exposed} & names or names
        route = Route(ticket.upstream, ticket.tool)
        intents = [self._beside(TASKS_GET, route, name, viewer, Kind.TOOL) for name in sorted(names)]
        return next((intent for intent in intents if _refusal(intent) is None), intents[0])

    async def subscribe(self, route: Route, uri: str, viewer: Viewer, subscriber: ResourceSubscriber) -> Failure | None:
        """Have the owner of a resource tell `subscriber` of its changes; None: it agreed. Raises HubError: as
        `ManagedUpstream.subscribe`. Cancellation: there is no subscription."""

        async def last(intent: Intent) -> Reply:
            refusal = await intent.target.upstream.subscribe(route.original, subscriber)
            return NOTHING if refusal is None else refusal

        intent = self._beside(SUBSCRIBE, route, uri, viewer)
        reply = await go_through(intent.target.chain.outer, last, intent)
        return reply if isinstance(reply, Failure) else None

    def refusal(self, route: Route, uri: str, viewer: Viewer) -> Failure | None:
        """The refusal of a subscription by the stages of now; None: it may go on."""
        if not self._chains.find(SUBSCRIBE, route.upstream).outer:  # there may be thousands of subscriptions
            return None
        intent, ask = self._beside(SUBSCRIBE, route, uri, viewer), self._chains.asking.get(route.upstream)
        if ask is not None and ask.admits(intent) is not None:  # nobody is asked in between, so it needs a grant
            return resource_not_found(uri, viewer.caller.version)
        return _refusal(intent)

    def _beside(self, method: str, route: Route, exposed: str, viewer: Viewer, kind: Kind | None = None) -> Intent:
        """The intent of something that is no operation of a request: nothing is reported to its host. `route` names
        the account at an upstream."""
        chain, upstream = self._chains.find(method, route.upstream), self._find_running(route.upstream)
        if upstream.is_further_account:
            route = structs.replace(route, upstream=server_of(route.upstream))
        target = Target(upstream, route, exposed, chain, kind)
        host = HostExchange(viewer.caller, tell_nobody, view=viewer.view)
        return Intent(target, Request(0, method, {}), Operation(method, {}), host, host)

    def _read(self, request: Request, exchange: HostExchange) -> Wanted | Reply:
        """Read what a request names."""
        kind, given = KINDS.get(request.method), request.params
        if kind is None:
            uri = peek_str(given.get("uri"))
            return Failure(INVALID_PARAMS, "resources/read needs a uri") if uri is None else Wanted(request, "uri", uri)
        name = peek_str(given.get("name"))
        if name is None:
            return Failure(INVALID_PARAMS, f"{request.method} needs the name of a {NOUNS[request.method]}")
        if kind is Kind.TOOL and name in CALLS and not exchange.view.server:
            try:
                request, exposed = unwrap(request)
            except BadMetaCall as error:
                return self._replies.of_hub(refuse(str(error)), exchange)
            return Wanted(request, "name", exposed, kind, meta_tool=name)
        return Wanted(request, "name", name, kind)

    async def _refuse(self, wanted: Wanted, exchange: HostExchange) -> Reply:
        """The refusal of a name that nothing has."""
        if wanted.meta_tool:
            answer = await self._own.unknown(wanted.exposed, self._live.of(exchange.view))
            return self._refuse_denied(wanted, exchange, self._replies.of_hub(answer, exchange))
        assert wanted.kind is not None, "resources are refused elsewhere"
        unknown = unknown_name(wanted.request.method, wanted.kind, wanted.exposed)
        return self._refuse_denied(wanted, exchange, unknown)

    def _refuse_denied(self, wanted: Wanted, exchange: HostExchange, refusal: Reply) -> Reply:
        """The refusal of what this host cannot see; if it is there for others, with a record of a denial."""
        judge, view, kind = self._live.judge, exchange.view, wanted.kind
        if judge.book is None:
            return refusal
        catalog = self._live.of(structs.replace(view, audience=""))
        found = catalog.resolve_uri(wanted.exposed) if kind is None else [catalog.route(kind, wanted.exposed)]
        route = found[0] if found else None
        if route is not None and route.upstream in self._live.upstreams and route.upstream in self._chains.gates:
            request, gate = wanted.request, self._chains.gates[route.upstream]
            chain = self._chains.find(request.method, route.upstream)
            target = Target(self._live.upstreams[route.upstream], route, wanted.exposed, chain, kind)
            operation = Operation(request.method, request.params)
            intent = Intent(target, request, operation, exchange, exchange, wanted.meta_tool)
            passed = Section(tuple(takewhile(lambda step: step.stage is not gate, chain.outer)), intent)
            judge.note_denial(intent, judge.look_up(exchange.caller, view, target).verdict)
            passed.leave(DENIED)
        return refusal

    def _make(
        self, wanted: Wanted, route: Route, exchange: HostExchange, catalog: Catalog, arguments: Raw | None = None
    ) -> Intent:
        """The intent, with the operation under the upstream's own names and URIs; `arguments` have them already."""
        request = wanted.request
        params, meta = split_params(request.params)
        if wanted.member:
            params[wanted.member] = raw(route.original) if wanted.kind is None else _encode_name(route.original)
            if arguments is None and (given := params.get("arguments")) is not None:
                arguments = untag_arguments(given, partial(catalog.untagger, route.upstream))
        if arguments is not None:
            params["arguments"] = arguments
        if route.fixed is not None:  # last, so that it is sent as it was written
            params["arguments"] = route.fixed.fill(arguments)
        upstream = self._live.upstreams[route.upstream]
        if route.upstream in catalog.accounts:
            upstream = self._choose_account(route, catalog, params, exchange)
        if wanted.kind is Kind.TOOL and self._live.judge.book is not None:
            self._live.judge.settle_arguments(exchange, route, params)
        chain = self._chains.find(request.method, upstream.name, signs_in=route.signs_in)
        target = Target(upstream, route, wanted.exposed, chain, wanted.kind)
        operation = Operation(request.method, params, meta)
        return Intent(target, request, operation, exchange, exchange, wanted.exposed if wanted.meta_tool else "")

    def _choose_account(
        self, route: Route, catalog: Catalog, params: dict[str, Raw], exchange: HostExchange
    ) -> ManagedUpstream:
        """The account that serves a call, a prompt or a read; the argument that names it is taken off. Raises
        AccountRefused: a host may not choose it."""
        account, name, argument = "", catalog.accounts[route.upstream], route.account
        if exchange.is_step:  # its view is of no profile
            profile, part = self._live.servers.rules.profiles.get(exchange.profile), catalog.part(route.upstream)
            chosen = "" if profile is None else profile.accounts.get(home_of(route.upstream)[0], "")
            if part is not None and chosen in part.rule.accounts:
                name = running_as(route.upstream, part.rule.accounts, chosen)
                argument = None if argument is None else argument.decide(f"profile {exchange.profile}")
        if argument is not None:
            account, arguments = argument.take(params.get("arguments"))
            if account:
                name = running_as(route.upstream, argument.accounts, account)
            if arguments is not None:
                params["arguments"] = arguments
        return self._find_running(name)

    def _find_running(self, name: str) -> ManagedUpstream:
        """The upstream that runs under a name, of an account too. Raises UpstreamUnavailable: it is gone."""
        upstream = self._live.running[name]
        if upstream.is_further_account and not upstream.snapshot.version:
            upstream.resemble(self._live.upstreams[server_of(name)])
        return upstream


def _refusal(intent: Intent) -> Failure | None:
    """The refusal of an intent by the outer stages of its chain; None: it may go on, perhaps after a wait."""
    section = Section(intent.target.chain.outer, intent)
    section.leave(None)
    return section.verdict if isinstance(section.verdict, Failure) else None
