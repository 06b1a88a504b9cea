"""Large results: long texts are cut for hosts where that is wanted, and kept for a while."""

import json
import re

import pytest
import trio
from msgspec import structs

from config.profile_settings import Pipeline, PipelineStep, Profile
from config.security_settings import PolicyConfig
from tests.journeys.pairs import Pair
from tests.support.house import BOB

LINES = "\n".join(f"line {number} of the log" for number in range(1_000))
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
OUTPUT = {"type": "object", "properties": {"a": {"type": "integer"}}}
LIMIT = {"logs": {"large_results_bytes": 1_000}}


def logs(pair):
    """A server with long and short results."""
    schema = {"type": "object"}
    fake = pair.fake()
    fake.lists["tools"] = [{"name": name, "inputSchema": schema, "outputSchema": OUTPUT} for name in ("long", "short")]
    long = [{"type": "text", "text": LINES}, IMAGE]
    fake.on["tools/call:long"] = lambda *_: pair.whole(content=long, structuredContent={"a": 1})
    short = [{"type": "text", "text": "short"}]
    fake.on["tools/call:short"] = lambda *_: pair.whole(content=short, structuredContent={"a": 1})
    return {"logs": fake}


def said(result):
    return result["content"][0]["text"]


def id_in(result):
    return re.search(r"hub__read_result id=(\S+) offset=(\d+)\]$", said(result)).group(1, 2)


@pytest.mark.covers("EL-1")
async def test_a_long_text_is_cut_at_a_line_and_the_rest_is_read(pair: Pair, autojump_clock):
    async with pair.house(logs(pair), upstreams=LIMIT) as (_, host):
        assert await host.names() == ["hub__read_result", "logs__long", "logs__short"]
        listed = (await host.result("tools/list"))["tools"]
        assert not any("outputSchema" in tool for tool in listed)
        result = await host.call("logs__long")
        assert "structuredContent" not in result
        shown, note = said(result).rsplit("\n", 1)
        assert LINES.startswith(shown)
        assert shown.endswith(" of the log\n")
        assert len(shown) <= 1_000
        assert note.startswith(f"[{len(LINES) / 1000:.0f} kB in all; the rest: hub__read_result id=")
        [_, image, link] = result["content"]
        assert image == IMAGE
        id, offset = id_in(result)
        assert int(offset) == len(shown)
        assert link == {
            "type": "resource_link",
            "uri": f"hub://results/{id}",
            "name": "result of logs__long",
            "mimeType": "text/plain",
            "size": len(LINES),
        }
        whole = await host.result("resources/read", {"uri": link["uri"]})
        assert whole["contents"] == [{"uri": link["uri"], "mimeType": "text/plain", "text": LINES}]
        read, at = shown, int(offset)
        while at < len(LINES):
            part, where = said(await host.call("hub__read_result", {"id": id, "offset": at})).rsplit("\n", 1)
            begin, end, of = map(int, re.match(r"\[bytes (\d+) to (\d+) of (\d+)", where).group(1, 2, 3))
            assert (begin, of, end - begin <= 1_000) == (at, len(LINES), True)
            read, at = read + part, end
        assert read == LINES
        assert where.endswith(", the end]")


@pytest.mark.covers("EL-1")
async def test_lines_are_found_in_what_was_cut(pair: Pair, autojump_clock):
    async with pair.house(logs(pair), upstreams=LIMIT) as (_, host):
        id, _ = id_in(await host.call("logs__long"))
        found = said(await host.call("hub__read_result", {"id": id, "find": "LINE 77 "}))
        assert found == f"offset={LINES.index('line 77 ')}: line 77 of the log"
        many = said(await host.call("hub__read_result", {"id": id, "find": "of the log"})).split("\n")
        assert len(many) == 51
        assert re.fullmatch(r"\[more: offset=\d+\]", many[-1])
        none = said(await host.call("hub__read_result", {"id": id, "find": "no such"}))
        assert none == "no line from 0 on has that"


@pytest.mark.covers("EL-1")
async def test_short_results_pass_and_nothing_is_cut_without_a_limit(pair: Pair, autojump_clock):
    async with pair.house(logs(pair), upstreams=LIMIT) as (house, host):
        assert said(await host.call("logs__short")) == "short"
        alone = await pair.host(house, endpoint="logs")
        assert said(await alone.call("long")) == LINES
        assert "outputSchema" in (await alone.result("tools/list"))["tools"][0]
    async with pair.house(logs(pair)) as (house, host):
        assert await host.names() == ["logs__long", "logs__short"]
        assert said(await host.call("logs__long")) == LINES
        assert (await host.error("tools/call", {"name": "hub__read_result", "arguments": {"id": "x"}}))[
            "code"
        ] == -32602
        chains = house.hub.router.chains
        assert chains.results is None
        stages = {type(step.stage).__name__ for step in chains.find("tools/call", "logs").outer}
        assert "CutResults" not in stages


