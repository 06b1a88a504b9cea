"""Changes while hosts are at work: by the user, in the configuration, and by upstreams themselves."""

from pathlib import Path
from typing import Any

import trio
import trio.testing

from config.diff import difference
from config.setting_declarations import Secret
from config.settings import Restart, Timeouts, UpstreamConfig
from hub.catalog.endpoint_views import project_view
from hub.link.hub_errors import HubError
from tests.simulation.crowd import BRIEF, IN_PROJECTS, PLAIN, ROOTS, UNRELIABLE, Crowd
from tests.simulation.shifting import BAD
from upstreams.lifecycle import State

OTHERS: dict[str, list[Any]] = {
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


class Changes(Crowd):
    """A world in which everything may change."""

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
            await self.house.api.restart(name)
        except HubError:
            assert self.house.hub.supervisor.upstreams[name].state is State.DISABLED

    async def grow(self) -> None:
        player = self.dice.choice(list(self.players.values()))
        if len(player.lists["tools"]) < 5 and player.going_on:
            await player.grow()

    # --- configurations -----------------------------------------------------------------------------------------------

    def alter(self) -> None:
        """Let the user change the configuration."""
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
        """Undo changes that cannot work."""
        for settings in self.settings.values():
            if settings.get("args") == BAD:
                settings["args"] = self.dice.choice(((), ("blue",)))
        await self.apply()

    async def apply(self) -> None:
        """Reload the configuration, and check that nothing else is disturbed."""
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
        candidates = {name: supervisor.candidate(name) for name in stay}
        self.config = new
        self.note_configs()
        hub.apply(new)
        for name, (upstream, main, state) in stay.items():
            if candidates[name] is None:
                assert supervisor.upstreams[name] is upstream, name
                assert upstream.pool.main is main, name
                assert upstream.state is state, name
                assert not upstream.availability.retired, name
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
        """Change, delete, allow or forbid the files of a project."""
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
        """A host moves to another folder."""
        person = self.dice.choice(self.present())
        place = Path(f"/{person.label}")
        if self.dice.random() < 0.3:
            self.atlas.roots.pop(place, None)
        else:
            root = self.atlas.roots[place] = self.dice.choice(ROOTS)
            self.worked[person].add(project_view(root).name)
            person.told.clear()
            self.spoiled.update(each for each in self.errands if each.person is person)
        self.house.hub.projects.changed.set()
