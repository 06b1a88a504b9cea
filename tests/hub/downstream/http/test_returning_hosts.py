"""Hosts of revived sessions that worked in a project: they are shown it again, and told of the lists that differ."""

from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from hub.catalog.endpoint_views import EVERYTHING, project_view
from hub.downstream.http.durable_sessions import MAX_KEPT_CHARS, KeptFacts
from hub.downstream.http.session import RETURN_S
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, LIST_CHANGED
from tests.hub.downstream.http.test_durable_sessions import TOOLS_CHANGED, Hubs
from tests.support.http_fakes import Scripted, make_durable_sessions

SHOP = Path("/home/me/shop")
VIEW = project_view(SHOP)


class Shop:
    """A project that hosts are shown again when `ready`, if it is still `allowed`."""

    def __init__(self, endpoint, *, allowed=True):
        self.allowed = allowed
        self.ready = trio.Event()
        self.ready.set()
        endpoint.hosts.workplaces = self

    async def arrived(self, host, *, is_back=False):
        if not is_back:
            return
        assert host.workplace == SHOP
        await self.ready.wait()
        if self.allowed:
            host.show(VIEW)
            tell_all(host)

    def opened(self, host): ...

    async def placed(self, host): ...

    def left(self, host): ...


def tell_all(host):
    """Tell a host that all its lists have changed, as one is told that is shown another view."""
    for method in LIST_CHANGED:
        host.tell(method, b'{"jsonrpc":"2.0","method":"%b"}' % method.encode())
    host.lists_told()


def router_of(tools="in the shop"):
    """A router whose lists in the project are others, with these `tools`."""
    router = Scripted()
    common = router.lists
    in_project = {kind: f"{digest} in the shop" for kind, digest in common.items()} | {"tools": tools}
    router.digests = lambda view: in_project if view.base == VIEW else common
    return router


@pytest.fixture
async def hubs(nursery, tmp_path):
    return await Hubs(tmp_path / "sessions.json", nursery).start(router_of())


async def at_work(hubs):
    """A host that is shown the project, and has been told so."""
    host = await hubs.host()
    stream = await hubs.listen(host)
    session = found(hubs, host)
    session.move(SHOP)
    session.show(VIEW)
    tell_all(session)
    await trio.sleep(3)
    assert [message["method"] for message in stream.messages] == [*LIST_CHANGED]
    stream.leave()
    return host


def found(hubs, host):
    return hubs.endpoint.sessions.find(host.session, host.identity, EVERYTHING)


async def told(hubs, host):
    """What the host hears on a new stream."""
    stream = await hubs.listen(hubs.again(host))
    await trio.sleep(1)
    stream.leave()
    return [message["method"] for message in stream.messages]


@pytest.mark.covers("F-H-22")
async def test_equal_lists_of_the_project_are_not_announced(autojump_clock, hubs):
    host = await at_work(hubs)
    for saved in (True, False, True):
        await hubs.start(router_of(), saved=saved)
        Shop(hubs.endpoint)
        assert await told(hubs, host) == []
        assert found(hubs, host).view == VIEW
        await trio.sleep(3)


@pytest.mark.covers("F-H-22")
async def test_lists_of_the_project_that_differ_are(autojump_clock, hubs):
    host = await at_work(hubs)
    await hubs.start(router_of("other"))
    Shop(hubs.endpoint)
    assert await told(hubs, host) == [TOOLS_CHANGED]


async def test_a_project_that_is_not_allowed_any_more_is_not_shown(autojump_clock, hubs):
    host = await at_work(hubs)
    await hubs.start(router_of())
    Shop(hubs.endpoint, allowed=False)
    assert await told(hubs, host) == [*LIST_CHANGED]
    assert found(hubs, host).view == EVERYTHING
    await trio.sleep(3)
    await hubs.start(router_of())
    Shop(hubs.endpoint)
    assert await told(hubs, host) == []
    assert found(hubs, host).view == EVERYTHING, "only its roots can say so now"


async def test_a_host_that_has_left_the_project_does_not_return_to_it(autojump_clock, hubs):
    host = await at_work(hubs)
    session = found(hubs, host)
    session.move(None)
    session.show(EVERYTHING)
    session.lists_told()
    await trio.sleep(3)
    await hubs.start(router_of())
    Shop(hubs.endpoint)
    assert await told(hubs, host) == []
    assert found(hubs, host).view == EVERYTHING


