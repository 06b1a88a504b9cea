"""What pages that are open are told, whether or not they read it."""

from itertools import pairwise

import pytest
import trio

from hub.daemon.dashboard.feed import MAX_PAGES, TICK_S
from tests.support.dashboard_world import a_dashboard
from tests.support.fakes import FakeUpstream


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with a_dashboard(tmp_path, monkeypatch, {"db": FakeUpstream(tools=["echo"])}) as world:
        await (await world.house.host()).names()
        yield world


@pytest.mark.covers("OD-7")
async def test_a_page_sees_a_call_begin_and_end(world):
    key = await world.sign_in()
    async with world.page(key) as page, world.page(key) as other:
        state = (await page.until("state"))["set"]
        assert state["totals"]["tools"] == 1
        assert (state["server/db"]["word"], state["server/db"]["health"]) == ("connected", "good")
        assert state["server/db"]["calls"] == 0
        assert len(state["seconds"][0]) == len(state["server/db"]["spark"]) == 60
        assert (await page.until("calls"))["calls"] == []
        host = await world.house.host()
        await host.call("db__echo")
        (call,) = (await page.until("calls"))["calls"]
        assert (call["upstream"], call["name"], call["outcome"]) == ("db", "db__echo", "")
        with trio.fail_after(30):
            while (row := (await other.until("tick"))["set"].get("server/db")) is None:
                pass
        assert (row["calls"], sum(row["spark"])) == (1, 1)


@pytest.mark.covers("OD-7")
async def test_several_pages_are_told_what_was_looked_up_once(world, monkeypatch):
    feed, looks = world.dashboard.routes.feed, []
    look = feed.look

    async def counted():
        looks.append(trio.current_time())
        return await look()

    key = await world.sign_in()
    monkeypatch.setattr(feed, "look", counted)
    async with world.page(key) as first, world.page(key) as second, world.page(key) as third:
        pages = first, second, third
        for page in pages:
            await page.until("state")
        for _ in range(2):
            for page in pages:
                await page.until("tick")
        assert all(later - at >= TICK_S / 2 for at, later in pairwise(looks))
    with trio.fail_after(30):
        while feed._pages:
            await trio.lowlevel.checkpoint()
    assert not feed._seen[2], "nothing is kept while nobody watches"


@pytest.mark.covers("OD-7")
async def test_members_that_are_as_they_were_are_not_told(world):
    async with world.page(await world.sign_in()) as page:
        state = (await page.until("state"))["set"]
        assert {"totals", "seconds", "projects", "limits", "inbox"} <= state.keys()
        changed = (await page.until("tick"))["set"]
        assert not {"totals", "seconds", "projects", "limits", "inbox"} & changed.keys()
        if row := changed.get("server/db"):  # a second begins within a rounded one
            assert {name for name in row if row[name] != state["server/db"][name]} == {"since"}


@pytest.mark.covers("OD-7")
async def test_a_page_that_never_reads_loses_events_and_then_is_told_all(world, monkeypatch):
    monkeypatch.setattr("hub.daemon.dashboard.feed.ROOM", -1)
    async with world.page(await world.sign_in()) as page:
        with trio.fail_after(30):
            while not (pages := world.dashboard.routes.feed._pages) or next(iter(pages))._lost < 3:
                await trio.lowlevel.checkpoint()
        monkeypatch.setattr("hub.daemon.dashboard.feed.ROOM", 1 << 20)
        assert (await page.until("lost"))["events"] >= 3
        assert "server/db" in (await page.until("state"))["set"]


async def test_of_many_calls_some_are_only_counted(world):
    host = await world.house.host()
    async with world.page(await world.sign_in()) as page:
        await page.until("calls")
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(host.call, "db__echo")
        shown = more = 0
        while shown + more < 60:
            event = await page.until("calls")
            shown, more = shown + len(event["calls"]), more + event["more"]
        assert 20 <= shown < 60


@pytest.mark.covers("OD-4")
async def test_a_page_whose_key_ends_is_told_so(world):
    async with world.page(await world.sign_in()) as page:
        await page.until("state")
        await world.dashboard.end_pages()
        assert await page.until("bye") == {"why": "signed_out"}
        with pytest.raises(EOFError):
            await page.event()


async def test_a_hub_that_stops_says_so(world):
    async with world.page(await world.sign_in()) as page:
        await page.until("state")
        world.dashboard.end()
        assert await page.until("bye") == {"why": "stopping"}


async def test_a_log_is_followed(world):
    key = await world.sign_in()
    async with world.page(key, "?log=db") as page:
        records = (await page.until("log"))["records"]
        assert any("connected" in each["text"] for each in records)
    assert (await world.ask("/ui/api/feed?log=nothing", key=key)).status == 404


async def test_pages_are_few_and_leave_nothing_behind(world):
    key, before = await world.sign_in(), list(world.hub.router.chains.recorder.listeners)
    async with trio.open_nursery() as nursery:

        async def look(*, task_status):
            async with world.page(key) as page:
                await page.until("state")
                task_status.started()
                await trio.sleep_forever()

        for _ in range(MAX_PAGES):
            await nursery.start(look)
        assert (await world.ask("/ui/api/feed", key=key)).status == 503
        nursery.cancel_scope.cancel()
    with trio.fail_after(30):
        while world.dashboard.routes.feed._pages:
            await trio.lowlevel.checkpoint()
    assert world.hub.router.chains.recorder.listeners == before
