"""Bytes to one peer: in order, bounded, never half a message."""

import os
import socket
import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from hub.link.channel import SHORT_BYTES, ChannelClosed, OutboxFull, gather
from hub.link.line_channel import LineChannel, LineReader
from hub.link.outbox import BATCH_BYTES, STEP_BYTES, Outbox, rest_of

LIMIT = 100


def pipe():
    """Both ends of a pipe: (ours for writing, theirs for reading)."""
    reading, writing = os.pipe()
    return trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading)


async def read_all(stream):
    data = bytearray()
    while part := await stream.receive_some(1 << 16):
        data += part
    return bytes(data)


@pytest.mark.covers("M-02")
async def test_what_does_not_fit_the_pipe_follows_in_order():
    ours, theirs = pipe()
    messages = [bytes([number]) * 50_000 + b"\n" for number in range(20)]
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None)
        for message in messages:
            outbox.put(message)
        assert outbox.queued_bytes > 0
        assert outbox.accepted_bytes == 20 * 50_001
        assert 0 < outbox.delivered_bytes < outbox.accepted_bytes
        received = bytearray()
        while len(received) < outbox.accepted_bytes:
            received += await theirs.receive_some(1 << 16)
        await outbox.flush()
        assert received == b"".join(messages)
        assert outbox.delivered_bytes == outbox.accepted_bytes
        assert outbox.queued_bytes == 0
    await ours.aclose()
    await theirs.aclose()


@pytest.mark.parametrize("size", [2_700, BATCH_BYTES, 3 << 20])
async def test_in_one_step_no_more_is_written_than_others_can_wait_for(size):
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        each.setblocking(False)
    message, sizes = [os.urandom(size) for _ in range((3 << 20) // size)], [0]
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    class Steps(trio.abc.Instrument):
        def after_task_step(self, task):
            sizes.append(outbox.delivered_bytes)

    async with trio.open_nursery() as nursery:
        outbox = Outbox(stream, nursery, lambda: None)
        trio.lowlevel.add_instrument(steps := Steps())
        outbox.put(*message)
        received = bytearray()
        while len(received) < outbox.accepted_bytes:
            with suppress(BlockingIOError):
                received += theirs.recv(1 << 20)
            await trio.lowlevel.checkpoint()
        await outbox.flush()
        trio.lowlevel.remove_instrument(steps)
    assert bytes(received) == b"".join(message)
    assert max(after - before for before, after in pairwise(sizes)) <= STEP_BYTES
    await stream.aclose()
    theirs.close()


@pytest.mark.covers("F-P-06")
async def test_a_full_queue_refuses_whole_messages():
    ours, theirs = pipe()
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None, limit_bytes=200_000)
        outbox.put(b"x" * 150_000)
        queued = outbox.queued_bytes
        with pytest.raises(OutboxFull):
            outbox.put(b"y" * 150_000)
        assert outbox.queued_bytes == queued
        outbox.put(b"z")
        nursery.cancel_scope.cancel()
    await ours.aclose()
    assert (await read_all(theirs)).strip(b"x") == b""
    await theirs.aclose()


@pytest.mark.covers("F-P-06")
async def test_a_peer_that_takes_nothing_is_given_up(autojump_clock):
    ours, theirs = pipe()
    broken = []
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: broken.append(trio.current_time()), stall_s=0.05)
        outbox.put(b"x" * 100_000)
        await outbox.flush()
    assert len(broken) == 1
    assert outbox.broken
    assert outbox.delivered_bytes < outbox.accepted_bytes == 100_000
    with pytest.raises(ChannelClosed):
        outbox.put(b"y")
    await ours.aclose()
    await theirs.aclose()


async def test_a_peer_that_is_gone_is_noticed_at_once():
    ours, theirs = pipe()
    await theirs.aclose()
    broken = []
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: broken.append(True))
        with pytest.raises(ChannelClosed):
            outbox.put(b"x")
        assert broken == [True]
        assert outbox.accepted_bytes == outbox.delivered_bytes == 0
    await ours.aclose()


