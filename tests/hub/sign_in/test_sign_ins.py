"""The flow, from terminals and hosts to the grant; browsers make real requests."""

import html
import re
import socket
from base64 import b64encode
from hashlib import sha256

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from config.security_settings import OAuthConfig
from config.settings import ReplicaConfig, UpstreamConfig
from hub.link.call_interface import Identity
from hub.link.hub_errors import HubError
from hub.sign_in.connection_owner import Who
from hub.sign_in.pages import HEADERS
from hub.sign_in.parse_redirect_uri import Listening
from hub.sign_in.pending_sign_ins import MAX_INVITATIONS, MAX_TRIES, RECORD_S, TICKET_S
from tests.support.http_client import Client
from tests.support.processes import free_port
from tests.support.sign_in_world import ISSUER, NOTES, asked, back, caller, discovery, world
from upstreams.oauth.model import Challenge, NoSignIn, OAuthProblem, OAuthUnavailable

NAVIGATION = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
LINK = re.compile(r'<a href="([^"]+)"')


def link_of(answer) -> str:
    """The one link of a page."""
    (found,) = LINK.findall(answer.body.decode())
    return html.unescape(found)


def check_page(answer) -> None:
    """Every page can do nothing but be read."""
    text = answer.body.decode().lower()
    for header, value in HEADERS:
        assert answer.headers[header.lower()] == value
    assert answer.headers["connection"] == "close"
    (style,) = re.findall(r"<style>(.*)</style>", answer.body.decode())
    assert b64encode(sha256(style.encode()).digest()).decode() in answer.headers["content-security-policy"]
    for word in ("<script", "<img", "onclick", "style=", "access-control"):
        assert word not in text


async def done_page(it, answer):
    assert answer.status == 303, answer.body
    assert "code" not in answer.headers["location"]
    page = await it.get(answer.headers["location"])
    assert page.status == 200
    check_page(page)
    return page.body.decode()


# --- the whole of it --------------------------------------------------------------------------------------------------


async def test_a_terminal_on_this_machine():
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        assert (begun.issuer, begun.scope, begun.unusual) == (ISSUER, "notes.read", "")
        opened = await it.get(begun.url, *NAVIGATION)
        assert opened.status == 302, "the terminal has said all that the page says"
        given = asked(opened.headers["location"])
        assert given["redirect_uri"] == f"{it.base}/oauth/callback"
        assert given["resource"] == NOTES
        answer = await it.get(back(opened.headers["location"]), *NAVIGATION)
        assert "Signed in for notes" in await done_page(it, answer)
        outcome = await it.sign_ins.wait(begun)
        assert (outcome.state, outcome.until, outcome.renewable) == ("signed_in", 4600.0, True)
        (grant,) = it.keeper.grants.values()
        assert (grant.key.issuer, grant.key.resource, grant.key.upstream) == (ISSUER, NOTES, "notes")
        assert it.credential("notes").grants == [grant]
        assert it.started == ["notes"]
        ((record, _),) = it.servers.all_of("redeem")
        assert (record.redirect.text, record.resource) == (given["redirect_uri"], NOTES)


async def test_a_host_and_its_page():
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        assert visit.url.startswith(f"{it.base}/oauth/begin/")
        assert visit.url.rpartition("/")[2] not in visit.id
        other = it.sign_ins.visit("notes", caller(host="cursor"))
        assert (other.id, other.url == visit.url) == (visit.id, False), "one sign-in, an address for each who asks"
        assert it.sign_ins.advice("notes", caller()) == (
            'notes needs you to sign in at id.example. Ask the user to run "hubd auth notes" or to open '
            f"{visit.url}, then try again."
        )
        page = await it.get(visit.url, *NAVIGATION)
        assert page.status == 200
        check_page(page)
        for shown in ("notes", "id.example", "notes.read", "claude-code"):
            assert shown in page.body.decode()
        answer = await it.get(back(link_of(page)), *NAVIGATION)
        await done_page(it, answer)
        assert it.completed == [("notes", visit.id)]
        again = await it.get(visit.url, *NAVIGATION)
        assert again.status == 404
        assert "over" in again.body.decode()


@pytest.mark.covers("SEC-40")
async def test_back_and_reload_after_the_callback_give_no_code():
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        address = back((await it.get(begun.url)).headers["location"])
        first = await it.get(address)
        assert first.status == 303
        again = await it.get(address)
        assert again.status == 403
        assert "did not begin this sign-in, or it is over" in again.body.decode()
        check_page(again)
        assert len(it.servers.all_of("redeem")) == 1


async def test_another_machine_pastes_the_address():
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        other = await it.sign_ins.begin("other")
        address = back(begun.authorization_url).replace("127.0.0.1", "elsewhere.example")
        for bad in (
            address.replace(asked(begun.authorization_url)["state"], "S" * 43),
            address.replace("state=", "x="),
            address.replace("/oauth/callback", "/oauth/callback/2"),
            f"{address}&code=2",
            "CODE-CANARY",
        ):
            with pytest.raises(HubError) as refused:
                await it.sign_ins.finish(bad)
            assert "CANARY" not in str(refused.value)
        assert not it.servers.all_of("redeem"), "still waiting"
        outcome = await it.sign_ins.finish(address)
        assert outcome.state == "signed_in"
        with pytest.raises(HubError):
            await it.sign_ins.finish(address)
        assert other.ticket.outcome is None


