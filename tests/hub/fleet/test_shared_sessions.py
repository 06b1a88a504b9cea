"""Hubs that share sessions: who has one, who takes it over, and that no two do."""

from copy import copy

import pytest
import trio
import trio.testing

from hub.control.answers import PeerRow
from hub.fleet.membership import LIVES_S, RENEW_S, TEND_S, YOUNG_S
from hub.wire.jsonrpc import encode_notification
from tests.support.fleet_house import Facts, Fleet
from tests.support.http_fakes import ALICE, BOB

TOOLS_CHANGED = "notifications/tools/list_changed"


@pytest.fixture
async def fleet(nursery):
    return Fleet(nursery)


async def two(fleet):
    a, b = await fleet.start("a"), await fleet.start("b")
    fleet.grow_old()
    return a, b


def said(answered):
    return answered.last["result"]["content"][0]["text"]


async def test_a_request_of_a_session_is_answered_where_the_session_is(fleet):
    a, b = await two(fleet)
    host = await a.host()
    assert host.session.startswith("a~v1.")
    b.turn(host)
    answered = await host.call("echo")
    assert (answered.status, said(answered)) == (200, "echo")
    assert len(a.router.seen) == 1
    assert not b.router.seen
    assert (await host.notify("notifications/roots/list_changed")).status == 202
    assert len(a.router.moved) == 1
    assert b.gate.forwarder.forwarded == 2
    assert len(b.endpoint.sessions) == 0


