"""Upstreams at which a person has to sign in: what each kind of host is told, who hears when it is done, and the tool
that stands in place of lists that nobody knows yet."""

import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import Struct

from config.profile_settings import Pipeline, PipelineStep
from config.security_settings import UpstreamOAuth
from config.setting_declarations import Secret
from hub.link.hub_errors import UpstreamDenied, UpstreamUnauthorized
from hub.wire.mcp import L1, L3, L4, MODERN
from tests.support.fakes import FakeSession, FakeUpstream
from tests.support.house import ALICE, BOB, a_house

WANTS_TOKEN = UpstreamUnauthorized("notes wants a token", upstream="notes")
URL_MODE = {"elicitation": {"form": {}, "url": {}}}
COMPLETE = "notifications/elicitation/complete"
CHANGED = "notifications/tools/list_changed"
ADVICE = 'notes needs you to sign in at id.example. Ask the user to run "hubd auth notes", then try again.'
WAITING = "notes needs you to sign in at id.example."


class GuardedSession(FakeSession):
    """A session whose server lets nobody in, or nobody call, before somebody has signed in."""

    async def run(self, started: Any) -> None:
        if self._fake.shut is not None:
            raise self._fake.shut
        await super().run(started)

    def begin(self, operation: Any, *more: Any) -> Any:
        if self._fake.refusal is not None and operation.method != "tools/list":
            raise self._fake.refusal
        return super().begin(operation, *more)


class Guarded(FakeUpstream):
    """`shut`: the failure of whoever connects; `refusal`: of whoever calls; None: all are let in."""

    def __init__(self, version: str = L4, *, shut: bool = False, **more: Any) -> None:
        super().__init__(version=version, **more)
        self.shut = WANTS_TOKEN if shut else None
        self.refusal = None if shut else WANTS_TOKEN

    def open(self, config: Any, name: str, events: Any, memory: Any, *terms: Any) -> GuardedSession:
        return GuardedSession(self, config, name, events, memory, *terms)


class Visit(Struct, frozen=True):
    url: str
    id: str
    message: str


