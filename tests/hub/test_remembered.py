"""What hosts see after a restart: all that upstreams offered last, at once, and word of what is different."""

import json
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.inventory.last_known_lists import LastKnown
from upstreams.lifecycle import State

CHANGED = "notifications/tools/list_changed"
ERAS = pytest.mark.parametrize("version", [L4, MODERN])


class Slow:
    """Keeps an upstream from shaking hands until it is released."""

    def __init__(self, fake):
        self.released = trio.Event()
        for method in ("initialize", "server/discover"):
            fake.on[method] = self.wait
        self._fake = fake

    async def wait(self, message, conversation):
        await self.released.wait()
        return self._fake.answer(message)


@asynccontextmanager
async def a_run(directory, fakes, **more):
    """One run of a hub, of those that share a state directory."""
    memory = Memory(directory / "memory.json")
    async with a_house(fakes, memory=memory, last_known=LastKnown(directory / "catalogue"), **more) as house:
        yield house


async def first_run(directory, fakes, **more):
    async with a_run(directory, fakes, **more) as house:
        host = await house.host("lines", L4)
        return json.dumps(await host.result("tools/list"))


def state(house, name="files"):
    return house.hub.supervisor.upstreams[name].state


async def connected(house, *names):
    """Give these upstreams, which are kept by nothing, time to be there, and hosts to hear of it."""
    await trio.sleep(2)
    assert [state(house, name) for name in names] == [State.CONNECTED] * len(names)


async def written(condition):
    """Wait for threads; the clock, which jumps, does not."""
    for _ in range(1_000_000):
        if condition():
            return
        await trio.lowlevel.checkpoint()
    raise AssertionError("it was never written")


@pytest.mark.covers("F-D-03", "S-2", "G-12")
@ERAS
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_lists_are_whole_while_upstreams_start(autojump_clock, tmp_path, version, carrier):
    def make():
        files = FakeUpstream(version=version, tools=["read"], prompts=[{"name": "p"}])
        files.instructions = "Read before you write."
        return {"files": files, "mail": FakeUpstream(tools=["send"], resources=[{"uri": "mail://in", "name": "in"}])}

    shown = await first_run(tmp_path, make())
    fakes = make()
    slow = [Slow(fake) for fake in fakes.values()]
    async with a_run(tmp_path, fakes) as house:
        started = trio.current_time()
        host = await house.host(carrier, L4)
        modern = await house.host(carrier, MODERN)
        assert json.dumps(await host.result("tools/list")) == shown
        assert await host.names("prompts") == ["files__p"]
        assert await modern.names("resources") == ["mail://in"]
        for welcome in (host.welcome, modern.welcome):
            assert "Read before you write." in welcome["instructions"]
        assert state(house) is state(house, "mail") is State.CONNECTING
        assert all(upstream.offered.remembered for upstream in house.hub.supervisor.upstreams.values())
        assert trio.current_time() == started
        call = await host.start("tools/call", {"name": "files__read"})
        await trio.sleep(3)
        assert not call.done.is_set()
        for each in slow:
            each.released.set()
        assert json.loads((await call.wait())["result"]["content"][0]["text"])["name"] == "read"
        await connected(house, "files", "mail")
        assert host.heard == []


@pytest.mark.covers("F-P-29", "N-8")
async def test_twenty_restarts_change_no_list_and_tell_nobody(autojump_clock, tmp_path):
    fakes = {"files": FakeUpstream(tools=["a", "b"], resources=[{"uri": "x://1", "name": "1"}])}
    fakes["mail"] = FakeUpstream(version=MODERN, resources=[{"uri": "x://1", "name": "1"}])
    shown = set()
    for _ in range(20):
        slow = [Slow(fake) for fake in fakes.values()]
        async with a_run(tmp_path, fakes, startup_grace_s=0.0 if shown else 60.0) as house:
            if not shown:
                slow.pop().released.set()
                slow.pop().released.set()
            host = await house.host("lines", L4)
            for method in ("tools/list", "resources/list"):
                shown.add(json.dumps(await host.result(method)))
            for each in slow:
                assert state(house) is State.CONNECTING
                each.released.set()
            await connected(house, "files", "mail")
            for method in ("tools/list", "resources/list"):
                shown.add(json.dumps(await host.result(method)))
            assert host.heard == []
    assert len(shown) == 2


