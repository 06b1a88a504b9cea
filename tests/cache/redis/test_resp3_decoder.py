"""What a store says is decoded alike however it is cut, and refused before anything is kept of what is too much."""

from contextlib import suppress

import pytest
from coredis.parser import NOT_ENOUGH_DATA, Parser
from hypothesis import given
from hypothesis import strategies as st

from cache.redis.resp3_decoder import (
    MAX_ANSWER_BYTES,
    MAX_BULK_BYTES,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_REPLY_LINE_BYTES,
    ProtocolViolation,
    Resp3Decoder,
)


def decoded(parser, *pieces):
    """All answers in `pieces`; errors as text."""
    found = []
    for piece in pieces:
        parser.feed(piece)
        while (answer := parser.parse(decode=False)) is not NOT_ENOUGH_DATA:
            kind, value = answer
            found.append((kind.name == "PUSH", repr(value) if isinstance(value, Exception) else value))
    return found


def said(value):
    """A value, as a server sends it."""
    match value:
        case None:
            return b"_\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case list():
            return b"*%d\r\n" % len(value) + b"".join(map(said, value))
        case dict():
            return b"%%%d\r\n" % len(value) + b"".join(said(each) for pair in value.items() for each in pair)


PLAIN = st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=40)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.binary(max_size=5), inner, max_size=4)
)


def depth(value):
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@pytest.mark.covers("F-X-05")
@given(st.lists(VALUES.filter(lambda value: depth(value) <= MAX_DEPTH), max_size=5), st.data())
def test_however_it_is_cut(values, data):
    whole = b"".join(map(said, values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=9)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    expected = [(False, value) for value in values]
    assert decoded(Resp3Decoder(), whole) == decoded(Resp3Decoder(), *pieces) == expected


@given(st.binary(max_size=300), st.sampled_from([b"", b"*2\r\n", b"%1\r\n", b"$5\r\n", b">1\r\n", b":1\r\n", b"-"]))
def test_whatever_comes(data, front):
    with suppress(ProtocolViolation):
        decoded(Resp3Decoder(), front, data)


def test_the_rest_of_what_is_said():
    everything = (
        b"+OK\r\n-ERR unknown command\r\n!8\r\nOOM full\r\n$-1\r\n*-1\r\n=6\r\ntxt:hi\r\n>1\r\n+hi\r\n*0\r\n%0\r\n"
    )
    assert decoded(Resp3Decoder(), everything + b",1.5\r\n#t\r\n(12\r\n~1\r\n+x\r\n") == [
        (False, b"OK"),
        (False, "UnknownCommandError('unknown command')"),
        (False, "ResponseError('OOM full')"),
        (False, None),
        (False, None),
        (False, b"hi"),
        (True, [b"hi"]),
        (False, []),
        (False, {}),
        *((False, text) for text in (b"1.5", b"t", b"12", [b"x"])),
    ]


@pytest.mark.covers("F-X-04")
@pytest.mark.parametrize(
    "announced",
    [
        b"$%d\r\n" % (MAX_BULK_BYTES + 1),
        b"*5\r\n" + said(b"x" * MAX_BULK_BYTES) * 3 + b"$%d\r\n" % MAX_BULK_BYTES,
        b"*%d\r\n" % (MAX_ITEMS + 1),
        b"%%%d\r\n" % (MAX_ITEMS // 2 + 1),
        b"*2\r\n*%d\r\n*%d\r\n" % (MAX_ITEMS // 2, MAX_ITEMS // 2),
        b"*1\r\n" * (MAX_DEPTH + 1),
        b"+" + b"x" * MAX_REPLY_LINE_BYTES,
        b"$?\r\n",
        b"|1\r\n",
        b"$1\r\nxyz",
        b"*1\r\n-ERR\r\n",
        b"%1\r\n*0\r\n:1\r\n",
    ],
)
def test_what_is_too_much_is_refused_when_it_is_announced(announced):
    assert MAX_ANSWER_BYTES < 4 * MAX_BULK_BYTES
    with pytest.raises(ProtocolViolation):
        decoded(Resp3Decoder(), announced)


def test_it_takes_the_session_for_the_other_one():
    wanted = {name for name in ("feed", "parse", "on_disconnect") if hasattr(Parser, name)}
    assert wanted == {"feed", "parse", "on_disconnect"} <= set(dir(Resp3Decoder))
    parser = Resp3Decoder()
    parser.feed(b"*2\r\n$3\r\nab")
    assert parser.parse() is NOT_ENOUGH_DATA
    parser.on_disconnect()
    assert decoded(parser, b":1\r\n") == [(False, 1)]
