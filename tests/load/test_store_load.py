"""A store that is paused, killed and full while hosts of two hubs read and call: no call fails, no read is wrong.

    HUBD_LOAD=full    20 faults in place of 4

Each text contains its version. A host at hub `a` is notified of every change; from then on no host at `a` may read an
older version. At `b` no host has subscribed to one of the two resources: there the invalidation of `a` through the
store counts, or the hub's own subscription; while the store cannot be reached, that may take until the hub notices.
Measurements are printed.
"""

import contextlib
import json
import random
from pathlib import Path

import pytest
import trio

from tests.load.load_hosts import FULL
from tests.real.balancers import a_hub, free_port, hubs_config
from tests.real.reading_hosts import Reader
from tests.support.attached import hubd
from tests.support.processes import PYTHON_2, running
from tests.support.redis_server import redis_server

pytestmark = pytest.mark.everything

SERVER = Path(__file__).parent.parent / "real" / "servers" / "ttl_server.py"
FAULTS = 20 if FULL else 4
STEADY_S, FAULT_S = 1.0, 1.5
READERS, CALLERS = 3, 2
"""At each hub."""
PAUSE_S = 0.05
"""Between two readings, or calls, of one host."""
SETTLED_S = 0.5
"""After its host was told, a hub gives nothing older to anybody. More than nothing, as a host may be told twice."""
DETECTED_S = 6.0
"""A hub that is told of a change, and does not reach the store, tells the others when it does; it tries every 2 s."""
WHICH = ("public", "private")


class Faults:
    """What may happen to a store."""

    def __init__(self, store):
        self._store = store
        self.all = (self.paused, self.killed, self.full, self.cut)

    async def killed(self):
        """Killed, and started again, empty, a while later."""
        await trio.to_thread.run_sync(self._store.stop)
        await trio.sleep(FAULT_S)
        await trio.to_thread.run_sync(self._store.start)

    async def paused(self):
        """Takes connections and commands, and answers nothing."""
        self._store.pause()
        await trio.sleep(FAULT_S)
        self._store.resume()

    async def full(self):
        """Refuses whatever would need memory."""
        self._store.do("CONFIG", "SET", "maxmemory", "1")
        await trio.sleep(FAULT_S)
        self._store.do("CONFIG", "SET", "maxmemory", "0")

    async def cut(self):
        """All connections are closed, that of the news among them."""
        for _ in range(3):
            for kind in ("pubsub", "normal"):
                self._store.do("CLIENT", "KILL", "TYPE", kind)
            await trio.sleep(FAULT_S / 3)


class Floors:
    """Below which version nothing may be read any more, at each hub, of each resource."""

    def __init__(self):
        self._floors = {(hub, which): 0 for hub in "ab" for which in WHICH}
        self.wrong = []
        self.readings = 0
        self.lags = []
        """How long after `a` had told its host `b` gave the new version of what nobody has subscribed to there."""
        self.undisturbed = 0
        """How many of them were there when the first thing happened to the store."""
        self._awaited = {}

    def raise_to(self, hub, which, version):
        self._floors[hub, which] = max(version, self._floors[hub, which])

    def await_at_b(self, version):
        self._awaited[version] = trio.current_time()

    async def read(self, hub, reader, which):
        """One reading, judged by what was known when it began."""
        floor, began = self._floors[hub, which], trio.current_time()
        version = int((await reader.read(f"ttl://{which}")).split(",")[0].removeprefix("version "))
        self.readings += 1
        if version < floor:
            self.wrong.append(f"{hub} {which}: {version} after {floor}, began at {began:.3f}")
        if (hub, which) == ("b", "private"):
            for each in [each for each in self._awaited if each <= version]:
                self.lags.append(trio.current_time() - self._awaited.pop(each))


async def keep_reading(floors, hub, reader, enough):
    while not enough.is_set():
        for which in WHICH:
            await floors.read(hub, reader, which)
        await trio.sleep(PAUSE_S)


async def keep_calling(reader, tally, enough):
    while not enough.is_set():
        result = await reader.call("echo", text="here")
        assert not result.get("isError"), result
        tally.append(1)
        await trio.sleep(PAUSE_S)


