"""Approvals: a person is asked before a call goes upstream, in the way of its host."""

import json
from contextlib import aclosing

import pytest
import trio
import trio.testing
from msgspec import structs

from config.security_settings import ConditionalRule, PolicyConfig
from config.settings import ApprovalsConfig
from hub.daemon.decision_requests import DecisionRequests
from hub.link.hub_errors import HubError
from hub.wire.mcp import L1
from tests.journeys.pairs import Pair
from tests.support.house import BOB
from tests.support.sweeps import sweep

FORMS = {"elicitation": {}}
YES = {"action": "accept", "content": {"decision": "once"}}


RULES = PolicyConfig(ask=("*", "prompt:*", "resource:*"))


def asking(pair, fakes, **more):
    """A house whose rules ask about everything."""
    return pair.house(fakes, policy=RULES, **more)


def counting(pair, **more):
    """An upstream that says how often its tool was called."""
    fake, calls = pair.fake(**more), []

    def count(message, conversation):
        calls.append(message["params"])
        return pair.whole(content=[{"type": "text", "text": f"call {len(calls)}"}])

    fake.on["tools/call"] = count
    return fake, calls


def answering(host, *answers):
    """Let a host give these answers, one after the other; the last one from then on."""
    left = list(answers)
    host.on["elicitation/create"] = lambda params: left.pop(0) if len(left) > 1 else left[0]
    return host


def text_of(result):
    return result["content"][0]["text"]


def failure_of(result):
    assert result["isError"] is True, result
    return result["_meta"]["dev.hubd/failure"]


def people(house):
    """The person at a terminal, whose commands no host has run."""
    requests = DecisionRequests(house.hub, lambda: ())

    async def is_a_person():
        return ""

    requests._why_no_person = is_a_person
    return requests


async def listed(house):
    async with aclosing(people(house).approvals()) as found:
        return await anext(found)


@pytest.mark.covers("POL-21", "POL-23")
async def test_a_yes_in_the_host_lets_one_call_go_on(pair: Pair, autojump_clock):
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}, upstreams={"db": {"args": ("--token", "s3cr3t-abcdef")}}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES)
        for number in (1, 2):
            assert text_of(await host.call("db__echo", {"table": "users"})) == f"call {number}"
            assert len(host.asked) == number
        params = host.asked[0]["params"]
        first, *lines = params["message"].split("\n")
        assert first == 'hubd: may "desk" run db__echo?'
        assert lines[0].startswith("server: db, which is db --token ***")
        assert lines[-2:] == ['arguments: table="users"', "rule: ask[0]"]
        decision = params["requestedSchema"]["properties"]["decision"]
        lasts = "hour" if pair.carrier == "http" and not pair.from_legacy else "session"
        assert decision["enum"] == ["once", lasts]
        assert "default" not in decision
        assert (await listed(house)).requests == ()


@pytest.mark.covers("POL-21", "POL-22")
@pytest.mark.parametrize("action", ["decline", "cancel", "accept"])
async def test_without_a_yes_nothing_goes_upstream(pair: Pair, action, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), {"action": action})
        failure = failure_of(await host.call("db__echo"))
        assert calls == []
        assert failure["executed"] == "no"
        if action == "decline":
            assert failure["hub"] == "approval_declined"
            assert (await listed(house)).requests == ()
        else:
            assert failure["hub"] == "approval_required"
            assert [each.id for each in (await listed(house)).requests] == [failure["request"]]


@pytest.mark.covers("POL-21", "POL-22")
async def test_what_the_server_asks_is_asked_behind_the_yes(pair: Pair, autojump_clock):
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    fake = pair.fake()
    fake.on["tools/call"] = pair.asks(
        {"q": ("elicitation/create", form)}, lambda found: {"content": [{"type": "text", "text": json.dumps(found)}]}
    )
    async with asking(pair, {"db": fake}, upstreams={"db": {"session_mode": "per_host"}}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES, {"action": "accept", "content": {}})
        said = json.loads(text_of(await host.call("db__echo")))
        assert said == {"q": {"action": "accept", "content": {}}}
        messages = [each["params"]["message"] for each in host.asked]
        assert messages[0].startswith("hubd: may")
        assert messages[1:] == ["[db] Name?"]


