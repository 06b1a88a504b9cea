"""The cancel sweep over all methods: a cancellation at any step leaves nothing behind."""

from contextlib import suppress
from typing import Any

import pytest
import trio

from hub.wire.mcp import MODERN
from tests.journeys.test_journey_tasks import TaskServer
from tests.support.house import House, JudgedHost, Question, tasks_at_rest
from tests.support.sweeps import sweep
from upstreams.subscriptions.resource_subscription import LINGER_S

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

    def __init__(self, house: House, host: JudgedHost, tool: str = "up__ask") -> None:
        self.done = trio.Event()
        house.nursery.start_soon(self._go, host, tool)

    async def _go(self, host: JudgedHost, tool: str) -> None:
        host.hasty = True
        call = params = {"name": tool, "arguments": {}}
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
        tasks = await tasks_at_rest(house.nursery)

        async def start(n):
            return Journey(house, host)

        async def after():
            host.hasty = False
            assert "content" in await host.call("up__echo")
            assert await tasks_of(house) <= tasks

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after, rest_s=10) > 10


async def tasks_of(house):
    """All tasks but the journeys that were cancelled, which wait for an answer that they will not get."""
    journeys = [task for task in house.nursery.child_tasks if task.name.endswith("._go")]
    return await tasks_at_rest(house.nursery) - len(journeys)


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


async def work(task):
    """Take a while, and ask in between."""
    task.change(message="looking")
    await trio.sleep(0.5)
    with trio.move_on_after(60):  # a task that the hub never heard of is asked for by nobody
        await task.ask("name", "elicitation/create", FORM)
    task.complete({"content": [{"type": "text", "text": "done"}]})


@pytest.mark.covers("I-12", "P-9")
async def test_a_task_can_be_given_up_at_any_moment(pair, autojump_clock):
    server = TaskServer(pair.upstream_version, work)
    server.poll_ms = 300
    async with pair.house({"up": server}, park_ttl_s=PARK_S) as (house, _):
        host = willing(await pair.host(house, capabilities=CAN))
        for _ in range(2):
            assert (await host.call("up__slow"))["content"][0]["text"] == "done"
        await trio.sleep(20)
        tasks = await tasks_at_rest(house.nursery)

        async def start(n):
            return Journey(house, host, "up__slow")

        async def after():
            host.hasty = False
            assert "content" in await host.call("up__echo")
            assert await tasks_of(house) <= tasks

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after, rest_s=90) > 10


class Watching:
    """A subscription, from its beginning to its end."""

    def __init__(self, house: House, host: JudgedHost) -> None:
        self.done = trio.Event()
        self.listen: Question | None = None
        house.nursery.start_soon(self._go, host)

    async def _go(self, host: JudgedHost) -> None:
        host.hasty = True
        if host.version == MODERN:
            heard = len(host.of("notifications/subscriptions/acknowledged"))
            self.listen = await host.start(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["n://a"]}}
            )
            for _ in range(20):
                if len(host.of("notifications/subscriptions/acknowledged")) == heard:
                    await trio.sleep(0.01)
            with suppress(KeyError):  # it is over already
                await host.cancel(self.listen)
        else:
            await host.ask("resources/subscribe", {"uri": "n://a"})
            await host.ask("resources/unsubscribe", {"uri": "n://a"})
        self.done.set()


@pytest.mark.covers("I-12", "N-13", "N-14", "F-H-24")
async def test_a_subscription_can_be_cancelled_at_any_moment(pair, autojump_clock):
    fake = pair.fake(resources=[{"uri": "n://a", "name": "a"}])
    async with pair.house({"up": fake}) as (house, host):
        await host.names("resources")
        await trio.sleep(20)
        tasks = await tasks_at_rest(house.nursery)

        async def start(n):
            return Watching(house, host)

        async def after():
            host.hasty = False
            if pair.from_legacy:
                await host.ask("resources/unsubscribe", {"uri": "n://a"})
            await trio.sleep(LINGER_S + 1)
            assert fake.watched() == []
            assert await tasks_of(house) <= tasks

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after) > 10
