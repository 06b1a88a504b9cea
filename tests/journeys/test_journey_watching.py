"""Hosts with sessions of their own: each is notified of changes there, also after the session moves."""

import pytest
import trio
import trio.testing

from hub.link.call_interface import Identity
from hub.wire.mcp import MODERN
from tests.support.house import ALICE, BOB
from upstreams.subscriptions.resource_subscription import LINGER_S

A, B = "note://a", "note://b"
DESK = Identity(ALICE.principal, "other desk")
FORMS = {"elicitation": {"form": {}}}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}
TO_LEGACY = [f"{name}-{carrier}" for name in ("LL", "ML") for carrier in ("lines", "http")]
IDLE_S = 300.0


def notes(*uris):
    return [{"uri": uri, "name": uri} for uri in uris]


async def settle(for_s=0.2):
    await trio.sleep(for_s)
    await trio.testing.wait_all_tasks_blocked()


async def listen(host, *uris):
    """Subscribe a host to `uris`; returns the argument of `unlisten`."""
    if host.version == MODERN:
        question = await host.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}})
        await settle()
        acknowledged = host.of("notifications/subscriptions/acknowledged")[-1]
        assert acknowledged["notifications"] == {"resourceSubscriptions": list(uris)}
        return question
    for uri in uris:
        assert await host.result("resources/subscribe", {"uri": uri}) == {}
    await settle()
    return uris


async def unlisten(host, listened):
    if host.version == MODERN:
        await host.cancel(listened)
    else:
        for uri in listened:
            assert await host.result("resources/unsubscribe", {"uri": uri}) == {}
    await settle()


def told(host):
    """The notifications to a host since the last call."""
    method = "notifications/resources/updated"
    found = [message["params"]["uri"] for message in host.heard if message["method"] == method]
    host.heard[:] = [message for message in host.heard if message["method"] != method]
    return found


def watching(fake):
    """The upstream's connections with subscriptions, and their URIs."""
    found = {each: fake.watched(each) for each in fake.conversations if not each.over}
    return {each: uris for each, uris in found.items() if uris}


async def touch(fake, uri, to, **more):
    await fake.touch(uri, over=to, **more)
    await settle()


def apart(pair, mode):
    """Settings by which each host has its own process, and a second host."""
    identity = DESK if pair.to_legacy and mode == "per_host" else BOB
    return {"files": {"session_mode": mode}}, identity


@pytest.mark.covers("N-15", "D-13", "D-17", "F-I-12")
@pytest.mark.parametrize("mode", ["per_host", "shared"])
async def test_a_host_hears_its_own_process_and_no_other(pair, autojump_clock, mode):
    fake = pair.fake(resources=notes(A, B))
    upstreams, identity = apart(pair, mode)
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, host):
        other = await pair.host(house, identity=identity)
        listened = await listen(host, A)
        await listen(other, A)
        (mine, my_uris), (theirs, their_uris) = watching(fake).items()
        assert (my_uris, their_uris) == ([A], [A])
        await touch(fake, A, mine)
        assert (told(host), told(other)) == ([A], [])
        await touch(fake, A, theirs)
        assert (told(host), told(other)) == ([], [A])
        await touch(fake, "b://else", theirs, of=A)
        assert (told(host), told(other)) == ([], ["b://else"])

        assert "content" in await host.call("files__echo")
        assert "content" in await other.call("files__echo")
        assert [len(each.of("tools/call")) for each in (mine, theirs)] == [1, 1], "a process for both purposes"
        assert (told(host), told(other)) == ([], [])

        await unlisten(host, listened)
        await trio.sleep(LINGER_S + 1)
        assert watching(fake) == {theirs: [A]}
        await touch(fake, A, mine)
        assert (told(host), told(other)) == ([], [])


@pytest.mark.covers("N-17")
@pytest.mark.parametrize("mode", ["per_host", "shared"])
async def test_what_was_watched_in_a_process_is_watched_in_the_next(pair, autojump_clock, mode):
    fake = pair.fake(resources=notes(A, B))
    upstreams, identity = apart(pair, mode)
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, host):
        other = await pair.host(house, identity=identity)
        await listen(host, A)
        await listen(other, A, B)
        mine, theirs = watching(fake)
        for _ in range(3):
            await theirs.close()
            await settle(10)
            assert (told(host), sorted(told(other))) == ([], [A, B])
            _, theirs = watching(fake)
            assert watching(fake) == {mine: [A], theirs: [A, B]}
            await touch(fake, B, theirs)
            assert (told(host), told(other)) == ([], [B])
        house.hub.supervisor.restart("files")
        await settle(10)
        assert (told(host), sorted(told(other))) == ([A], [A, B])
        assert sorted(watching(fake).values()) == [[A], [A, B]]