@pytest.mark.covers("POL-25", "POL-26")
async def test_a_host_that_cannot_ask_is_told_of_the_request(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        refused = await host.call("db__echo", {"a": 1})
        id = failure_of(refused)["request"]
        assert text_of(refused) == (
            f"Not run: a person has to approve this first. Ask the user to decide on request {id} (hubd approvals shows"
            " it), then call again with the same arguments."
        )
        assert "hubd approve" not in json.dumps(refused).replace("hubd approvals", "")
        assert failure_of(await host.call("db__echo", {"a": 1}))["request"] == id
        assert failure_of(await host.call("db__echo", {"a": 2}))["request"] != id
        await people(house).approval_give(id)
        assert text_of(await host.call("db__echo", {"a": 1.0})) == "call 1"
        assert failure_of(await host.call("db__echo", {"a": 1}))["hub"] == "approval_required"
        assert len(calls) == 1


@pytest.mark.covers("POL-25")
@pytest.mark.parametrize("after_s", [44, 46])
async def test_a_call_is_held_while_somebody_watches(pair: Pair, after_s, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host), aclosing(people(house).approvals(follow=True)) as watching:
        await anext(watching)
        question = await host.start("tools/call", {"name": "db__echo", "arguments": {}})
        [request] = (await anext(watching)).requests
        await trio.sleep(after_s)
        await people(house).approval_give(request.id)
        answer = (await question.wait())["result"]
        if after_s < 45:
            assert text_of(answer) == "call 1"
        else:
            assert failure_of(answer)["request"] == request.id
            assert text_of(await host.call("db__echo")) == "call 1"
        assert len(calls) == 1


@pytest.mark.covers("POL-25")
async def test_a_request_ends_when_its_time_is_over(pair: Pair, autojump_clock):
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        ids = [failure_of(await host.call("db__echo", {"a": each}))["request"] for each in (1, 2)]
        await trio.sleep(899)
        await people(house).approval_give(ids[0])
        await trio.sleep(2)
        with pytest.raises(HubError, match="no request"):
            await people(house).approval_give(ids[1])
        assert text_of(await host.call("db__echo", {"a": 1})) == "call 1"


@pytest.mark.covers("POL-25")
async def test_the_first_of_two_answers_counts(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        if pair.from_legacy:
            question = await host.start("tools/call", {"name": "db__echo", "arguments": {}})
            await trio.testing.wait_all_tasks_blocked()
            [request] = (await listed(house)).requests
            await people(house).approval_give(request.id)
            assert text_of((await question.wait())["result"]) == "call 1"
        else:
            asked = await host.ask("tools/call", {"name": "db__echo", "arguments": {}})
            [request] = (await listed(house)).requests
            await people(house).approval_deny(request.id)
            with pytest.raises(HubError, match="denied already"):
                await people(house).approval_give(request.id)
            host.on["elicitation/create"] = lambda params: YES
            retry = await host.fulfil({"name": "db__echo", "arguments": {}}, asked["result"])
            assert failure_of((await host.ask("tools/call", retry))["result"])["hub"] == "approval_declined"
            assert calls == []


@pytest.mark.covers("POL-28")
async def test_a_yes_for_longer_spares_the_question(pair: Pair, autojump_clock, tmp_path):
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host, other = [await pair.host(house, capabilities=FORMS) for _ in range(2)]
        bob = answering(await pair.host(house, capabilities=FORMS, identity=BOB), {"action": "decline"})
        lasts = "hour" if pair.carrier == "http" and not pair.from_legacy else "session"
        answering(host, {"action": "accept", "content": {"decision": lasts}})
        answering(other, {"action": "decline"})
        for number in (1, 2):
            assert text_of(await host.call("db__echo", {"a": number})) == f"call {number}"
        assert len(host.asked) == 1
        if lasts == "session":
            assert failure_of(await other.call("db__echo"))["hub"] == "approval_declined"
        else:  # the same program, as far as can be told
            assert text_of(await other.call("db__echo")) == "call 3"
        assert failure_of(await bob.call("db__echo"))["hub"] == "approval_declined"
        [grant] = (await listed(house)).approvals
        assert (grant.lasts, grant.host, grant.name) == (lasts, "desk", "db__echo")
        assert await people(house).approval_revoke(id=grant.id) == ["db__echo"]
        answering(host, {"action": "decline"})
        assert failure_of(await host.call("db__echo"))["hub"] == "approval_declined"


@pytest.mark.covers("POL-29")
async def test_who_says_no_three_times_is_not_asked_again(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), {"action": "decline"})
        for number in range(5):
            assert failure_of(await host.call("db__echo", {"a": number}))["hub"] == "approval_declined"
        assert len(host.asked) == 3
        await trio.sleep(601)
        await host.call("db__echo", {"a": 9})
        assert len(host.asked) == 4
        assert calls == []


@pytest.mark.covers("POL-29")
async def test_a_flood_of_calls_makes_few_requests(pair: Pair, autojump_clock):
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        kinds = [failure_of(await host.call("db__echo", {"a": each}))["hub"] for each in range(100)]
        assert kinds == ["approval_required"] * 10 + ["overloaded"] * 90
        assert len((await listed(house)).requests) == 10
        other = await pair.host(house, identity=BOB)
        assert failure_of(await other.call("db__echo"))["hub"] == "approval_required"


@pytest.mark.covers("POL-24")
async def test_what_the_tool_needs_is_shown_before_all_else(pair: Pair, autojump_clock):
    schema = {"type": "object", "properties": {"mode": {}, "path": {}}, "required": ["path"]}
    fake = pair.fake()
    fake.lists["tools"] = [{"name": "echo", "inputSchema": schema}]
    async with asking(pair, {"db": fake}) as (house, host):
        crowd = {f"x{each}": each for each in range(30)}
        await host.call("db__echo", {**crowd, "mode": "r", "path": "/etc/passwd"})
        (request,) = (await listed(house)).requests
        assert request.arguments.startswith('path="/etc/passwd" mode="r" x0=0')


@pytest.mark.covers("I-3", "POL-24", "POL-29")
async def test_nobody_is_asked_about_what_nobody_can_look_through(pair: Pair, autojump_clock, monkeypatch):
    """Nor does listing look through what waits: other hosts, and the person, would wait for that."""
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        large = {"a": "x" * (64 << 10), "b": 1}
        refused = await host.call("db__echo", large)
        assert text_of(refused) == (
            "Not run: a person has to approve this first, and its arguments are too large to be looked through (more"
            " than 64 KiB). Do not try again with the same arguments: send less at a time."
        )
        assert failure_of(refused)["hub"] == "denied"
        assert (await listed(house)).requests == ()
        id = failure_of(await host.call("db__echo", {"a": "x" * (32 << 10)}))["request"]
        monkeypatch.setattr("hub.rules.approvals.texts_for_people.peek_object", None)
        (request,) = (await listed(house)).requests
        assert request.arguments.startswith('a="xxx')
        assert len(request.arguments) < 350
        monkeypatch.undo()
        await people(house).approval_give(id, "session")
        assert text_of(await host.call("db__echo", large)) == "call 1"  # to these somebody has agreed, too
        assert calls[0]["arguments"] == large


@pytest.mark.covers("POL-11", "POL-25")
@pytest.mark.parametrize("rules", [PolicyConfig(), PolicyConfig(deny=("db__*",))], ids=["allow", "deny"])
async def test_other_rules_count_for_what_waits(pair: Pair, rules, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        async with aclosing(people(house).approvals(follow=True)) as watching:
            await anext(watching)
            question = await host.start("tools/call", {"name": "db__echo", "arguments": {}})
            await trio.testing.wait_all_tasks_blocked()
            house.hub.apply(structs.replace(house.hub.config, policy=rules))
            answer = (await question.wait())["result"]
            assert failure_of(answer)["hub"] == "denied" if rules.deny else text_of(answer) == "call 1"
        assert len(calls) == (0 if rules.deny else 1)


@pytest.mark.covers("POL-21")
async def test_who_leaves_is_asked_no_more(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        question = await host.start("tools/call", {"name": "db__echo", "arguments": {}})
        await trio.testing.wait_all_tasks_blocked()
        if pair.from_legacy:
            await host.cancel(question)
            await trio.testing.wait_all_tasks_blocked()
        [request] = (await listed(house)).requests
        assert request.waiting == 0
        assert calls == []


@pytest.mark.covers("POL-28")
async def test_a_yes_for_always_outlives_the_hub(pair: Pair, autojump_clock, tmp_path, monkeypatch):
    path = tmp_path / "grants.json"
    for run in (1, 2):
        fake, _ = counting(pair)
        async with asking(pair, {"db": fake}, grants=path) as (house, _):
            host = await pair.host(house, capabilities=FORMS)
            answering(host, {"action": "accept", "content": {"decision": "always"}})
            assert text_of(await host.call("db__echo")) == "call 1"
            assert len(host.asked) == (1 if run == 1 else 0)
            assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.covers("POL-28")
@pytest.mark.parametrize("remember", [None, "always"])
async def test_a_hub_of_several_offers_always_only_if_told_to(remember, autojump_clock, tmp_path):
    pair = Pair("LL", "http")
    fake, _ = counting(pair)
    more = {"approvals": ApprovalsConfig(remember=remember), "auth": "proxy", "grants": tmp_path / "grants.json"}
    async with asking(pair, {"db": fake}, **more) as (house, host):
        failure = failure_of(await host.call("db__echo"))
        offered = house.hub.approvals.show(failure["request"]).offers
        assert offered == (("once", "session", "always") if remember else ("once", "session"))


@pytest.mark.covers("POL-25")
async def test_settings_decide_what_is_offered(pair: Pair, autojump_clock):
    fake, _ = counting(pair)
    config = ApprovalsConfig(remember="once")
    async with asking(pair, {"db": fake}, approvals=config) as (house, _):
        host = answering(
            await pair.host(house, capabilities=FORMS), {"action": "accept", "content": {"decision": "session"}}
        )
        failure = failure_of(await host.call("db__echo"))
        assert failure["hub"] == "approval_required"
        assert host.asked[0]["params"]["requestedSchema"]["properties"]["decision"]["enum"] == ["once"]
        with pytest.raises(HubError, match="remember"):
            await people(house).approval_give(failure["request"], "always")


async def test_old_hosts_have_no_forms(autojump_clock):
    pair = Pair("LL", "lines")
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await house.host("lines", L1, capabilities=FORMS), YES)
        assert failure_of(await host.call("db__echo"))["hub"] == "approval_required"
        assert host.asked == []


@pytest.mark.covers("POL-20", "POL-22")
async def test_a_yes_is_for_the_number_that_was_shown(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    shown, other = {"id": 1234567890123456789}, {"id": 1234567890123456700}
    async with asking(pair, {"db": fake}) as (house, host):
        id = failure_of(await host.call("db__echo", shown))["request"]
        await people(house).approval_give(id)
        assert failure_of(await host.call("db__echo", other))["hub"] == "approval_required"
        if not pair.from_legacy:
            asked = answering(await pair.host(house, capabilities=FORMS), YES)
            params = {"name": "db__echo", "arguments": {"id": shown["id"] + 1}}
            retry = await asked.fulfil(params, (await asked.ask("tools/call", params))["result"])
            again = (await asked.ask("tools/call", {**retry, "arguments": other}))["result"]
            assert again["resultType"] == "input_required"
        assert calls == []
        assert text_of(await host.call("db__echo", shown)) == "call 1"


@pytest.mark.covers("POL-22")
async def test_a_state_is_good_once_and_for_what_was_shown(autojump_clock):
    pair = Pair("ML", "http")
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES)
        params = {"name": "db__echo", "arguments": {"a": 1}}
        first = (await host.ask("tools/call", params))["result"]
        retry = await host.fulfil(params, first)
        state = retry["requestState"]
        for at in (20, len(state) - 5):  # the last character may have bits that say nothing
            flipped = state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]
            error = await host.error("tools/call", {**retry, "requestState": flipped})
            assert error["data"]["reason"] == "request_state_invalid"
        other = await host.error("tools/call", {**retry, "arguments": {"a": 2}})
        assert other["data"]["reason"] == "request_state_invalid"
        bob = await pair.host(house, capabilities=FORMS, identity=BOB)
        assert (await bob.error("tools/call", retry))["data"]["reason"] == "request_state_invalid"
        assert calls == []
        wrong = {**retry, "inputResponses": {"hub-approval": {"action": "perhaps"}}}
        assert (await host.error("tools/call", wrong))["code"] == -32602
        without = (await host.ask("tools/call", {**retry, "inputResponses": {}}))["result"]
        assert without["resultType"] == "input_required"
        assert (await host.ask("tools/call", retry))["result"]["resultType"] == "input_required"  # it was used
        again = await host.fulfil(params, without)
        assert text_of((await host.ask("tools/call", again))["result"]) == "call 1"
        assert (await host.ask("tools/call", again))["result"]["resultType"] == "input_required"
        assert len(calls) == 1


@pytest.mark.covers("POL-22")
async def test_a_state_of_another_run_asks_anew(autojump_clock):
    pair, state = Pair("ML", "http"), ""
    for run in (1, 2):
        fake, calls = counting(pair)
        async with asking(pair, {"db": fake}) as (house, _):
            host = answering(await pair.host(house, capabilities=FORMS), YES)
            params = {"name": "db__echo", "arguments": {}}
            if run == 1:
                state = (await host.ask("tools/call", params))["result"]["requestState"]
                continue
            retry = {**params, "requestState": state, "inputResponses": {"hub-approval": YES}}
            assert (await host.ask("tools/call", retry))["result"]["resultType"] == "input_required"
            assert calls == []


@pytest.mark.covers("POL-22")
async def test_a_state_behind_the_yes_spares_it_once(autojump_clock):
    pair = Pair("MM", "http")
    fake = pair.fake()
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    fake.on["tools/call"] = pair.asks({"q": ("elicitation/create", form)}, lambda found: {"content": []})
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES)
        params = {"name": "db__echo", "arguments": {}}
        asked = (await host.ask("tools/call", params))["result"]
        relayed = (await host.ask("tools/call", await host.fulfil(params, asked)))["result"]
        assert set(relayed["inputRequests"]) == {"q"}
        retry = {**params, "requestState": relayed["requestState"], "inputResponses": {"q": {"action": "decline"}}}
        assert (await host.ask("tools/call", retry))["result"]["resultType"] == "complete"
        assert set((await host.ask("tools/call", retry))["result"]["inputRequests"]) == {"hub-approval"}