@pytest.mark.covers("EL-2")
async def test_a_result_is_for_its_account_and_for_an_hour(pair: Pair, autojump_clock):
    gone = "this result is no longer kept; call the tool again"
    async with pair.house(logs(pair), upstreams=LIMIT) as (house, host):
        bob = await pair.host(house, identity=BOB)
        id, _ = id_in(await host.call("logs__long"))
        for other, wrong in ((bob, id), (host, f"{id}x"), (host, "")):
            refused = await other.call("hub__read_result", {"id": wrong})
            assert (refused["isError"], said(refused)) == (True, gone)
        assert (await bob.error("resources/read", {"uri": f"hub://results/{id}"}))["message"] == gone
        await trio.sleep(3_599)
        assert "isError" not in await host.call("hub__read_result", {"id": id})
        await trio.sleep(2)
        assert said(await host.call("hub__read_result", {"id": id})) == gone


@pytest.mark.covers("EL-1")
async def test_a_profile_says_what_is_long(pair: Pair, autojump_clock):
    profiles = {"less": Profile(large_results_bytes=100), "all": Profile(large_results_bytes=0)}
    async with pair.house(logs(pair), profiles=profiles, upstreams=LIMIT) as (house, _):
        less, whole = [await pair.host(house, endpoint=f"~{name}") for name in profiles]
        assert len(said(await less.call("logs__long"))) < 250
        assert said(await whole.call("logs__long")) == LINES
        assert "hub__read_result" not in await whole.names()
    async with pair.house(logs(pair), profiles=profiles) as (house, host):
        less = await pair.host(house, endpoint="~less")
        assert len(said(await less.call("logs__long"))) < 250
        tools = (await less.result("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["hub__read_result", "logs__long", "logs__short"]
        assert not any("outputSchema" in tool for tool in tools)
        assert "outputSchema" in (await host.result("tools/list"))["tools"][0]
        assert said(await host.call("logs__long")) == LINES


@pytest.mark.covers("EL-1")
async def test_steps_see_all_and_the_last_result_is_cut(pair: Pair, autojump_clock):
    files = pair.fake(tools=["write"])
    files.on["tools/call"] = lambda message, _: pair.whole(
        content=[{"type": "text", "text": json.dumps(message["params"]["arguments"])}]
    )
    steps = (
        PipelineStep(id="read", tool="logs__long"),
        PipelineStep(id="save", tool="files__write", args={"content": "${read.text}"}),
    )
    pipelines = {"save": Pipeline(description="Save.", steps=steps)}
    profiles = {"less": Profile(large_results_bytes=1_000)}
    async with pair.house({**logs(pair), "files": files}, pipelines=pipelines, profiles=profiles) as (house, host):
        less = await pair.host(house, endpoint="~less")
        assert json.loads(said(await host.call("hub__save"))) == {"content": LINES}
        cut = await less.call("hub__save")
        id, _ = id_in(cut)
        whole = await less.result("resources/read", {"uri": f"hub://results/{id}"})
        assert json.loads(whole["contents"][0]["text"]) == {"content": LINES}


@pytest.mark.covers("EL-1")
async def test_a_structure_that_says_more_than_the_text_is_kept_as_text(pair: Pair, autojump_clock):
    fakes = logs(pair)
    many = {"a": 1, "list": [f"item {number}" for number in range(500)]}
    fakes["logs"].on["tools/call:long"] = lambda *_: pair.whole(
        content=[{"type": "text", "text": "500 items"}], structuredContent=many
    )
    async with pair.house(fakes, upstreams=LIMIT) as (_, host):
        result = await host.call("logs__long")
        assert "structuredContent" not in result
        id, _ = id_in(result)
        whole = await host.result("resources/read", {"uri": f"hub://results/{id}"})
        assert json.loads(whole["contents"][0]["text"]) == many


@pytest.mark.covers("EL-2")
async def test_a_change_of_the_limit_counts_at_once_and_what_is_kept_stays(pair: Pair, autojump_clock):
    async with pair.house(logs(pair), upstreams=LIMIT) as (house, host):
        id, _ = id_in(await host.call("logs__long"))
        config = house.hub.config
        upstreams = {"logs": structs.replace(config.upstreams["logs"], large_results_bytes=0)}
        changed = structs.replace(config, upstreams=upstreams)
        await house.hub.prepare(changed)
        house.hub.apply(changed)
        assert said(await host.call("logs__long")) == LINES
        assert await host.names() == ["logs__long", "logs__short"]
        whole = await host.result("resources/read", {"uri": f"hub://results/{id}"})
        assert whole["contents"][0]["text"] == LINES


@pytest.mark.covers("EL-2")
async def test_a_denied_call_is_no_way_round(pair: Pair, autojump_clock):
    policy = PolicyConfig(deny=("logs__long principal:bob",))
    async with pair.house(logs(pair), upstreams=LIMIT, policy=policy) as (house, host):
        bob = await pair.host(house, identity=BOB)
        assert (await bob.error("tools/call", {"name": "logs__long", "arguments": {}}))["code"] == -32602
        assert id_in(await host.call("logs__long"))
