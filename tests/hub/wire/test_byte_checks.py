"""Checks on bytes before parsing; `test_jsonrpc` tests the same through `decode`, against parsers."""

import contextlib
import json
import re
import time
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire import byte_checks as module
from hub.wire.byte_checks import (
    MAX_DEPTH,
    MAX_ESCAPES,
    MAX_LINE_ENDS,
    MAX_MEMBERS,
    MAX_REPAIRED_BYTES,
    MAX_SMALL,
    MAX_STRUCTURES,
    PIECE_BYTES,
    UnacceptableBytes,
    has_duplicates,
    members,
    one_line,
    sanitize,
    well_formed,
)
from tests.support.counting import lines_of


@pytest.mark.parametrize("data", [b'{"a":"\xc3\xa9 \\u00e9 \\ud83d\\ude00"}', b"", b"nonsense", b" 7 "])
def test_what_is_sound_stays_as_it_is(data: bytes) -> None:
    assert sanitize(data) is data


@pytest.mark.covers("SEC-11")
@pytest.mark.parametrize(("data", "at"), [(b"\xff", 0), (b'"\xed\xa0\x80"', 1), (b'"a\xc3', 2), (b'"\xc0\x80"', 1)])
def test_text_is_strict_utf_8(data: bytes, at: int) -> None:
    with pytest.raises(UnacceptableBytes, match=f"Not UTF-8: .* at byte {at}"):
        sanitize(data)


@pytest.mark.covers("SEC-13", "M-10")
def test_depth_is_counted_outside_of_strings() -> None:
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert sanitize(deepest) is deepest
    with pytest.raises(UnacceptableBytes, match="128 levels"):
        sanitize(b"[%b]" % deepest)
    for text in (b"[" * 300, b'\\"' + b"{" * 300, b'\\\\\\"['):
        sanitize(b'["%b",%b]' % (text, deepest[1:-1]))
    sanitize(b"[" + b"[]," * 500 + b"[]]")


# --- frames and surrogates --------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-12", "M-11")
def test_line_ends_between_tokens_go() -> None:
    assert sanitize(b'{\r\n"a":\n[1,\r2]}\n') == b'{"a":[1,2]}'
    with pytest.raises(msgspec.DecodeError):
        sanitize(b'{"a":\n')


@pytest.mark.covers("SEC-12")
@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\u0085"])
def test_line_ends_of_unicode_are_escaped(end: str) -> None:
    data = f'"a{end}\\\\{end}"'.encode()
    assert (
        one_line(data)
        == sanitize(data)
        == ascii(end).strip("'").replace("\\x", "\\u00").join(['"a', "\\\\", '"']).encode()
    )
    no_json = f'"\\{end}"'.encode()
    assert one_line(no_json) is no_json
    assert one_line(b'"\xc3\xa9"') == b'"\xc3\xa9"'


PIECES = st.sampled_from(["\\\\", "\\ud83d", "\\uDE00", "\\ude00", "\\uD83D", "ud83d", "\\n", "x", "\\u0041", "\\/"])


@given(st.lists(PIECES).map("".join))
def test_lone_surrogates_become_replacement_characters(text: str) -> None:
    wanted = re.sub("[\ud800-\udfff]", "\ufffd", json.loads(f'"{text}"'))
    assert json.loads(well_formed(f'"{text}"'.encode())) == wanted


def test_nul_does_not_turn_into_a_backslash() -> None:
    assert sanitize(b'"\0\0 \\ud800"') == b'"\0\0 \\ud800"'


# --- members ----------------------------------------------------------------------------------------------------------


def crowd(count: int, value: str = "0") -> str:
    return "{" + ",".join(f'"{number}:":{value}' for number in range(count)) + "}"


@pytest.mark.covers("SEC-13")
def test_members_are_counted_by_level() -> None:
    many = MAX_MEMBERS + 1
    assert members(crowd(many).encode()) == (many, 0, 0)
    assert members(f'{{"a":[{crowd(5)},{crowd(many)}],"b\\"":{{"c":{crowd(7)}}}}}'.encode()) == (2, 1, many + 5 + 7)
    assert members(crowd(many, '{"x":{"":[{"y":1}]}}').encode()) == (many, many, many)