@pytest.mark.covers("POL-22")
async def test_a_state_behind_the_yes_spares_it_in_this_run_only(autojump_clock):
    """For the next run does not know that it was brought back."""
    pair, state = Pair("MM", "http"), ""
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    for run in (1, 2):
        fake = pair.fake()
        fake.on["tools/call"] = pair.asks({"q": ("elicitation/create", form)}, lambda found: {"content": []})
        async with asking(pair, {"db": fake}) as (house, _):
            host = answering(await pair.host(house, capabilities=FORMS), YES)
            params = {"name": "db__echo", "arguments": {}}
            if run == 1:
                asked = (await host.ask("tools/call", params))["result"]
                relayed = (await host.ask("tools/call", await host.fulfil(params, asked)))["result"]
                state = relayed["requestState"]
            retry = {**params, "requestState": state, "inputResponses": {"q": {"action": "decline"}}}
            result = (await host.ask("tools/call", retry))["result"]
            assert result["resultType"] == ("complete" if run == 1 else "input_required")
            assert run == 1 or set(result["inputRequests"]) == {"hub-approval"}


@pytest.mark.covers("POL-11")
async def test_what_other_rules_deny_is_asked_no_more(pair: Pair, autojump_clock):
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        id = failure_of(await host.call("db__echo"))["request"]
        house.hub.apply(structs.replace(house.hub.config, policy=PolicyConfig(ask=("*",), deny=("db__*",))))
        assert (await listed(house)).requests == ()
        with pytest.raises(HubError, match="no request"):
            await people(house).approval_give(id)


