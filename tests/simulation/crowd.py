"""Hosts and people around a series of hubs: they arrive, call, subscribe and come back.

`test_simulated_changes` checks them; `changes` has the changes of the user meanwhile.
"""

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import trio
import trio.testing

from config.settings import HubConfig, Timeouts, UpstreamConfig
from hub.catalog.endpoint_views import EVERYTHING, View, project_view
from hub.link.call_interface import Identity, Tenant
from hub.routing.view_catalogs import ListChange
from hub.wire.mcp import L4, MODERN, Era, Kind
from tests.simulation.players import CAPABILITIES, Errand, Person
from tests.simulation.reading import Shelf
from tests.simulation.shifting import BAD, Atlas
from tests.simulation.successors import Street
from tests.simulation.world import World
from tests.support.house import ALICE, BOB

SETTINGS: dict[str, Any] = {"park_ttl_s": 20.0, "park_total_s": 60.0, "synthetic_progress_s": 5.0, "drain_s": 10.0}
BRIEF = Timeouts(session_idle=60.0)
PLAIN: dict[str, dict[str, Any]] = {
    "rock": {"command": "rock", "timeouts": BRIEF},
    "old": {"command": "old", "timeouts": BRIEF},
    "new": {"command": "new", "timeouts": BRIEF},
    "web": {"url": "http://web/", "timeouts": BRIEF},
    "both": {"url": "http://both/", "timeouts": BRIEF},
    "frail": {"command": "frail", "timeouts": BRIEF},
}
"""Nothing happens to `rock`."""
UNRELIABLE = ("both", "frail")
"""Upstreams that crash, or cannot be connected to."""
ROOTS = (Path("/p/one"), Path("/p/two"))
IN_PROJECTS = ("db", "frail")