@pytest.mark.covers("M-02")
async def test_nothing_follows_half_a_message():
    ours, theirs = pipe()
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None)
        outbox.put(b"x" * 100_000)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    with pytest.raises(ChannelClosed):
        outbox.put(b"y")
    await ours.aclose()
    await theirs.aclose()


async def test_a_closed_outbox_keeps_quiet(autojump_clock):
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    broken = []
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: broken.append(True))
        outbox.put(b"one")
        outbox.close()
        outbox.close()
        with pytest.raises(ChannelClosed):
            outbox.put(b"two")
    assert not broken
    assert outbox.delivered_bytes == 0
    del theirs


async def test_memory_streams_are_written_by_a_task(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        channel = LineChannel(LineReader(ours), Outbox(ours, nursery, lambda: None))
        channel.send(b"one")
        channel.send(b"two")
        await channel.flush()
        assert await theirs.receive_some() == b"one\ntwo\n"
        await theirs.send_all(b"three\n")
        assert await channel.receive() == b"three"
        with pytest.raises(AssertionError):
            channel.send(b"a\nb")


async def test_a_memory_peer_that_hangs_up_breaks_the_outbox(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()
    broken = []
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: broken.append(True))
        outbox.put(b"one")
        await outbox.flush()
    assert broken == [True]


async def test_pieces_leave_in_order_and_are_not_joined():
    ours, theirs = pipe()
    large = memoryview(b"y" * 300_000)
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None)
        tracemalloc.start()
        outbox.put(b"head", large, b"}\n")
        for number in range(9):
            outbox.put(b"%d" % number)
        outbox.put(b"[", large, b"]", large)
        assert outbox.accepted_bytes == 6 + 9 + 2 + 3 * len(large)
        assert 0 < outbox.queued_bytes == outbox.accepted_bytes - outbox.delivered_bytes
        received = bytearray(outbox.accepted_bytes)
        at = 0
        with memoryview(received) as view:
            while at < len(received):
                await trio.lowlevel.wait_readable(theirs.fileno())
                at += os.readv(theirs.fileno(), [view[at:]])
        await outbox.flush()
        assert tracemalloc.get_traced_memory()[1] < len(received) + 100_000
        tracemalloc.stop()
        assert received == b"head%b}\n012345678[%b]%b" % (large, large, large)
        assert outbox.queued_bytes == 0
    await ours.aclose()
    await theirs.aclose()


async def test_pieces_beyond_the_limit_are_refused_whole():
    ours, theirs = pipe()
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None, limit_bytes=200_000)
        outbox.put(b"x" * 150_000)
        accepted = outbox.accepted_bytes
        with pytest.raises(OutboxFull):
            outbox.put(b"y", b"y" * 75_000, b"y" * 75_000)
        assert outbox.accepted_bytes == accepted
        nursery.cancel_scope.cancel()
    await ours.aclose()
    assert (await read_all(theirs)).strip(b"x") == b""
    await theirs.aclose()


async def test_a_line_of_pieces_is_one_line(autojump_clock):
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None)
        channel = LineChannel(LineReader(theirs), outbox)
        for message in (b"1", (b"2", memoryview(b"3"), b"4"), b"x" * 100_000):
            channel.send(message)
        assert [await channel.receive() for _ in range(3)] == [b"1", b"234", b"x" * 100_000]


@pytest.mark.parametrize("sent", range(8))
def test_what_is_left_of_pieces(sent):
    assert b"".join(rest_of((b"ab", b"", b"cde", b"fg"), sent)) == b"abcdefg"[sent:]


@given(st.lists(st.binary(min_size=1, max_size=2).map(lambda each: each * (SHORT_BYTES // 2 + 1)), max_size=20))
def test_short_parts_are_put_together(pieces):
    parts = []
    for piece in pieces:
        gather(parts, piece)
    assert b"".join(parts) == b"".join(pieces)
    assert not any(isinstance(a, bytearray) and isinstance(b, bytearray) for a, b in pairwise(parts))
