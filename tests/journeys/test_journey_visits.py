"""Pages to visit: from an upstream to the right host, with the notification of completion."""

import pytest
import trio
import trio.testing

from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L3, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

PAGE = {"mode": "url", "elicitationId": "e-77", "url": "https://mcp.example.com/connect?e=1", "message": "Link it"}
URL_MODE = {"elicitation": {"form": {}, "url": {}}}
COMPLETE = "notifications/elicitation/complete"


class Linked(FakeUpstream):
    """Wants a page to be visited before its tool can be called. `link` visits it."""

    def __init__(self):
        super().__init__(version=L4)
        self.linked = False
        self.on["tools/call"] = self.call

    def call(self, message, conversation):
        if self.linked:
            return {"content": [{"type": "text", "text": "linked"}]}
        return Failure(-32042, "Not linked", raw({"elicitations": [PAGE]}))

    async def link(self):
        self.linked = True
        for conversation in self.conversations:
            await conversation.tell(COMPLETE, {"elicitationId": "e-77"})
        await trio.testing.wait_all_tasks_blocked()


carriers = pytest.mark.parametrize("carrier", ["lines", "http"])


@carriers
@pytest.mark.covers("C-14", "G-4")
async def test_only_the_host_that_was_sent_there_hears_that_it_is_done(autojump_clock, carrier):
    fake = Linked()
    async with a_house({"up": fake}) as house:
        ours = await house.host(carrier, L4, capabilities=URL_MODE)
        other = await house.host(carrier, L4, capabilities=URL_MODE)
        error = (await ours.ask("tools/call", {"name": "up__echo"}))["error"]
        assert error["code"] == -32042
        assert error["data"]["elicitations"][0]["elicitationId"] == "up:e-77"
        await fake.link()
        await fake.link()
        assert ours.of(COMPLETE) == [{"elicitationId": "up:e-77"}]
        assert other.of(COMPLETE) == []
        assert (await ours.call("up__echo"))["content"][0]["text"] == "linked"


@carriers
@pytest.mark.parametrize("after_s", [0, 3, None])
async def test_a_modern_host_goes_on_when_it_is_done(autojump_clock, carrier, after_s):
    fake = Linked()
    async with a_house({"up": fake}) as house:
        host = await house.host(carrier, MODERN, capabilities=URL_MODE)
        answer = await host.ask("tools/call", {"name": "up__echo"})
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        retry = await host.fulfil({"name": "up__echo"}, answer["result"])
        assert host.asked[0]["params"] == {
            "mode": "url",
            "url": PAGE["url"],
            "message": "[up: page at mcp.example.com] Link it",
        }
        if after_s is None:
            fake.linked = True
        elif not after_s:
            await fake.link()
        before = trio.current_time()
        question = await host.start("tools/call", retry)
        if after_s:
            await trio.sleep(after_s)
            await fake.link()
        assert (await question.wait())["result"]["content"][0]["text"] == "linked"
        assert trio.current_time() - before == pytest.approx(30 if after_s is None else after_s, abs=0.2)


@carriers
async def test_a_modern_host_is_asked_again_and_again_until_it_is_done(autojump_clock, carrier):
    fake = Linked()
    async with a_house({"up": fake}) as house:
        host = await house.host(carrier, MODERN, capabilities=URL_MODE)
        answer = await host.ask("tools/call", {"name": "up__echo"})
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        for _ in range(3):
            answer = await host.ask("tools/call", await host.fulfil({"name": "up__echo"}, answer["result"]))
            assert answer["result"]["resultType"] == "input_required"
        host.on["elicitation/create"] = lambda params: {"action": "decline"}
        answer = await host.ask("tools/call", await host.fulfil({"name": "up__echo"}, answer["result"]))
        assert answer["result"]["isError"]
        assert len(fake.conversation.of("tools/call")) == 4


@carriers
@pytest.mark.parametrize(("version", "code"), [(L3, None), (L4, None), (MODERN, -32021)])
async def test_hosts_that_visit_no_pages_are_told_what_is_needed(autojump_clock, carrier, version, code):
    async with a_house({"up": Linked()}) as house:
        host = await house.host(carrier, version, capabilities={"elicitation": {}})
        answer = await host.ask("tools/call", {"name": "up__echo"})
        if code is None:
            assert answer["result"]["isError"]
            assert PAGE["url"] in answer["result"]["content"][0]["text"]
        else:
            assert answer["error"]["code"] == code


@carriers
@pytest.mark.covers("F-I-09")
async def test_a_page_of_a_modern_upstream_has_an_end_for_older_hosts(autojump_clock, carrier):
    fake = FakeUpstream(version=MODERN)
    page = {"method": "elicitation/create", "params": {"mode": "url", "url": PAGE["url"], "message": "Link it"}}

    def call(message, conversation):
        if "inputResponses" in message["params"]:
            return {"resultType": "complete", "content": []}
        return {"resultType": "input_required", "inputRequests": {"a": page}}

    fake.on["tools/call"] = call
    async with a_house({"up": fake}) as house:
        host = await house.host(carrier, L4, capabilities=URL_MODE)
        other = await house.host(carrier, L4, capabilities=URL_MODE)
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        await host.call("up__echo")
        await trio.testing.wait_all_tasks_blocked()
        (asked,) = host.asked
        assert host.of(COMPLETE) == [{"elicitationId": asked["params"]["elicitationId"]}]
        assert other.of(COMPLETE) == []


UNPLAIN = ("javascript:alert(1)", "file:///etc/passwd", "http://example.com/", "https://bank.example@evil.example/")


@pytest.mark.covers("SEC-86")
@pytest.mark.parametrize("url", UNPLAIN)
async def test_nobody_is_sent_to_an_address_that_is_not_plain(pair, autojump_clock, url):
    answers = []

    def then(answered):
        answers.append(answered["k"])
        return {"content": [{"type": "text", "text": "went on"}]}

    fake = pair.fake()
    visit = {"mode": "url", "message": "Log in", "url": url, "elicitationId": "e1"}
    if not pair.to_legacy:
        del visit["elicitationId"]
    fake.on["tools/call"] = pair.asks({"k": ("elicitation/create", visit)}, then)
    async with pair.house({"up": fake}) as (house, _):
        host = await pair.host(house, capabilities=URL_MODE)
        host.on["elicitation/create"] = lambda params: {"action": "accept"}
        answer = await host.ask("tools/call", {"name": "up__echo"})
        if pair.to_legacy or pair.from_legacy:
            assert answer["result"]["content"] == [{"type": "text", "text": "went on"}], "the call goes on"
            assert [each and each["action"] for each in answers] in ([None], ["cancel"], ["decline"]), "it is told no"
        else:
            assert "Nobody was asked to open it" in str(answer)
        assert url not in str((answer, host.asked, host.heard))
        assert host.asked == []


@pytest.mark.covers("SEC-86")
@pytest.mark.parametrize("version", [L3, L4, MODERN])
@pytest.mark.parametrize("url", UNPLAIN)
@pytest.mark.parametrize("mode", [{"form": {}, "url": {}}, {"form": {}}])
async def test_an_error_sends_nobody_there_either(autojump_clock, version, url, mode):
    fake = FakeUpstream(version=L4)
    fake.on["tools/call"] = lambda *_: Failure(
        -32042, "Not linked", raw({"elicitations": [PAGE, {**PAGE, "url": url}]})
    )
    async with a_house({"up": fake}) as house:
        host = await house.host("lines", version, capabilities={"elicitation": mode})
        answer = await host.ask("tools/call", {"name": "up__echo"})
        assert url not in str(answer)
        assert "Nobody was asked to open it" in str(answer)
