"""Mutated HTTP requests: one of the listed answers, the same however the bytes are cut, and nothing left behind.

HUBD_FUZZ is the number of inputs, HUBD_FUZZ_SEED the first of their seeds: a failure names its seed, and
`HUBD_FUZZ=1 HUBD_FUZZ_SEED=N` runs that one alone.
"""

import os
import random
from itertools import pairwise

import pytest
import trio

from hub.net.look_after_connections import HttpLimits
from tests.support.house import tasks_at_rest
from tests.support.http_client import Served, get, post, serving

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))
FIRST_SEED = int(os.environ.get("HUBD_FUZZ_SEED", "1"))
ALLOWED = {100, 200, 400, 411, 413, 414, 417, 431}
LIMITS = HttpLimits(max_request_body=2000, linger_s=20)

CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
SEEDS = (
    post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "Mcp-Session-Id: a", "Accept: application/json"),
    post(b"x" * 500, "Authorization: Bearer abc", "Origin: http://localhost:8765", "MCP-Protocol-Version: 2025-11-25"),
    post(b"abc", "Expect: 100-continue"),
    post(b"1") + post(b"2") + get() + post(b"3", "Connection: close"),
    get("Last-Event-ID: a-1", "Accept: text/event-stream", target="/mcp/name?x=y"),
    b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: a\r\n\r\n",
    CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"1;ext=1\r\na\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n" + get(),
    CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + post(b"next"),
)
PIECES = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n\r\n", b"\r\n ", b"0", b"9999999999", b"-1", b"\xff",
    b"%2f", b"/../", b"#", b"get", b"HTTP/1.0", b"Host: b\r\n", b"Expect: x\r\n", b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
)  # fmt: skip


def mutate(chance: random.Random) -> bytes:
    """One input. Most differ from a good request in one to four places."""
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(0, 4)):
        at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + 40)
        match chance.randrange(7):
            case 0 if at < len(data):
                data[at] = chance.randrange(256)
            case 1:
                data[at:at] = chance.choice(PIECES)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4:
                data[at:] = chance.choice(SEEDS)[at:]
            case 5:
                lines = data.split(b"\r\n")
                chance.shuffle(lines)
                data = bytearray(b"\r\n".join(lines))
            case 6:
                data[at:at] = chance.choice(PIECES) * chance.choice((2, 200, 2000))
        if not data:
            break
    return bytes(data)


async def verdict(served: Served, pieces: list[bytes]) -> list[tuple[int, bytes]]:
    """What is answered: status and body of each response."""
    client = await served.connect()

    async def send() -> None:
        try:
            for piece in pieces:
                await client.send(piece)
            await client.stream.send_eof()
        except trio.BrokenResourceError:  # refused, and closed
            return

    answers = []
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            try:
                while True:
                    answer = await client.answer()
                    answers.append((answer.status, answer.body))
            except (EOFError, trio.BrokenResourceError):
                assert client.received == b"", "half an answer"
    client.stream.socket.close()
    served.clients.remove(client)
    return [answer for answer in answers if answer[0] != 100]


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Byte by byte if that is quick, else at random places."""
    if len(data) < 400 and chance.random() < 0.3:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted({0, len(data), *(chance.randrange(len(data) + 1) for _ in range(12))})
    return [data[a:b] for a, b in pairwise(places)]


@pytest.mark.covers("SEC-10", "SEC-13", "SEC-16", "F-H-10", "M-09")
async def test_fuzz_http(caplog):
    calls = 0

    async def handle(request, response):
        nonlocal calls
        calls += 1
        assert request.path.startswith("/")
        assert not {"content-length", "transfer-encoding"} <= request.headers.keys()
        response.reply(200, request.body)

    async with serving(handle, limits=LIMITS) as served:
        before = await tasks_at_rest(served.nursery)
        for seed in range(FIRST_SEED, FIRST_SEED + COUNT):
            chance = random.Random(seed)
            data = mutate(chance)
            whole = await verdict(served, [data])
            shown = f"seed {seed}: {data[:500]!r}"
            assert {status for status, _ in whole} <= ALLOWED, shown
            assert all(status == 200 for status, _ in whole[:-1]), f"answered after a refusal, {shown}"
            assert await verdict(served, cut(data, chance)) == whole, shown
        await served.settled()
        assert served.server.state.running == 0
        assert await tasks_at_rest(served.nursery) == before
    assert not caplog.records
    assert calls or COUNT < 10
