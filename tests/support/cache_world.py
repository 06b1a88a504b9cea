"""A world for the cache: upstreams whose resources change, hosts that read and watch them, and a judge of every answer.

    async with a_world(dice, hubs=1) as world:
        for _ in range(100):
            await world.move()

A resource says how often it has changed. Whatever makes a hub doubt what it kept is noted when the hub hears of it,
with the least that a resource may say from then on; a read that was asked for later must say no less. Results that are
marked as stale may be older than the end of a session, never than a change that was said.

With several hubs, `share` gives each of them its end of the store that they have in common.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from random import Random
from typing import Any

import trio
import trio.testing

from cache.cache_entry import DropCause
from cache.redis.store import RedisStore
from cache.resource_cache import ResourceCache
from config.settings import CacheConfig, UpstreamConfig
from hub.link.call_interface import Identity, Tenant
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import HUB_STALE, L4, MODERN, Era
from hub.wire.uri_hierarchy import parents
from tests.support.fakes import Conversation, FakeUpstream
from tests.support.house import ALICE, BOB, House, a_house

URIS = ("note:a", "note:a/b", "note:a/b/c", "note:d")
Share = Callable[[int], RedisStore]


class Changing(FakeUpstream):
    """Its resources change. What is asked of it takes its time."""

    def __init__(self, name: str, version: str, dice: Random) -> None:
        super().__init__(version=version, resources=[{"uri": f"{name}-{uri}", "name": uri} for uri in URIS])
        self.name = name
        self.dice = dice
        self.uris = [entry["uri"] for entry in self.lists["resources"]]
        self.versions = dict.fromkeys(self.uris, 0)
        self.ttls = (0,) if version == L4 else dice.choice(((0,), (700,), (0, 300, 5_000)))
        self.asks = False
        self.reads = 0
        self.on["resources/read"] = self.read

    async def read(self, message: Any, conversation: Conversation) -> Any:
        uri, dice = message["params"]["uri"], self.dice
        self.reads += 1
        await trio.sleep(dice.choice((0, 0, 0.01, 0.3)))
        version = self.versions[uri]
        await trio.sleep(dice.choice((0, 0, 0.01, 0.3, 2)))
        if dice.random() < 0.03:
            return Failure(-32603, "not now")
        result: dict[str, Any] = {"contents": [{"uri": uri, "text": str(version)}]}
        if self.version == MODERN:
            scope = dice.choice(("public", "private"))
            result |= {"resultType": "complete", "ttlMs": dice.choice(self.ttls), "cacheScope": scope}
        return result

    def change(self) -> str:
        """Let a resource change. What it is a part of has changed with it."""
        uri = self.dice.choice(self.uris)
        for each in {uri, *parents(uri)} & self.versions.keys():
            self.versions[each] += 1
        return uri

    async def say(self, uri: str) -> None:
        """Say so over every connection, to whoever watches; soon. The version is in the name of a part."""
        part = f"{uri}/{self.versions[uri]}"
        await trio.sleep(self.dice.choice((0, 0, 0.005, 0.2, 1)))
        for conversation in [each for each in self.conversations if not each.over]:
            for watched in (uri, *parents(uri)):
                if watched in self.watched(conversation):
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                        await self.touch(part, of=watched, over=conversation)


class Spy:
    """Is told what a hub is told, before it acts on it: notes the least that reads may say from then on."""

    def __init__(self, fake: Changing, told: Any) -> None:
        self.fake = fake
        self.told = told
        self.heard: dict[str, int] = {}
        """What changes say, by URI."""
        self.lost_at: dict[str, int] = {}
        """What was so when a session ended."""

    def resource_changed(self, uri: str) -> None:
        whole, _, version = uri.rpartition("/")
        if whole in self.fake.versions and version.isdigit():
            self.note(whole, int(version))
        self.told.resource_changed(uri)

    def note(self, uri: str, version: int) -> None:
        self.heard[uri] = max(self.heard.get(uri, 0), version)

    def resources_relisted(self) -> None:
        self.told.resources_relisted()
        for uri, version in self.fake.versions.items():
            self.note(uri, version)

    def subscribed(self, uri: str) -> None:
        self.told.subscribed(uri)
        if uri in self.fake.versions:
            self.note(uri, self.fake.versions[uri])

    def gap(self, tenant: Tenant | None) -> None:
        self.told.gap(tenant)
        if tenant is None:
            self.lost_at |= self.fake.versions

    def least(self, uri: str, *, stale: bool) -> int:
        heard = self.heard.get(uri, 0)
        return heard if stale else max(heard, self.lost_at.get(uri, 0))


class Overheard:
    """Passes on what other hubs tell one hub, and notes it. Satisfies `cache.shared_store.StoreListener`."""

    def __init__(self, reads: ResourceCache, spies: dict[str, Spy]) -> None:
        self.reads = reads
        self.spies = spies

    def on_stale(self, source: str, uri: str | None) -> None:
        self.reads.on_stale(source, uri)
        whole, _, version = (uri or "").rpartition("/")
        for spy in self.spies.values() if version.isdigit() else ():
            is_meant = spy.told.source == source  # another configuration is another upstream
            if whole in spy.fake.versions and is_meant:
                spy.note(whole, int(version))

    def on_gap(self) -> None:
        self.reads.on_gap()


class World:
    """All of it, and what may happen. `wrong` holds the answers that were too old."""

    def __init__(self, fakes: dict[str, Changing], dice: Random, nursery: trio.Nursery) -> None:
        self.fakes = fakes
        self.dice = dice
        self.nursery = nursery
        self.houses: list[House] = []
        self.spies: list[dict[str, Spy]] = []
        self.hosts: list[tuple[Any, int]] = []
        self.asked: list[tuple[Any, Any]] = []
        self.wrong: list[str] = []
        self.answers = 0
        self.labels = iter(range(1 << 20))

    def add(self, house: House, shared: RedisStore | None) -> None:
        """One more hub, on the store that hubs share, if there is one."""
        spies: dict[str, Spy] = {}
        for name, upstream in house.hub.supervisor.upstreams.items():
            self.watch(upstream, name, spies)
        self.houses.append(house)
        self.spies.append(spies)
        if shared is not None:
            self.nursery.start_soon(shared.run, Overheard(house.hub.reads, spies))

    def watch(self, upstream: Any, name: str, spies: dict[str, Spy]) -> None:
        old = spies.get(name)
        listener = upstream.listener
        told = getattr(listener, "told", None) or copy(listener)
        spy = spies[name] = Spy(self.fakes[name], told)
        spy.heard = {} if old is None else old.heard
        spy.lost_at = dict(self.fakes[name].versions)
        listener.told = told
        for event in ("resource_changed", "resources_relisted", "subscribed", "gap"):
            setattr(listener, event, getattr(spy, event))

    async def move(self) -> None:
        """Let something happen."""
        moves = (self.read, self.change, self.wait, self.watch_one, self.cancel, self.leave, self.arrive, self.hang_up)
        rare = (self.relist, self.clear, self.reconfigure)
        act = self.dice.choices((*moves, *rare), (14, 8, 5, 3, 2, 1, 2, 0.7, 0.7, 0.3, 0.3))[0]
        await act()

    async def arrive(self) -> None:
        hub = self.dice.randrange(len(self.houses))
        identity = Identity(self.dice.choice((ALICE, BOB)).principal, f"h{next(self.labels)}")
        carrier, version = self.dice.choice(("lines", "http")), self.dice.choice((L4, MODERN))
        self.hosts.append((await self.houses[hub].host(carrier, version, identity=identity), hub))

    async def leave(self) -> None:
        if len(self.hosts) > 3:
            host, _ = self.hosts.pop(self.dice.randrange(len(self.hosts)))
            await host.leave()
            self.asked = [each for each in self.asked if each[0] is not host]

    async def read(self) -> None:
        fake = self.dice.choice(list(self.fakes.values()))
        uri = self.dice.choice(fake.uris)
        for _ in range(self.dice.choice((1, 1, 2, 4))):
            self.nursery.start_soon(self.judge, *self.dice.choice(self.hosts), fake, uri)
        await trio.lowlevel.checkpoint()

    async def judge(self, host: Any, hub: int, fake: Changing, uri: str) -> None:
        spy = self.spies[hub][fake.name]
        least = {stale: spy.least(uri, stale=stale) for stale in (False, True)}
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            question = await host.start_without_waiting("resources/read", {"uri": uri})
            self.asked.append((host, question))
            answer = await question.wait()
            self.asked = [each for each in self.asked if each[1] is not question]
            if "result" not in answer:
                return
            result = answer["result"]
            said = int(result["contents"][0]["text"])
            stale = HUB_STALE in result.get("_meta", {})
            self.answers += 1
            if said < least[stale]:
                self.wrong.append(f"{host!r} was told {said} of {uri}, but {least[stale]} was known; stale: {stale}")

    async def cancel(self) -> None:
        if self.asked:
            host, question = self.asked.pop(self.dice.randrange(len(self.asked)))
            if not question.done.is_set() and (host.carrier == "lines" or question.id in host.open_answers):
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await host.cancel(question)

    async def watch_one(self) -> None:
        host, _ = self.dice.choice(self.hosts)
        uri = self.dice.choice(self.dice.choice(list(self.fakes.values())).uris)
        if host.era is Era.LEGACY:
            await host.start_without_waiting("resources/subscribe", {"uri": uri})
        elif host.carrier == "lines":
            wanted = {"notifications": {"resourceSubscriptions": [uri]}}
            await host.start_without_waiting("subscriptions/listen", wanted)

    async def change(self) -> None:
        fake = self.dice.choice(list(self.fakes.values()))
        for _ in range(self.dice.choice((1, 1, 3))):
            self.nursery.start_soon(fake.say, fake.change())

    async def relist(self) -> None:
        fake = self.dice.choice(list(self.fakes.values()))
        for conversation in [each for each in fake.conversations if not each.over]:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await conversation.tell("notifications/resources/list_changed")

    async def hang_up(self) -> None:
        fake = self.dice.choice(list(self.fakes.values()))
        going_on = [each for each in fake.conversations if not each.over]
        if going_on:
            await self.dice.choice(going_on).close()

    async def clear(self) -> None:
        house = self.dice.choice(self.houses)
        house.hub.reads.invalidate(self.dice.choice((None, *self.fakes)), DropCause.CLEARED)

    async def reconfigure(self) -> None:
        house = self.dice.choice(self.houses)
        hub = house.hub
        name = self.dice.choice(list(self.fakes))
        changed = UpstreamConfig(**{**_fields(hub.config.upstreams[name]), "args": (str(next(self.labels)),)})
        config = type(hub.config)(**{**_fields(hub.config), "upstreams": {**hub.config.upstreams, name: changed}})
        await hub.prepare(config)
        hub.apply(config)
        newest = hub.supervisor.candidate(name) or hub.supervisor.upstreams[name]
        self.watch(newest, name, self.spies[self.houses.index(house)])

    async def wait(self) -> None:
        await trio.sleep(self.dice.choice((0, 0.005, 0.05, 0.4, 2, 10)))


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


@asynccontextmanager
async def a_world(dice: Random, *, hubs: int = 1, share: Share | None = None) -> AsyncIterator[World]:
    """A world of so many hubs; `share` makes the store of each, if there is one."""
    fakes = {
        "old": Changing("old", L4, dice),
        "new": Changing("new", MODERN, dice),
        "own": Changing("own", dice.choice((L4, MODERN)), dice),
    }
    settings: dict[str, Any] = {name: {"across_principals": dice.random() < 0.5} for name in fakes}
    settings["own"]["session_mode"] = "per_host"
    for name, each in settings.items():
        each |= {"command": None, "url": f"https://{name}.example/mcp"}
    cache = CacheConfig(stale_if_error_s=dice.choice((0.0, 60.0)), max_entries=dice.choice((3, 1000)))
    async with trio.open_nursery() as nursery:
        world = World(fakes, dice, nursery)
        async with AsyncExitStack() as stack:
            for number in range(hubs):
                shared = share(number) if share is not None else None
                made = a_house(fakes, upstreams=settings, cache=cache, shared=shared)  # type: ignore[arg-type]
                world.add(await stack.enter_async_context(made), shared)
            for _ in range(4):
                await world.arrive()
            yield world
            await trio.sleep(400)
        nursery.cancel_scope.cancel()
