"""MCP headers: odd values, and parameters mirrored into headers."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire.http.mirror_headers import (
    InvalidHeader,
    InvalidMirror,
    Mirror,
    check_mirrors,
    decode_header,
    encode_header,
    mirror_headers,
    mirrors_of,
)

# --- values of headers ----------------------------------------------------------------------------------------------


@pytest.mark.covers("H-6", "H-7", "SEC-14")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", b"us-west1"),
        ("", b""),
        ("two words", b"two words"),
        (" padded ", b"=?base64?IHBhZGRlZCA=?="),
        ("a\tb", b"=?base64?YQli?="),
        ("Hello, 世界", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("line1\nline2", b"=?base64?bGluZTEKbGluZTI=?="),
        ("a\r\nX-Evil: 1", b"=?base64?YQ0KWC1FdmlsOiAx?="),
        ("=?base64?x?=", b"=?base64?PT9iYXNlNjQ/eD89?="),
        ("=?base64?=", b"=?base64?="),
        ("=?BASE64?eA==?=", b"=?BASE64?eA==?="),
        ("a\0", b"=?base64?YQA=?="),
        ("\x7f", b"=?base64?fw==?="),
    ],
)
def test_header_values(text: str, value: bytes) -> None:
    assert encode_header(text) == value
    assert decode_header(value.decode()) == text


@pytest.mark.covers("H-7", "H-8")
@pytest.mark.parametrize(
    "value",
    [
        "é",
        "a\x01",
        "a\nb",
        "\x7f",
        "=?base64?%%%?=",
        "=?base64?eA?=",
        "=?base64?eB==?=",
        "=?base64?eA== ?=",
        "=?base64?/w==?=",
        "=?base64?e-_=?=",
    ],
)
def test_values_that_cannot_be_decoded(value: str) -> None:
    with pytest.raises(InvalidHeader):
        decode_header(value)


def test_an_inner_tab_may_come_bare() -> None:
    assert decode_header("a\tb") == "a\tb"


@pytest.mark.covers("H-6", "SEC-14")
@given(st.text(st.characters(codec="utf-8")))
def test_every_text_travels_in_a_header(text: str) -> None:
    value = encode_header(text)
    assert re.fullmatch(rb"([!-~]([ -~]*[!-~])?)?", value)
    assert decode_header(value.decode()) == text


# --- mirrored parameters --------------------------------------------------------------------------------------------


def schema(properties: object, **more: object) -> Raw:
    return Raw(json.dumps({"type": "object", "properties": properties, **more}).encode())


REGION = {"type": "string", "x-mcp-header": "Region"}


@pytest.mark.covers("H-9", "H-10")
def test_mirrors_are_found_along_properties() -> None:
    found = mirrors_of(
        schema(
            {
                "region": REGION,
                "plain": {"type": "string"},
                "limits": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "x-mcp-header": "N"}}},
                "x-mcp-header": {"type": "boolean", "x-mcp-header": "b.c"},
                "odd": True,
            }
        )
    )
    assert found == (
        Mirror("Mcp-Param-Region", ("region",)),
        Mirror("Mcp-Param-N", ("limits", "n")),
        Mirror("Mcp-Param-b.c", ("x-mcp-header",)),
    )
    assert mirrors_of(schema({"x": {"type": "string", "description": "\u00e9"}})) == ()
    assert mirrors_of(schema({"x": {"type": "string"}})) == ()
    assert mirrors_of(schema({"x": {"type": "string", "default": {"x-mcp-header": "no annotation"}}})) == ()
    assert mirrors_of(Raw(rb'{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}')) == (
        Mirror("Mcp-Param-A", ("a",)),
    )


@pytest.mark.covers("H-10", "C-19")
@pytest.mark.parametrize(
    "wrong",
    [
        schema({"a": {"type": "string", "x-mcp-header": ""}}),
        schema({"a": {"type": "string", "x-mcp-header": "a b"}}),
        schema({"a": {"type": "string", "x-mcp-header": "a\r\nb"}}),
        schema({"a": {"type": "string", "x-mcp-header": "é"}}),
        schema({"a": {"type": "string", "x-mcp-header": 7}}),
        schema({"a": {"type": "number", "x-mcp-header": "A"}}),
        schema({"a": {"type": "object", "x-mcp-header": "A"}}),
        schema({"a": {"type": ["string", "integer"], "x-mcp-header": "A"}}),
        schema({"a": {"x-mcp-header": "A"}}),
        schema({"a": REGION, "b": {"type": "string", "x-mcp-header": "rEGION"}}),
        schema({"a": {"type": "array", "items": REGION}}),
        schema({"a": {"type": "array", "items": [REGION]}}),
        schema({"a": {"anyOf": [{"properties": {"b": REGION}}]}}),
        schema({}, **{"$defs": {"a": REGION}}),
        schema({}, additionalProperties=REGION),
        schema({}, **{"x-mcp-header": "A", "type": "string"}),
    ],
)
def test_mirrors_that_break_the_rules(wrong: Raw) -> None:
    with pytest.raises(InvalidMirror):
        mirrors_of(wrong)


MIRRORS = (Mirror("Mcp-Param-Region", ("region",)), Mirror("Mcp-Param-N", ("limits", "n")))


@pytest.mark.covers("H-9", "SEC-14")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu", "limits": {"n": 7}}, [("Mcp-Param-Region", b"eu"), ("Mcp-Param-N", b"7")]),
        ({"region": True, "limits": {"n": False}}, [("Mcp-Param-Region", b"true"), ("Mcp-Param-N", b"false")]),
        ({"region": "a\r\nX: y", "limits": 7}, [("Mcp-Param-Region", b"=?base64?YQ0KWDogeQ==?=")]),
        ({"region": None, "limits": {"n": 7.0}}, [("Mcp-Param-N", b"7")]),
        ({"region": {}, "limits": {"n": 7.5}}, []),
        ({"region": [], "limits": {"n": 2**53}}, []),
        (
            {"region": "", "limits": {"n": 1 - 2**53}},
            [("Mcp-Param-Region", b""), ("Mcp-Param-N", b"-9007199254740991")],
        ),
        ({}, []),
    ],
)
def test_headers_of_a_call(arguments: object, headers: list[tuple[str, bytes]]) -> None:
    raw = Raw(json.dumps(arguments).encode())
    assert mirror_headers(MIRRORS, raw) == headers
    check_mirrors(MIRRORS, {name.lower(): value.decode() for name, value in headers}, raw)


@pytest.mark.covers("H-11", "H-12", "H-13")
def test_headers_are_compared_with_arguments() -> None:
    arguments = Raw(b'{"region":"1","limits":{"n":1e2}}')
    right = {"mcp-param-region": "1", "mcp-param-n": "100", "mcp-param-else": "ignored"}
    check_mirrors(MIRRORS, right, arguments)
    check_mirrors(MIRRORS, {**right, "mcp-param-n": "100.0"}, arguments)
    for wrong in (
        {"mcp-param-region": "1.0"},
        {"mcp-param-region": ""},
        {"mcp-param-region": "=?base64?!?="},
        {"mcp-param-n": "101"},
        {"mcp-param-n": "1_00"},
        {"mcp-param-n": "nan"},
    ):
        with pytest.raises(InvalidHeader):
            check_mirrors(MIRRORS, {**right, **wrong}, arguments)
    for missing in ("mcp-param-region", "mcp-param-n"):
        with pytest.raises(InvalidHeader, match="missing"):
            check_mirrors(MIRRORS, {name: value for name, value in right.items() if name != missing}, arguments)
    check_mirrors(MIRRORS, {"mcp-param-region": "anything"}, Raw(b'{"region":null}'))
