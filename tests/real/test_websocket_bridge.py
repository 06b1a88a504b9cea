"""The bridge that people use, supergateway, before the reference server: over a WebSocket, killed and started again
under calls."""

import json
import signal
from collections import Counter
from contextlib import contextmanager

import pytest
import trio

from config.remembered_facts import Memory
from config.settings import HubConfig, Restart, UpstreamConfig
from hub.app import Hub
from hub.link.sealing import Sealer
from hub.wire.jsonrpc import Request, Result, raw
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeHost
from tests.support.processes import NODE, PACKAGES, free_port, running

EVERYTHING = PACKAGES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
GATEWAY = PACKAGES / "supergateway" / "dist" / "index.js"

LOST = "every ended while the call was with it; whether it acted is unknown"
UNSENT = "every ended before the call was sent to it"

pytestmark = [pytest.mark.real, pytest.mark.covers("EW-1", "EW-2")]


@contextmanager
def bridge(port, log):
    stdio = f"{NODE} {EVERYTHING}"
    argv = [
        NODE,
        GATEWAY,
        "--stdio",
        stdio,
        "--outputTransport",
        "ws",
        "--port",
        str(port),
        "--messagePath",
        "/message",
    ]
    with running(argv, log) as process:
        process.wait_for("WebSocket endpoint")
        yield process


async def with_hub(port, work):
    server = UpstreamConfig(url=f"ws://127.0.0.1:{port}/message", restart=Restart(attempts=0))
    hub = Hub(HubConfig(upstreams={"every": server}), Memory(None), Sealer(b"k" * 32))
    async with trio.open_nursery() as nursery:
        await nursery.start(hub.run)
        await hub.router.settled.wait()
        await work(hub)
        nursery.cancel_scope.cancel()


async def dispatch(hub, host, method, **params):
    return await hub.router.dispatch(Request(1, method, {name: raw(value) for name, value in params.items()}), host)


def text_of(reply):
    assert isinstance(reply, Result), reply
    return json.loads(bytes(reply.value))["content"][0]["text"]


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_its_tools_are_those_of_the_server(version, tmp_path):
    port = free_port()
    host = FakeHost(version=version, token="t")

    async def work(hub):
        listed = await dispatch(hub, host, "tools/list")
        names = {tool["name"] for tool in json.loads(bytes(listed.value))["tools"]}
        assert {"every__echo", "every__get-sum"} <= names
        assert (
            text_of(await dispatch(hub, host, "tools/call", name="every__echo", arguments={"message": "hi"}))
            == "Echo: hi"
        )
        long = {"name": "every__trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}}
        assert "completed" in text_of(await dispatch(hub, host, "tools/call", **long))
        assert len(host.sent) == 4  # its progress
        assert hub.supervisor.upstreams["every"].status().transport == "ws"

    with bridge(port, tmp_path / "bridge.log"), trio.fail_after(60):
        await with_hub(port, work)


async def test_it_is_killed_and_started_again_under_calls(tmp_path):
    """Calls end by their own answers or by one of two errors, a lost one by the first; then all are answered again."""
    port, outcomes, goal = free_port(), Counter(), 50
    began, again = trio.Event(), trio.Event()

    async def keep_calling(hub, number):
        host = FakeHost(version=L4, host=f"host{number}")
        while not again.is_set():
            message = f"{number}:{outcomes.total()}"
            reply = await dispatch(hub, host, "tools/call", name="every__echo", arguments={"message": message})
            told = text_of(reply)
            if told == f"Echo: {message}":
                outcomes["answered"] += 1
            else:
                outcomes[told] += 1
            if outcomes["answered"] > goal:
                (again if began.is_set() else began).set()

    async def lose(hub):
        long = {"name": "every__trigger-long-running-operation", "arguments": {"duration": 100, "steps": 2}}
        outcomes[text_of(await dispatch(hub, FakeHost(version=L4, host="long"), "tools/call", **long))] += 1

    async def work(hub):
        nonlocal goal
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose, hub)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(8):
                nursery.start_soon(keep_calling, hub, number)
            await began.wait()
            goal = 1 << 40
            await trio.to_thread.run_sync(first.signalled, signal.SIGKILL)
            with bridge(port, tmp_path / "second.log"):
                goal = outcomes["answered"] + 50
                await again.wait()
        assert outcomes[LOST] >= 1
        assert not set(outcomes) - {"answered", LOST, UNSENT}, outcomes

    with bridge(port, tmp_path / "first.log") as first, trio.fail_after(100):
        await with_hub(port, work)