async def test_a_response_that_nobody_can_carry_on_with_is_not_spent():
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        responses = it.sign_ins.responses
        around = responses.around

        def refuse(task):
            raise RuntimeError("Nursery is closed to new arrivals")

        responses.around = replace(around, spawn=refuse)
        with pytest.raises(RuntimeError):
            await it.sign_ins.finish(back(begun.authorization_url))
        responses.around = around
        assert (await it.sign_ins.finish(back(begun.authorization_url))).state == "signed_in"


async def test_nobody_comes(autojump_clock):
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        assert (await it.sign_ins.wait(begun)).state == "timed_out"
        with pytest.raises(HubError, match="over"):
            await it.sign_ins.finish(back(begun.authorization_url))
        await trio.sleep(3600)
        assert it.sign_ins.tickets.by_id(begun.url.rpartition("/")[2]) is None
        await it.sign_ins.begin("notes")
        assert it.servers.all_of("client")[-1][2], "an id that led nowhere may be unknown there: registered anew"


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["begin", "callback"])
@pytest.mark.parametrize(
    "fields",
    [
        ["Origin: https://evil.test"],
        ["Origin: null"],
        ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"],
        ["Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"],
        ["Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"],
        [*NAVIGATION, "Sec-Purpose: prefetch"],
        ["X-Forwarded-For: 127.0.0.1"],
        ["Forwarded: for=127.0.0.1"],
        ["Via: 1.1 relay"],
        ["CF-Connecting-IP: 127.0.0.1"],
    ],
)
async def test_what_is_no_page_of_this_persons_browser(path, fields):
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        if path == "begin":
            answer = await it.get(visit.url, *fields)
            assert not it.sign_ins.tickets.find("notes", "local").records, "no record is made"
        else:
            link = link_of(await it.get(visit.url))
            answer = await it.get(back(link), *fields)
            assert not it.servers.all_of("redeem")
            assert (await it.get(back(link))).status == 303, "it was not spent"
        assert answer.status == 403


async def test_a_head_makes_no_record():
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        assert (await it.request("HEAD", visit.url)).status == 200
        assert not it.sign_ins.tickets.find("notes", "local").records
        link = link_of(await it.get(visit.url))
        assert (await it.request("HEAD", back(link))).status == 404
        assert (await it.request("POST", back(link), "Content-Length: 0")).status == 404
        assert (await it.get(back(link), host="evil.test")).status == 403
        assert (await it.get(back(link), host=f"localhost:{it.served.port}")).status == 403, "another origin"
        assert (await it.get(back(link))).status == 303


async def test_another_users_browser():
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        link = link_of(await it.get(visit.url))
        it.ends._trusted = {4242}
        for address in (visit.url, back(link)):
            answer = await it.get(address)
            assert answer.status == 403
            assert "cannot see that this browser is yours" in answer.body.decode()
        assert not it.servers.all_of("redeem")
        begun = await it.sign_ins.begin("notes")
        assert (await it.get(back(begun.authorization_url))).status == 303, "its state was on the terminal only"


async def test_a_browser_that_a_server_has_started(monkeypatch):
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        link = link_of(await it.get(visit.url))

        async def who(request):
            return Who.SERVER

        monkeypatch.setattr(it.ends, "who", who)
        for address in (visit.url, back(link)):
            answer = await it.get(address)
            assert answer.status == 403
            assert "started by a server that hubd runs" in answer.body.decode()
        assert not it.servers.all_of("redeem")


async def test_nobody_is_looked_for_where_there_is_no_sign_in(monkeypatch):
    async with world() as it:
        asked = []

        async def who(request):
            asked.append(request.path)
            return Who.OWN

        monkeypatch.setattr(it.ends, "who", who)
        assert (await it.get(f"{it.base}/oauth/begin/unknown")).status == 404
        assert (await it.get(f"{it.base}/oauth/callback?state=x&code=y")).status == 403
        assert asked == []


async def test_a_page_is_there_for_an_hour(mock_clock):
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        mock_clock.jump(TICKET_S - 1)
        assert (await it.get(visit.url)).status == 200
        mock_clock.jump(2)
        assert (await it.get(visit.url)).status == 404


async def test_an_answer_is_waited_for_ten_minutes(mock_clock):
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        mock_clock.jump(RECORD_S + 1)
        assert (await it.get(back(begun.authorization_url))).status == 403
        assert not it.servers.all_of("redeem")


async def test_under_another_name_there_is_no_hub():
    """Whatever leads a browser here by a name of its own (DNS rebinding)."""
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        for url in (begun.url, back(begun.authorization_url)):
            assert (await it.get(url, host="evil.test")).status in (403, 421)
        assert not it.servers.all_of("redeem")
        assert (await it.get(back(begun.authorization_url))).status == 303


async def test_what_a_program_of_a_host_begins_is_ended_by_the_persons_browser_alone():
    async with world() as it:
        begun = await it.sign_ins.begin("notes", by_program=True)
        opened = (await it.get(begun.url)).headers["location"]
        own, it.ends._trusted = it.ends._trusted, {4242}
        for url in (begun.authorization_url, opened):
            assert (await it.get(back(url))).status == 403
        assert not it.servers.all_of("redeem")
        it.ends._trusted = own
        assert (await it.get(back(begun.authorization_url))).status == 303


CODE = re.compile(r"\b([0-9]{3}) ([0-9]{3})\b")


async def visited(it, *, host="claude-code"):
    """The visit that a host of the owner's is offered, and the code in its text."""
    await it.sign_ins.look("notes", caller(host=host))
    visit = it.sign_ins.visit("notes", caller(host=host))
    (digits,) = CODE.findall(visit.message)
    return visit, "".join(digits)


def blind(it):
    it.ends.blind = True


def in_a_container(it):
    """Its browsers come from another machine, as through a published port."""
    it.listening = it.listening._replace(host="0.0.0.0")
    it.ends._trusted = {4242}