def test_where_there_cannot_be_many_they_are_not_counted() -> None:
    assert members(crowd(MAX_MEMBERS // 2).encode()) == (0, 0, 0)
    assert members(b"") == (0, 0, 0)


@pytest.mark.covers("SEC-11", "M-10")
@pytest.mark.parametrize(
    ("data", "twice"),
    [
        ('{"a":1,"a":1}', True),
        ('{"a":1,"\\u0061":1}', True),
        ('{ "a" : 1 , "a" : 2 }', True),
        ('{"é":1,"\\u00e9":1}', True),
        ('{"\\u00e9":12,"x":1,"\\u00e9":1}', True),
        ('{"\\u00e9":1,"x":[2,3],"\\u00e9":1}', True),
        ("{}", False),
        ("7", False),
        ('{"a":1,"b":{"c":1,"c":1}}', False),
        ('{ "a" : 1 }', False),
        ('{"é":1,"\\u0061":2,"\\"\\\\":3}', False),
    ],
)
def test_members_given_twice(data: str, twice: bool) -> None:
    fields = msgspec.json.decode(data, type=dict[str, Raw]) if data[0] == "{" else {}
    assert has_duplicates(data.encode(), fields) is twice
    assert has_duplicates(Raw(data.encode()), fields) is twice


NAMES = st.sampled_from(['"a"', '"\\u0061"', '"b"', '"\u00e9"', '"\\u00e9"', '"\\"\\\\"', '""', '"a\\":1,\\"b"'])
VALUES = st.sampled_from(["1", "12", '"1"', '"}"', "[1, 2]", '{ "a" : 1,"a":1 }', "null", '""', '"\\",\\"a\\":1"'])
SPACES = st.sampled_from(["", "", " ", "\t ", "\n"])


@pytest.mark.covers("SEC-11", "M-10")
@given(st.lists(st.tuples(SPACES, NAMES, SPACES, SPACES, VALUES, SPACES), min_size=1, max_size=4), SPACES)
def test_members_given_twice_are_found_however_they_are_spaced(parts: list[tuple[str, ...]], around: str) -> None:
    each = [f"{a}{name}{b}:{c}{value}{d}" for a, name, b, c, value, d in parts]
    data = f"{around}{{{','.join(each)}}}{around}"
    names = [json.loads(name) for _, name, *_ in parts]
    fields = msgspec.json.decode(data, type=dict[str, Raw])
    assert has_duplicates(data.encode(), fields) is (len(set(names)) < len(names))


@pytest.mark.covers("SEC-13")
def test_large_values_are_not_read_again_for_the_whitespace_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **options: object) -> None:
        raise AssertionError("it is written anew")

    monkeypatch.setattr(msgspec.json, "format", refuse)
    data = b'{"name": "x", "arguments": {"n": [%b1]}}' % (b"1," * 1000)
    assert not has_duplicates(data, msgspec.json.decode(data, type=dict[str, Raw]))


HOSTILE = {
    "brackets": b"[" * (1 << 20),
    "members": b'{"":0,' * (1 << 18),
    "an unfinished string": b"[" * 200 + b'"' + b'\\"' * (1 << 19),
    "strings of brackets": b"[" + b'"[",' * (1 << 18),
    "lone surrogates": b'"' + b"\\ud800" * (1 << 17) + b'"',
    "line separators": b'"' + "\u2028".encode() * (1 << 18) + b'"',
    "backslashes": b'"' + b"\\" * (1 << 20) + "\u2028".encode(),
}


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("name", HOSTILE)
def test_all_of_it_takes_linear_time(name: str) -> None:
    """1 MB each; the quadratic ways this guards against took minutes, so the bound may be generous."""
    began = time.process_time()
    with contextlib.suppress(UnacceptableBytes):
        members(sanitize(HOSTILE[name]))
    assert time.process_time() - began < 1


# --- what costs more than it has bytes --------------------------------------------------------------------------------


@pytest.mark.covers("F-P-16")
def test_a_large_table_passes():
    rows = b",".join([b'{"id":1,"v":[1,2]}'] * 300_000)
    table = b'{"content":[],"structuredContent":{"rows":[%b]}}' % rows
    assert sanitize(table) is table
    matrix = b"[%b]" % b",".join([b"[1,2]"] * 1_000_000)
    assert sanitize(matrix) is matrix


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("item", [b"{}", b"[ ]", b'{"a":"b"}', b"[" * 60 + b"]" * 60])
def test_objects_and_arrays_that_are_too_many(item: bytes) -> None:
    opened = item.count(b"[]") + item.count(b"[ ]") + item.count(b"{") if len(item) < 60 else 60
    data = b"[%b]" % b",".join([item] * (MAX_SMALL // opened + 1))
    with pytest.raises(UnacceptableBytes, match=f"More than {MAX_SMALL} objects and arrays"):
        sanitize(data)


@pytest.mark.covers("SEC-13")
def test_where_brackets_are_too_many_the_rest_is_not_looked_at() -> None:
    def work(pieces: int) -> int:
        data = b"[%b]" % b",".join([b"[" * 60 + b"]" * 60] * (pieces * PIECE_BYTES // 120))

        def refused() -> None:
            with contextlib.suppress(UnacceptableBytes):
                sanitize(data)
                pytest.fail("it has too many brackets")

        return lines_of(refused)

    assert work(10) == work(40)  # a piece of them has brackets for as many bytes
    text = b'["%b"]' % (b"[]" * 4 * PIECE_BYTES)
    assert sanitize(text) is text, "in strings there may be any number"


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("size", range(1, 9))
def test_strings_that_reach_over_the_end_of_a_piece(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    part = rb'"%d[":["]\"[",{"":[],"\\":["\\\"",""]}],"%db":{":":":{"}'
    data = b"{%b}" % b",".join(part % (number, number) for number in range(MAX_MEMBERS))
    outside = 2 + MAX_MEMBERS * len(":[{:[]:[]}]:{:}")
    monkeypatch.setattr(module, "PIECE_BYTES", size)
    monkeypatch.setattr(module, "MAX_COUNTED", outside)
    assert members(data) == (2 * MAX_MEMBERS, MAX_MEMBERS, 2 * MAX_MEMBERS)
    monkeypatch.setattr(module, "MAX_COUNTED", outside - 1)
    with pytest.raises(UnacceptableBytes):
        members(data)


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
def test_line_ends_that_are_too_many_are_seen_at_the_beginning(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    pieces = []
    real = module.utf_8_decode

    def watched(data: bytes, *args: object) -> tuple[str, int]:
        pieces.append(len(data))
        return real(data, *args)

    monkeypatch.setattr(module, "utf_8_decode", watched)
    data = b'"%b"' % (end.encode() * (2 * PIECE_BYTES))
    with pytest.raises(UnacceptableBytes, match="line separators"):
        sanitize(data)
    assert len(pieces) <= 2
    few = b'"%b"' % (b"x" * PIECE_BYTES + end.encode())
    assert sanitize(few) == one_line(few) != few


@pytest.mark.covers("I-5")
def test_depth_is_told_right_where_rows_are_many():
    """The innermost pairs are removed before the rest is counted."""
    rows = b"[%b]" % b",".join([b"[{}]"] * 20_000)
    fits = b"[" * (MAX_DEPTH - 3) + rows + b"]" * (MAX_DEPTH - 3)
    assert sanitize(fits) is fits
    with pytest.raises(UnacceptableBytes, match="deeper"):
        sanitize(b"[" + fits + b"]")


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize(
    "data",
    [
        b"[%b]" % b",".join([b"[" * 60 + b"]" * 60] * 30_000),
        b"[" * 4_000_000,
        b'{"a":' * 1_000_000,
        b'["["],' * 1_000_000,
        b'["' + "\u2028".encode() * (MAX_LINE_ENDS + 1) + b'"]',
        b'["' + "\x85".encode() * (MAX_LINE_ENDS + 1) + b'"]',
    ],
    ids=lambda data: data[:5],
)
def test_what_is_too_finely_structured_is_refused_before_it_takes_memory(data):
    tracemalloc.start()
    try:
        with pytest.raises(UnacceptableBytes, match=r"More than|deeper"):
            sanitize(data)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(data) + (1 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.covers("SEC-13")
def test_members_that_are_too_many_to_be_counted():
    with pytest.raises(UnacceptableBytes, match="More than"):
        members(b'{"a":{%b}}' % b",".join([b'"":0'] * 3 * (MAX_STRUCTURES + 1)))


@pytest.mark.covers("SEC-13")
def test_one_rare_character_does_not_make_four_bytes_of_each():
    data = b'["' + b"x" * (8 << 20) + "\U0001f600".encode() + b'"]'
    tracemalloc.start()
    assert sanitize(data) is data
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.covers("M-10")
@pytest.mark.parametrize("at", range(-3, 4))
def test_utf8_is_checked_across_pieces(at):
    for character, is_good in ("\U0001f600".encode(), True), (b"\xf0\x9f\x98", False), (b"\xff", False):
        data = b"x" * (PIECE_BYTES + at) + character + b"x" * PIECE_BYTES
        if is_good:
            assert sanitize(data) is data
        else:
            with pytest.raises(UnacceptableBytes, match=f"byte {PIECE_BYTES + at}"):
                sanitize(data)
    with pytest.raises(UnacceptableBytes, match="UTF-8"):
        sanitize(b"x" * (PIECE_BYTES + at) + b"\xf0\x9f")


@pytest.mark.covers("SEC-13")
def test_a_message_is_repaired_only_while_that_is_cheap():
    assert well_formed(b'"\\ud800"' + b"\\n" * 1000) == b'"\\ufffd"' + b"\\n" * 1000
    for data in (b'"' + b"\\ud800" * (MAX_ESCAPES + 1), b'"\\ud800' + b"x" * MAX_REPAIRED_BYTES):
        with pytest.raises(UnacceptableBytes, match="too large"):
            well_formed(data)
    pairs = b'"' + b"\\ud83d\\ude00" * MAX_ESCAPES + b'"'
    assert sanitize(pairs) is pairs


@pytest.mark.covers("SEC-12")
@pytest.mark.parametrize("backslashes", [*range(1, 9), 15, 16, 17, 63, 64, 65, 1000, 1001])
def test_a_line_end_behind_backslashes(backslashes):
    data = b'"' + b"\\" * backslashes + "\u2028".encode() + b'"'
    written = b'"' + b"\\" * backslashes + b'\\u2028"'
    assert one_line(data) == (data if backslashes % 2 else written)