async def change_program(house, fake):
    """Have another program run as `db`."""
    upstreams = {"db": structs.replace(house.hub.config.upstreams["db"], args=("--other",))}
    config = structs.replace(house.hub.config, upstreams=upstreams)
    await house.hub.prepare(config)
    house.hub.apply(config)
    await trio.sleep(1)


async def change_definition(house, fake):
    """Have the tool of `db` do something else."""
    fake.lists["tools"][0]["description"] = "It does something else now."
    await fake.conversation.tell("notifications/tools/list_changed")
    await trio.sleep(1)


@pytest.mark.covers("POL-22", "POL-25")
async def test_a_yes_to_one_program_is_none_to_another(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        id = failure_of(await host.call("db__echo"))["request"]
        await people(house).approval_give(id)
        await change_program(house, fake)
        assert failure_of(await host.call("db__echo"))["request"] != id
        assert calls == []


@pytest.mark.covers("POL-22")
@pytest.mark.parametrize("change", [change_program, change_definition])
async def test_what_changes_while_a_person_reads_is_asked_about_anew(pair: Pair, change, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)

        async def read(params):
            if len(host.asked) == 1:
                assert calls == []
                await change(house, fake)
            return YES

        host.on["elicitation/create"] = read
        assert text_of(await host.call("db__echo")) == "call 1"
        first, second = [each["params"]["message"] for each in host.asked]
        assert ("which is db --other" in second) == (first != second) == (change is change_program)


@pytest.mark.covers("POL-28")
async def test_another_definition_is_asked_about_anew(pair: Pair, autojump_clock, tmp_path):
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}, grants=tmp_path / "grants.json") as (house, _):
        host = answering(
            await pair.host(house, capabilities=FORMS), {"action": "accept", "content": {"decision": "always"}}
        )
        for times in (1, 1):
            await host.call("db__echo")
            assert len(host.asked) == times
        fake.lists["tools"][0]["description"] = "It does something else now."
        house.hub.supervisor.restart("db")
        await trio.sleep(10)
        await host.call("db__echo")
        assert len(host.asked) == 2