@pytest.mark.parametrize("is_made", [blind, in_a_container])
async def test_a_hub_that_cannot_tell_browsers_apart_asks_for_the_code_that_the_host_was_told(is_made, caplog):
    async with world() as it:
        is_made(it)
        visit, code = await visited(it)
        advice = it.sign_ins.advice("notes", caller())
        assert advice.endswith(f"or to open {visit.url} and type the code {code[:3]} {code[3:]} there, then try again.")
        assert code not in visit.url
        for typed in ("", "?code=", "?code=000", f"?code={code}&code={code}"):
            page = await it.get(f"{visit.url}{typed}")
            check_page(page)
            assert "claude-code asked for it at" in page.body.decode()
            assert (page.status, LINK.findall(page.body.decode())) == (200, [])
        assert not it.sign_ins.tickets.find("notes", "local").records, "who only knows the address begins nothing"
        link = link_of(await it.get(f"{visit.url}?code={code[:3]}+{code[3:]}", *NAVIGATION))
        assert "Signed in for notes" in await done_page(it, await it.get(back(link)))
        assert code not in caplog.text


async def test_codes_cannot_be_guessed():
    async with world() as it:
        blind(it)
        visit, code = await visited(it)
        wrong = "000000" if code != "000000" else "111111"
        for _ in range(MAX_TRIES):
            assert "not the code" in (await it.get(f"{visit.url}?code={wrong}")).body.decode()
        assert (await it.get(f"{visit.url}?code={code}")).status == 404
        again, fresh = await visited(it)
        assert again.url != visit.url
        assert link_of(await it.get(f"{again.url}?code={fresh}"))


async def test_no_code_helps_where_it_may_not(monkeypatch):
    """Another user's browser where the owner's is known by itself, one behind a proxy, one of a server, and people whom
    somebody else has told his code."""
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        assert (visit.code, CODE.findall(visit.message)) == ("", [])
        (asker,) = it.sign_ins.tickets.find("notes", "local").invitations.values()
        with_code = f"{visit.url}?code={asker.code}"
        own, it.ends._trusted = it.ends._trusted, {4242}
        assert (await it.get(with_code)).status == 403
        it.ends._trusted = own
        blind(it)
        assert (await it.get(with_code, "X-Forwarded-For: 192.0.2.1")).status == 403
        monkeypatch.setattr("hub.sign_in.connection_owner.is_below", lambda *args, **more: True)
        answer = await it.get(with_code)
        assert answer.status == 403
        assert "started by a server that hubd runs" in answer.body.decode()
        it.settle(account="each")
        stranger = caller("team/alice")
        await it.sign_ins.look("notes", stranger)
        assert it.sign_ins.visit("notes", stranger) is None


async def test_a_terminal_of_a_blind_hub():
    """A person's has the address of the authorization server; a program of a host has the page and the code, which only
    help whom it shows them."""
    async with world() as it:
        blind(it)
        begun = await it.sign_ins.begin("notes", by_program=True)
        code = begun.code.replace(" ", "")
        assert begun.url == ""
        assert begun.authorization_url.startswith(f"{it.base}/oauth/begin/")
        link = link_of(await it.get(f"{begun.authorization_url}?code={code}"))
        assert (await it.get(back(link))).status == 303
        begun = await it.sign_ins.begin("notes")
        assert (begun.url, begun.code) == ("", "")
        assert (await it.sign_ins.finish(back(begun.authorization_url))).state == "signed_in"


async def test_the_page_names_who_asked_for_this_attempt(mock_clock):
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        first = it.sign_ins.visit("notes", caller(host="claude-code")).url
        assert "claude-code asked for it" in (await it.get(first)).body.decode()
        mock_clock.jump(RECORD_S + 1)
        await it.sign_ins.look("notes", caller())
        second = it.sign_ins.visit("notes", caller(host="cursor")).url
        assert "cursor asked for it" in (await it.get(second)).body.decode()
        assert "claude-code asked for it" in (await it.get(first)).body.decode()
        assert it.sign_ins.visit("notes", caller(host="claude-code")).url == first
        for number in range(40):
            it.sign_ins.visit("notes", caller(host=f"host-{number}"))
        assert len(it.sign_ins.tickets.find("notes", "local").invitations) == MAX_INVITATIONS
        assert (await it.get(first)).status == 404


async def test_only_the_owner_signs_in_for_all():
    async with world() as it:
        stranger = caller("team/alice")
        await it.sign_ins.look("notes", stranger)
        assert it.sign_ins.visit("notes", stranger) is None
        assert "does not share an account there" in it.sign_ins.advice("notes", stranger)
        assert not it.servers.asked
        it.settle(account="each")
        await it.sign_ins.look("notes", stranger)
        visit = it.sign_ins.visit("notes", stranger)
        await it.sign_ins.look("notes", caller())
        assert visit.url != it.sign_ins.visit("notes", caller()).url
        await it.get(back(link_of(await it.get(visit.url))))
        (grant,) = it.keeper.grants.values()
        assert grant.key.principal == "team/alice"


async def test_hubs_that_share_no_sign_ins_begin_none():
    async with world(replica=ReplicaConfig(name="hub1")) as it:
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is None
        assert "one of several ([replica])" in it.sign_ins.advice("notes", caller())
        with pytest.raises(HubError, match="client_credentials"):
            await it.sign_ins.begin("notes")


