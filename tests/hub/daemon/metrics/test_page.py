"""The page of metrics: one rendering for all who ask, in steps of bounded size."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hub.daemon.metrics.page import SHARED_S, MetricsPage
from hub.link.hub_errors import HubError
from hub.telemetry.prometheus_text import SERIES, Family
from hub.telemetry.tally import Histogram
from tests.support.http_fakes import Answered

TOOLS = 2_000


class Told:
    """Families of a hub with many tools, and how many series were read."""

    def __init__(self):
        self.series = self.times = 0

    def tell(self):
        self.times += 1
        yield Family("calls_seconds", "histogram", "How long.", self._series())

    def _series(self):
        for each in range(TOOLS):
            self.series += 1
            yield (("tool", f"tool_{each}"),), Histogram()


@pytest.fixture
async def page(nursery, autojump_clock):
    page = MetricsPage(lambda: page.told.tell())
    page.told = Told()
    nursery.start_soon(page.run)
    yield page
    nursery.cancel_scope.cancel()


@pytest.mark.covers("OM-4")
async def test_in_one_step_no_more_than_so_many_series_are_written(page):
    class Steps(trio.abc.Instrument):
        before, longest = 0, 0

        def after_task_step(self, task):
            self.before, steps = page.told.series, page.told.series - self.before
            self.longest = max(self.longest, steps)

    trio.lowlevel.add_instrument(steps := Steps())
    text = await page.metrics()
    assert text.count("\ncalls_seconds_count") == TOOLS
    assert steps.longest == SERIES


@pytest.mark.covers("OM-4")
async def test_whoever_asks_at_about_the_same_time_gets_the_same_bytes(page, nursery):
    answers = [Answered() for _ in range(3)]
    for answer in answers:
        nursery.start_soon(page.handle, None, answer)
    await wait_all_tasks_blocked()
    text = await page.metrics()
    await trio.sleep(SHARED_S / 2)
    assert await page.metrics() == text
    assert {answer.body.decode() for answer in answers} == {text}
    assert page.told.times == 1
    await trio.sleep(SHARED_S)
    await page.metrics()
    assert page.told.times == 2


async def test_who_leaves_takes_the_metrics_from_nobody(page, nursery):
    async with trio.open_nursery() as leaving:
        leaving.start_soon(page.metrics)
        await trio.lowlevel.checkpoint()
        leaving.cancel_scope.cancel()
    assert (await page.metrics()).startswith("# HELP")


async def test_a_fault_is_said_to_who_asks_and_is_over_with_the_next_text(page, caplog):
    told, page.told = page.told, None
    answer = Answered()
    await page.handle(None, answer)
    assert answer.status == 500
    with pytest.raises(HubError, match="the hub's log says more"):
        await page.metrics()
    await trio.sleep(2 * SHARED_S)
    page.told = told
    assert (await page.metrics()).startswith("# HELP")
    assert "the metrics could not be written" in caplog.text
