"""Conversations with hosts: a `Host` for each legacy session or line connection, all of them in `Hosts`. Each has its
side over any transport: the handshake, the running requests, and notifications that belong to none of them.

A modern request over HTTP carries all this itself: it has a `StatelessHost`.

What always holds: the id of a request is looked up in its own `Host` and nowhere else, so that no host can reach a
request of another; `begin` and `end` come in pairs.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import trio
from msgspec import Raw, structs

from hub.bridge.pending_url_elicitations import PageVisits
from hub.calls.host_exchange import Send, wants_log
from hub.catalog.endpoint_views import View
from hub.catalog.profiles.profile_choice import ProfileChoice
from hub.control.answers import HostRow
from hub.downstream.host_questions import HostQuestions
from hub.downstream.request_admission import RunningRequests
from hub.link.call_interface import NO_RIGHTS, Caller, Identity, Rights, RunningCall, Tenant, new_conversation
from hub.link.hub_errors import Overloaded
from hub.link.memory_budget import Budget
from hub.link.rate_limits import ReadPace
from hub.link.sync_primitives import DirtyFlag
from hub.routing.router import Router
from hub.rules.policy.judge import Judge
from hub.telemetry.tally import Histogram
from hub.wire import jsonrpc, mcp
from hub.wire.capabilities import detach_all, program_name
from hub.wire.jsonrpc import Failure, Notification, RemoteProtocolError, Reply, RequestId, Result, raw
from hub.wire.mcp import Kind
from hub.wire.questions.askable_questions import Question

PARK_TTL_S: Final = 900.0
MAX_LABELS: Final = 1_000
"""Labels of hosts that are known at a time."""
MAX_NAME: Final = 100
"""Characters shown of the name that a host gives itself."""
SESSION_IN_FLIGHT: Final = 64
"""Requests of one session that run at a time."""


class Host:
    """One attached host. Subclasses know its transport: how to `tell` it something."""

    __slots__ = (
        *("_farewell", "asking", "caller", "calls", "calls_over", "client_info", "conversation", "endpoint"),
        *("hosts", "id", "identity", "is_bound", "listens", "open", "outdated", "pace", "requests", "rights", "seen"),
        *("since", "version", "view", "workplace"),
    )
    transport = "memory"

    def __init__(
        self,
        id: str,
        identity: Identity,
        view: View,
        hosts: "Hosts",
        workplace: Path | None = None,
        *,
        is_bound: bool = False,
    ) -> None:
        self.id = id
        self.identity = identity
        self.conversation = new_conversation()
        self.endpoint = view
        """View of the endpoint that the host uses, or of the profile that its user named."""
        self.workplace = workplace
        """The directory that the host works in, if known; it may be in a project."""
        self.is_bound = is_bound
        """The user has said where the host works; its roots are not asked for."""
        self.hosts = hosts
        self.rights = NO_RIGHTS
        """What the token of its last request says of it."""
        hosts.host_comes(view, identity.host, self.named)
        self.view = self.view_at(view)
        """View that the host is shown: of its project, if it works in one, and of its profile, if it has one."""
        self.caller: Caller | None = None
        """Result of the handshake; None before it, and for hosts of the modern era."""
        self.version = ""
        self.client_info: Raw = jsonrpc.EMPTY
        self.open = False
        """The handshake is complete, so that the host may be told things."""
        self.outdated = False
        """A list has changed since it came; some hosts never ask again."""
        self._farewell: Router | None = None
        """Router to notify when the last request of a host that left has ended."""
        self.calls: dict[RequestId, RunningCall] = {}
        """Other running requests, by id: what cancels each."""
        self.calls_over: trio.Event | None = None
        """Set when none is running any more, if anybody waits for that."""
        self.listens: dict[RequestId, trio.CancelScope] = {}
        """Running `subscriptions/listen` requests, by id."""
        self.asking = HostQuestions(hosts.park_ttl_s, hosts.asks_as)
        self.since = self.seen = trio.current_time()
        self.pace = ReadPace()
        self.requests = hosts.requests

    def __repr__(self) -> str:
        state = self.version or "new"
        return f"<{type(self).__name__} {self.identity.host} {state}, {len(self.calls)} requests in flight>"

    @property
    def log_level(self) -> str | None:
        """The minimum level of log messages that belong to no request; None: the host wants none."""
        return self.caller.log_level if self.caller else None

    @property
    def tenant(self) -> Tenant:
        """Key of this conversation, for state that the router and upstreams keep for it."""
        return Tenant(self.identity, self.conversation)

    @property
    def network(self) -> str:
        """The way in which it comes: `tcp` or `unix`."""
        return "tcp" if self.transport == "http" else "unix"

    @property
    def hears(self) -> bool:
        """True if notifications that belong to no request reach the host at once."""
        return True

    @property
    def session(self) -> "Host":
        """The conversation itself, which outlives the request that asks."""
        return self

    # --- what a carrier says

    def tell(self, subject: str, message: bytes) -> None:
        """Send a notification that belongs to no request. Never blocks; an undelivered one of `subject` is replaced."""
        raise NotImplementedError

    def lists_changed(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Tell it that lists have changed: `messages` by their methods."""
        self.outdated = True
        if self.open:
            for method, message in messages:
                self.tell(method, message)
        self.lists_told()

    def lists_told(self) -> None:
        """Note that the host has been told of all changes of its lists. Here: nothing."""

    def log(self, params: dict[str, Raw]) -> None:
        """Pass on a log message that belongs to no request. Of undelivered ones the newest is kept."""
        if wants_log(self.log_level, jsonrpc.peek_str(params.get("level"))):
            self.tell(mcp.MESSAGE, jsonrpc.encode_notification(mcp.MESSAGE, params))

    def watches(self, uri: str, *, on: bool) -> None:
        """Note a subscription that must outlive the connection. Here: nothing, subscriptions end with it."""

    def move(self, workplace: Path | None) -> None:
        """Take note of the directory it works in; None: nobody knows it."""
        self.workplace = workplace

    @property
    def named(self) -> str:
        """The profile that its token or its user names; "": neither does."""
        return self.identity.profile or self.endpoint.profile

    def view_at(self, place: View) -> View:
        """The view that the host would be shown at `place`, which is everything, a project or one server."""
        return self.hosts.view_of(place, self.identity, self.named, self.rights)

    def entitle(self, rights: Rights) -> None:
        """Its token says this of it from now on."""
        if rights == self.rights:
            return
        self.rights = rights
        if self.caller is not None:
            self.caller = structs.replace(self.caller, rights=rights)
        self.view = self.view_at(self.view.base)

    def show(self, place: View) -> None:
        """Show it another place from now on, by its profile."""
        self.view = self.view_at(place)

    async def wait_shown(self, router: Router) -> None:
        """Wait until the lists that the host is shown can be answered."""
        shown = None
        while shown != self.view:  # which may be another one by then
            shown = self.view
            await router.live.wait(shown)

    # --- the handshake, and what it allows

    def initialize(self, router: Router, params: dict[str, Raw]) -> Result:
        """Agree on a revision; starts over if there was one. Raises RemoteProtocolError: the request cannot be used."""
        for name in ("capabilities", "clientInfo"):
            if len(memoryview(params.get(name, jsonrpc.EMPTY))) > mcp.MAX_DECLARED_BYTES:
                raise RemoteProtocolError(mcp.INVALID_PARAMS, f"{name} takes more than {mcp.MAX_DECLARED_BYTES} bytes")
        result, version, capabilities = router.initialize(params, self.view)
        had_level = self.log_level is not None
        self.version = version
        self.client_info = jsonrpc.detach(params.get("clientInfo", jsonrpc.EMPTY))
        self.caller = self.caller_of(version, detach_all(capabilities))
        self.open = False
        self.asking.start_over()
        if had_level:
            router.levels.changed()
        return result

    def caller_of(self, version: str, capabilities: dict[str, Raw], log_level: str | None = None) -> Caller:
        """The caller of requests of this host."""
        name = program_name(self.client_info)
        caller = (self.identity, version, capabilities, log_level, self.conversation)
        return Caller(*caller, lasting=True, program_name=name, rights=self.rights, transport=self.network)

    def end_conversation(self, router: Router) -> None:
        """End the conversation; called once. The router is told when the last request has ended: until then upstreams
        may work for the host."""
        self.hosts.remove(self)
        self.asking.host_left()
        if self.log_level is not None:
            router.levels.changed()
        self._farewell = router
        self._report_end()

    def _report_end(self) -> None:
        if self._farewell is not None and not self.calls:
            router, self._farewell = self._farewell, None
            router.left(self.tenant)

    def change_level(self, router: Router, params: Mapping[str, Raw]) -> Reply:
        """Answer `logging/setLevel`."""
        assert self.caller is not None
        level = jsonrpc.peek_str(params.get("level"))
        if level not in mcp.LOG_LEVELS:
            return Failure(mcp.INVALID_PARAMS, f"level is one of {', '.join(mcp.LOG_LEVELS)}")
        self.caller = structs.replace(self.caller, log_level=level)
        router.levels.changed()
        return Result(jsonrpc.EMPTY)

    # --- requests

    def is_running(self, id: RequestId) -> bool:
        """True if a request of this id is running."""
        return id in self.calls or id in self.listens

    def begin(self, id: RequestId, method: str = "") -> trio.CancelScope:
        """Admit a request; the result cancels it, and `end` must follow. Subscriptions have no end and are not counted.
        Raises RemoteProtocolError: a request with this id is running; it goes on unharmed; Overloaded: too many are."""
        if self.is_running(id):
            raise RemoteProtocolError(mcp.INVALID_REQUEST, "A request with this id is still running", id=id)
        if method == mcp.LISTEN:
            scope = self.listens[id] = trio.CancelScope()
            return scope
        if len(self.calls) >= SESSION_IN_FLIGHT:
            raise Overloaded(f"{SESSION_IN_FLIGHT} requests of this session are running already; wait for one to end")
        scope = trio.CancelScope()
        self.hold(id, scope)
        return scope

    def has_room(self) -> bool:
        """True if one more request may run."""
        requests = self.requests
        return len(self.calls) < SESSION_IN_FLIGHT and requests.of.get(self.identity.principal, 0) < requests.most

    def hold(self, id: RequestId, request: RunningCall) -> None:
        """A request for which there is room runs, and `request` cancels it; `end` must follow."""
        self.requests.admit(self.identity.principal, request)
        self.calls[id] = request

    def end(self, id: RequestId) -> None:
        """A running request is over. The last one of a host that has left ends the conversation."""
        if self.listens.pop(id, None) is not None:
            return
        self.requests.release(self.identity.principal, self.calls.pop(id))
        if self.calls_over is not None and not self.calls:
            self.calls_over.set()
        if self._farewell is not None:
            self._report_end()

    def notified(self, router: Router, message: Notification) -> None:
        """Handle a notification. Unknown methods and ids of other hosts are ignored."""
        if message.method == mcp.CANCELLED:
            id = _request_id(message.params.get("requestId"))
            if id is not None and (request := self.calls.get(id) or self.listens.get(id)):
                request.cancel()
        elif message.method == mcp.PROGRESS:
            self.asking.progressed(message.params)
        elif self.caller is None:
            return
        elif message.method == mcp.INITIALIZED:
            self.open = True
            self.at_work()
        elif message.method == mcp.ROOTS_CHANGED:
            self.asking.roots_changed()
            router.roots_changed(self.tenant)
            self.at_work()

    def at_work(self) -> None:
        """Tell projects that the host may work in one of them now."""
        if self.hosts.workplaces is not None:
            self.hosts.workplaces.opened(self)

    async def ask(self, question: Question, send: Send) -> Reply:
        """Put an upstream's question to the host, on the stream of `send`.

        Satisfies `hub.calls.host_exchange.AskableHost`. Cancellation: withdraws it."""
        assert self.caller is not None, "nobody is asked before the handshake"
        self.hosts.visits.on_question(question, self.caller)
        return await self.asking.ask(question, self.caller, send)

    def withdraw(self, send: Send) -> None:
        """Withdraw the questions that were asked on the stream of `send`."""
        self.asking.withdraw(send)

    def cancel_all(self) -> None:
        """Cancel all requests of the host."""
        for request in (*self.calls.values(), *self.listens.values()):
            request.cancel()