async def test_a_team_server_knows_people_by_its_proxy():
    async with world(behind_tls_proxy=True, allowed_hosts=("hub.example:443",), auth="proxy") as it:
        it.settle(account="each")
        alice, host = caller("proxy/alice"), {"host": "hub.example"}
        await it.sign_ins.look("notes", alice)
        visit = it.sign_ins.visit("notes", alice)
        assert visit.url.startswith("https://hub.example/oauth/begin/")
        path = visit.url.removeprefix("https://hub.example")
        for identity in (None, Identity("proxy/bob", "http"), Identity("local", "http")):
            it.identity = identity
            assert (await it.get(path, **host)).status == 403
        it.identity = alice.identity
        page = await it.get(path, **host)
        cookie = page.headers["set-cookie"]
        assert cookie.startswith("__Host-hubd-signin=")
        for part in ("Path=/", "Secure", "HttpOnly", "SameSite=Lax"):
            assert f"; {part}" in cookie
        address = back(link_of(page)).removeprefix("https://hub.example")
        shown = f"Cookie: a=b; {cookie.partition(';')[0]}"
        assert (await it.get(address, **host)).status == 403, "not the browser that began it"
        assert (await it.get(address, f"{shown}x", **host)).status == 403
        it.identity = Identity("proxy/bob", "http")
        assert (await it.get(address, shown, **host)).status == 403
        it.identity = alice.identity
        answer = await it.get(address, shown, **host)
        assert answer.status == 303
        assert "Max-Age=0" in answer.headers["set-cookie"]
        document = await it.get("/oauth/client.json", **host)
        assert document.status == 200


@pytest.mark.parametrize(("auth", "principal"), [("token", "local"), ("oauth", "team/alice"), ("proxy", "local")])
async def test_whom_the_proxy_does_not_name_is_offered_no_page(auth, principal):
    async with world(behind_tls_proxy=True, allowed_hosts=("hub.example:443",), auth=auth) as it:
        it.settle(account="each")
        await it.sign_ins.look("notes", caller(principal))
        assert it.sign_ins.visit("notes", caller(principal)) is None
        assert "/oauth/begin/" not in it.sign_ins.advice("notes", caller(principal))


async def test_a_local_hub_publishes_no_document():
    async with world() as it:
        assert (await it.get("/oauth/client.json")).status == 404


# --- bad answers ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda url: url.partition("?")[0], 403),
        (lambda url: url.replace("state=", "x="), 403),
        (lambda url: url.replace("state=", "state=x"), 403),
        (lambda url: f"{url}&state=x", 403),
        (lambda url: f"{url}&code=x", 403),
        (lambda url: f"{url}&x=%ff", 403),
        (lambda url: f"{url}&x=%00", 400),
        (lambda url: f"{url}&x={'y' * 4097}", 403),
        (lambda url: f"{url}&x={'y' * 9000}", 414),
        (lambda url: url.replace("/callback", "/callback/2"), 403),
        (lambda url: url.replace("/callback", "/callback/"), 404),
        (lambda url: url.replace("/callback", "/callback/0"), 404),
        (lambda url: url.replace("/oauth/", "/oauth/%63"), 404),
    ],
)
async def test_a_callback_that_belongs_to_no_sign_in(change, status):
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        answer = await it.get(change(back(begun.authorization_url)))
        assert answer.status == status
        assert b"CANARY" not in answer.body
        assert not it.servers.all_of("redeem")
        assert (await it.get(back(begun.authorization_url))).status == 303, "the right one still counts"


@pytest.mark.parametrize(
    ("sent", "text", "state"),
    [
        ({"iss": "https://evil.test"}, "came from another authorization server", "failed"),
        ({"iss": None}, "does not say who sent it", "failed"),
        ({"code": "", "error": "access_denied"}, "access was denied", "denied"),
        ({"code": "", "error": "server_error", "error_description": "<b>x</b>"}, "&lt;b&gt;x", "failed"),
        ({"code": ""}, "without a code", "failed"),
    ],
)
async def test_an_answer_that_ends_a_sign_in(sent, text, state):
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        answer = await it.get(back(begun.authorization_url, **sent))
        assert text in await done_page(it, answer)
        assert (await it.sign_ins.wait(begun)).state == state
        assert not it.servers.all_of("redeem")
        assert not it.keeper.grants


async def test_line_ends_and_markup_in_an_error_are_shown_as_text_and_nowhere_else(caplog):
    evil = {"error": "e\r\nSet-Cookie: a=b", "error_description": "d\r\n\r\n<script>\x1b[2J\u202e\x7f"}
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        answer = await it.get(back(begun.authorization_url, code="", **evil))
        page = await done_page(it, answer)
        outcome = await it.sign_ins.wait(begun)
    assert "set-cookie" not in answer.headers
    assert r"e\r\nSet-Cookie: a=b (d\r\n\r\n&lt;script&gt;\x1b[2J\u202e\x7f)" in page
    assert page.replace("\n", "").isprintable()
    assert outcome.text.isprintable()
    assert all(record.getMessage().isprintable() for record in caplog.records)


@pytest.mark.parametrize(
    "error",
    [
        OAuthProblem("https://id.example refuses the code", code="invalid_grant"),
        OAuthUnavailable("https://id.example cannot be asked now", sent=True),
    ],
)
async def test_no_tokens_for_the_code(error):
    async with world() as it:
        it.servers.refuse.append(error)
        begun = await it.sign_ins.begin("notes")
        page = await done_page(it, await it.get(back(begun.authorization_url)))
        assert str(error) in page
        assert (await it.sign_ins.wait(begun)).text == str(error)
        assert not it.started


