"""Whose turn it is to start: those that hosts wait for go first."""

import trio
import trio.testing

from config.remembered_facts import Memory
from upstreams.cold_start.recognise_runner import PackageRun
from upstreams.cold_start.start_gate import StartGate
from upstreams.cold_start.start_timeouts import Start, StartLimits

LIMITS = StartLimits(at_once=2, cold_at_once=1)


class Queue:
    """Starts at a gate that have their turns until they are ended; `begun` in the order of these."""

    def __init__(self, nursery):
        self.gate = StartGate(Memory(None), LIMITS, lambda config: True)
        self.begun = []
        self._nursery = nursery
        self._starts, self._ends = {}, {}

    async def add(self, *names, cold=False):
        for name in names:
            self._starts[name] = Start(PackageRun("npx", f"npx {name}"), LIMITS, 12, cold=cold)
            self._ends[name] = trio.CancelScope()
            self._nursery.start_soon(self._start, name)
            await trio.testing.wait_all_tasks_blocked()

    async def _start(self, name):
        start = self._starts[name]
        with self._ends[name]:
            async with self.gate.package(start), self.gate.turn(start):
                self.begun.append(name)
                await trio.sleep_forever()

    async def hurry(self, *names):
        for name in names:
            self.gate.hurry(self._starts[name])
            await trio.testing.wait_all_tasks_blocked()

    async def end(self, *names):
        for name in names:
            self._ends[name].cancel()
            await trio.testing.wait_all_tasks_blocked()


async def test_a_server_that_a_host_waits_for_does_not_wait_for_others(nursery):
    queue = Queue(nursery)
    await queue.add(*"abcdefg")
    assert queue.begun == ["a", "b"]
    await queue.hurry("g", "e", "f")
    assert queue.begun == ["a", "b", "g", "e"], "as many again, and no more"
    await queue.end("a")
    assert queue.begun[4:] == ["f"]
    await queue.end("b", "g")
    assert queue.begun[5:] == []
    await queue.end("e")
    assert queue.begun[5:] == ["c"]
    nursery.cancel_scope.cancel()


async def test_of_servers_that_are_installed_it_is_the_next(nursery):
    queue = Queue(nursery)
    await queue.add(*"abcd", cold=True)
    await queue.hurry("d")
    assert queue.begun == ["a"]
    await queue.add("warm")
    assert queue.begun == ["a", "warm"]
    await queue.end("a")
    assert queue.begun == ["a", "warm", "d"]
    nursery.cancel_scope.cancel()


async def test_one_that_is_ended_while_it_waits_takes_no_turn(nursery):
    queue = Queue(nursery)
    await queue.add(*"abcd")
    await queue.end("c")
    await queue.end("a")
    assert queue.begun == ["a", "b", "d"]
    await queue.end("b", "d")
    await queue.add(*"efg")
    assert queue.begun[3:] == ["e", "f"]
    nursery.cancel_scope.cancel()
