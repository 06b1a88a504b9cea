import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.catalog import rewrite_embedded_uris
from hub.catalog.rewrite_embedded_uris import identity, localise, localise_meta, untag_arguments
from hub.catalog.uri_tags import tag
from hub.catalog.uri_tags import untag as untagged
from hub.wire.jsonrpc import RemoteProtocolError
from hub.wire.total_item_limit import MAX_ITEMS, SMALL_BYTES, TooManyItems
from tests.support.counting import calls_of


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
    assert localise(value, identity) is value
    assert identity("x://1") == "x://1"
    arguments = Raw(b'{"uri":"hub.a+x://1"}')
    assert untag_arguments(arguments, lambda: identity) is arguments


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
    assert json.loads(bytes(untag_arguments(Raw(json.dumps(arguments).encode()), lambda: untag))) == expected


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
    assert untag_arguments(raw, lambda: untag) is raw


def test_arguments_keep_the_bytes_of_what_is_not_rewritten():
    arguments = Raw(b' { "a" : "hub.a+x" , "n" : 1E400, "o": { "z" : 1.0 } }')
    assert bytes(untag_arguments(arguments, lambda: untag)) == b' { "a" : "x" , "n" : 1E400, "o": { "z" : 1.0 } }'


def test_a_tag_written_with_escapes_does_not_hide():
    assert bytes(untag_arguments(Raw(rb'{"a":"hub\u002ea+x:\/\/1"}'), lambda: untag)) == b'{"a":"x://1"}'


# --- tags, however they are written ----------------------------------------------------------------------------------

