"""One operation on its way to an upstream, and its reply on the way back."""

import json

import pytest

from hub.catalog.rewrite_embedded_uris import LARGE_BYTES
from hub.wire.jsonrpc import Failure, Request, Result, raw
from hub.wire.mcp import L4, MODERN, Kind
from hub.wire.total_item_limit import MAX_ITEMS, SMALL_BYTES
from tests.support.fakes import FakeHost
from tests.support.routing_bench import Bench


@pytest.mark.parametrize(
    ("code", "text", "stale"),
    [
        (-32602, "Unknown tool: echo", True),
        (-32602, "MCP error -32602: Tool echo not found", True),
        (-32601, "Unknown method", True),
        (-32602, "text is missing", False),
        (-32603, "Unknown tool", False),
    ],
)
async def test_an_upstream_that_does_not_know_its_own_tool_is_out_of_date(code, text, stale):
    bench = Bench("echo")
    bench.files.answer = Failure(code, text)
    assert await bench.ask("tools/call", name="files__echo") == Failure(code, text)
    assert bench.files.stale == ([(Kind.TOOL,)] if stale else [])


async def test_the_level_of_a_modern_request_is_wanted_before_it_is_sent():
    bench = Bench("echo")
    await bench.ask("tools/call", FakeHost(version=L4, level="debug"), name="files__echo")
    assert bench.applied == []
    await bench.ask("tools/call", FakeHost(version=MODERN, level="debug"), name="files__echo")
    assert bench.applied == ["debug"]


async def test_parameters_are_passed_on_without_being_changed_in_the_request():
    bench = Bench("echo")
    arguments = {"deep": [1, {"a": None}], "uri": "file:///a"}
    request = Request(1, "tools/call", {"name": raw("files__echo"), "arguments": raw(arguments), "extra": raw(1)})
    await bench.router.dispatch(request, FakeHost())
    assert json.loads(bytes(request.params["name"])) == "files__echo"
    sent = {name: json.loads(bytes(value)) for name, value in bench.files.calls[0].params.items()}
    assert sent == {"name": "echo", "arguments": arguments, "extra": 1}


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize("filler", [0, LARGE_BYTES])
async def test_tagged_uris_in_arguments_are_put_right_however_large_these_are(filler):
    """Large ones in a thread, so that nobody else waits."""
    bench = Bench("find")
    text = {"more": "a" * filler}
    await bench.ask("tools/call", name="files__find", arguments={"uri": "hub.files+x://1", **text})
    (called,) = bench.files.calls
    assert json.loads(bytes(called.params["arguments"])) == {"uri": "x://1", **text}


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize("filler", [0, LARGE_BYTES])
async def test_a_call_with_too_many_tagged_uris_is_refused_and_not_made(filler, monkeypatch):
    monkeypatch.setattr("hub.catalog.rewrite_embedded_uris.MAX_TAGS", 2)
    bench = Bench("find")
    found = await bench.ask("tools/call", name="files__find", arguments=["hub.files+x://1"] * 3 + ["a" * filler])
    assert isinstance(found, Failure)
    assert found.code == -32602
    assert found.message == (
        "The arguments hold more than 2 URIs with a tag of the hub, more than the hub puts right in one call;"
        " pass fewer at a time"
    )
    assert not bench.files.calls


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"content": [], "more": [1] * (MAX_ITEMS + 1)}, "a result has more than 100000 items"),
        ({"content": [1] * MAX_ITEMS + [{"uri": 1}]}, "the content of a result has more than 100000 items"),
        ({"content": [{"uri": 1}] * 5001 + ["a" * SMALL_BYTES]}, "a result has 5001 URIs; the hub looks up 5000"),
    ],
)
async def test_a_result_with_more_in_it_than_the_hub_looks_through_is_an_error(answer, why):
    bench = Bench("find")
    bench.files.answer = Result(raw(answer))
    found = await bench.ask("tools/call", FakeHost(version=MODERN), name="files__find", arguments={})
    assert isinstance(found, Result)
    told = json.loads(bytes(found.value))
    assert told["isError"]
    assert why in told["content"][0]["text"]
