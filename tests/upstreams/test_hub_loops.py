"""An upstream that is a hub and leads back here: what becomes of it, and of calls to it."""

import json

import pytest
import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import UpstreamLoop
from hub.wire.hub_chains import HUBS, THIS_HUB, read_chain
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, MODERN, Kind
from tests.support.fakes import FakeHost, FakeUpstream, make_supervisor, opener
from upstreams.lifecycle import State

ECHO = Operation("tools/call", {"name": raw("echo")})


async def kept(nursery, fake):
    """The upstream `fake` is, once it has listed its tools or failed."""
    supervisor = make_supervisor(Memory(None), lambda name: None, run_session=opener({"up": fake}))
    await nursery.start(supervisor.run, {"up": UpstreamConfig(command="x")})
    await supervisor.settled.wait()
    return supervisor.upstreams["up"]


async def fails_with_loop(upstream):
    assert upstream.state is State.FAILED
    assert "leads back to this hub" in upstream.last_error
    assert not any(upstream.snapshot.lists.values()), "what it listed is our own"
    with pytest.raises(UpstreamLoop) as caught:
        await upstream.call(ECHO, FakeHost())
    assert (caught.value.facts()["hub"], caught.value.facts()["executed"]) == ("loop", "no")
    assert not caught.value.retryable


@pytest.mark.covers("F-D-17")
@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("told", [{"ids": ["b", THIS_HUB], "hops": 2}, {"ids": ["b"], "hops": 6}])
async def test_the_handshake_shows_a_loop(nursery, autojump_clock, version, told):
    fake = FakeUpstream(version=version)
    fake.capabilities["experimental"] = {HUBS: told}
    upstream = await kept(nursery, fake)
    await fails_with_loop(upstream)
    opened = len(fake.conversations)
    await trio.sleep(600)
    assert len(fake.conversations) == opened, "it is not tried again and again"


@pytest.mark.covers("F-D-17")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_ring_that_is_closed_later_shows_in_the_lists(nursery, autojump_clock, version):
    fake = FakeUpstream(version=version)
    fake.capabilities["experimental"] = {HUBS: {"ids": ["b"], "hops": 1}}
    upstream = await kept(nursery, fake)
    assert upstream.state is State.CONNECTED
    assert read_chain(upstream.snapshot.capabilities["experimental"]).hubs == {"b"}
    behind = {"ids": ["b", "c"], "hops": 2}

    def listed(message, conversation):
        result = {"tools": fake.lists["tools"], "_meta": {HUBS: behind}}
        return result if version == L4 else {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}

    fake.on["tools/list"] = listed
    await upstream.refresh(Kind.TOOL)
    assert read_chain(upstream.snapshot.capabilities["experimental"]).hubs == {"b", "c"}
    assert upstream.state is State.CONNECTED
    behind["ids"].append(THIS_HUB)
    await upstream.refresh(Kind.TOOL)
    await trio.testing.wait_all_tasks_blocked()
    await fails_with_loop(upstream)


@pytest.mark.covers("F-D-17")
async def test_hosts_of_a_hub_before_a_hub_are_told_who_is_behind(autojump_clock):
    from tests.support.house import a_house

    fake = FakeUpstream()
    fake.capabilities["experimental"] = {HUBS: {"ids": ["b"], "hops": 1}}
    async with a_house({"up": fake, "other": FakeUpstream()}) as house:
        for version in (L4, MODERN):
            host = await house.host("lines", version)
            listed = await host.result("tools/list")
            assert listed["_meta"][HUBS] == {"ids": [THIS_HUB, "b"], "hops": 2}
            scoped = await house.host("lines", version, endpoint="other")
            assert HUBS not in json.dumps(await scoped.result("tools/list"))