@pytest.mark.parametrize("what", ["url", "settings", "both, and back", "removed"])
async def test_no_code_is_used_for_an_upstream_that_was_changed_meanwhile(what):
    async with world() as it:
        before = it.upstreams["notes"]
        begun = await it.sign_ins.begin("notes")
        if what == "url":
            it.upstreams["notes"] = UpstreamConfig(url="https://evil.example/mcp")
        elif what == "removed":
            del it.upstreams["notes"]
        else:
            it.settle(token_auth="client_secret_post")
        if "back" in what:
            it.upstreams["notes"] = before
        outcome = await it.sign_ins.finish(back(begun.authorization_url))
        if "back" in what:
            assert outcome.state == "signed_in"
            return
        assert (outcome.state, it.servers.all_of("redeem")) == ("failed", [])
        assert "was removed" in outcome.text or "has changed since this sign-in began" in outcome.text


async def test_what_was_found_out_for_another_address_is_not_used():
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        it.upstreams["notes"] = UpstreamConfig(url="https://new.example/mcp")
        assert it.sign_ins.visit("notes", caller()) is None, "nothing is known of it"
        it.servers.discoveries["notes"] = discovery("https://new-id.example", resource="https://new.example/mcp")
        request = asked(link_of(await it.get(visit.url)))
        assert request["resource"] == "https://new.example/mcp"
        assert len(it.servers.all_of("discover")) == 2


async def test_a_grant_that_cannot_be_kept_is_not_used():
    async with world() as it:
        it.keeper.full = OAuthProblem("It cannot be written: no space left")
        begun = await it.sign_ins.begin("notes")
        assert "no space left" in await done_page(it, await it.get(back(begun.authorization_url)))
        assert not it.credential("notes").grants
        assert not it.started


async def test_whoever_fails_can_try_again_from_the_same_page():
    async with world() as it:
        it.servers.refuse.append(OAuthProblem("https://id.example knows us no more", code="invalid_client"))
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        answer = await it.get(back(link_of(await it.get(visit.url))))
        page = await it.get(answer.headers["location"])
        again = link_of(page)
        assert visit.url.endswith(again)
        answer = await it.get(back(link_of(await it.get(again))))
        assert "Signed in" in await done_page(it, answer)
        assert [anew for _, _, anew, _ in it.servers.all_of("client")] == [False, True]
        assert it.servers.all_of("other method") == [False, True]
        assert len(it.servers.all_of("discover")) == 2, "its metadata are read anew"


async def test_scopes_that_have_to_be_registered():
    async with world() as it:
        for _ in range(2):
            begun = await it.sign_ins.begin("notes")
            await it.sign_ins.finish(back(begun.authorization_url, code="", error="invalid_scope"))
        assert [with_scope for *_, with_scope in it.servers.all_of("client")] == [False, True]


async def test_a_browser_that_leaves_does_not_lose_the_code():
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        it.servers.hold = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.sign_ins.finish, back(begun.authorization_url))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        it.servers.hold.set()
        assert (await it.sign_ins.wait(begun)).state == "signed_in"


# --- several servers --------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-40")
async def test_servers_that_do_not_say_who_they_are_have_addresses_of_their_own():
    async with world() as it:
        it.servers.discoveries["notes"] = discovery("https://a.example", sends_issuer=False)
        it.servers.discoveries["other"] = discovery("https://b.example", sends_issuer=False)
        one, two = await it.sign_ins.begin("notes"), await it.sign_ins.begin("other")
        assert asked(one.authorization_url)["redirect_uri"] == f"{it.base}/oauth/callback/1"
        assert asked(two.authorization_url)["redirect_uri"] == f"{it.base}/oauth/callback/2"
        swapped = back(one.authorization_url, iss=None).replace("/callback/1", "/callback/2")
        assert (await it.get(swapped)).status == 403
        with pytest.raises(HubError):
            await it.sign_ins.finish(swapped)
        assert not it.servers.all_of("redeem")
        assert (await it.get(back(one.authorization_url, iss=None))).status == 303


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize("liar_says", [True, False])
@pytest.mark.parametrize("honest_says", [True, False])
async def test_a_server_that_sends_browsers_on_to_another_one_never_gets_its_code(liar_says, honest_says):
    """The liar is asked, and sends the browser to the honest one with the state and the challenge of its own request
    and the client id that the hub has there. The honest one answers to a redirect URI that it knows, no other."""
    async with world() as it:
        it.servers.discoveries["notes"] = discovery("https://liar.example", sends_issuer=liar_says)
        it.servers.discoveries["other"] = discovery("https://honest.example", sends_issuer=honest_says)
        known = asked((await it.sign_ins.begin("other")).authorization_url)["redirect_uri"]
        begun = await it.sign_ins.begin("notes")
        request = asked(begun.authorization_url)
        state, said = request["state"], "&iss=https%3A%2F%2Fhonest.example" if honest_says else ""
        for redirect in {known, request["redirect_uri"]} if known == request["redirect_uri"] else {known}:
            await it.get(f"{redirect}?code=HONEST&state={state}{said}")
        assert not [record for record, _ in it.servers.all_of("redeem") if record.ticket.upstream == "notes"]


async def test_one_registered_address_is_for_one_such_server_only():
    port = free_port()
    async with world(oauth=OAuthConfig(redirect_uri=f"http://127.0.0.1:{port}/cb")) as it:
        it.servers.discoveries["notes"] = discovery("https://a.example", sends_issuer=False)
        it.servers.discoveries["other"] = discovery("https://b.example", sends_issuer=False)
        await it.sign_ins.begin("notes")
        await it.sign_ins.begin("notes")
        with pytest.raises(HubError, match="cannot be used for both"):
            await it.sign_ins.begin("other")
        assert it.keeper.only == {f"http://127.0.0.1:{port}/cb": "https://a.example"}, "and in the next run"
        it.servers.discoveries["other"] = discovery("https://b.example")
        await it.sign_ins.begin("other")


