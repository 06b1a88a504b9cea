"""One way in: every door by which a request comes leads through `take_on`, reads from the cache included."""

import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

import hub
from hub.calls.host_exchange import HostExchange
from hub.catalog.endpoint_views import profile_view
from hub.daemon.api import OPERATOR, DaemonApi
from hub.downstream.host_conversations import Hosts
from hub.downstream.host_of_one_request import StatelessHost
from hub.downstream.request_pipeline import answer, serve, take_on
from hub.link.call_interface import Caller
from hub.link.hub_errors import Overloaded
from hub.wire.jsonrpc import Failure, Request, Result, raw
from hub.wire.mcp import L2, L4, RESOURCES_READ, SUBSCRIBE, TOOLS_CALL
from tests.hub.downstream.lines.test_connection import connected
from tests.hub.downstream.lines.test_connection import modern as modern_line
from tests.support.http_fakes import ALICE, Host, Scripted, call, make_durable_sessions, make_endpoint

URI = "note:a"
READ = {"jsonrpc": "2.0", "id": 2, "method": RESOURCES_READ, "params": {"uri": URI}}


@contextmanager
def counted():
    """The methods of the requests that pass `take_on`, in order."""
    seen = []

    def notice(frame, event, argument):
        if event == "call" and frame.f_code is take_on.__code__:
            seen.append(frame.f_locals["request"].method)

    sys.setprofile(notice)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.fixture
def router():
    router = Scripted()
    router.at_hand[URI] = Result(raw({"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"}))
    return router


async def modern_http(router):
    host = Host(make_endpoint(router))
    await host.modern(TOOLS_CALL, {"name": "echo"})
    await host.modern(RESOURCES_READ, {"uri": URI})


async def legacy_http(router):
    host = Host(make_endpoint(router))
    await host.initialize()
    await host.call("echo")
    await host.post(READ)


async def batch_over_http(router):
    host = Host(make_endpoint(router))
    await host.initialize(L2)
    await host.post([call("echo", 1), READ])


async def lines(router):
    async with connected(router, Hosts()) as host:
        await host.initialize()
        await host.ask(TOOLS_CALL, {"name": "echo"})
        await host.ask(RESOURCES_READ, {"uri": URI})


async def modern_lines(router):
    async with connected(router, Hosts()) as host:
        await host.send(modern_line(TOOLS_CALL, {"name": "echo"}))
        await host.line()
        await host.send(modern_line(RESOURCES_READ, {"uri": URI}))
        await host.line()


async def batch_of_lines(router):
    async with connected(router, Hosts()) as host:
        await host.initialize(L2)
        await host.send([call("echo", 1), READ])
        await host.line()


@pytest.mark.parametrize("door", [modern_http, legacy_http, batch_over_http, lines, modern_lines, batch_of_lines])
async def test_hosts_come_in_by_one_way(autojump_clock, router, door):
    with counted() as seen:
        await door(router)
    assert seen == [TOOLS_CALL, RESOURCES_READ]
    assert [request.method for _, request in router.seen] == [TOOLS_CALL], "what was read was at hand"


async def test_a_revived_session_subscribes_again_by_it(autojump_clock, router, nursery, tmp_path):
    endpoint = make_endpoint(router, make_durable_sessions(tmp_path / "sessions.json"))
    host = Host(endpoint)
    with trio.CancelScope() as first:
        async with trio.open_nursery() as running:
            running.start_soon(endpoint.run)
            await host.initialize()
            await host.post(READ | {"method": SUBSCRIBE, "params": {"uri": "note:b"}})
            await trio.testing.wait_all_tasks_blocked()
            first.cancel()
    host.endpoint = make_endpoint(router, make_durable_sessions(tmp_path / "sessions.json"))
    nursery.start_soon(host.endpoint.run)
    with counted() as seen:
        await host.call("echo")
        await trio.testing.wait_all_tasks_blocked()
    assert sorted(seen) == [SUBSCRIBE, TOOLS_CALL]
    assert not host.endpoint.hosts.requests.count


