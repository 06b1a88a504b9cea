"""The routes of a hub's address: a golden list, asked over real sockets; with the token, with a wrong one, without."""

import json
from functools import partial

import pytest
import trio
import trio.testing

from config.hub_paths import metrics_token_path
from config.profile_settings import Profile
from config.remembered_facts import Memory
from config.security_settings import AccessConfig, AccessToken
from config.setting_declarations import Secret
from config.settings import HubConfig
from hub.app import Hub
from hub.daemon.api import DaemonApi
from hub.daemon.bind_http import Bound, listen_tcp
from hub.daemon.http_listener import HttpListener
from hub.daemon.http_routes import WELCOME, TokenPage, route
from hub.downstream.access.token_files import read_or_make_token, replace_token
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.refusals import NOTHING_HERE
from hub.link.call_interface import OWNER, Identity
from hub.link.sealing import Sealer, Signer
from hub.net.look_after_connections import HttpRequest
from tests.support.http_client import Answer, Client
from tests.support.http_fakes import Answered

TOKEN = "0123456789abcdef"
NO_TOKEN, NOT_FOUND = (401, None), (404, NOTHING_HERE)
ALIVE, PAGE, HEALTHY = (200, b""), (200, WELCOME), (200, b'{"status":"ok"}')
NO_SESSION = (405, None)

GOLDEN = [
    # method, path, without the token, with it
    ("GET", "/livez", ALIVE, ALIVE),
    ("HEAD", "/livez", ALIVE, ALIVE),
    ("GET", "/livez?verbose", ALIVE, ALIVE),
    ("POST", "/livez", NOT_FOUND, NOT_FOUND),
    ("GET", "/livez/", NOT_FOUND, NOT_FOUND),
    ("GET", "/", PAGE, PAGE),
    ("HEAD", "/", (200, b""), (200, b"")),
    ("POST", "/", NOT_FOUND, NOT_FOUND),
    ("GET", "/healthz", NO_TOKEN, HEALTHY),
    ("POST", "/healthz", NOT_FOUND, NOT_FOUND),
    ("GET", "/healthz/", NOT_FOUND, NOT_FOUND),
    ("GET", "/mcp", NO_TOKEN, NO_SESSION),
    ("DELETE", "/mcp", NO_TOKEN, NO_SESSION),
    ("PUT", "/mcp", NO_TOKEN, NO_SESSION),
    ("GET", "/mcp/", NO_TOKEN, NOT_FOUND),
    ("GET", "/mcp/nobody", NO_TOKEN, NOT_FOUND),
    ("GET", "/mcp/.well-known/openid-configuration", NO_TOKEN, NOT_FOUND),
    ("GET", "/mcpx", NOT_FOUND, NOT_FOUND),
    ("GET", "/MCP", NOT_FOUND, NOT_FOUND),
    ("GET", "//mcp", (400, None), (400, None)),
    ("GET", "/%6dcp", NOT_FOUND, NOT_FOUND),
    ("GET", "/.well-known/oauth-protected-resource", NOT_FOUND, NOT_FOUND),
    ("GET", "/.well-known/oauth-protected-resource/mcp", NOT_FOUND, NOT_FOUND),
    ("GET", "/.well-known/oauth-authorization-server", NOT_FOUND, NOT_FOUND),
    ("POST", "/register", NOT_FOUND, NOT_FOUND),
    ("GET", "/authorize", NOT_FOUND, NOT_FOUND),
    ("GET", "/metrics", NOT_FOUND, NOT_FOUND),
    ("GET", "/ui/", NOT_FOUND, NOT_FOUND),
    ("OPTIONS", "/mcp", NO_TOKEN, NO_SESSION),
    ("OPTIONS", "/x", NOT_FOUND, NOT_FOUND),
]
SIGNS_IN = (200, b"a page of a sign-in")
SIGN_IN_GOLDEN = [
    # method, path: whoever asks
    ("GET", "/oauth/begin/9mQ_-x", SIGNS_IN),
    ("HEAD", "/oauth/begin/9mQ_-x", (200, b"")),
    ("GET", "/oauth/callback", SIGNS_IN),
    ("GET", "/oauth/callback?code=x&state=y", SIGNS_IN),
    ("GET", "/oauth/callback/12", SIGNS_IN),
    ("GET", "/oauth/done/9mQ_-x", SIGNS_IN),
    ("HEAD", "/oauth/done/9mQ_-x", (200, b"")),
    ("GET", "/oauth/client.json", SIGNS_IN),
    ("HEAD", "/oauth/callback", NOT_FOUND),
    ("POST", "/oauth/callback", NOT_FOUND),
    ("POST", "/oauth/begin/9mQ_-x", NOT_FOUND),
    ("PUT", "/oauth/client.json", NOT_FOUND),
    ("OPTIONS", "/oauth/callback", NOT_FOUND),
    ("GET", "/oauth/", NOT_FOUND),
    ("GET", "/oauth", NOT_FOUND),
    ("GET", "/oauth/begin/", NOT_FOUND),
    ("GET", "/oauth/begin/a/b", NOT_FOUND),
    ("GET", "/oauth/begin/" + "x" * 65, NOT_FOUND),
    ("GET", "/oauth/begin/%41", NOT_FOUND),
    ("GET", "/oauth/callback/", NOT_FOUND),
    ("GET", "/oauth/callback/0", NOT_FOUND),
    ("GET", "/oauth/callback/01", NOT_FOUND),
    ("GET", "/oauth/callback/x", NOT_FOUND),
    ("GET", "/oauth/callbackx", NOT_FOUND),
    ("GET", "/oauth/login", NOT_FOUND),
    ("GET", "/oauth/token", NOT_FOUND),
]
BEARERS = {"none": None, "wrong": TOKEN[::-1], "right": TOKEN}


