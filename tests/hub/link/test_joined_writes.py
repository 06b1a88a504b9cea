"""What is written to one peer within one turn of the loop: the first message at once, the rest in one piece."""

import os

import pytest
import trio
import trio.testing

from hub.link.channel import ChannelClosed
from hub.link.memory_budget import FREE_BYTES
from hub.link.outbox import Outbox
from hub.link.sync_primitives import loop_turns
from tests.hub.link.test_outbox import pipe, read_all


@pytest.fixture
def writes(monkeypatch):
    """The sizes of all writes."""
    sizes, write = [], os.write

    def noted(fd, data):
        sizes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr("hub.link.outbox.os.write", noted)
    return sizes


async def test_the_first_message_leaves_at_once_and_the_others_together(nursery, writes):
    ours, theirs = pipe()
    outbox = Outbox(ours, nursery, lambda: None, joins=True)
    for turn in range(2):
        await trio.testing.wait_all_tasks_blocked()
        writes.clear()
        for number in range(5):
            outbox.put(b"%d\n" % number)
        assert (writes, outbox.queued_bytes) == ([2], 8)
        assert outbox.delivered_bytes == turn * 10 + 2
        await trio.testing.wait_all_tasks_blocked()
        assert (writes, outbox.queued_bytes) == ([2, 8], 0)
        assert outbox.delivered_bytes == outbox.accepted_bytes == turn * 10 + 10
    await ours.aclose()
    assert await read_all(theirs) == b"0\n1\n2\n3\n4\n" * 2


@pytest.mark.parametrize("end", ["flush", "close", "a large message", "much"])
async def test_what_is_held_does_not_wait_for_the_end_of_the_turn(nursery, writes, end):
    ours, theirs = pipe()
    outbox = Outbox(ours, nursery, lambda: None, joins=True)
    outbox.put(b"a")
    outbox.put(b"b")
    large = b"c" * (FREE_BYTES + 1)
    if end == "flush":
        await outbox.flush()
    elif end == "close":
        outbox.close()
    elif end == "a large message":
        outbox.put(large)
    else:
        for _ in range(3):
            outbox.put(b"c" * (FREE_BYTES // 2))
    assert writes[:2] == [1, 1] or writes[1] > FREE_BYTES // 2
    await trio.testing.wait_all_tasks_blocked()
    assert outbox.delivered_bytes == outbox.accepted_bytes
    await ours.aclose()
    assert (await read_all(theirs)).startswith(b"ab")


async def test_what_the_kernel_does_not_take_at_the_end_of_the_turn_is_written_later(nursery):
    ours, theirs = pipe()
    outbox = Outbox(ours, nursery, lambda: None, joins=True)
    filling = 0
    while outbox.queued_bytes == 0:
        try:
            filling += os.write(ours.fileno(), b"x" * 4096)
        except BlockingIOError:
            outbox.put(b"1")
    os.read(theirs.fileno(), 4096)
    await trio.testing.wait_all_tasks_blocked()
    for number in range(200):
        outbox.put(b"%099d\n" % number)
    await trio.testing.wait_all_tasks_blocked()
    assert 0 < outbox.queued_bytes < 20_000
    outbox.put(b"last\n")
    nursery.start_soon(outbox.flush)
    await trio.testing.wait_all_tasks_blocked()
    received = bytearray()
    while not received.endswith(b"last\n"):
        received += await theirs.receive_some(1 << 16)
    assert received.lstrip(b"x") == b"1" + b"".join(b"%099d\n" % number for number in range(200)) + b"last\n"
    assert outbox.delivered_bytes == outbox.accepted_bytes
    await ours.aclose()
    await theirs.aclose()


async def test_a_peer_that_is_gone_at_the_end_of_the_turn(nursery, monkeypatch):
    ours, theirs = pipe()
    told = []
    outbox = Outbox(ours, nursery, lambda: told.append("broken"), joins=True)
    outbox.put(b"it got this")
    outbox.put(b"but not that")
    theirs.close()
    assert told == []
    await trio.testing.wait_all_tasks_blocked()
    assert told == ["broken"]
    assert (outbox.delivered_bytes, outbox.queued_bytes) == (11, 0)
    with pytest.raises(ChannelClosed):
        outbox.put(b"more")
    await ours.aclose()


async def test_whoever_waits_is_woken_though_the_loop_had_decided_to_wait_long(autojump_clock):
    """The end of a turn comes after the loop has chosen its time-out."""
    woken = trio.Event()
    turns = loop_turns()
    turns.at_end.append(lambda: turns.wake(woken.set))
    with trio.fail_after(1):
        await woken.wait()


async def test_what_fails_at_the_end_of_a_turn_hinders_nothing_else(caplog):
    done = []
    turns = loop_turns()
    turns.at_end += [lambda: 1 / 0, lambda: done.append(True)]
    await trio.testing.wait_all_tasks_blocked()
    assert done == [True]
    assert "ZeroDivisionError" in caplog.text
    before = turns.number
    await trio.testing.wait_all_tasks_blocked()
    assert turns.number > before, "it still counts"


async def test_an_owner_that_is_gone_when_the_rest_is_to_be_written(writes):
    ours, theirs = pipe()
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None, joins=True)
    while outbox.queued_bytes == 0:
        try:
            os.write(ours.fileno(), b"x" * 4096)
        except BlockingIOError:
            break
    outbox._wrote_in = loop_turns().number
    outbox.put(b"nobody is there to write this")
    await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    assert outbox.broken
    await ours.aclose()
    await theirs.aclose()
