"""Other names and descriptions of tools in a running hub: calls, saved permissions, and who hears of a change."""

import pytest
import trio
from msgspec import structs

from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

pytestmark = pytest.mark.covers("EP-11")
CHANGED = "notifications/tools/list_changed"
RENAME = {"files": {"rename": {"read_text_file": "read"}, "describe": {"write": "Ask first."}}}


def fakes():
    return {"files": FakeUpstream(tools=["read_text_file", "write"]), "mail": FakeUpstream(tools=["send"])}


def called(fake):
    calls = [message for each in fake.conversations for message in each.received if message["method"] == "tools/call"]
    return [message["params"]["name"] for message in calls]


@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_the_server_is_called_by_its_own_name(autojump_clock, carrier, version):
    servers = fakes()
    async with a_house(servers, upstreams=RENAME) as house:
        host = await house.host(carrier, version)
        alone = await house.host(carrier, version, endpoint="files")
        assert await host.names() == ["files__read", "files__write", "mail__send"]
        assert await alone.names() == ["read", "write"]
        for name in ("files__read", "files__read_text_file"):
            assert not (await host.call(name)).get("isError")
        for name in ("read", "read_text_file"):
            assert not (await alone.call(name)).get("isError")
        assert called(servers["files"]) == ["read_text_file"] * 4


async def test_a_reload_tells_hosts_whose_lists_differ_and_no_others(autojump_clock):
    async with a_house(fakes()) as house:
        everything = await house.host("lines", L4)
        files = await house.host("lines", L4, endpoint="files")
        mail = await house.host("lines", L4, endpoint="mail")
        for host in (everything, files, mail):
            await host.names()
        was = house.hub.config
        changed = structs.replace(was.upstreams["files"], **RENAME["files"])
        house.hub.apply(structs.replace(was, upstreams={**was.upstreams, "files": changed}))
        await trio.sleep(1)
        assert [len(host.of(CHANGED)) for host in (everything, files, mail)] == [1, 1, 0]
        assert await everything.names() == ["files__read", "files__write", "mail__send"]
        assert await files.names() == ["read", "write"]
        assert (await everything.result("tools/list"))["tools"][1]["description"] == "Ask first."


async def test_a_tool_that_comes_later_takes_its_name_back(autojump_clock):
    servers = fakes()
    async with a_house(servers, upstreams=RENAME) as house:
        host = await house.host("lines", L4)
        assert "files__read" in await host.names()
        servers["files"].lists["tools"].append({"name": "read", "inputSchema": {"type": "object"}})
        await servers["files"].conversation.tell(CHANGED)
        await trio.sleep(1)
        assert await host.names() == ["files__read_text_file", "files__write", "files__read", "mail__send"]
        await host.call("files__read")
        assert called(servers["files"]) == ["read"]
        (warning,) = (await house.api.status()).warnings
        assert "keeps its name, since another tool is called 'files__read'" in warning
