"""What rules, hooks, people and budgets decide about calls is in the audit log, under the numbers of the calls."""

import json
import time
from contextlib import aclosing, asynccontextmanager

import pytest
import trio
import trio.testing
from msgspec import structs

from config.security_settings import ConditionalRule, ElicitationBudget, HookConfig, PolicyConfig
from config.settings import AuditConfig
from hub.link.log_context import spell_ref
from hub.rules.audit.files import AuditFiles, logs_in
from hub.rules.audit.writer import Audit
from hub.rules.hooks.messages import Opinion
from hub.wire.mcp import L4, MODERN
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_approvals import FORMS, YES, answering, counting, failure_of, people, text_of
from tests.journeys.test_journey_policy import apply
from tests.journeys.test_journey_tasks import EXTENSION, TaskServer, asking, begin
from tests.support.audit_log import all_lines
from tests.support.house import a_house


@asynccontextmanager
async def written(pair, tmp_path, fakes, **more):
    """A house, its host, and what reads the audit log: the records of calls and of decisions."""
    audit = Audit(AuditConfig(), AuditFiles(tmp_path / "audit", time.time), key=b"k" * 32, wall=time.time)  # noqa: TID251

    async def read():
        assert await audit.flush()
        lines = b"".join(all_lines(logs_in(tmp_path / "audit")["audit.jsonl"])).splitlines()
        return [record for record in map(json.loads, lines) if record["k"] not in ("open", "pin")]

    try:
        async with pair.house(fakes, audit=audit, **more) as (house, host):
            yield house, host, read
    finally:
        audit.close()


@pytest.mark.covers("AUD-01", "POL-21")
async def test_a_call_that_a_person_agrees_to(pair: Pair, tmp_path, autojump_clock):
    fake, _ = counting(pair)
    async with written(pair, tmp_path, {"db": fake}, policy=PolicyConfig(ask=("*",))) as (house, _, read):
        host = answering(await pair.host(house, capabilities=FORMS), YES)
        assert text_of(await host.call("db__echo")) == "call 1"
        ask, approve, begin, end = await read()
    assert [record["k"] for record in (ask, approve, begin, end)] == ["ask", "approve", "begin", "end"]
    assert (begin["by"], begin["rule"]) == ("ask", "ask[0]")
    assert ask["request"] == approve["request"]
    assert end["ref"] == begin["ref"]
    assert ask["ref"] == (begin["ref"] if pair.from_legacy else begin["first"])


@pytest.mark.covers("AUD-01", "POL-21")
async def test_a_call_that_was_approved_outside_says_which_was_asked_about(pair: Pair, tmp_path, autojump_clock):
    fake, _ = counting(pair)
    async with written(pair, tmp_path, {"db": fake}, policy=PolicyConfig(ask=("*",))) as (house, host, read):
        failure = failure_of(await host.call("db__echo"))
        await people(house).approval_give(failure["request"])
        assert text_of(await host.call("db__echo")) == "call 1"
        ask, _, begin, _ = await read()
    assert (ask["k"], begin["k"]) == ("ask", "begin")
    assert ask["ref"] == begin["first"] != begin["ref"]


@pytest.mark.covers("AUD-01", "POL-08")
async def test_what_is_denied_is_a_refusal(pair: Pair, tmp_path, autojump_clock):
    fake, calls = counting(pair)
    async with written(pair, tmp_path, {"db": fake}, policy=PolicyConfig(deny=("*",))) as (house, host, read):
        await host.error("tools/call", {"name": "db__echo", "arguments": {}})
        [refuse] = await read()
        [ended] = house.hub.router.chains.recorder.ring
    assert not calls
    assert refuse["ref"] == spell_ref(ended.ref)
    assert (refuse["k"], refuse["name"], refuse["rule"]) == ("refuse", "db__echo", "deny[0]")


@pytest.mark.covers("AUD-01", "POL-42", "POL-50")
async def test_what_a_hook_decides_and_what_it_rewrites_in_vain(pair: Pair, tmp_path, monkeypatch, autojump_clock):
    fake, calls = counting(pair, tools=[])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    fake.lists["tools"] = [{"name": "echo", "inputSchema": schema}]
    opinions = [Opinion("deny", "no"), Opinion(rewritten=b'{"n":"x"}')]

    async def ask(hook, message, event, asker):
        return opinions.pop(0)

    monkeypatch.setattr("hub.rules.hooks.run.Hook.ask", ask)
    hooks = (HookConfig(name="dlp", on="before", match=("*",), command=("check",), may=("rewrite",)),)
    async with written(pair, tmp_path, {"db": fake}, hooks=hooks) as (_, host, read):
        assert failure_of(await host.call("db__echo", {"n": 1}))["hub"] == "denied"
        assert failure_of(await host.call("db__echo", {"n": 1}))["hub"] == "invalid_arguments"
        hook, misfit = await read()
    assert not calls
    assert (misfit["k"], misfit["kind"], misfit["name"]) == ("refuse", "invalid_arguments", "db__echo")
    assert (hook["k"], hook["hook"], hook["decision"]) == ("hook", "dlp", "deny")
    assert len(hook["ref"]) == 8


