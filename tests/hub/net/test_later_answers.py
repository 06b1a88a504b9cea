"""Requests that are answered after their handlers have returned: the connection waits for the next one meanwhile."""

import pytest
import trio
import trio.testing

from hub.net.http_connection import READ_BYTES
from hub.net.look_after_connections import HttpLimits
from tests.support.cycles import left_by
from tests.support.http_client import get, post, serving, settle


class Later:
    """A handler whose requests the test answers."""

    def __init__(self) -> None:
        self.open = []
        self.cancelled = []

    async def handle(self, request, response) -> None:
        body = request.body
        response.answer_later(lambda: self.cancel(body, response), cancel_if_gone=request.path == "/modern")
        self.open.append((body, response))

    def cancel(self, body, response) -> None:
        self.cancelled.append(body)
        self.open = [each for each in self.open if each[1] is not response]
        response.open_stream()
        response.close_stream()
        response.end()

    def answer(self) -> None:
        body, response = self.open.pop(0)
        response.reply(200, body)
        response.end()


@pytest.fixture
def later():
    return Later()


@pytest.fixture
async def served(later):
    async with serving(later.handle) as served:
        yield served


async def test_the_next_request_waits_for_the_answer_and_no_more_is_read(served, later):
    client = await served.connect()
    await client.send(post(b"1"))
    await settle()
    rest = post(b"2") + post(b"3" * 2 * READ_BYTES)
    served.nursery.start_soon(client.send, rest)
    await settle()
    (connection,) = served.server.state.connections.values()
    assert [body for body, _ in later.open] == [b"1"]
    assert not connection.is_idle
    for body in (b"1", b"2", b"3" * 2 * READ_BYTES):
        later.answer()
        assert (await client.answer()).body == body
        await settle()
        assert len(later.open) <= 1
    assert served.server.state.running == 0


async def test_what_came_with_the_first_waits_too(served, later):
    client = await served.connect()
    await client.send(post(b"1") + post(b"2"))
    await settle()
    assert [body for body, _ in later.open] == [b"1"]
    later.answer()
    await settle()
    assert [body for body, _ in later.open] == [b"2"]
    later.answer()
    assert [(await client.answer()).body for _ in range(2)] == [b"1", b"2"]


async def test_no_deadline_counts_while_it_runs(autojump_clock, later):
    async with serving(later.handle, limits=HttpLimits(keepalive_idle_s=5, header_timeout_s=5)) as served:
        client = await served.connect()
        await client.send(post(b"1") + b"POST")
        await trio.sleep(100)
        later.answer()
        assert (await client.answer()).body == b"1"
        assert (await client.answer()).status == 408
        other = await served.connect()
        await other.send(post(b"2"))
        await trio.sleep(100)
        later.answer()
        assert (await other.answer()).body == b"2"
        await trio.sleep(100)
        await other.closed()


@pytest.mark.parametrize("and_more", [b"", post(b"more")], ids=["", "with a request that waits"])
async def test_a_host_that_leaves(served, later, and_more):
    modern, legacy = await served.connect(), await served.connect()
    for client, target in ((modern, "/modern"), (legacy, "/mcp")):
        await client.send(post(target.encode(), target=target) + and_more)
        await settle()
        client.reset()
    await settle()
    assert later.cancelled == [b"/modern"]
    assert [body for body, _ in later.open] == [b"/mcp"]
    assert served.server.state.running == 1
    later.answer()
    await settle()
    assert (served.server.state.running, later.open, len(served.server.state.connections)) == (0, [], 0)


async def test_a_host_that_only_stops_sending_is_answered(served, later):
    client = await served.connect()
    await client.send(post(b"1"))
    await settle()
    await client.stream.send_eof()
    await settle()
    later.answer()
    assert (await client.answer()).body == b"1"
    await client.closed()


@pytest.mark.parametrize("late", [False, True])
async def test_a_connection_that_is_to_close_does(served, later, late):
    client = await served.connect()
    await client.send(post(b"1", *([] if late else ["Connection: close"])))
    await settle()
    served.server.state.draining = late
    later.answer()
    assert (await client.answer()).headers["connection"] == "close"
    await client.closed()


async def test_who_reads_slowly_is_waited_for_before_the_next_request(served, later):
    client = await served.connect()
    body = b"x" * (8 << 20)
    await client.send(post(body))
    while not later.open:
        await settle()
    later.answer()
    await client.send(post(b"next"))
    await settle()
    assert (served.server.state.running, later.open) == (1, [])
    assert (await client.answer()).body == body
    await settle()
    later.answer()
    assert (await client.answer()).body == b"next"
    assert served.server.state.running == 0


async def test_the_end_of_the_server_cancels_it(served, later):
    here, gone = await served.connect(), await served.connect()
    await here.send(post(b"1"))
    await gone.send(post(b"2"))
    await settle()
    gone.reset()
    await settle()
    served.scope.cancel()
    await served.finished.wait()
    assert sorted(later.cancelled) == [b"1", b"2"]
    await here.closed()


async def test_who_forgets_to_answer_closes_the_connection(served, later, caplog):
    client = await served.connect()
    await client.send(get())
    await settle()
    later.open.pop()[1].end()
    await client.closed()
    assert "was not answered" in caplog.text
    assert served.server.state.running == 0


async def test_nothing_is_left(later):
    async with serving(later.handle) as served:
        client = await served.connect()

        async def once():
            await client.send(post(b"1"))
            await settle()
            later.answer()
            assert (await client.answer()).body == b"1"

        await once()
        assert await left_by(once, objects=True) == {}