class Crowd(World):
    """A world in which hubs and hosts come and go."""

    house: Street

    def __init__(self, house: Street, players: dict[str, Any], atlas: Atlas, dice: Random) -> None:
        super().__init__(house, players, dice)
        self.atlas = atlas
        self.settings = {name: dict(each) for name, each in PLAIN.items()}
        self.config = self.make_config()
        self.spoiled: set[Errand] = set()
        """The calls that may fail."""
        self.owners = {uri: player for player in players.values() for uri in player.uris}
        self.worked: dict[Person, set[str]] = {}
        """The endpoints of all projects that each host ever worked in."""
        self.seen: dict[Person, tuple[list[str], int]] = {}
        """The last list that each host was shown, and its number of notifications of changes until then."""
        self.allowance: dict[Person, int] = {}
        """The most notifications that each host may have got."""
        self.shown: dict[View, bytes] = {}
        self.calm = self.dice.choice((0, 0.1, 0.5))
        """The frequency of pauses."""
        self.listens: dict[Person, list[dict[str, Any]]] = {}
        """The subscriptions of each modern host."""

    # --- hubs ---------------------------------------------------------------------------------------------------------

    def make_config(self) -> HubConfig:
        upstreams = {name: UpstreamConfig(**settings) for name, settings in self.settings.items()}
        return HubConfig(upstreams=upstreams, **SETTINGS)

    async def start(self) -> None:
        """Start a hub."""
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
        """Record all lists that hosts are shown."""
        hub = self.house.hub
        rebuild, in_slices, moved = hub.live.rebuild, hub.live.rebuild_in_slices, hub.subscriptions.shown
        self.note_shown()

        def rebuilt() -> list[ListChange]:
            changes = rebuild()
            self.note_shown()
            return changes

        async def rebuilt_in_slices() -> list[ListChange]:
            changes = await in_slices()
            self.note_shown()
            return changes

        def moved_away(tenant: Tenant, view: View, kinds: set[Kind]) -> None:
            for person in self.present():
                if person.host.identity == tenant.identity and kinds == set(Kind):
                    self.allowance[person] += 1
            moved(tenant, view, kinds)

        hub.live.rebuild = rebuilt  # type: ignore[method-assign]
        hub.live.rebuild_in_slices = rebuilt_in_slices  # type: ignore[method-assign]
        hub.subscriptions.shown = moved_away  # type: ignore[method-assign]

    def note_shown(self) -> None:
        hub = self.house.hub
        views = [EVERYTHING] if hub.projects is None else [EVERYTHING, *hub.projects.shown]
        now = {view: self.page(hub.live.of(view)) for view in views}
        changed = {view for view, page in now.items() if self.shown.get(view, page) != page}
        self.shown |= now
        for person in self.present():
            if self.view(person) in changed:
                self.allowance[person] += 1

    def page(self, catalog: Any) -> bytes:
        return bytes(catalog.page(Kind.TOOL, L4, None, ui=False, principal="").value)

    def view(self, person: Person) -> View:
        attached = [each for each in self.house.hub.hosts if each.identity == person.host.identity]
        return attached[0].view if attached else EVERYTHING

    async def succeed(self) -> None:
        """Replace the hub by the next."""
        orderly = self.dice.random() < 0.5
        self.spoil(*self.players)
        at_once = self.dice.random() >= 0.5
        unsaved = at_once and not orderly  # what happened just before is on no disk
        if not at_once:
            await trio.sleep(2)
        elif unsaved:
            self.forget_what_was_told()
        for person in self.present():
            if person.host.carrier == "http" and person.host.era is Era.MODERN:
                self.seen.pop(person, None)
        known = self.known_tools() if orderly else set()
        await self.house.stop(orderly=orderly)
        if unsaved:
            await trio.testing.wait_all_tasks_blocked()  # some answers were on their way
            self.forget_what_was_told()
        if self.dice.random() < 0.3:
            await trio.sleep(self.dice.choice((0.1, 1, 5)))
        if self.dice.random() < 0.3:
            self.alter()
            self.config = self.make_config()
            known = set()
        await self.start()
        if known:
            shown = {msgspec.json.decode(tool)["name"] for tool in await self.house.api.tools()}
            assert known <= shown, f"not shown at once: {known - shown}"

    def known_tools(self) -> set[str]:
        hub = self.house.hub
        sure = [
            each
            for each in hub.supervisor.upstreams.values()
            if each.offered.listed and not hub.supervisor.candidate(each.name)
        ]
        names = [f"{self.prefix(each.name)}__{tool}" for each in sure for tool in self.offered(each)]
        return {name for name in names if "@" not in name}

    def offered(self, upstream: Any) -> list[str]:
        return [entry.key for entry in upstream.snapshot.lists.get(Kind.TOOL, ())]

    def prefix(self, name: str) -> str:
        settings = self.settings.get(name, {})
        return f"{name}x" if settings.get("prefix") else name

    def alter(self) -> None:
        """Let the user change the configuration."""
        raise NotImplementedError

    # --- people -------------------------------------------------------------------------------------------------------

    async def arrive(self) -> None:
        label = next(self.labels)
        carrier, version = self.dice.choice(("lines", "http")), self.dice.choice((L4, L4, MODERN))
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
            self.worked[person].add(project_view(self.atlas.roots[place]).name)
        await host.set_level("error")
        if host.era is Era.MODERN:
            wanted = {"toolsListChanged": True, "resourcesListChanged": True}
            self.listens[person].append(wanted)
            self.house.nursery.start_soon(self.listen, person, wanted)
            await trio.testing.wait_all_tasks_blocked()

    def forget_what_was_told(self) -> None:
        for person in self.present():
            person.told.clear()
            self.seen.pop(person, None)

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

    async def watch(self) -> None:
        person = self.dice.choice(self.present())
        name = self.dice.choice(list(PLAIN if self.dice.random() < 0.8 else self.players))
        self.attempts += 1
        self.house.nursery.start_soon(self.attend, person, self.dice.choice(self.players[name].uris))

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
        await self.dice.choice((self.owners[uri].change, self.owners[uri].slip))(uri)

    def may_read(self, person: Person, shelf: Shelf) -> bool:
        scope = shelf.name.rpartition("@")[2]
        return "@" not in shelf.name or f"@{scope}" in self.worked[person]

    def in_print(self) -> list[str]:
        return list(self.players) if self.dice.random() < 0.1 else list(self.settings)

    def is_certain(self, shelf: Shelf) -> bool:
        return False

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
        """Whether the call must succeed if nothing interferes."""
        name = errand.upstream
        config = self.config.upstreams.get(name)
        if config is None or config.disabled or config.args == BAD or name in UNRELIABLE or self.worked[errand.person]:
            return False
        return self.house.hub.live.everything.route(Kind.TOOL, errand.tool) is not None

    async def run(self, errand: Errand) -> None:
        try:
            await errand.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            was_cut = getattr(errand.question, "cut", False) or self.house.is_down
            assert errand.person.gone or errand.cancelled or was_cut, errand
            errand.cut = True

    def spoil(self, *names: str, begun: bool = True) -> None:
        """Allow calls at these upstreams to fail, or, if not `begun`, calls that have yet to arrive there."""
        for errand in self.errands:
            has_begun = errand.upstream in names and errand.marker in self.players[errand.upstream].begun
            if errand.is_open and errand.upstream in names and (begun or not has_begun):
                self.spoiled.add(errand)

    async def wait(self) -> None:
        await trio.sleep(self.dice.choice((0.01, 0.1, 0.1, 1, 1, 5, 20)))
