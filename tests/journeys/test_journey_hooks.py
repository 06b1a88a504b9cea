"""Hooks around calls of tools, in all pairs; what they answer is scripted."""

import pytest

from config.security_settings import HookConfig, PolicyConfig
from hub.rules.hooks.messages import HookFailed
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import MODERN
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_approvals import FORMS, answering, counting, failure_of, text_of
from tests.journeys.test_journey_tasks import EXTENSION, TaskServer, text
from tests.support.failure_facts import but_ref
from tests.support.house import BOB

YES = {"action": "accept", "content": {"decision": "once"}}


def hook(name="dlp", on="before", match=("*",), **settings):
    return HookConfig(name=name, on=on, match=match, command=("check",), **settings)


@pytest.mark.covers("POL-40", "POL-41")
async def test_a_hook_denies_a_call(pair: Pair, script, autojump_clock):
    fake, calls = counting(pair)
    script.answers["dlp"] = lambda told: (2, b"", b"contains customer data") if told["tool_input"].get("bad") else None
    async with pair.house({"db": fake}, hooks=(hook(),)) as (_, host):
        assert text_of(await host.call("db__echo", {"n": 1})) == "call 1"
        refused = await host.call("db__echo", {"bad": True})
        assert but_ref(failure_of(refused)) == {"hub": "denied", "executed": "no", "retryable": False, "upstream": "db"}
        assert text_of(refused) == "Not run: contains customer data. Do not try again with the same arguments."
        assert len(calls) == 1
        told = script.told[0][1]
        assert (told["tool_name"], told["tool_input"]) == ("mcp__db__echo", {"n": 1})
        assert (told["hub"]["host"], told["hub"]["principal"], told["hub"]["exposed"]) == ("desk", "alice", "db__echo")


@pytest.mark.covers("POL-42")
async def test_a_server_evades_no_hook_by_another_tool_of_the_name(pair: Pair, script, autojump_clock):
    fake = pair.fake(tools=["write", "scribble"])
    script.answers["dlp"] = lambda told: (2, b"", b"no")
    more = {"db": {"rename": {"write": "scribble"}}}
    async with pair.house({"db": fake}, upstreams=more, hooks=(hook(match=("db__scribble",)),)) as (_, host):
        for name in ("db__write", "db__scribble"):
            assert failure_of(await host.call(name))["hub"] == "denied"


@pytest.mark.covers("POL-42")
async def test_hooks_are_asked_in_order_and_rewrite(pair: Pair, script, autojump_clock):
    fake, calls = counting(pair)
    script.before("first", updatedInput={"n": 2})
    script.before("second", updatedInput={"n": 3})
    script.answers["third"] = lambda told: None
    hooks = (hook("first", may=("rewrite",)), hook("second"), hook("third"))
    async with pair.house({"db": fake}, hooks=hooks) as (_, host):
        await host.call("db__echo", {"n": 1})
        assert [(name, told["tool_input"]["n"]) for name, told in script.told] == [
            ("first", 1),
            ("second", 2),
            ("third", 2),
        ]
        assert calls[0]["arguments"] == {"n": 2}  # the second may not rewrite
        script.answers["first"] = lambda told: (2, b"", b"no")
        script.told.clear()
        await host.call("db__echo", {"n": 1})
        assert [name for name, _ in script.told] == ["first"]


@pytest.mark.covers("POL-41")
@pytest.mark.parametrize("on_error", ["deny", "pass"])
async def test_no_answer_denies_unless_it_says_otherwise(pair: Pair, script, on_error, autojump_clock):
    fake, calls = counting(pair)
    script.answers["dlp"] = lambda told: HookFailed("it hangs")
    async with pair.house({"db": fake}, hooks=(hook(on_error=on_error),)) as (_, host):
        result = await host.call("db__echo")
        if on_error == "pass":
            assert text_of(result) == "call 1"
        else:
            failure = failure_of(result)
            assert (failure["hub"], failure["executed"]) == ("hook_failed", "no")
            assert text_of(result).startswith("Not run: the check dlp gave no answer (ref ")
            assert calls == []


