"""Tokens of servers and hosts in the status of a hub."""

import json

import pytest

from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house


def tokens(tools):
    """About how many tokens the definitions of these tools take, by the rule of four bytes."""
    shown = [{name: tool[name] for name in ("name", "description", "inputSchema") if name in tool} for tool in tools]
    return -(-sum(len(json.dumps(each, separators=(",", ":")).encode()) for each in shown) // 4)


@pytest.mark.covers("ET-2")
async def test_servers_and_hosts_have_their_tokens(autojump_clock):
    fakes = {"files": FakeUpstream(tools=["read", "write_everything"]), "other": FakeUpstream(tools=["echo"])}
    fakes["files"].instructions = "Read before you write."
    async with a_house(fakes, upstreams={"files": {"tools": ("!write*",)}}) as house:
        host = await house.host("lines", L4)
        alone = await house.host("lines", L4, endpoint="other")
        listed = [(await each.result("tools/list"))["tools"] for each in (host, alone)]
        later = await house.host("lines", L4)
        status = await house.api.status()
        of = {row.name: row for row in status.upstreams}
        assert of["files"].counts.tools == 1
        assert of["files"].tokens == tokens(listed[0][:1])
        assert (of["files"].largest.name, of["files"].largest.tokens) == ("files__read", of["files"].tokens)
        assert status.instructions_tokens == -(-len(later.welcome["instructions"].encode()) // 4)
        both, one, _ = status.hosts
        assert both.tools == 2
        assert abs(both.tokens - tokens(listed[0]) - status.instructions_tokens) <= 1
        assert (one.tools, one.tokens) == (1, tokens(listed[1]))
