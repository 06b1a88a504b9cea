"""When a hub says digests of its lists to a shim; `Router` plays the router, `Places` the projects."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from hub.catalog.endpoint_views import EVERYTHING, project_view
from hub.downstream.host_conversations import Hosts
from hub.downstream.lines.connection import PLACED_S
from hub.downstream.lines.preamble import Preamble
from hub.wire.mcp import Kind
from tests.hub.downstream.lines.test_connection import connected, modern
from tests.support.http_fakes import Scripted

SHOP = project_view(Path("/home/me/shop"))


class Router(Scripted):
    """One whose lists tell views apart."""

    def __init__(self):
        super().__init__()
        self.shown = {EVERYTHING: trio.Event(), SHOP: trio.Event()}
        self.shown[EVERYTHING].set()

    async def wait(self, view):
        await self.shown[view].wait()

    def digests(self, view):
        return dict.fromkeys([kind.value for kind in Kind], "shop." if view == SHOP else "all.")


class Places:
    """Projects that ask hosts where they work."""

    def __init__(self):
        self.asked = []
        self.known = trio.Event()

    def opened(self, host):
        self.asked.append(host)

    async def placed(self, host):
        if host in self.asked:
            await self.known.wait()

    def left(self, host):
        pass

    def answered(self, view):
        """The one host has said that it works there."""
        self.asked[0].show(view)
        self.known.set()


@asynccontextmanager
async def shim(router, places=None):
    hosts = Hosts()
    if places is not None:
        hosts.workplaces = places
    async with connected(router, hosts, said=Preamble(lists=True)) as host:
        assert await said(host) == "a promise"
        yield host


async def said(host):
    """What the hub says of lists next: of which view."""
    while "lists" not in (line := json.loads(await host.line())):
        assert "result" in line
    views = {text.partition(".")[0] for text in line["lists"].values()}
    return views.pop() if views else "a promise"


async def has_said_nothing(host):
    await trio.testing.wait_all_tasks_blocked()
    await host.settle()  # which fails if the next line is not its answer


async def test_they_wait_until_the_host_has_said_where_it_works(autojump_clock):
    router, places = Router(), Places()
    async with shim(router, places) as host:
        await host.initialize()
        await has_said_nothing(host)
        places.answered(SHOP)
        await has_said_nothing(host)  # while the servers there start
        router.shown[SHOP].set()
        assert await said(host) == "shop"


async def test_a_host_that_does_not_say_it_hears_of_what_it_is_shown(autojump_clock):
    async with shim(Router(), Places()) as host:
        await host.initialize()
        await has_said_nothing(host)
        begun = trio.current_time()
        assert await said(host) == "all"
        assert trio.current_time() - begun == pytest.approx(PLACED_S)


async def test_one_that_moves_while_its_lists_are_prepared_gets_those_of_where_it_is_then(autojump_clock):
    router, places = Router(), Places()
    router.shown[EVERYTHING] = trio.Event()
    async with shim(router, places) as host:
        await host.initialize()
        await has_said_nothing(host)
        await trio.sleep(PLACED_S)
        places.answered(SHOP)
        router.shown[EVERYTHING].set()
        await has_said_nothing(host)
        router.shown[SHOP].set()
        assert await said(host) == "shop"


async def test_where_nobody_is_asked_nothing_waits_but_the_handshake(autojump_clock):
    for places in (None, Places()):
        async with shim(Router(), places) as host:
            await host.send(modern("tools/call", {"name": "echo"}))
            assert await said(host) == "all"
    async with shim(Router()) as host:
        await trio.testing.wait_all_tasks_blocked()
        await host.initialize()
        assert await said(host) == "all"