async def test_where_there_is_no_sign_in_everybody_is_told_that_a_token_is_wanted():
    async with world() as it:
        text = "notes wants a token and has no sign-in."
        it.servers.discoveries["notes"] = NoSignIn(text)
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is None
        assert it.sign_ins.advice("notes", caller()) == text
        begun = await it.sign_ins.begin("notes")
        assert (begun.wants_token, begun.url, begun.ticket) == (text, "", None)


# --- what is unusual --------------------------------------------------------------------------------------------------


async def sign_in(it, upstream, **more):
    begun = await it.sign_ins.begin(upstream, **more)
    assert not begun.unusual
    issuer = begun.issuer
    return await it.sign_ins.finish(back(begun.authorization_url, iss=issuer))


async def test_another_authorization_server_than_before():
    async with world() as it:
        await sign_in(it, "notes")
        it.servers.discoveries["notes"] = discovery("https://b.example")
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is None
        text = (
            "notes now names https://b.example as its authorization server; until now it was https://id.example. If you"
            ' expect that, run "hubd auth notes" in a terminal.'
        )
        assert it.sign_ins.advice("notes", caller()) == text
        begun = await it.sign_ins.begin("notes")
        assert (begun.unusual, begun.url, begun.authorization_url, begun.ticket) == (text, "", "", None)
        begun = await it.sign_ins.begin("notes", yes=True)
        await it.sign_ins.finish(back(begun.authorization_url, iss="https://b.example"))
        assert ("notes", "local", "https://b.example") in it.keeper.agreed
        assert not (await it.sign_ins.begin("notes")).unusual, "the yes is kept"


async def test_a_yes_is_for_one_authorization_server():
    async with world() as it:
        await sign_in(it, "notes")
        it.servers.discoveries["notes"] = discovery("https://b.example")
        begun = await it.sign_ins.begin("notes", yes=True)
        it.servers.discoveries["notes"] = discovery("https://c.example")
        it.sign_ins.preflights.forget("notes", "local")
        with pytest.raises(OAuthProblem, match=r"now names https://c\.example"):
            await it.sign_ins.prepare(*it.invited(begun.url), on_terminal=False)
        await it.sign_ins.finish(back(begun.authorization_url, iss="https://b.example"))
        assert it.keeper.agreed == {("notes", "local", "https://b.example")}


async def test_a_yes_to_many_sign_ins_is_none_to_the_server():
    async with world() as it:
        for _ in range(3):
            it.sign_ins.tickets.note_asked("notes", "local")
        begun = await it.sign_ins.begin("notes", yes=True)
        assert (await it.sign_ins.finish(back(begun.authorization_url))).state == "signed_in"
        assert not it.keeper.agreed


async def test_a_ticket_from_before_is_no_way_around_it():
    async with world() as it:
        await it.sign_ins.look("notes", caller())
        visit = it.sign_ins.visit("notes", caller())
        await sign_in(it, "other")
        it.servers.discoveries["notes"] = discovery("https://other-id.example")
        it.sign_ins.preflights.forget("notes", "local")
        page = await it.get(visit.url)
        assert page.status == 409
        assert "where you are signed in for other" in page.body.decode()
        assert not LINK.findall(page.body.decode())


@pytest.mark.parametrize("settings", [{}, {"issuer": "https://other-id.example"}])
async def test_an_issuer_that_an_upstream_elsewhere_uses(settings):
    async with world() as it:
        it.settle(**settings)
        await sign_in(it, "other")
        it.servers.discoveries["notes"] = discovery("https://other-id.example")
        await it.sign_ins.look("notes", caller())
        is_usual = bool(settings)
        assert (it.sign_ins.visit("notes", caller()) is not None) == is_usual
        assert bool((await it.sign_ins.begin("notes")).unusual) != is_usual


async def test_a_fourth_sign_in_in_an_hour(autojump_clock):
    async with world() as it:
        for _ in range(3):
            await it.sign_ins.look("notes", caller())
            visit = it.sign_ins.visit("notes", caller())
            _, url = await it.sign_ins.prepare(*it.invited(visit.url), on_terminal=True)
            await it.sign_ins.finish(back(url))
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is None
        assert "more than three sign-ins within an hour" in it.sign_ins.advice("notes", caller())
        assert "three" in (await it.sign_ins.begin("notes")).unusual
        assert not (await it.sign_ins.begin("notes", yes=True)).unusual
        await trio.sleep(3601)
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is not None


async def test_hosts_are_given_no_address_before_it_is_known_whether_it_works():
    async with world() as it:
        assert it.sign_ins.visit("notes", caller()) is None
        assert "hubd auth notes" in it.sign_ins.advice("notes", caller())
        it.servers.discoveries["notes"] = OAuthProblem("notes names no authorization server")
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is None
        with pytest.raises(HubError, match="names no authorization server"):
            await it.sign_ins.begin("notes")


