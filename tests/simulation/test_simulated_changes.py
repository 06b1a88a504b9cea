"""Everything that can change, at random: configurations, hubs that are stopped or killed, projects, and upstreams.

As `test_simulation`, and beside its invariants: what no change names keeps its sessions; who may not be asked any more
is not; hosts are told of other lists if, and only if, they are shown some; what they watch is watched once where they
are served; what is not configured does not run. At the end nothing is left of it all (I-12).
"""

from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from house import ALICE, BOB
from msgspec import structs
from players import CAPABILITIES, Errand, Person
from shifting import BAD, L4, MODERN, Atlas, NoWatcher, Shifter
from successors import Street
from world import SEEDS, World, run_seeded

from config.diff import compare, difference
from config.schema import HubConfig, Restart, Secret, Timeouts, UpstreamConfig
from hub.link.exchange import HubError, Identity
from hub.relay import _holding, _running
from hub.wire.mcp import Era, Kind
from hub.workplaces import scope_of
from upstreams.lifecycle import State

MOVES = 50
QUIET_S = 130.0
SETTINGS: dict[str, Any] = {
    "park_ttl_s": 20.0,
    "park_total_s": 60.0,
    "synthetic_progress_s": 5.0,
    "drain_s": 10.0,
    "auth": "token",
}
BRIEF = Timeouts(session_idle=60.0)
PLAIN: dict[str, dict[str, Any]] = {
    "rock": {"command": "rock", "timeouts": BRIEF},
    "old": {"command": "old", "timeouts": BRIEF},
    "new": {"command": "new", "timeouts": BRIEF},
    "web": {"url": "http://web/", "timeouts": BRIEF},
    "both": {"url": "http://both/", "timeouts": BRIEF},
    "frail": {"command": "frail", "timeouts": BRIEF},
}
UNRELIABLE = ("both", "frail")
"""Who crashes, or cannot be connected to."""
ROOTS = (Path("/p/one"), Path("/p/two"))
IN_PROJECTS = ("db", "frail")
TOLD = "notifications/tools/list_changed"
OTHERS = {
    "args": [(), ("blue",), ("red",), BAD],
    "env": [{}, {"K": Secret("1")}, {"K": Secret("2")}],
    "client_features": ["auto", "none"],
    "across_principals": [True, False],
    "session_mode": ["auto", "per_host", "shared"],
    "roots": ["auto", "none", "host"],
    "replace": ["auto", "start-first", "stop-first"],
    "disabled": [True, False],
    "prefix": [None, "x"],
    "timeouts": [BRIEF, Timeouts(call=200.0, session_idle=60.0), Timeouts(session_idle=20.0)],
    "ping_s": [0.0, 20.0, 60.0],
    "restart": [Restart(), Restart(attempts=1), Restart(attempts=0)],
    "start": ["eager", "lazy"],
    "idle_stop_s": [0.0, 0.5, 5.0],
}