async def test_a_stream_through_another_hub_hears_what_the_session_is_told(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    heard = await b.listen(host)
    [session] = a.endpoint.sessions
    session.tell(TOOLS_CHANGED, encode_notification(TOOLS_CHANGED, {}))
    while not heard.messages:
        await heard.arrived.wait()
    assert heard.last["method"] == TOOLS_CHANGED
    heard.leave()
    while session.hears:
        await trio.lowlevel.checkpoint()


@pytest.mark.covers("T-34", "F-H-21")
async def test_delete_through_another_hub_ends_it_everywhere(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    assert len(a.endpoint.sessions) == 0
    assert (await host.call("echo")).status == 404
    await trio.testing.wait_all_tasks_blocked(0.01)
    await a.kill()
    assert (await host.call("echo")).status == 404
    assert len(b.endpoint.sessions) == 0


async def test_progress_comes_through_as_it_is_said(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    answered = await host.call("progress", token="t")
    assert [message.get("method") for message in answered.messages] == ["notifications/progress", None]


async def test_a_legacy_call_goes_on_when_its_host_leaves_and_can_be_cancelled(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    answered = b.start(lambda into: host.call("wait", 7, into=into))
    await a.router.started.wait()
    answered.leave()
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert a.router.running == {"wait"}
    await host.notify("notifications/cancelled", {"requestId": 7})
    while a.router.running:
        await trio.lowlevel.checkpoint()
    assert a.router.cancelled == ["wait"]


@pytest.mark.covers("F-D-03", "N-17")
@pytest.mark.parametrize("orderly", [True, False])
async def test_what_a_hub_had_that_ended_goes_on_at_the_next_one(fleet, orderly):
    a, b = await two(fleet)
    c = await fleet.start("c")
    host = await a.host()
    await host.post({"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "x:1"}})
    await host.post({"jsonrpc": "2.0", "id": 4, "method": "logging/setLevel", "params": {"level": "error"}})
    await trio.testing.wait_all_tasks_blocked(0.01)
    await (a.stop() if orderly else a.kill())
    answered = await b.turn(host).call("echo")
    assert (answered.status, said(answered)) == (200, "echo")
    [session] = b.endpoint.sessions
    assert session.log_level == "error"
    while b.router.subscribed != ["x:1"]:
        await trio.lowlevel.checkpoint()
    answered = await c.turn(host).call("echo")
    assert answered.status == 200
    assert (len(b.endpoint.sessions), len(c.endpoint.sessions), len(b.seen)) == (1, 0, 1)


async def test_of_all_hubs_that_want_an_orphan_one_gets_it(fleet):
    a, b = await two(fleet)
    c, d = await fleet.start("c"), await fleet.start("d")
    host = await a.host()
    await a.kill()
    hosts = [each.turn(copy(host)) for each in (b, c, d, b, c, d)]
    answers = []

    async def ask(host, number):
        answers.append(await host.call("echo", number))

    async with trio.open_nursery() as nursery:
        for number, each in enumerate(hosts):
            nursery.start_soon(ask, each, number)
    assert [answered.status for answered in answers] == [200] * 6
    assert sorted(len(each.endpoint.sessions) for each in (b, c, d)) == [0, 0, 1]
    assert sum(len(each.router.seen) for each in (b, c, d)) == 6


@pytest.mark.covers("F-H-14", "SEC-06", "T-36")
async def test_a_foreign_session_is_as_good_as_none(fleet):
    a, b = await two(fleet)
    host = await a.host()
    thief = await b.host(identity=BOB)
    thief.session = host.session
    body = await thief.call("echo")
    assert body.status == 404
    thief.session = "nonsense"
    assert (await thief.call("echo")).body == body.body
    thief.session = host.session.replace("a~", "b~")
    thief.identity = ALICE
    assert (await thief.call("echo")).body == body.body
    thief.session = host.session
    thief.path = "/mcp/files"
    assert (await thief.call("echo")).body == body.body
    assert not a.seen


async def test_without_the_directory_hosts_are_told_to_come_again(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    mine = await b.host()
    fleet.facts.away = True
    assert (await host.call("echo")).status == 200, "it was there a moment ago"
    b.membership.forget(a.durable.run_id)
    answered = await host.call("echo")
    assert (answered.status, answered.headers["Retry-After"]) == (503, "1")
    assert "cache.url" in answered.last["error"]["message"]
    assert (await mine.call("echo")).status == 200
    fleet.facts.away = False
    assert (await host.call("echo")).status == 200


async def test_a_hub_knows_its_own_earlier_runs_without_the_directory(autojump_clock, nursery, tmp_path):
    fleet = Fleet(nursery, tmp_path)
    a, b = await two(fleet)
    host = await a.host()
    await a.kill()
    fleet.facts.away = True
    a = await fleet.start("a")
    assert (await b.turn(host).call("echo")).status == 503
    assert (await a.turn(host).call("echo")).status == 200
    fleet.facts.away = False


async def test_what_was_sent_on_is_not_sent_on_again(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    answered = await host.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, hubd_forwarded="1")
    assert answered.status == 421
    assert not a.seen


async def test_a_hub_registered_at_an_address_of_another_one(fleet):
    """Loops end, though the directory says nonsense."""
    a, b = await two(fleet)
    host = b.turn(await a.host())
    a.membership.change_url(b.url)
    await a.membership.renew()
    b.membership.forget(a.durable.run_id)
    answered = await host.call("echo")
    assert answered.status == 503
    assert len(b.seen) <= 4


async def test_a_hub_that_nobody_can_reach_keeps_its_sessions(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    a.membership.change_url("")
    await a.membership.renew()
    b.membership.forget(a.durable.run_id)
    answered = await host.call("echo")
    assert answered.status == 503
    assert "[replica] url" in answered.last["error"]["message"]
    assert (await a.turn(host).call("echo")).status == 200


async def test_status_names_the_others(fleet):
    a, b = await two(fleet)
    assert a.membership.status().looking is True, "b came after it had looked"
    await a.membership.renew()
    facts = a.membership.status()
    assert facts.looking is False
    assert (facts.name, facts.run, facts.url, facts.registered) == ("a", a.durable.run_id, a.url, True)
    assert facts.peers == (PeerRow(name="b", run=b.durable.run_id, url=b.url),)
    assert a.membership.is_elsewhere(b.durable.run_id)
    assert not a.membership.is_elsewhere(a.durable.run_id)
    await b.stop()
    await a.membership.renew()
    assert a.membership.status().peers == ()


# --- time -------------------------------------------------------------------------------------------------------------


async def test_nothing_is_taken_over_while_the_directory_is_young(autojump_clock, fleet):
    a, b = await fleet.start("a"), await fleet.start("b")
    host = await a.host()
    await trio.sleep(YOUNG_S + 1)
    fleet.facts.values.clear()
    assert (await b.turn(host).call("echo")).status == 200, "it was there a moment ago"
    b.membership.forget(a.durable.run_id)
    answered = await host.call("echo")
    assert answered.status == 503
    await trio.sleep(YOUNG_S + 1)
    assert (await host.call("echo")).status == 200
    assert (len(a.endpoint.sessions), len(b.endpoint.sessions)) == (1, 0)


async def test_claims_are_made_again_when_the_directory_has_lost_them(autojump_clock, fleet):
    a, b = await two(fleet)
    c = await fleet.start("c")
    host = await a.host()
    await a.kill()
    assert (await b.turn(host).call("echo")).status == 200
    fleet.facts.values.clear()
    await trio.sleep(YOUNG_S + 1)
    assert (await c.turn(host).call("echo")).status == 200
    assert (len(b.endpoint.sessions), len(c.endpoint.sessions)) == (1, 0)
    claim = f"session/{next(iter(b.endpoint.sessions)).durable_name}"
    del fleet.facts.values[claim]
    await trio.sleep(TEND_S + RENEW_S)
    assert fleet.facts.values[claim][0] == b.durable.run_id.encode()


async def test_ends_of_sessions_are_told_again_when_the_directory_has_lost_them(autojump_clock, fleet):
    a, b = await two(fleet)
    host = await a.host()
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    await trio.sleep(1)
    fleet.facts.values.clear()
    await trio.sleep(YOUNG_S + RENEW_S)
    await a.kill()
    await trio.sleep(LIVES_S)
    assert (await b.turn(host).call("echo")).status == 404
    assert len(b.endpoint.sessions) == 0


async def test_a_hub_that_has_passed_on_the_end_of_a_session_remembers_it(autojump_clock, fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    await a.kill()
    fleet.facts.values.clear()
    await trio.sleep(YOUNG_S + LIVES_S)
    assert (await host.call("echo")).status == 404
    assert len(b.endpoint.sessions) == 0


async def test_what_a_session_has_set_is_told_again_when_the_directory_has_lost_it(autojump_clock, fleet):
    a, _ = await two(fleet)
    host = await a.host()
    level = {"jsonrpc": "2.0", "id": 9, "method": "logging/setLevel", "params": {"level": "debug"}}
    assert (await host.post(level)).status == 200
    name = f"kept/{next(iter(a.endpoint.sessions)).durable_name}"
    await trio.sleep(1)
    before = fleet.facts.values.pop(name)
    fleet.facts.values.clear()
    await trio.sleep(YOUNG_S + RENEW_S)
    assert fleet.facts.values[name][0] == before[0]


async def test_a_hub_that_was_cut_off_gives_up_what_others_took(autojump_clock, fleet):
    a, b = await two(fleet)
    host, other = await a.host(), await a.host()
    real, a.membership.directory = fleet.facts, Facts()
    a.membership.directory.away = True
    await trio.sleep(2 * LIVES_S + 1)
    assert (await b.turn(host).call("echo")).status == 200
    assert (len(a.endpoint.sessions), len(b.endpoint.sessions)) == (2, 1)
    a.membership.directory = real
    await trio.sleep(RENEW_S + 1)
    assert (len(a.endpoint.sessions), len(b.endpoint.sessions)) == (1, 1)
    assert (await a.turn(host).call("echo")).status == 200
    assert (await b.turn(other).call("echo")).status == 200
    assert (len(a.endpoint.sessions), len(b.endpoint.sessions)) == (1, 1)


async def test_a_session_comes_back_to_where_it_began(autojump_clock, fleet):
    a, b = await two(fleet)
    host = await a.host()
    a.membership.directory = Facts()
    a.membership.directory.away = True
    await trio.sleep(2 * LIVES_S + 1)
    assert (await b.turn(host).call("echo")).status == 200
    a.membership.directory = fleet.facts
    await trio.sleep(RENEW_S + 1)
    assert (len(a.endpoint.sessions), len(b.endpoint.sessions)) == (0, 1)
    await b.kill()
    await trio.sleep(LIVES_S)
    assert (await a.turn(host).call("echo")).status == 200
    assert len(a.endpoint.sessions) == 1


async def test_a_session_older_than_a_day_is_still_forwarded_and_not_revived(fleet):
    a, b = await two(fleet)
    host = b.turn(await a.host())
    fleet.now += 25 * 3600
    assert (await host.call("echo")).status == 200
    await a.kill()
    assert (await host.call("echo")).status == 404
