"""Many calls of one host at a time: cancelled all at once, cut off by the loss of their server, or by the hub's end."""

import random

import pytest
import trio
import trio.testing

from tests.support.fakes import Conversation

MANY = 60


class Holding:
    """An upstream that keeps calls of its tool `hold` until it is told to answer."""

    def __init__(self, pair):
        self._pair = pair
        self.held: dict[int, tuple[int, Conversation]] = {}
        """The id of each call, and where it came."""
        self.fake = pair.fake(tools=["hold", "echo"])
        self.fake.on["tools/call:hold"] = self._hold

    def _hold(self, message, conversation):
        self.held[message["params"]["arguments"]["number"]] = message["id"], conversation

    async def answer(self, number):
        id, conversation = self.held[number]
        await conversation.say({"id": id, "result": self._pair.whole(content=[{"type": "text", "text": str(number)}])})

    def told(self):
        """The calls that it was told to end."""
        numbers = {id: number for number, (id, _) in self.held.items()}
        [conversation] = {conversation for _, conversation in self.held.values()}
        return [numbers[each["params"]["requestId"]] for each in conversation.of("notifications/cancelled")]


async def begin(host, server):
    """Many calls, all of which wait for the server."""
    params = [{"name": "up__hold", "arguments": {"number": number}} for number in range(MANY)]
    calls = [await host.start_without_waiting("tools/call", each) for each in params]
    await trio.testing.wait_all_tasks_blocked()
    assert len(server.held) == MANY
    return calls


async def is_served(host):
    for _ in range(10):
        assert (await host.call("other__echo"))["content"]


@pytest.mark.covers("I-1", "I-2", "I-3", "I-12")
async def test_a_storm_of_cancellations_ends_what_it_means_and_nothing_else(pair, autojump_clock):
    server = Holding(pair)
    async with pair.house({"up": server.fake, "other": pair.fake()}) as (house, host):
        other = await pair.host(house)
        calls = await begin(host, server)
        cancelled = set(random.sample(range(MANY), MANY // 2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(is_served, other)
            for number in random.sample(range(MANY), MANY):
                if number in cancelled:
                    nursery.start_soon(host.cancel, calls[number])
                else:
                    nursery.start_soon(server.answer, number)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(server.told()) == sorted(cancelled)
        for number in cancelled:
            await server.answer(number)  # too late
        await trio.sleep(1)
        for number, call in enumerate(calls):
            found = None if call.answer is None else call.answer["result"]["content"][0]["text"]
            assert found == (None if number in cancelled else str(number))
        house.assert_at_rest()


@pytest.mark.covers("I-1", "I-2", "I-3", "I-12")
async def test_calls_that_are_answered_and_cancelled_in_one_moment_end_once(pair, autojump_clock):
    """The host may have its answer or not, and the server be told or not: nothing stays of any."""
    server = Holding(pair)
    async with pair.house({"up": server.fake, "other": pair.fake()}) as (house, host):
        calls = await begin(host, server)
        async with trio.open_nursery() as nursery:
            for number in random.sample(range(MANY), MANY):
                nursery.start_soon(host.cancel, calls[number])
                nursery.start_soon(server.answer, number)
        await trio.sleep(1)
        assert len(set(server.told())) == len(server.told())
        house.assert_at_rest()
        assert (await host.call("up__echo"))["content"]


@pytest.mark.covers("F-P-02", "I-1", "I-3", "I-12")
async def test_a_server_that_is_lost_costs_its_own_calls_only(pair, autojump_clock):
    server = Holding(pair)
    async with pair.house({"up": server.fake, "other": pair.fake()}) as (house, host):
        other = await pair.host(house)
        calls = await begin(host, server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(is_served, other)
            nursery.start_soon(is_served, host)
            await server.held[0][1].close()
        for call in calls:
            answer = await call.wait()
            assert "error" in answer or answer["result"]["isError"]
        await trio.sleep(5)
        house.assert_at_rest()
        assert (await host.call("up__echo"))["content"]


@pytest.mark.covers("F-H-07", "I-12")
async def test_calls_that_a_stop_cuts_off_are_answered_once_each(pair, autojump_clock):
    server = Holding(pair)
    async with pair.house({"up": server.fake}) as (house, host):
        calls = await begin(host, server)
        house.hub.hosts.requests.cut_off()
        for call in calls:
            answer = await call.wait()
            assert "The hub was stopped before this request had ended" in str(answer)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(server.told()) == list(range(MANY))
        house.assert_at_rest()
