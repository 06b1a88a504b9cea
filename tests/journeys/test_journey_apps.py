"""MCP Apps through names and URIs: a view of an upstream finds its own server's tools and resources."""

import pytest

UI = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
VIEW = "ui://panel/main.html"
LINK = {"resourceUri": VIEW, "csp": {"connectDomains": ["https://example.com"]}}
TOOLS = [
    {"name": "show", "inputSchema": {"type": "object"}, "_meta": {"ui": LINK, "ui/resourceUri": VIEW}},
    {"name": "refresh", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}},
]
PAGE = {"uri": VIEW, "mimeType": "text/html;profile=mcp-app", "text": "<p>hi", "_meta": {"ui": {"prefersBorder": True}}}


def with_views(pair):
    fake = pair.fake(tools=[], resources=[{"uri": VIEW, "name": "panel"}])
    fake.lists["tools"] = TOOLS
    more = {} if pair.to_legacy else {"ttlMs": 0, "cacheScope": "private"}
    fake.on["resources/read"] = lambda *_: pair.whole(contents=[PAGE], **more)
    data = {
        "content": [{"type": "text", "text": "shown"}],
        "structuredContent": {"rows": [1]},
        "_meta": {"v.example/x": 1},
    }
    fake.on["tools/call"] = lambda message, _: pair.whole(**data)
    return fake


@pytest.mark.covers("X-15", "X-16", "X-18", "X-19", "X-21")
async def test_a_view_finds_its_page_and_its_tools(pair, autojump_clock):
    fakes = {"a": with_views(pair), "b": with_views(pair)}
    marked = {name: {"apps": True} for name in fakes}
    async with pair.house(fakes, upstreams=marked) as (house, _):
        host = await pair.host(house, capabilities=UI)
        tools = {tool["name"]: tool for tool in (await host.result("tools/list"))["tools"]}
        ui = tools["b__show"]["_meta"]["ui"]
        assert ui == {**LINK, "resourceUri": "ui://b~panel/main.html", "visibility": ["model"]}
        assert tools["b__show"]["_meta"]["ui/resourceUri"] == ui["resourceUri"]
        page = (await host.result("resources/read", {"uri": ui["resourceUri"]}))["contents"][0]
        assert page == {**PAGE, "uri": ui["resourceUri"]}
        again = (await host.result("resources/read", {"uri": VIEW}))["contents"][0]
        assert again == PAGE
        asked = [len(fakes[name].conversation.of("resources/read")) for name in "ab"]
        assert asked == [0, 1 if pair.to_legacy else 2], "b's view was used last; where it is observed, it is kept"
        result = await host.call("show")
        assert result["structuredContent"] == {"rows": [1]}
        assert result["_meta"]["v.example/x"] == 1
        assert fakes["a"].conversation.of("tools/call")[0]["params"]["name"] == "show"


@pytest.mark.covers("X-17", "X-22", "X-24")
async def test_hosts_without_views_see_no_trace_of_them(pair, autojump_clock):
    fakes = {"a": with_views(pair), "b": with_views(pair)}
    async with pair.house(fakes, upstreams={"a": {"apps": True}}) as (house, host):
        assert await host.names() == ["a__show", "b__show"]
        views = await pair.host(house, capabilities=UI)
        assert await views.names() == ["a__show", "a__refresh", "show", "refresh", "b__show"]
        shown = (await views.result("tools/list"))["tools"][-1]
        assert shown["_meta"]["ui"] == {"visibility": ["model"]}, "b is not marked: no view, and none of a may call it"