@pytest.mark.covers("AUD-01", "POL-50")
async def test_arguments_that_do_not_fit_are_a_refusal(pair: Pair, tmp_path, autojump_clock):
    fake, calls = counting(pair, tools=[])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    fake.lists["tools"] = [{"name": "echo", "inputSchema": schema}]
    async with written(pair, tmp_path, {"db": fake}, upstreams={"db": {"validate_": "strict"}}) as (_, host, read):
        assert failure_of(await host.call("db__echo", {"n": "x"}))["hub"] == "invalid_arguments"
        [refuse] = await read()
    assert not calls
    assert (refuse["k"], refuse["kind"], refuse["name"]) == ("refuse", "invalid_arguments", "db__echo")


@pytest.mark.covers("AUD-01", "POL-02")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_is_denied_about_a_task_is_a_refusal(version, autojump_clock):
    refused: list[tuple[str, ...]] = []
    async with a_house({"files": TaskServer(version, asking)}) as house:
        host = await house.host("http", MODERN, capabilities={**EXTENSION, "elicitation": {"form": {}}})
        id = await begin(host)
        await apply(house, PolicyConfig(deny=("files__slow",)))
        house.hub.judge.note = lambda kind, **its: refused.append((kind, its["m"], its["name"], its["rule"]))
        for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
            assert (await host.error(method, {"taskId": id, **more}))["code"] == -32602
        await apply(house, PolicyConfig())
        await host.result("tasks/cancel", {"taskId": id})
        await trio.sleep(9)
    assert refused == [("refuse", method, "files__slow", "deny[0]") for method in ("tasks/update", "tasks/cancel")]


@pytest.mark.covers("AUD-01", "POL-15", "POL-42")
async def test_what_rules_deny_of_what_a_hook_rewrites(pair: Pair, tmp_path, monkeypatch, autojump_clock):
    fake, calls = counting(pair)

    async def ask(hook, message, event, asker):
        return Opinion(rewritten=b'{"path":"/etc"}')

    monkeypatch.setattr("hub.rules.hooks.run.Hook.ask", ask)
    hooks = (HookConfig(name="dlp", on="before", match=("*",), command=("check",), may=("rewrite",)),)
    rule = ConditionalRule(effect="deny", match=("db__echo",), when='args.path == "/etc"')
    policy = PolicyConfig(rules=(rule,))
    async with written(pair, tmp_path, {"db": fake}, hooks=hooks, policy=policy) as (_, host, read):
        assert failure_of(await host.call("db__echo", {"path": "/notes"}))["hub"] == "denied"
        [refuse] = await read()
    assert not calls
    assert (refuse["k"], refuse["name"], refuse["rule"]) == ("refuse", "db__echo", "rules[0]")


@pytest.mark.covers("AUD-01", "POL-29")
async def test_what_nobody_is_asked_about_is_a_refusal(pair: Pair, tmp_path, autojump_clock):
    fake, calls = counting(pair)
    async with written(pair, tmp_path, {"db": fake}, policy=PolicyConfig(ask=("*",))) as (_, host, read):
        assert failure_of(await host.call("db__echo", {"a": "x" * 70_000}))["hub"] == "denied"
        for number in range(11):
            failure = failure_of(await host.call("db__echo", {"a": number}))
        assert failure["hub"] == "overloaded"
        large, *asks, many = await read()
    assert not calls
    assert [record["k"] for record in asks] == ["ask"] * 10
    assert [(record["k"], record["rule"], record["why"]) for record in (large, many)] == [
        ("refuse", "ask[0]", "too large to be looked through"),
        ("refuse", "ask[0]", "too many wait for a person"),
    ]


@pytest.mark.covers("AUD-01", "POL-11")
async def test_a_deny_that_comes_while_a_call_waits_is_a_refusal(pair: Pair, tmp_path, autojump_clock):
    fake, calls = counting(pair)
    async with written(pair, tmp_path, {"db": fake}, policy=PolicyConfig(ask=("*",))) as (house, host, read):
        async with aclosing(people(house).approvals(follow=True)) as watching:
            await anext(watching)
            question = await host.start("tools/call", {"name": "db__echo", "arguments": {}})
            await trio.testing.wait_all_tasks_blocked()
            house.hub.apply(structs.replace(house.hub.config, policy=PolicyConfig(deny=("db__*",))))
            assert failure_of((await question.wait())["result"])["hub"] == "denied"
        ask, refuse = [record for record in await read() if record["k"] != "config"]
    assert not calls
    assert (ask["k"], refuse["k"], refuse["rule"]) == ("ask", "refuse", "deny[0]")
    assert ask["ref"] == refuse["ref"]


@pytest.mark.covers("AUD-01", "POL-56")
async def test_what_a_server_asks_people(pair: Pair, tmp_path, autojump_clock):
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    fake = pair.fake()
    fake.on["tools/call"] = pair.asks({"q": ("elicitation/create", form)}, lambda found: {"content": []})
    settings = {"db": {"session_mode": "per_host", "elicitation": ElicitationBudget(per_minute=1)}}
    async with written(pair, tmp_path, {"db": fake}, upstreams=settings) as (house, _, read):
        host = answering(await pair.host(house, capabilities=FORMS), {"action": "accept", "content": {}})
        for _ in range(2):
            await host.call("db__echo")
        relays = [record for record in await read() if record["k"] == "relay"]
    assert [(record["m"], record.get("kind")) for record in relays] == [
        *(("elicitation/create", None), ("elicitation/create", "refused"))
    ]
