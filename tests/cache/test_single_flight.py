"""One read of an upstream for all who ask at the same time, and what becomes of it when something happens meanwhile."""

import json
from functools import partial

import pytest
import trio
import trio.testing

from hub.link.hub_errors import UpstreamLost
from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import ELICIT, L4, MODERN
from hub.wire.questions.askable_questions import Question
from tests.support.cache_upstream import Host, Place, Served, read_of, reads_of

A = "note://a"


class Asking:
    """One host that reads."""

    def __init__(self, reads, server, host=None, uri=A):
        self.host = host or Host()
        self.scope = trio.CancelScope()
        self.text = None
        self.error = None
        self.over = False
        self._work = partial(reads.call, server, read_of(uri), self.host, server.call)

    async def run(self):
        with self.scope:
            try:
                reply = await self._work()
            except Exception as error:  # noqa: BLE001  # for the test to look at
                self.error = error
            else:
                self.text = json.loads(bytes(reply.value))["contents"][0]["text"] if _whole(reply) else reply
        self.over = True


def _whole(reply):
    return isinstance(reply, Result) and b"contents" in bytes(reply.value)


async def begin(nursery, reads, server, *hosts, uri=A):
    """Hosts that read, and wait."""
    asking = [Asking(reads, server, host, uri) for host in hosts]
    for number, each in enumerate(asking):
        nursery.start_soon(each.run)
        if number == 0:  # the first one begins it
            await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    return asking


async def land(server):
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def server():
    server = Served(L4)
    server.gate = trio.Event()
    return server


