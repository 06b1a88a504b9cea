"""Random changes of everything: configurations, hubs that are stopped or killed, projects, and upstreams.

Beside the invariants of `test_simulation`: upstreams that no change names keep their sessions; sessions whose rights
were withdrawn get no calls; hosts are notified of lists if, and only if, these differ; each subscription exists once,
at the session that serves its host; upstreams that are not configured do not run. At the end nothing is left.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import structs

from config.diff import compare
from config.settings import UpstreamConfig
from hub.catalog.endpoint_views import project_view
from hub.wire.mcp import L4, MODERN, Era
from tests.simulation.changes import Changes
from tests.simulation.crowd import IN_PROJECTS, PLAIN, ROOTS
from tests.simulation.players import Errand, Person
from tests.simulation.reading import observing
from tests.simulation.shifting import Atlas, NoWatcher, Shifter
from tests.simulation.successors import Street
from tests.simulation.world import SEEDS, run_seeded
from tests.support.parking import statistics_of
from upstreams.lifecycle import State

MOVES = 50
QUIET_S = 130.0
TOLD = "notifications/tools/list_changed"


class ChangingWorld(Changes):
    """A world of changes, and its invariants."""

    async def move(self) -> None:
        moves = {
            self.call: 14,
            self.cancel: 1,
            self.leave: 1,
            self.arrive: 1,
            self.wait: 4,
            self.watch: 5,
            self.unwatch: 1,
            self.touch: 1,
            self.read: 12,
            self.slip: 4,
            self.close_book: 1,
            self.grow: 1,
            self.crash: 1,
            self.trouble: 1,
            self.restart: 1,
            self.reload: 7,
            self.repair: 1,
            self.succeed: 1.5,
            self.rewrite: 1.5,
            self.wander: 1,
            self.look: 2,
        }
        act = self.dice.choices(list(moves), list(moves.values()))[0]
        await act()
        if self.dice.random() < self.calm:
            await trio.sleep(self.dice.uniform(0, 2))
        await trio.testing.wait_all_tasks_blocked()
        self.check()

    def check(self) -> None:
        super().check()
        for player in self.players.values():
            wrong = player.wrong + (player.elder.wrong if player.elder else [])
            assert wrong == [], wrong
        came = {marker: player.name for player in self.players.values() for marker in player.begun}
        for errand in self.errands:
            name = came.get(errand.marker, errand.upstream)
            own = {f"{errand.upstream}{scope}" for scope in self.worked[errand.person]}
            assert name in {errand.upstream, *own}, (errand, name)
        for person in self.present():
            told = len(person.host.of(TOLD))
            assert told <= self.allowance[person], f"{person} was told of nothing: {told} > {self.allowance[person]}"

    async def look(self) -> None:
        """Check that no host sees another list without a notification."""
        await trio.testing.wait_all_tasks_blocked()
        for person in self.present():
            await self.look_at(person)

    async def look_at(self, person: Person) -> None:
        names = await person.host.names()
        await trio.testing.wait_all_tasks_blocked()
        told = len(person.host.of(TOLD))
        before, then = self.seen.get(person, (names, told))
        assert names == before or told > then, f"{person} was not told: {before} -> {names}"
        self.seen[person] = names, told

    async def rest(self) -> None:
        """Let everything come to rest; check that all is as configured."""
        for player in self.players.values():
            player.trouble = None
        await self.repair()
        for project in self.atlas.projects.values():
            self.atlas.allowed.add(project.digest)
        self.house.hub.projects.changed.set()
        await trio.sleep(120)
        self.check()
        self.check_end()
        await self.wake()
        self.house.assert_at_rest()
        self.house.assert_watched_by_who_is_there()
        self.check_supervisor()
        await self.look()
        await self.check_lists()
        self.check_sessions()
        await self.check_watches()

    async def wake(self) -> None:
        """Check that every configured upstream can be called, idle ones too."""
        for person in self.present():
            await person.host.names()
        await trio.sleep(40)
        person = self.dice.choice(self.present())
        scope = self.scope(person)
        for name in self.running(scope):
            tool = f"{self.prefix(name) if '@' not in name else name.partition('@')[0]}__work"
            errand = Errand(person, name.partition("@")[0], f"{person.label}/{len(self.errands)}", [])
            errand.tool = tool
            self.errands.append(errand)
            with trio.fail_after(100):
                await errand.run()
            assert not errand.results[0].get("result", {"isError": True}).get("isError"), (name, errand.results)
        for name, upstream in self.house.hub.supervisor.upstreams.items():
            if upstream.state is State.IDLE:
                await self.house.api.restart(name)
        await trio.sleep(3)

    def scope(self, person: Person) -> str | None:
        root = self.atlas.roots.get(Path(f"/{person.label}"))
        return project_view(root).name if root in self.atlas.projects and self.may_work(person) else None

    def may_work(self, person: Person) -> bool:
        """Whether the hub can know its folder."""
        return person.host.workplace is not None or person.host.era is Era.LEGACY

    def running(self, scope: str | None) -> list[str]:
        """The upstreams that hosts at an endpoint should see, in order."""
        own = [
            name
            for root, each in self.atlas.projects.items()
            if project_view(root).name == scope
            for name in each.upstreams
        ]
        common = [name for name, config in self.config.upstreams.items() if not config.disabled and name not in own]
        return [*common, *(f"{name}{scope}" for name in own)]

    def config_of(self, name: str) -> UpstreamConfig:
        short, at, scope = name.partition("@")
        if not at:
            return self.config.upstreams[name]
        return next(
            each.upstreams[short]
            for root, each in self.atlas.projects.items()
            if project_view(root).name == f"@{scope}"
        )

    async def check_lists(self) -> None:
        for person in self.present():
            expected = []
            for name in self.running(self.scope(person)):
                shown = self.prefix(name) if "@" not in name else name.partition("@")[0]
                expected += [f"{shown}__{tool}" for tool in self.players[name].offers(self.config_of(name))]
            found = await person.host.names()
            assert found == expected, (person, found, expected)

    def check_supervisor(self) -> None:
        """Assert that nothing is under way."""
        supervisor = self.house.hub.supervisor
        number = len(supervisor.upstreams)
        assert (len(supervisor._generations), len(supervisor.journals)) == (number, number)
        assert (supervisor._candidates, supervisor._leaving) == ({}, [])
        for upstream in supervisor.upstreams.values():
            assert upstream.predecessor is None
            assert not upstream.selector.waiting

    def check_sessions(self) -> None:
        """Assert that only configured upstreams run, with their present settings."""
        upstreams = self.house.hub.supervisor.upstreams
        for name, player in self.players.items():
            if name not in upstreams or upstreams[name].config.disabled:
                assert player.going_on == [], name
                continue
            found = [each for pool in upstreams[name].pools for each in pool.open_sessions()]
            assert len(player.going_on) == len(found), (name, player.going_on, found)
            for conversation in player.going_on:
                change = compare(
                    structs.replace(conversation.config, era=upstreams[name].config.era), upstreams[name].config
                )
                assert change is None or not change.replaces, (name, change)

    async def check_watches(self) -> None:
        """Assert that each accepted subscription exists once in each session, and gets notifications."""
        for player in self.players.values():
            for conversation in player.going_on:
                watched = player.watched(conversation)
                assert len(watched) == len(set(watched)), (player.name, watched)
        for uri, player in self.owners.items():
            if "@" in player.name or self.config.upstreams.get(player.name, UpstreamConfig(disabled=True)).disabled:
                continue
            before = {person: person.updates(uri) for person in self.present() if uri in person.told}
            await player.change(uri)
            await trio.testing.wait_all_tasks_blocked()
            for person, heard in before.items():
                assert person.updates(uri) == heard + 1, (person, uri, heard, person.updates(uri))

    def check_end(self) -> None:
        self.check_end_of_reading()
        for errand in self.errands:
            assert not errand.is_waiting, f"{errand} never ended"
            if errand not in self.spoiled and errand.results and not self.may_be_asked(errand):
                found = errand.results[0].get("result", {}).get("content")
                assert found == [{"type": "text", "text": errand.marker}], (errand, errand.results)


async def live(dice: Random) -> None:
    """One world, from its beginning to its end."""
    versions = {"rock": L4, "old": L4, "new": MODERN, "web": L4, "both": MODERN, "frail": dice.choice((L4, MODERN))}
    players = {name: Shifter(name, version, both=name == "both") for name, version in versions.items()}
    for root in ROOTS:
        for name in IN_PROJECTS:
            full = f"{name}{project_view(root).name}"
            players[full] = Shifter(full, dice.choice((L4, MODERN)))
            players[full].configured(UpstreamConfig(command=name))
    atlas = Atlas()
    async with trio.open_nursery() as nursery:
        house = Street(players, nursery, atlas)
        world = ChangingWorld(house, players, atlas, dice)
        world.write(ROOTS[0], allowed=True)
        await world.start()
        await trio.sleep(2)
        tasks = names_of_tasks(house.hub_nursery)
        for _ in range(dice.randint(2, 4)):
            await world.arrive()
        for _ in range(MOVES):
            await world.move()
        await world.rest()
        world.settings = {name: dict(each) for name, each in PLAIN.items()}
        await world.apply()
        for person in world.present():
            person.gone = True
            await person.host.leave()
            await person.host.end()
        await trio.sleep(QUIET_S)
        house.hub.projects.changed.set()  # what belongs to hosts that are gone goes with the next look
        await trio.testing.wait_all_tasks_blocked()
        house.assert_judged()
        house.assert_at_rest()
        house.assert_watched_by_who_is_there()
        world.check_supervisor()
        at_rest(house, tasks)
        await house.stop(orderly=True)
        assert all(player.going_on == [] for player in players.values())
        nursery.cancel_scope.cancel()


def names_of_tasks(nursery: trio.Nursery) -> Counter[str]:
    """All tasks beneath a nursery."""
    found = Counter(task.name for task in nursery.child_tasks)
    for task in nursery.child_tasks:
        for inner in task.child_nurseries:
            found += names_of_tasks(inner)
    return found


def at_rest(house: Street, tasks: Counter[str]) -> None:
    """Assert that nothing is left of hosts that are gone."""
    hub = house.hub
    assert len(hub.hosts) == 0
    assert (statistics_of(hub.bridge.parking).running, statistics_of(hub.bridge.parking).parked) == (0, 0)
    assert (hub.subscriptions._sessions, hub.subscriptions._streams) == ({}, {})
    projects, roots = hub.projects, hub.projects._roots
    assert (projects.shown, projects._hosts, projects._moved) == ({}, set(), set())
    assert (roots._said, roots._asking, roots._unasked) == ({}, {}, set())
    assert hub.live.servers.projects == {}
    assert len(hub.progress) == 0
    assert len(house.endpoint.sessions) == 0
    assert all(not upstream.host_subscriptions for upstream in hub.supervisor.upstreams.values())
    assert list(hub.supervisor.upstreams) == list(PLAIN)
    observed = Counter({"upstreams.subscriptions.modern.ModernSubscriptions._follow": observing(hub)})
    left = names_of_tasks(house.hub_nursery) - tasks - observed
    assert not left, f"left: {left}"


@pytest.mark.covers("I-1", "I-2", "I-3", "I-4", "I-7", "I-12", "F-C-04", "F-C-05", "F-C-06", "F-C-07")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_changes_disturbs_nothing_else(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.projects.find_project_of_host.Watcher", NoWatcher)
    monkeypatch.setattr("trio.to_thread.run_sync", at_once)
    run_seeded(live, seed, monkeypatch)


async def at_once(work: Any, *args: Any, **settings: Any) -> Any:
    """Replaces `trio.to_thread.run_sync`, since threads do not follow the clock of the test."""
    await trio.lowlevel.checkpoint()
    return partial(work, *args)()