class Guide:
    """Where people sign in: a page for each principal, unless `has_page` is false."""

    def __init__(self, fake: Guarded, *, has_page: bool = True) -> None:
        self.fake = fake
        self.has_page = has_page
        self.house: Any = None
        self.looked: list[tuple[str, str]] = []

    async def look(self, upstream: str, caller: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.looked.append((upstream, caller.identity.principal))

    def visit(self, upstream: str, caller: Any) -> Visit | None:
        if not self.has_page:
            return None
        principal = caller.identity.principal
        return Visit(f"http://127.0.0.1:8765/oauth/begin/of-{principal}", f"sign-in-{principal}", WAITING)

    def advice(self, upstream: str, caller: Any) -> str:
        return ADVICE

    async def sign_in(self, principal: str = "alice") -> None:
        """Do what happens when a person has signed in."""
        self.fake.shut = self.fake.refusal = None
        self.house.hub.supervisor.signed_in("notes")
        self.house.hub.visit_done("notes", f"sign-in-{principal}")
        await trio.testing.wait_all_tasks_blocked()


NOTES = {"command": None, "url": "https://notes.example/mcp"}


@asynccontextmanager
async def a_guarded_house(
    fake: Guarded, *, has_page: bool = True, oauth: dict[str, str] | None = None, **settings: Any
):
    guide = Guide(fake, has_page=has_page)
    config = {**NOTES, **settings, "oauth": UpstreamOAuth(**(oauth or {}))}
    async with a_house({"notes": fake}, upstreams={"notes": config}, guide=guide) as house:
        guide.house = house
        yield house, guide


def text_of(answer: dict[str, Any]) -> str:
    assert answer["result"]["isError"], answer
    return answer["result"]["content"][0]["text"]


async def refused(host: Any) -> dict[str, Any]:
    return await host.ask("tools/call", {"name": "notes__echo"})


# --- hosts that can be sent to a page ---------------------------------------------------------------------------------


async def test_each_host_is_asked_in_its_way_and_gets_the_result(pair, autojump_clock):
    fake = Guarded(pair.upstream_version)
    async with a_guarded_house(fake) as (house, guide):
        host = await pair.host(house, capabilities=URL_MODE)
        other = await pair.host(house, capabilities=URL_MODE)
        answer = await refused(host)
        message = f"[notes: page at 127.0.0.1:8765] {WAITING}"
        page = {"mode": "url", "url": "http://127.0.0.1:8765/oauth/begin/of-alice", "message": message}
        if pair.from_legacy:
            error = answer["error"]
            assert (error["code"], error["message"]) == (-32042, WAITING)
            assert error["data"]["elicitations"] == [{**page, "elicitationId": "notes:sign-in-alice"}]
            assert (error["data"]["hub"], error["data"]["executed"]) == ("upstream_auth", "no")
            await guide.sign_in()
            assert host.of(COMPLETE) == [{"elicitationId": "notes:sign-in-alice"}]
            assert (await host.call("notes__echo"))["content"]
        else:
            host.on["elicitation/create"] = lambda params: {"action": "accept"}
            retry = await host.fulfil({"name": "notes__echo"}, answer["result"])
            assert host.asked[0]["params"] == page
            question = await host.start("tools/call", retry)
            await trio.sleep(7)
            assert question.answer is None, "it waits for the person"
            await guide.sign_in()
            assert (await question.wait())["result"]["content"]
            assert host.of(COMPLETE) == []
        assert other.of(COMPLETE) == [], "nobody sent that host there"
        assert len(fake.conversation.of("tools/call")) == 1


async def test_a_retry_of_somebody_who_does_not_sign_in_is_asked_again_and_again(autojump_clock):
    async with a_guarded_house(Guarded()) as (house, _guide):
        host = await house.host("lines", MODERN, capabilities=URL_MODE)
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        answer = await refused(host)
        rounds = 0
        while answer["result"].get("resultType") == "input_required":
            rounds += 1
            before = trio.current_time()
            answer = await host.ask("tools/call", await host.fulfil({"name": "notes__echo"}, answer["result"]))
            assert trio.current_time() - before == pytest.approx(30, abs=0.5)
        assert rounds == 16
        assert text_of(answer) == ADVICE


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_who_declines_is_told_that_nothing_was_called(autojump_clock, carrier, action):
    fake = Guarded()
    async with a_guarded_house(fake) as (house, _guide):
        host = await house.host(carrier, MODERN, capabilities=URL_MODE)
        host.on["elicitation/create"] = lambda params: {"action": action}
        answer = await refused(host)
        answer = await host.ask("tools/call", await host.fulfil({"name": "notes__echo"}, answer["result"]))
        assert text_of(answer) == "The sign-in for notes was declined; nothing was called."
        assert fake.conversation.of("tools/call") == []


@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_each_person_has_a_visit_of_its_own(autojump_clock, carrier):
    async with a_guarded_house(Guarded(), oauth={"account": "each"}) as (house, guide):
        alice = await house.host(carrier, L4, capabilities=URL_MODE, identity=ALICE)
        again = await house.host(carrier, L4, capabilities=URL_MODE, identity=ALICE)
        bob = await house.host(carrier, L4, capabilities=URL_MODE, identity=BOB)
        asked = [(await refused(host))["error"]["data"]["elicitations"][0]["url"] for host in (alice, again, bob)]
        assert [url.rpartition("/")[2] for url in asked] == ["of-alice", "of-alice", "of-bob"]
        await guide.sign_in("bob")
        assert [len(host.of(COMPLETE)) for host in (alice, again, bob)] == [0, 0, 1]
        await guide.sign_in("alice")
        await guide.sign_in("alice")
        assert [len(host.of(COMPLETE)) for host in (alice, again, bob)] == [1, 1, 1], "once, to each that was asked"


# --- hosts that cannot ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize(
    ("version", "capabilities"),
    [(L1, {}), (L3, {"elicitation": {}}), (L4, {"elicitation": {}}), (MODERN, {}), (MODERN, {"elicitation": {}})],
)
async def test_hosts_that_visit_no_pages_are_told_in_words(autojump_clock, carrier, version, capabilities):
    fake = Guarded(prompts=[{"name": "p"}])
    async with a_guarded_house(fake) as (house, guide):
        host = await house.host(carrier, version, capabilities=capabilities)
        answer = await refused(host)
        assert text_of(answer) == ADVICE
        facts = next(iter(answer["result"]["_meta"].values()))
        assert (facts["hub"], facts["executed"], facts["upstream"]) == ("upstream_auth", "no", "notes")
        error = await host.error("prompts/get", {"name": "notes__p"})
        assert (error["code"], error["message"]) == (-32603, ADVICE)
        assert guide.looked[0][0] == "notes"


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_no_page_is_named_that_would_not_work(autojump_clock, version, caplog):
    """And the log names no page at all: it is for the one who was told."""
    caplog.set_level("INFO")
    async with a_guarded_house(Guarded(), has_page=False) as (house, _guide):
        host = await house.host("lines", version, capabilities=URL_MODE)
        assert text_of(await refused(host)) == ADVICE
    assert ADVICE not in caplog.text
    assert "notes needs a sign-in: run `hubd auth notes`" in caplog.text


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_completions_ask_nobody(autojump_clock, version):
    fake = Guarded(prompts=[{"name": "p"}])
    fake.capabilities["completions"] = {}
    async with a_guarded_house(fake) as (house, _guide):
        host = await house.host("lines", version, capabilities=URL_MODE)
        ref = {"ref": {"type": "ref/prompt", "name": "notes__p"}, "argument": {"name": "a", "value": "x"}}
        assert (await host.error("completion/complete", ref))["message"] == ADVICE