async def test_completion_comes_in_by_it(router):
    class Hub:
        def __init__(self) -> None:
            self.router, self.hosts = router, Hosts()

    api = DaemonApi(Hub())
    with counted() as seen:
        await api.tools()
    assert seen == ["tools/list"]
    assert {exchange.caller.identity for exchange, _ in router.seen} == {OPERATOR}


def test_there_is_no_other():
    """Whoever calls the router is `request_pipeline`, or the router itself."""
    root = Path(hub.__file__).parent
    calls = re.compile(r"router\.(dispatch|begin)\(")
    assert [path.name for path in root.rglob("*.py") if calls.search(path.read_text())] == ["request_pipeline.py"]


async def test_a_stateless_host_counts_for_its_principal_unless_the_hub_asks_by_itself(router, nursery):
    hosts = Hosts()
    exchange = HostExchange(Caller(ALICE, L4, {}), lambda message, *, vital=False: None)
    waits = Request(1, TOOLS_CALL, {"name": raw("wait")})
    for number, counts in enumerate((True, False), start=1):
        nursery.start_soon(
            serve, StatelessHost(hosts.requests, ALICE.principal, counts=counts), router, waits, exchange
        )
        await trio.testing.wait_all_tasks_blocked()
        assert (hosts.requests.count, len(router.seen)) == (1, number)
    hosts.requests.cut_off()
    await trio.testing.wait_all_tasks_blocked()
    assert (hosts.requests.count, router.cancelled) == (0, ["wait"])
    with pytest.raises(Overloaded):
        await serve(StatelessHost(hosts.requests, ALICE.principal), router, waits, exchange)
    nursery.cancel_scope.cancel()


def quick(router, name="wait", finish=None):
    """A quick request, its answers, and the running requests it is among."""
    hosts, answers = Hosts(), []
    exchange = HostExchange(Caller(ALICE, L4, {}), lambda message, *, vital=False: None)
    host = StatelessHost(hosts.requests, ALICE.principal)
    finish = finish or (lambda id, reply: answers.append((id, reply)))
    return take_on(host, router, Request(7, TOOLS_CALL, {"name": raw(name)}), exchange, finish), answers, hosts.requests


async def test_a_quick_request_is_answered_once(router):
    router.is_quick = True
    request, answers, requests = quick(router, "echo")
    assert (requests.count, answers) == (1, [])
    await trio.testing.wait_all_tasks_blocked()
    [(id, reply)] = answers
    assert (id, b"echo" in bytes(reply.value), requests.count) == (7, True, 0)
    request.cancel()
    assert len(answers) == 1


@pytest.mark.parametrize("stops", [False, True])
async def test_a_quick_request_that_is_cancelled_gets_an_answer_only_if_the_hub_stops(router, stops):
    router.is_quick = True
    request, answers, requests = quick(router)
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(2):
        (requests.cut_off if stops else request.cancel)()
    [(id, reply)] = answers
    assert (id, reply is not None) == (7, stops)
    assert not stops or b"was stopped" in bytes(reply.value)
    assert requests.count == 0
    await trio.testing.wait_all_tasks_blocked()
    request.done(Result(raw({})))  # it had come to its end when it was cancelled
    assert (router.cancelled, len(answers)) == (["wait"], 1)


@pytest.mark.covers("SEC-16")
@pytest.mark.parametrize("faults", [1, 2])
async def test_an_answer_that_fails_fails_one_request(router, caplog, faults):
    router.is_quick = True
    answers = []

    def finish(id, reply):
        answers.append(reply)
        if len(answers) <= faults:
            raise ZeroDivisionError

    _, _, requests = quick(router, "echo", finish)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(answers[-1], Failure)
    assert (len(answers), requests.count) == (2, 0)
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError] * faults


async def test_a_request_is_answered_by_what_its_host_is_shown_when_its_turn_comes(router):
    hosts = Hosts()
    host = StatelessHost(hosts.requests, ALICE.principal)
    exchange = HostExchange(Caller(ALICE, L4, {}), lambda message, *, vital=False: None)
    request = Request(1, TOOLS_CALL, {"name": raw("echo")})
    taken = take_on(host, router, request, exchange)
    host.view = profile_view("coding")
    await answer(host, router, request, exchange, taken)
    [(seen, _)] = router.seen
    assert seen.view == profile_view("coding")
