"""Sign-ins with scripted authorization servers and a store in memory, behind a real listener for real requests.

async with world() as it:
    it.servers.discoveries["notes"] = discovery("https://id.example")
    begun = await it.sign_ins.begin("notes")
    answer = await it.get("/oauth/callback?code=C&state=...")
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from urllib.parse import parse_qsl, quote, urlsplit

import trio

from config.security_settings import OAuthConfig, UpstreamOAuth
from config.setting_declarations import Secret
from config.settings import HubConfig, UpstreamConfig
from hub.app import Hub
from hub.daemon.http_routes import public_reply
from hub.downstream.access.access import Access
from hub.link.call_interface import OWNER, Caller, Identity
from hub.sign_in.answer_browsers import make_sign_ins
from hub.sign_in.ask_authorization_server import Surroundings
from hub.sign_in.connection_owner import ConnectionOwners
from hub.sign_in.parse_redirect_uri import Listening
from hub.sign_in.pending_sign_ins import Invitation, SignInRecord, Ticket
from hub.wire.mcp import L4
from tests.support.http_client import Answer, Client, Served
from tests.support.http_client import serving as serving_http
from upstreams.oauth.model import (
    AuthorizationServer,
    Challenge,
    Discovery,
    Grant,
    GrantKey,
    OAuthClient,
    ProtectedResource,
)

NOTES = "https://notes.example/mcp"
ISSUER = "https://id.example"


def discovery(issuer: str = ISSUER, *, sends_issuer: bool = True, scope: str = "notes.read", **more) -> Discovery:
    """What is found out about `notes`."""
    server = AuthorizationServer(
        issuer=issuer,
        authorization_endpoint=more.pop("endpoint", f"{issuer}/authorize"),
        token_endpoint=f"{issuer}/token",
        sends_issuer=sends_issuer,
    )
    resource = ProtectedResource(resource=more.pop("resource", NOTES), **more)
    return Discovery(resource=resource, server=server, scope=scope)


def caller(principal: str = OWNER, host: str = "claude-code") -> Caller:
    return Caller(Identity(principal, host), L4, {})


class ScriptedServers:
    """Authorization servers that do as they are told."""

    def __init__(self) -> None:
        self.discoveries: dict[str, Discovery | Exception] = {}
        self.refuse: list[Exception] = []
        """What the next codes are answered with; no more: a grant."""
        self.asked: list[tuple[str, object]] = []
        self.redirect_uri = ""
        """The one of every client, in place of what was asked for."""
        self.kind = "registered"
        self.scope: str | None = None
        self.hold: trio.Event | None = None
        self.slow: trio.Event | None = None
        """Discovery waits for it."""

    async def discover(self, account, challenge, preferred=()):
        upstream = account.upstream
        self.asked.append(("discover", (upstream, challenge, tuple(preferred))))
        if self.slow is not None:
            await self.slow.wait()
        await trio.lowlevel.checkpoint()
        found = self.discoveries[upstream]
        if isinstance(found, Exception):
            raise found
        return found

    async def client(self, account, discovery, redirect_uri, wish):
        self.asked.append(("other method", wish.other_method))
        self.asked.append(("client", (account.upstream, redirect_uri, wish.anew, wish.with_scope)))
        await trio.lowlevel.checkpoint()
        return OAuthClient(
            issuer=discovery.server.issuer,
            client_id=f"hub at {discovery.server.issuer}",
            redirect_uri=self.redirect_uri or redirect_uri,
            kind=self.kind,
        )

    async def redeem(self, record: SignInRecord, code: str):
        self.asked.append(("redeem", (record, code)))
        if self.hold is not None:
            await self.hold.wait()
        await trio.lowlevel.checkpoint()
        if self.refuse:
            raise self.refuse.pop(0)
        whose = record.ticket.upstream, record.ticket.principal
        return Grant(
            key=GrantKey(record.discovery.server.issuer, record.discovery.resource.resource, *whose),
            access_token=Secret("ACCESS-CANARY"),
            refresh_token=Secret("REFRESH-CANARY"),
            obtained_at=1000.0,
            expires_at=4600.0,
            scope=record.scope if self.scope is None else self.scope,
            asked_scope=record.scope,
            signed_in_at=1000.0,
            server=record.discovery.server,
            client=record.client,
        )

    def document(self, base_url):
        return {"client_id": f"{base_url}/oauth/client.json"}

    def all_of(self, what: str) -> list[object]:
        return [each for name, each in self.asked if name == what]


class MemoryKeeper:
    """What is kept, in memory: a store and its notes."""

    def __init__(self) -> None:
        self.grants: dict[GrantKey, Grant] = {}
        self.numbers: dict[str, int] = {}
        self.only: dict[str, str] = {}
        self.known_port: int | None = None
        self.agreed: set[tuple[str, str, str]] = set()
        self.full: Exception | None = None
        self.facts = self

    def find(self, upstream, principal):
        mine = [
            grant
            for grant in self.grants.values()
            if (grant.key.upstream, grant.key.principal) == (upstream, principal)
        ]
        return mine[-1] if mine else None

    def save(self, grant):
        if self.full is not None:
            raise self.full
        self.grants.pop(grant.key, None)
        self.grants[grant.key] = grant

    def keys(self):
        return list(self.grants)

    def redirect_number(self, issuer):
        return self.numbers.setdefault(issuer, len(self.numbers) + 1)

    def only_for(self, uri, issuer):
        return self.only.setdefault(uri, issuer)

    def port(self):
        return self.known_port

    def keep_port(self, port):
        self.known_port = port

    def is_agreed(self, upstream, principal, issuer):
        return (upstream, principal, issuer) in self.agreed

    def agree(self, upstream, principal, issuer):
        self.agreed.add((upstream, principal, issuer))


class ScriptedCredential:
    """A credential that notes what it is given."""

    def __init__(self) -> None:
        self.challenge = Challenge()
        self.grants: list[Grant] = []

        self.wanted_scope = ""
        self.askings: list[bool] = []

    def asking(self, on):
        self.askings.append(on)

    def note_problem(self, text):
        self.problem = text


class World:
    """Sign-ins and everything around them."""

    def __init__(self, nursery: trio.Nursery, **settings) -> None:
        self.config = HubConfig(oauth=settings.pop("oauth", OAuthConfig()), **settings)
        self.upstreams = {
            "notes": UpstreamConfig(url=NOTES),
            "other": UpstreamConfig(url="https://other.example/mcp"),
            "files": UpstreamConfig(command="files"),
        }
        self.servers = ScriptedServers()
        self.servers.discoveries["notes"] = discovery()
        self.servers.discoveries["other"] = discovery("https://other-id.example", resource="https://other.example/mcp")
        self.keeper = MemoryKeeper()
        self.credentials: dict[tuple[str, str], ScriptedCredential] = {}
        self.started: list[str] = []
        self.completed: list[tuple[str, str]] = []
        self.ends = ConnectionOwners(blind=False)
        self.listening: Listening | None = None
        self.identity: Identity | None = None
        """Who a proxy says makes each request."""
        self.served: Served
        self.hub: Hub | None = None
        """The hub whose hosts are sent here, if there is one."""
        self.sign_ins = make_sign_ins(
            Surroundings(
                config=lambda: self.config,
                upstream=lambda name: self.upstreams.get(name),
                listening=lambda: self.listening,
                accounts=SimpleNamespace(find=self.credential, ask=self.ask, keep=self.keep),
                servers=self.servers,
                ends=self.ends,
                signed_in=self.signed_in,
                spawn=nursery.start_soon,
                wall=lambda: 1000.0,
            )
        )

    def signed_in(self, upstream: str, visit: str) -> None:
        self.started.append(upstream)
        self.completed.append((upstream, visit))
        if self.hub is not None:
            self.hub.supervisor.signed_in(upstream)
            self.hub.visit_done(upstream, visit)

    async def ask(self, question):
        await trio.lowlevel.checkpoint()
        return question(self.keeper)

    async def keep(self, grant: Grant) -> Grant:
        self.keeper.save(grant)
        self.credential(grant.key.upstream, grant.key.principal).grants.append(grant)
        return grant

    def settle(self, upstream: str = "notes", **settings) -> None:
        """Give an upstream OAuth settings."""
        self.upstreams[upstream] = UpstreamConfig(url=self.upstreams[upstream].url, oauth=UpstreamOAuth(**settings))

    def credential(self, name: str, principal: str = OWNER) -> ScriptedCredential:
        return self.credentials.setdefault((name, principal), ScriptedCredential())

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"

    def invited(self, address: str) -> tuple[Ticket, Invitation]:
        """The ticket of a page, and who was given its address."""
        found = self.sign_ins.tickets.by_id(address.rpartition("/")[2])
        assert found is not None
        return found

    async def handle(self, request, response) -> None:
        request.identity = self.identity
        await self.sign_ins.handle(request, response)

    async def request(self, method: str, target: str, *fields: str, host: str | None = None) -> Answer:
        """One request on a connection of its own, as a browser makes it."""
        path = target.removeprefix(self.base)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.served.port}'}", *fields, "", ""]
        client = await self.served.connect()
        await client.send("\r\n".join(lines).encode())
        return await (client.head() if method == "HEAD" else client.answer())

    async def get(self, target: str, *fields: str, host: str | None = None) -> Answer:
        return await self.request("GET", target, *fields, host=host)

    async def get_from(self, url: str) -> Answer:
        """One request to any URL of this machine."""
        parts = urlsplit(url)
        client = Client(await trio.open_tcp_stream(parts.hostname, parts.port))
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        try:
            return await client.ask(f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        finally:
            await client.stream.aclose()


def asked(authorization_url: str) -> dict[str, str]:
    """The parameters of an authorization request."""
    return dict(parse_qsl(urlsplit(authorization_url).query, strict_parsing=True))


def back(authorization_url: str, *, iss: str | None = ISSUER, **more: str) -> str:
    """The address to which an authorization server sends the browser back."""
    request = asked(authorization_url)
    given = {"code": "CODE-CANARY", "state": request["state"], **({"iss": iss} if iss else {}), **more}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items() if value)
    return f"{request['redirect_uri']}?{query}"


@asynccontextmanager
async def world(*, lasting: bool = True, **settings) -> AsyncIterator[World]:
    """A world whose hub listens, at a port that is or is not the same next time."""
    async with trio.open_nursery() as nursery:
        it = World(nursery, **settings)
        async with serving_http(it.handle, lambda request: guards[0](request)) as it.served:

            def public(request):
                return public_reply(request, stopping=False, signs_in=True)

            hosts = it.config.allowed_hosts
            guards = [Access(port=it.served.port, hosts=hosts, token="0123456789abcdef", public=public).guard]
            it.listening = Listening("127.0.0.1", it.served.port, lasting)
            yield it
        nursery.cancel_scope.cancel()