@pytest.mark.covers("POL-28", "POL-62")
async def test_the_third_leg_is_another_question(autojump_clock, tmp_path):
    pair = Pair("LL", "lines")
    fakes = {name: pair.fake(tools=["go"]) for name in ("files", "web", "mail")}
    more = {"files": {"flow": ("private",)}, "web": {"flow": ("untrusted",)}, "mail": {"flow": ("outward",)}}
    policy = PolicyConfig(ask=("mail__go",), trifecta="ask")
    async with pair.house(fakes, upstreams=more, policy=policy, grants=tmp_path / "grants.json") as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        answering(host, {"action": "accept", "content": {"decision": "always"}})
        for name, asked in (("mail", 1), ("mail", 1), ("files", 1), ("web", 1), ("mail", 2)):
            assert not (await host.call(f"{name}__go")).get("isError")
            assert len(host.asked) == asked, name
        assert host.asked[-1]["params"]["message"].partition("rule: ")[2].startswith("trifecta")


@pytest.mark.covers("POL-28")
async def test_another_rule_in_the_place_of_one_asks_anew(pair: Pair, autojump_clock, tmp_path):
    fake, _ = counting(pair)
    rule = ConditionalRule(effect="ask", match=("db__e*",))
    async with pair.house({"db": fake}, policy=PolicyConfig(rules=(rule,)), grants=tmp_path / "grants.json") as (
        house,
        _,
    ):
        host = await pair.host(house, capabilities=FORMS)
        answering(host, {"action": "accept", "content": {"decision": "always"}})
        moved = ConditionalRule(effect="ask", match=("db__x",)), rule
        other = structs.replace(rule, reason="these are payments")
        for rules, asked in (((rule,), 1), (moved, 1), ((other,), 2), ((other, rule), 3), ((other,), 3)):
            config = structs.replace(house.hub.config, policy=PolicyConfig(rules=rules))
            await house.hub.prepare(config)
            house.hub.apply(config)
            await trio.sleep(1)
            assert await host.call("db__echo")
            assert len(host.asked) == asked, rules


