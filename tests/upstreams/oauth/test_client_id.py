"""Client ids with scripted answers: the order in which they are looked for, what is sent, and useless answers."""

import pytest
import trio
from msgspec.structs import replace

from config.security_settings import OAuthConfig, UpstreamOAuth
from config.setting_declarations import Secret
from tests.support.scripted_web import ScriptedWeb, json_answer, timed_out
from tests.upstreams.oauth.memory_clients import MemoryClients
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed
from upstreams.oauth.client_id import ClientSearch, ClientWish
from upstreams.oauth.model import (
    AuthorizationServer,
    Discovery,
    OAuthClient,
    OAuthProblem,
    OAuthUnavailable,
    ProtectedResource,
)

ID = "https://id.example"
REDIRECT = "http://127.0.0.1:8765/oauth/callback"
DOCUMENT = "https://hubd.example/oauth/client.json"
SERVER = AuthorizationServer(
    issuer=ID, authorization_endpoint=ID + "/authorize", token_endpoint=ID + "/token", registration_endpoint=ID + "/reg"
)
NOW = 1_800_000_000.0
ANY_HOST = Allowed(loopback_http=True)
BODY = {
    "client_name": "hubd",
    "application_type": "native",
    "redirect_uris": [REDIRECT],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
SETTING = "set client_id below [upstreams.notes.oauth]."
BY_HAND = f"Register hubd there with the redirect URI {REDIRECT} and {SETTING}"


def made(body, **more):
    return json_answer(201, {**body, "client_id": "c1", **more})


def discovery(server=SERVER, scope="a b"):
    return Discovery(resource=ProtectedResource(resource="https://notes.example/mcp"), server=server, scope=scope)


async def client(
    fetch, clients=None, server=SERVER, settings=None, hub=None, redirect=REDIRECT, *, now=NOW, allowed=ANY_HOST, **wish
) -> OAuthClient:
    found = replace(discovery(server), allowed=allowed)
    search = ClientSearch(fetch, found, settings or UpstreamOAuth(), hub or OAuthConfig(), redirect, "notes")
    return await search.find(clients or MemoryClients(), now, ClientWish(**wish))


async def refused(fetch, *args, **more) -> str:
    with pytest.raises(OAuthProblem) as caught:
        await client(fetch, *args, **more)
    return str(caught.value)


# --- the operator's ---------------------------------------------------------------------------------------------------


async def test_a_configured_client_id_needs_no_registration_endpoint():
    """The first of the failures that were seen: nobody looks for one."""
    fetch = ScriptedWeb()
    found = await client(
        fetch, server=replace(SERVER, registration_endpoint=""), settings=UpstreamOAuth(client_id="me")
    )
    assert found == OAuthClient(issuer=ID, client_id="me", redirect_uri=REDIRECT, kind="configured")
    assert fetch.asked == []


@pytest.mark.parametrize("setting", ["client_secret", "private_key"])
async def test_a_secret_belongs_to_a_written_issuer(setting):
    settings = UpstreamOAuth(client_id="me", **{setting: Secret("s3cr3t")})
    assert await refused(ScriptedWeb(), settings=settings) == (
        f"notes has a {setting}, which belongs to one authorization server; write that down as "
        'issuer = "https://id.example" below [upstreams.notes.oauth], if it is the right one. Otherwise whichever '
        f"notes names would get the {setting}."
    )


@pytest.mark.covers("A-18")
async def test_a_client_id_belongs_to_the_issuer_that_was_seen_first():
    clients, other = MemoryClients(), replace(SERVER, issuer="https://b.example")
    settings = UpstreamOAuth(client_id="me")
    await client(ScriptedWeb(), clients, settings=settings)
    await client(ScriptedWeb(), clients, settings=settings)
    assert await refused(ScriptedWeb(), clients, other, settings) == (
        "The client_id of notes was first used at https://id.example, and notes now names https://b.example, where it "
        'was not tried. If that is right, set issuer = "https://b.example" below [upstreams.notes.oauth].'
    )
    named = UpstreamOAuth(client_id="me", issuer="https://b.example")
    assert (await client(ScriptedWeb(), clients, other, named)).issuer == "https://b.example"
    fresh = UpstreamOAuth(client_id="me2")
    assert (await client(ScriptedWeb(), clients, other, fresh)).issuer == "https://b.example"


@pytest.mark.parametrize(
    ("settings", "listed", "due"),
    [
        ({}, None, "none"),
        ({"client_secret": Secret("s")}, None, "client_secret_basic"),
        ({"client_secret": Secret("s")}, ("none", "client_secret_post", "client_secret_basic"), "client_secret_basic"),
        ({"client_secret": Secret("s")}, ("client_secret_post",), "client_secret_post"),
        ({"client_secret": Secret("s")}, ("none",), "client_secret_basic"),
        ({"client_secret": Secret("s"), "token_auth": "client_secret_post"}, None, "client_secret_post"),
        ({"private_key": Secret("k")}, ("none",), "private_key_jwt"),
        ({"client_secret": Secret("s"), "token_auth": "none"}, None, "none"),
    ],
)
async def test_how_a_configured_client_proves_itself(settings, listed, due):
    server = replace(SERVER, token_auth_methods=listed)
    settings = UpstreamOAuth(client_id="me", issuer=ID, **settings)
    assert (await client(ScriptedWeb(), server=server, settings=settings)).token_auth == due


@pytest.mark.parametrize("listed", [None, ("client_secret_basic", "client_secret_post")])
async def test_after_a_refusal_a_secret_is_shown_in_another_way_which_is_remembered(listed):
    server, clients = replace(SERVER, token_auth_methods=listed), MemoryClients()
    settings = UpstreamOAuth(client_id="me", issuer=ID, client_secret=Secret("s"))

    async def method(settings=settings, **more) -> str:
        found = await client(ScriptedWeb(), clients, server, settings, **more)
        assert found.secret is not None
        return found.token_auth

    assert await method() == "client_secret_basic"
    assert await method(anew=True, other_method=True) == "client_secret_post"
    assert await method() == await method(anew=True) == "client_secret_post"
    assert all(kept.secret is None for kept in clients.kept.values()), "the settings have it"
    written = UpstreamOAuth(client_id="me", issuer=ID, client_secret=Secret("s"), token_auth="client_secret_basic")
    assert await method(written, anew=True, other_method=True) == "client_secret_basic"
    other = UpstreamOAuth(client_id="you", issuer=ID, client_secret=Secret("s"))
    assert await method(other) == "client_secret_basic"


async def test_a_method_that_is_the_only_one_stays():
    server, clients = replace(SERVER, token_auth_methods=("client_secret_post",)), MemoryClients()
    settings = UpstreamOAuth(client_id="me", issuer=ID, client_secret=Secret("s"))
    found = await client(ScriptedWeb(), clients, server, settings, anew=True, other_method=True)
    assert found.token_auth == "client_secret_post"


@pytest.mark.parametrize(
    ("method", "due"),
    [
        ("client_secret_basic", "client_secret"),
        ("client_secret_post", "client_secret"),
        ("private_key_jwt", "private_key"),
    ],
)
async def test_a_method_without_what_it_needs(method, due):
    settings = UpstreamOAuth(client_id="me", token_auth=method)
    text = await refused(ScriptedWeb(), settings=settings)
    assert text == f'notes has token_auth = "{method}", which needs {due} below [upstreams.notes.oauth].'


@pytest.mark.parametrize("grant", ["client_credentials", "id_jag"])
async def test_a_machine_has_a_client_id(grant):
    fetch = ScriptedWeb()
    assert "client_id is needed" in await refused(fetch, settings=UpstreamOAuth(grant=grant))
    assert fetch.asked == []


# --- a client metadata document ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("redirect", "methods", "reads", "due"),
    [
        (REDIRECT, None, True, True),
        (REDIRECT, (), True, True),
        (REDIRECT, ("client_secret_basic", "none"), True, True),
        ("http://localhost:8765/oauth/callback", None, True, True),
        ("https://hubd.example/oauth/callback", None, True, True),
        (REDIRECT, None, False, False),
        (REDIRECT, ("client_secret_basic",), True, False),
        (REDIRECT + "/1", None, True, False),
        ("http://127.0.0.1:3118/oauth/callback", None, True, False),
        ("https://other.example/oauth/callback", None, True, False),
    ],
)
@pytest.mark.covers("A-19", "A-21")
async def test_when_a_document_is_the_client_id(redirect, methods, reads, due):
    server = replace(SERVER, token_auth_methods=methods, reads_client_documents=reads, sends_issuer=True)
    fetch = ScriptedWeb({}, lambda body: made(body, client_secret="s"))
    found = await client(fetch, server=server, hub=OAuthConfig(client_metadata_url=DOCUMENT), redirect=redirect)
    if due:
        assert found == OAuthClient(issuer=ID, client_id=DOCUMENT, redirect_uri=redirect, kind="document")
        assert fetch.asked == []  # the hub does not read it either
    else:
        assert found.kind == "registered"


