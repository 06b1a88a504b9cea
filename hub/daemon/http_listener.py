"""The HTTP listener: its address, the token that hosts must show, and moves to another address.

A move binds the new address first. The old one takes no more connections; requests that run there may finish.
"""

import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final, Protocol

import trio

from config.diagnostics import ConfigError
from config.hub_paths import metrics_token_path, socket_path, token_path, tokens_path
from config.loading.parse_addresses import split_listen
from config.settings import HubConfig
from hub.app import WALL, Hub
from hub.control.answers import ListenStatus
from hub.daemon.bind_http import Bound, CannotListen, listen_tcp, spell
from hub.daemon.http_routes import PAGES, TO_DASHBOARD, public_reply, route
from hub.downstream.access.access import Access, Credentials, ProxiedPersons
from hub.downstream.access.hub_urls import resource_of
from hub.downstream.access.token_files import check_token, read_or_make_token, read_token
from hub.downstream.access.token_lookup import NamedTokens
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.endpoint import Endpoint
from hub.link.fault_isolation import keep_going
from hub.link.rate_limits import TokenBucket
from hub.net.http_request import EarlyReply, HttpRequest, Undecided
from hub.net.look_after_connections import Handler, HttpServer
from hub.net.response_writer import HttpResponse

if TYPE_CHECKING:
    from hub.downstream.access.issuer_token_verdicts import IssuerTokens
    from hub.fleet.route_to_owner import Fleet
    from upstreams.fetch.fetcher import Fetcher

log = logging.getLogger("hubd")

LOOK_S: Final = 60.0
"""Seconds between looks for tokens that have ended by the time of day."""
Fetch = Callable[[], "Fetcher"]
MAX_NOTED: Final = 10
"""Refusals within a minute that are written down one by one."""


class BrowserPages(Protocol):
    """The dashboard, as its listener knows it."""

    def judge(self, request: HttpRequest, hosts: Collection[str]) -> EarlyReply | Undecided | None: ...
    def handle(self, request: HttpRequest, response: HttpResponse) -> Awaitable[None]: ...
    def welcomes(self, request: HttpRequest) -> bool: ...
    def end(self) -> None: ...


