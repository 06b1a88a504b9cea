"""Hosts that come back to a server within a minute, one after the other.

A legacy server over stdio does not say which call it logs or asks for. All of that reaches the host whose call runs, if
nobody calls it beside that, and nobody but the same program did lately. A server that asks for roots although none were
declared is given those of each host from the next call on.
"""

from math import inf
from random import Random
from typing import Any

import trio

from hub.wire.mcp import L4, Era
from tests.simulation.players import Errand, Person, Player
from upstreams.questions.attribution import SUSPECT_S

DESK = "desk"
ABANDONED_S = 25.0
"""Seconds for which a call may go on at the server when its host has given it up."""
STEPS = ("log", "log", "nap", "progress", "form", "roots", "roots")
UNKNOWN, WITHHELD = "cannot tell which call", 'roots = "host"'


class Visitors:
    """The part of a world that visits the desk, which nobody calls otherwise."""

    house: Any
    dice: Random
    errands: list[Errand]
    desk: Player
    desk_settings: dict[str, Any]

    def open_desk(self, desk: Player, settings: dict[str, Any]) -> None:
        """Begin."""
        self.desk, self.desk_settings = desk, settings
        desk.stock(self.dice)
        self.visits: list[tuple[Errand, float]] = []
        """Calls of the desk, and when they began."""
        self.visits_heard = 0
        """The number of visits that must have been, and were, heard of."""
        self.faults_at_desk: list[str] = []
        self.knows_roots_from = inf
        """Since when the desk is to be given roots."""

    def present(self) -> list[Person]:
        raise NotImplementedError

    async def run(self, errand: Errand) -> None:
        raise NotImplementedError

    async def come_back(self) -> None:
        """Let a host call the desk, mostly the one that was there last."""
        last = self.visits[-1][0].person if self.visits else None
        there = self.present()
        person = last if last in there and self.dice.random() < 0.8 else self.dice.choice(there)
        script = self.dice.choices(STEPS, k=self.dice.randint(1, 4))
        for _ in range(self.dice.choice((1, 2, 2))):
            errand = Errand(person, DESK, f"{person.label}/{len(self.errands)}", script)
            self.errands.append(errand)
            self.visits.append((errand, trio.current_time()))
            self.house.nursery.start_soon(self.visit, errand)
            with trio.move_on_after(self.dice.choice((0, 5, 5))):
                while errand.is_open:  # noqa: ASYNC110 - in simulated time
                    await trio.sleep(0.1)

    async def visit(self, errand: Errand) -> None:
        """Call the desk, and check what the host hears of it."""
        begun = trio.current_time()
        await self.run(errand)
        errand.over_at = errand.over_at or trio.current_time()
        found = errand.results[0].get("result", {}).get("content") if errand.results else None
        if found == [{"type": "text", "text": errand.marker}] and self.is_plain(errand, begun):
            self.check_visit(errand, begun)
        if "roots" in errand.script and self.desk_settings["session_mode"] == "auto":
            self.knows_roots_from = min(self.knows_roots_from, trio.current_time())

    def is_plain(self, errand: Errand, begun: float) -> bool:
        """True if all that the desk says during a visit can only be meant for it."""
        if self.desk_settings["across_principals"] and len({self.account(each) for each, _ in self.visits}) > 1:
            return False
        for other, _ in self.visits:
            if other is errand:
                continue
            is_over = bool(other.results) and "result" in other.results[0]  # a wrong answer may be given anew
            wait_s = 0.0 if is_over else ABANDONED_S
            wait_s += 0.0 if other.person.label == errand.person.label else SUSPECT_S
            if other.over_at is None or other.over_at + wait_s >= begun:
                return False
        return True

    def account(self, errand: Errand) -> str:
        return errand.person.host.identity.principal

    def check_visit(self, errand: Errand, begun: float) -> None:
        """Note what is missing though nobody else may have been meant."""
        self.visits_heard += 1
        person, heard = errand.person, errand.person.host.of("notifications/message")
        logs = sum(params["data"] == errand.marker for params in heard)
        if logs != errand.script.count("log"):
            self.faults_at_desk.append(f"{errand} heard {logs} log messages")
        refusals = [why for marker, why in self.desk.refusals if marker == errand.marker]
        if any(UNKNOWN in why for why in refusals):
            self.faults_at_desk.append(f"{errand} was not asked: {refusals}")
        withheld = sum(WITHHELD in why for why in refusals)
        is_withheld = self.desk_settings["session_mode"] != "auto" and person.has_roots
        if is_withheld and withheld != errand.script.count("roots"):
            self.faults_at_desk.append(f"{errand}: the desk was not told of the setting: {refusals}")
        if withheld and begun > self.knows_roots_from and person.has_roots:
            self.faults_at_desk.append(f"{errand}: the desk was given no roots: {refusals}")

    async def relocate(self) -> None:
        """Change the root of a host that can tell."""
        able = [each for each in self.present() if each.has_roots and each.host.era is Era.LEGACY]
        if able:
            person = self.dice.choice(able)
            person.root = f"file:///{person.label}/{self.dice.randint(1, 1000)}"
            await person.host.tell("notifications/roots/list_changed")

    def check_visits(self) -> None:
        """Check after each move."""
        assert self.faults_at_desk == [], self.faults_at_desk
        assert self.desk.crossings == []
        assert [marker for marker, times in self.desk.begun.items() if times > 1] == []

    def check_roots(self, *players: Player) -> None:
        """Check at the end that sessions know where their hosts are by now."""
        for player in (self.desk, *players):
            for conversation, root in player.roots.items():
                owners = [each for each in self.people if root.startswith(f"file:///{each.label}")]
                # Nobody knows that a modern host is gone: its session, with its last roots, may outlive it.
                at = {each.root for each in owners if not each.gone or each.host.era is Era.MODERN}
                if not conversation.over and not all(each.gone for each in owners):
                    assert root in at, (player.name, root, owners)


def open_desk(dice: Random) -> tuple[Player, dict[str, Any]]:
    """A desk, and its settings."""
    mode = dice.choice(("auto", "auto", "shared", "singleton"))
    return Player(DESK, L4), {"session_mode": mode, "across_principals": dice.random() < 0.3}
