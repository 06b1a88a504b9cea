"""Secrets of the configuration never reach hosts in errors, the hub's or a server's."""

import pytest
import trio

from config.setting import Secret
from hub.link.interface import Identity
from hub.wire.jsonrpc import Failure, raw
from tests.support.house import ALICE

TOKEN = "s3cr3t-of-the-server"
SETTINGS = {"up": {"env": {"TOKEN": Secret(TOKEN)}}}


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