@pytest.mark.covers("N-8", "G-1")
@ERAS
async def test_what_is_different_is_told(autojump_clock, tmp_path, version):
    await first_run(tmp_path, {"files": FakeUpstream(version=version, tools=["old", "both"])})
    fakes = {"files": FakeUpstream(version=version, tools=["both", "new"])}
    slow = Slow(fakes["files"])
    async with a_run(tmp_path, fakes) as house:
        host = await house.host("lines", L4)
        scoped = await house.host("http", L4, endpoint="files")
        assert await host.names() == ["files__old", "files__both"]
        assert await scoped.names() == ["old", "both"]
        slow.released.set()
        await connected(house, "files")
        assert len(host.of(CHANGED)) == len(scoped.of(CHANGED)) == 1
        assert await host.names() == ["files__both", "files__new"]
        assert await scoped.names() == ["both", "new"]
    async with a_run(tmp_path, {"files": FakeUpstream(version=version, tools=["both", "new"])}) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["files__both", "files__new"]
        await connected(house, "files")
        assert host.heard == []


@pytest.mark.covers("F-P-02")
async def test_what_an_upstream_that_does_not_start_offered_stays(autojump_clock, tmp_path):
    await first_run(tmp_path, {"files": FakeUpstream()})
    fakes = {"files": FakeUpstream()}
    fakes["files"].refuses = True
    async with a_run(tmp_path, fakes) as house:
        host = await house.host("lines", L4)
        await trio.sleep(300)
        assert state(house) is State.FAILED
        assert await host.names() == ["files__echo"]
        assert host.heard == []
        fakes["files"].refuses = False
        assert "result" in await host.ask("tools/call", {"name": "files__echo"})


async def test_the_first_list_waits_only_for_those_never_seen(autojump_clock, tmp_path):
    await first_run(tmp_path, {"files": FakeUpstream()})
    fakes = {"files": FakeUpstream(), "mail": FakeUpstream(tools=["send"])}
    slow = Slow(fakes["files"])
    new = Slow(fakes["mail"])
    async with a_run(tmp_path, fakes, startup_grace_s=30.0) as house:
        host = await house.host("lines", L4)
        listing = await host.start("tools/list")
        await trio.sleep(20)
        assert not listing.done.is_set()
        new.released.set()
        assert len((await listing.wait())["result"]["tools"]) == 2
        assert state(house, "files") is State.CONNECTING
        assert trio.current_time() < 25
        slow.released.set()
        await connected(house, "files")


@pytest.mark.covers("K-14", "K-12")
async def test_remembered_lists_are_to_be_asked_for_again_soon(autojump_clock, tmp_path):
    await first_run(tmp_path, {"files": FakeUpstream(version=MODERN)})
    fakes = {"files": FakeUpstream(version=MODERN)}
    slow = Slow(fakes["files"])
    async with a_run(tmp_path, fakes) as house:
        host = await house.host("http", MODERN)
        assert (await host.result("tools/list"))["ttlMs"] == 1_000
        slow.released.set()
        await connected(house, "files")
        assert (await host.result("tools/list"))["ttlMs"] > 50_000


@pytest.mark.parametrize("change", [{"args": ("--other",)}, {"command": "other"}, {"disabled": True}])
async def test_another_server_of_the_name_offers_what_it_says(autojump_clock, tmp_path, change):
    await first_run(tmp_path, {"files": FakeUpstream(tools=["old"])})
    fakes = {"files": FakeUpstream(tools=["new"])}
    async with a_run(tmp_path, fakes, upstreams={"files": change}) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ([] if "disabled" in change else ["files__new"])


@pytest.mark.covers("F-D-03")
async def test_claims_eras_and_lists_survive_a_kill_soon_after(autojump_clock, tmp_path):
    """A crash two seconds after the start: nothing is written at the end, as the directory is copied before."""
    fakes = {name: FakeUpstream(version=MODERN, resources=[{"uri": "x://1", "name": "1"}]) for name in ("one", "two")}
    files = {"memory.json": b"", "catalogue/one.json": b"", "catalogue/two.json": b""}
    async with a_run(tmp_path / "state", fakes) as house:
        host = await house.host("lines", L4)
        shown = await host.names("resources")
        await trio.sleep(2)
        await written(lambda: all((tmp_path / "state" / name).exists() for name in files))
        for name in files:
            files[name] = (tmp_path / "state" / name).read_bytes()
    copy = tmp_path / "copy"
    (copy / "catalogue").mkdir(parents=True)
    for name, data in files.items():
        (copy / name).write_bytes(data)
    slow = [Slow(fake) for fake in fakes.values()]
    async with a_run(copy, fakes) as house:
        host = await house.host("lines", L4)
        assert await host.names("resources") == shown
        slow[1].released.set()
        await connected(house, "two")
        slow[0].released.set()
        await connected(house, "one")
        assert await host.names("resources") == shown
        assert host.heard == []
        assert fakes["one"].conversation.received[0]["method"] == "server/discover"


