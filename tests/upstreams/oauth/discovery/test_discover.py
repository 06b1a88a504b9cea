"""Discovery with scripted answers: every way to an authorization server, every reason to refuse, and who is asked."""

import pytest

from config.security_settings import UpstreamOAuth
from tests.support.scripted_web import ScriptedWeb, json_answer, timed_out
from upstreams.fetch.terms_and_answers import Allowed, Fetched
from upstreams.oauth.discovery.discover import allowance_for, discover
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, NoSignIn, OAuthProblem, OAuthUnavailable

URL = "https://notes.example/mcp"
PATH = "https://notes.example/.well-known/oauth-protected-resource/mcp"
ROOT = "https://notes.example/.well-known/oauth-protected-resource"
ID = "https://id.example"
SERVER = ID + "/.well-known/oauth-authorization-server"
OPENID = ID + "/.well-known/openid-configuration"
OWN = "https://notes.example/.well-known/oauth-authorization-server"
PAGE = "https://notes.example/authorize"
PRM = {"resource": URL, "authorization_servers": [ID], "scopes_supported": ["notes.read"]}
META = {
    "issuer": ID,
    "authorization_endpoint": ID + "/authorize",
    "token_endpoint": ID + "/token",
    "registration_endpoint": ID + "/register",
    "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["none"],
    "authorization_response_iss_parameter_supported": True,
}
SETTINGS = UpstreamOAuth()
BARE = Challenge()


def web(prm=PRM, meta=META, **pages):
    return ScriptedWeb({PATH: prm, SERVER: meta, **pages})


async def found(fetch, settings=SETTINGS, challenge=BARE, url=URL, **more) -> Discovery:
    return await discover(fetch, url, settings, challenge, upstream="notes", **more)


async def refused(fetch, settings=SETTINGS, **more) -> str:
    with pytest.raises(OAuthProblem) as caught:
        await found(fetch, settings, **more)
    return str(caught.value)


async def test_a_server_that_does_as_it_should():
    fetch = web()
    discovery = await found(fetch)
    assert discovery.resource.resource == URL
    assert not discovery.resource.is_parent
    assert discovery.scope == "notes.read"
    assert discovery.server == AuthorizationServer(
        issuer=ID,
        authorization_endpoint=ID + "/authorize",
        token_endpoint=ID + "/token",
        registration_endpoint=ID + "/register",
        token_auth_methods=("none",),
        sends_issuer=True,
    )
    assert fetch.asked == [PATH, SERVER]


# --- places of the resource's metadata --------------------------------------------------------------------------------


async def test_the_place_of_the_challenge_is_first():
    place = "https://cdn.example/notes.json"
    fetch = ScriptedWeb({place: PRM, SERVER: META})
    await found(fetch, challenge=Challenge(resource_metadata=place))
    assert fetch.asked == [place, SERVER]


@pytest.mark.parametrize("place", ["javascript:alert(1)", "http://notes.example/x", "https://u@notes.example/", "/x"])
async def test_a_place_that_cannot_be_asked_is_passed_over(place):
    fetch = web()
    await found(fetch, challenge=Challenge(resource_metadata=place))
    assert fetch.asked == [PATH, SERVER]


NOTHING = {
    "html": "<!doctype html>",
    "array": b"[]",
    "two of a name": b'{"resource":"a","resource":"b"}',
    "error of every path": {"error": "not found"},
    **{str(status): status for status in (204, 301, 302, 307, 400, 401, 403, 404, 405, 410)},
    "json with 404": json_answer(404, PRM),
    "json with 403": json_answer(403, PRM),
}


@pytest.mark.parametrize("answer", NOTHING.values(), ids=NOTHING)
@pytest.mark.covers("A-12")
async def test_a_place_without_a_document_passes_to_the_next(answer):
    """Also the 15th of the failures that were seen: HTML, 401 and 403 at places."""
    fetch = ScriptedWeb({PATH: answer, ROOT: PRM, SERVER: answer, OPENID: META})
    assert (await found(fetch)).server.issuer == ID
    assert fetch.asked == [PATH, ROOT, SERVER, OPENID]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 599])
