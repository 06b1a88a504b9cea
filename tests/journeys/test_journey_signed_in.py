"""From the call of a host to the page of the hub, the authorization server, and back to the result."""

import html
import json
import re

import pytest
import trio
import trio.testing

from hub.link.call_interface import OWNER, Identity
from hub.link.hub_errors import UpstreamUnauthorized
from hub.wire.mcp import L3, L4, MODERN
from tests.journeys.test_journey_sign_in import COMPLETE, NOTES, URL_MODE, Guarded, text_of
from tests.support.house import BOB, a_house
from tests.support.sign_in_world import back, world

NAVIGATION = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
MINE = Identity(OWNER, "claude-code")


async def sign_in(it, url, fake):
    """What a person does who opens the page."""
    page = await it.get(url, *NAVIGATION)
    assert page.status == 200, page.body
    (link,) = re.findall(r'<a href="([^"]+)"', page.body.decode())
    fake.shut = fake.refusal = None  # from now on it takes the token
    answer = await it.get(back(html.unescape(link)), *NAVIGATION)
    assert answer.status == 303


@pytest.mark.parametrize("shut", [False, True], ids=["while connected", "at the handshake"])
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_two_hosts_get_the_result_after_one_sign_in(carrier, shut):
    """A modern host waits with its retry, one of 2025-11-25 is told when it is done, and a third was told in words."""
    fake = Guarded(shut=shut)
    name = "notes__sign_in" if shut else "notes__echo"
    async with world() as it, a_house({"notes": fake}, upstreams={"notes": NOTES}, guide=it.sign_ins) as house:
        it.hub = house.hub
        modern = await house.host(carrier, MODERN, capabilities=URL_MODE, identity=MINE)
        older = await house.host(carrier, L4, capabilities=URL_MODE, identity=MINE)
        plain = await house.host(carrier, L3, identity=MINE)
        stranger = await house.host(carrier, L4, capabilities=URL_MODE, identity=BOB)
        call = {"name": name, "arguments": {}}
        with trio.fail_after(20):
            asked = (await modern.ask("tools/call", call))["result"]
            modern.on["elicitation/create"] = lambda params: {"action": "accept"}
            retry = await modern.fulfil(call, asked)
            (page,) = (await older.ask("tools/call", call))["error"]["data"]["elicitations"]
            url = modern.asked[0]["params"]["url"]
            assert page["url"] == url, "one page for one person"
            assert text_of(await plain.ask("tools/call", call)) == (
                'notes needs you to sign in at id.example. Ask the user to run "hubd auth notes" or to open '
                f"{url}, then try again."
            )
            words = text_of(await stranger.ask("tools/call", call))
            assert "does not share an account there" in words
            assert it.base not in words
            waiting = await modern.start("tools/call", retry)
            await sign_in(it, url, fake)
            assert "error" not in await waiting.wait()
            assert not waiting.answer["result"].get("isError")
            await trio.testing.wait_all_tasks_blocked()
            assert older.of(COMPLETE) == [{"elicitationId": page["elicitationId"]}]
            assert stranger.of(COMPLETE) == plain.of(COMPLETE) == []
            assert not (await older.call("notes__echo")).get("isError")
        assert it.started == ["notes"]
        it.hub = None


async def test_where_only_a_terminal_will_do_no_address_is_named():
    fake = Guarded()
    async with world() as it:
        it.listening = None
        async with a_house({"notes": fake}, upstreams={"notes": NOTES}, guide=it.sign_ins) as house:
            for version in (L4, MODERN):
                host = await house.host("lines", version, capabilities=URL_MODE, identity=MINE)
                words = text_of(await host.ask("tools/call", {"name": "notes__echo"}))
                assert '"hubd auth notes"' in words
                assert "http://" not in json.dumps(words)


async def test_a_renewal_that_fails_is_told_as_it_is():
    fake = Guarded()
    fake.refusal = UpstreamUnauthorized("The sign-in for notes cannot be renewed now", retry_after_ms=900)
    async with world() as it, a_house({"notes": fake}, upstreams={"notes": NOTES}, guide=it.sign_ins) as house:
        host = await house.host("lines", L4, capabilities=URL_MODE, identity=MINE)
        answer = await host.ask("tools/call", {"name": "notes__echo"})
        assert "cannot be renewed now" in text_of(answer)
        (facts,) = answer["result"]["_meta"].values()
        assert facts["retryAfterMs"] == 900
        assert it.servers.asked == []