class ChangingWorld(World):
    """A world in which nothing has to stay as it is."""

    house: Street

    def __init__(self, house: Street, players: dict[str, Any], atlas: Atlas, dice: Random) -> None:
        super().__init__(house, players, dice)
        self.atlas = atlas
        self.settings = {name: dict(each) for name, each in PLAIN.items()}
        self.config = self.make_config()
        self.spoiled: set[Errand] = set()
        """Those that may fail."""
        self.owners = {uri: player for player in players.values() for uri in player.uris}
        self.worked: dict[Person, set[str]] = {}
        """The endpoints of the projects each was ever at work in."""
        self.seen: dict[Person, tuple[list[str], int]] = {}
        """What each was shown last, and how often it had been told by then that it is something else."""
        self.allowance: dict[Person, int] = {}
        """How often each may have been told."""
        self.shown: dict[str | None, bytes] = {}
        self.calm = self.dice.choice((0, 0.1, 0.5))
        """How often nothing happens for a while."""
        self.listens: dict[Person, list[dict[str, Any]]] = {}
        """What each modern host asks to be told of."""

    # --- hubs ---------------------------------------------------------------------------------------------------------

    def make_config(self) -> HubConfig:
        upstreams = {name: UpstreamConfig(**settings) for name, settings in self.settings.items()}
        return HubConfig(upstreams=upstreams, **SETTINGS)

    async def start(self) -> None:
        """Have a hub."""
        self.shown.clear()
        self.note_configs()
        await self.house.start(self.config)
        self.watch_catalogues()
        for person in self.present():
            self.allowance[person] += 1
            if person.host.era is Era.MODERN and person.host.carrier == "http":
                for wanted in self.listens[person]:
                    self.house.nursery.start_soon(self.listen, person, wanted)

    def watch_catalogues(self) -> None:
        """Take note of everything that hosts are shown."""
        hub = self.house.hub
        rebuild, moved = hub.notifier._rebuild, hub.moved
        self.note_shown()

        def rebuilt() -> None:
            rebuild()
            self.note_shown()

        def moved_away(host: Any) -> None:
            for person in self.present():
                if person.host.identity == host.identity:
                    self.allowance[person] += 1
            moved(host)

        hub.notifier._rebuild = rebuilt  # type: ignore[method-assign]
        hub.moved = moved_away  # type: ignore[method-assign]

    def note_shown(self) -> None:
        hub = self.house.hub
        catalog = hub.router.catalog
        now = {None: self.page(catalog), **{name: self.page(each) for name, each in catalog.projects.items()}}
        changed = {view for view, page in now.items() if self.shown.get(view, page) != page}
        self.shown |= now
        for person in self.present():
            if self.view(person) in changed:
                self.allowance[person] += 1

    def page(self, catalog: Any) -> bytes:
        return bytes(catalog.page(Kind.TOOL, L4, None, ui=False, principal=""))

    def view(self, person: Person) -> str | None:
        attached = [each for each in self.house.hub.downstreams if each.identity == person.host.identity]
        return attached[0].view if attached else None

    async def succeed(self) -> None:
        """Another hub."""
        orderly = self.dice.random() < 0.5
        self.spoil(*self.players)
        for person in self.present():
            if person.host.carrier == "http" and not orderly:
                self.seen.pop(person, None)
                person.told.clear()
            if person.host.carrier == "http" and person.host.era is Era.MODERN:
                self.seen.pop(person, None)
        if self.dice.random() < 0.5:
            await trio.sleep(2)
        known = self.known_tools() if orderly else set()
        await self.house.stop(orderly=orderly)
        if self.dice.random() < 0.3:
            await trio.sleep(self.dice.choice((0.1, 1, 5)))
        if self.dice.random() < 0.3:
            self.alter()
            self.config = self.make_config()
            known = set()
        await self.start()
        if known:
            shown = {msgspec.json.decode(tool)["name"] for tool in await self.house.operator.tools()}
            assert known <= shown, f"not shown at once: {known - shown}"

    def known_tools(self) -> set[str]:
        hub = self.house.hub
        sure = [
            each
            for each in hub.supervisor.upstreams.values()
            if each.offered.listed and not hub.supervisor.stale(each.name)
        ]
        names = [f"{self.prefix(each.name)}__{tool}" for each in sure for tool in self.offered(each)]
        return {name for name in names if "@" not in name}

    def offered(self, upstream: Any) -> list[str]:
        return [entry.key for entry in upstream.snapshot.lists.get(Kind.TOOL, ())]

    def prefix(self, name: str) -> str:
        settings = self.settings.get(name, {})
        return f"{name}x" if settings.get("prefix") else name

    # --- people -------------------------------------------------------------------------------------------------------

    async def arrive(self) -> None:
        label = next(self.labels)
        carrier, version = self.dice.choice(("lines", "http")), self.dice.choice((L4, MODERN))
        identity = Identity(self.dice.choice((ALICE, BOB)).principal, label)
        more: dict[str, Any] = {}
        place = Path(f"/{label}")
        if self.dice.random() < 0.35:
            self.atlas.roots[place] = self.dice.choice(ROOTS)
            if carrier == "lines":
                more["workplace"] = place
        host = await self.house.host(carrier, version, identity=identity, capabilities=CAPABILITIES, **more)
        person = Person(label, host, self.dice)
        self.worked[person], self.listens[person], self.allowance[person] = set(), [], 2
        self.people.append(person)
        if place in self.atlas.roots:
            self.worked[person].add(scope_of(self.atlas.roots[place]))
        await host.set_level("error")
        if host.era is Era.MODERN:
            wanted = {"toolsListChanged": True, "resourcesListChanged": True}
            self.listens[person].append(wanted)
            self.house.nursery.start_soon(self.listen, person, wanted)
            await trio.testing.wait_all_tasks_blocked()

    async def listen(self, person: Person, wanted: dict[str, Any]) -> None:
        try:
            await person.host.ask("subscriptions/listen", {"notifications": wanted})
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            assert person.gone or self.house.is_down or person.host.carrier == "http", person

    async def attend(self, person: Person, uri: str) -> None:
        person.watched.add(uri)
        owner = self.owners[uri]
        if person.host.era is Era.MODERN:
            wanted = {"resourceSubscriptions": [uri]}
            self.listens[person].append(wanted)
            await self.listen(person, wanted)
            return
        try:
            answer = await person.host.ask("resources/subscribe", {"uri": uri})
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            assert person.gone or self.house.is_down or person.host.carrier == "http", person
            return
        if "result" in answer:
            scope = owner.name.rpartition("@")[2]
            assert "@" not in owner.name or f"@{scope}" in self.worked[person], (person, uri)
            if owner.config is not None and not self.worked[person]:
                person.told.add(uri)

    async def unwatch(self) -> None:
        person = self.dice.choice(self.present())
        if person.told:
            uri = self.dice.choice(sorted(person.told))
            person.told.discard(uri)
            self.house.nursery.start_soon(self.forgo, person, uri)

    async def forgo(self, person: Person, uri: str) -> None:
        try:
            await person.unwatch(uri)
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            assert person.gone or self.house.is_down or person.host.carrier == "http", person

    async def touch(self) -> None:
        uri = self.dice.choice(sorted(self.owners))
        await self.owners[uri].change(uri)

    async def call(self) -> None:
        person = self.dice.choice(self.present())
        name = (
            self.dice.choice((*self.settings, *IN_PROJECTS))
            if self.worked[person]
            else self.dice.choice((*self.settings,))
        )
        script = self.dice.choices(("progress", "nap", "nap", "form", "sample", "roots"), k=self.dice.randint(0, 4))
        if self.dice.random() < 0.5:
            script = [step for step in script if step in ("progress", "nap")]
        if name in UNRELIABLE and self.dice.random() < 0.1:
            script.append("die")
        errand = Errand(person, name, f"{person.label}/{len(self.errands)}", script)
        errand.tool = f"{self.prefix(name)}__work"
        if not self.is_sure(errand):
            self.spoiled.add(errand)
        self.errands.append(errand)
        self.house.nursery.start_soon(self.run, errand)

    def is_sure(self, errand: Errand) -> bool:
        """Whether it has to be carried out, if nothing comes between."""
        name = errand.upstream
        config = self.config.upstreams.get(name)
        if config is None or config.disabled or config.args == BAD or name in UNRELIABLE or self.worked[errand.person]:
            return False
        return self.house.hub.router.catalog.route(Kind.TOOL, errand.tool) is not None

    async def run(self, errand: Errand) -> None:
        try:
            await errand.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            was_cut = getattr(errand.question, "cut", False) or self.house.is_down
            assert errand.person.gone or errand.cancelled or was_cut, errand
            errand.cut = True

    def spoil(self, *names: str, begun: bool = True) -> None:
        """Calls that are with these upstreams, or, not `begun`, are not yet, may fail."""
        for errand in self.errands:
            has_begun = errand.upstream in names and errand.marker in self.players[errand.upstream].begun
            if errand.is_open and errand.upstream in names and (begun or not has_begun):
                self.spoiled.add(errand)

    async def wait(self) -> None:
        await trio.sleep(self.dice.choice((0.01, 0.1, 0.1, 1, 1, 5, 20)))

    # --- upstreams ----------------------------------------------------------------------------------------------------

    async def crash(self) -> None:
        name = self.dice.choice([*UNRELIABLE, *(name for name in self.players if "@" in name)])
        self.spoil(name)
        await self.players[name].crash()

    async def trouble(self) -> None:
        player = self.players[self.dice.choice(UNRELIABLE)]
        player.trouble = self.dice.choice((None, "refuse", "hang", "die"))

    async def restart(self) -> None:
        name = self.dice.choice(list(self.house.hub.supervisor.upstreams))
        self.spoil(name)
        try:
            await self.house.operator.restart(name)
        except HubError:
            assert self.house.hub.supervisor.upstreams[name].state is State.DISABLED

    async def grow(self) -> None:
        player = self.dice.choice(list(self.players.values()))
        if len(player.lists["tools"]) < 5 and player.going_on:
            await player.grow()

    # --- configurations -----------------------------------------------------------------------------------------------

    def alter(self) -> None:
        """Let the user write something else."""
        for _ in range(self.dice.choice((1, 1, 1, 2, 3))):
            name = self.dice.choice([name for name in PLAIN if name != "rock"])
            if name not in self.settings:
                self.settings[name] = dict(PLAIN[name])
            elif self.dice.random() < 0.15:
                del self.settings[name]
            else:
                setting = self.dice.choice(list(OTHERS))
                self.settings[name][setting] = self.dice.choice(OTHERS[setting])
                if setting == "prefix" and self.settings[name]["prefix"]:
                    self.settings[name]["prefix"] = f"{name}x"

    async def reload(self) -> None:
        for _ in range(self.dice.choice((1, 1, 1, 2))):
            self.alter()
            await self.apply()
            if self.dice.random() < 0.3:
                await trio.sleep(self.dice.choice((0, 0.01, 0.1)))

    async def repair(self) -> None:
        """Take back what cannot work."""
        for settings in self.settings.values():
            if settings.get("args") == BAD:
                settings["args"] = self.dice.choice(((), ("blue",)))
        await self.apply()

    async def apply(self) -> None:
        """Have the hub read what the user has written; look that nothing else is disturbed."""
        hub, new = self.house.hub, self.make_config()
        found = difference(self.config, new)
        for name in found.removed:
            self.forget(name)
        for name, change in found.changed.items():
            if change.replaces and (new.upstreams[name].disabled or new.upstreams[name].args == BAD):
                self.spoil(name, begun=False)
            if new.upstreams[name].prefix != self.config.upstreams[name].prefix:
                self.spoil(name, begun=False)
        await hub.prepare(new)
        await trio.testing.wait_all_tasks_blocked()
        supervisor = hub.supervisor
        stay = {
            name: (upstream, upstream.pool.main, upstream.state)
            for name, upstream in supervisor.upstreams.items()
            if name not in found.removed and not (name in found.changed and found.changed[name].replaces)
        }
        candidates = {name: supervisor.stale(name) for name in stay}
        self.config = new
        self.note_configs()
        hub.apply(new)
        for name, (upstream, main, state) in stay.items():
            if candidates[name] is None:
                assert supervisor.upstreams[name] is upstream, name
                assert upstream.pool.main is main, name
                assert upstream.state is state, name
                assert not upstream.standing.retired, name
        assert [name for name in supervisor.upstreams if "@" not in name] == list(new.upstreams)

    def note_configs(self) -> None:
        for name, player in self.players.items():
            if "@" not in name:
                player.configured(self.config.upstreams.get(name))
                if player.elder:
                    player.elder.configured(self.config.upstreams.get(name))

    def forget(self, name: str) -> None:
        self.spoil(name, begun=False)
        for person in self.people:
            person.told -= set(self.players[name].uris)

    # --- projects -----------------------------------------------------------------------------------------------------

    async def rewrite(self) -> None:
        """A project says something else, or nothing, or is allowed or not."""
        root = self.dice.choice(ROOTS)
        if self.dice.random() < 0.2:
            self.atlas.projects.pop(root, None)
        elif self.dice.random() < 0.2 and root in self.atlas.projects:
            self.atlas.allowed.discard(self.atlas.projects[root].digest)
        else:
            self.write(root, allowed=self.dice.random() < 0.8)
        self.house.hub.projects.changed.set()

    def write(self, root: Path, *, allowed: bool) -> None:
        names = self.dice.sample(IN_PROJECTS, self.dice.randint(1, 2))
        args = self.dice.choice(((), ("blue",)))
        self.atlas.write(
            root, {name: UpstreamConfig(command=name, args=args, timeouts=BRIEF) for name in names}, allowed=allowed
        )

    async def wander(self) -> None:
        """Somebody goes to work somewhere else."""
        person = self.dice.choice(self.present())
        place = Path(f"/{person.label}")
        if self.dice.random() < 0.3:
            self.atlas.roots.pop(place, None)
        else:
            root = self.atlas.roots[place] = self.dice.choice(ROOTS)
            self.worked[person].add(scope_of(root))
            person.told.clear()
            self.spoiled.update(each for each in self.errands if each.person is person)
        self.house.hub.projects.changed.set()

    # --- what must be true --------------------------------------------------------------------------------------------

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
        """Nobody is shown something else without having been told."""
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
        """Let everything come to an end; look that all is as configured."""
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
        """Whatever is configured can be called, also what nobody has needed for long."""
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
                await self.house.operator.restart(name)
        await trio.sleep(3)

    def scope(self, person: Person) -> str | None:
        root = self.atlas.roots.get(Path(f"/{person.label}"))
        return scope_of(root) if root in self.atlas.projects and self.may_work(person) else None

    def may_work(self, person: Person) -> bool:
        """Whether the hub can know where it works."""
        return person.host.workplace is not None or person.host.era is Era.LEGACY

    def running(self, scope: str | None) -> list[str]:
        """What those at an endpoint are to see, in order."""
        own = [name for root, each in self.atlas.projects.items() if scope_of(root) == scope for name in each.upstreams]
        common = [name for name, config in self.config.upstreams.items() if not config.disabled and name not in own]
        return [*common, *(f"{name}{scope}" for name in own)]

    def config_of(self, name: str) -> UpstreamConfig:
        short, at, scope = name.partition("@")
        if not at:
            return self.config.upstreams[name]
        return next(
            each.upstreams[short] for root, each in self.atlas.projects.items() if scope_of(root) == f"@{scope}"
        )

    async def check_lists(self) -> None:
        for person in self.present():
            expected = []
            for name in self.running(self.scope(person)):
                shown = self.prefix(name) if "@" not in name else name.partition("@")[0]
                expected += [f"{shown}__{tool}" for tool in self.players[name].offers(self.config_of(name))]
            assert await person.host.names() == expected, person

    def check_supervisor(self) -> None:
        """Nothing is under way (I-12)."""
        supervisor = self.house.hub.supervisor
        assert supervisor._leaving == {}
        assert supervisor._candidates == {}
        assert supervisor._lives.keys() == supervisor.upstreams.keys()
        assert supervisor.journals._journals.keys() <= supervisor.upstreams.keys()
        for upstream in supervisor.upstreams.values():
            assert upstream.predecessor is None
            assert not upstream.finder.waiting

    def check_sessions(self) -> None:
        """What is not configured does not run, nor as it was before; what does is known."""
        upstreams = self.house.hub.supervisor.upstreams
        for name, player in self.players.items():
            if name not in upstreams or upstreams[name].config.disabled:
                assert player.going_on == [], name
                continue
            found = [each for pool in upstreams[name].pools for each in pool.open_places()]
            assert len(player.going_on) == len(found), (name, player.going_on, found)
            for conversation in player.going_on:
                change = compare(
                    structs.replace(conversation.config, era=upstreams[name].config.era), upstreams[name].config
                )
                assert change is None or not change.replaces, (name, change)

    async def check_watches(self) -> None:
        """What was promised to be watched is: once in each session, and it is heard of."""
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
            full = f"{name}{scope_of(root)}"
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
    """Nothing is left of hosts that are gone (I-12)."""
    hub = house.hub
    projects = hub.projects
    subscriptions = hub.router.subscriptions
    assert len(hub.downstreams) == 0
    assert (hub.carrier.parking.status().running, hub.carrier.parking.status().parked) == (0, 0)
    assert (subscriptions._sessions, subscriptions._streams) == ({}, {})
    assert (projects.live, projects.problems, projects.reporting) == ({}, {}, {})
    kept = (projects._hosts, projects._said, projects._asking, projects._unasked, projects._roots, projects._moved)
    assert not any(kept), kept
    assert (_holding, _running) == (set(), set())
    assert len(house.endpoint.sessions) == 0
    assert all(not upstream.holdings for upstream in hub.supervisor.upstreams.values())
    assert list(hub.supervisor.upstreams) == list(PLAIN)
    left = names_of_tasks(house.hub_nursery) - tasks
    assert not left, f"left: {left}"


@pytest.mark.covers("I-1", "I-2", "I-3", "I-4", "I-7", "I-12", "F-C-04", "F-C-05", "F-C-06", "F-C-07")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_changes_disturbs_nothing_else(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.projects.Watcher", NoWatcher)
    monkeypatch.setattr("trio.to_thread.run_sync", at_once)
    run_seeded(live, seed, monkeypatch)


async def at_once(work: Any, *args: Any, **settings: Any) -> Any:
    """In place of `trio.to_thread.run_sync`: threads know no clock but their own."""
    await trio.lowlevel.checkpoint()
    return partial(work, *args)()
