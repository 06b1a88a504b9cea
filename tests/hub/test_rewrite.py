import json

import pytest
from msgspec import Raw

from hub.rewrite import MAX_VALUES, localise, localise_meta, unchanged, untag_arguments


def emit(uri: str) -> str:
    return uri if uri.startswith("https:") else f"hub.a+{uri}"


def untag(text: str) -> str:
    return text.removeprefix("hub.a+").replace("ui://a~", "ui://")


def localised(value: object) -> object:
    return json.loads(bytes(localise(Raw(json.dumps(value).encode()), emit)))


LINK = {"type": "resource_link", "uri": "x://1", "name": "one", "uri2": "x://1"}
TAGGED_LINK = {**LINK, "uri": "hub.a+x://1"}
EMBEDDED = {"type": "resource", "resource": {"uri": "x://2", "text": '"uri"'}, "uri": "x://keep"}
TAGGED_EMBEDDED = {**EMBEDDED, "resource": {"uri": "hub.a+x://2", "text": '"uri"'}}
TEXT = {"type": "text", "text": "see x://1", "uri": "x://no-uri-of-a-text"}


@pytest.mark.covers("G-3", "X-19")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"content": [TEXT, LINK, EMBEDDED]}, {"content": [TEXT, TAGGED_LINK, TAGGED_EMBEDDED]}),
        (
            {"messages": [{"role": "user", "content": LINK}, {"role": "user", "content": TEXT}]},
            {"messages": [{"role": "user", "content": TAGGED_LINK}, {"role": "user", "content": TEXT}]},
        ),
        (
            {"messages": [{"role": "user", "content": [LINK]}]},
            {"messages": [{"role": "user", "content": [TAGGED_LINK]}]},
        ),
        (
            {"contents": [{"uri": "x://1", "text": "a", "_meta": {"ui": {"csp": {}}}}, {"uri": "https://a"}]},
            {"contents": [{"uri": "hub.a+x://1", "text": "a", "_meta": {"ui": {"csp": {}}}}, {"uri": "https://a"}]},
        ),
        (
            {
                "content": [],
                "_meta": {"ui": {"resourceUri": "ui://w", "x": 1}, "ui/resourceUri": "ui://w", "y": "ui://w"},
            },
            {
                "content": [],
                "_meta": {
                    "ui": {"resourceUri": "hub.a+ui://w", "x": 1},
                    "ui/resourceUri": "hub.a+ui://w",
                    "y": "ui://w",
                },
            },
        ),
        (
            {"_meta": {"openai/outputTemplate": "ui://w"}, "content": []},
            {"_meta": {"openai/outputTemplate": "hub.a+ui://w"}, "content": []},
        ),
    ],
)
def test_uris_in_their_places_change_and_nothing_else(value, expected):
    assert localised(value) == expected
    assert list(localised(value)) == list(value)


@pytest.mark.covers("X-19", "SEC-80")
@pytest.mark.parametrize(
    "value",
    [
        b'{"content":[{"type":"text","text":"hub"}]}',
        b'{ "structuredContent" : {"uri":"x://1","content":[{"type":"resource_link","uri":"x://1"}]} }',
        b'{"content":[{"type":"resource_link","uri":7},{"type":7,"uri":"x"},{"type":"resource","resource":[]},3,"uri"]}',
        b'{"content":[{"type":"resource_link","uri":"https://same"}]}',
        b'{"content":"uri","contents":{"uri":"x"},"messages":7,"_meta":[],"uri":"x://1"}',
        b'{"_meta":{"ui":7,"uri":"x://1"}}',
        b'{"content":[{"type":"text","text":"\\u0041 \\u0075ri"}]}',
        b'["uri"]',
        b'"\\"uri\\""',
        b"null",
    ],
)
def test_a_value_without_uris_to_change_is_returned_itself(value):
    raw = Raw(value)
    assert localise(raw, emit) is raw


def test_a_key_written_with_escapes_does_not_hide():
    value = Raw(rb'{"content":[{"type":"resource_link","\u0075ri":"x://1"}],"\u0063ontents":[{"ur\u0069":"x:2"}]}')
    assert json.loads(bytes(localise(value, emit))) == {
        "content": [{"type": "resource_link", "uri": "hub.a+x://1"}],
        "contents": [{"uri": "hub.a+x:2"}],
    }


def test_an_endpoint_of_one_upstream_changes_nothing():
    value = Raw(b'{"content":[{"type":"resource_link","uri":"x://1"}]}')
    assert localise(value, unchanged) is value
    assert unchanged("x://1") == "x://1"
    arguments = Raw(b'{"uri":"hub.a+x://1"}')
    assert untag_arguments(arguments, unchanged) is arguments


def test_meta_of_an_entry():
    meta = localise_meta(Raw(b'{"ui":{"resourceUri":"ui://w"}}'), emit)
    assert bytes(meta) == b'{"ui":{"resourceUri":"hub.a+ui://w"}}'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"uri": "hub.a+x://1", "n": 1.50}, {"uri": "x://1", "n": 1.50}),
        ({"deep": [{"er": ["hub.a+x", "ui://a~w", None]}]}, {"deep": [{"er": ["x", "ui://w", None]}]}),
        ({"hub.a+key": 1}, {"hub.a+key": 1}),
    ],
)
def test_arguments_that_are_tagged_uris_are_untagged(arguments, expected):
    assert json.loads(bytes(untag_arguments(Raw(json.dumps(arguments).encode()), untag))) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"uri":"x://1"}',
        b'{"text":"read hub.a+x://1 please"}',
        b'{"uri":"hub.b+x://1","more":["hub.b+x", "hub.", true, 12345678901234567890123, 1E400]}',
        b'{"\\u0041":"\\u0042"}',
        b'[["hub.b+x"]]',
        b"7",
        b' {"hub.a+":[]}',
    ],
)
def test_other_arguments_are_left_alone(arguments):
    raw = Raw(arguments)
    assert untag_arguments(raw, untag) is raw


def test_arguments_keep_the_bytes_of_what_is_not_rewritten():
    arguments = Raw(b' { "a" : "hub.a+x" , "n" : 1E400, "o": { "z" : 1.0 } }')
    assert bytes(untag_arguments(arguments, untag)) == b'{"a":"x","n":1E400,"o":{ "z" : 1.0 }}'


def test_a_tag_written_with_escapes_does_not_hide():
    assert bytes(untag_arguments(Raw(rb'{"a":"hub\u002ea+x:\/\/1"}'), untag)) == b'{"a":"x://1"}'


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize(
    "arguments",
    [
        b'{"a":[%b]}' % b",".join([b'"hub.x"'] * 4_000),
        b"[%b]" % b",".join([b"[%b]" % b",".join([b'"hub.x"'] * 1_000)] * 50),
        b"[%b]" % b",".join([b'"hub.x"'] * 900_000),
        b"{%b}" % b",".join([b'"%d":"hub.x"' % number for number in range(300_000)]),
    ],
    ids=len,
)
def test_of_many_arguments_only_so_many_are_looked_at(arguments):
    seen = []

    def untag(uri):
        seen.append(uri)
        return "x"

    after = bytes(untag_arguments(Raw(arguments), untag))
    assert len(seen) <= MAX_VALUES
    assert after.count(b'"x"') == len(seen)
    assert after.count(b'"hub.x"') == arguments.count(b'"hub.x"') - len(seen)