@pytest.mark.parametrize("redirect", [REDIRECT, REDIRECT + "/2"])
async def test_a_server_that_does_not_say_who_it_is_gets_a_client_id_of_its_own(redirect):
    """With one client id for all, a server could send a browser to another one, whose code would come back to it."""
    server = replace(SERVER, reads_client_documents=True, sends_issuer=False)
    hub = OAuthConfig(client_metadata_url=DOCUMENT)
    found = await client(ScriptedWeb({}, made), server=server, hub=hub, redirect=redirect)
    assert (found.kind, found.client_id) == ("registered", "c1")


async def test_a_document_that_was_refused_gives_way_to_a_registration():
    server = replace(SERVER, reads_client_documents=True, sends_issuer=True)
    hub, clients = OAuthConfig(client_metadata_url=DOCUMENT), MemoryClients()
    assert (await client(ScriptedWeb({}, made), clients, server, hub=hub, anew=True)).client_id == "c1"
    assert (await client(ScriptedWeb(), clients, server, hub=hub)).client_id == "c1"
    bare = replace(server, registration_endpoint="")
    assert (await client(ScriptedWeb(), server=bare, hub=hub, anew=True)).client_id == DOCUMENT


# --- a registration ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-19", "A-20")
async def test_a_registration():
    fetch, clients = ScriptedWeb({}, made), MemoryClients()
    found = await client(fetch, clients)
    assert found == OAuthClient(issuer=ID, client_id="c1", redirect_uri=REDIRECT)
    assert (fetch.asked, fetch.posted) == ([ID + "/reg"], [BODY])
    assert await client(fetch, clients) == found
    assert len(fetch.asked) == 1
    assert clients.find(ID, REDIRECT, "notes") == found
    assert clients.find(ID, REDIRECT, "other") is None


