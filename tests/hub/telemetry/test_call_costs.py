"""What calls cost: prices by globs, what is charged, and sums by host and server."""

import pytest

from config.loading.checks.rules import problems_of_rules_of_server
from config.settings import UpstreamConfig
from hub.catalog.time_slices import finish
from hub.link.hub_errors import DeadlineExceeded, Overloaded, UpstreamLost
from hub.telemetry.call_costs import Cost, cost_of_one, price_of, price_of_key, sum_costs
from hub.telemetry.tally import MAX_HOSTS, OTHER_HOST, Seconds, Tally
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

PRICED = UpstreamConfig(price=0.005, prices={"search_*": 0.01, "search_free": 0.0, "free": 0.0})


@pytest.mark.covers("COST-01")
@pytest.mark.parametrize(
    ("tool", "price"),
    [("search_web", 0.01), ("search_free", 0.01), ("free", 0.0), ("other", 0.005), ("x" * 9_999, 0.005)],
)
def test_the_first_glob_that_means_a_tool_says_its_price(tool, price):
    assert price_of(PRICED, tool) == price_of_key(("files", "tools/call", tool), {"files": PRICED}) == price
    assert price_of_key(("files", "prompts/get", tool), {"files": PRICED}) == 0


def test_globs_of_prices_are_checked():
    assert [each.args[0] for each in problems_of_rules_of_server(UpstreamConfig(prices={"a" * 999: 1.0}))]
    assert not list(problems_of_rules_of_server(PRICED))


@pytest.mark.covers("COST-01")
@pytest.mark.parametrize(
    ("answer", "charged"),
    [
        ({"content": []}, True),
        ({"content": [], "isError": True}, True),
        (Failure(-32602, "no"), False),
        (DeadlineExceeded("late"), True),
        (UpstreamLost("gone"), True),
        (Overloaded("full"), False),
    ],
    ids=range(6),
)
async def test_what_was_not_carried_out_for_certain_is_not_charged(autojump_clock, monkeypatch, answer, charged):
    fake = FakeUpstream(tools=["search_web"])
    async with a_house({"files": fake}) as house:
        recorder, told = house.hub.router.chains.recorder, []
        recorder.listeners.append(told.append)
        host = await house.host("lines", L4)
        fake.on["tools/call"] = lambda message, conversation: answer
        if isinstance(answer, Exception):
            monkeypatch.setattr(house.hub.supervisor.upstreams["files"], "begin", lambda *given: raises(answer))
            monkeypatch.setattr(house.hub.supervisor.upstreams["files"], "call", lambda *given: raises(answer))
        await host.ask("tools/call", {"name": "files__search_web", "arguments": {}})
        configs = {"files": PRICED}
        (call,) = told
        assert cost_of_one(call, configs) == Cost(int(charged), 0.01 * charged, call.size)
        costs = finish(sum_costs(recorder.tallies, configs))
        assert costs == {(call.host, "files"): cost_of_one(call, configs)}
        assert costs[call.host, "files"].tokens == -(-call.size // 4)
        assert finish(sum_costs(recorder.tallies, {}))[call.host, "files"].price == 0


def raises(error):
    raise error


def test_hosts_beyond_a_number_are_told_together():
    tally = Tally(Seconds())
    for host in map(str, range(10 * MAX_HOSTS)):
        (tally.hosts.get(host) or tally.use(host)).size += 1
    assert len(tally.hosts) == MAX_HOSTS + 1
    assert tally.hosts[OTHER_HOST].size == 9 * MAX_HOSTS
    assert sum(use.size for use in tally.hosts.values()) == 10 * MAX_HOSTS