@pytest.mark.parametrize(
    ("failure", "within_s", "from_s"),
    [
        (OAuthProblem("notes names no server", code="x"), 59, 61),
        (OAuthUnavailable("id.example cannot be asked now"), 59, 61),
        (OAuthUnavailable("id.example cannot be asked now", retry_after_s=300), 299, 301),
        (OAuthUnavailable("id.example cannot be asked now", retry_after_s=1e9), 599, 601),
    ],
)
async def test_hosts_do_not_have_servers_asked_again_and_again(autojump_clock, failure, within_s, from_s):
    async with world() as it:
        it.servers.discoveries["notes"] = failure
        async with trio.open_nursery() as together:
            for _ in range(5):
                together.start_soon(it.sign_ins.look, "notes", caller())
        await trio.sleep(within_s)
        await it.sign_ins.look("notes", caller())
        assert len(it.servers.all_of("discover")) == 1
        await trio.sleep(from_s - within_s)
        await it.sign_ins.look("notes", caller())
        assert len(it.servers.all_of("discover")) == 2
        with pytest.raises(HubError, match=str(failure)):
            await it.sign_ins.begin("notes")
        assert len(it.servers.all_of("discover")) == 3, "a person at a terminal may"


async def test_hosts_wait_once_for_a_server_that_hangs(autojump_clock):
    async with world() as it:
        it.servers.slow = trio.Event()
        for _ in range(3):
            await it.sign_ins.look("notes", caller())
        assert len(it.servers.all_of("discover")) == 1
        assert it.sign_ins.visit("notes", caller()) is None
        assert 'run "hubd auth notes"' in it.sign_ins.advice("notes", caller())
        it.servers.slow.set()
        await trio.sleep(61)
        await it.sign_ins.look("notes", caller())
        assert it.sign_ins.visit("notes", caller()) is not None


@pytest.mark.parametrize(("retry_after_s", "again_s"), [(None, 5), (30.0, 30)])
async def test_a_page_that_is_reloaded_asks_again_when_it_may_help(autojump_clock, retry_after_s, again_s):
    async with world() as it:
        ticket = it.sign_ins.tickets.obtain("notes", "local")
        asker = it.sign_ins.tickets.invite(ticket, "claude-code")
        it.servers.discoveries["notes"] = OAuthUnavailable("not now", retry_after_s=retry_after_s)
        for _ in range(3):
            with pytest.raises(OAuthUnavailable, match="not now") as refused:
                await it.sign_ins.prepare(ticket, asker, on_terminal=False)
            assert refused.value.retry_after_s == retry_after_s
            assert len(it.servers.all_of("discover")) == 1
        it.servers.discoveries["notes"] = discovery()
        await trio.sleep(again_s)
        await it.sign_ins.prepare(ticket, asker, on_terminal=False)


async def test_more_scope_is_asked_for_beside_what_was_granted():
    async with world() as it:
        await sign_in(it, "notes")
        it.credential("notes").challenge = Challenge(scope="notes.write", error="insufficient_scope")
        it.servers.discoveries["notes"] = discovery(scope="notes.write")
        begun = await it.sign_ins.begin("notes", scope="extra")
        assert asked(begun.authorization_url)["scope"] == "notes.read notes.write extra"
        it.servers.scope = "notes.read"
        outcome = await it.sign_ins.finish(back(begun.authorization_url))
        assert "Not granted: extra, notes.write." in outcome.text


async def test_a_step_up_asks_for_what_the_credential_wants_and_never_for_what_is_forbidden(autojump_clock):
    async with world() as it:
        it.settle(max_scopes=("notes.*",))
        await sign_in(it, "notes")
        credential = it.credential("notes")
        credential.challenge = Challenge(scope="notes.write", error="insufficient_scope")
        credential.wanted_scope = "notes.read notes.old notes.write"
        it.servers.discoveries["notes"] = discovery(scope="notes.write admin")
        begun = await it.sign_ins.begin("notes")
        assert asked(begun.authorization_url)["scope"] == "notes.read notes.old notes.write"


async def test_the_credential_knows_while_a_person_is_asked(autojump_clock):
    async with world() as it:
        credential = it.credential("notes")
        begun = await it.sign_ins.begin("notes")
        await it.sign_ins.begin("notes")
        await trio.testing.wait_all_tasks_blocked()
        assert credential.askings == [True]
        await it.sign_ins.finish(back(begun.authorization_url))
        await trio.testing.wait_all_tasks_blocked()
        assert credential.askings == [True, False]
        await it.sign_ins.begin("notes")
        await trio.sleep(601)
        assert credential.askings == [True, False, True, False]


async def test_no_more_than_max_scopes_is_asked_for():
    async with world() as it:
        await sign_in(it, "notes", scope="admin")
        it.settle(max_scopes=("notes.*",))
        it.credential("notes").challenge = Challenge(scope="notes.write", error="insufficient_scope")
        it.servers.discoveries["notes"] = discovery(scope="notes.write")
        begun = await it.sign_ins.begin("notes", scope="notes.more")
        assert asked(begun.authorization_url)["scope"] == "notes.read notes.write notes.more"
        assert begun.scope == "notes.read notes.write notes.more"


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ("notes.more admin", "max_scopes of notes does not permit admin"),
        ('notes."x"', "are no scopes"),
        (" ".join(f"notes.{number}" for number in range(101)), "are no scopes"),
        (" ".join(f"notes.{number}" for number in range(100)), "more scopes than can be asked for at once"),
    ],
    ids=["forbidden", "no scope", "too many", "too many with the others"],
)
async def test_scopes_that_a_person_may_not_name(scope, text):
    async with world() as it:
        it.settle(max_scopes=("notes.*",))
        with pytest.raises(HubError, match=text):
            await it.sign_ins.begin("notes", scope=scope)


@pytest.mark.parametrize(("upstream", "text"), [("files", "is a program"), ("nobody", "no server nobody")])
async def test_where_nobody_can_sign_in(upstream, text):
    async with world() as it:
        with pytest.raises(HubError, match=text):
            await it.sign_ins.begin(upstream)


