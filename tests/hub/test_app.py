"""The parts of a hub together, and what its control socket offers."""

import json
import threading

import msgspec
import pytest
import trio

from config.remembered_facts import Memory
from config.settings import Timeouts
from hub import app as hub_module
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.lifecycle import State


class Watched(Memory):
    """Says when it was saved by another thread, and by which threads it was."""

    def __init__(self, path):
        super().__init__(path)
        self.saved = trio.Event()
        self.writers = []

    def write(self, draft):
        super().write(draft)
        self.writers.append(threading.current_thread())
        if threading.current_thread() is not threading.main_thread():
            trio.from_thread.run_sync(self.saved.set)


async def test_status_shows_upstreams_hosts_and_warnings(autojump_clock):
    fakes = {"one": FakeUpstream(version=MODERN, tools=["two__echo"]), "two": FakeUpstream(), "gone": FakeUpstream()}
    fakes["gone"].refuses = True
    async with a_house(fakes, upstreams={"one": {"prefix": ""}}) as house:
        await house.host("lines", L4)
        await house.host("http", L4)
        await trio.sleep(1)
        status = await house.api.status()
        states = {row.name: (row.state, row.version) for row in status.upstreams}
        assert states == {"one": ("connected", MODERN), "two": ("connected", L4), "gone": ("reconnecting", None)}
        assert status.settled is True
        assert sorted(row.transport for row in status.hosts) == ["http", "unix"]
        assert len(status.warnings) == 1
        assert msgspec.json.encode(status)


async def test_words_on_a_command_line_are_completed_with_tools(autojump_clock):
    async with a_house({"files": FakeUpstream()}) as house:
        assert [json.loads(bytes(tool))["name"] for tool in await house.api.tools()] == ["files__echo"]
        assert not house.hub.hosts.requests.count


async def test_what_was_learned_is_kept(autojump_clock, tmp_path):
    fakes = {"files": FakeUpstream(version=MODERN, resources=[{"uri": "a://b", "name": "r"}])}
    path = tmp_path / "state.json"
    memory = Watched(path)
    async with a_house(fakes, memory=memory) as house:
        host = await house.host("lines", L4)
        await host.names("resources")
        await memory.saved.wait()
        assert path.exists()
    memory = Memory(path)
    assert memory.get("claims", "all")
    async with a_house(fakes, memory=memory):
        await trio.sleep(1)
    assert fakes["files"].conversation.received[0]["method"] == "server/discover"


async def test_saving_does_not_hold_hosts_up(autojump_clock, tmp_path):
    memory = Watched(tmp_path / "state.json")
    async with a_house({"files": FakeUpstream()}, memory=memory):
        memory.put("a", "b", 1)
        await memory.saved.wait()
        memory.put("a", "b", 2)
    assert memory.writers[0] is not memory.writers[-1] is threading.current_thread()
    assert Memory(tmp_path / "state.json").get("a", "b") == 2


async def test_a_disabled_upstream_is_known_and_not_started(autojump_clock):
    fakes = {"off": FakeUpstream(), "on": FakeUpstream()}
    settings = {"off": {"disabled": True}, "on": {"timeouts": Timeouts(start=5)}}
    async with a_house(fakes, upstreams=settings) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["on__echo"]
        started = trio.current_time()
        refused = await host.call("off__echo")
        assert refused["isError"]
        assert refused["content"][0]["text"].startswith("off is disabled in the hub's configuration")
        assert "hubd enable off" in refused["content"][0]["text"]
        assert trio.current_time() == started
        assert fakes["off"].conversations == []


async def test_an_upstream_is_restarted_by_command(autojump_clock):
    fakes = {"files": FakeUpstream(), "off": FakeUpstream()}
    async with a_house(fakes, upstreams={"off": {"disabled": True}}) as house:
        await trio.sleep(1)
        await house.api.restart("files")
        await trio.sleep(1)
        assert len(fakes["files"].conversations) == 2
        assert house.hub.supervisor.upstreams["files"].state is State.CONNECTED
        for name, reason in [("off", "off is disabled"), ("no", "There is no server no; there are: files, off")]:
            with pytest.raises(UpstreamUnavailable, match=reason):
                await house.api.restart(name)


@pytest.mark.covers("F-D-13", "I-3")
@pytest.mark.parametrize("task", ["autosave"])
async def test_a_fault_of_one_task_ends_no_other(task, monkeypatch, autojump_clock, caplog):
    faults = []
    sound = getattr(hub_module, task)

    async def faulty(*arguments, **more):
        faults.append(task)
        if len(faults) == 1:
            raise RuntimeError("a fault of a library")
        await sound(*arguments, **more)

    monkeypatch.setattr(hub_module, task, faulty)
    async with a_house({"one": FakeUpstream(tools=["echo"])}) as house:
        host = await house.host("lines", L4)
        await trio.sleep(2)
        assert await host.names() == ["one__echo"]
        assert len(faults) == 2, "it began anew"
        assert "has stopped because of a fault, and begins anew in 1 s" in caplog.text
