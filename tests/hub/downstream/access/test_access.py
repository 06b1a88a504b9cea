"""Who gets in: the vector table of SEC-03, tokens, and the token's file."""

import os
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from config.diagnostics import ConfigError
from config.settings import HubConfig
from hub.downstream.access.access import Access
from hub.downstream.access.hub_urls import ways_in
from hub.downstream.access.refusals import ANYBODY, FORBIDDEN, NO_TOKEN, WRONG_TOKEN
from hub.downstream.access.token_files import read_or_make_token
from hub.link.call_interface import Identity
from hub.net.look_after_connections import HttpRequest

TOKEN = "t" * 43
OWNER = Identity("local", "http")


def ask(access: Access, **headers: str):
    headers.setdefault("host", "localhost:8765")
    return access.check(HttpRequest("POST", "/mcp", headers))


@pytest.mark.parametrize(
    ("listen", "proxy", "allowed", "here", "proxied"),
    [
        ("127.0.0.1", False, [], "http://127.0.0.1:8765/mcp", []),
        ("::1", False, ["hub.lan"], "http://[::1]:8765/mcp", []),
        ("127.0.0.1", True, ["Hub.example.com:443"], "http://127.0.0.1:8765/mcp", ["https://hub.example.com/mcp"]),
        ("0.0.0.0", True, ["a:443", "b:8443"], "http://127.0.0.1:8765/mcp", ["https://a/mcp", "https://b:8443/mcp"]),
        ("::", True, [], "http://[::1]:8765/mcp", []),
        ("10.0.0.5", True, ["hub.lan"], None, ["https://hub.lan:8765/mcp"]),
        ("10.0.0.5", True, ["10.0.0.5", "a:443"], "http://10.0.0.5:8765/mcp", ["https://a/mcp"]),
        ("10.0.0.5", True, [], None, []),
        ("127.0.0.2", False, [], None, []),
    ],
)
def test_every_way_in_is_let_in(listen, proxy, allowed, here, proxied):
    config = HubConfig(behind_tls_proxy=proxy, allowed_hosts=tuple(allowed))
    found = ways_in(config, listen, 8765)
    assert (found.here, list(found.proxied)) == (here, proxied)
    access = Access(port=8765, hosts=allowed)
    for url in (found.here, *found.proxied):
        if url is not None:
            assert ask(access, host=urlsplit(url).netloc) == OWNER


@pytest.fixture
def loopback() -> Access:
    return Access(port=8765)


@pytest.mark.covers("SEC-03", "F-H-13")
@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1:8765", "[::1]:8765", "LocalHost:8765"])
def test_own_hosts(loopback, host):
    assert ask(loopback, host=host) == OWNER


@pytest.mark.covers("SEC-03", "F-H-13")
@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "127.0.0.1",
        "localhost:",
        "localhost:80",
        "localhost:8766",
        "localhost:08765",
        "localhost:8765 ",
        "localhost:8765, localhost:8765",
        "localhost.:8765",
        "localhost:8765.",
        "localhost.evil.test:8765",
        "127.0.0.1.evil.test:8765",
        "evil.test",
        "evil.test:8765",
        "localhost:1@evil.test",
        "localhost:8765@evil.test",
        "user@localhost:8765",
        "http://localhost:8765",
        "localhost:8765/",
        "[::1",
        "[::1]",
        "::1:8765",
        "[::1]:8765]",
        "[::ffff:127.0.0.1]:8765",
        "[0:0:0:0:0:0:0:1]:8765",
        "0.0.0.0:8765",
        "127.1:8765",
        "127.0.0.2:8765",
        "2130706433:8765",
        "0x7f.1:8765",
        "*:8765",
        "\u017focalhost:8765",
    ],
)
def test_other_hosts(loopback, host):
    assert ask(loopback, host=host) is FORBIDDEN


@pytest.mark.covers("SEC-03")
def test_no_host(loopback):
    assert loopback.check(HttpRequest("GET", "/", {})) is FORBIDDEN


@pytest.mark.covers("SEC-03", "F-H-13")
@pytest.mark.parametrize("origin", ["http://localhost:8765", "http://127.0.0.1:8765", "http://[::1]:8765"])
def test_own_origins(loopback, origin):
    assert ask(loopback, origin=origin) == OWNER


@pytest.mark.covers("SEC-03", "F-H-13")
@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "*",
        "http://localhost",
        "http://localhost:6274",
        "https://localhost:8765",
        "http://localhost:8765/",
        "http://localhost:8765?",
        "http://localhost:8765.evil.test",
        "http://localhost.evil.test:8765",
        "http://evil.test",
        "http://evil-localhost:8765",
        "http://user@localhost:8765",
        "http://localhost:8765@evil.test",
        "HTTP://localhost:8765",
        "http://LOCALHOST:8765",
        "http://localhost.:8765",
        "http://0.0.0.0:8765",
        "http://127.0.0.1.evil.test:8765",
        "http://localhost:8765 http://evil.test",
        "http://localhost:8765, http://localhost:8765",
        "localhost:8765",
        "file://",
    ],
)
def test_other_origins(loopback, origin):
    assert ask(loopback, origin=origin) is FORBIDDEN


@pytest.mark.covers("SEC-03")
def test_host_and_origin_before_the_token():
    access = Access(port=8765, token=TOKEN)
    assert ask(access, host="evil.test", authorization=f"Bearer {TOKEN}") is FORBIDDEN
    assert ask(access, origin="null", authorization=f"Bearer {TOKEN}") is FORBIDDEN


