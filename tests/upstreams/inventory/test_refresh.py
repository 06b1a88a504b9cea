"""When lists are read again, and who waits for that."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from config.settings import Timeouts, UpstreamConfig
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import Result, raw
from hub.wire.mcp import L4, Era, Kind
from upstreams.inventory.refresh import CALM_READINGS, REFRESH_WAIT_S, RETRY_LIST_S, ListRefresh

LIST_S = 15
CONFIG = UpstreamConfig(command="x", timeouts=Timeouts(list=LIST_S))


class SlowSession:
    """A session whose tools and prompts take `takes_s` seconds to list."""

    era = Era.LEGACY
    prompts_take_s = 0.0
    facts = ServerFacts(L4, {"tools": raw({}), "prompts": raw({})}, {}, "")

    def __init__(self):
        self.takes_s = 0.0
        self.asked = []

    async def request(self, method, params):
        self.asked.append(method)
        await trio.sleep(self.takes_s if method != "prompts/list" else self.prompts_take_s)
        return Result(raw({method.removesuffix("/list"): []}))


class Bench:
    """Readings of the lists over one session."""

    def __init__(self, nursery):
        self.lists, self.session, self.shown = ListRefresh(CONFIG), SlowSession(), []
        self.scope = trio.CancelScope()
        self.nursery = nursery

    async def open(self):
        self.nursery.start_soon(self._run)
        await wait_all_tasks_blocked()
        return self

    async def _run(self):
        with self.scope:
            await self.lists.run(self.session, self.on_read)

    def on_read(self, found, problems):
        self.shown.append((set(found), problems))
        return False

    def times_read(self):
        return self.session.asked.count("tools/list")


async def test_the_first_lists_are_shown_together(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    assert bench.shown == [(set(Kind), [])]
    assert bench.lists.is_complete


async def test_one_reading_at_a_time_and_one_that_follows(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    bench.session.takes_s = 1
    first = bench.lists.request(Kind.TOOL)
    await wait_all_tasks_blocked()
    assert bench.lists.request(Kind.TOOL) is first, "it is being read"
    second = bench.lists.request(Kind.TOOL, anew=True)
    assert second is bench.lists.request(Kind.TOOL, anew=True) is not first
    await first.wait()
    assert (first.over.is_set(), second.over.is_set()) == (True, False)
    await second.wait()
    assert (second.over.is_set(), bench.times_read()) == (True, 3)
    await wait_all_tasks_blocked()
    assert bench.lists.request(Kind.TOOL) is not second


async def test_nobody_waits_for_what_others_have_waited_for_in_vain(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    bench.session.takes_s = 3
    slow = bench.lists.request(Kind.TOOL)
    began = trio.current_time()
    await slow.wait()
    assert trio.current_time() - began == pytest.approx(REFRESH_WAIT_S)
    assert bench.lists.request(Kind.TOOL) is bench.lists.request(Kind.TOOL, anew=True) is None
    assert bench.lists.request(Kind.PROMPT) is not None
    bench.session.takes_s = 0
    await slow.over.wait()
    assert bench.lists.request(Kind.TOOL) is None, "it was slow"
    await wait_all_tasks_blocked()
    assert bench.lists.request(Kind.TOOL) is not None, "and was quick"


async def test_a_slow_list_delays_no_other(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    bench.session.prompts_take_s = 3
    bench.lists.mark_stale([Kind.PROMPT])
    await wait_all_tasks_blocked()
    reading = bench.lists.request(Kind.TOOL, anew=True)
    await reading.wait()
    assert reading.over.is_set()
    assert bench.lists.request(Kind.PROMPT).until > trio.current_time(), "it goes on"


async def test_a_list_that_is_being_read_is_no_problem_of_another(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    bench.session.prompts_take_s = LIST_S + 1
    bench.lists.mark_stale([Kind.PROMPT, Kind.TOOL])
    await wait_all_tasks_blocked()
    assert bench.shown[-1] == ({Kind.TOOL}, [])
    await trio.sleep(LIST_S)
    await wait_all_tasks_blocked()
    assert bench.shown[-1] == (set(), ["prompts could not be read in time"])


async def test_a_list_is_waited_for_while_the_first_reading_takes_long_and_after_it(nursery, autojump_clock):
    bench = Bench(nursery)
    bench.session.takes_s = 4
    await bench.open()
    await trio.sleep(2)
    following = bench.lists.request(Kind.TOOL, anew=True)
    await following.wait()
    bench.session.takes_s = 0
    assert not following.over.is_set()
    await trio.sleep(1)
    await wait_all_tasks_blocked()
    assert following.over.is_set()
    assert bench.lists.request(Kind.TOOL) is not None, "a server that starts slowly need not be slow"


async def test_changes_that_bring_nothing_new_slow_down_readings_of_that_list_only(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    for _ in range(CALM_READINGS):
        bench.lists.mark_stale([Kind.TOOL])
        await wait_all_tasks_blocked()
    assert bench.times_read() == 1 + CALM_READINGS
    bench.lists.mark_stale([Kind.TOOL, Kind.PROMPT])
    await wait_all_tasks_blocked()
    assert (bench.times_read(), bench.session.asked[-1]) == (1 + CALM_READINGS, "prompts/list")
    await bench.lists.request(Kind.TOOL).wait()
    assert bench.times_read() == 2 + CALM_READINGS, "a host sees the list at once all the same"


async def test_what_could_not_be_read_is_read_again_after_a_while(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    bench.session.takes_s = LIST_S + 1
    bench.lists.mark_stale([Kind.TOOL])
    await trio.sleep(LIST_S + 0.5)
    assert bench.shown[-1] == (set(), ["tools could not be read in time"])
    assert not bench.lists.is_complete
    bench.session.takes_s = 0
    await trio.sleep(RETRY_LIST_S)
    assert bench.shown[-1] == ({Kind.TOOL}, [])
    assert bench.lists.is_complete


async def test_without_a_session_nobody_waits(nursery, autojump_clock):
    bench = await Bench(nursery).open()
    bench.session.takes_s = 5
    readings = [bench.lists.request(Kind.TOOL)]
    await wait_all_tasks_blocked()
    readings += [bench.lists.request(Kind.TOOL, anew=True), bench.lists.request(Kind.PROMPT)]
    bench.scope.cancel()
    await wait_all_tasks_blocked()
    assert [reading.over.is_set() for reading in readings] == [True, True, True]


async def test_a_list_that_is_wanted_before_the_session_opens_is_read_by_then(nursery, autojump_clock):
    bench = Bench(nursery)
    early = bench.lists.request(Kind.TOOL, anew=True)
    began = trio.current_time()
    await early.wait()
    assert trio.current_time() - began == pytest.approx(REFRESH_WAIT_S)
    assert bench.lists.request(Kind.TOOL, anew=True) is early, "who comes later waits as long again"
    await bench.open()
    assert early.over.is_set()