@pytest.mark.covers("POL-41", "POL-42")
async def test_a_hook_has_a_person_asked_about_what_it_rewrote(pair: Pair, script, autojump_clock):
    fake, calls = counting(pair)
    script.before("dlp", permissionDecision="ask", updatedInput={"path": "/safe"})
    async with pair.house({"db": fake}, hooks=(hook(may=("rewrite",)),)) as (_, host):
        assert failure_of(await host.call("db__echo", {"path": "/x"}))["hub"] == "approval_required"
        assert calls == []
    fake, calls = counting(pair)
    async with pair.house({"db": fake}, hooks=(hook(may=("rewrite",)),)) as (house, _):
        asked = answering(await pair.host(house, capabilities=FORMS, identity=BOB), YES)
        assert text_of(await asked.call("db__echo", {"path": "/x"})) == "call 1"
        message = asked.asked[0]["params"]["message"]
        assert 'arguments: path="/safe"' in message
        assert message.endswith("rule: hook dlp")
        assert calls[0]["arguments"] == {"path": "/safe"}


@pytest.mark.covers("POL-41")
@pytest.mark.parametrize("may", [("allow",), ()])
async def test_a_hook_may_agree_in_place_of_a_person(pair: Pair, script, may, autojump_clock):
    fake, calls = counting(pair)
    script.before("dlp", permissionDecision="allow")
    rules = PolicyConfig(ask=("db__*",))
    async with pair.house({"db": fake}, hooks=(hook(may=may),), policy=rules) as (_, host):
        result = await host.call("db__echo")
        assert text_of(result) == "call 1" if may else failure_of(result)["hub"] == "approval_required"
        assert len(calls) == len(may)


@pytest.mark.covers("POL-41", "POL-42")
async def test_a_hook_agrees_only_to_what_it_has_seen(pair: Pair, script, autojump_clock):
    fake, calls = counting(pair)
    script.before("first", permissionDecision="allow")
    script.before("second", updatedInput={"path": "/etc/evil"})
    hooks = (hook("first", may=("allow",)), hook("second", may=("rewrite", "allow")))
    async with pair.house({"db": fake}, hooks=hooks, policy=PolicyConfig(ask=("db__*",))) as (_, host):
        assert failure_of(await host.call("db__echo", {"path": "/ok"}))["hub"] == "approval_required"
        assert calls == []
        script.before("second", updatedInput={"path": "/fine"}, permissionDecision="allow")
        assert text_of(await host.call("db__echo", {"path": "/ok"})) == "call 1"


@pytest.mark.covers("POL-41")
async def test_no_hook_beats_a_deny(pair: Pair, script, autojump_clock):
    fake, calls = counting(pair)
    script.before("dlp", permissionDecision="allow")
    rules = PolicyConfig(deny=("db__*",))
    async with pair.house({"db": fake}, hooks=(hook(may=("allow",)),), policy=rules) as (_, host):
        assert (await host.error("tools/call", {"name": "db__echo"}))["code"] == -32602
        assert script.told == calls == []


@pytest.mark.covers("POL-41")
async def test_a_hook_after_a_call_withholds_or_rewrites(pair: Pair, script, autojump_clock):
    fake, calls = counting(pair)
    script.answers["dlp"] = lambda told: {"decision": "block", "reason": "it has a secret"}
    async with pair.house({"db": fake}, hooks=(hook(on="after", may=("rewrite",)),)) as (_, host):
        withheld = await host.call("db__echo", {"n": 1})
        assert failure_of(withheld)["executed"] == "yes"
        assert text_of(withheld) == "The result is withheld: it has a secret."
        told = script.told[0][1]
        assert told["tool_response"]["content"][0]["text"] == "call 1"
        assert told["tool_input"] == {"n": 1}
        other = {"content": [{"type": "text", "text": "***"}]}
        script.answers["dlp"] = lambda told: {"hookSpecificOutput": {"updatedMCPToolOutput": other}}
        assert text_of(await host.call("db__echo")) == "***"
        script.answers["dlp"] = lambda told: None
        assert text_of(await host.call("db__echo")) == "call 3"
        assert len(calls) == 3