@pytest.mark.covers("POL-02", "POL-21")
async def test_prompts_and_reads_are_asked_about_as_calls(pair: Pair, autojump_clock):
    fake = pair.fake(prompts=[{"name": "p"}], resources=[{"uri": "mem://a", "name": "a"}], resourceTemplates=[])
    got = []

    def read(message, conversation):
        got.append(message["method"])
        more = {} if pair.to_legacy else {"ttlMs": 60_000, "cacheScope": "public"}
        return pair.whole(contents=[{"uri": "mem://a", "text": "secret"}], **more)

    def prompt(message, conversation):
        got.append(message["method"])
        return pair.whole(messages=[])

    fake.on |= {"resources/read": read, "prompts/get": prompt}
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES)
        for number in (1, 2):  # the second read is not answered from the cache before somebody has said yes
            assert (await host.result("resources/read", {"uri": "mem://a"}))["contents"][0]["text"] == "secret"
            await host.result("prompts/get", {"name": "db__p"})
            assert len(host.asked) == 2 * number
        assert host.asked[0]["params"]["message"].startswith('hubd: may "desk" read mem://a?')
        assert host.asked[1]["params"]["message"].startswith('hubd: may "desk" use the prompt db__p?')
        silent = await pair.host(house)
        data = (await silent.error("resources/read", {"uri": "mem://a"}))["data"]
        assert (data["hub"], data["executed"]) == ("approval_required", "no")