class HttpListener:
    """HTTP for the hosts of `hub`, where it is `bound` and, unless the socket was given, wherever it is moved to. `run`
    must be running."""

    def __init__(
        self, hub: Hub, bound: Bound, durable: DurableSessions, fleet: "Fleet | None" = None, fetch: Fetch | None = None
    ) -> None:
        """`fleet`: the hub is one of several. `fetch` gives what asks issuers of tokens, if there are any."""
        self._hub, config = hub, hub.config
        self.dashboard: BrowserPages | None = None
        """The dashboard; to be set before `run`."""
        self._refusals = TokenBucket(MAX_NOTED, MAX_NOTED / 60)
        self._unnoted = 0
        """Refusals that were not written down since the last one that was."""
        self._fetch = fetch
        self._listen = config.listen
        self._movable = not bound.is_given
        self.squatted = bound.squatted
        """Another user held the wanted address when the hub started, and hosts send their token there. Nobody is let in
        by HTTP until the hub listens where it was told to."""
        self._stopgap = secrets.token_urlsafe() if bound.squatted else None
        """A token that nobody knows, while no token can be kept or hosts show theirs to another user."""
        try:
            self._token = self._stopgap or token_of(config)
        except OSError as error:
            log.warning("cannot keep a token in %s (%s); nobody is let in by HTTP", token_path(), error.strerror)
            self._token = self._stopgap = secrets.token_urlsafe()
        self._site = _Site(bound.tcp)
        self._kept = None if bound.also is None else _Site(bound.also)
        self._others = [] if self._kept is None else [self._kept]
        """Further addresses: the kept one, and those that are being left."""
        self._config = config
        self.named_tokens = NamedTokens(tokens_path(), WALL)
        self.named_tokens.configure(config.access.tokens)
        self._scrapes: str | None = None
        """The token that opens the metrics and nothing else; None: there is none."""
        self.read_metrics_token()
        self._issued = self._make_issuer_tokens(config)
        self._issued_scope = trio.CancelScope()
        self._named = config.replica.url
        self.membership = None if fleet is None else fleet.membership
        """Membership of this hub in its fleet; None: it is alone."""
        if self.membership is not None:
            self.membership.change_url(self._url())
        self.endpoint = Endpoint(self._access(self._site), hub.router, hub.hosts, durable)
        self._gate = None if fleet is None else fleet.gate(self.endpoint, durable, hub.states, hub.bridge.tasks.handles)
        self._stopping = False
        self._signs_in = False
        self.pages = dict(PAGES)
        """Pages for those who have a token."""
        self._handler: Handler
        self._nursery: trio.Nursery

    @property
    def address(self) -> tuple[str, int]:
        """The host and port of the present listener."""
        return self._site.host, self._site.port

    @property
    def url(self) -> str:
        """The endpoint for all upstreams, as programs of this machine reach it."""
        return self._site.url

    @property
    def displaced(self) -> str | None:
        """The configured address, if it was taken at the start so that the hub listens elsewhere; else None."""
        return self._listen if self._movable and split_listen(self._listen)[1] not in (0, self._site.port) else None

    def status(self) -> ListenStatus:
        """For `hubd status`."""
        also = None if self._kept is None else self._kept.url
        return ListenStatus(
            url=self.url, socket=str(socket_path()), wanted=self.displaced, also=also, squatted=self.squatted
        )

    @property
    def is_lasting(self) -> bool:
        """True if the next hub listens at this port, too."""
        return not self._movable or split_listen(self._listen)[1] != 0

    @property
    def pending(self) -> tuple[str, ...]:
        """Settings that are not in effect yet."""
        return ("listen",) if self._config.listen != self._listen else ()

    async def run(
        self, sign_in: Handler | None = None, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve MCP, pages and, without a token, those of `sign_in` until cancelled."""
        mcp = self.endpoint.handle if self._gate is None else self._gate.handle
        dashboard = None if self.dashboard is None else self.dashboard.handle
        self._handler = route(mcp, sign_in, self.pages, dashboard)
        self._signs_in = sign_in is not None
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self.endpoint.run)
            self._nursery.start_soon(self._run_issued)
            self._nursery.start_soon(keep_going, "Ending streams of tokens that have ended", self._end_streams)
            if self._gate is not None:
                self._nursery.start_soon(keep_going, "Being found by other hubs", self._gate.run)
            for site in (self._site, *self._others):
                await self._open(site)
            task_status.started()

    async def _end_streams(self) -> None:
        while True:
            await trio.sleep(LOOK_S)
            self.named_tokens.end_streams()
            if self._issued is not None:
                self._issued.end_streams()

    async def drain(self) -> None:
        """Take no more connections; return when running requests have ended. Other hubs get the sessions at once."""
        self._stopping = True
        if self._gate is not None:
            await self._gate.ownership.deregister()
        self.endpoint.drain()
        if self.dashboard is not None:
            self.dashboard.end()
        async with trio.open_nursery() as nursery:
            for site in (self._site, *self._others):
                nursery.start_soon(site.http.drain)

    # --- another configuration ----------------------------------------------------------------------------------------

    def prepare(self, config: HubConfig) -> socket.socket | None:
        """Bind the address of `config` if it is a new one; None: it is not, or the present listener holds its port.
        Raises CannotListen: another process has it; ConfigError, OSError: no token can be read or made."""
        moves = config.listen != self._listen and self._movable
        try:
            self._token = token_of(config)
        except OSError:
            if self._stopgap is None:
                raise
            self._token = self._stopgap
        if not moves:
            if self.squatted:
                self._token = self._stopgap
            return None
        try:
            return listen_tcp(config.listen)
        except CannotListen:
            if split_listen(config.listen)[1] == self._site.port:
                return None  # held by the present listener
            raise

    async def apply(self, config: HubConfig, tcp: socket.socket | None) -> None:
        """Admit hosts by the rules of `config`, and move to `tcp`, which `prepare` has bound."""
        before = self._resource_facts()
        if config.access.tokens != self._config.access.tokens:
            self.named_tokens.configure(config.access.tokens)
        self._config = config
        if tcp is not None:
            old, self._site, self._listen = self._site, _Site(tcp), config.listen
            self.squatted = False
            self.read_metrics_token()
            await self._open(self._site)
            if self.membership is not None:
                self.membership.change_url(self._url())
            self._others.append(old)
            self._nursery.start_soon(self._close, old, config.drain_s)
        if before != self._resource_facts():  # what was let in by other rules ends
            if self._issued is not None:
                self._issued.end()
                self._issued_scope.cancel()
            self._issued = self._make_issuer_tokens(config)
            self._nursery.start_soon(self._run_issued)
        for site in (self._site, *self._others):
            site.http.admit_by(self._access(site).guard)
        self.endpoint.admit_by(self._access(self._site))

    def _access(self, site: "_Site") -> Access:
        config = self._config
        token = None if config.auth == "none" else self._token
        own = None if self.membership is None else self.membership.address
        hosts = config.allowed_hosts if own is None else (*config.allowed_hosts, spell(*own))
        proxied = None
        if config.auth == "proxy":
            from hub.sign_in.connection_owner import ConnectionOwners

            proxied = ProxiedPersons(config.access.proxy, ConnectionOwners())
        return Access(  # who holds the address of a squatted hub may know tokens of hosts, too
            port=site.port,
            hosts=hosts,
            origins=config.allowed_origins,
            token=token,
            others=None if self.squatted else Credentials(self.named_tokens, self._issued, proxied),
            named_by="" if proxied is None else proxied.header,
            scrapes=lambda: self._scrapes,
            public=self._public_reply,
            refused=self.note_refusal,
            dashboard=None if self.dashboard is None else self.dashboard.judge,
        )

    def read_metrics_token(self) -> None:
        """Read the token of the metrics again, if one was made."""
        self._scrapes, path = None, metrics_token_path()
        try:
            self._scrapes = None if self.squatted else read_token(path)
        except FileNotFoundError:
            pass
        except (ConfigError, OSError) as error:
            log.warning("the token of the metrics does not count: %s", error)

    def note_refusal(self, request: HttpRequest, reply: EarlyReply) -> None:
        """Write down that somebody was not let in; of many only how many there were, so that nobody fills the log."""
        if not self._refusals.take(trio.current_time()):
            self._unnoted += 1
            return
        ends, more = request.ends(), {"more": self._unnoted} if self._unnoted else {}
        self._unnoted = 0
        peer = "" if ends is None else ends.peer[0]
        facts = {"status": reply.status, "peer": peer, "path": request.path}
        self._hub.audit.note("access", what="refused", **facts, **more)

    # --- tokens of authorization servers ------------------------------------------------------------------------------

    def _resource_facts(self) -> tuple[object, ...]:
        """The facts by which tokens of authorization servers are judged."""
        config = self._config
        return config.auth, config.access, resource_of(config, *self.address)

    def _make_issuer_tokens(self, config: HubConfig) -> "IssuerTokens | None":
        """The judge of tokens of authorization servers; None: none counts."""
        if config.auth != "oauth":
            return None
        from hub.downstream.access.issuer_token_verdicts import IssuerTokens
        from upstreams.fetch.fetcher import Fetcher

        fetch = Fetcher() if self._fetch is None else self._fetch()
        return IssuerTokens(config.access, resource_of(config, *self.address), fetch, WALL)

    async def _run_issued(self) -> None:
        issued = self._issued
        if issued is not None:
            with trio.CancelScope() as self._issued_scope:
                await issued.run()

    def _public_reply(self, request: HttpRequest) -> EarlyReply | None:
        if (request.method, request.path) in self.pages:
            return None
        dashboard = self.dashboard
        if request.path == "/" and dashboard is not None and not self._stopping and dashboard.welcomes(request):
            return TO_DASHBOARD
        metadata = None if self._issued is None else self._issued.metadata
        return public_reply(request, stopping=self._stopping, signs_in=self._signs_in, metadata=metadata)

    def _url(self) -> str:
        """The URL at which other hubs reach this one; "": none is known."""
        host, port = self.address
        if self._named:
            return self._named
        if host in ("0.0.0.0", "::"):
            log.warning("other hubs cannot reach this one: [replica] url is to say where, since it listens everywhere")
            return ""
        return f"http://{spell(host, port)}"

    async def _open(self, site: "_Site") -> None:
        http = HttpServer(self._handler, self._access(site).guard, budget=self._hub.budget)
        await self._nursery.start(site.run, http)

    async def _close(self, site: "_Site", patience_s: float) -> None:
        with trio.move_on_after(patience_s):
            await site.http.drain()
        site.scope.cancel()
        self._others.remove(site)


class _Site:
    """One address, and the HTTP server there."""

    http: HttpServer

    def __init__(self, tcp: socket.socket) -> None:
        self.host, self.port = tcp.getsockname()[:2]
        self.scope = trio.CancelScope()
        self._tcp = tcp

    @property
    def url(self) -> str:
        """The endpoint for all upstreams here."""
        return f"http://{spell(self.host, self.port)}/mcp"

    async def run(self, http: HttpServer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Have `http` serve here until `scope` is cancelled."""
        self.http = http
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._tcp))
        with self.scope:
            await http.serve([listener], task_status=task_status)


def token_of(config: HubConfig) -> str | None:
    """The token that hosts must show; None: no token is asked for. Raises ConfigError: the configured token is not
    usable; OSError: the token file can be neither read nor made."""
    if config.auth == "none":
        return None
    return read_or_make_token(token_path()) if config.token is None else check_token(config.token.reveal())
