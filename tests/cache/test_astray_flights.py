"""Reads that end up in another session than the one that was in view when they began: whose is what they brought?"""

import json

import pytest
import trio
import trio.testing

from hub.link.hub_errors import UpstreamUnavailable
from tests.support.cache_upstream import Host, Place, Served, read_of, reads_of

ONE, OTHER = Host(label="one"), Host(label="other")


class Asked:
    """What several hosts were given."""

    def __init__(self, nursery, reads, server):
        self.texts = {}
        for host in (ONE, OTHER):
            nursery.start_soon(self._read, reads, server, host)

    async def _read(self, reads, server, host):
        try:
            reply = await reads.call(server, read_of(), host, server.call)
        except UpstreamUnavailable as error:
            self.texts[host] = str(error)
        else:
            self.texts[host] = json.loads(bytes(reply.value))["contents"][0]["text"]


@pytest.mark.covers("SEC-21", "SEC-23")
async def test_a_session_that_nobody_has_seen_may_have_been_one_hosts_own(nursery, autojump_clock):
    server = Served()
    server.place, server.gate = None, trio.Event()
    reads = await reads_of(nursery, server)
    asked = Asked(nursery, reads, server)
    await trio.testing.wait_all_tasks_blocked()
    assert len(server.reads) == 1
    server.says.gap(ONE.caller.tenant)  # it was opened, answered and ended
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(asked.texts.values()) == ["1", "2"]
    nursery.cancel_scope.cancel()


@pytest.mark.covers("SEC-21", "SEC-23")
async def test_hosts_that_have_their_own_sessions_meanwhile_read_for_themselves(nursery, autojump_clock):
    server = Served()
    server.place.subscriptions.slow_s = 0.05
    reads = await reads_of(nursery, server)
    asked = Asked(nursery, reads, server)
    await trio.testing.wait_all_tasks_blocked()
    assert server.reads == []
    server.says.gap(None)  # it asked something: from now on each host has one
    server.places = {host.caller.tenant: Place(server, host.caller.tenant) for host in (ONE, OTHER)}
    await trio.sleep(1)
    assert sorted(asked.texts.values()) == ["1", "2"]
    nursery.cancel_scope.cancel()


async def test_that_there_is_no_session_is_said_to_all_at_once(nursery, autojump_clock):
    server = Served()
    server.place, server.away = None, True
    reads = await reads_of(nursery, server)
    asked = Asked(nursery, reads, server)
    await trio.testing.wait_all_tasks_blocked()
    assert asked.texts == {ONE: "It is away", OTHER: "It is away"}
    assert len(server.reads) == 1
    nursery.cancel_scope.cancel()