async def keep_changing(floors, writers, watchers, nursery, enough):
    """Change one, wait until the hosts that are to be told are told, and so on."""
    version = dict.fromkeys(WHICH, 0)
    while not enough.is_set():
        for which in WHICH:
            uri = f"ttl://{which}"
            told = watchers if which == "public" else {"a": watchers["a"]}
            for watcher in told.values():
                watcher.forget()
            version[which] += 1
            hub = random.choice("ab")
            result = await writers[hub].call("change", which=which)
            assert result["content"][0]["text"] == f"version {version[which]}", result
            for watcher in told.values():
                await watcher.heard_of(uri)
            nursery.start_soon(settle, floors, tuple(told), which, version[which])
            await trio.sleep(0.15)


async def settle(floors, told, which, version):
    if which == "private":
        floors.await_at_b(version)
    await trio.sleep(SETTLED_S)
    for hub in told:
        floors.raise_to(hub, which, version)
    await trio.sleep(DETECTED_S)
    floors.raise_to("b", which, version)


@pytest.mark.real
@pytest.mark.covers("F-X-01", "F-X-03", "F-X-05", "F-X-06")
async def test_no_call_fails_and_no_reading_is_wrong_whatever_the_store_does(tmp_path):
    chosen = random.Random(5)
    with contextlib.ExitStack() as stack:
        argv = [PYTHON_2, SERVER, "ttl", "--http", "--takes", "0.02"]
        url = stack.enter_context(running(argv, tmp_path / "ttl.log")).wait_for(r"http://\S+")[0]
        upstream = f'[upstreams.ttl]\nurl = {json.dumps(url)}\nlocality = "remote"\n'
        store = stack.enter_context(redis_server(tmp_path, tcp=True))
        config = hubs_config(tmp_path / "secrets", upstream, store, "t" * 32)
        hubs = {name: stack.enter_context(a_hub(tmp_path / name, config, name, free_port())) for name in "ab"}
        kinds = [*Faults(store).all] * (FAULTS // 4)
        if FULL:
            chosen.shuffle(kinds)
        floors, tally = Floors(), []
        await under_load(hubs, floors, tally, kinds)
        facts = {name: await cache_facts(hub) for name, hub in hubs.items()}
    assert floors.wrong == []
    misses = sum(each["counts"]["misses"] for each in facts.values())
    print(f"\n{len(kinds)} faults: {floors.readings} readings, {misses} upstream, {len(tally)} calls")  # noqa: T201
    first = max(floors.lags[: floors.undisturbed]) * 1000
    print(f"at the other hub within {first:.0f} ms, later within {max(floors.lags):.1f} s")  # noqa: T201
    print(json.dumps({name: each["store"] for name, each in facts.items()}))  # noqa: T201
    assert misses < floors.readings / 2
    assert {each["store"]["state"] for each in facts.values()} == {"connected"}


async def under_load(hubs, floors, tally, kinds):
    """All hosts work while one fault follows the other; then the store has time to be found again."""
    enough = trio.Event()
    enough = trio.Event()
    async with trio.open_nursery() as hosts:

        async def host(name):
            return await hosts.start(Reader(hubs[name], "ttl").run)

        watchers = {name: await host(name) for name in "ab"}
        writers = {name: await host(name) for name in "ab"}
        for name, watcher in watchers.items():
            for which in WHICH if name == "a" else WHICH[:1]:
                await watcher.ask("resources/subscribe", uri=f"ttl://{which}")
        async with trio.open_nursery() as nursery:
            for name in "ab":
                for _ in range(READERS):
                    nursery.start_soon(keep_reading, floors, name, await host(name), enough)
                for _ in range(CALLERS):
                    nursery.start_soon(keep_calling, await host(name), tally, enough)
            nursery.start_soon(keep_changing, floors, writers, watchers, hosts, enough)
            await trio.sleep(STEADY_S)
            floors.undisturbed = len(floors.lags)
            for fault in kinds:
                await fault()
                await trio.sleep(STEADY_S)
            await found_again(hubs)
            enough.set()
        hosts.cancel_scope.cancel()


async def cache_facts(hub):
    done = await trio.to_thread.run_sync(hubd, hub, "cache", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def found_again(hubs):
    """Wait until both hubs have the store again: they tell nobody."""
    for hub in hubs.values():
        for _ in range(200):
            if (await cache_facts(hub))["store"]["state"] == "connected":
                break
            await trio.sleep(0.2)