async def test_the_name_is_the_operators_and_team_servers_are_web():
    fetch = ScriptedWeb({}, made)
    redirect = "https://hub.example/oauth/callback"
    await client(fetch, hub=OAuthConfig(client_name="hub of Ann"), redirect=redirect)
    assert fetch.posted == [
        {**BODY, "client_name": "hub of Ann", "application_type": "web", "redirect_uris": [redirect]}
    ]


@pytest.mark.parametrize(
    ("listed", "wanted", "due"),
    [
        (None, "auto", "none"),
        (("client_secret_post", "none"), "auto", "none"),
        (("client_secret_post", "client_secret_basic"), "auto", "client_secret_basic"),
        (("private_key_jwt", "client_secret_post"), "auto", "client_secret_post"),
        (("none",), "client_secret_post", "client_secret_post"),
    ],
)
async def test_the_method_that_is_asked_for(listed, wanted, due):
    fetch = ScriptedWeb({}, lambda body: made(body, client_secret="s"))
    server = replace(SERVER, token_auth_methods=listed)
    found = await client(fetch, server=server, settings=UpstreamOAuth(token_auth=wanted))
    assert fetch.posted[0]["token_endpoint_auth_method"] == found.token_auth == due


async def test_no_method_that_the_hub_has():
    fetch = ScriptedWeb()
    text = await refused(fetch, server=replace(SERVER, token_auth_methods=("tls_client_auth",)))
    assert "set client_id and private_key below [upstreams.notes.oauth]" in text
    assert fetch.asked == []


async def test_a_server_without_registration():
    """The first of the failures that were seen."""
    text = await refused(ScriptedWeb(), server=replace(SERVER, registration_endpoint=""))
    assert text == f"https://id.example lets no unknown client in. {BY_HAND}"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Fetched(403, {}, b"Forbidden"), "403"),
        (json_answer(403, {"error": "access_denied"}), "403 access_denied"),
        (json_answer(400, {"error": "<b>\x1b", "error_description": "call 555"}), "400"),
        (json_answer(401, {"error": ["x"]}), "401"),
        (302, "302"),
        (404, "404"),
        (204, "204"),
    ],
)
async def test_a_server_that_lets_nobody_register(answer, told):
    """The second of the failures that were seen."""
    text = await refused(ScriptedWeb({}, answer))
    assert text == f"https://id.example lets no unknown client in ({told}). {BY_HAND}"


