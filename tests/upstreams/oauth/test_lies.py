"""Discovery and registration by real requests: at a server that lies, and at the real authorization servers.

Of each lie, what is due is said, nothing is registered where nothing may be, and the attacker is never asked.
"""

import contextlib
import urllib.error
import urllib.request
from typing import NamedTuple

import pytest

from config.security_settings import OAuthConfig, UpstreamOAuth
from tests.support.oauth.rig import PUBLIC_CLIENT, Part
from tests.upstreams.oauth.memory_clients import MemoryClients
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.discovery.challenge import parse_challenges
from upstreams.oauth.discovery.discover import discover
from upstreams.oauth.model import Discovery, OAuthClient, OAuthProblem, OAuthUnavailable

REDIRECT = "http://127.0.0.1:8765/oauth/callback"
SETTINGS = UpstreamOAuth()
FETCHES_S = 100.0
"""A busy machine imports httpx slowly."""


class Found(NamedTuple):
    discovery: Discovery
    client: OAuthClient


async def sign_up(
    server: Part,
    settings: UpstreamOAuth = SETTINGS,
    *,
    hub: OAuthConfig | None = None,
    with_scope: bool = False,
    timeout_s: float = FETCHES_S,
) -> Found:
    """From the refusal of a call to a client id, as the hub does it."""
    from upstreams.oauth.client_id import ClientSearch, ClientWish

    fetch = Fetcher({}, timeout_s=timeout_s)
    challenge = parse_challenges(challenges_of(server.url))
    discovery = await discover(fetch, server.url, settings, challenge, upstream="notes")
    search = ClientSearch(fetch, discovery, settings, hub or OAuthConfig(), REDIRECT, "notes")
    client = await search.find(MemoryClients(), 1.8e9, ClientWish(with_scope=with_scope))
    return Found(discovery, client)