async def test_requests_wait_until_the_project_is_shown(autojump_clock, hubs, nursery):
    host = await at_work(hubs)
    await hubs.start(router_of())
    shop = Shop(hubs.endpoint)
    shop.ready = trio.Event()
    nursery.start_soon(hubs.again(host).call, "echo")
    await trio.sleep(1)
    assert hubs.router.seen == []
    shop.ready.set()
    await trio.testing.wait_all_tasks_blocked()
    ((exchange, _),) = hubs.router.seen
    assert exchange.view == VIEW


async def test_a_session_that_is_ended_while_a_request_waits_is_not_there(autojump_clock, hubs, nursery):
    host = await at_work(hubs)
    await hubs.start(router_of())
    Shop(hubs.endpoint).ready = trio.Event()
    answered = []

    async def call():
        answered.append((await hubs.again(host).call("echo")).status)

    nursery.start_soon(call)
    await trio.testing.wait_all_tasks_blocked()
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    await trio.testing.wait_all_tasks_blocked()
    assert answered == [404]
    assert hubs.router.seen == []


async def test_a_project_that_is_never_ready_is_waited_for_within_reason(autojump_clock, hubs):
    host = await at_work(hubs)
    await hubs.start(router_of())
    Shop(hubs.endpoint).ready = trio.Event()
    began = trio.current_time()
    assert (await hubs.again(host).call("echo")).status == 200
    assert trio.current_time() - began == pytest.approx(RETURN_S)
    assert await told(hubs, host) == [*LIST_CHANGED]


@pytest.mark.covers("N-8")
async def test_what_a_hub_was_killed_before_telling_the_next_one_tells(autojump_clock, hubs):
    host = await at_work(hubs)
    await hubs.start(router_of("other"))
    Shop(hubs.endpoint).ready = trio.Event()
    stream = await hubs.listen(hubs.again(host))
    found(hubs, host).watches("a://1", on=True)
    await trio.sleep(3)
    assert stream.messages == []
    stream.leave()
    await hubs.start(router_of("other"))
    Shop(hubs.endpoint)
    assert TOOLS_CHANGED in await told(hubs, host)
    assert hubs.router.subscribed == ["a://1"]


# --- what is kept -----------------------------------------------------------------------------------------------------

ME = Identity("me", "desk")


def facts(past, level, uris, workplace):
    return KeptFacts(past.handshake.minted, "run", level, uris, [], VIEW.key, workplace)


def test_other_hubs_are_not_told_the_directories_of_this_machine():
    published = []
    durable = make_durable_sessions(publish=lambda name, value: published.append(value))
    past = durable.mint(ME, EVERYTHING, L4, {}, raw({}))
    durable.keep(past, facts(past, "error", [], str(SHOP)))
    assert str(SHOP).encode() not in published[0]
    assert durable.find(past.id, ME, EVERYTHING, EVERYTHING, claimed=True).kept == facts(past, "error", [], str(SHOP))


def test_directories_count_as_subscriptions_do():
    durable = make_durable_sessions()
    past = durable.mint(ME, EVERYTHING, L4, {}, raw({}))
    durable.keep(past, facts(past, None, ["a://1"], "/shop"))
    assert durable.kept_chars == len("a://1") + len("/shop")
    durable.keep(past, facts(past, None, [], "/" * (MAX_KEPT_CHARS + 1)))
    assert durable.kept_chars == 0


async def test_what_an_older_hub_has_kept_is_read(autojump_clock, hubs):
    host = await hubs.host()
    session = found(hubs, host)
    session.watches("a://1", on=True)
    ((name, kept),) = [(name, hubs.journal.get("kept", name)) for name in hubs.journal.keys("kept")]
    hubs.journal.put("kept", name, msgspec.to_builtins(kept)[:5])
    hubs.journal.save()
    await hubs.start(router_of())
    Shop(hubs.endpoint)
    assert (await hubs.again(host).call("echo")).status == 200
    await trio.sleep(1)
    assert hubs.router.subscribed == ["a://1"]
