"""A world: one cast in one house, its moves, and the checks after each."""

import os
import random
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from hub.link.call_interface import Identity
from hub.wire.mcp import L4, MODERN, Era
from tests.simulation.players import CAPABILITIES, QUESTIONS, STEPS, Errand, Person, Player
from tests.simulation.reading import Readers, Shelf
from tests.simulation.visiting import Visitors
from tests.support.everything import draw
from tests.support.house import ALICE, BOB

SEEDS: Iterable[Any] = draw(2, range(12))
if "HUBD_SEED" in os.environ:
    SEEDS = [int(os.environ["HUBD_SEED"])]
elif "HUBD_SEEDS" in os.environ:
    SEEDS = range(int(os.environ["HUBD_SEEDS"]))
STEADY, FRAIL = ("old", "new"), ("oldfrail", "newfrail")


class World(Readers, Visitors):
    """One cast in one house, and its moves."""

    def __init__(self, house: Any, players: dict[str, Player], dice: Random) -> None:
        self.house = house
        self.players = players
        self.dice = dice
        self.people: list[Person] = []
        self.errands: list[Errand] = []
        self.attempts = 0
        """The number of attempts to subscribe."""
        self.labels = iter(f"h{number}" for number in range(1000))
        for player in players.values():
            player.background = house.nursery
        self.open_library()

    async def arrive(self) -> None:
        """Add a host: of a new program, or one more window of one, or another program with its token."""
        carrier, version = self.dice.choice(("lines", "http")), self.dice.choice((L4, MODERN))
        identity, program = Identity(self.dice.choice((ALICE, BOB)).principal, next(self.labels)), "host"
        if self.people and self.dice.random() < 0.3:
            identity = self.dice.choice(self.people).host.identity
            if (carrier, version) != ("http", MODERN) and self.dice.random() < 0.3:
                program = "other"  # over HTTP, modern ones of one token are one host
        able = {name: {} for name in CAPABILITIES if name != "roots"} if self.dice.random() < 0.3 else CAPABILITIES
        host = await self.house.host(carrier, version, identity=identity, capabilities=dict(able), program=program)
        await host.set_level("error")
        if self.dice.random() < 0.2:
            host.via = "hub__call_tool"  # its model sees the tools of search mode
        label = identity.host if program == "host" else f"{identity.host}-{program}"
        self.people.append(Person(label, host, self.dice))

    def present(self) -> list[Person]:
        return [person for person in self.people if not person.gone]

    async def move(self) -> None:
        """Make one move."""
        moves = (self.call, self.cancel, self.leave, self.arrive, self.kill, self.wait)
        others = (self.watch, self.unwatch, self.touch, self.grow, self.guess, self.read, self.slip, self.close_book)
        visits = (self.come_back, self.relocate)
        weights = (10, 2, 1, 1, 1, 4, 4, 1, 3, 1, 1, 12, 4, 1, 5, 1)
        act = self.dice.choices((*moves, *others, *visits), weights)[0]
        await act()
        await trio.testing.wait_all_tasks_blocked()
        self.check()

    async def call(self) -> None:
        person = self.dice.choice(self.present())
        upstream = self.dice.choice(list(self.players))
        script = self.dice.choices(STEPS, k=self.dice.randint(0, 5))
        if upstream in FRAIL and self.dice.random() < 0.2:
            script.append("die")
        errand = Errand(person, upstream, f"{person.label}/{len(self.errands)}", script)
        self.errands.append(errand)
        self.house.nursery.start_soon(self.run, errand)

    async def run(self, errand: Errand) -> None:
        try:
            await errand.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            assert errand.person.gone or errand.cancelled, errand

    async def cancel(self) -> None:
        running = [each for each in self.errands if each.is_waiting]
        if running:
            errand = self.dice.choice(running)
            errand.cancelled, errand.over_at = True, trio.current_time()
            await errand.person.host.cancel(errand.question)

    async def leave(self) -> None:
        if len(self.present()) > 1:
            person = self.dice.choice(self.present())
            person.gone = True
            for errand in self.errands:
                if errand.person is person and errand.over_at is None:
                    errand.over_at = trio.current_time()
            await person.host.leave()
            await person.host.end()

    async def kill(self) -> None:
        player = self.players[self.dice.choice(FRAIL)]
        if player.conversations:
            await player.conversation.close()

    async def wait(self) -> None:
        await trio.sleep(self.dice.uniform(0, 2))

    async def watch(self) -> None:
        person = self.dice.choice(self.present())
        uri = self.dice.choice(self.dice.choice(list(self.players.values())).uris)
        for _ in range(self.dice.choice((1, 1, 2))):
            self.attempts += 1
            self.house.nursery.start_soon(self.attend, person, uri)

    async def attend(self, person: Person, uri: str) -> None:
        try:
            await person.watch(uri)
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            assert person.gone, person

    async def unwatch(self) -> None:
        person = self.dice.choice(self.present())
        if person.told:
            await person.unwatch(self.dice.choice(sorted(person.told)))

    async def touch(self) -> None:
        """Change a resource; check that subscribers are notified if the upstream is steady."""
        everything = [uri for player in self.players.values() for uri in player.uris]
        awaited = sorted({uri for person in self.present() for uri in person.told})
        uri = self.dice.choice(self.dice.choice((awaited, everything)) or everything)
        name = uri.partition(":")[0]
        before = {person: person.updates(uri) for person in self.present() if uri in person.told and name in STEADY}
        await self.dice.choice((self.players[name].change, self.players[name].slip))(uri)
        await trio.sleep(0.5)
        for person, heard in before.items():
            assert person.gone or person.updates(uri) > heard, f"{person} was not told of {uri}"

    async def grow(self) -> None:
        await self.dice.choice(list(self.players.values())).grow()

    async def guess(self) -> None:
        """Answer another host's question, or one that nobody asked."""
        person = self.dice.choice(self.present())
        if person.host.era is Era.LEGACY:
            mine = {asked["id"] for asked in person.host.asked}
            others = {asked["id"] for each in self.people for asked in each.host.asked if each.host.era is Era.LEGACY}
            id = self.dice.choice([*sorted(others - mine), "hub-500", 1, "s1"])
            said = {"action": "accept", "content": {"who": "guess"}}
            await person.host.send({"jsonrpc": "2.0", "id": id, "result": said}, None)

    def is_certain(self, shelf: Shelf) -> bool:
        return shelf.name in STEADY

    # --- what must be true --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check after a move: one answer for each call, no crossing, nothing done twice, all within bounds."""
        self.house.assert_judged()
        for person in self.people:
            assert person.misplaced() == []
        for player in self.players.values():
            assert player.crossings == []
            assert [marker for marker, times in player.begun.items() if times > 1] == []
        for errand in self.errands:
            assert len(errand.results) <= 1, (errand, errand.results)
        self.check_reading()
        wanted = len(self.errands) + len(self.people) + self.attempts + len(self.perusals)
        assert self.house.hub.hosts.requests.count <= wanted

    def check_end(self) -> None:
        """Check at the end: all calls were answered, and those without questions or frail upstreams succeeded."""
        self.check_end_of_reading()
        for errand in self.errands:
            assert not errand.is_waiting, f"{errand} never ended"
            if errand.upstream in STEADY and errand.results and not self.may_be_asked(errand):
                found = errand.results[0].get("result", {}).get("content")
                assert found == [{"type": "text", "text": errand.marker}], (errand, errand.results)

    def may_be_asked(self, errand: Errand) -> bool:
        """Whether it may be asked a question: its own, or one of another call of the same program."""
        whose = errand.person.label
        mine = [each for each in self.errands if each.person.label == whose and each.upstream == errand.upstream]
        return any(set(each.script) & {"late", *QUESTIONS} for each in mine)

    async def check_lists(self) -> None:
        """Check that each host sees all visible entries."""
        expected = {f"{name}__{tool['name']}" for name in STEADY for tool in self.players[name].lists["tools"]}
        for person in self.present():
            names = {name for name in await person.host.names() if name.partition("__")[0] in STEADY}
            assert names == expected, person


def run_seeded(live: Callable[[Random], Awaitable[None]], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a world on a clock of its own; `seed` decides all chance, the scheduler's included."""
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr("trio._core._run._r", Random(seed))
    monkeypatch.setattr("cache.auto_subscribe.MAX_OBSERVED", 1)  # so that there is not room for all
    random.seed(seed)
    trio.run(live, Random(seed), clock=trio.testing.MockClock(autojump_threshold=0))
