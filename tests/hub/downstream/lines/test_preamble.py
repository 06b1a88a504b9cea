"""The shim's first line, in one piece or many, or absent."""

import pytest
import trio
import trio.testing

from hub.downstream.lines.preamble import MAX_BYTES, Preamble, parse_preamble, read_preamble
from hub.shim.main import preamble as written


async def read(*pieces: bytes) -> tuple[Preamble, bytes]:
    sender, receiver = trio.testing.memory_stream_one_way_pair()
    for piece in pieces:
        await sender.send_all(piece)
    await sender.aclose()
    return await read_preamble(receiver)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"host": "claude-code"},
        {"host": 'a "b" \\c', "profile": "work", "upstream": "files"},
        {"project": "/home/zoë/проект/\U0001f980", "cwd": '/tmp/"\\\n'},
    ],
)
async def test_what_the_shim_writes_is_read(options, autojump_clock):
    line = written({name: value for name, value in options.items() if name != "cwd"}, options.get("cwd", ""))
    expected = Preamble(bye=True, lists=True, **options)
    assert parse_preamble(line) == expected
    assert await read(line) == (expected, b"")
    assert await read(line + b'{"jsonrpc"') == (expected, b'{"jsonrpc"')


async def test_it_may_come_byte_by_byte(autojump_clock):
    sender, receiver = trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for byte in b'{"hubd":1,"host":"h"}\nrest':
                await sender.send_all(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()

        nursery.start_soon(send)
        assert await read_preamble(receiver) == (Preamble(host="h"), b"")


@pytest.mark.parametrize("data", [b'{"jsonrpc":"2.0"}\n', b"[", b"\n", b"GET / HTTP/1.1\r\n", b""])
async def test_a_program_without_preamble_is_nobody(data, autojump_clock):
    assert await read(data) == (Preamble(), data)


async def test_half_a_preamble_is_refused(autojump_clock):
    with pytest.raises(ValueError, match="ended within"):
        await read(b'{"h')


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"hubd":1,"host":5}', "cannot be read"),
        (b'{"hubd":1,', "cannot be read"),
        (b'{"hubd":1,"host":"\xff"}', "cannot be read"),
        (b'{"hubd":2}', "speaks version 2"),
    ],
)
def test_a_damaged_one_is_refused(line, expected):
    with pytest.raises(ValueError, match=expected):
        parse_preamble(line)


def test_what_a_later_shim_says_beyond_that_is_ignored():
    assert parse_preamble(b'{"hubd":1,"host":"h","news":[1]}') == Preamble(host="h")


def test_other_lines_are_none():
    assert parse_preamble(b'{"jsonrpc":"2.0","method":"ping"}') is None


async def test_an_endless_one_is_refused(autojump_clock):
    with pytest.raises(ValueError, match="longer than"):
        await read(b'{"hubd":1,"host":"' + b"x" * 2 * MAX_BYTES)
