"""Tasks of the reference server of 2025-11-25, whose research tool can be called in no other way."""

import json

import pytest
import trio

from config.remembered_facts import Memory
from config.settings import HubConfig, UpstreamConfig
from hub.app import Hub
from hub.link.sealing import Sealer
from hub.wire.jsonrpc import Request, Result, raw
from hub.wire.mcp import L4, MODERN
from tests.real.recorded import OFFICIAL
from tests.support.everything import everything_but
from tests.support.fakes import FakeHost

EVERYTHING = OFFICIAL / "server-everything" / "dist" / "index.js"
STAGES = ["Gathering sources...", "Analyzing content...", "Synthesizing findings...", "Generating report..."]
"""Status messages of the research, in order. Each lasts a second: one that is over between two polls is not heard."""
EXTENSION = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


async def dispatch(hub, host, method, **params):
    reply = await hub.router.dispatch(Request(1, method, {name: raw(value) for name, value in params.items()}), host)
    assert isinstance(reply, Result), reply
    return json.loads(bytes(reply.value))


async def with_everything(work):
    config = HubConfig(upstreams={"every": UpstreamConfig(command="node", args=(str(EVERYTHING),))})
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(hub.run)
            await hub.router.settled.wait()
            await work(hub)
            nursery.cancel_scope.cancel()


def research(ambiguous):
    return {"name": "every__simulate-research-query", "arguments": {"topic": "python", "ambiguous": ambiguous}}


@pytest.mark.covers("X-12", "X-14")
@pytest.mark.parametrize("version", everything_but([L4], [L4, MODERN]))
async def test_a_host_without_tasks_waits_for_the_research(version):
    async def work(hub):
        host = FakeHost(version=version, token="t")
        result = await dispatch(hub, host, "tools/call", **research(ambiguous=False))
        assert "Research Report: python" in result["content"][0]["text"]
        heard = [message for each in host.sent if (message := each["params"].get("message")) in STAGES]
        assert heard
        assert heard == sorted(heard, key=STAGES.index)

    await with_everything(work)


@pytest.mark.covers("X-12")
async def test_a_host_without_tasks_is_asked_by_the_research():
    async def work(hub):
        host = FakeHost(version=MODERN, capabilities={"elicitation": {}})
        asked = await dispatch(hub, host, "tools/call", **research(ambiguous=True))
        ((key, _),) = asked["inputRequests"].items()
        answers = {key: {"action": "accept", "content": {"interpretation": "comedy"}}}
        more = {"inputResponses": answers, "requestState": asked["requestState"]}
        result = await dispatch(hub, host, "tools/call", **research(ambiguous=True), **more)
        assert "python (comedy)" in result["content"][0]["text"]

    await with_everything(work)


@pytest.mark.covers("X-5", "X-6")
async def test_a_host_with_tasks_looks_after_the_research():
    async def work(hub):
        host = FakeHost(version=MODERN, capabilities={**EXTENSION, "elicitation": {}})
        handle = await dispatch(hub, host, "tools/call", **research(ambiguous=True))
        assert (handle["resultType"], handle["status"]) == ("task", "working")
        id = handle["taskId"]
        task = handle
        while task["status"] in ("working", "input_required"):
            await trio.sleep(handle["pollIntervalMs"] / 1000)
            task = await dispatch(hub, host, "tasks/get", taskId=id)
            if requests := task.get("inputRequests"):
                ((key, question),) = requests.items()
                assert question["params"]["message"].startswith("[every] The research query")
                answers = {key: {"action": "accept", "content": {"interpretation": "snake"}}}
                await dispatch(hub, host, "tasks/update", taskId=id, inputResponses=answers)
        assert task["status"] == "completed"
        assert "python (snake)" in task["result"]["content"][0]["text"]
        assert "related-task" not in json.dumps(task)

    await with_everything(work)