def challenges_of(url: str) -> list[str]:
    """The challenges of a server that refuses a request without a token."""
    request = urllib.request.Request(url, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.closing(opener), pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(request, timeout=60)
    with contextlib.closing(refused.value):
        assert refused.value.code == 401
        return refused.value.headers.get_all("WWW-Authenticate") or []


async def refused(server: Part, settings: UpstreamOAuth = SETTINGS, **more) -> str:
    with pytest.raises(OAuthProblem) as caught:
        await sign_up(server, settings, **more)
    return str(caught.value)


def paths(server: Part) -> list[str]:
    """What was asked beside calls, in short."""
    short = {"/.well-known/oauth-": "", "/.well-known/openid-configuration": "openid", "/mcp": ""}
    asked = [entry["what"] for entry in server.log() if entry["what"] not in ("mcp", "registration")]
    for long, brief in short.items():
        asked = [what.replace(long, brief) for what in asked]
    return asked


RESOURCE, SERVER, REGISTER = "GET protected-resource", "GET authorization-server", "POST /register"


async def test_no_lie(oauth):
    server = oauth.liar()
    found = await sign_up(server)
    assert found.discovery.resource.resource == server.url
    assert (found.discovery.server.issuer, found.discovery.scope) == (server.issuer, "mcp")
    assert found.discovery.server.sends_issuer
    assert (found.client.token_auth, found.client.redirect_uri) == ("none", REDIRECT)
    assert paths(server) == [RESOURCE, SERVER, REGISTER]


@pytest.mark.parametrize(
    ("lie", "due", "asked"),
    [
        ("prm-resource-other", "notes says that it is https://evil.example/mcp, which is not {url}", [RESOURCE]),
        ("prm-resource-child", "notes says that it is {url}/x, which is not {url}", [RESOURCE]),
        ("prm-metadata-address", "notes names no authorization server that can be used", [RESOURCE]),
        ("prm-no-servers", "notes names no authorization server that can be used", [RESOURCE]),
        ("meta-issuer-other", "names {issuer} as its authorization server, which says it is https://honest.example", 0),
        ("meta-huge", "has no metadata where they belong", [RESOURCE, SERVER, "GET openid"]),
        ("meta-no-pkce", 'set pkce = "assume" below [upstreams.notes.oauth]', 0),
        ("meta-pkce-plain", "not by the method S256", 0),
        ("meta-authorize-javascript", "names no authorization_endpoint that can be used", 0),
        ("meta-authorize-file", "names no authorization_endpoint that can be used", 0),
        ("meta-authorize-flag", "names no authorization_endpoint that can be used", 0),
    ],
)
@pytest.mark.covers("A-13", "A-16")
async def test_a_lie_that_ends_the_discovery(oauth, lie, due, asked):
    server = oauth.liar(lie)
    text = await refused(server)
    assert due.format(url=server.url, issuer=server.issuer) in text
    assert "notes" in text
    assert paths(server) == (asked or [RESOURCE, SERVER])
    assert (server.asked("EVIL"), server.asked("registration")) == ([], [])


@pytest.mark.parametrize("lie", ["prm-html", "prm-redirect"])
async def test_metadata_that_are_not_there(oauth, lie):
    server = oauth.liar(lie)
    found = await sign_up(server)
    assert found.discovery.resource.resource == ""
    assert found.discovery.server.issuer == server.issuer
    assert paths(server) == [RESOURCE, RESOURCE, SERVER, REGISTER]
    assert server.asked("EVIL") == []


@pytest.mark.parametrize(("lie", "asked"), [("prm-500", [RESOURCE]), ("meta-500", [RESOURCE, SERVER])])
async def test_a_server_that_cannot_answer_now(oauth, lie, asked):
    server = oauth.liar(lie)
    with pytest.raises(OAuthUnavailable):
        await sign_up(server)
    assert paths(server) == asked


async def test_a_server_that_is_slow(oauth):
    server = oauth.liar("meta-slow")
    with pytest.raises(OAuthUnavailable, match="does not answer within 1 second"):
        await sign_up(server, timeout_s=1)
    assert paths(server) == [RESOURCE, SERVER]


async def test_a_root_issuer_with_a_slash(oauth):
    server = oauth.liar("meta-issuer-slash")
    assert (await sign_up(server)).discovery.server.issuer == server.issuer + "/"


async def test_html_in_place_of_metadata(oauth):
    server = oauth.liar("meta-html")
    assert (await sign_up(server)).discovery.server.issuer == server.issuer
    assert paths(server) == [RESOURCE, SERVER, "GET openid", REGISTER]


async def test_pkce_that_the_operator_knows_of(oauth):
    assert (await sign_up(oauth.liar("meta-no-pkce"), UpstreamOAuth(pkce="assume"))).client.client_id


async def test_an_endpoint_elsewhere(oauth):
    server = oauth.liar("meta-token-elsewhere")
    assert (await sign_up(server)).discovery.server.token_endpoint == f"{server.evil}/token"
    assert server.asked("EVIL") == []


# --- registration -----------------------------------------------------------------------------------------------------


async def test_a_registration_that_is_refused(oauth):
    server = oauth.liar("reg-403-text")
    assert await refused(server) == (
        f"{server.issuer} lets no unknown client in (403). Register hubd there with the redirect URI {REDIRECT} and "
        "set client_id below [upstreams.notes.oauth]."
    )


@pytest.mark.parametrize(
    ("lie", "due"),
    [
        ("reg-no-client-id", "no client_id that can be used"),
        ("reg-other-redirect", "a redirect URI that is not the hub's"),
        ("reg-jwt-only", "a method of proving its client_id that hubd cannot use"),
    ],
)
async def test_a_registration_that_cannot_be_used(oauth, lie, due):
    server = oauth.liar(lie)
    assert due in await refused(server)
    assert len(server.asked("registration")) == 1
    assert server.asked("EVIL") == []


@pytest.mark.covers("A-20")
async def test_scopes_are_not_registered(oauth):
    server = oauth.liar("reg-scope-refused")
    await sign_up(server)
    (wish,) = server.asked("registration")
    assert (wish["scope"], wish["type"], wish["name"]) == (None, "native", "hubd")
    await sign_up(server, with_scope=True)
    assert [wish["scope"] for wish in server.asked("registration")] == [None, "mcp", None]


async def test_a_secret_beside_none_is_kept(oauth):
    client = (await sign_up(oauth.liar("reg-secret-for-none"))).client
    assert client.token_auth == "none"
    assert client.secret.reveal()


async def test_a_server_without_registration(oauth):
    server = oauth.liar(None, "--no-dcr")
    assert "lets no unknown client in." in await refused(server)
    assert (await sign_up(server, UpstreamOAuth(client_id="me"))).client.kind == "configured"


# --- challenges and places --------------------------------------------------------------------------------------------


@pytest.mark.covers("A-12")
@pytest.mark.parametrize("lie", ["res-challenge-two", "res-challenge-garbage", "res-401-bare"])
async def test_challenges(oauth, lie):
    server = oauth.liar(lie)
    assert (await sign_up(server)).discovery.scope == "mcp"
    assert paths(server) == [RESOURCE, SERVER, REGISTER]


@pytest.mark.parametrize("challenge", ["full", "bare", "none"])
async def test_metadata_at_the_root(oauth, challenge):
    server = oauth.liar(None, "--prm", "root", "--challenge", challenge)
    found = await sign_up(server)
    assert found.discovery.resource.resource == server.url
    assert server.asked("EVIL") == []


async def test_no_metadata_of_the_resource(oauth):
    server = oauth.liar(None, "--prm", "none")
    discovery = (await sign_up(server)).discovery
    assert (discovery.resource.resource, discovery.server.issuer, discovery.server.sends_issuer) == (
        "",
        server.issuer,
        False,
    )


async def test_another_authorization_server_from_now_on(oauth):
    server, other = oauth.liar(), oauth.liar()
    await sign_up(server)
    server.move(other.issuer)
    assert (await sign_up(server)).discovery.server.issuer == other.issuer
    settings = UpstreamOAuth(issuer=server.issuer)
    assert (await sign_up(server, settings)).discovery.server.issuer == server.issuer


@pytest.mark.parametrize(
    ("to", "why"), [("https://169.254.169.254", "its address is link-local"), ("https://10.255.255.1", "is private")]
)
async def test_an_authorization_server_at_an_address_that_is_not_asked(oauth, to, why):
    server = oauth.liar()
    server.move(to)
    text = await refused(server)
    assert text.startswith(f"The authorization server of notes cannot be used: {to} is not asked: ")
    assert why in text
    assert paths(server) == [RESOURCE]


# --- real authorization servers ---------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize("options", [(), ("--path", "/tenant1")])
async def test_oidc_provider(oauth, options):
    issuer = oauth.oidc_provider(*options)
    found = await sign_up(oauth.liar(behind=issuer))
    assert found.discovery.server.issuer == issuer.issuer
    assert found.client.client_id
    assert found.client.token_auth == "none"


@pytest.mark.real
async def test_django_toolkit(oauth):
    issuer = oauth.django_toolkit()
    found = await sign_up(oauth.liar(behind=issuer))
    assert found.discovery.server.issuer == issuer.issuer
    assert found.client.client_id


@pytest.mark.real
async def test_a_real_server_that_registers_nobody(oauth):
    server = oauth.liar(behind=oauth.oidc_provider("--no-dcr"))
    assert "lets no unknown client in" in await refused(server)
    assert (await sign_up(server, UpstreamOAuth(client_id=PUBLIC_CLIENT))).client.client_id == PUBLIC_CLIENT


@pytest.mark.real
async def test_a_real_server_that_reads_client_documents(oauth):
    document = oauth.client_document()
    server = oauth.liar(behind=oauth.oidc_provider("--no-dcr", trust=document))
    found = await sign_up(server, hub=OAuthConfig(client_metadata_url=document.client_id))
    assert (found.client.kind, found.client.client_id) == ("document", document.client_id)