@pytest.mark.covers("F-D-05", "F-D-06")
async def test_a_full_disk_is_shown_and_stops_nothing(autojump_clock, tmp_path, caplog):
    (tmp_path / "catalogue").write_text("in the way")
    async with a_run(tmp_path, {"files": FakeUpstream()}) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["files__echo"]
        await trio.sleep(2)
        await written(lambda: house.hub.last_known.problem)
        assert any("cannot save" in warning for warning in (await house.api.status()).warnings)
    assert caplog.text.count("cannot use") == caplog.text.count("cannot save") == 1


async def test_an_upstream_that_a_reload_adds_is_known_at_once_if_it_was_before(autojump_clock, tmp_path):
    await first_run(tmp_path, {"files": FakeUpstream(), "mail": FakeUpstream(tools=["send"])})
    fakes = {"files": FakeUpstream()}
    async with a_run(tmp_path, fakes) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["files__echo"]
        fakes["mail"] = FakeUpstream(tools=["send"])
        slow = Slow(fakes["mail"])
        config = house.hub.config
        config = structs.replace(config, upstreams={**config.upstreams, "mail": UpstreamConfig(command="mail")})
        await house.hub.prepare(config)
        house.hub.apply(config)
        assert await host.names() == ["files__echo", "mail__send"]
        assert state(house, "mail") is State.CONNECTING
        slow.released.set()
        await connected(house, "files", "mail")
        assert len(host.of(CHANGED)) == 1


@pytest.mark.covers("FH-7")
async def test_a_server_that_was_late_delays_no_list_of_the_next_run(autojump_clock, tmp_path):
    await first_run(tmp_path, {"files": FakeUpstream()})
    for waits_s in (5, 0, 0):
        fakes = {"files": FakeUpstream(), "hangs": FakeUpstream(tools=["late"])}
        hangs = Slow(fakes["hangs"])
        async with a_run(tmp_path, fakes, startup_grace_s=5.0) as house:
            host = await house.host("lines", L4)
            started = trio.current_time()
            assert await host.names() == ["files__echo"]
            assert trio.current_time() == started + waits_s
    async with a_run(tmp_path, fakes, startup_grace_s=5.0) as house:
        hangs.released.set()
        await connected(house, "hangs")
        assert await (await house.host("lines", L4)).names() == ["files__echo", "hangs__late"]


@pytest.mark.covers("FH-7")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_the_endpoint_of_one_server_waits_for_no_other(autojump_clock, tmp_path, carrier):
    fakes = {"files": FakeUpstream(tools=["old"]), "hangs": FakeUpstream()}
    hangs = Slow(fakes["hangs"])
    async with a_run(tmp_path, fakes, startup_grace_s=30.0) as house:
        started = trio.current_time()
        if carrier == "http":
            host = await house.host("http", L4, endpoint="files")
            assert await host.names() == ["old"]
            assert trio.current_time() < started + 1
            fakes["files"].lists["tools"][0]["name"] = "new"
            await fakes["files"].conversation.tell(CHANGED)
            await trio.sleep(1)
            assert len(host.of(CHANGED)) == 1, "it has been shown a list"
            assert await host.names() == ["new"]
        everything = await house.host(carrier, L4)
        assert len(await everything.names()) == 1
        assert trio.current_time() == pytest.approx(started + 30, abs=1)
        hangs.released.set()


@pytest.mark.parametrize(("start", "doubted_at_once"), [("lazy", True), ("eager", False)])
async def test_what_is_remembered_is_held_against_settings_only_if_nothing_is_read(
    autojump_clock, tmp_path, start, doubted_at_once
):
    """A server that is only starting may have learned what a profile names."""
    settings = {"upstreams": {"files": {"start": start}}}
    profiles = {"p": Profile(tools=("files__new", "files__read"))}

    def doubts(house):
        return [each for each in house.hub.live.warnings if "'files__new'" in each]

    async with a_run(tmp_path, {"files": FakeUpstream(tools=["read"])}, **settings, profiles=profiles) as house:
        await connected(house, "files")
        assert doubts(house)
    files = FakeUpstream(tools=["read", "new"])
    slow = Slow(files)
    async with a_run(tmp_path, {"files": files}, **settings, profiles=profiles) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["files__read"], "what is remembered"
        assert bool(doubts(house)) is doubted_at_once
        slow.released.set()
        await host.call("files__read")
        await connected(house, "files")
        assert not doubts(house)
