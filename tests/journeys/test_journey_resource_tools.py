"""Resources as tools, for hosts that show their model none."""

import json
import re

import pytest

from config.profile_settings import Profile
from config.security_settings import PolicyConfig
from hub.wire.jsonrpc import Failure
from tests.journeys.pairs import Pair

TOOLS = {"tools": Profile(resource_tools=True), "few": Profile(resource_tools=True, servers=("notes",))}
NAMES = ["hub__list_resources", "hub__read_resource"]
YES = {"action": "accept", "content": {"decision": "once"}}


def servers(pair):
    notes = pair.fake(
        tools=["echo"],
        resources=[{"uri": "note:///a", "name": "a", "title": "First", "description": "The first\nnote"}],
        resourceTemplates=[{"uriTemplate": "note:///{id}", "name": "any"}],
    )
    contents = {
        "note:///a": [{"uri": "note:///a", "mimeType": "text/plain", "text": "hello"}],
        "note:///b": [
            {"uri": "note:///b", "mimeType": "image/png", "blob": "aGk="},
            {"uri": "note:///b", "mimeType": "application/zip", "blob": "aGk="},
        ],
    }

    def read(message, conversation):
        found = contents.get(message["params"]["uri"])
        more = {} if pair.to_legacy else {"ttlMs": 0, "cacheScope": "private"}
        return Failure(-32602, "no such note") if found is None else pair.whole(contents=found, **more)

    notes.on["resources/read"] = read
    many = [{"uri": f"log:///{number}", "name": f"log {number}"} for number in range(250)]
    return {"notes": notes, "logs": pair.fake(tools=["tail"], resources=many)}


def said(result):
    return result["content"][0]["text"]


@pytest.mark.covers("EL-3")
async def test_a_host_lists_and_reads_by_tools(pair: Pair, autojump_clock):
    async with pair.house(servers(pair), profiles=TOOLS) as (house, plain):
        host = await pair.host(house, endpoint="~few")
        assert await host.names() == [*NAMES, "notes__echo"]
        assert await plain.names() == ["notes__echo", "logs__tail"]
        assert (await plain.error("tools/call", {"name": NAMES[0], "arguments": {}}))["code"] == -32602
        listed = said(await host.call("hub__list_resources")).split("\n")
        assert listed == ["note:///a  First: a: The first note", "template note:///{id}  any"]
        assert (await host.call("hub__read_resource", {"uri": "note:///a"}))["content"] == [
            {"type": "text", "text": "hello"}
        ]
        image, other = (await host.call("hub__read_resource", {"uri": "note:///b"}))["content"]
        assert image == {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        assert other["resource"]["mimeType"] == "application/zip"
        unknown = await host.call("hub__read_resource", {"uri": "log:///1"})
        assert unknown["isError"] is True
        assert said(unknown).endswith("hub__list_resources lists what there is.")
        assert (await host.call("hub__read_resource", {}))["isError"] is True
        reads = [each for each in house.hub.router.chains.recorder.ring if each.method == "resources/read"]
        assert [each.name for each in reads] == ["note:///a", "note:///b"]


@pytest.mark.covers("EL-3")
async def test_lists_are_shown_in_parts(pair: Pair, autojump_clock):
    async with pair.house(servers(pair), profiles=TOOLS) as (house, _):
        host = await pair.host(house, endpoint="~tools")
        first = said(await host.call("hub__list_resources", {"server": "logs"})).split("\n")
        assert len(first) == 101
        assert first[-1] == "[more: hub__list_resources offset=100]"
        last = said(await host.call("hub__list_resources", {"server": "logs", "offset": 200})).split("\n")
        assert [last[0].split()[0], last[-1].split()[0], len(last)] == ["log:///200", "log:///249", 50]
        wrong = await host.call("hub__list_resources", {"server": "nobody"})
        assert said(wrong) == "no such server has resources; those that have: notes (2), logs (250)"
        beyond = await host.call("hub__list_resources", {"offset": 10**9})
        assert said(beyond) == "there are no resources beyond these"


@pytest.mark.covers("EL-1", "EL-3")
async def test_a_long_resource_is_cut_where_long_results_are(pair: Pair, autojump_clock):
    fakes = servers(pair)
    long = [{"uri": "note:///a", "mimeType": "text/plain", "text": "word\n" * 1_000}]
    fresh = {} if pair.to_legacy else {"ttlMs": 0, "cacheScope": "private"}
    fakes["notes"].on["resources/read"] = lambda *_: pair.whole(contents=long, **fresh)
    profiles = {"less": Profile(resource_tools=True, large_results_bytes=100)}
    async with pair.house(fakes, profiles=profiles) as (house, _):
        host = await pair.host(house, endpoint="~less")
        shown = said(await host.call("hub__read_resource", {"uri": "note:///a"}))
        id = re.search(r"5 kB in all; the rest: hub__read_result id=(\S+) offset=100\]$", shown)[1]
        rest = said(await host.call("hub__read_result", {"id": id, "offset": 4_990}))
        assert rest == "word\nword\n\n[bytes 4990 to 5000 of 5000, the end]"


@pytest.mark.covers("EL-3")
async def test_rules_and_people_are_asked_as_for_any_read(pair: Pair, autojump_clock):
    policy = PolicyConfig(deny=("resource:log:*",), ask=("resource:note:///a",))
    async with pair.house(servers(pair), profiles=TOOLS, policy=policy) as (house, _):
        host = await pair.host(house, endpoint="~tools", capabilities={"elicitation": {"form": {}}})
        host.on["elicitation/create"] = lambda params: YES
        assert "log:///" not in said(await host.call("hub__list_resources"))
        assert (await host.call("hub__read_resource", {"uri": "log:///1"}))["isError"] is True
        assert said(await host.call("hub__read_resource", {"uri": "note:///a"})) == "hello"
        [asked] = host.asked
        assert "note:///a" in json.dumps(asked)
