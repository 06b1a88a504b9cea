"""Answers: strict reading of JSON, and no secrets in what is shown of them."""

import pytest

from upstreams.fetch.strict_json import MAX_DEPTH, read_json_object
from upstreams.fetch.terms_and_answers import Fetched


def test_an_answer_does_not_show_what_is_in_it():
    shown = repr([Fetched(200, {"set-cookie": "CANARY"}, b'{"access_token": "CANARY"}')])
    assert shown == "[<Fetched 200, 26 bytes>]"


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{}", {}),
        (
            b' {"a": [1, 2.5, "x", null, true], "b": {"c": "\\ud83d\\ude00"}}\n',
            {"a": [1, 2.5, "x", None, True], "b": {"c": "😀"}},
        ),
        (b'{"a": {"b": 1}, "c": {"b": 2}}', {"a": {"b": 1}, "c": {"b": 2}}),
    ],
)
def test_objects(data: bytes, value: dict[str, object]) -> None:
    assert read_json_object(data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b'"x"', b"<html>", b"{", b"{} {}", b"{'a': 1}", b"{a: 1}", b'{"a": 1,}',
        b'{"a": 1, "a": 1}', b'{"x": [{"a": 1, "\\u0061": 2}]}',
        b'{"a": NaN}', b'{"a": Infinity}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": ' + b"9" * 400 + b"}",
        b'{"a": "\\ud800"}', b'{"\\udc00": 1}', b'{"a": "\xff"}', b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00",
        b'{"a": "\x00"}', b'{"a": ' + b"[" * 60_000, nested(MAX_DEPTH + 1), b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)  # fmt: skip
def test_what_is_not_read(data: bytes) -> None:
    assert read_json_object(data) is None


def test_the_greatest_depth() -> None:
    assert read_json_object(nested(MAX_DEPTH)) is not None
