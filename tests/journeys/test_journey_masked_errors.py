"""Secrets of the configuration never reach hosts in errors, the hub's or a server's, in logs or progress."""

import pytest
import trio

from config.setting_declarations import Secret
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import Failure, raw
from tests.support.house import ALICE
from upstreams.redact import MAX_ERROR_BYTES

TOKEN = "s3cr3t-of-the-server"
SETTINGS = {"up": {"env": {"TOKEN": Secret(TOKEN), "FORMAT": Secret("text")}}}


@pytest.mark.covers("I-9", "SEC-61")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "up__echo"}),
        ("prompts/get", {"name": "up__ask"}),
        ("resources/read", {"uri": "note://x"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "up__ask"}, "argument": {"name": "a", "value": ""}},
        ),
    ],
)
async def test_an_error_of_an_upstream_reaches_its_host_without_its_secrets(pair, autojump_clock, method, params):
    fake = pair.fake(prompts=[{"name": "ask"}], resources=[{"uri": "note://x", "name": "x"}])
    fake.capabilities["completions"] = {}
    fake.on[method] = lambda *_: Failure(-32603, f"refused {TOKEN}", raw({"headers": {"x": f"Bearer {TOKEN}"}}))
    async with pair.house({"up": fake}, upstreams=SETTINGS) as (_, host):
        answer = str(await host.ask(method, params))
        assert TOKEN not in answer
        assert "refused ***" in answer
        assert "Bearer ***" in answer


@pytest.mark.covers("I-9", "SEC-61", "SEC-80")
@pytest.mark.parametrize(
    ("is_error", "length", "masked"),
    [(True, 0, True), (False, 0, False), (True, MAX_ERROR_BYTES, False)],
    ids=["a tool's error", "a result", "a long one"],
)
async def test_an_error_of_a_tool_is_masked_as_any_other(pair, autojump_clock, is_error, length, masked):
    text, blank = f"bad {TOKEN}", "x" * length
    told = {
        "content": [{"type": "text", "text": text}, {"type": "text", "text": blank}],
        "structuredContent": {"at": {"type": [text]}},
        "isError": is_error,
    }
    fake = pair.fake()
    fake.on["tools/call"] = lambda *_: pair.whole(**told)
    async with pair.house({"up": fake}, upstreams=SETTINGS) as (_, host):
        answer = (await host.ask("tools/call", {"name": "up__echo"}))["result"]
    shown = "bad ***" if masked else text
    assert answer["content"] == [{"type": "text", "text": shown}, {"type": "text", "text": blank}]
    assert answer["structuredContent"] == {"at": {"type": [shown]}}


@pytest.mark.covers("I-9", "SEC-61")
async def test_logs_and_progress_of_an_upstream_reach_its_host_without_its_secrets(pair, autojump_clock):
    fake = pair.fake()

    async def call(request, conversation):
        about = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1}
        await conversation.tell("notifications/progress", {**about, "message": f"with {TOKEN}"})
        data = {"env": {"TOKEN": TOKEN}, "n": 1}
        await conversation.tell("notifications/message", {"level": "error", "data": data})
        return pair.whole(content=[])

    fake.on["tools/call"] = call
    async with pair.house({"up": fake}, upstreams=SETTINGS) as (_, host):
        await host.set_level("debug")
        await host.ask("tools/call", {"name": "up__echo"}, token=7)
        heard = str(host.heard)
    assert TOKEN not in heard
    assert "with ***" in heard
    assert "{'env': {'TOKEN': '***'}, 'n': 1}" in heard


@pytest.mark.covers("I-9")
async def test_a_refused_subscription_tells_no_secret(pair, autojump_clock):
    fake = pair.fake(resources=[{"uri": "note://x", "name": "x"}])
    fake.capabilities["resources"] = {"subscribe": True}
    for method in ("resources/subscribe", "subscriptions/listen"):
        fake.on[method] = lambda *_: Failure(-32603, f"refused {TOKEN}", raw({"token": TOKEN}))
    async with pair.house({"up": fake}, upstreams=SETTINGS) as (_, host):
        if pair.from_legacy:
            answer = await host.ask("resources/subscribe", {"uri": "note://x"})
            assert "refused ***" in str(answer)
            assert TOKEN not in str((answer, host.heard))


@pytest.mark.covers("I-9")
async def test_neither_does_a_list_that_cannot_be_read(pair, autojump_clock, caplog):
    fake = pair.fake()
    fake.on["tools/list"] = lambda *_: Failure(-32603, f"refused {TOKEN}")
    async with pair.house({"up": fake}, upstreams=SETTINGS) as (house, _):
        await trio.sleep(1)
        status = str(house.hub.supervisor.upstreams["up"].status())
        assert TOKEN not in status
        assert "refused ***" in status
        assert TOKEN not in caplog.text


@pytest.mark.covers("I-9")
async def test_neither_does_a_session_that_cannot_be_opened(pair, autojump_clock, caplog):
    if not pair.to_legacy:
        return
    fake = pair.fake()
    settings = {"up": {**SETTINGS["up"], "session_mode": "per_host"}}
    async with pair.house({"up": fake}, upstreams=settings) as (house, host):
        await host.names()
        fake.on["initialize"] = lambda *_: Failure(-32603, f"refused {TOKEN}")
        other = await pair.host(house, identity=Identity(ALICE.principal, "other"))
        answer = str([await each.ask("tools/call", {"name": "up__echo"}) for each in (host, other)])
        assert "***" in answer
        assert TOKEN not in answer
        assert TOKEN not in caplog.text


@pytest.mark.covers("I-9", "SEC-61")
async def test_neither_do_lines_that_are_no_messages(pair, autojump_clock, caplog):
    fake = pair.fake()
    async with pair.house({"up": fake}, upstreams=SETTINGS) as (house, host):
        await host.names()
        await fake.conversation.write(b"x" * 185 + f" with {TOKEN}\n".encode())
        await trio.sleep(1)
        journal = house.hub.supervisor.upstreams["up"].availability.history.journal
        told = [record.text for record in journal.tail(50)]
        assert "with ***" in caplog.text
        assert any("with ***" in line for line in told)
        assert "s3cr3t" not in caplog.text + str(told)
