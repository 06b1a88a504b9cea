"""Resources that change, people who read them through the cache, and the checks of every answer.

A number in each text identifies the read. After a change each subscriber is notified a little later, over each stream
in its own time; from then on no read may return an older text. A resource with a time-to-live that changed without
notification may be as old as that.
"""

import json
from math import inf
from random import Random
from typing import Any, Final

import trio
import trio.testing

from hub.wire.jsonrpc import Failure
from hub.wire.mcp import HUB_STALE, SUBSCRIPTION_KEY, Era
from tests.support.fakes import Conversation, FakeUpstream
from tests.support.house import Question

LAGS_S: Final = (0, 0, 0.01, 0.1, 0.2)
"""Seconds until subscribers are notified; less than the hub reads a replaced stream."""
SPANS_S: Final = (0, 0, 0.01, 0.3, 2)
TTLS_MS: Final = ((0,), (0,), (700,), (0, 300, 5_000))
NOT_NOW: Final = "not now"


class Reading:
    """One read of an upstream."""

    def __init__(self, uri: str, era: Era, conversation: Conversation, ttl_ms: int, *, public: bool) -> None:
        self.uri = uri
        self.era = era
        self.conversation = conversation
        self.ttl_ms = ttl_ms
        self.public = public
        self.version, self.ended_at = -1, inf
        self.labels: set[str] = set()
        """The hosts that got it."""
        self.principals: set[str] = set()

    def __repr__(self) -> str:
        scope = "public" if self.public else "private"
        return f"<{self.uri} was {self.version}, {self.ttl_ms} ms, {scope}, at {self.ended_at:.2f}>"


class Shelf(FakeUpstream):
    """An upstream whose resources, `uris`, contain their number of changes."""

    name: str
    uris: list[str]

    def stock(self, dice: Random) -> None:
        """Begin."""
        self.dice = dice
        self.versions = dict.fromkeys(self.uris, 0)
        self.heard = dict.fromkeys(self.uris, 0)
        """The newest version that any subscriber was notified of."""
        self.settled = dict.fromkeys(self.uris, 0)
        """The newest version that all its subscribers were notified of."""
        self.readings: list[Reading] = []
        self.ttls_ms = (0,) if self.era is Era.LEGACY else dice.choice(TTLS_MS)
        self.on["resources/read"] = self.read

    @property
    def connections(self) -> list[Conversation]:
        """All connections, past ones too."""
        return self.conversations

    async def read(self, message: dict[str, Any], conversation: Conversation) -> Any:
        uri, dice = message["params"]["uri"], self.dice
        reading = Reading(uri, self.era, conversation, dice.choice(self.ttls_ms), public=dice.random() < 0.5)
        reading.public &= self.era is Era.MODERN
        number = len(self.readings)
        self.readings.append(reading)
        await trio.sleep(dice.choice(SPANS_S))
        reading.version = self.versions[uri]
        await trio.sleep(dice.choice(SPANS_S))
        if dice.random() < 0.03:
            return Failure(-32603, NOT_NOW)
        reading.ended_at = trio.current_time()
        contents = [{"uri": uri, "text": json.dumps([self.name, number])}]
        if self.era is Era.LEGACY:
            return {"contents": contents}
        scope = "public" if reading.public else "private"
        return {"resultType": "complete", "contents": contents, "ttlMs": reading.ttl_ms, "cacheScope": scope}

    async def change(self, uri: str) -> None:
        """Change a resource, and notify all its subscribers at once."""
        await self.slip(uri, lags_s=(0,))

    async def slip(self, uri: str, lags_s: tuple[float, ...] = LAGS_S) -> None:
        """Change a resource, and notify each present subscriber after a time of its own."""
        self.versions[uri] += 1
        version = self.versions[uri]
        streams: list[tuple[Conversation, int | None]] = []
        for each in self.connections:
            streams += [(each, None)] if uri in each.subscribed and not each.over else []
            listens = each.listens.items() if not each.over else ()
            streams += [(each, id) for id, wanted in listens if uri in wanted.get("resourceSubscriptions", ())]
        async with trio.open_nursery() as nursery:
            for conversation, id in streams:
                nursery.start_soon(self._say, uri, version, conversation, id, self.dice.choice(lags_s))
        await trio.testing.wait_all_tasks_blocked()
        self.settled[uri] = max(self.settled[uri], version)

    async def _say(self, uri: str, version: int, conversation: Conversation, id: int | None, lag_s: float) -> None:
        if lag_s:
            await trio.sleep(lag_s)
        if id not in conversation.listens if id is not None else uri not in conversation.subscribed:
            return
        about = {} if id is None else {"_meta": {SUBSCRIPTION_KEY: id}}
        try:
            await conversation.tell("notifications/resources/updated", {"uri": uri, **about})
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        await trio.testing.wait_all_tasks_blocked()
        self.heard[uri] = max(self.heard[uri], version)