@pytest.mark.covers("N-17")
async def test_a_process_that_never_lasts_is_not_started_without_end(pair, autojump_clock):
    fake = pair.fake(resources=notes(A))
    upstreams, identity = apart(pair, "per_host")
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, host):
        other = await pair.host(house, identity=identity)
        assert "content" in await host.call("files__echo")
        await listen(other, A)
        (theirs,) = watching(fake)
        healthy = len(fake.conversations)

        async def crash(message, conversation):
            await conversation.close()

        methods = ("resources/subscribe", "subscriptions/listen")
        fake.on |= dict.fromkeys(methods, crash)
        await theirs.close()
        await trio.sleep(600)
        assert 5 < len(fake.conversations) - healthy < 30
        for method in methods:
            del fake.on[method]
        await trio.sleep(100)
        assert told(other) == [A]
        (theirs,) = watching(fake)
        await touch(fake, A, theirs)
        assert (told(host), told(other)) == ([], [A])


@pytest.mark.parametrize("mode", ["per_host", "shared"])
async def test_a_session_in_which_something_is_watched_is_not_idle(pair, autojump_clock, mode):
    fake = pair.fake(resources=notes(A))
    upstreams, identity = apart(pair, mode)
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, host):
        other = await pair.host(house, identity=identity)
        await listen(host, A)
        listened = await listen(other, A)
        sessions = house.hub.supervisor.upstreams["files"].status().sessions
        await trio.sleep(5 * IDLE_S)
        assert len(watching(fake)) == 2
        assert house.hub.supervisor.upstreams["files"].status().sessions == sessions
        await unlisten(other, listened)
        await trio.sleep(IDLE_S - 5)
        assert house.hub.supervisor.upstreams["files"].status().sessions == sessions
        await trio.sleep(IDLE_S + 10)
        assert house.hub.supervisor.upstreams["files"].status().sessions == sessions - 1
        assert list(watching(fake).values()) == [[A]]


@pytest.mark.covers("I-12", "F-H-01")
@pytest.mark.parametrize("mode", ["per_host", "shared"])
async def test_who_leaves_watches_nothing(pair, autojump_clock, mode):
    fake = pair.fake(resources=notes(A))
    upstreams, identity = apart(pair, mode)
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, host):
        other = await pair.host(house, identity=identity)
        await listen(host, A)
        await listen(other, A)
        mine, theirs = watching(fake)
        await other.leave()
        await other.end()
        await trio.sleep(30)
        house.assert_at_rest()
        house.assert_watched_by_who_is_there()
        await trio.sleep(IDLE_S + LINGER_S + 30)
        assert watching(fake) == {mine: [A]}
        assert theirs.over
        await touch(fake, A, mine)
        assert told(host) == [A]


# --- a session of one's own, later on ---------------------------------------------------------------------------------


@pytest.mark.covers("D-13", "N-17")
@pytest.mark.parametrize("pair", TO_LEGACY, indirect=True)
async def test_when_the_upstream_asks_each_host_hears_its_own(pair, autojump_clock):
    fake = pair.fake(resources=notes(A), tools=["ask", "echo"])
    fake.on["tools/call:ask"] = pair.asks({"who": ("elicitation/create", FORM)}, lambda answers: {"content": []})
    async with pair.house({"files": fake}) as (house, host):
        other = await pair.host(house, identity=DESK, capabilities=FORMS)
        other.on["elicitation/create"] = lambda params: {"action": "accept", "content": {"who": "me"}}
        await listen(host, A)
        await listen(other, A)
        assert list(watching(fake).values()) == [[A]]
        await other.call("files__ask")
        await settle(LINGER_S + 5)
        assert A in told(host), "what changed while it moved"
        told(other)
        assert list(watching(fake).values()) == [[A], [A]]
        heard = []
        for each in watching(fake):
            await touch(fake, A, each)
            heard.append((told(host), told(other)))
        assert sorted(heard) == [([], [A]), ([A], [])]
        await touch(fake, "b://else", watching(fake).popitem()[0], of=A)
        assert sorted([told(host), told(other)]) == [[], ["b://else"]]


@pytest.mark.parametrize("pair", ["ML-lines", "ML-http"], indirect=True)
async def test_a_host_whose_roots_are_unknown_watches_with_its_account_until_it_calls(pair, autojump_clock):
    fake = pair.fake(resources=notes(A))
    async with pair.house({"files": fake}, upstreams={"files": {"session_mode": "per_host"}}) as (house, _):
        host = await pair.host(house, capabilities={"roots": {}})
        stranger = await pair.host(house, identity=BOB, capabilities={"roots": {}})
        await listen(host, A)
        params = {"notifications": {"resourceSubscriptions": [A]}}
        await stranger.start("subscriptions/listen", params)
        await settle()
        [refused] = stranger.of("notifications/subscriptions/acknowledged")
        assert refused["notifications"] == {"resourceSubscriptions": []}
        assert watching(fake) == {fake.conversations[0]: [A]}
        await touch(fake, A, fake.conversations[0])
        assert told(host) == [A]
        await host.call("files__echo")
        await settle(LINGER_S + 5)
        assert told(host) == [A]
        assert watching(fake) == {fake.conversations[1]: [A]}
        await touch(fake, A, fake.conversations[1])
        assert (told(host), told(stranger)) == ([A], [])