@pytest.mark.covers("POL-41")
async def test_a_hook_after_a_call_sees_an_error_of_the_server(pair: Pair, script, autojump_clock):
    fake = pair.fake(tools=["echo"])
    fake.on["tools/call"] = lambda *_: Failure(-32000, "the secret is 42", raw({"more": "43"}))
    script.answers["dlp"] = lambda told: {"decision": "block", "reason": "it has a secret"}
    async with pair.house({"db": fake}, hooks=(hook(on="after", may=("rewrite",)),)) as (_, host):
        assert text_of(await host.call("db__echo")) == "The result is withheld: it has a secret."
        told = script.told[0][1]["tool_response"]
        said, data = (each["text"] for each in told["content"])
        assert (told["isError"], said) == (True, "the secret is 42")
        assert '{"more":"43"}' in data
        other = {"content": [{"type": "text", "text": "***"}], "isError": True}
        script.answers["dlp"] = lambda told: {"hookSpecificOutput": {"updatedMCPToolOutput": other}}
        assert text_of(await host.call("db__echo")) == "***"
        script.answers["dlp"] = lambda told: None
        assert "secret is 42" in (await host.error("tools/call", {"name": "db__echo", "arguments": {}}))["message"]


@pytest.mark.covers("POL-42")
async def test_each_round_of_a_call_is_asked_about(pair: Pair, script, autojump_clock):
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    fake = pair.fake()
    fake.on["tools/call"] = pair.asks(
        {"q": ("elicitation/create", form)}, lambda found: {"content": [{"type": "text", "text": "done"}]}
    )
    script.before("dlp", updatedInput={"n": 2})
    script.answers["see"] = lambda told: None
    hooks = (hook(may=("rewrite",)), hook("see", on="after"))
    own = {"db": {"session_mode": "per_host"}}
    async with pair.house({"db": fake}, hooks=hooks, upstreams=own) as (house, _):
        host = answering(await pair.host(house, capabilities=FORMS), {"action": "accept", "content": {}})
        assert text_of(await host.call("db__echo", {"n": 1})) == "done"
        sent = [each["params"]["arguments"] for each in fake.conversation.of("tools/call")]
        assert sent == [{"n": 2}] * (1 if pair.to_legacy else 2)
        assert [name for name, _ in script.told].count("see") == 1


async def test_only_tools_that_match_are_asked_about(pair: Pair, script, autojump_clock):
    fake, _ = counting(pair, tools=["echo", "other"])
    script.answers["dlp"] = lambda told: (2, b"", b"no")
    hooks = (hook(match=("db__other", "db__echo principal:bob")),)
    async with pair.house({"db": fake}, hooks=hooks) as (house, host):
        assert text_of(await host.call("db__echo")) == "call 1"
        assert failure_of(await host.call("db__other"))["hub"] == "denied"
        bob = await pair.host(house, identity=BOB)
        assert failure_of(await bob.call("db__echo"))["hub"] == "denied"
        assert await host.names() == ["db__echo", "db__other"]


@pytest.mark.covers("POL-41")
async def test_a_result_that_comes_later_passes_the_hook(script, autojump_clock):
    async def work(task):
        task.complete(text("secret", resultType="complete"))

    server = TaskServer(MODERN, work)
    script.answers["see"] = lambda told: {"decision": "block", "reason": "it has a secret"}
    pair = Pair("MM", "http")
    async with pair.house({"up": server}, hooks=(hook("see", on="after"),)) as (house, _):
        host = await pair.host(house, capabilities=EXTENSION)
        result = await host.call(f"up__{server.lists['tools'][0]['name']}")
        assert text_of(result) == "The result is withheld: it has a secret."