@pytest.mark.parametrize("place", [PATH, SERVER])
async def test_a_server_that_cannot_answer_now_ends_it(place, status):
    fetch = web()
    fetch.pages[place] = Fetched(status, {"retry-after": "7"}, b"<secret page>")
    with pytest.raises(OAuthUnavailable) as caught:
        await found(fetch)
    assert caught.value.retry_after_s == 7
    assert str(caught.value) == f"{place.split('/.')[0]} answers {status} now; trying again later may help."
    assert fetch.asked[-1] == place


@pytest.mark.parametrize("place", [PATH, SERVER])
async def test_a_server_that_does_not_answer_ends_it(place):
    fetch = web()
    fetch.pages[place] = timed_out(place)
    with pytest.raises(OAuthUnavailable):
        await found(fetch)
    assert fetch.asked[-1] == place


@pytest.mark.parametrize(
    ("value", "due"), [("99999", 60), ("0", 0), ("-1", None), ("Wed, 21 Oct", None), ("9" * 99, 60)]
)
async def test_the_pause_that_a_server_wants(value, due):
    with pytest.raises(OAuthUnavailable) as caught:
        await found(web(prm=Fetched(503, {"retry-after": value}, b"")))
    assert caught.value.retry_after_s == due


# --- 2025-03-26 -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-27")
async def test_a_server_that_describes_nothing_has_default_endpoints():
    fetch = ScriptedWeb({PAGE: 400})
    discovery = await found(fetch)
    assert discovery.server == AuthorizationServer(
        issuer="https://notes.example",
        authorization_endpoint="https://notes.example/authorize",
        token_endpoint="https://notes.example/token",
        registration_endpoint="https://notes.example/register",
        is_legacy=True,
    )
    assert (discovery.resource.resource, discovery.scope) == ("", "")
    assert fetch.asked == [PATH, ROOT, OWN, PAGE]
    assert fetch.headers[-2] == {"mcp-protocol-version": "2025-03-26"}


@pytest.mark.parametrize("status", [401, 404, 405, 410])
async def test_a_server_that_has_no_page_to_sign_in_on_wants_a_token(status):
    fetch = ScriptedWeb({PAGE: status})
    with pytest.raises(NoSignIn) as caught:
        await found(fetch)
    assert str(caught.value).startswith('notes wants a token and has no sign-in; run "hubd auth notes" in a terminal')


@pytest.mark.parametrize(
    ("page", "settings", "challenge"),
    [
        (404, UpstreamOAuth(client_id="known"), BARE),
        (404, SETTINGS, Challenge(resource_metadata="https://notes.example/elsewhere")),
        (503, SETTINGS, BARE),
        (timed_out("https://notes.example"), SETTINGS, BARE),
    ],
)
async def test_one_that_may_have_a_sign_in_all_the_same_is_tried(page, settings, challenge):
    assert (await found(ScriptedWeb({PAGE: page}), settings, challenge)).server.is_legacy


async def test_a_server_that_is_its_own_authorization_server():
    meta = {**META, "issuer": "https://notes.example"}
    discovery = await found(ScriptedWeb({OWN: meta}))
    assert not discovery.server.is_legacy
    assert not discovery.server.sends_issuer
    assert discovery.server.authorization_endpoint == ID + "/authorize"
    assert discovery.resource.resource == ""


async def test_an_own_authorization_server_has_to_be_that():
    assert "https://id.example" in await refused(ScriptedWeb({OWN: META}))


async def test_no_fallback_while_the_own_server_cannot_answer():
    with pytest.raises(OAuthUnavailable):
        await found(ScriptedWeb({OWN: 500}))


# --- the resource -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [URL, URL + "/", "HTTPS://Notes.Example:443/mcp"])
async def test_the_identifier_is_kept_byte_for_byte(named):
    discovery = await found(web({**PRM, "resource": named}))
    assert discovery.resource.resource == named
    assert not discovery.resource.is_parent


@pytest.mark.parametrize("named", ["https://notes.example", "https://notes.example/"])
async def test_a_parent_counts_at_its_own_place(named):
    """The 7th of the failures that were seen: metadata for the whole host."""
    document = {**PRM, "resource": named}
    discovery = await found(ScriptedWeb({ROOT: document, SERVER: META}))
    assert (discovery.resource.resource, discovery.resource.is_parent) == (named, True)
    fetch = web(document)
    assert "not trusted" in await refused(fetch)
    assert fetch.asked == [PATH]


