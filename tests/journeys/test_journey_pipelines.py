"""Pipelines: several calls of tools as one tool, whose steps report to, ask and are cancelled by the host of the
pipeline."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Pipeline, PipelineStep, Profile
from config.security_settings import PolicyConfig
from config.settings import ServerSettings, Timeouts
from hub.wire.jsonrpc import Failure, raw
from tests.journeys import test_journey_accounts as accounts
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_cancelled import PARK_S, Journey, inquisitive, tasks_of, willing
from tests.support.house import BOB, tasks_at_rest
from tests.support.sweeps import sweep

FORM = {
    "message": "Who?",
    "mode": "form",
    "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}
SAMPLE = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}
YES = {"action": "accept", "content": {"a": "me"}}
CAN = {"elicitation": {"form": {}}, "sampling": {}}
APPROVED = {"action": "accept", "content": {"decision": "once"}}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
SAVE = Pipeline(
    description="Save an issue as Markdown.",
    input=NUMBER,
    steps=(
        PipelineStep(id="issue", tool="github__get_issue", args={"owner": "acme", "issue_number": "${input.number}"}),
        PipelineStep(
            id="save", tool="files__write", args={"path": "issue-${input.number}.md", "content": "${issue.text}"}
        ),
    ),
)
PIPELINES = {"save_issue": SAVE}


def text(value):
    return [{"type": "text", "text": value}]


def servers(pair, **writes):
    """Two servers, which say what they were sent; `writes`: handlers of the second one."""
    github, files = pair.fake(tools=["get_issue"]), pair.fake(tools=["write"])
    github.on["tools/call"] = lambda message, _: pair.whole(
        content=text("issue ${input.number}"), structuredContent={"title": "Broken", "labels": ["a", "b"]}
    )
    files.on["tools/call"] = lambda message, _: pair.whole(content=text(json.dumps(message["params"]["arguments"])))
    files.on |= writes
    return {"github": github, "files": files}


def calls_of(fake):
    """The arguments of all calls of its tools."""
    received = [message for conversation in fake.conversations for message in conversation.received]
    return [each["params"]["arguments"] for each in received if each.get("method") == "tools/call"]


def failure_of(result):
    assert result["isError"] is True, result
    return result["_meta"]["dev.hubd/failure"]


def said(result):
    return result["content"][0]["text"]


@pytest.mark.covers("EF-1", "EF-6")
async def test_a_pipeline_is_listed_and_calls_its_tools_one_after_the_other(pair: Pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, pipelines=PIPELINES) as (_, host):
        assert await host.names() == ["hub__save_issue", "github__get_issue", "files__write"]
        [listed] = [tool for tool in (await host.result("tools/list"))["tools"] if tool["name"] == "hub__save_issue"]
        assert listed["inputSchema"] == NUMBER
        assert listed["description"] == "Save an issue as Markdown."
        result = await host.call("hub__save_issue", {"number": 7})
        direct = await host.call("files__write", {"path": "issue-7.md", "content": "issue ${input.number}"})
        assert result == direct
        assert json.loads(said(result)) == {"path": "issue-7.md", "content": "issue ${input.number}"}
        assert calls_of(fakes["github"]) == [{"owner": "acme", "issue_number": 7}]


@pytest.mark.covers("EF-3")
async def test_input_that_does_not_fit_is_refused_before_anything_is_called(pair: Pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, pipelines=PIPELINES) as (_, host):
        refused = await host.call("hub__save_issue", {"number": "seven"})
        assert failure_of(refused)["executed"] == "no"
        assert said(refused).startswith("The arguments do not fit the input schema of hub__save_issue. Nothing was")
        assert calls_of(fakes["github"]) == []


@pytest.mark.covers("EF-6")
async def test_progress_is_that_of_the_whole(pair: Pair, autojump_clock):
    half = trio.Event()

    async def write(message, conversation):
        token = message["params"]["_meta"]["progressToken"]
        about = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
        await conversation.tell("notifications/progress", about)
        half.set()
        await trio.sleep(5)
        return pair.whole(content=text("written"))

    fakes = servers(pair, **{"tools/call": write})
    async with pair.house(fakes, pipelines=PIPELINES) as (_, host):
        question = await host.start("tools/call", {"name": "hub__save_issue", "arguments": {"number": 7}}, token="t")
        await question.wait()
        told = [{name: each["params"][name] for name in ("progress", "total", "message")} for each in question.heard]
        assert told == [
            {"progress": 0, "total": 2, "message": "issue: github__get_issue"},
            {"progress": 1, "total": 2, "message": "save: files__write"},
            {"progress": 1.5, "total": 2, "message": "save: half"},
        ]


@pytest.mark.covers("EF-6")
async def test_cancelling_reaches_the_running_step(pair: Pair, autojump_clock):
    begun, cancelled = trio.Event(), trio.Event()

    async def write(message, conversation):
        begun.set()
        await trio.sleep_forever()

    fakes = servers(pair, **{"tools/call": write, "notifications/cancelled": lambda *_: cancelled.set()})
    async with pair.house(fakes, pipelines=PIPELINES) as (house, _):
        for capabilities in ({}, CAN):
            host = await pair.host(house, capabilities=capabilities)
            question = await host.start("tools/call", {"name": "hub__save_issue", "arguments": {"number": 7}})
            await begun.wait()
            await host.cancel(question)
            await cancelled.wait()
            begun, cancelled = trio.Event(), trio.Event()


@pytest.mark.covers("EF-6")
@pytest.mark.parametrize(
    ("method", "params", "answer"), [("elicitation/create", FORM, YES), ("sampling/createMessage", SAMPLE, SAMPLED)]
)
async def test_a_question_in_the_second_step_goes_to_the_host(pair: Pair, autojump_clock, method, params, answer):
    write = pair.asks({"a": (method, params)}, lambda answers: {"content": text(json.dumps(answers["a"]))})
    fakes = servers(pair, **{"tools/call": write})
    async with pair.house(fakes, pipelines=PIPELINES, upstreams={"files": {"session_mode": "per_host"}}) as (house, _):
        host = await pair.host(house, capabilities=CAN)
        host.on[method] = lambda params: answer
        assert json.loads(said(await host.call("hub__save_issue", {"number": 7}))) == answer
        assert [each["method"] for each in host.asked] == [method]
        assert len(calls_of(fakes["github"])) == 1


@pytest.mark.covers("EF-3", "EF-6")
async def test_a_person_is_asked_about_the_second_step(pair: Pair, autojump_clock):
    fakes = servers(pair)
    policy = PolicyConfig(ask=("files__write",))
    async with pair.house(fakes, pipelines=PIPELINES, policy=policy) as (house, _):
        host = await pair.host(house, capabilities=CAN)
        host.on["elicitation/create"] = lambda params: APPROVED
        assert json.loads(said(await host.call("hub__save_issue", {"number": 7})))["path"] == "issue-7.md"
        [asked] = host.asked
        assert asked["params"]["message"].startswith('hubd: may "desk" run files__write?')
        assert 'content="issue' in asked["params"]["message"]
        assert len(calls_of(fakes["github"])) == len(calls_of(fakes["files"])) == 1


@pytest.mark.covers("EF-3", "EF-5")
async def test_a_no_to_the_second_step_ends_it(pair: Pair, autojump_clock):
    fakes = servers(pair)
    policy = PolicyConfig(ask=("files__write",))
    async with pair.house(fakes, pipelines=PIPELINES, policy=policy) as (house, plain):
        host = await pair.host(house, capabilities=CAN)
        host.on["elicitation/create"] = lambda params: {"action": "decline"}
        refused = await host.call("hub__save_issue", {"number": 7})
        failure = failure_of(refused)
        assert (failure["hub"], failure["step"]) == ("approval_declined", "save")
        assert (failure["executed"], failure["retryable"]) == ("yes", False)
        assert said(refused).startswith("step 2 of 2 (save: files__write) failed: ")
        assert said(refused).endswith(" Step 1 was carried out.")
        untold = await plain.call("hub__save_issue", {"number": 8})
        assert failure_of(untold)["hub"] == "approval_required"
        assert calls_of(fakes["files"]) == []


@pytest.mark.covers("EF-5")
async def test_a_failing_step_says_what_was_done(pair: Pair, autojump_clock):
    error = pair.whole(content=text("no space left"), isError=True)
    fakes = servers(pair, **{"tools/call": lambda *_: error})
    async with pair.house(fakes, pipelines=PIPELINES) as (_, host):
        failed = await host.call("hub__save_issue", {"number": 7})
        summary = "step 2 of 2 (save: files__write) failed: no space left. Step 1 was carried out."
        assert [block["text"] for block in failed["content"]] == [summary]
        facts = {"hub": "pipeline", "executed": "yes", "retryable": False, "step": "save"}
        assert failure_of(failed) == facts
        fakes["github"].on["tools/call"] = lambda *_: Failure(-32603, "it broke")
        failed = await host.call("hub__save_issue", {"number": 7})
        assert said(failed) == "step 1 of 2 (issue: github__get_issue) failed: it broke."
        assert failure_of(failed)["executed"] == "unknown"


@pytest.mark.covers("EF-5")
async def test_the_words_of_a_failing_step_are_told_once(pair: Pair, autojump_clock):
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    answers = {
        "two lines": [text("no space\nleft on /notes")[0], picture],
        "long": text("x" * 600),
        "a picture first": [picture, text(" no space left ")[0]],
        "two texts": text("no space left") + text("of 3 files"),
        "a picture": [picture],
    }
    told = {}
    fakes = servers(pair)
    async with pair.house(fakes, pipelines=PIPELINES) as (_, host):
        for name, content in answers.items():
            error = pair.whole(content=content, isError=True)
            fakes["files"].on["tools/call"] = lambda *_, error=error: error
            told[name] = (await host.call("hub__save_issue", {"number": 7}))["content"]
    start = "step 2 of 2 (save: files__write) failed: "
    whole = text(f"{start}no space left. Step 1 was carried out.")
    only = text(f"{start}its own words follow. Step 1 was carried out.")
    assert told == {
        "two lines": [*only, *answers["two lines"]],
        "long": [*only, *answers["long"]],
        "a picture first": [*whole, picture],
        "two texts": [*whole, *text("of 3 files")],
        "a picture": [*text(f"{start}it does not say why. Step 1 was carried out."), picture],
    }


@pytest.mark.covers("EF-5")
async def test_a_value_that_is_missing_is_an_error_and_no_empty_text(pair: Pair, autojump_clock):
    fakes = servers(pair)
    fakes["github"].on["tools/call"] = lambda *_: pair.whole(content=[])
    async with pair.house(fakes, pipelines=PIPELINES) as (_, host):
        failed = await host.call("hub__save_issue", {"number": 7})
        assert "failed: there is no ${issue.text}: the result has no text" in said(failed)
        assert calls_of(fakes["files"]) == []


@pytest.mark.covers("EF-6")
async def test_the_time_for_all_steps_together_is_limited(pair: Pair, autojump_clock):
    async def write(message, conversation):
        await trio.sleep(100)

    fakes = servers(pair, **{"tools/call": write})
    defaults = ServerSettings(timeouts=Timeouts(call_total=30.0))
    async with pair.house(fakes, pipelines=PIPELINES, defaults=defaults) as (_, host):
        began = trio.current_time()
        failed = await host.call("hub__save_issue", {"number": 7})
        assert trio.current_time() - began == pytest.approx(30.0, abs=0.1)
        assert "the time for all steps together is over (timeouts.call_total, 30 s). Step 1" in said(failed)
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("EF-6")
async def test_a_large_result_is_not_inserted_but_may_be_the_last(pair: Pair, autojump_clock):
    large = "x" * (1 << 20)
    fakes = servers(pair)
    fakes["github"].on["tools/call"] = lambda *_: pair.whole(content=text(large))
    last = Pipeline(description="One.", steps=(PipelineStep(id="one", tool="github__get_issue"),))
    async with pair.house(fakes, pipelines={**PIPELINES, "one": last}) as (_, host):
        failed = await host.call("hub__save_issue", {"number": 7})
        assert "the result of issue has 10" in said(failed)
        assert calls_of(fakes["files"]) == []
        assert said(await host.call("hub__one")) == large


@pytest.mark.covers("EF-6")
async def test_results_that_are_kept_count_as_memory_of_the_hub(pair: Pair, autojump_clock):
    seen = []
    fakes = servers(pair)
    fakes["github"].on["tools/call"] = lambda *_: pair.whole(content=text("x" * 500_000))
    async with pair.house(fakes, pipelines=PIPELINES) as (house, host):

        def write(message, conversation):
            seen.append(house.hub.budget.used)
            return pair.whole(content=text("written"))

        fakes["files"].on["tools/call"] = write
        before = house.hub.budget.used
        assert said(await host.call("hub__save_issue", {"number": 7})) == "written"
        assert seen[0] - before >= 500_000
        assert house.hub.budget.used == before
        house.hub.budget.adjust(100_000)
        failed = await host.call("hub__save_issue", {"number": 7})
        assert said(failed).startswith("step 2 of 2 (save: files__write) failed: the hub has no memory left")
        assert len(calls_of(fakes["files"])) == 1


@pytest.mark.covers("EF-1")
async def test_parts_of_structured_content_keep_their_types(pair: Pair, autojump_clock):
    args = {"all": "${read.data}", "second": "${read.data.labels.1}", "line": "${read.data.labels}: $${read.text}"}
    steps = (PipelineStep(id="read", tool="github__get_issue"), PipelineStep(id="w", tool="files__write", args=args))
    fakes = servers(pair)
    async with pair.house(fakes, pipelines={"p": Pipeline(description="P.", steps=steps)}) as (_, host):
        assert json.loads(said(await host.call("hub__p"))) == {
            "all": {"title": "Broken", "labels": ["a", "b"]},
            "second": "b",
            "line": '["a","b"]: ${read.text}',
        }


@pytest.mark.covers("EF-2")
async def test_a_pipeline_comes_and_goes_with_its_tools(pair: Pair, autojump_clock):
    fakes = servers(pair)
    fakes["files"].lists["tools"] = [{"name": "read", "inputSchema": {"type": "object"}}]
    async with pair.house(fakes, pipelines=PIPELINES) as (house, host):
        assert await host.names() == ["github__get_issue", "files__read"]
        lost = "step 2 of 2 (save: files__write): there is no tool files__write"
        assert f"pipeline save_issue is not shown: {lost}" in house.hub.live.warnings
        refused = await host.error("tools/call", {"name": "hub__save_issue"})
        told = f"hub__save_issue cannot be called now: {lost}. Nothing was executed."
        assert (refused["code"], refused["message"]) == (-32602, told)
        fakes["files"].lists["tools"] = [{"name": "write", "inputSchema": {"type": "object"}}]
        for conversation in fakes["files"].conversations:
            await conversation.tell("notifications/tools/list_changed")
        await trio.sleep(5)
        assert "hub__save_issue" in await host.names()
        assert not any("save_issue" in each for each in house.hub.live.warnings)
        assert "isError" not in await host.call("hub__save_issue", {"number": 7})


@pytest.mark.covers("EF-3")
async def test_a_profile_shows_pipelines_and_hides_their_tools(pair: Pair, autojump_clock):
    profiles = {
        "few": Profile(servers=("hub",)),
        "none": Profile(servers=("github",)),
        "less": Profile(tools=("!hub__save_*",)),
    }
    fakes = servers(pair)
    async with pair.house(fakes, pipelines=PIPELINES, profiles=profiles) as (house, _):
        few, none, less = [await pair.host(house, endpoint=f"~{name}") for name in profiles]
        assert await few.names() == ["hub__save_issue"]
        assert json.loads(said(await few.call("hub__save_issue", {"number": 7})))["path"] == "issue-7.md"
        assert (await few.error("tools/call", {"name": "files__write", "arguments": {}}))["code"] == -32602
        assert await none.names() == ["github__get_issue"]
        assert await less.names() == ["github__get_issue", "files__write"]
        for host in (none, less):
            assert (await host.error("tools/call", {"name": "hub__save_issue"}))["code"] == -32602
        alone = await pair.host(house, endpoint="files")
        assert await alone.names() == ["write"]


@pytest.mark.covers("EF-1")
async def test_in_search_mode_pipelines_stay_listed(pair: Pair, autojump_clock):
    fakes = servers(pair)
    profiles = {"searching": Profile(search="on")}
    async with pair.house(fakes, pipelines=PIPELINES, profiles=profiles) as (house, _):
        host = await pair.host(house, endpoint="~searching")
        assert await host.names() == ["hub__find_tools", "hub__call_tool", "hub__save_issue"]
        assert "isError" not in await host.call("hub__save_issue", {"number": 7})
        told = await host.call("hub__call_tool", {"name": "hub__save_issue", "arguments": {"number": 7}})
        assert said(told) == "hub__save_issue is called directly."


@pytest.mark.covers("EF-2")
async def test_a_reload_tells_those_whose_lists_differ(pair: Pair, autojump_clock):

    profiles = {"without": Profile(servers=("github",))}
    fakes = servers(pair)
    async with pair.house(fakes, profiles=profiles) as (house, host):
        without = await pair.host(house, endpoint="~without")
        for each in (host, without):
            if each.era.value == "modern":
                await each.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await trio.testing.wait_all_tasks_blocked()
        changed = structs.replace(house.hub.config, pipelines=PIPELINES)
        await house.hub.prepare(changed)
        house.hub.apply(changed)
        await trio.testing.wait_all_tasks_blocked()
        assert len(host.of("notifications/tools/list_changed")) == 1
        assert without.of("notifications/tools/list_changed") == []
        assert "hub__save_issue" in await host.names()


@pytest.mark.covers("EF-6")
async def test_each_step_is_a_call_on_record(pair: Pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, pipelines=PIPELINES) as (house, host):
        await host.call("hub__save_issue", {"number": 7})
        ring = house.hub.router.chains.recorder.ring
        assert [(each.name, each.outcome, each.host) for each in ring] == [
            ("github__get_issue", "", "desk"),
            ("files__write", "", "desk"),
        ]


@pytest.mark.covers("EF-3")
async def test_a_profile_chooses_the_account_of_steps(pair: Pair, autojump_clock):
    named = Pipeline(
        description="N.",
        input={"type": "object", "properties": {"a": {}}},
        steps=(PipelineStep(id="who", tool="github__whoami", args={"account": "${input.a}"}),),
    )
    plain = Pipeline(description="P.", steps=(PipelineStep(id="who", tool="github__whoami"),))
    profiles = {"mine": Profile(servers=("hub",), accounts={"github": "private"})}
    more = {"pipelines": {"plain": plain, "named": named}, "profiles": profiles, "upstreams": accounts.TWO}
    async with pair.house(accounts.servers(pair), **more) as (house, host):
        mine = await pair.host(house, endpoint="~mine")
        assert said(await host.call("hub__plain")) == "work"
        assert said(await host.call("hub__named", {"a": "private"})) == "private"
        assert said(await mine.call("hub__plain")) == "private"
        refused = said(await mine.call("hub__named", {"a": "work"}))
        assert refused.endswith('failed: "account" is fixed by profile mine; leave it out.')


@pytest.mark.covers("EF-6")
@pytest.mark.parametrize("asked", ["form", "both at once"])
async def test_a_pipeline_that_asks_can_be_cancelled_at_any_moment(pair, autojump_clock, asked):
    two = tuple(PipelineStep(id=id, tool=f"up__{id}") for id in ("echo", "ask"))
    pipelines = {"ask": Pipeline(description="A.", steps=two)}
    async with pair.house({"up": inquisitive(pair, asked)}, park_ttl_s=PARK_S, pipelines=pipelines) as (house, _):
        host = willing(await pair.host(house, capabilities={**CAN, "roots": {}}))
        for _ in range(2):  # after the first, it gets a session of its own
            assert said(await host.call("hub__ask")) == "done"
        await trio.sleep(20)
        tasks = await tasks_at_rest(house.nursery)

        async def start(n):
            return Journey(house, host, "hub__ask")

        async def after():
            host.hasty = False
            assert "content" in await host.call("up__echo")
            assert await tasks_of(house) <= tasks

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after, rest_s=10) > 10


@pytest.mark.covers("EF-6")
async def test_a_host_that_declared_nothing_is_told_what_it_lacks(pair: Pair, autojump_clock):
    ask = pair.asks({"a": ("elicitation/create", FORM)}, lambda answers: {"content": text("x"), "isError": True})
    one = Pipeline(description="A.", steps=(PipelineStep(id="write", tool="files__write"),))
    fakes = servers(pair, **{"tools/call": ask})
    async with pair.house(fakes, pipelines={**PIPELINES, "one": one}) as (_, host):
        second = await host.call("hub__save_issue", {"number": 7})
        assert said(second).startswith("step 2 of 2 (save: files__write) failed: ")
        assert said(second).endswith(" Step 1 was carried out.")
        first = await host.ask("tools/call", {"name": "hub__one", "arguments": {}})
        if pair.name == "ML":
            assert first["error"]["code"] == -32021
            assert first["error"]["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}
        else:
            assert said(first["result"]).startswith("step 1 of 1 (write: files__write) failed: ")


PAGE = {"mode": "url", "elicitationId": "e1", "url": "https://example.com/in", "message": "Sign in"}
URLS = {"elicitation": {"form": {}, "url": {}}}


def wants_visit(pair, done):
    """A tool that wants a page to be opened before it works."""
    visit = Failure(-32042, "first sign in", raw({"elicitations": [PAGE]}))
    return lambda *_: pair.whole(content=text("written")) if done.is_set() else visit


@pytest.mark.covers("EF-6")
@pytest.mark.parametrize("ends", ["it says so", "it says nothing"])
async def test_a_page_that_a_step_needs_is_opened_by_the_host_and_the_pipeline_goes_on(pair, autojump_clock, ends):
    if not pair.to_legacy:
        pytest.skip("only servers of the handshake era have this error")
    done = trio.Event()
    fakes = servers(pair, **{"tools/call": wants_visit(pair, done)})
    async with pair.house(fakes, pipelines=PIPELINES) as (house, _):
        host = await pair.host(house, capabilities=URLS)

        def go(params):
            done.set()
            return {"action": "accept"}

        host.on["elicitation/create"] = go
        running = await host.start("tools/call", {"name": "hub__save_issue", "arguments": {"number": 7}})
        if not pair.from_legacy:
            first = (await running.wait())["result"]
            retry = await host.fulfil({"name": "hub__save_issue", "arguments": {"number": 7}}, first)
            running = await host.start("tools/call", retry)
        await trio.sleep(5)
        assert running.answer is None, "it waits for the end of the visit"
        began = trio.current_time()
        if ends == "it says so":
            for conversation in fakes["files"].conversations:
                await conversation.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
        assert said((await running.wait())["result"]) == "written"
        assert (trio.current_time() - began < 2) is (ends == "it says so")
        [asked] = host.asked
        assert asked["params"]["url"] == "https://example.com/in"
        assert asked["params"]["message"].startswith("[files: page at example.com]")
        assert (len(calls_of(fakes["github"])), len(calls_of(fakes["files"]))) == (1, 2)


@pytest.mark.covers("EF-6")
async def test_a_page_that_nobody_opens_ends_the_pipeline(pair: Pair, autojump_clock):
    if not pair.to_legacy:
        pytest.skip("only servers of the handshake era have this error")
    done = trio.Event()
    fakes = servers(pair, **{"tools/call": wants_visit(pair, done)})
    async with pair.house(fakes, pipelines=PIPELINES) as (house, plain):
        told = await plain.call("hub__save_issue", {"number": 7})
        assert "files cannot go on before the user has opened this in a browser" in said(told)
        assert "https://example.com/in" in said(told)
        host = await pair.host(house, capabilities=URLS)
        host.on["elicitation/create"] = lambda params: {"action": "decline"}
        refused = await host.call("hub__save_issue", {"number": 7})
        assert "files needs a page to be opened before it can go on, which was refused. Step 1 was" in said(refused)
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        again = await host.call("hub__save_issue", {"number": 7})
        assert "files asked more than 16 times to open a page for one operation" in said(again)
        for failed in (told, refused, again):
            assert failure_of(failed)["executed"] == "yes"


@pytest.mark.covers("EF-6")
async def test_a_retry_goes_on_once_and_for_the_same_call_only(autojump_clock):
    pair = Pair("ML", "http")
    ask = pair.asks({"a": ("elicitation/create", FORM)}, lambda answers: {"content": text("done")})
    fakes = servers(pair, **{"tools/call": ask})
    async with pair.house(fakes, pipelines=PIPELINES) as (house, _):
        host = await pair.host(house, capabilities=CAN)
        host.on["elicitation/create"] = lambda params: YES
        params = {"name": "hub__save_issue", "arguments": {"number": 7}}
        first = (await host.ask("tools/call", params))["result"]
        assert first["resultType"] == "input_required"
        retry = await host.fulfil(params, first)
        other = await host.error("tools/call", {**retry, "arguments": {"number": 8}})
        assert other["data"]["reason"] == "request_state_invalid"
        bob = await pair.host(house, capabilities=CAN, identity=BOB)
        assert (await bob.error("tools/call", retry))["data"]["reason"] == "request_state_invalid"
        assert said((await host.ask("tools/call", retry))["result"]) == "done"
        assert (await host.error("tools/call", retry))["data"]["reason"] == "request_state_used"
        assert len(calls_of(fakes["github"])) == 1