# --- refusals that no sign-in mends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "settings"),
    [
        (UpstreamDenied("notes lets nobody write", upstream="notes"), {}),
        (UpstreamUnauthorized("The renewal has failed", upstream="notes", retry_after_ms=2000), {}),
        (WANTS_TOKEN, {"headers": {"authorization": Secret("Bearer x")}}),
        (WANTS_TOKEN, {"oauth": {"grant": "client_credentials"}}),
        (WANTS_TOKEN, {"oauth": {"grant": "none"}}),
    ],
)
@pytest.mark.parametrize("shut", [False, True])
async def test_other_refusals_are_passed_on_as_they_are(autojump_clock, refusal, settings, shut):
    fake = Guarded(shut=shut)
    fake.shut, fake.refusal = (refusal, None) if shut else (None, refusal)
    async with a_guarded_house(fake, **settings) as (house, guide):
        host = await house.host("lines", L4, capabilities=URL_MODE)
        assert (await host.names()) == ([] if shut else ["notes__echo"])
        if not shut:
            assert str(refusal) in text_of(await refused(host))
        assert guide.looked == []


# --- hostile hosts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_state_is_good_for_its_owner_and_its_request_only(autojump_clock, carrier):
    fake = Guarded(tools=["echo", "other"])
    async with a_guarded_house(fake) as (house, guide):
        alice = await house.host(carrier, MODERN, capabilities=URL_MODE, identity=ALICE)
        bob = await house.host(carrier, MODERN, capabilities=URL_MODE, identity=BOB)
        alice.on["elicitation/create"] = lambda params: {"action": "accept"}
        retry = await alice.fulfil({"name": "notes__echo"}, (await refused(alice))["result"])
        await guide.sign_in()
        altered = retry["requestState"][:-4] + ("AAAA" if retry["requestState"][-4:] != "AAAA" else "BBBB")
        for host, params in (
            (bob, retry),
            (alice, {**retry, "name": "notes__other"}),
            (alice, {**retry, "requestState": altered}),
        ):
            error = await host.error("tools/call", params)
            assert (error["code"], error["data"]["reason"]) == (-32602, "request_state_invalid")
        assert fake.conversation.of("tools/call") == []
        assert (await alice.ask("tools/call", retry))["result"]["content"]


# --- the tool that stands in place of unknown lists -------------------------------------------------------------------


@pytest.mark.parametrize("via", ["", "hub__call_tool"])
async def test_an_upstream_that_says_nothing_has_a_tool_for_signing_in(pair, via, autojump_clock):
    fake = Guarded(pair.upstream_version, shut=True)
    async with a_guarded_house(fake) as (house, guide):
        host = await pair.host(house, capabilities=URL_MODE)
        host.via = via
        alone = await pair.host(house, capabilities=URL_MODE, endpoint="notes")
        assert await host.names() == ["notes__sign_in"]
        assert await alone.names() == ["sign_in"]
        (tool,) = (await host.result("tools/list"))["tools"]
        assert tool["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": False}
        assert "sign" in tool["description"]
        answer = await host.ask("tools/call", {"name": "notes__sign_in", "arguments": {}})
        if pair.from_legacy:
            assert answer["error"]["code"] == -32042
            await guide.sign_in()
            await trio.sleep(1)
            assert host.of(COMPLETE) == [{"elicitationId": "notes:sign-in-alice"}]
            assert len(host.of(CHANGED)) == len(alone.of(CHANGED)) == 1
            result = await host.call("notes__sign_in")
        else:
            host.on["elicitation/create"] = lambda params: {"action": "accept"}
            params = {"name": "notes__sign_in", "arguments": {}}
            question = await host.start("tools/call", await host.fulfil(params, answer["result"]))
            await trio.sleep(3)
            await guide.sign_in()
            result = (await question.wait())["result"]
        assert "List the tools again" in json.dumps(result)
        assert not result.get("isError")
        assert await host.names() == ["notes__echo"]
        assert await alone.names() == ["echo"]
        assert fake.conversation.of("tools/call") == [], "the upstream hears nothing of that tool"