@pytest.mark.parametrize(
    "named",
    ["https://evil.example/mcp", URL + "/x", "https://notes.example/mc", "http://notes.example/mcp", URL + "?a"],
)
async def test_another_resource_is_refused_before_its_server_is_asked(named):
    fetch = web({**PRM, "resource": named})
    text = await refused(fetch)
    if named.startswith("https://") and "?" not in named:
        assert text == (
            f"notes says that it is {named}, which is not {URL}, so it is not trusted. "
            f'If you know better, set resource = "{named}" below [upstreams.notes.oauth].'
        )
    assert fetch.asked == [PATH]


@pytest.mark.parametrize(
    "named", [None, 1, "", "notes", ["https://notes.example/mcp"], "https://n/\x1b[31m", "x" * 9999]
)
async def test_no_resource_that_can_be_read(named):
    fetch = web({**PRM, "resource": named})
    text = await refused(fetch)
    assert "name no resource that can be read" in text
    assert "\x1b" not in text
    assert fetch.asked == [PATH]


async def test_keys_in_a_url_are_not_told():
    key = "sk-proj-8f3kQ0zL2mN4pR6tV8xZ1cB3"
    place = f"https://notes.example/.well-known/oauth-protected-resource/{key}/mcp"
    for named in (f"https://notes.example/{key}/mcp/x?api_key={key}", None):
        fetch = ScriptedWeb({place: {**PRM, "resource": named}})
        text = await refused(fetch, url=f"https://notes.example/{key}/mcp?api_key={key}")
        assert "not trusted" in text
        assert key not in text
        assert fetch.asked == [place]


async def test_the_operator_knows_the_resource():
    """Also an identifier that is no URL which could be asked."""
    for named in ("https://api.example/v1", "http://notes.example/mcp"):
        settings = UpstreamOAuth(resource=named)
        assert (await found(web({**PRM, "resource": named}), settings)).resource.resource == named
        assert (await found(web(), settings)).resource.resource == named
        assert "not trusted" in await refused(web({**PRM, "resource": named + "2"}), settings)
        assert (await found(ScriptedWeb(), settings)).resource.resource == named


# --- which authorization server ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("servers", [None, [], "https://id.example", [1, None], ["http://id.example", "x"], {ID: ID}])
async def test_no_authorization_server(servers):
    fetch = web({**PRM, "authorization_servers": servers})
    assert await refused(fetch) == (
        "notes names no authorization server that can be used, so nobody knows where to sign in. "
        "If you know it, set issuer below [upstreams.notes.oauth]."
    )
    assert fetch.asked == [PATH]


async def test_the_first_one_unless_the_hub_is_known_at_another():
    other = "https://b.example"
    prm = {**PRM, "authorization_servers": [ID, other]}
    meta = {**META, "issuer": other}
    pages = {other + "/.well-known/oauth-authorization-server": meta}
    assert (await found(web(prm, **pages))).server.issuer == ID
    assert (await found(web(prm, **pages), preferred_issuers=[other])).server.issuer == other
    assert (await found(web(prm, **pages), preferred_issuers=[other + "/"])).server.issuer == other
    assert (await found(web(prm, **pages), preferred_issuers=["https://c.example"])).server.issuer == ID


async def test_only_some_authorization_servers_are_looked_at():
    prm = {**PRM, "authorization_servers": ["ftp://x"] * 16 + [ID]}
    assert "no authorization server" in await refused(web(prm))


async def test_the_operators_issuer_whatever_the_metadata_say():
    settings = UpstreamOAuth(issuer=ID)
    fetch = web({**PRM, "authorization_servers": ["https://evil.example"]})
    assert (await found(fetch, settings)).server.issuer == ID
    assert fetch.asked == [PATH, SERVER]
    fetch = ScriptedWeb({SERVER: META})
    discovery = await found(fetch, settings)
    assert (discovery.server.issuer, discovery.resource.resource) == (ID, "")
    assert fetch.asked == [PATH, ROOT, SERVER]


@pytest.mark.parametrize(
    "issuer", ["https://id.example?x=1", "https://id.example?", "http://id.example", "https://a b/"]
)
async def test_an_issuer_that_cannot_be_one(issuer):
    fetch = web()
    assert "cannot be an authorization server" in await refused(fetch, UpstreamOAuth(issuer=issuer))
    assert fetch.asked == [PATH]