@pytest.fixture
async def listener(nursery, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = HubConfig(token=Secret(TOKEN))
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
    await nursery.start(listener.run)
    yield listener
    nursery.cancel_scope.cancel()


def request(listener, method, path, bearer, *fields, host=None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'localhost:{listener.address[1]}'}", *fields]
    if bearer is not None:
        lines.append(f"Authorization: Bearer {bearer}")
    return "\r\n".join([*lines, *(["Content-Length: 2"] if method == "POST" else []), "", ""]).encode() + (
        b"{}" if method == "POST" else b""
    )


async def ask(listener, method, path, bearer, *fields, host=None) -> Answer:
    client = Client(await trio.open_tcp_stream(*listener.address))
    await client.send(request(listener, method, path, bearer, *fields, host=host))
    answer = await client.head() if method == "HEAD" else await client.answer()
    await client.stream.aclose()
    return answer


@pytest.mark.covers("SEC-08", "FH-12")
@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize(("method", "path", "without", "with_token"), GOLDEN)
async def test_the_golden_list(listener, method, path, without, with_token, bearer):
    status, body = with_token if bearer == "right" else without
    answer = await ask(listener, method, path, BEARERS[bearer])
    assert answer.status == status
    if body is not None:
        assert answer.body == body
    assert ("www-authenticate" in answer.headers) == (status == 401)
    if status == 404 and bearer != "right":
        assert answer.headers["connection"] == "close", "who shows no token keeps no connection"


@pytest.fixture
async def signing_in(nursery, monkeypatch, tmp_path):
    """A listener whose hub has sign-ins; their pages are stood in for."""

    async def sign_in(request, response):
        assert request.identity is None or request.identity.principal == "local"
        response.reply(*SIGNS_IN)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = HubConfig(token=Secret(TOKEN))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
    await nursery.start(listener.run, sign_in)
    yield listener
    nursery.cancel_scope.cancel()


@pytest.mark.covers("SEC-08")
@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize(("method", "path", "expected"), SIGN_IN_GOLDEN)
async def test_the_golden_list_of_sign_ins(signing_in, method, path, expected, bearer):
    answer = await ask(signing_in, method, path, BEARERS[bearer])
    assert (answer.status, answer.body) == (expected[0], b"" if method == "HEAD" else expected[1])
    assert "www-authenticate" not in answer.headers
    assert (await ask(signing_in, method, path, BEARERS[bearer], host="evil.test")).status == 403
    assert (await ask(signing_in, method, path, BEARERS[bearer], "Origin: https://evil.test")).status == 403


async def test_bodies_of_strangers_are_not_read(signing_in):
    for field in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        assert (await ask(signing_in, "GET", "/oauth/callback", None, field)).status == 404
    assert (await ask(signing_in, "GET", "/oauth/callback", None, "Content-Length: 0")).status == 200


@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize("path", ["/oauth/begin/x", "/oauth/callback", "/oauth/done/x", "/oauth/client.json"])
async def test_a_hub_without_sign_ins_has_none_of_their_pages(listener, path, bearer):
    assert (await ask(listener, "GET", path, BEARERS[bearer])).status == 404


@pytest.mark.covers("SEC-03")
@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize("path", ["/", "/livez", "/healthz", "/mcp", "/mcp/nobody", "/.well-known/x", "/x"])
async def test_host_and_origin_come_first(listener, path, bearer):
    assert (await ask(listener, "GET", path, BEARERS[bearer], host="evil.test")).status == 403
    assert (await ask(listener, "GET", path, BEARERS[bearer], "Origin: https://evil.test")).status == 403


@pytest.mark.covers("EW-4")
@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize("path", ["/", "/mcp", "/mcp/nobody", "/ws"])
async def test_nobody_dials_in_by_websocket(listener, path, bearer):
    """The answer is that without the fields of such a handshake."""
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    wish = ("Upgrade: websocket", "Connection: Upgrade", key, "Sec-WebSocket-Version: 13")
    answer = await ask(listener, "GET", path, BEARERS[bearer], *wish)
    assert answer.status == (await ask(listener, "GET", path, BEARERS[bearer])).status != 101
    assert "upgrade" not in answer.headers


@pytest.mark.covers("FH-12")
async def test_the_page_for_people_is_plain_text(listener):
    answer = await ask(listener, "GET", "/", None)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "hubd token" in answer.body.decode("ascii")
    head = await ask(listener, "HEAD", "/", None)
    assert int(head.headers["content-length"]) == len(WELCOME)


@pytest.mark.covers("FH-12")
async def test_a_hub_that_stops_says_so_to_whoever_looks_after_it(listener, nursery):
    client = Client(await trio.open_tcp_stream(*listener.address))
    early = Client(await trio.open_tcp_stream(*listener.address))
    await early.send(b"GET /livez HTTP/1.1\r\n")
    nursery.start_soon(listener.drain)
    await trio.testing.wait_all_tasks_blocked()
    assert (await client.ask(request(listener, "GET", "/livez", None))).status == 503
    port = listener.address[1]
    assert (await early.ask(f"Host: localhost:{port}\r\n\r\n".encode())).status == 503
    for each in (client, early):
        await each.stream.aclose()


@pytest.mark.covers("FH-12")
async def test_the_body_of_a_404_is_what_oauth_clients_show():
    said = json.loads(NOTHING_HERE)
    assert set(said) == {"error", "error_description"}
    assert "hubd token" in said["error_description"]


TOKENS = {
    "owner": ("o" * 43, AccessToken(name="owner", token=Secret("o" * 43))),
    "other": ("p" * 43, AccessToken(name="other", token=Secret("p" * 43), principal="ann")),
    "one profile": ("q" * 43, AccessToken(name="one", token=Secret("q" * 43), profile="coding")),
}
OF_ALL = {"right", *TOKENS}


@pytest.mark.covers("SEC-08")
@pytest.mark.parametrize("who", ["none", "wrong", *sorted(OF_ALL)])
async def test_a_page_is_one_row_that_says_who_may_open_it(nursery, monkeypatch, tmp_path, who):
    async def count_servers(api, request, response):
        response.reply(200, str(len((await api.status()).upstreams)).encode())

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    access = AccessConfig(tokens=tuple(token for _, token in TOKENS.values()))
    config = HubConfig(token=Secret(TOKEN), access=access, profiles={"coding": Profile()})
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
    show = partial(count_servers, DaemonApi(hub, listener))
    listener.pages["GET", "/metrics"] = TokenPage(show)
    listener.pages["GET", "/count"] = TokenPage(show, is_owners=False)
    await nursery.start(listener.run)
    bearer = TOKENS[who][0] if who in TOKENS else BEARERS[who]
    for path, may_open in (("/metrics", {"right", "owner"}), ("/count", OF_ALL), ("/healthz", OF_ALL)):
        answer = await ask(listener, "GET", path, bearer)
        nothing = await ask(listener, "GET", "/mcp/nothing", bearer)
        if who in may_open:
            assert (answer.status, answer.body) == ((200, b"0") if path != "/healthz" else HEALTHY)
        else:
            assert (answer.status, answer.body) == (nothing.status, nothing.body)
            assert answer.status == (404 if who in OF_ALL else 401)
        assert (await ask(listener, "POST", path, bearer)).status == 404
        assert (await ask(listener, "GET", path, bearer, host="evil.test")).status == 403
    nursery.cancel_scope.cancel()


@pytest.mark.covers("OM-5")
@pytest.mark.parametrize("auth", ["token", "none"])
async def test_the_token_of_the_metrics_opens_these_and_nothing_else(nursery, monkeypatch, tmp_path, auth):
    async def tell(request, response):
        response.reply(200, b"up 1")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    hub = Hub(HubConfig(token=Secret(TOKEN), auth=auth), Memory(None), Sealer(b"k" * 32))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
    listener.pages["GET", "/metrics"] = TokenPage(tell)
    await nursery.start(listener.run)
    first, other = read_or_make_token(metrics_token_path()), "x" * 43
    for bearer, may_open in ((TOKEN, True), (first, False), (None, False), (other, False), (f"{first}x" * 99, False)):
        answer = await ask(listener, "GET", "/metrics", bearer)
        assert answer.status == (200 if may_open or auth == "none" else 401), "nobody has read the file yet"
    listener.read_metrics_token()
    assert (await ask(listener, "GET", "/metrics", first)).body == b"up 1"
    if auth == "none":
        nursery.cancel_scope.cancel()
        return
    for method, path, status in (
        *(("GET", "/healthz", 401), ("GET", "/mcp", 401), ("POST", "/mcp", 401), ("DELETE", "/mcp", 401)),
        *(
            ("GET", "/mcp/metrics", 401),
            ("POST", "/metrics", 404),
            ("HEAD", "/metrics", 404),
            ("GET", "/metrics/", 404),
        ),
    ):
        assert (await ask(listener, method, path, first)).status == status
    for fields in ({"host": "evil.test"}, {}):
        answer = await ask(listener, "GET", "/metrics", first, "Origin: https://evil.test", **fields)
        assert answer.status == 403
    replace_token(metrics_token_path())
    listener.read_metrics_token()
    assert (await ask(listener, "GET", "/metrics", first)).status == 401
    metrics_token_path().chmod(0o644)
    listener.read_metrics_token()
    assert (await ask(listener, "GET", "/metrics", metrics_token_path().read_text().strip())).status == 401
    nursery.cancel_scope.cancel()


async def test_who_has_no_identity_opens_no_page_of_the_owner():
    async def mcp(request, response):
        response.reply(418)

    async def page(request, response):
        response.reply(200, b"here")

    pages = {("GET", "/metrics"): TokenPage(page), ("GET", "/count"): TokenPage(page, is_owners=False)}
    for path, identity, status in [
        ("/metrics", None, 418),
        ("/metrics", Identity(OWNER, "http"), 200),
        ("/metrics", Identity(OWNER, "http", "coding"), 418),
        ("/metrics", Identity("proxy/ann", "http"), 418),
        ("/count", Identity("proxy/ann", "http", "coding"), 200),
    ]:
        request, response = HttpRequest("GET", path, {}, b""), Answered()
        request.identity = identity
        await route(mcp, pages=pages)(request, response)
        assert response.status == status
