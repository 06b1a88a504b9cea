"""A world of sign-ins without a network: a token endpoint that answers what a test says, a store in a folder of the
test, clocks that a test sets, and the credentials of one hub."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import trio

from config.security_settings import IdentityProvider, OAuthConfig, UpstreamOAuth
from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER
from hub.link.sealing import Keys
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed
from upstreams.oauth.credentials_by_upstream import Accounts
from upstreams.oauth.model import AuthorizationServer, Grant, GrantKey, OAuthClient
from upstreams.oauth.store.grant_store import GrantStore
from upstreams.oauth.store.key_seal import KeySeal
from upstreams.oauth.token_answers import origin_of

ISSUER = "https://id.example"
URL = "https://notes.example/mcp"
KEY = GrantKey(ISSUER, URL, "notes", OWNER)
SERVER = AuthorizationServer(
    issuer=ISSUER, token_endpoint=f"{ISSUER}/token", revocation_endpoint=f"{ISSUER}/revoke", authorization_endpoint=""
)
METADATA = {
    "authorization_endpoint": f"{ISSUER}/authorize",
    "revocation_endpoint": f"{ISSUER}/revoke",
    "code_challenge_methods_supported": ["S256"],
}
PUBLIC = OAuthClient(issuer=ISSUER, client_id="hub-1")
SEALING = Keys(b"k" * 32)
START = 1_700_000_000.0
"""Wall time at the start of a test."""
LOST = FetchFailed("no answer within 10 s", sent=True)
NOT_SENT = FetchFailed("nobody listens there")


def answer(status: int = 200, headers: Mapping[str, str] | None = None, **members: object) -> Fetched:
    """An answer of JSON."""
    return Fetched(status, {"content-type": "application/json", **(headers or {})}, json.dumps(members).encode())


def tokens(access: str = "a2", **more: object) -> Fetched:
    """A successful answer."""
    return answer(**{"access_token": access, "token_type": "Bearer", "expires_in": 3600, **more})


def error(code: str, status: int = 400, **more: object) -> Fetched:
    return answer(status, error=code, **more)


class ScriptedServer:
    """A token endpoint: each request takes the next of `answers`, the last one again and again."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.urls: list[str] = []
        self.gate: trio.Event | None = None
        """Answers wait for it."""
        self.arrived = trio.Event()
        self.metadata: Callable[[str], Fetched]

    async def get(self, url, allowed: Allowed, *, headers=None) -> Fetched:
        await trio.lowlevel.checkpoint()
        return self.metadata(url)

    async def post_form(self, url, fields, allowed: Allowed, *, headers=None) -> Fetched:
        self.urls.append(url)
        self.asked.append(dict(fields))
        self.headers.append(dict(headers or {}))
        assert len(self.asked[-1]) == len(fields), "a field came twice"
        next_one = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        else:
            await trio.lowlevel.checkpoint()
        if isinstance(next_one, Exception):
            raise next_one
        return next_one(dict(fields)) if callable(next_one) else next_one

    @property
    def count(self) -> int:
        return len(self.asked)


class World:
    """All of it. `wall` and `clock` run with trio's clock; `wall_ahead` and `slept` are what a test adds to them."""

    def __init__(self, tmp_path, server: ScriptedServer, *, idp: IdentityProvider | None = None) -> None:
        self.server = server
        self.folder = tmp_path / "oauth"
        self.idp = idp or IdentityProvider()
        self.began = trio.current_time()
        self.wall_ahead = self.slept = 0.0
        self.store = GrantStore(self.folder, KeySeal("keys", lambda: SEALING))
        self.issuer = ISSUER
        """The authorization server that the upstream names; "": it cannot say now."""
        self.looks = 0
        self.changes: list[tuple[str, str]] = []
        self.configured: set[str] | None = None
        server.metadata = self.metadata
        self.accounts = self.new_accounts()

    def new_accounts(self, store: Callable[[], GrantStore] | None = None) -> Accounts:
        """Another hub with the same store."""
        return Accounts(
            lambda: OAuthConfig(idp=self.idp),
            store or (lambda: self.store),
            self.server,
            folder=self.folder,
            wall=self.wall,
            clock=self.clock,
            on_change=lambda upstream, principal: self.changes.append((upstream, principal)),
            configured=lambda: self.configured,
        )

    def wall(self) -> float:
        return START + trio.current_time() - self.began + self.slept + self.wall_ahead

    def clock(self) -> float:
        return trio.current_time() + self.slept

    def metadata(self, url: str) -> Fetched:
        """The metadata at a URL: of the upstream, as `issuer` says, and of every authorization server."""
        if "/.well-known/oauth-protected-resource" in url:
            self.looks += 1
            return answer(
                200 if self.issuer else 503,
                resource=URL,
                authorization_servers=[self.issuer],
                scopes_supported=["read"],
            )
        issuer = url.partition("/.well-known/")[0]
        return answer(issuer=issuer, token_endpoint=f"{issuer}/token", **METADATA)

    def credential(self, **settings):
        """That of the upstream `notes`."""
        config = UpstreamConfig(url=URL, oauth=UpstreamOAuth(**settings))
        return self.accounts.credential("notes", config, OWNER)

    def grant(self, **changes) -> Grant:
        """A grant of this moment that lasts an hour."""
        now = self.wall()
        fields = {
            "key": KEY,
            "access_token": Secret("a1"),
            "refresh_token": Secret("r1"),
            "obtained_at": now,
            "expires_at": now + 3600,
            "scope": "read",
            "asked_scope": "read",
            "signed_in_at": now,
            "server": SERVER,
            "client": PUBLIC,
            "origin": origin_of(URL),
        }
        return Grant(**{**fields, **changes})


@asynccontextmanager
async def running(tmp_path, *answers: object, **more: object):
    """A world whose accounts run."""
    world = World(tmp_path, ScriptedServer(*answers), **more)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.accounts.run)
        yield world
        nursery.cancel_scope.cancel()


async def together(count: int, call: Callable[[], Awaitable[object]]) -> list[object]:
    """What `count` calls at once return, or the exceptions that they raise."""
    results: list[object] = []

    async def one() -> None:
        try:
            results.append(await call())
        except Exception as raised:  # noqa: BLE001
            results.append(raised)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one)
    return results