# --- its metadata -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-13")
async def test_metadata_of_another_issuer():
    """The 4th of the failures that were seen."""
    text = await refused(web(meta={**META, "issuer": "https://b.example"}))
    assert text == (
        "notes names https://id.example as its authorization server, which says it is https://b.example, so it is not "
        "trusted. If you know better, set issuer and metadata_url below [upstreams.notes.oauth]."
    )
    text = await refused(web(meta={**META, "issuer": "<script>\x1b"}))
    assert "which says it is another one," in text


async def test_a_root_issuer_may_have_a_slash():
    meta = {**META, "issuer": ID + "/"}
    assert (await found(web(meta=meta))).server.issuer == ID + "/"
    prm = {**PRM, "authorization_servers": [ID + "/"]}
    assert (await found(web(prm))).server.issuer == ID


async def test_an_issuer_with_a_path_has_three_places():
    issuer = ID + "/o"
    meta = {**META, "issuer": issuer}
    prm = {**PRM, "authorization_servers": [issuer]}
    last = issuer + "/.well-known/openid-configuration"
    fetch = ScriptedWeb({PATH: prm, last: meta})
    assert (await found(fetch)).server.issuer == issuer
    assert fetch.asked == [PATH, SERVER + "/o", OPENID + "/o", last]
    assert "which says it is https://id.example/o/," in await refused(
        ScriptedWeb({PATH: prm, last: {**META, "issuer": issuer + "/"}})
    )


async def test_no_metadata():
    fetch = ScriptedWeb({PATH: PRM, SERVER: {"token_endpoint": ID + "/token"}})
    assert await refused(fetch) == (
        "https://id.example, the authorization server of notes, has no metadata where they belong. "
        "If you know where they are, set metadata_url below [upstreams.notes.oauth]."
    )
    assert fetch.asked == [PATH, SERVER, OPENID]


async def test_metadata_where_the_operator_says():
    place = "https://docs.example/meta.json"
    settings = UpstreamOAuth(issuer="https://b.example", metadata_url=place)
    fetch = ScriptedWeb({PATH: PRM, place: {**META, "issuer": "https://b.example"}})
    server = (await found(fetch, settings)).server
    assert (server.issuer, server.sends_issuer) == ("https://b.example", False)
    assert fetch.asked == [PATH, place]
    text = await refused(ScriptedWeb({PATH: PRM, place: META}), settings)
    assert text.startswith("The metadata of https://b.example, which is the issuer of notes by its settings, say")


# --- what is needed of it ---------------------------------------------------------------------------------------------


@pytest.mark.covers("A-16")
async def test_pkce_that_is_not_advertised():
    """The 12th of the failures that were seen."""
    meta = {name: value for name, value in META.items() if name != "code_challenge_methods_supported"}
    assert await refused(web(meta=meta)) == (
        'https://id.example does not say that it supports PKCE. If you know that it does, set pkce = "assume" below '
        "[upstreams.notes.oauth]."
    )
    assert (await found(web(meta=meta), UpstreamOAuth(pkce="assume"))).server.issuer == ID


@pytest.mark.parametrize("methods", [["plain"], [], "S256", {"S256": 1}, [["S256"]], 1])
@pytest.mark.covers("A-16")
async def test_pkce_without_s256(methods):
    for pkce in ("required", "assume"):
        text = await refused(web(meta={**META, "code_challenge_methods_supported": methods}), UpstreamOAuth(pkce=pkce))
        assert "S256" in text


BAD_ENDPOINTS = (
    "HTTPS://id.example/x",
    *("javascript:alert(1)", "file:///etc/passwd", "--flag=$(id)", "http://id.example/x", "https://u:p@id.example/"),
    *(
        ID + "/x#f",
        ID + "/x?state=1",
        ID + "/x?a=b&client_id=c",
        ID + "/x?a;nonce=1",
        ID + "/x?re%73ource=1",
        ID + "/x?request=1",
    ),
    *(None, 1, "", [ID], "https://id.example/" + "a" * 3000, "https://id.example/x y"),
)


@pytest.mark.parametrize("endpoint", BAD_ENDPOINTS, ids=repr)
@pytest.mark.parametrize("member", ["authorization_endpoint", "token_endpoint"])
async def test_an_endpoint_that_cannot_be_used(member, endpoint):
    fetch = web(meta={**META, member: endpoint})
    text = await refused(fetch)
    assert f"names no {member} that can be used" in text
    assert "alert" not in text
    assert fetch.asked == [PATH, SERVER]


