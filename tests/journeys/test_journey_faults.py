"""An internal fault at every await of every handler: only that request fails, and the log says why."""

import re
import types
from typing import Any

import pytest
import trio

from hub.wire.jsonrpc import raw

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": "up__echo", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "up__greet"}),
    "resource": ("resources/read", {"uri": "file:///a"}),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "up__greet"}, "argument": {"name": "a", "value": ""}},
    ),
}


OTHER = raw("other__echo")


class Fault(Exception):
    """A bug."""


@types.coroutine
def faulty(handler, n):
    """Run a coroutine, but have it fail at its n-th await, once that is over."""
    value, error = None, None
    while True:
        try:
            trap = handler.send(value) if error is None else handler.throw(error)
        except StopIteration as stop:
            return stop.value
        value, error = None, None
        try:
            value = yield trap
        except BaseException as raised:  # noqa: BLE001 - a cancellation, for instance: the handler's to deal with
            error = raised
        n -= 1
        if n == 0 and error is None:
            error = Fault(f"at an await of {handler.__qualname__}")


def server(pair):
    fake = pair.fake(tools=["echo"], prompts=[{"name": "greet"}], resources=[{"uri": "file:///a", "name": "a"}])
    fake.capabilities = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
    text = {"type": "text", "text": "hi"}
    fake.on["prompts/get"] = lambda message, _: pair.whole(messages=[{"role": "user", "content": text}])
    fresh = {} if pair.to_legacy else {"ttlMs": 0, "cacheScope": "private"}
    fake.on["resources/read"] = lambda message, _: pair.whole(contents=[{"uri": "file:///a", "text": "x"}], **fresh)
    fake.on["completion/complete"] = lambda message, _: pair.whole(completion={"values": []})
    return fake


@pytest.mark.covers("F-D-13", "SEC-16", "M-06", "I-3", "I-12")
@pytest.mark.parametrize("what", CALLS)
async def test_a_fault_at_any_await_costs_one_request(pair, autojump_clock, caplog, monkeypatch, what):
    method, params = CALLS[what]
    async with pair.house({"up": server(pair), "other": pair.fake()}) as (house, host):
        other = await pair.host(house)
        router = house.hub.router
        dispatch = router.dispatch
        n, failed = 0, True
        while failed:
            n += 1
            caplog.clear()

            def failing(request, exchange, n=n):
                handler = dispatch(request, exchange)
                return (
                    faulty(handler, n) if request.method == method and request.params.get("name") != OTHER else handler
                )

            monkeypatch.setattr(router, "begin", lambda *request: None)  # which awaits nothing
            monkeypatch.setattr(router, "dispatch", failing)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_is_served, other)
                answer = await host.ask(method, params)
            monkeypatch.setattr(router, "dispatch", dispatch)
            failed = "error" in answer
            if failed:
                assert answer["error"]["code"] == -32603
                ref = answer["error"]["data"]["ref"]
                [record] = [record for record in caplog.records if record.exc_info]
                assert re.search(rf"cannot answer {method} \(ref {ref}\)", record.getMessage())
                assert record.exc_info[0] is Fault
                assert "Fault" not in str(answer), "a host learns nothing of what is inside"
            else:
                assert not [record for record in caplog.records if record.exc_info]
            assert "result" in await host.ask(method, params)
            await _is_served(other)
            await trio.sleep(1)
            house.assert_at_rest()
        assert n > 1


async def _is_served(host):
    assert (await host.call("other__echo"))["content"]