class Workplaces(Protocol):
    """Gives hosts in a project its view; `hub.projects.hosts_in_projects.Projects` is one. No method raises."""

    async def arrived(self, host: Host, *, is_back: bool = False) -> None:
        """A host with a known `workplace` is about to be heard; `is_back`: again, after the hub has restarted, and its
        roots may say otherwise. Cancellation: it sees what everybody sees."""
        ...

    def opened(self, host: Host) -> None:
        """The handshake of `host` is complete, or its roots have changed."""
        ...

    async def placed(self, host: Host) -> None:
        """Wait until `host`, if it is being asked where it works, has said so, or says nothing."""
        ...

    def left(self, host: Host) -> None: ...


OnFirst = Callable[[View, str, str], None]
"""Told of the first host of a label: its place, its label, and the profile that it names."""


class Hosts:
    """All attached hosts, and the running requests of all hosts.

    `park_ttl_s`: how long a question waits for the answer of a host to come."""

    def __init__(self, park_ttl_s: float = PARK_TTL_S, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.park_ttl_s = park_ttl_s
        self.requests = RunningRequests()
        self.asks_as = f"hub-{secrets.token_hex(4)}"
        """Prefix of the ids of questions, another in each run: a late answer to an earlier hub matches no question."""
        self.visits = PageVisits()
        self.list_changes = DirtyFlag()
        """Set whenever hosts are told that a list has changed."""
        self.workplaces: Workplaces | None = None
        """Is told where hosts work."""
        self.profiles = ProfileChoice({})
        """What hosts to come are shown."""
        self.judge = Judge()
        """What rules leave of that."""
        self.known_labels: set[str] = set()
        """Labels of hosts that there were."""
        self._on_first: OnFirst = lambda place, label, named: None
        self._attached: dict[str, Host] = {}
        self.sessions = {"tcp": Histogram(), "unix": Histogram()}
        """Lengths of sessions that are over."""

    def __len__(self) -> int:
        return len(self._attached)

    def adjust(self, park_ttl_s: float) -> None:
        """Set how long questions wait for an answer, for hosts to come."""
        self.park_ttl_s = park_ttl_s

    def follow(self, workplaces: Workplaces) -> None:
        """Tell `find_project_of_host` where hosts work, from now on."""
        self.workplaces = workplaces

    def choose_by(self, profiles: ProfileChoice) -> None:
        """Show hosts to come what `profiles` give them."""
        self.profiles = profiles

    def view_of(self, place: View, identity: Identity, named: str, rights: Rights = NO_RIGHTS) -> View:
        """The view that a host is shown at `place`; `named`: as for `ProfileChoice.choose`."""
        view = self.profiles.choose(place, identity.host, named)
        return view if self.judge.book is None else self.judge.view_for(view, identity, rights)

    def before_first(self, on_first: OnFirst) -> None:
        """Call `on_first` before a host is given its view, while no other of its label is attached, and when one comes
        to a place where no other of its label is."""
        self._on_first = on_first

    def host_comes(self, place: View, label: str, named: str) -> None:
        """A host with this label is about to be given its view at `place`; `named`: as for `ProfileChoice.choose`."""
        if label not in self.known_labels:
            if len(self.known_labels) >= MAX_LABELS:
                self.known_labels.clear()
            self.known_labels.add(label)
        if label and not any(host.identity.host == label for host in self._attached.values()):
            self._on_first(place, label, named)

    def host_moves(self, host: Host) -> None:
        """A host is shown another place from now on."""
        label, place = host.identity.host, host.view.base
        others = (each for each in self._attached.values() if each is not host and each.identity.host == label)
        if label and all(each.view.base != place for each in others):
            self._on_first(place, label, host.named)

    def add(self, host: Host) -> None:
        """Attach a host. `remove` must follow."""
        self._attached[host.id] = host

    def remove(self, host: Host) -> None:
        """Detach a host, if it is attached."""
        if self._attached.pop(host.id, None):
            self.sessions[host.network].observe(trio.current_time() - host.since)
            if self.workplaces is not None:
                self.workplaces.left(host)

    def __iter__(self) -> Iterator[Host]:
        return iter(list(self._attached.values()))

    def list_changed(self, kinds: Iterable[Kind], view: View) -> None:
        """Tell every initialised host that is shown `view` which lists differ from what it may have seen."""
        messages = _messages(kinds)
        self.list_changes.set()
        for host in list(self._attached.values()):
            if host.view == view:
                host.lists_changed(messages)

    def elicited(self, upstream: str, id: str) -> None:
        """Tell the hosts that `upstream` sent to the page `id`, and no others, that the visit is done."""
        ours, conversations = self.visits.on_visit_done(upstream, id)
        message = jsonrpc.encode_notification(mcp.ELICITED, {"elicitationId": raw(ours)})
        for host in list(self._attached.values()):
            if host.open and host.conversation in conversations:
                host.tell(f"{mcp.ELICITED} {ours}", message)

    def move(self, host: Host, view: View, kinds: Iterable[Kind]) -> None:
        """Show a host another view, in which lists of these kinds differ from what it may have seen."""
        host.view = view
        self.list_changes.set()
        if messages := _messages(kinds):
            host.lists_changed(messages)

    def log_levels(self) -> list[str]:
        """The levels that hosts of legacy sessions have set."""
        return [host.log_level for host in self._attached.values() if host.log_level is not None]

    def status(self) -> list[HostRow]:
        """Status rows of the attached hosts."""
        now = trio.current_time()
        return [_row(host, now) for host in self._attached.values()]


def _messages(kinds: Iterable[Kind]) -> list[tuple[str, bytes]]:
    methods = [method for method, concerned in mcp.LIST_CHANGED.items() if set(concerned) & set(kinds)]
    return [(method, jsonrpc.encode_notification(method, {})) for method in methods]


def _row(host: Host, now: float) -> HostRow:
    info = jsonrpc.peek_object(host.client_info)
    name = jsonrpc.peek_str(info.get("title")) or jsonrpc.peek_str(info.get("name")) or host.identity.host
    return HostRow(
        host=name[:MAX_NAME],
        label=host.identity.host,
        principal=host.identity.principal,
        transport=host.transport,
        version=host.version or None,
        endpoint=host.view.path,
        profile=host.view.profile or None,
        search=host.view.search,
        attached_s=round(now - host.since, 1),
        idle_s=0.0 if host.calls else round(now - host.seen, 1),
        in_flight=len(host.calls),
        asked=len(host.asking),
        listening=host.hears or bool(host.listens),
    )


def _request_id(value: Raw | None) -> RequestId | None:
    """Read the request id in a notification."""
    text = jsonrpc.peek_str(value)
    if text is not None or value is None:
        return text
    try:
        return int(bytes(value))
    except ValueError:
        return None
