"""The cancel sweep over everything that can be asked: whoever goes, and whenever, nothing is left behind (I-12)."""

from contextlib import suppress
from typing import Any

import pytest
import trio
from house import House, JudgedHost, count_tasks
from sweeps import sweep

FORM = {
    "message": "Who?",
    "mode": "form",
    "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}
SAMPLE = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
ASKED = {
    "form": {"a": ("elicitation/create", FORM)},
    "sampling": {"a": ("sampling/createMessage", SAMPLE)},
    "both at once": {"a": ("elicitation/create", FORM), "b": ("sampling/createMessage", SAMPLE)},
}
CAN = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}
PARK_S = 2.0


class Journey:
    """A call with all its rounds."""

    def __init__(self, house: House, host: JudgedHost) -> None:
        self.done = trio.Event()
        house.nursery.start_soon(self._go, host)

    async def _go(self, host: JudgedHost) -> None:
        host.hasty = True
        call = params = {"name": "up__ask", "arguments": {}}
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the host was killed
            answer: dict[str, Any] = {}
            while not answer or answer.get("result", {}).get("resultType") == "input_required":
                params = await host.fulfil(call, answer["result"]) if answer else call
                answer = await host.ask("tools/call", params)
        self.done.set()


def inquisitive(pair, asked):
    fake = pair.fake(tools=["ask", "echo"])
    text = {"type": "text", "text": "done"}
    fake.on["tools/call:ask"] = pair.asks(ASKED[asked], lambda answers: {"content": [text]})
    return fake


def willing(host):
    host.on["elicitation/create"] = lambda params: {"action": "accept", "content": {"a": "me"}}
    host.on["sampling/createMessage"] = lambda params: SAID
    return host


@pytest.mark.covers("I-12", "F-I-03", "F-H-02", "P-10")
@pytest.mark.parametrize("asked", ASKED)
async def test_a_call_that_asks_can_be_cancelled_at_any_moment(pair, autojump_clock, asked):
    async with pair.house({"up": inquisitive(pair, asked)}, park_ttl_s=PARK_S) as (house, _):
        host = willing(await pair.host(house, capabilities=CAN))
        for _ in range(2):  # after the first, it gets a session of its own
            assert (await host.call("up__ask"))["content"][0]["text"] == "done"
        await trio.sleep(20)
        tasks = count_tasks(house.nursery)

        async def start(n):
            return Journey(house, host)

        async def after():
            host.hasty = False
            assert "content" in await host.call("up__echo")
            assert host_tasks(house, host) <= tasks

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after, rest_s=10) > 10


def host_tasks(house, host):
    """All tasks but the journeys that were cancelled, which wait for an answer that they will not get."""
    journeys = [task for task in house.nursery.child_tasks if task.name.endswith("Journey._go")]
    return count_tasks(house.nursery) - len(journeys)


@pytest.mark.covers("I-12", "F-I-05", "F-H-01")
async def test_a_host_that_is_asked_can_go_at_any_moment(pair, autojump_clock):
    async with pair.house({"up": inquisitive(pair, "both at once")}, park_ttl_s=PARK_S) as (house, steady):
        hosts = []

        async def before():
            hosts.append(willing(await pair.host(house, capabilities=CAN)))

        async def start(n):
            return Journey(house, hosts[-1])

        async def after():
            assert "content" in await steady.call("up__echo")
            await hosts[-1].leave()
            await hosts[-1].end()

        assert await sweep(house, lambda: hosts[-1].kill_now(), start, before=before, after=after, rest_s=10) > 10


@pytest.mark.covers("I-12", "F-I-06")
async def test_an_upstream_that_asks_can_go_at_any_moment(pair, autojump_clock):
    async with pair.house({"up": inquisitive(pair, "form")}, park_ttl_s=PARK_S) as (house, _):
        host = willing(await pair.host(house, capabilities=CAN))
        journeys = []

        async def start(n):
            journeys.append(Journey(house, host))
            return journeys[-1]

        async def after():
            with trio.fail_after(30):
                await journeys[-1].done.wait()
            assert "isError" not in await host.call("up__echo")

        assert await sweep(house, lambda: house.hub.supervisor.restart("up"), start, after=after, rest_s=10) > 10
