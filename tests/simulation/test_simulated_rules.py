"""Rules, approvals and pins that change at random while hosts call.

What the rules say is worked out a second time here, without tables, and compared: a call that was denied when it began
reaches no server, and neither does one that a person was to be asked about and nobody has agreed to; no yes counts for
another definition, another host, other rules or longer than it was given for; lists show what may be used.
"""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import Struct, structs

from config.security_settings import PolicyConfig
from hub.daemon.decision_requests import DecisionRequests
from hub.link.call_interface import Identity
from hub.link.hub_errors import HubError
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN, Era
from tests.simulation.test_simulated_changes import at_once
from tests.simulation.world import SEEDS, run_seeded
from tests.support.fakes import Conversation, FakeUpstream
from tests.support.house import House, JudgedHost, a_house

MOVES = 60
TOOLS = ("write", "drop")
LABELS = ("h1", "h2")
ASKABLE = ("*", "old__*", "new__*", "*__drop")
SELECTORS = [f"{server}__{tool}" for server in ("*", "old", "new") for tool in ("*", *TOOLS)]
DENIED, ASKED, ALLOWED = "deny", "ask", "allow"
HOUR_S = 3600.0
DAY_S = 86_400.0
SLACK_S = 1.0
RELISTED_S = 5.0
"""Time within which the hub knows a list that has changed."""


class Rule(Struct, frozen=True):
    """A selector: a glob, and the host that it is about; "": all."""

    glob: str
    label: str

    @property
    def text(self) -> str:
        return f"{self.glob} host:{self.label}" if self.label else self.glob

    def is_about(self, name: str, label: str) -> bool:
        return fnmatchcase(name, self.glob) and self.label in ("", label)