# --- where browsers come back to --------------------------------------------------------------------------------------


@pytest.mark.parametrize("listening", [None, "elsewhere", "another next time"])
async def test_a_hub_that_is_not_at_the_same_port_next_time(listening):
    async with world(lasting=False) as it:
        if listening != "another next time":
            it.listening = None if listening is None else Listening("10.0.0.5", 8765, True)
        begun = await it.sign_ins.begin("notes")
        redirect = asked(begun.authorization_url)["redirect_uri"]
        assert not redirect.startswith(it.base)
        assert redirect == f"http://127.0.0.1:{it.keeper.known_port}/oauth/callback"
        if listening != "another next time":
            opened = await it.get_from(begun.url)
            assert opened.status == 302
        answer = await it.get_from(back(begun.authorization_url))
        assert answer.status == 303
        done = redirect.replace("/oauth/callback", answer.headers["location"])
        assert b"Signed in" in (await it.get_from(done)).body
        assert (await it.get_from(redirect.replace("/oauth/callback", "/mcp"))).status == 404
        port = it.keeper.known_port
        assert asked((await it.sign_ins.begin("notes")).authorization_url)["redirect_uri"].endswith(
            f":{port}/oauth/callback"
        ), "the port is kept"


async def test_a_kept_port_that_is_taken():
    async with world(lasting=False) as it:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            it.keeper.known_port = taken.getsockname()[1]
            await it.sign_ins.begin("notes")
            assert it.keeper.known_port != taken.getsockname()[1]


async def test_a_listener_whose_time_is_up_is_followed_by_a_new_one(autojump_clock):
    async with world(lasting=False) as it:
        begun = await it.sign_ins.begin("notes")
        listeners = it.sign_ins.addresses.listeners
        ((address, first),) = listeners._open.items()
        first.scope.cancel()
        again = await it.sign_ins.begin("notes")
        assert listeners._open[address] is not first
        await trio.testing.wait_all_tasks_blocked()
        assert address in listeners._open, "the end of the first one takes the second one along"
        assert asked(again.authorization_url)["redirect_uri"] == asked(begun.authorization_url)["redirect_uri"]
        assert (await it.get_from(back(again.authorization_url))).status == 303


async def test_it_listens_no_longer_than_needed(autojump_clock):
    async with world(lasting=False) as it:
        begun = await it.sign_ins.begin("notes")
        await it.get_from(back(begun.authorization_url))
        await trio.sleep(60)
        with pytest.raises(OSError):
            await it.get_from(back(begun.authorization_url))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_address_that_was_registered_elsewhere(host):
    async with world() as it:
        port = free_port()
        it.settle(redirect_uri=f"http://{host}:{port}/done/here")
        begun = await it.sign_ins.begin("notes")
        assert asked(begun.authorization_url)["redirect_uri"] == f"http://{host}:{port}/done/here"
        for other in ("evil.test", f"evil.test:{port}", f"[::1]:{port}"):
            client = await trio.open_tcp_stream("127.0.0.1", port)
            await client.send_all(f"GET /done/here HTTP/1.1\r\nHost: {other}\r\n\r\n".encode())
            assert (await client.receive_some(64)).startswith(b"HTTP/1.1 403")
            await client.aclose()
        assert (await it.get_from(back(begun.authorization_url))).status == 303


@pytest.mark.parametrize("family", ["127.0.0.1", "::1"])
async def test_localhost_is_had_on_both_families_or_not_at_all(family):
    async with world() as it:
        kind = socket.AF_INET6 if ":" in family else socket.AF_INET
        with socket.create_server((family, 0), family=kind) as taken:
            port = taken.getsockname()[1]
            it.settle(redirect_uri=f"http://localhost:{port}/cb")
            text = f"Port {port} of redirect_uri is taken by another program; stop it, or register another URI."
            with pytest.raises(HubError) as refused:
                await it.sign_ins.begin("notes")
            assert str(refused.value) == text
        await it.sign_ins.begin("notes")


async def test_a_registration_for_localhost_is_listened_at_on_the_other_family_too():
    async with world() as it:
        it.servers.redirect_uri = f"http://localhost:{it.served.port}/oauth/callback"
        begun = await it.sign_ins.begin("notes")
        address = back(begun.authorization_url)
        assert address.startswith(it.servers.redirect_uri)
        on_the_other = Client(await trio.open_tcp_stream("::1", it.served.port))
        target = address.removeprefix(f"http://localhost:{it.served.port}")
        answer = await on_the_other.ask(f"GET {target} HTTP/1.1\r\nHost: localhost:{it.served.port}\r\n\r\n".encode())
        assert answer.status == 303
        await on_the_other.stream.aclose()


async def test_at_its_own_port_the_path_is_its_own():
    async with world() as it:
        it.settle(redirect_uri=f"{it.base}/elsewhere")
        with pytest.raises(HubError, match="/oauth/callback"):
            await it.sign_ins.begin("notes")


# --- nothing leaks ----------------------------------------------------------------------------------------------------


async def test_neither_logs_nor_reprs_show_secrets(caplog):
    caplog.set_level("DEBUG")
    async with world() as it:
        begun = await it.sign_ins.begin("notes")
        state = asked(begun.authorization_url)["state"]
        ticket, (record,) = begun.ticket, begun.ticket.records
        seen = f"{it.sign_ins!r} {ticket!r} {record!r}"
        await it.get(back(begun.authorization_url))
        await it.get(back(begun.authorization_url))
        seen += caplog.text
        (asker,) = ticket.invitations.values()
        for secret in (state, record.verifier, asker.id, asker.code, "CANARY"):
            assert secret not in seen
