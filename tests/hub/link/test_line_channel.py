"""Lines from one peer: in order, bounded, framed independently of the chunks."""

import tracemalloc

import pytest
import trio
import trio.testing

from hub.link.channel import ChannelClosed, LineTooLong
from hub.link.line_channel import LineReader

LIMIT = 100


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