@pytest.mark.covers("POL-02")
async def test_where_nobody_can_be_asked_a_grant_is_needed(autojump_clock):
    pair = Pair("LL", "lines")
    fake = pair.fake(prompts=[{"name": "p", "arguments": [{"name": "x"}]}], resources=[{"uri": "mem://a", "name": "a"}])
    fake.capabilities["completions"] = {}
    fake.on["completion/complete"] = lambda message, conversation: {"completion": {"values": ["v"]}}
    complete = {"ref": {"type": "ref/prompt", "name": "db__p"}, "argument": {"name": "x", "value": ""}}
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        for method, params in (("resources/subscribe", {"uri": "mem://a"}), ("completion/complete", complete)):
            data = (await host.error(method, params))["data"]
            assert data["hub"] == "approval_required"
            assert host.asked == []
            await people(house).approval_give(data["request"], "session")
            await host.result(method, params)
            await host.result(method, params)


@pytest.mark.covers("POL-21")
async def test_a_call_that_waits_for_its_user_reports_progress(autojump_clock):
    pair = Pair("LL", "lines")
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)

        async def think(params):
            await trio.sleep(100)
            return YES

        host.on["elicitation/create"] = think
        assert text_of(await host.call("db__echo", token="t")) == "call 1"
        assert len(host.of("notifications/progress")) >= 4


@pytest.mark.covers("POL-21")
async def test_nobody_is_asked_for_ever(autojump_clock):
    pair = Pair("LL", "lines")
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        begun = trio.current_time()
        assert failure_of(await host.call("db__echo"))["hub"] == "approval_required"
        assert trio.current_time() - begun == pytest.approx(900)
        assert calls == []


@pytest.mark.covers("POL-20", "POL-29")
async def test_equal_calls_are_asked_about_one_after_the_other(autojump_clock):
    pair = Pair("LL", "lines")
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        questions = [await host.start("tools/call", {"name": "db__echo", "arguments": {}}) for _ in range(3)]
        others = [await host.start("tools/call", {"name": "db__echo", "arguments": {"n": n}}) for n in range(4)]
        await trio.testing.wait_all_tasks_blocked()
        assert len(host.asked) == 3  # one for the equal ones, and as many in all as a host shows at a time
        [waiting] = [each.waiting for each in (await listed(house)).requests if each.arguments == ""]
        assert waiting == 3
        answering(host, YES)
        for request in list(host.asked):
            await host.answer(request)
        for question in (*questions, *others):
            assert text_of((await question.wait())["result"]).startswith("call ")
        assert len(host.asked) == 7


@pytest.mark.covers("I-12")
async def test_a_call_that_is_cancelled_at_any_step_leaves_nothing(autojump_clock):
    pair = Pair("LL", "lines")
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES)

        async def start(n):
            return await host.start_without_waiting("tools/call", {"name": "db__echo", "arguments": {"n": n}})

        async def after():
            assert all(not each.waiting for each in (await listed(house)).requests)
            await trio.sleep(900)
            assert (await listed(house)).requests == ()

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after) > 5


@pytest.mark.covers("POL-02", "POL-21")
async def test_calls_by_way_of_the_hubs_own_tool_are_asked_about(pair: Pair, autojump_clock):
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), {"action": "decline"}, YES)
        host.via = "hub__call_tool"
        assert failure_of(await host.call("db__echo", {"a": 1}))["hub"] == "approval_declined"
        assert text_of(await host.call("db__echo", {"a": 1})) == "call 1"
        assert [each["params"]["message"].split("\n")[0] for each in host.asked] == [
            'hubd: may "desk" run db__echo?'
        ] * 2
        assert calls[0]["arguments"] == {"a": 1}