@pytest.mark.covers("SEC-03")
def test_configured_names():
    access = Access(port=8765, hosts=["Hub.lan", "proxy.lan:443"], origins=["https://app.lan"])
    for host in ("hub.lan:8765", "proxy.lan:443", "proxy.lan"):
        assert ask(access, host=host, origin="https://app.lan") == OWNER
    for host in ("hub.lan", "proxy.lan:80", "proxy.lan:8765", "x.hub.lan:8765"):
        assert ask(access, host=host) is FORBIDDEN
    assert ask(access, origin="https://app.lan.evil.test") is FORBIDDEN


@pytest.mark.parametrize("name", ["http://hub.lan", "hub.lan:port", "", "[::1", "a:b:c"])
def test_bad_configured_host(name):
    with pytest.raises(ConfigError, match="allowed_hosts"):
        Access(port=8765, hosts=[name])


def test_port_80_may_be_left_out():
    access = Access(port=80)
    for host in ("localhost", "localhost:80", "[::1]"):
        assert ask(access, host=host, origin="http://localhost") == OWNER


@pytest.mark.covers("SEC-02", "F-H-16")
@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (f"Bearer {TOKEN}", OWNER),
        (f"bearer {TOKEN}", OWNER),
        (f"BEARER   {TOKEN}", OWNER),
        ("", NO_TOKEN),
        ("Bearer", NO_TOKEN),
        ("Bearer ", NO_TOKEN),
        (TOKEN, NO_TOKEN),
        (f"Basic {TOKEN}", NO_TOKEN),
        (f"Bearer {TOKEN} {TOKEN}", NO_TOKEN),
        (f"Bearer {TOKEN}, Bearer {TOKEN}", NO_TOKEN),
        ("Bearer \u00e4", NO_TOKEN),
        (f"Bearer {TOKEN}x", WRONG_TOKEN),
        (f"Bearer {TOKEN[:-1]}", WRONG_TOKEN),
        (f"Bearer {TOKEN.upper()}", WRONG_TOKEN),
        ("Bearer x", WRONG_TOKEN),
    ],
)
def test_token(authorization, expected):
    access = Access(port=8765, token=TOKEN)
    assert ask(access, authorization=authorization) == expected


@pytest.mark.covers("SEC-02")
def test_a_wrong_token_is_told_from_none():
    assert b"The token that was sent is not one of this hub" in WRONG_TOKEN.body
    assert b"This hub asks for a token" in NO_TOKEN.body
    assert all(b"run `hubd token`" in each.body for each in (WRONG_TOKEN, NO_TOKEN))


@pytest.mark.covers("SEC-02")
def test_token_is_not_taken_from_elsewhere():
    access = Access(port=8765, token=TOKEN)
    request = HttpRequest("POST", "/mcp", {"host": "localhost:8765", "cookie": TOKEN}, query=f"access_token={TOKEN}")
    assert access.check(request) is NO_TOKEN
    assert dict(NO_TOKEN.headers)["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.covers("SEC-02")
def test_guard_leaves_the_identity():
    access = Access(port=8765, token=TOKEN)
    request = HttpRequest("POST", "/mcp", {"host": "localhost:8765", "authorization": f"Bearer {TOKEN}"})
    assert access.guard(request) is None
    assert request.identity == OWNER
    other = HttpRequest("POST", "/mcp", {"host": "localhost:8765"})
    assert access.guard(other) is NO_TOKEN
    assert other.identity is None


# --- the token's file -------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-02")
def test_token_is_made_once(tmp_path):
    path = tmp_path / "state" / "token"
    token = read_or_make_token(path)
    assert len(token) == 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert read_or_make_token(path) == token
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]


def test_token_of_a_race_is_one(tmp_path):
    path = tmp_path / "token"
    with ThreadPoolExecutor(20) as threads:
        tokens = set(threads.map(lambda _: read_or_make_token(path), range(20)))
    assert len(tokens) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_token_may_be_one_of_the_users(tmp_path):
    path = tmp_path / "token"
    path.write_text(f" {TOKEN}\n")
    path.chmod(0o600)
    assert read_or_make_token(path) == TOKEN


@pytest.mark.covers("SEC-02")
@pytest.mark.parametrize("text", ["", "short", "two words of sixteen", "ä" * 20, "x" * 3000])
def test_no_token(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no token"):
        read_or_make_token(path)


@pytest.mark.parametrize("known", [True, False])
async def test_who_has_yet_to_be_found_out_gets_to_public_pages_with_or_without_a_name(known):
    """A proxy that is known by its user is asked for before the request goes on, so that its person is known there."""
    request = HttpRequest("GET", "/oauth/begin/x", {"host": "localhost:8765"})
    person = Identity("proxy/ann", "proxy")

    async def decide():
        if not known:
            return FORBIDDEN
        request.identity = person
        return None

    class Others:
        def check(self, request):
            return decide

    access = Access(port=8765, token=TOKEN, others=Others(), public=lambda request: ANYBODY)
    undecided = access.guard(request)
    assert undecided is not None
    assert await undecided() is None
    assert request.identity == (person if known else None)


@pytest.mark.covers("SEC-02")
def test_token_that_others_can_read(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_or_make_token(path)


def test_token_that_is_not_a_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="it is a link"):
        read_or_make_token(link)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_or_make_token(fifo)