async def test_once_more_with_localhost():
    fetch, clients = ScriptedWeb({}, json_answer(400, {"error": "invalid_redirect_uri"}), made), MemoryClients()
    found = await client(fetch, clients)
    other = REDIRECT.replace("127.0.0.1", "localhost")
    assert found.redirect_uri == other
    assert fetch.posted == [BODY, {**BODY, "redirect_uris": [other]}]
    assert await client(fetch, clients) == found
    fetch = ScriptedWeb({}, *[json_answer(400, {"error": "invalid_redirect_uri"})] * 2)
    assert "(400 invalid_redirect_uri)" in await refused(fetch)


async def test_scopes_only_if_they_have_to_be_registered():
    fetch = ScriptedWeb({}, made)
    await client(fetch, with_scope=True)
    assert fetch.posted == [{**BODY, "scope": "a b"}]
    fetch = ScriptedWeb({}, json_answer(400, {"error": "invalid_client_metadata"}), made)
    await client(fetch, with_scope=True)
    assert fetch.posted == [{**BODY, "scope": "a b"}, BODY]
    clients, fetch = MemoryClients(), ScriptedWeb({}, *[made] * 2)
    for with_scope in (False, True, False):
        await client(fetch, clients, with_scope=with_scope)
    assert fetch.posted == [BODY, {**BODY, "scope": "a b"}], "in place of a registration without"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_cannot_register_now(status):
    clients = MemoryClients()
    with pytest.raises(OAuthUnavailable) as caught:
        await client(ScriptedWeb({}, Fetched(status, {"retry-after": "5"}, b"")), clients)
    assert (caught.value.retry_after_s, caught.value.sent, clients.kept) == (5, True, {})
    with pytest.raises(OAuthUnavailable) as caught:
        await client(ScriptedWeb({}, timed_out(ID)))
    assert caught.value.sent


async def test_an_endpoint_that_is_not_asked():
    text = await refused(ScriptedWeb({}, FetchFailed("https://id.example is not asked: private", refused=True)))
    assert text == "hubd cannot register for notes: https://id.example is not asked: private."
    fetch = ScriptedWeb()
    with pytest.raises(OAuthProblem):
        await client(fetch, server=replace(SERVER, registration_endpoint="http://127.0.0.1:1/reg"), allowed=Allowed())
    assert fetch.asked == []


async def test_here_if_the_discovery_was_here():
    here = "http://127.0.0.1:9405"
    server = AuthorizationServer(issuer=here, token_endpoint=here + "/token", registration_endpoint=here + "/reg")
    fetch = ScriptedWeb({}, made)
    await client(fetch, server=server)
    assert fetch.asked == [here + "/reg"]


# --- the answer -------------------------------------------------------------------------------------------------------

BAD = {
    "no client_id": ({"client_id": None}, "no client_id"),
    "an empty client_id": ({"client_id": ""}, "no client_id"),
    "a number as client_id": ({"client_id": 1}, "no client_id"),
    "a client_id with a space": ({"client_id": "a b"}, "no client_id"),
    "a client_id with a line end": ({"client_id": "a\n"}, "no client_id"),
    "a long client_id": ({"client_id": "a" * 1025}, "no client_id"),
    "another redirect URI": ({"redirect_uris": ["https://evil.example/"]}, "a redirect URI that is not the hub's"),
    "a further redirect URI": ({"redirect_uris": [REDIRECT, "https://evil.example/"]}, "a redirect URI that is not"),
    "no redirect URI": ({"redirect_uris": []}, "a redirect URI that is not"),
    "a text as redirect URIs": ({"redirect_uris": REDIRECT}, "a redirect URI that is not"),
    "a method for keys": ({"token_endpoint_auth_method": "private_key_jwt"}, "a method of proving"),
    "an odd method": ({"token_endpoint_auth_method": ["none"]}, "a method of proving"),
    "a secret method without secret": ({"token_endpoint_auth_method": "client_secret_post"}, "no client_secret"),
    "an odd secret": ({"client_secret": ["s"]}, "no client_secret that"),
    "a secret with a line end": ({"client_secret": "s\r\nX: y"}, "no client_secret that"),
    "a long secret": ({"client_secret": "s" * 4097}, "no client_secret that"),
}


@pytest.mark.parametrize(("more", "due"), BAD.values(), ids=BAD)
async def test_an_answer_that_cannot_be_used(more, due):
    clients = MemoryClients()
    text = await refused(ScriptedWeb({}, lambda body: made(body, **more)), clients)
    assert text.startswith("https://id.example registered hubd for notes in a way that cannot be used: it ")
    assert due in text
    assert "evil" not in text
    assert clients.kept == {}