async def test_endpoints_may_be_anywhere_and_have_a_query():
    meta = {**META, "token_endpoint": "https://t.example/token?tenant=1", "registration_endpoint": "javascript:x"}
    server = (await found(web(meta=meta))).server
    assert (server.token_endpoint, server.registration_endpoint) == ("https://t.example/token?tenant=1", "")


@pytest.mark.parametrize("grant", ["client_credentials", "id_jag"])
async def test_a_machine_needs_a_token_endpoint_only(grant):
    meta = {"issuer": ID, "token_endpoint": ID + "/token"}
    server = (await found(web(meta=meta), UpstreamOAuth(grant=grant))).server
    assert (server.authorization_endpoint, server.token_endpoint) == ("", ID + "/token")


async def test_lists_of_metadata_are_bounded():
    meta = {**META, "token_endpoint_auth_methods_supported": ["x" * 65, 1, "none", *map(str, range(100))]}
    assert len((await found(web(meta=meta))).server.token_auth_methods) < 32
    meta["token_endpoint_auth_methods_supported"] = "none"
    assert (await found(web(meta=meta))).server.token_auth_methods is None


# --- scopes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "challenged", "due"),
    [
        ({}, "", "notes.read"),
        ({}, "a b", "a b"),
        ({"scopes": ("c",)}, "a b", "c"),
        ({"max_scopes": ("a", "notes.*")}, "a b", "a"),
        ({"max_scopes": ("notes.*",)}, "", "notes.read"),
        ({"scopes": ("c", "d"), "max_scopes": ("d",)}, "", "d"),
    ],
)
async def test_scopes(settings, challenged, due):
    assert (await found(web(), UpstreamOAuth(**settings), challenge=Challenge(scope=challenged))).scope == due


async def test_offline_access_where_the_authorization_server_has_it():
    """The 9th of the failures that were seen."""
    fetch = web(meta={**META, "scopes_supported": ["openid", "offline_access"]})
    assert (await found(fetch)).scope == "notes.read offline_access"
    assert (await found(fetch, challenge=Challenge(scope="offline_access a"))).scope == "offline_access a"
    assert (await found(fetch, UpstreamOAuth(scopes=("a",)))).scope == "a"
    assert (await found(fetch, UpstreamOAuth(max_scopes=("notes.*",)))).scope == "notes.read"
    prm = {**PRM, "scopes_supported": ["offline_access"]}
    assert (await found(web(prm))).scope == "offline_access"


async def test_scopes_of_which_none_is_permitted():
    assert await refused(web(), UpstreamOAuth(max_scopes=("mail.*",))) == (
        "notes wants the scopes notes.read, and max_scopes permits none of them. "
        "Change max_scopes below [upstreams.notes.oauth], or use notes without them."
    )


async def test_more_scopes_than_can_be_asked_for():
    text = await refused(web({**PRM, "scopes_supported": [f"s{number}" for number in range(101)]}))
    assert text.startswith("notes names more scopes than can be asked for at once.")


# --- who may be asked -------------------------------------------------------------------------------------------------


def test_who_may_be_asked_beside_public_addresses():
    settings = UpstreamOAuth(issuer="https://ID.corp.example", metadata_url="https://[fd00::1]/m")
    assert allowance_for("https://Notes.corp.example/mcp", settings) == Allowed(
        private_hosts=frozenset({"notes.corp.example", "id.corp.example", "fd00::1"}), loopback_http=False
    )
    assert allowance_for("http://127.0.0.1:9405/mcp", SETTINGS) == Allowed(frozenset({"127.0.0.1"}), True)
    assert allowance_for("http://10.0.0.1/mcp", SETTINGS) == Allowed(frozenset({"10.0.0.1"}), False)


async def test_an_upstream_without_tls_elsewhere():
    fetch = web()
    assert "is not https" in await refused(fetch, url="http://notes.example/mcp")
    assert fetch.asked == []


async def test_an_upstream_without_a_name():
    with pytest.raises(OAuthProblem) as caught:
        await discover(web({**PRM, "authorization_servers": []}), URL, SETTINGS, Challenge())
    assert '[upstreams."notes.example".oauth]' in str(caught.value)
