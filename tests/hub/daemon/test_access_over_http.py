"""Who is let in, over real sockets: by tokens of servers and of hosts, and from pages of other origins."""

import json

import pytest
import trio

from config.remembered_facts import Memory
from config.security_settings import AccessConfig, AccessIssuer, AccessToken, Introspection, TrustedProxy
from config.setting_declarations import Secret
from config.settings import HubConfig
from hub.app import Hub
from hub.daemon.bind_http import Bound, listen_tcp
from hub.daemon.http_listener import HttpListener
from hub.downstream.access import issuer_token_verdicts
from hub.downstream.access.access import ProxiedPersons
from hub.downstream.access.refusals import NOT_THE_PROXY
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.call_interface import Identity
from hub.link.sealing import Sealer, Signer
from hub.net.http_request import Ends, HttpRequest
from tests.support.http_client import Client
from tests.support.oauth.rig import INTROSPECTION_CLIENT

TOKEN, HUB = "0123456789abcdef", "https://hub.example.com/mcp"
PAGE = "https://app.example"
PRM = "/.well-known/oauth-protected-resource"
DOCUMENT = {
    "resource": HUB,
    "authorization_servers": ["https://id.example"],
    "bearer_methods_supported": ["header"],
    "resource_name": "hubd",
    "scopes_supported": ["mcp"],
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@pytest.fixture
async def start(nursery, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def start(config):
        hub = Hub(config, Memory(None), Sealer(b"k" * 32))
        durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
        listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
        await nursery.start(listener.run)
        return listener

    yield start
    nursery.cancel_scope.cancel()


def with_oauth(issuer="https://id.example", **more):
    access = AccessConfig(
        resource=HUB, required_scopes=("mcp",), issuers=(AccessIssuer(name="team", issuer=issuer),), **more
    )
    return HubConfig(auth="oauth", token=Secret(TOKEN), access=access, allowed_origins=(PAGE,))


async def ask(listener, method, path, bearer=None, *fields, host=None, message=None):
    client = Client(await trio.open_tcp_stream(*listener.address))
    body = b"" if message is None else json.dumps(message).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'localhost:{listener.address[1]}'}", *fields]
    lines += [] if bearer is None else [f"Authorization: Bearer {bearer}"]
    lines += [] if method != "POST" else [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += ["Accept: application/json, text/event-stream"]
    await client.send("\r\n".join([*lines, "", ""]).encode() + body)
    answer = await client.head() if method in ("HEAD", "OPTIONS") else await client.answer()
    await client.stream.aclose()
    return answer


async def test_streams_of_tokens_are_looked_at_by_the_time_of_day(start, monkeypatch):
    day = [1e9]
    monkeypatch.setattr("hub.daemon.http_listener.LOOK_S", 0.01)
    monkeypatch.setattr("hub.daemon.http_listener.WALL", lambda: day[0])
    token = AccessToken(name="ci", token=Secret("t" * 43), expires="2030-01-01")
    listener = await start(HubConfig(token=Secret(TOKEN), access=AccessConfig(tokens=(token,))))
    with trio.fail_after(60), trio.CancelScope() as stream, listener.named_tokens.find("t" * 43).lease.keeps(stream):
        day[0] = 2e9
        await trio.sleep_forever()
    assert stream.cancelled_caught


GOLDEN = [
    ("GET", PRM, DOCUMENT),
    ("HEAD", PRM, None),
    ("GET", f"{PRM}/mcp", DOCUMENT),
    ("GET", f"{PRM}/mcp/notes", {**DOCUMENT, "resource": f"{HUB}/notes"}),
    ("GET", f"{PRM}/mcp/@work", {**DOCUMENT, "resource": f"{HUB}/@work"}),
    ("POST", PRM, 404),
    ("GET", f"{PRM}/", 404),
    ("GET", f"{PRM}/mcp/", 404),
    ("GET", f"{PRM}/mcp/a/b", 404),
    ("GET", f"{PRM}/mcpx", 404),
    ("GET", f"{PRM}/mcp/{'a' * 65}", 404),
    ("GET", f"{PRM}/mcp/%41", 404),
    ("GET", f"{PRM}x", 404),
    ("GET", "/.well-known/oauth-authorization-server", 404),
    ("GET", "/.well-known/openid-configuration", 404),
    ("GET", "/register", 404),
]


@pytest.mark.covers("SEC-08", "SEC-30", "SEC-33")
@pytest.mark.parametrize(("method", "path", "expected"), GOLDEN)
async def test_the_metadata_of_the_hub(start, method, path, expected):
    listener = await start(with_oauth())
    answer = await ask(listener, method, path)
    assert answer.status == (expected if isinstance(expected, int) else 200)
    if isinstance(expected, dict):
        assert json.loads(answer.body) == expected
        assert answer.headers["cache-control"] == "max-age=300"
        assert answer.headers["access-control-allow-origin"] == "*"
    assert (await ask(listener, method, path, host="evil.test")).status == 403
    assert (await ask(listener, method, path, None, "Origin: https://evil.test")).status == 403


@pytest.mark.covers("SEC-04")
async def test_pages_of_allowed_origins_may_read_answers(start):
    listener = await start(with_oauth())
    preflight = await ask(listener, "OPTIONS", "/mcp", None, f"Origin: {PAGE}", "Access-Control-Request-Method: POST")
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert preflight.headers["access-control-allow-headers"] == "Authorization, *"
    assert preflight.headers["access-control-max-age"] == "600"
    for bearer, status in ((None, 401), ("wrong", 401), (TOKEN, 200)):
        answer = await ask(listener, "POST", "/mcp", bearer, f"Origin: {PAGE}", message=INITIALIZE)
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-expose-headers"] == "WWW-Authenticate, Mcp-Session-Id"
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers
    found = await ask(listener, "GET", PRM, None, f"Origin: {PAGE}")
    assert found.headers["access-control-allow-origin"] == "*"


@pytest.mark.covers("SEC-04")
@pytest.mark.parametrize("origin", ["https://evil.test", "null", f"{PAGE}.evil.test", f"{PAGE}:443", "*"])
async def test_other_pages_may_not(start, origin):
    listener = await start(with_oauth())
    for method in ("OPTIONS", "POST"):
        answer = await ask(listener, method, "/mcp", TOKEN, f"Origin: {origin}", message=INITIALIZE)
        assert answer.status == 403
        assert not any(name.startswith("access-control") for name in answer.headers)
    own = await ask(listener, "POST", "/mcp", TOKEN, f"Origin: http://localhost:{listener.address[1]}", message=PING)
    assert not any(name.startswith("access-control") for name in own.headers)


BAD = [
    (("Authorization: Bearer x", "Authorization: Bearer y"), 400),
    (("Authorization: Bearer",), 401),
    (("Authorization: Basic eDp5",), 401),
    ((f"Authorization: Bearer {'x' * 17_000}",), 401),
    ((f"authorization: bearer {TOKEN}",), 200),
]


@pytest.mark.parametrize(("fields", "expected"), BAD)
async def test_odd_credentials(start, fields, expected):
    listener = await start(with_oauth())
    assert (await ask(listener, "POST", "/mcp", None, *fields, message=INITIALIZE)).status == expected


async def test_a_token_in_the_address_is_refused(start):
    listener = await start(with_oauth())
    assert (await ask(listener, "POST", f"/mcp?access_token={TOKEN}", message=INITIALIZE)).status == 400


@pytest.mark.covers("SEC-05", "SEC-06", "F-H-14")
async def test_two_principals_do_not_see_each_others_sessions(start):
    tokens = tuple(
        AccessToken(name=name, token=Secret(f"{name}-token-of-16-chars"), principal=name) for name in ("alice", "bob")
    )
    listener = await start(HubConfig(token=Secret(TOKEN), access=AccessConfig(tokens=tokens)))
    alice, bob = (token.token.reveal() for token in tokens)
    begun = await ask(listener, "POST", "/mcp", alice, message=INITIALIZE)
    session = f"Mcp-Session-Id: {begun.headers['mcp-session-id']}"
    assert (await ask(listener, "POST", "/mcp", alice, session, message=PING)).status == 200
    for other in (bob, TOKEN):
        assert (await ask(listener, "POST", "/mcp", other, session, message=PING)).status == 404
        assert (await ask(listener, "DELETE", "/mcp", other, session)).status == 404
    assert (await ask(listener, "POST", "/mcp", alice, session, message=PING)).status == 200, "it goes on"


@pytest.mark.covers("SEC-31", "F-H-16")
async def test_tokens_of_a_real_issuer_are_judged(start, oauth):
    issuer = oauth.token_issuer(HUB)
    listener = await start(with_oauth(issuer.issuer))
    rows = await trio.to_thread.run_sync(issuer.tokens)
    del rows["not-yet"]  # it is valid a second later, which this takes
    refusals = set()
    for row in rows.values():
        answer = await ask(listener, "POST", "/mcp", row["token"], message=INITIALIZE)
        assert answer.status == row["verdict"], row["why"]
        below = await ask(listener, "POST", "/mcp/x", row["token"], message=INITIALIZE)
        is_let_in = row["verdict"] == 200 or row["name"] == "aud-longer"
        assert below.status == (404 if is_let_in else row["verdict"]), f"{row['why']}: there is no server x"
        refusals |= {each.body for each in (answer, below) if each.status == 401}
    assert len(refusals) == 1, "one body for all"


async def test_a_token_that_is_taken_back_ends_a_running_stream(start, oauth, monkeypatch):
    monkeypatch.setattr(issuer_token_verdicts, "AGAIN_S", 0.5)
    issuer = oauth.token_issuer(HUB)
    id, secret = INTROSPECTION_CLIENT.split(":")
    asked = Introspection(client_id=id, client_secret=Secret(secret))
    team = AccessIssuer(name="team", issuer=issuer.issuer, introspection=asked)
    access = AccessConfig(resource=HUB, required_scopes=("mcp",), issuers=(team,))
    listener = await start(HubConfig(auth="oauth", token=Secret(TOKEN), access=access))

    async def questions(count):
        while sum(each["what"] == "POST /introspect" for each in await trio.to_thread.run_sync(issuer.log)) < count:
            await trio.lowlevel.checkpoint()

    begun = await ask(listener, "POST", "/mcp", "opaque-good", message=INITIALIZE)
    assert begun.status == 200
    client = Client(await trio.open_tcp_stream(*listener.address))
    lines = [
        "GET /mcp HTTP/1.1",
        f"Host: localhost:{listener.address[1]}",
        f"Mcp-Session-Id: {begun.headers['mcp-session-id']}",
        "Authorization: Bearer opaque-good",
        "Accept: text/event-stream",
    ]
    await client.send("\r\n".join([*lines, "", ""]).encode())
    assert (await client.head()).status == 200
    await questions(3)
    await trio.to_thread.run_sync(lambda: issuer.control("revoke", token="opaque-good"))
    while await client.chunk():
        pass  # until the hub ends it
    await client.stream.aclose()
    assert (await ask(listener, "POST", "/mcp", "opaque-good", message=INITIALIZE)).status == 401


async def test_another_configuration_ends_what_the_one_before_let_in(start, oauth):
    issuer = oauth.token_issuer(HUB)
    listener = await start(with_oauth(issuer.issuer))
    rows = await trio.to_thread.run_sync(issuer.tokens)
    token = rows["good-es256"]["token"]
    begun = await ask(listener, "POST", "/mcp", token, message=INITIALIZE)
    assert begun.status == 200
    client = Client(await trio.open_tcp_stream(*listener.address))
    lines = [
        "GET /mcp HTTP/1.1",
        f"Host: localhost:{listener.address[1]}",
        f"Mcp-Session-Id: {begun.headers['mcp-session-id']}",
        f"Authorization: Bearer {token}",
        "Accept: text/event-stream",
    ]
    await client.send("\r\n".join([*lines, "", ""]).encode())
    assert (await client.head()).status == 200
    other = AccessIssuer(name="team", issuer=issuer.issuer, clients=("host-2",))
    access = AccessConfig(resource=HUB, required_scopes=("mcp",), issuers=(other,))
    changed = HubConfig(auth="oauth", token=Secret(TOKEN), access=access, allowed_origins=(PAGE,))
    listener.prepare(changed)
    await listener.apply(changed, None)
    while await client.chunk():
        pass  # until the hub ends it
    await client.stream.aclose()
    assert (await ask(listener, "POST", "/mcp", token, message=INITIALIZE)).status == 401


# --- a trusted proxy --------------------------------------------------------------------------------------------------

SECRET = "s" * 32


def with_proxy(**more):
    proxy = TrustedProxy(header="X-Person", **more)
    return HubConfig(auth="proxy", token=Secret(TOKEN), access=AccessConfig(proxy=proxy))


PERSON, SHOWN = "X-Person: alice", f"X-Hubd-Proxy-Secret: {SECRET}"
PROXIED = [
    ((PERSON, SHOWN), None, 200),
    ((SHOWN,), None, 401),
    ((), TOKEN, 200),
    ((), None, 401),
    ((PERSON,), None, 400),
    ((PERSON,), TOKEN, 400),
    ((PERSON, f"X-Hubd-Proxy-Secret: {SECRET}x"), None, 400),
    ((PERSON, "X-Person: bob", SHOWN), None, 400),
    (("X-Person:", SHOWN), None, 400),
    ((f"X-Person: {'a' * 257}", SHOWN), None, 400),
    ((f"X-Person: {'a' * 256}", SHOWN), None, 200),
    (("X-Person: a\tb", SHOWN), None, 400),
    (("X-Person: CN=alice,O=team", SHOWN), None, 200),
]


@pytest.mark.parametrize(("fields", "bearer", "expected"), PROXIED)
async def test_a_proxy_with_its_secret_names_persons(start, fields, bearer, expected):
    listener = await start(with_proxy(secret=Secret(SECRET)))
    assert (await ask(listener, "POST", "/mcp", bearer, *fields, message=INITIALIZE)).status == expected


async def test_persons_are_principals_of_their_own(start):
    listener = await start(with_proxy(secret=Secret(SECRET)))
    begun = await ask(listener, "POST", "/mcp", None, PERSON, SHOWN, message=INITIALIZE)
    session = f"Mcp-Session-Id: {begun.headers['mcp-session-id']}"
    assert (await ask(listener, "POST", "/mcp", None, PERSON, SHOWN, session, message=PING)).status == 200
    assert (await ask(listener, "POST", "/mcp", None, "X-Person: bob", SHOWN, session, message=PING)).status == 404
    assert (await ask(listener, "POST", "/mcp", TOKEN, session, message=PING)).status == 404


async def test_a_secret_from_another_address_is_refused(start):
    listener = await start(with_proxy(secret=Secret(SECRET), peers=("127.0.0.2",)))
    assert (await ask(listener, "POST", "/mcp", None, PERSON, SHOWN, message=INITIALIZE)).status == 400


@pytest.mark.parametrize(("uid", "asked", "expected"), [(1000, 1000, None), (1000, 0, 400), (None, 0, 400)])
async def test_a_proxy_on_this_machine_is_known_by_its_user(uid, asked, expected):
    class Kernel:
        def uid_of(self, ends):
            return uid

    persons = ProxiedPersons(TrustedProxy(header="X-Person", peer_uid=(asked,)), Kernel())
    request = HttpRequest("POST", "/mcp", {"x-person": "alice"})
    assert persons.check(request) is NOT_THE_PROXY, "the connection is closed"
    request = HttpRequest("POST", "/mcp", {"x-person": "alice"}, ends=lambda: Ends(("127.0.0.1", 1), ("127.0.0.1", 2)))
    found = await persons.check(request)()
    assert (None if found is None else found.status) == expected
    assert request.identity == (Identity("proxy/alice", "proxy") if expected is None else None)