@pytest.mark.parametrize("answer", ["<!doctype html>", b"[]", 201, 200, b'{"client_id":"a","client_id":"b"}'])
async def test_an_answer_that_is_no_object(answer):
    assert "no JSON object" in await refused(ScriptedWeb({}, answer))


async def test_as_little_as_an_answer_may_hold():
    found = await client(ScriptedWeb({}, {"client_id": "c"}))
    assert (found.token_auth, found.redirect_uri, found.secret) == ("none", REDIRECT, None)


@pytest.mark.parametrize(
    ("more", "method"),
    [
        ({}, "none"),
        ({"token_endpoint_auth_method": None}, "none"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "client_secret_basic"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "client_secret_post"),
    ],
)
async def test_the_method_that_is_assigned(more, method):
    """The 11th of the failures that were seen: another method than asked for, and a secret beside `none`."""
    found = await client(ScriptedWeb({}, lambda body: made(body, client_secret="s3cr3t", **more)))
    assert (found.token_auth, found.secret.reveal()) == (method, "s3cr3t")
    assert "s3cr3t" not in repr(found)


@pytest.mark.parametrize(
    ("value", "due"),
    [(0, 0), (NOW + 9, NOW + 9), (str(int(NOW)), NOW), (None, 0), (-1, 0), (1e300, 0), ("soon", 0), (True, 0), ([], 0)],
)
async def test_the_end_of_a_secret(value, due):
    found = await client(ScriptedWeb({}, lambda body: made(body, client_secret="s", client_secret_expires_at=value)))
    assert found.expires_at == due


# --- again ------------------------------------------------------------------------------------------------------------


def numbered():
    number = 0

    def answer(body):
        nonlocal number
        number += 1
        return json_answer(200, {**body, "client_id": f"c{number}"})

    return answer


async def test_a_registration_that_was_refused_is_replaced():
    """The 10th of the failures that were seen: a registration that the server has forgotten."""
    clients, answer = MemoryClients(), numbered()
    fetch = ScriptedWeb({}, *[answer] * 2)
    assert [(await client(fetch, clients, anew=anew)).client_id for anew in (False, True, False)] == ["c1", "c2", "c2"]


async def test_after_a_refusal_the_next_method_that_is_listed_is_registered():
    """Some servers list methods that they refuse then."""
    server = replace(SERVER, token_auth_methods=("client_secret_post", "none"))
    clients = MemoryClients()
    fetch = ScriptedWeb({}, *[lambda body: made(body, client_secret="s")] * 4)
    tries = [{}, {"anew": True, "other_method": True}, {"anew": True}, {"anew": True, "other_method": True}]
    methods = [(await client(fetch, clients, server=server, **each)).token_auth for each in tries]
    assert methods == ["none", "client_secret_post", "none", "client_secret_post"]


async def test_a_method_that_is_listed_and_not_registered_gives_way_to_the_usual_one():
    clients = MemoryClients()
    await client(ScriptedWeb({}, made), clients)
    server = replace(SERVER, token_auth_methods=("none", "client_secret_basic"))
    fetch = ScriptedWeb({}, json_answer(400, {"error": "invalid_client_metadata"}), made)
    assert (await client(fetch, clients, server=server, anew=True, other_method=True)).token_auth == "none"
    assert [body["token_endpoint_auth_method"] for body in fetch.posted] == ["client_secret_basic", "none"]


async def test_a_registration_stays_until_another_one_is_there():
    clients = MemoryClients()
    await client(ScriptedWeb({}, made), clients)
    with pytest.raises(OAuthUnavailable):
        await client(ScriptedWeb({}, 503), clients, anew=True)
    assert clients.find(ID, REDIRECT, "notes").client_id == "c1"


async def test_a_secret_that_ends_is_replaced_in_time():
    clients, end = MemoryClients(), NOW + 10_000
    fetch = ScriptedWeb({}, *[lambda body: made(body, client_secret="s", client_secret_expires_at=end)] * 2)
    for now in (NOW, end - 601, end - 600):
        await client(fetch, clients, now=now)
    assert len(fetch.asked) == 2


async def test_one_registration_at_a_time():
    clients, found = MemoryClients(), []
    fetch = ScriptedWeb({}, *[numbered()] * 20)

    async def ask():
        found.append((await client(fetch, clients)).client_id)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
    assert len(fetch.asked) == 1
    assert found == ["c1"] * 20