@pytest.mark.covers("POL-22")
async def test_a_call_that_is_lost_is_never_made_anew_behind_the_yes(autojump_clock):
    pair, retry = Pair("ML", "http"), {}
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    own = {"db": {"session_mode": "per_host"}}
    for run in (1, 2):
        fake = pair.fake()
        fake.on["tools/call"] = pair.asks({"q": ("elicitation/create", form)}, lambda found: {"content": []})
        async with asking(pair, {"db": fake}, upstreams=own, on_lost="restart") as (house, _):
            host = answering(await pair.host(house, capabilities=FORMS), YES)
            if run == 1:
                params = {"name": "db__echo", "arguments": {}}
                asked = (await host.ask("tools/call", params))["result"]
                parked = (await host.ask("tools/call", await host.fulfil(params, asked)))["result"]
                retry = await host.fulfil(params, parked)
                assert "hub-approval" not in parked["inputRequests"]
                house.nursery.cancel_scope.cancel()
            else:
                assert (await host.error("tools/call", retry))["data"]["reason"] == "upstream_lost"
                assert fake.conversations == [] or fake.conversation.of("tools/call") == []
    assert (run, set(retry)) == (2, {"name", "arguments", "inputResponses", "requestState"})


@pytest.mark.covers("POL-11", "POL-22")
@pytest.mark.parametrize("name", ["ML", "MM"])
async def test_an_answer_that_no_rule_needs_any_more(name, autojump_clock):
    pair = Pair(name, "http")
    fake, calls = counting(pair)
    async with asking(pair, {"db": fake}) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), YES)
        params = {"name": "db__echo", "arguments": {}}
        asked = (await host.ask("tools/call", params))["result"]
        house.hub.apply(structs.replace(house.hub.config, policy=PolicyConfig()))
        retry = await host.fulfil(params, asked)
        assert text_of((await host.ask("tools/call", retry))["result"]) == "call 1"
        assert not {"inputResponses", "requestState"} & calls[0].keys()


@pytest.mark.covers("POL-11", "POL-22")
@pytest.mark.parametrize("decision", ["once", "session", ""])
async def test_a_state_of_before_a_rule_does_not_spare_its_question(decision, autojump_clock):
    pair = Pair("MM", "lines")
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    fake, calls = pair.fake(), []
    asks = pair.asks({"q": ("elicitation/create", form)}, lambda found: {"content": []})

    def call(message, conversation):
        calls.append(message["params"])
        return asks(message, conversation)

    fake.on["tools/call"] = call
    async with pair.house({"db": fake}) as (house, _):
        host = await pair.host(house, capabilities=FORMS)
        answering(host, {"action": "accept", "content": {"decision": decision}})
        params = {"name": "db__echo", "arguments": {}}
        early = (await host.ask("tools/call", params))["result"]
        house.hub.apply(structs.replace(house.hub.config, policy=RULES))
        answers = await host.fulfil(params, early)
        first = (await host.ask("tools/call", answers))["result"]
        assert first["inputRequests"].keys() == {"hub-approval"}, "nobody has agreed to that"
        assert len(calls) == 1
        second = (await host.ask("tools/call", await host.fulfil(params, first)))["result"]
        if not decision:
            assert failure_of(second)["hub"] == "approval_required"
            assert len(calls) == 1
            return
        assert second["inputRequests"].keys() == {"q"}, "it begins anew"
        third = (await host.ask("tools/call", await host.fulfil(params, second)))["result"]
        assert third["content"] == []
        assert [("requestState" in call) for call in calls] == [False, False, True]
        if decision == "session":
            assert (await host.ask("tools/call", answers))["result"]["content"] == [], "that is agreed to by now"
            assert len(calls) == 4


@pytest.mark.covers("POL-25")
async def test_requests_of_rules_that_are_gone_are_dropped(autojump_clock):
    pair = Pair("LL", "lines")
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        failure_of(await host.call("db__echo"))
        for asks, left in ((("prompt:*", "db__*", "*"), 1), (("prompt:*", "db__e*"), 0), ((), 0)):
            house.hub.apply(structs.replace(house.hub.config, policy=PolicyConfig(ask=asks)))
            await trio.testing.wait_all_tasks_blocked()
            assert len((await listed(house)).requests) == left


@pytest.mark.covers("AUD-01", "POL-22")
async def test_a_no_that_was_heard_is_not_told_again(autojump_clock):
    pair = Pair("LL", "lines")
    fake, _ = counting(pair)
    async with asking(pair, {"db": fake}) as (house, host):
        for is_heard, kind in ((True, "approval_required"), (False, "approval_declined")):
            await people(house).approval_deny(failure_of(await host.call("db__echo"))["request"], heard=is_heard)
            assert failure_of(await host.call("db__echo"))["hub"] == kind