async def test_a_thousand_hosts_are_one_read(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    asking = await begin(nursery, reads, server, *(Host(label=f"h{number}") for number in range(1000)))
    assert reads.statistics().flights == 1
    await land(server)
    assert {each.text for each in asking} == {"1"}
    assert (reads.statistics().counts.misses, reads.statistics().counts.coalesced, reads.statistics().flights) == (
        1,
        999,
        0,
    )


@pytest.mark.covers("K-3")
async def test_accounts_read_for_themselves(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    asking = await begin(nursery, reads, server, Host("alice"), Host("bob"))
    await land(server)
    assert sorted(each.text for each in asking) == ["1", "2"]


@pytest.mark.parametrize("leaver", [0, 1])
async def test_one_that_leaves_takes_nothing_from_the_others(nursery, server, autojump_clock, leaver):
    reads = await reads_of(nursery, server)
    asking = await begin(nursery, reads, server, Host(), Host())
    asking[leaver].scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert (asking[leaver].over, server.cancelled) == (True, 0)
    await land(server)
    assert asking[1 - leaver].text == "1"


async def test_when_the_last_has_left_it_is_cancelled(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    asking = await begin(nursery, reads, server, Host(), Host())
    server.ends_s = 1
    for each in asking:
        each.scope.cancel()
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert not asking[0].over or not asking[1].over, "the last one waits for its end"
    [late] = await begin(nursery, reads, server, Host())
    await trio.sleep(2)
    assert asking[0].over
    assert asking[1].over
    assert (server.cancelled, len(server.reads)) == (1, 2), "whoever comes while it ends does not wait for it"
    await land(server)
    assert late.text == "2"
    assert reads.statistics().flights == 0


@pytest.mark.covers("I-2")
async def test_progress_is_for_all_and_logs_for_whoever_began_it(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    hosts = Host(token=True), Host()
    await begin(nursery, reads, server, *hosts)
    assert server.exchanges[0].wants_progress
    server.exchanges[0].progress({"progress": raw(1)})
    server.exchanges[0].log({"data": raw("x")})
    assert hosts[0].heard == [{"progress": raw(1)}, {"data": raw("x")}]
    assert hosts[1].heard == [{"progress": raw(1)}], "it may be about another call of the first host"
    await land(server)


@pytest.mark.parametrize("outcome", [Failure(-32002, "no"), UpstreamLost("gone")])
async def test_errors_are_for_all(nursery, server, autojump_clock, outcome):
    async def fail(operation, exchange):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    server.on_read = fail
    reads = await reads_of(nursery, server)
    asking = await begin(nursery, reads, server, Host(), Host())
    await land(server)
    assert len(server.reads) == 1
    for each in asking:
        if isinstance(outcome, Exception):
            assert (type(each.error), str(each.error)) == (UpstreamLost, "gone")
        else:
            assert each.text is outcome


# --- changes meanwhile ------------------------------------------------------------------------------------------------


@pytest.mark.covers("K-8", "SEC-23")
@pytest.mark.parametrize(
    "event",
    [
        lambda server: server.says.resource_changed(A),
        lambda server: server.says.resource_changed(A + "/part"),
        lambda server: server.says.resources_relisted(),
        lambda server: server.says.gap(None),
        lambda server: server.says.subscribed(A),
    ],
)
async def test_what_was_read_while_it_changed_is_not_kept(nursery, autojump_clock, event):
    for version in (L4, MODERN):
        server = Served(version)
        server.gate = trio.Event()
        server.more = {} if version == L4 else {"ttlMs": 60_000}
        reads = await reads_of(nursery, server)
        [before] = await begin(nursery, reads, server, Host())
        event(server)
        [after] = await begin(nursery, reads, server, Host())
        assert len(server.reads) == 2, "who asks later is not given what was read before"
        await land(server)
        assert (before.text, after.text) == ("1", "2")
        assert (
            json.loads(bytes((await reads.call(server, read_of(), Host(), server.call)).value))["contents"][0]["text"]
            == "2"
        )


async def test_a_change_of_something_else_does_no_harm(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    await begin(nursery, reads, server, Host())
    server.says.resource_changed("note://b")
    await begin(nursery, reads, server, Host())
    await land(server)
    await reads.call(server, read_of(), Host(), server.call)
    assert server.reads == [A]


async def test_what_a_tool_may_have_changed_is_not_given_to_who_asks_after_it(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    [before] = await begin(nursery, reads, server, Host())
    reads.note_call("files")
    [after] = await begin(nursery, reads, server, Host())
    await land(server)
    assert (before.text, after.text) == ("1", "2")


async def test_a_session_that_another_one_replaced_vouches_for_nothing(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    await begin(nursery, reads, server, Host())
    server.place = Place(server)
    await land(server)
    assert reads.statistics().entries == 0


# --- when it is one host's affair -------------------------------------------------------------------------------------


def asks(then):
    async def on_read(operation, exchange):
        answer = await exchange.ask(Question(ELICIT, {}, "files", L4))
        return then(answer)

    return on_read


@pytest.mark.covers("SEC-23")
async def test_a_read_that_asks_is_its_beginners_own(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    hosts = Host(), Host()
    seen = []

    def then(answer):
        seen.append(answer)
        return server.result(A, len(seen))

    server.on_read = asks(then)
    asking = await begin(nursery, reads, server, *hosts)
    await land(server)
    assert [len(host.asked) for host in hosts] == [1, 1]
    assert sorted(each.text for each in asking) == ["1", "2"]
    assert (len(server.reads), reads.statistics().entries) == (2, 0)


async def test_nobody_is_asked_for_one_that_has_left(nursery, server, autojump_clock):
    reads = await reads_of(nursery, server)
    hosts = Host(), Host()
    server.on_read = asks(lambda answer: answer)
    first, second = await begin(nursery, reads, server, *hosts)
    first.scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    await land(server)
    assert [len(host.asked) for host in hosts] == [0, 1]
    assert (first.over, len(server.reads), second.over) == (True, 2, True)


@pytest.mark.covers("K-5", "R-13")
async def test_a_result_that_wants_input_is_for_its_beginner(nursery, autojump_clock):
    server = Served(MODERN)
    server.gate = trio.Event()

    async def on_read(operation, exchange):
        return Result(raw({"resultType": "input_required", "requestState": len(server.reads), "ttlMs": 5000}))

    server.on_read = on_read
    reads = await reads_of(nursery, server)
    asking = await begin(nursery, reads, server, Host(), Host())
    await land(server)
    assert len({bytes(each.text.value) for each in asking}) == 2
    assert (len(server.reads), reads.statistics().entries) == (2, 0)


@pytest.mark.covers("SEC-23")
async def test_a_session_that_turns_out_to_be_one_hosts_own(nursery, server, autojump_clock):
    """Which was not known while it was being opened."""
    reads = await reads_of(nursery, server)
    server.place = None
    hosts = Host(label="desk"), Host(label="lap")
    asking = await begin(nursery, reads, server, *hosts)
    assert len(server.reads) == 1
    for host in hosts:
        server.places[host.caller.tenant] = Place(server, host.caller.tenant)
    await land(server)
    assert [each.text for each in asking] == ["1", "2"]


async def test_when_the_cache_ends_so_does_the_waiting(server, autojump_clock):
    async with trio.open_nursery() as outer:
        async with trio.open_nursery() as inner:
            reads = await reads_of(inner, server)
            [asking] = await begin(outer, reads, server, Host())
            inner.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert asking.over
        assert "stopped" in str(asking.error)
