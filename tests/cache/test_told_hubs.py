"""What other hubs on a store are told of what this one has heard, or was commanded."""

import pytest

from cache.cache_entry import DropCause
from hub.link.call_interface import Identity, Tenant
from tests.support.cache_upstream import Served, reads_of

A = "note://a"
OWN = Tenant(Identity("alice", "desk"), 1)
ALL = {("files", None)}


class Told:
    """A store where only what is invalidated is of interest. In place of `cache.redis.store.RedisStore`."""

    is_coherent = True

    def __init__(self):
        self.void = set()

    def invalidate(self, source, uri):
        self.void.add((source, uri))


@pytest.mark.covers("K-8", "F-X-03")
@pytest.mark.parametrize(
    ("event", "told"),
    [
        (lambda reads, server: server.says.resource_changed(A), {("files", A)}),
        (lambda reads, server: server.says.subscribed(A), {("files", A)}),
        (lambda reads, server: server.says.resources_relisted(), ALL),
        (lambda reads, server: server.says.gap(None), ALL),
        (lambda reads, server: server.says.gap(OWN), set()),
        (lambda reads, server: reads.invalidate("files", DropCause.CLEARED), ALL),
        (lambda reads, server: reads.invalidate(None, DropCause.CLEARED), {*ALL, ("other", None)}),
        (lambda reads, server: reads.on_stale(server.says.source, A), set()),
        (lambda reads, server: reads.on_gap(), set()),
    ],
)
async def test_others_are_told_of_what_concerns_them(nursery, autojump_clock, event, told):
    server, other, store = Served(), Served(name="other", url="https://other"), Told()
    reads = await reads_of(nursery, server, other, shared=store)
    names = {each.says.source: each.name for each in (server, other)}
    event(reads, server)
    assert {(names[source], uri) for source, uri in store.void} == told
    nursery.cancel_scope.cancel()


@pytest.mark.covers("K-8", "F-X-03")
async def test_what_a_session_of_earlier_settings_says_goes_for_the_present_ones(nursery, autojump_clock):
    before, now, store = Served(), Served(url="https://elsewhere"), Told()
    reads = await reads_of(nursery, before, shared=store)
    now.says = reads.listener_for(now.name, now.config)
    reads.register(now)
    before.says.resource_changed(A)
    now.says.gap(None)
    assert store.void == {(before.says.source, A), (now.says.source, A), (now.says.source, None)}
    nursery.cancel_scope.cancel()