TEXTS = st.sampled_from(
    [
        *("x://1", "hub.a+x://1", "ui://a~w", "HUB.A+x", "UI://a~w", "hub.b+x", "hub.a", "hub.a+", "ui://a", "hub.+x"),
        *('say "hub.a+x', "hub.a+\\", 'hub.a+"\\"', "\\hub.a+x", "", "hub.docker.com", "hub.a+é,]}"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
KNOWN = {"a": "a"}


def original(uri: str) -> str:
    found = untagged(uri, KNOWN)
    return uri if found is None else found[1]


def put_right(value: object) -> object:
    """What is to become of arguments, by way of the values themselves."""
    match value:
        case str():
            return original(value)
        case list():
            return [put_right(each) for each in value]
        case dict():
            return {name: put_right(each) for name, each in value.items()}
    return value


def write(value: object, escaped: Callable[[], bool], gap: str) -> str:
    """JSON in which some characters are written as escapes, and there is space where there may be."""
    match value:
        case str():
            chars = (f"\\u{ord(char):04x}" if escaped() else json.dumps(char)[1:-1] for char in value)
            return '"' + "".join(chars) + '"'
        case list():
            return "[" + gap + f"{gap},".join(write(each, escaped, gap) for each in value) + gap + "]"
        case dict():
            members = (f"{write(k, escaped, gap)}{gap}:{gap}{write(v, escaped, gap)}" for k, v in value.items())
            return "{" + gap + f"{gap},".join(members) + gap + "}"
    return json.dumps(value)


@pytest.mark.covers("G-3")
@given(VALUES, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.2, 0.9]), st.sampled_from(["", " ", "\t "]))
def test_arguments_are_put_right_however_they_are_written(value, chance, share, gap):
    text = Raw(write(value, lambda: chance.random() < share, gap).encode())
    after = untag_arguments(text, lambda: original)
    assert json.loads(bytes(after)) == put_right(value)
    assert put_right(value) != value or after is text


@pytest.mark.covers("G-3")
@given(st.text() | TEXTS)
def test_whatever_is_tagged_is_untagged(uri):
    value = Raw(json.dumps([tag("a", uri)]).encode())
    assert json.loads(bytes(untag_arguments(value, lambda: original))) == [uri]


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize(
    "arguments",
    [
        lambda n: b'["hub.a+x",%b]' % b",".join([b"1"] * n),
        lambda n: b'["hub.docker.com",%b]' % b",".join([b'"x"'] * n),
        lambda n: rb'["\u0027",%b]' % b",".join([rb'"\u003c"'] * n),
        lambda n: b"{%b}" % b",".join([b'"x%d":{"y":"ui"}' % i for i in range(n)]),
        lambda n: b"[" * n + b'"hub.a+x"' + b"]" * n,
    ],
)
def test_what_is_around_a_tag_in_arguments_costs_no_calls(arguments):
    few, many = Raw(arguments(50)), Raw(arguments(100))
    assert (
        calls_of(lambda: untag_arguments(many, lambda: untag))
        == calls_of(lambda: untag_arguments(few, lambda: untag))
        < 60
    )


@pytest.mark.covers("I-3", "SEC-13")
def test_the_tags_of_one_call_are_bounded(monkeypatch):
    monkeypatch.setattr(rewrite_embedded_uris, "MAX_TAGS", 3)
    tags = [f"hub.a+x{i}" for i in range(4)]
    assert json.loads(bytes(untag_arguments(Raw(json.dumps(tags[:3]).encode()), lambda: untag))) == ["x0", "x1", "x2"]
    with pytest.raises(RemoteProtocolError, match="more than 3 URIs with a tag of the hub") as caught:
        untag_arguments(Raw(json.dumps(tags).encode()), lambda: untag)
    assert caught.value.failure.code == -32602


@pytest.mark.covers("I-3", "SEC-13")
def test_what_only_looks_like_a_tag_is_bounded_more_generously(monkeypatch):
    monkeypatch.setattr(rewrite_embedded_uris, "MAX_TAGS", 1)
    monkeypatch.setattr(rewrite_embedded_uris, "MAX_LOOKALIKES", 5)
    names = Raw(json.dumps(["hub.docker.com"] * 5).encode())
    assert untag_arguments(names, lambda: untag) is names
    with pytest.raises(RemoteProtocolError, match="5 strings that begin as tagged URIs do"):
        untag_arguments(Raw(json.dumps(["hub.docker.com"] * 6).encode()), lambda: untag)


@pytest.mark.covers("I-3", "SEC-13")
def test_tagged_uris_with_escapes_are_bounded_together(monkeypatch):
    monkeypatch.setattr(rewrite_embedded_uris, "MAX_SPELLED_BYTES", 40)
    assert bytes(untag_arguments(Raw(rb'["hub.a+\n\n\n","hub.a+\t"]'), lambda: untag)) == rb'["\n\n\n","\t"]'
    with pytest.raises(RemoteProtocolError, match="40 bytes of tagged URIs that are written with escapes"):
        untag_arguments(Raw(rb'["hub.a+%b","hub.a+%b"]' % (rb"\n" * 8, rb"\n" * 8)), lambda: untag)


@pytest.mark.covers("I-3", "SEC-13")
def test_what_is_around_a_link_in_a_result_costs_no_calls_of_functions_in_python():
    def result(n: int) -> Raw:
        return Raw(b'{"content":[{"type":"resource_link","uri":"x:1"}%b]}' % (b',{"type":"text","text":"a"}' * n))

    # One look at the bytes of each block, in C, and one place in the list that is written.
    assert calls_of(lambda: localise(result(200), emit)) == calls_of(lambda: localise(result(100), emit)) + 100


@pytest.mark.covers("I-3", "SEC-13")
def test_lists_of_content_in_lists_are_not_followed():
    """No revision has them; to look through each again for what is in it takes time by its depth."""
    value = Raw(b'{"content":[[{"type":"resource_link","uri":"x://1"}]]}')
    assert localise(value, emit) is value


@pytest.mark.covers("I-3", "SEC-13")
def test_a_large_result_has_so_many_uris_at_most(monkeypatch):
    monkeypatch.setattr(rewrite_embedded_uris, "MAX_URIS", 3)
    text = {"type": "text", "text": "a" * SMALL_BYTES}
    assert localised({"content": [text, LINK, LINK, LINK]}) == {"content": [text] + [TAGGED_LINK] * 3}
    with pytest.raises(TooManyItems, match="a result has 4 URIs; the hub looks up 3 of them at most"):
        localised({"content": [text, LINK, LINK], "contents": [{"uri": "x:1"}] * 2})
    structured = {"content": [LINK], "structuredContent": {"found": [{"uri": "x"}] * 9, "text": "a" * SMALL_BYTES}}
    assert localised(structured) == {**structured, "content": [TAGGED_LINK]}


@pytest.mark.covers("I-3", "SEC-13")
def test_a_large_result_with_uris_has_so_many_items_at_most():
    crowd = [1] * (MAX_ITEMS + 1)
    for value, match in (
        ({"content": [*crowd, LINK]}, "the content of a result has more than"),
        ({"messages": [{"content": [*crowd, LINK]}]}, "the messages of a result has more than"),
        ({"content": [], "_meta": {"x": crowd}}, "a result has more than"),
    ):
        with pytest.raises(TooManyItems, match=match):
            localised(value)
    assert localised({"content": [*crowd]}) == {"content": crowd}, "nothing in there is to be found"


@pytest.mark.covers("I-3", "SEC-13")
def test_a_large_result_that_hides_a_uri_is_refused():
    filler = b'"' + b"a" * SMALL_BYTES + b'"'
    for key in (rb'"\u0075ri"', rb'"u\u0072i"', rb'"ur\u0069"'):
        with pytest.raises(TooManyItems, match="written with escapes"):
            localise(Raw(b'{"content":[%b,{"type":"resource_link",%b:"x:1"}]}' % (filler, key)), emit)