class Rules(Struct, frozen=True):
    """The rules of one moment, judged one by one."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    is_closed: bool = False
    """What nothing allows is denied."""
    pinning: str = "off"

    def config(self) -> PolicyConfig:
        texts = {name: tuple(rule.text for rule in getattr(self, name)) for name in ("deny", "ask", "allow")}
        return PolicyConfig(**texts, default="deny" if self.is_closed else "allow", pinning=self.pinning)

    def judge(self, name: str, label: str) -> tuple[str, frozenset[str]]:
        """The verdict, and the rules that ask."""
        if any(rule.is_about(name, label) for rule in self.deny):
            return DENIED, frozenset()
        if asking := frozenset(rule.text for rule in self.ask if rule.is_about(name, label)):
            return ASKED, asking
        is_allowed = not self.is_closed or any(rule.is_about(name, label) for rule in self.allow)
        return ALLOWED if is_allowed else DENIED, frozenset()


class Yes(Struct):
    """What a person has agreed to for longer than a call."""

    host: JudgedHost
    name: str
    asking: frozenset[str]
    versions: frozenset[int]
    """Versions of the tool that it may be for: those from the question to the answer."""
    lasts: str
    given: float
    ended: float = float("inf")

    def lasts_until(self) -> float:
        return min(self.ended, self.given + {"hour": HOUR_S, "session": DAY_S, "always": 90 * DAY_S}[self.lasts])

    def is_for(self, host: JudgedHost) -> bool:
        whose = (self.host.identity, self.host.program) == (host.identity, host.program)
        return whose if self.lasts != "session" else self.host is host


class Errand(Struct):
    """A call, and what was so when it began."""

    host: JudgedHost
    name: str
    marker: str
    began: float
    verdict: str
    asking: list[frozenset[str]]
    """The rules that ask about it, and those that did so later while it waited."""
    versions: set[int]
    """Versions of its tool that the hub may have known meanwhile."""
    agreed: bool = False
    """A person has said yes to this very call, or other rules have come that do not ask."""
    came: int = 0
    answers: int = 0


class Server(FakeUpstream):
    """A server whose tools may be defined anew, and which says what comes to it."""

    def __init__(self, name: str, version: str, world: "RuledWorld") -> None:
        super().__init__(version=version, tools=list(TOOLS))
        self.name = name
        self.number = 1
        """The version of its tools."""
        self.known = {1}
        """Versions that the hub may go by."""
        self.on["tools/call"] = world.come

    async def define_anew(self) -> None:
        self.number += 1
        self.known.add(self.number)
        for tool in self.lists["tools"]:
            tool["description"] = f"Version {self.number}."
        for conversation in self.conversations:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await conversation.tell("notifications/tools/list_changed")


class RuledWorld:
    """Hosts, servers and a person who changes the rules."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.servers = {name: Server(name, version, self) for name, version in (("old", L4), ("new", MODERN))}
        self.rules = Rules(ask=(Rule("*", ""),))
        self.errands: dict[str, Errand] = {}
        self.hosts: list[JudgedHost] = []
        self.given: list[Yes] = []
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        """What no server should have seen: an error there would only be its answer."""

    def enter(self, house: House) -> None:
        self.house = house
        self.people = DecisionRequests(house.hub, lambda: ())
        self.people._why_no_person = self.is_a_person  # type: ignore[method-assign]

    async def is_a_person(self) -> str:
        return ""

    # --- moves --------------------------------------------------------------------------------------------------------

    async def arrive(self) -> None:
        carrier, version = self.dice.choice(("lines", "http")), self.dice.choice((L4, MODERN))
        identity = Identity("alice", self.dice.choice(LABELS))
        capabilities: dict[str, Any] = {"elicitation": {}} if self.dice.random() < 0.7 else {}
        host = await self.house.host(carrier, version, identity=identity, capabilities=capabilities)
        host.on["elicitation/create"] = lambda params: self.decide(host, params)
        self.hosts.append(host)

    async def leave(self) -> None:
        if len(self.hosts) > 2:
            host = self.hosts.pop(self.dice.randrange(len(self.hosts)))
            if host.carrier == "lines" or host.era is Era.LEGACY:
                for each in self.given:
                    if each.host is host and each.lasts == "session":
                        each.ended = min(each.ended, trio.current_time() + SLACK_S)
            await host.leave()
            await host.end()

    async def call(self) -> None:
        host = self.dice.choice(self.hosts)
        server = self.dice.choice(list(self.servers.values()))
        name = f"{server.name}__{self.dice.choice(TOOLS)}"
        verdict, asking = self.rules.judge(name, host.identity.host)
        marker = f"m{len(self.errands)}."
        errand = Errand(host, name, marker, trio.current_time(), verdict, [asking], set(server.known))
        self.errands[marker] = errand
        self.house.nursery.start_soon(self.run, errand)

    async def run(self, errand: Errand) -> None:
        """Call, now and then once more, as models do that were told to."""
        for _ in range(self.dice.choice((1, 1, 2))):
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
                params = {"name": errand.name, "arguments": {"marker": errand.marker}}
                answer = await errand.host.ask("tools/call", params)
                while answer.get("result", {}).get("resultType") == "input_required":
                    answer = await errand.host.ask("tools/call", await errand.host.fulfil(params, answer["result"]))
                errand.answers += 1
            if errand.came:
                return
            await trio.sleep(self.dice.uniform(0, 20))
            if errand.host not in self.hosts:
                return
            self.begin_again(errand)

    def begin_again(self, errand: Errand) -> None:
        """A call that did not come to its server begins anew, under the rules of now."""
        verdict, asking = self.rules.judge(errand.name, errand.host.identity.host)
        errand.began, errand.verdict, errand.asking = trio.current_time(), verdict, [asking]
        errand.versions = set(self.server_of(errand.name).known)

    async def govern(self) -> None:
        """Other rules."""

        def some(most: int, globs: Sequence[str] = SELECTORS) -> tuple[Rule, ...]:
            number = self.dice.randint(0, most)
            return tuple(Rule(self.dice.choice(globs), self.dice.choice(("", *LABELS))) for _ in range(number))

        kept = self.dice.random() < 0.7
        self.rules = Rules(
            deny=some(1) if self.dice.random() < 0.5 else (),
            ask=self.rules.ask if kept else some(2, ASKABLE),
            allow=some(2),
            is_closed=self.dice.random() < 0.2,
            pinning=self.rules.pinning,
        )
        config = structs.replace(self.house.hub.config, policy=self.rules.config())
        if self.dice.random() < 0.5:
            await self.house.hub.prepare(config)
        self.house.hub.apply(config)
        for errand in self.errands.values():
            verdict, asking = self.rules.judge(errand.name, errand.host.identity.host)
            errand.agreed |= verdict == ALLOWED
            errand.asking += [asking] * (verdict == ASKED)

    async def define(self) -> None:
        """A server defines its tools anew; some time later the hub knows nothing else."""
        server = self.dice.choice(list(self.servers.values()))
        await server.define_anew()
        for errand in self.errands.values():
            if errand.name.startswith(server.name):
                errand.versions.add(server.number)
        if self.dice.random() < 0.7:
            await trio.sleep(RELISTED_S)
            server.known = {server.number}

    async def decide_elsewhere(self) -> None:
        """The person decides at a terminal."""
        async with aclosing(self.people.approvals()) as found:
            listed = await anext(found)
        waiting = [request for request in listed.requests if not request.decision]
        if not waiting:
            return
        request = self.dice.choice(waiting)
        errand = self.find(request.arguments)
        offers = (await self.people.approval_show(request.id)).offers
        if self.dice.random() < 0.2:
            await self.people.approval_deny(request.id)
            return
        lasts = self.dice.choice(offers)
        self.agree(errand, lasts)
        with suppress(HubError):
            await self.people.approval_give(request.id, lasts)  # type: ignore[arg-type]

    async def revoke(self) -> None:
        before = tuple(self.given)  # whoever says yes while it is being saved says so after it
        with suppress(HubError):
            await self.people.approval_revoke(all=True)
        for each in before:
            each.ended = min(each.ended, trio.current_time())

    async def wait(self) -> None:
        await trio.sleep(self.dice.choice((0.1, 1, 1, 10, 700, HOUR_S)))

    # --- people -------------------------------------------------------------------------------------------------------

    def find(self, text: str) -> Errand:
        """The call that a question is about."""
        found = re.search(r"m\d+\.", text)
        assert found is not None, text
        return self.errands[found[0]]

    async def decide(self, host: JudgedHost, params: dict[str, Any]) -> Any:
        """Answer the question whether a call may run."""
        mood = self.dice.choice(("yes", "yes", "yes", "late", "no", "never", "nonsense"))
        errand = self.find(params["message"])
        assert errand.host is host, (errand, host)
        if mood == "never":
            await trio.sleep(HOUR_S)
        if mood == "late":
            await trio.sleep(self.dice.uniform(0, 30))
        if mood in ("no", "never"):
            return {"action": "decline"}
        if mood == "nonsense":
            return self.dice.choice((Failure(-1, "no"), {"action": "accept", "content": {"decision": "for ever"}}))
        lasts = self.dice.choice(params["requestedSchema"]["properties"]["decision"]["enum"])
        self.agree(errand, lasts)
        return {"action": "accept", "content": {"decision": lasts}}

    def agree(self, errand: Errand, lasts: str) -> None:
        """Note what a person has said, and the rules of that moment."""
        verdict, asking = self.rules.judge(errand.name, errand.host.identity.host)
        if verdict == DENIED:
            return
        errand.agreed = True
        if lasts != "once":
            versions = frozenset(errand.versions | self.server_of(errand.name).known)
            self.given.append(
                Yes(errand.host, errand.name, asking.union(*errand.asking), versions, lasts, trio.current_time())
            )

    # --- what must be true --------------------------------------------------------------------------------------------

    def server_of(self, name: str) -> Server:
        return self.servers[name.partition("__")[0]]

    async def come(self, message: dict[str, Any], conversation: Conversation) -> Any:
        """A call has come to its server."""
        errand = self.errands[message["params"]["arguments"]["marker"]]
        errand.came += 1
        self.outcomes[f"{errand.verdict} came"] += 1
        if errand.came > 1:
            self.wrong.append(f"{errand} came twice")
        if errand.verdict == DENIED:
            self.wrong.append(f"{errand} was denied")
        if errand.verdict == ASKED and not errand.agreed:
            versions = errand.versions | self.server_of(errand.name).known
            if not any(self.covers(each, errand, versions) for each in self.given):
                self.wrong.append(f"nobody agreed to {errand}")
            self.outcomes["granted came"] += 1
        await trio.sleep(self.dice.choice((0, 0, 0.5)))
        whole = {"resultType": "complete"} if self.server_of(errand.name).era is Era.MODERN else {}
        return {**whole, "content": [{"type": "text", "text": errand.marker}]}

    def covers(self, yes: Yes, errand: Errand, versions: set[int]) -> bool:
        return (
            yes.name == errand.name
            and yes.is_for(errand.host)
            and any(asking <= yes.asking for asking in errand.asking)
            and not yes.versions.isdisjoint(versions)
            and errand.began <= yes.lasts_until()
        )

    async def check_lists(self) -> None:
        for host in self.hosts:
            names = [f"{server}__{tool}" for server in self.servers for tool in TOOLS]
            expected = [name for name in names if self.rules.judge(name, host.identity.host)[0] != DENIED]
            assert await host.names() == expected, (host, self.rules)

    async def move(self) -> None:
        moves = {
            self.call: 14,
            self.govern: 3,
            self.define: 1,
            self.decide_elsewhere: 5,
            self.revoke: 0.5,
            self.arrive: 1,
            self.leave: 1,
            self.wait: 4,
            self.check_lists: 1,
        }
        await self.dice.choices(list(moves), list(moves.values()))[0]()
        await trio.testing.wait_all_tasks_blocked()
        self.house.assert_judged()
        assert self.wrong == []


async def live(dice: Random) -> None:
    """One world, from its beginning to its end."""
    world = RuledWorld(dice)
    with TemporaryDirectory() as folder:
        fakes: dict[str, FakeUpstream] = dict(world.servers)
        files = {name: Path(folder) / f"{name}.json" for name in ("grants", "pins")}
        async with a_house(fakes, **files) as house:
            world.enter(house)
            await trio.sleep(1)
            house.hub.apply(structs.replace(house.hub.config, policy=world.rules.config()))
            for _ in range(3):
                await world.arrive()
            for _ in range(MOVES):
                await world.move()
            await trio.sleep(2 * HOUR_S)
            await world.check_lists()
            assert world.wrong == []
            for host in world.hosts:
                await host.leave()
                await host.end()
            await trio.sleep(2 * HOUR_S)
    assert world.outcomes["allow came"] + world.outcomes["ask came"], "nothing was called"


@pytest.mark.covers("POL-01", "POL-08", "POL-21", "POL-24")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_denied_comes_nowhere_and_no_yes_outlives_its_ground(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio.to_thread.run_sync", at_once)
    monkeypatch.setattr("hub.app.WALL", trio.current_time)
    run_seeded(live, seed, monkeypatch)