async def test_the_tool_comes_when_it_is_needed_and_only_where_the_upstream_is_seen(autojump_clock):
    fake, other = Guarded(shut=True), FakeUpstream()
    guide = Guide(fake)
    async with a_house(
        {"notes": fake, "up": other}, upstreams={"notes": {**NOTES, "prefix": ""}}, guide=guide
    ) as house:
        guide.house = house
        both = await house.host("lines", L4)
        elsewhere = await house.host("lines", L4, endpoint="up")
        assert await both.names() == ["sign_in", "up__echo"]
        assert text_of(await both.ask("tools/call", {"name": "sign_in"})) == ADVICE
        await guide.sign_in()
        await trio.sleep(1)
        assert await both.names() == ["echo", "up__echo"]
        assert (len(both.of(CHANGED)), elsewhere.of(CHANGED)) == (1, [])
        fake.shut = WANTS_TOKEN
        await fake.conversation.close()
        await trio.sleep(100)
        assert await both.names() == ["echo", "up__echo"], "what is known stays listed"


async def test_without_anybody_to_sign_in_there_is_no_such_tool(autojump_clock):
    fake = Guarded(shut=True)
    async with a_house({"notes": fake}, upstreams={"notes": NOTES}) as house:
        host = await house.host("lines", L4, capabilities=URL_MODE)
        assert await host.names() == []


async def test_globs_over_tools_do_not_hide_it_and_lists_that_want_a_sign_in_show_it(autojump_clock):
    """A server that shakes hands with everybody, and tells its tools to those who have signed in."""
    fake = Guarded()
    fake.refusal = None

    class Session(GuardedSession):
        async def request(self, method: str, params: Any) -> Any:
            if self._fake.locked is not None and method.endswith("/list"):
                raise self._fake.locked
            return await super().request(method, params)

    fake.locked = WANTS_TOKEN
    fake.open = lambda *parts: Session(fake, *parts)
    async with a_guarded_house(fake, tools=("e*",)) as (house, guide):
        host = await house.host("lines", L4, capabilities=URL_MODE)
        assert await host.names() == ["notes__sign_in"]
        assert (await host.ask("tools/call", {"name": "notes__sign_in"}))["error"]["code"] == -32042
        fake.locked = None
        await guide.sign_in()
        await trio.sleep(1)
        assert await host.names() == ["notes__echo"]
        assert not (await host.call("notes__sign_in")).get("isError")


# --- steps of pipelines -----------------------------------------------------------------------------------------------

STEPS = PipelineStep(id="first", tool="other__echo"), PipelineStep(id="second", tool="notes__echo")
PIPELINES = {"two": Pipeline(description="Two.", steps=STEPS)}


@asynccontextmanager
async def a_house_with_a_pipeline(pair, fake):
    guide = Guide(fake)
    config = {**NOTES, "oauth": UpstreamOAuth()}
    servers = {"other": FakeUpstream(version=pair.upstream_version), "notes": fake}
    async with a_house(servers, upstreams={"notes": config}, guide=guide, pipelines=PIPELINES) as house:
        guide.house = house
        yield house, guide


def count_calls(house, tool):
    return [each.name for each in house.hub.router.chains.recorder.ring].count(tool)


@pytest.mark.covers("EF-6")
async def test_a_sign_in_that_a_step_needs_is_asked_of_the_host_and_the_pipeline_goes_on(pair, autojump_clock):
    fake = Guarded(pair.upstream_version)
    async with a_house_with_a_pipeline(pair, fake) as (house, guide):
        host = await pair.host(house, capabilities=URL_MODE)
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        question = await host.start("tools/call", {"name": "hub__two"})
        if not pair.from_legacy:
            retry = await host.fulfil({"name": "hub__two"}, (await question.wait())["result"])
            question = await host.start("tools/call", retry)
        await trio.sleep(20)
        assert question.answer is None, "it waits for the person"
        [asked] = host.asked
        assert asked["params"]["url"] == "http://127.0.0.1:8765/oauth/begin/of-alice"
        assert asked["params"]["message"] == f"[notes: page at 127.0.0.1:8765] {WAITING}"
        await guide.sign_in()
        answer = await question.wait()
        assert "isError" not in answer["result"], answer
        assert answer["result"]["content"]
        assert count_calls(house, "other__echo") == 1, "nothing is done twice"


@pytest.mark.covers("EF-6")
@pytest.mark.parametrize("host_is", ["without pages", "declining"])
async def test_without_a_sign_in_a_pipeline_ends_and_says_why(pair, autojump_clock, host_is):
    fake = Guarded(pair.upstream_version)
    async with a_house_with_a_pipeline(pair, fake) as (house, _):
        host = await pair.host(
            house, capabilities=URL_MODE if host_is == "declining" else {"elicitation": {"form": {}}}
        )
        host.on["elicitation/create"] = lambda params: {"action": "decline"}
        said = (await host.call("hub__two"))["content"][0]["text"]
        why = ADVICE if host_is != "declining" else "The sign-in for notes was declined; nothing was called."
        assert said == f"step 2 of 2 (second: notes__echo) failed: {why} Step 1 was carried out."
        assert count_calls(house, "other__echo") == 1
