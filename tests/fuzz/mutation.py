"""Damaged bytes from sound ones: the mutations that peers and attackers produce, reproducible from a seed."""

import random
from collections.abc import Callable, Iterator, Sequence

TOKENS = (
    b"\x00",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\\ud83d",
    b"\\u0000",
    b'"',
    b"{",
    b"}",
    b"[[[[[[[[",
    b"]",
    b",",
    b"null",
    b"1e999",
    b"-1",
    b"99999999999999999999999999",
    b"[" * 2000,
    b'{"a":' * 500,
    b"\xe2\x80\xa8",
    b"data: ",
    b"id: \x00",
    b"event: message",
    b": ",
    b"=?base64?!!?=",
    b"A" * 5000,
    b'"_meta":{"progressToken":{}},',
    b'"jsonrpc":"2.0",',
    b'"id":null,',
    b'"method":"initialize",',
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"MCP-Protocol-Version: 2026-07-28\r\n",
)


def _flip(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def _drop(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + data[start + dice.randint(1, 20) :]


def _insert(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + dice.choice(TOKENS) + data[at:]


def _replace(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    token = dice.choice(TOKENS)
    return data[:at] + token + data[at + len(token) :]


def _repeat(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    end = start + dice.randint(1, 40)
    return data[:end] + data[start:end] * dice.randint(1, 8) + data[end:]


def _noise(data: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(dice.randint(1, 200))


MUTATIONS: Sequence[Callable[[bytes, random.Random], bytes]] = (_flip, _cut, _drop, _insert, _replace, _repeat, _noise)


def damaged(seeds: Sequence[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """`count` inputs, each a seed with one to three mutations; one more often than not."""
    dice = random.Random(seed)
    for _ in range(count):
        data = dice.choice(seeds)
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            data = dice.choice(MUTATIONS)(data, dice) or b"x"
        yield data
