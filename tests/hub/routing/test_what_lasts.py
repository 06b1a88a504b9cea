"""Subscriptions and followed tasks, judged again when the tables of stages change; and the names of tasks' tools."""

import pytest
import trio

from hub.bridge.tasks.translate_tasks import TaskTicket
from hub.calls.chain import Stage
from hub.catalog.upstream_entries import UpstreamEntries
from hub.routing.compose_chains import Line
from hub.wire.jsonrpc import Failure, Result
from hub.wire.mcp import L4, MODERN
from tests.journeys.test_journey_subscriptions import A, B, listen, notes, settle, told, touch
from tests.journeys.test_journey_tasks import EXTENSION, FakeTask, TaskServer, tasks_of
from tests.support.fakes import FakeHost, FakeUpstream
from tests.support.house import a_house
from tests.support.routing_bench import Bench
from upstreams.subscriptions.resource_subscription import LINGER_S

REFUSED = -32060


class Refusal(Stage):
    """Refuses what has one of these names, as rules would."""

    def __init__(self):
        self.names = set()

    def admits(self, intent):
        return Failure(REFUSED, "refused") if intent.target.exposed in self.names else None


def refuse_in(house, *names):
    """The refusal of these in a house from now on."""
    stage, chains = Refusal(), house.hub.router.chains
    chains.outer.insert(0, Line(stage))
    stage.names.update(names)
    house.hub.apply(house.hub.config)
    return stage


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_who_may_not_watch_any_more_is_told_once(autojump_clock, version):
    fake = FakeUpstream(resources=notes(A, B))
    async with a_house({"files": fake}) as house:
        host = await house.host(version=version)
        await listen(host, A, B)
        stage = refuse_in(house)
        await settle()
        assert told(host) == []
        stage.names.add(A)
        house.hub.apply(house.hub.config)
        await settle()
        assert told(host) == [A]
        await trio.sleep(LINGER_S + 1)
        assert fake.watched() == [B]
        await touch(fake, A)
        await touch(fake, B)
        assert told(host) == [A, B]
        house.hub.apply(house.hub.config)
        await settle()
        assert told(host) == [A, B]


async def test_a_task_that_may_not_be_followed_any_more_is_told_of_no_more(autojump_clock):
    async def work(task: FakeTask) -> None:
        for step in range(100):
            task.change(message=str(step))
            await trio.sleep(2)

    fake = TaskServer(MODERN, work)
    async with a_house({"files": fake}) as house:
        host = await house.host(version=MODERN, capabilities=EXTENSION)
        id = (await host.result("tools/call", {"name": "files__slow"}))["taskId"]
        await host.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
        await trio.sleep(9.5)
        assert len(host.of("notifications/tasks")) >= 4
        stage = refuse_in(house, "files__slow")
        before, asked = len(host.of("notifications/tasks")), len(tasks_of(fake, "tasks/get"))
        await trio.sleep(20)
        assert len(host.of("notifications/tasks")) == before
        assert len(tasks_of(fake, "tasks/get")) == asked
        await host.error("tasks/get", {"taskId": id})
        assert len(tasks_of(fake, "tasks/get")) == asked
        stage.names.clear()
        assert (await host.result("tasks/get", {"taskId": id}))["status"] == "working"


def names_asked(ticket, refused=()):
    """The names by which the task of a ticket is asked for, and whether it may be followed."""
    bench, stage = Bench("slow"), Refusal()
    stage.names.update(refused)
    bench.router.chains.outer.append(Line(stage))
    bench.router.adjust({})
    intents, host = bench.router._intents, FakeHost(version=MODERN)
    return intents._about_task(ticket, host).target.exposed, intents.may_follow(ticket, host)


@pytest.mark.parametrize("exposed", ["", "files__slow", "before__slow"])
async def test_a_task_is_judged_by_the_name_of_its_tool(exposed):
    ticket = TaskTicket("files", "me", "t", "slow", MODERN, exposed=exposed)
    assert names_asked(ticket) == ("files__slow", True)
    assert names_asked(ticket, ["files__slow"]) == ("files__slow", False)


async def test_of_two_names_the_one_that_was_called_counts(monkeypatch):
    monkeypatch.setattr(UpstreamEntries, "names_of", lambda self, tool: {"a", "b"})
    new, old = (TaskTicket("files", "me", "t", "slow", MODERN, exposed=name) for name in ("b", ""))
    assert names_asked(new) == ("b", True)
    assert names_asked(new, ["b"]) == ("b", False)
    assert names_asked(old, ["a"]) == ("b", True)
    assert names_asked(old, ["a", "b"]) == ("a", False)


async def test_a_task_goes_by_the_stages_of_its_tool():
    bench, stage = Bench("slow"), Refusal()
    bench.router.chains.outer.append(Line(stage))
    bench.router.adjust({})
    ticket, host = TaskTicket("files", "me", "t", "slow", MODERN), FakeHost(version=MODERN)
    call = bench.router._intents.call_about_task(ticket, host)
    operation = bench.router._intents._about_task(ticket, host).operation
    assert isinstance(await call(operation, host), Result)
    stage.names.add("files__slow")
    assert await call(operation, host) == Failure(REFUSED, "refused")
    assert len(bench.files.calls) == 1
