"""Bytes to and from one peer: in order, bounded, framed independently of the chunks."""

import os
import socket
import tracemalloc

import pytest
import trio
import trio.testing

from hub.link.channel import (
    PEER_DEAD_S,
    ChannelClosed,
    LineChannel,
    LineReader,
    LineTooLong,
    Outbox,
    OutboxFull,
    descriptor,
    watch_peer,
)

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


async def lines_of(chunks, *, limit=LIMIT):
    """The lines that a reader makes of bytes in these chunks, and how it ended."""
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    reader, lines = LineReader(theirs, limit_bytes=limit), []
    async with trio.open_nursery() as nursery:

        async def send():
            for chunk in chunks:
                await ours.send_all(chunk)
                await trio.testing.wait_all_tasks_blocked()
            await ours.aclose()

        nursery.start_soon(send)
        while True:
            try:
                lines.append(await reader.receive())
            except (ChannelClosed, LineTooLong) as error:
                nursery.cancel_scope.cancel()
                return lines, type(error)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("T-1", "F-P-08")
async def test_lines_are_the_same_wherever_the_stream_is_cut(autojump_clock):
    data = b'{"a":1}\n\n  \r\n{"b":2}\r\n{"c"'
    for at in range(len(data) + 1):
        lines, end = await lines_of([part for part in (data[:at], data[at:]) if part])
        assert lines == [b'{"a":1}', b'{"b":2}\r']
        assert end is ChannelClosed


@pytest.mark.covers("F-P-09", "T-10")
@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1, 10 * LIMIT])
@pytest.mark.parametrize("chunk", [1, 64, 100_000])
async def test_a_line_beyond_the_limit_ends_the_reading_after_the_lines_before_it(autojump_clock, size, chunk):
    data = b"before\n" + b"x" * size + b"\nafter\n"
    lines, end = await lines_of([data[at : at + chunk] for at in range(0, len(data), chunk)])
    if size <= LIMIT:
        assert (lines, end) == ([b"before", b"x" * size, b"after"], ChannelClosed)
    else:
        assert (lines, end) == ([b"before"], LineTooLong)


async def test_what_was_read_before_comes_first(autojump_clock):
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    reader = LineReader(theirs, received=b"one\ntw")
    await ours.send_all(b"o\n")
    assert [await reader.receive(), await reader.receive()] == [b"one", b"two"]


@pytest.mark.covers("F-P-14")
async def test_many_short_lines_of_one_read_are_cut_one_by_one(autojump_clock):
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    reader = LineReader(theirs)
    await ours.send_all(b"1\n" * 100_000)
    tracemalloc.start()
    assert await reader.receive() == b"1"
    assert tracemalloc.get_traced_memory()[1] < 3 * 200_000
    tracemalloc.stop()
    assert [await reader.receive() for _ in range(99_999)] == [b"1"] * 99_999


@pytest.mark.covers("F-P-14")
@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b"\t\n"])
async def test_blank_lines_are_read_no_faster_than_they_should(autojump_clock, blank):
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    reader, began = LineReader(theirs), trio.current_time()
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.receive)
            for _ in range(1_000):
                await ours.send_all(blank * 50_000)
                await trio.testing.wait_all_tasks_blocked()
                await trio.lowlevel.checkpoint()
    await ours.send_all(b"line\n")
    assert trio.current_time() - began == 1
    assert await reader.receive() == b"line"


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("M-02")
async def test_what_does_not_fit_the_pipe_follows_in_order():
    ours, theirs = pipe()
    messages = [bytes([number]) * 50_000 + b"\n" for number in range(20)]
    async with trio.open_nursery() as nursery:
        outbox = Outbox(ours, nursery, lambda: None)
        for message in messages:
            outbox.put(message)
        assert repr(outbox).startswith("<Outbox draining")
        assert outbox.accepted_bytes == 20 * 50_001
        assert 0 < outbox.delivered_bytes < outbox.accepted_bytes
        received = bytearray()
        while len(received) < outbox.accepted_bytes:
            received += await theirs.receive_some(1 << 16)
        await outbox.flush()
        assert received == b"".join(messages)
        assert outbox.delivered_bytes == outbox.accepted_bytes
        assert repr(outbox) == "<Outbox idle, 0 bytes queued>"
    await ours.aclose()
    await theirs.aclose()


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


async def test_sockets_and_pipes_have_descriptors():
    ours, theirs = pipe()
    left, right = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(left))
    assert descriptor(ours) == ours.fileno()
    assert descriptor(stream) == left.fileno()
    assert descriptor(trio.testing.memory_stream_pair()[0]) is None
    right.close()
    for each in (ours, theirs, stream):
        await each.aclose()


@pytest.mark.covers("F-R-09")
async def test_a_peer_that_vanishes_is_noticed():
    tcp, unix = trio.socket.socket(), trio.socket.socket(socket.AF_UNIX)
    with tcp, unix:
        watch_peer(tcp)
        watch_peer(unix)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        wait_s, every_s, times = (
            tcp.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert wait_s + every_s * times == PEER_DEAD_S
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == PEER_DEAD_S * 1000
