"""Ways round rules that accounts, pipelines and kept results could have been."""

import pytest
import trio
from msgspec import structs

from config.profile_settings import Profile
from config.security_settings import ConditionalRule, PolicyConfig
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_accounts import CURSOR, TWO, apply, sent, servers, who
from tests.journeys.test_journey_cancelled import PARK_S
from tests.journeys.test_journey_hooks import hook
from tests.journeys.test_journey_large_results import LIMIT, id_in, logs, said
from tests.journeys.test_journey_pipelines import APPROVED, CAN, PIPELINES, calls_of
from tests.journeys.test_journey_pipelines import servers as servers_of_pipeline


@pytest.mark.covers("POL-01", "POL-14")
@pytest.mark.parametrize("when", ['args.account == "private"', 'has(args.account) && args.account == "private"'])
async def test_a_condition_knows_the_account_that_serves_however_it_was_chosen(pair: Pair, when, autojump_clock):
    fakes = servers(pair)
    rule = ConditionalRule(effect="deny", match=("github__whoami",), when=when)
    profiles = {"coding": Profile(hosts=("cursor",), accounts={"github": "private"})}
    async with pair.house(fakes, upstreams=TWO, profiles=profiles, policy=PolicyConfig(rules=(rule,))) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        assert [await who(host), await who(host, account="work")] == ["work", "work"]
        assert (await who(host, account="private")).startswith("! Not run")
        assert (await who(cursor)).startswith("! Not run")
    assert sent(fakes["github:private"]) == []


@pytest.mark.covers("POL-40")
async def test_a_hook_is_told_the_account(pair: Pair, script, autojump_clock):
    script.answers["dlp"] = lambda told: (2, b"", b"no") if told["hub"]["account"] == "private" else None
    async with pair.house(servers(pair), upstreams=TWO, hooks=(hook(),)) as (_, host):
        assert await who(host) == "work"
        assert (await who(host, account="private")).startswith("! Not run: no")


@pytest.mark.covers("POL-40", "EF-3")
async def test_a_hook_for_a_profile_is_asked_about_steps_of_its_pipelines(pair: Pair, script, autojump_clock):
    fakes = servers_of_pipeline(pair)
    script.answers["dlp"] = lambda told: (2, b"", b"no")
    profiles = {"coding": Profile(hosts=("cursor",), tools=("hub__*",))}
    match = hook(match=("files__write profile:coding",))
    async with pair.house(fakes, pipelines=PIPELINES, profiles=profiles, hooks=(match,)) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        assert "isError" not in await host.call("hub__save_issue", {"number": 7})
        assert (await cursor.call("hub__save_issue", {"number": 7}))["isError"]
        assert len(calls_of(fakes["files"])) == 1


@pytest.mark.covers("POL-11", "EL-1")
async def test_the_rest_of_a_result_is_denied_with_its_tool(pair: Pair, autojump_clock):
    async with pair.house(logs(pair), upstreams=LIMIT) as (house, host):
        id, offset = id_in(await host.call("logs__long"))
        rest = {"id": id, "offset": int(offset)}
        assert "of the log" in said(await host.call("hub__read_result", rest))
        policy = PolicyConfig(deny=("logs__long",))
        await apply(house, structs.replace(house.hub.config, policy=policy))
        assert said(await host.call("hub__read_result", rest)) == "this result is no longer kept; call the tool again"
        assert (await host.error("resources/read", {"uri": f"hub://results/{id}"}))["message"]


@pytest.mark.covers("POL-11", "EF-3")
async def test_a_step_that_waits_for_a_person_is_judged_by_the_profile_of_its_host(pair: Pair, autojump_clock):
    fakes = servers_of_pipeline(pair)
    profiles = {"coding": Profile(hosts=("cursor",), tools=("hub__*",))}
    ask = PolicyConfig(ask=("files__write",))
    more = {"pipelines": PIPELINES, "profiles": profiles, "policy": ask, "park_ttl_s": PARK_S}
    async with pair.house(fakes, **more) as (house, _):
        cursor = await pair.host(house, identity=CURSOR, capabilities=CAN)

        async def agree_late(params):
            await apply(house, structs.replace(house.hub.config, policy=later))
            return APPROVED

        later = structs.replace(ask, deny=("files__write profile:coding",))
        cursor.on["elicitation/create"] = agree_late
        params = {"name": "hub__save_issue", "arguments": {"number": 7}}
        answer = (await cursor.ask("tools/call", params))["result"]
        if pair.from_legacy:
            assert answer["isError"]
        else:  # it comes back with the answer when there is no such pipeline for it any more
            assert (await cursor.error("tools/call", await cursor.fulfil(params, answer)))["code"] == -32602
            await trio.sleep(PARK_S)  # what it would have gone on with is not kept for longer
        assert calls_of(fakes["files"]) == []