class Perusal:
    """One read of a host, and the newest known versions at its start."""

    def __init__(self, person: Any, shelf: Shelf, uri: str) -> None:
        self.person = person
        self.shelf = shelf
        self.uri = uri
        self.asked_at = trio.current_time()
        self.heard, self.settled = shelf.heard[uri], shelf.settled[uri]
        self.question: Question | None = None
        self.answer: dict[str, Any] | None = None
        self.cancelled = self.cut = self.was_asked = False

    def __repr__(self) -> str:
        return f"<{self.person.label} read {self.uri} at {self.asked_at:.2f}, heard {self.heard}, said {self.settled}>"

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the hub."""
        is_open = not (self.answer or self.cancelled or self.cut or self.person.gone)
        return is_open and self.question is not None and not self.question.done.is_set()

    async def run(self) -> None:
        """Read, and retry with answers: an upstream may ask any host that it works for."""
        host, params = self.person.host, {"uri": self.uri}
        while True:
            self.question = await host.start_without_waiting("resources/read", params)
            answer = await self.question.wait()
            if answer.get("result", {}).get("resultType") != "input_required":
                self.answer = answer
                return
            self.was_asked = True
            params = await host.fulfil({"uri": self.uri}, answer["result"])

    def faults(self, shelves: dict[str, Any], configs: Any) -> list[str]:
        """The faults of the answer, a result. `configs` has the settings of upstreams."""
        assert self.answer is not None
        result = self.answer["result"]
        name, number = json.loads(result["contents"][0]["text"])
        reading: Reading = shelves[name].readings[number]
        reading.labels.add(self.person.label)
        reading.principals.add(self.person.host.identity.principal)
        said = [each for each in (reading.conversation.config, configs.get(name)) if each is not None]
        found = ["is of something else"] if reading.uri != self.uri else []
        if reading.version < self.heard:
            found.append("is older than what the hub had heard of")
        if len(reading.principals) > 1 and not (reading.public and any(each.across_principals for each in said)):
            found.append(f"is another account's: {reading.principals}")
        per_host = reading.era is Era.LEGACY and all(each.session_mode == "per_host" for each in said)
        if len(reading.labels) > 1 and per_host:
            found.append(f"is another host's: {reading.labels}")
        return found + self._age(reading, result) + self._freshness(reading, result)

    def _age(self, reading: Reading, result: dict[str, Any]) -> list[str]:
        if reading.ended_at >= self.asked_at:  # it was not kept, but read while this one waited
            return []
        stale = HUB_STALE in result.get("_meta", {})
        if not reading.ttl_ms:
            too_old = reading.version < self.settled
            return ["was kept although nobody told of changes"] if too_old or stale else []
        lived = self.asked_at > reading.ended_at + reading.ttl_ms / 1000
        return ["has outlived its time"] if lived and not stale else []

    def _freshness(self, reading: Reading, result: dict[str, Any]) -> list[str]:
        """The faults of the cache hints for a modern host."""
        if self.person.host.era is Era.LEGACY:
            return []
        found = []
        left_ms = (reading.ended_at - self.asked_at) * 1000 + reading.ttl_ms if reading.ttl_ms else 0
        if result["ttlMs"] > max(0, left_ms) + 1:
            found.append("is said to live longer than it does")
        if result["cacheScope"] == "public" and not reading.public:
            found.append("is called public, and is not")
        return found


class Readers:
    """The part of a world that reads."""

    house: Any
    players: dict[str, Any]
    dice: Random

    def open_library(self) -> None:
        """Begin."""
        for player in self.players.values():
            player.stock(self.dice)
        self.perusals: list[Perusal] = []
        self._topic: tuple[Shelf, str] | None = None
        self.faults: list[str] = []
        self.kept = 0
        """The number of answers that were read before their request."""

    def present(self) -> list[Any]:
        raise NotImplementedError

    def topic(self) -> tuple[Shelf, str]:
        """A resource to read; most of the time the one before."""
        turn = self.dice.random()
        if turn < 0.1 or self._topic is None:
            shelf = self.players[self.dice.choice(self.in_print())]
            self._topic = shelf, self.dice.choice(shelf.uris)
        elif turn < 0.3:
            self._topic = self._topic[0], self.dice.choice(self._topic[0].uris)
        return self._topic

    def in_print(self) -> list[str]:
        """The upstreams with resources."""
        return list(self.players)

    async def read(self) -> None:
        """Let some people read one resource."""
        shelf, uri = self.topic()
        for _ in range(self.dice.choice((1, 1, 2, 4))):
            self.house.nursery.start_soon(self.peruse, self.dice.choice(self.present()), shelf, uri)

    async def peruse(self, person: Any, shelf: Shelf, uri: str) -> None:
        """Let a person read, and check the answer."""
        if person.gone:
            return
        perusal = Perusal(person, shelf, uri)
        self.perusals.append(perusal)
        try:
            await perusal.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, AssertionError):
            was_cut = getattr(perusal.question, "cut", False) or getattr(self.house, "is_down", False)
            assert person.gone or perusal.cancelled or was_cut, perusal
            perusal.cut = True
            return
        answer: Any = perusal.answer
        if "result" in answer:
            found = perusal.faults(self.players, self.house.hub.config.upstreams)
            found += [] if self.may_read(person, shelf) else ["is of another project"]
            name, number = json.loads(answer["result"]["contents"][0]["text"])
            reading = self.players[name].readings[number]
            self.kept += reading.ended_at < perusal.asked_at
            self.faults += [f"what {perusal!r} was given {each}: {reading!r}" for each in found]
        elif self.is_certain(shelf) and not perusal.was_asked and NOT_NOW not in answer["error"]["message"]:
            self.faults.append(f"{perusal!r} was given {answer['error']}")

    def may_read(self, person: Any, shelf: Shelf) -> bool:
        """Whether the resource is visible to that person."""
        return True

    def is_certain(self, shelf: Shelf) -> bool:
        """Whether the read must succeed."""
        return False

    async def close_book(self) -> None:
        """Cancel a read."""
        waiting = [each for each in self.perusals if each.is_waiting]
        if waiting:
            perusal: Any = self.dice.choice(waiting)
            perusal.cancelled = True
            await perusal.person.host.cancel(perusal.question)

    async def slip(self) -> None:
        """Change a resource, and notify subscribers one by one."""
        shelf, uri = self.topic()
        for _ in range(self.dice.choice((1, 1, 2))):
            self.house.nursery.start_soon(shelf.slip, uri)

    def check_reading(self) -> None:
        """Check reads after every move."""
        assert self.faults == [], self.faults

    def check_end_of_reading(self) -> None:
        """Assert that every read was answered, and none is running."""
        self.check_reading()
        assert [each for each in self.perusals if each.is_waiting] == []
        assert self.house.hub.reads.statistics().flights == 0


def observing(hub: Any) -> int:
    """The number of tasks of a hub that only keep subscriptions for the cache."""
    sessions = [
        pooled for each in hub.supervisor.upstreams.values() for pool in each.pools for pooled in pool.open_sessions()
    ]
    modern = [pooled for pooled in sessions if pooled.session.era is Era.MODERN]
    return sum(any(each.observed for each in pooled.subscriptions) for pooled in modern)
