"""JSON-RPC as bytes: accepted messages, refusals and their codes; no accepted message can break a frame."""

import contextlib
import json
import re
import time
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hub.wire import byte_checks, jsonrpc, level_item_limit
from hub.wire.byte_checks import MAX_DEPTH, MAX_MEMBERS
from hub.wire.excerpt_and_read_large_results import LARGE_BYTES
from hub.wire.jsonrpc import (
    EMPTY,
    MAX_ID,
    Failure,
    Message,
    Notification,
    PiecedResult,
    RemoteProtocolError,
    Request,
    Response,
    Result,
    decode,
    encode_notification,
    encode_request,
    encode_response,
    join,
    response_pieces,
)
from hub.wire.level_item_limit import PREFIX_BYTES
from tests.support.tables import each_row


def refusal(data: bytes, *, strict: bool = True) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(data, strict=strict)
    return caught.value


def plain(message: Message) -> object:
    """A message as Python's own reader sees its parts; the way to compare two."""
    if isinstance(message, Response):
        reply = message.reply
        if isinstance(reply, Result):
            return (message.id, json.loads(bytes(reply.value)))
        return (message.id, reply.code, reply.message, None if reply.data is UNSET else json.loads(bytes(reply.data)))
    params = {name: json.loads(bytes(value)) for name, value in message.params.items()}
    return (message.id if isinstance(message, Request) else None, message.method, params)


# --- what is read ---------------------------------------------------------------------------------------------------


def test_a_request() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"a":1.50}}}')
    assert message == Request(7, "tools/call", {"name": Raw(b'"x"'), "arguments": Raw(b'{"a":1.50}')})


def test_a_notification_without_params() -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') == Notification(
        "notifications/initialized", {}
    )


@pytest.mark.parametrize("strict", [True, False])
def test_replies(strict: bool) -> None:
    assert decode(b'{"jsonrpc":"2.0","id":"a","result":{"x":1}}', strict=strict) == Response(
        "a", Result(Raw(b'{"x":1}'))
    )
    assert decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}', strict=strict) == Response(
        1, Failure(-1, "no")
    )
    assert decode(b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no","data":[]}}', strict=strict) == (
        Response(None, Failure(-1, "no", Raw(b"[]")))
    )


@pytest.mark.covers("B-25")
@pytest.mark.parametrize(
    "value", ["12345678901234567890123456789012345", "1E400", "-0.0", "1.10", '"\\u00e9\\/"', "[]"]
)
def test_values_keep_their_spelling(value: str) -> None:
    message = decode(f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"v":{value}}}}}'.encode())
    assert isinstance(message, Request)
    assert bytes(message.params["v"]).decode() == value
    assert value.encode() in encode_request(2, "m", message.params)


@pytest.mark.covers("F-P-07", "SEC-11")
def test_a_byte_order_mark_is_pardoned_upstreams_only() -> None:
    data = b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}'
    assert decode(data, strict=False) == Response(1, Result(Raw(b"{}")))
    assert refusal(data).failure.code == -32700


# --- what is refused ------------------------------------------------------------------------------------------------

ENVELOPES = [
    (b"", -32700, None),
    (b"nonsense", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m"', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m"} {}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\x01"}}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"x\ny"}}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xff"}}', -32700, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xed\xa0\x80"}}', -32700, 1),
    (b'{"id":1,"method":"m"}', -32600, 1),
    (b'{"jsonrpc":"1.0","id":1,"method":"m"}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
    (b'{"jsonrpc":"2.0"}', -32600, None),
    (b'{"jsonrpc":"2.0","result":{}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}', -32600, 1),
    (b'{"jsonrpc":"2.0","method":"m","error":{}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"error":7}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":null,"method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1.0,"method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', -32602, 1),
    (b'{"jsonrpc":"2.0","method":"m","params":7}', -32602, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"m"}]', -32600, None),
    (b"7", -32600, None),
]


@pytest.mark.covers("F-H-08", "F-P-12", "B-1", "B-2", "B-5", "M-10")
@each_row("data, code, id", ENVELOPES)
@each_row("strict", [True, False])
def test_broken_envelopes(data: bytes, code: int, id: int | None, strict: bool) -> None:
    error = refusal(data, strict=strict)
    assert (error.failure.code, error.id) == (code, id)
    assert str(error) == error.failure.message
    json.loads(encode_response(error.id, error.failure))


@pytest.mark.covers("SEC-11")
@pytest.mark.parametrize(
    ("id", "taken"),
    [
        (MAX_ID, True),
        (-MAX_ID, True),
        (MAX_ID + 1, False),
        (-MAX_ID - 1, False),
        (10**40, False),
        ("", True),
        ("x" * 256, True),
        ("x" * 257, False),
        ("é" * 128, True),
        ("é" * 129, False),
    ],
)
def test_bounds_of_ids(id: int | str, taken: bool) -> None:
    data = json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"}, ensure_ascii=False).encode()
    if taken:
        assert decode(data) == Request(id, "m", {})
        return
    error = refusal(data)
    assert (error.failure.code, error.id) == (-32600, None)
    # An id that may not be used is not repeated either, whatever else is wrong with the message.
    assert refusal(data.replace(b"2.0", b"1.0")).id is None
    assert refusal(data.replace(b'"method"', b'"nothing"')).id is None
    assert isinstance(decode(data.replace(b'"method": "m"', b'"result":{}')), Response)


DUPLICATES = [
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","method":"n","params":{}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1},"params":{"a":2}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","p\\u0061rams":{"a":1},"params":{"a":2}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m", "method":"m"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"id":1,"result":{}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","name":"b"}}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","n\\u0061me":"a"}}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{ "name" : "a" , "name" : "b" }}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"é":1,"\\u00e9":1}}'.encode(), -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"\\u00e9":12,"x":1,"\\u00e9":1}}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"\\ud800":1,"\\udfff":1}}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1,"a":2}}}', -32602, 1),
    (b'{"jsonrpc":"2.0","method":"m","params":{"_meta":{"a":1,"\\u0061":2}}}', -32602, None),
]


@pytest.mark.covers("SEC-11", "M-10")
@pytest.mark.parametrize(("data", "code", "id"), DUPLICATES)
def test_duplicate_members_are_refused(data: bytes, code: int, id: int | None) -> None:
    error = refusal(data)
    assert (error.failure.code, error.id) == (code, id)
    decode(data, strict=False)


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"\\u0061":1,"b":[{}]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a\\"":1,"b":"\\\\"}}',
        b' { "jsonrpc" : "2.0" , "id" : 1 , "method" : "m" , "params" : { } } ',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":7}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{ "\\u0061" : {} , "b":"," }}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":1,"a":2}}}',
        b'{"method":"m","vendor":[1],"id":1,"jsonrpc":"2.0"}',
        b'{"vendor":1,"id":1,"result":{"a":1,"a":2},"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","id":"é","method":"é","params":{"é":"é"}}'.encode(),
    ],
)
def test_what_only_looks_like_duplicates_is_taken(data: bytes) -> None:
    decode(data)


CROWD = ",".join(f'"é{i}":1' for i in range(MAX_MEMBERS + 1))
CROWDS = [
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{%s}}', -32602, "params has more"),
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{%s}}}', -32602, "params._meta has more"),
    ('{"jsonrpc":"2.0","id":1,"method":"m",%s}', -32600, "The message has more"),
    ('{"jsonrpc":"2.0","id":1,"result":7,%s}', -32600, "The message has more"),
]


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize(("form", "code", "text"), CROWDS)
def test_a_crowd_of_members_is_refused(form: str, code: int, text: str) -> None:
    error = refusal((form % CROWD).encode())
    assert (error.failure.code, error.id) == (code, 1)
    assert text in str(error)


@pytest.mark.parametrize(
    "form",
    [
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{%s}}}',
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{%s},"_meta":{}}}',
        '{"jsonrpc":"2.0","id":1,"result":{%s}}',
    ],
)
def test_what_is_not_opened_may_have_any_number_of_members(form: str) -> None:
    decode((form % CROWD).encode())


def test_large_arguments_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for the beginning, and for the members beside them."""
    counted = []
    real = byte_checks.members

    def watched(data: bytes) -> tuple[int, int, int]:
        counted.append(len(data))
        return real(data)

    monkeypatch.setattr(byte_checks, "members", watched)
    rows = ",".join(['{"a":"b"}'] * 100_000)
    form = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"n","arguments":{"rows":[%s]},"_meta":{%s}}}'
    decode((form % (rows, "")).encode())
    assert counted == [PREFIX_BYTES]
    assert "params._meta has more" in str(refusal((form % (rows, CROWD)).encode()))


def test_a_crowd_in_what_is_no_object_is_no_object() -> None:
    error = refusal(f'{{"jsonrpc":"2.0","id":1,"method":"m","params":[{{{CROWD}}}]}}'.encode())
    assert "params is a JSON object" in str(error)


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("form", [form for form, _, _ in CROWDS])
def test_a_crowd_is_refused_before_it_takes_memory(form: str) -> None:
    crowd = ",".join(f'"{number:07}":1' for number in range(100_000))
    data = (form % crowd).encode()
    tracemalloc.start()
    refusal(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(data)


# --- depth ----------------------------------------------------------------------------------------------------------


def nested(levels: int) -> bytes:
    """A message that is `levels` deep; the envelope and params are two of them."""
    inside = b"[" * (levels - 2) + b"]" * (levels - 2)
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + inside + b"}}"


@pytest.mark.covers("SEC-13", "M-10", "F-P-10")
@pytest.mark.parametrize("strict", [True, False])
def test_the_limit_of_depth_is_exact(strict: bool) -> None:
    assert isinstance(decode(nested(MAX_DEPTH), strict=strict), Request)
    error = refusal(nested(MAX_DEPTH + 1), strict=strict)
    assert (error.failure.code, error.id) == (-32700, 1)
    assert "128" in str(error)


HOSTILE = {
    "open brackets": b"[" * (1 << 20),
    "many stacks": b"[" + b",".join([b"[" * 120 + b"]" * 120] * 4000) + b"]",
    "an unfinished string of escapes": b"[" * 200 + b'"' + b'\\"' * (1 << 19),
    "strings of brackets": b"[" + b'"[",' * (1 << 18) + b"1]",
    "lone surrogates": b'{"jsonrpc":"2.0","id":1,"result":"' + b"\\ud800" * (1 << 17) + b'"}',
    "line separators": b'{"jsonrpc":"2.0","id":1,"result":"' + "\u2028".encode() * (1 << 18) + b'"}',
    "escaped names": b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[' + b"1," * (1 << 19) + b'1],"\\u0062":1}}',
    "crowds": b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"":' + b',"":'.join([b"0"] * (1 << 18)) + b"}}",
    "backslashes": b'"' + b"\\" * (1 << 20) + "\u2028".encode(),
}


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("name", HOSTILE)
def test_refusing_takes_linear_time(name: str) -> None:
    """1 MB each; the quadratic ways this guards against took minutes, so the bound may be generous."""
    began = time.process_time()
    with contextlib.suppress(RemoteProtocolError):
        decode(HOSTILE[name])
    assert time.process_time() - began < 1


# --- frames ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-12", "M-11")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n", b" \n\t\r "])
def test_a_message_hidden_in_another_stays_inside(end: bytes) -> None:
    hidden = b'{"jsonrpc":"2.0","id":666,"method":"tools/call","params":{"name":"forbidden"}}'
    data = end.join(
        [b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","arguments":[', hidden, b"]}}"]
    )
    message = decode(data)
    assert isinstance(message, Request)
    again = encode_request(2, message.method, message.params)
    assert not re.search(rb"[\r\n]", again)
    assert json.loads(again)["params"]["arguments"] == [json.loads(hidden)]


@pytest.mark.covers("SEC-12")
@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\u0085"])
def test_unicode_line_ends_are_escaped_in_and_out(end: str) -> None:
    data = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {f"{end}k": f"a{end}\\{end}"}}, ensure_ascii=False
    )
    message = decode(data.encode())
    assert isinstance(message, Request)
    assert end.encode() not in bytes(message.params[f"{end}k"])
    outputs = [
        encode_request(end, end, message.params),
        encode_notification(end, message.params),
        encode_notification(end, {}),
        encode_response(end, Result(Raw(jsonrpc.encode(end)))),
        encode_response(end, Failure(1, end, Raw(jsonrpc.encode(end)))),
    ]
    for output in outputs:
        assert len(output.decode().splitlines()) == 1
        assert end in json.dumps(json.loads(output), ensure_ascii=False)


def test_an_escaped_line_end_is_no_json_and_does_not_become_json() -> None:
    for end in ("\u2028", "\u2029", "\u0085"):
        data = f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":"\\{end}"}}}}'
        assert refusal(data.encode()).failure.code == -32700
        assert isinstance(decode(data.replace("\\", "\\\\").encode()), Request)


@pytest.mark.covers("M-10", "F-P-10")
def test_lone_surrogates_become_replacement_characters() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":1,"result":"a\\ud83d \\uD83D\\uDE00 \\ude00\\\\ud83d\\\\\\ud83d"}')
    assert isinstance(message, Response)
    assert isinstance(message.reply, Result)
    assert json.loads(bytes(message.reply.value)) == "a\ufffd \U0001f600 \ufffd\\ud83d\\\ufffd"


# --- properties -----------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=12,
)
PARAMS = st.dictionaries(WORDS, VALUES, max_size=4)
IDS = st.integers(-MAX_ID, MAX_ID) | WORDS.filter(lambda text: len(text.encode()) <= 256)


def raws(params: dict[str, object]) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value, ensure_ascii=False).encode()) for name, value in params.items()}


@given(IDS, WORDS, PARAMS)
def test_what_is_encoded_is_decoded_again(id: int | str, method: str, params: dict[str, object]) -> None:
    assert plain(decode(encode_request(id, method, raws(params)))) == (id, method, params)
    assert plain(decode(encode_notification(method, raws(params)))) == (None, method, params)
    assert plain(decode(encode_response(id, Result(jsonrpc.raw(params))))) == (id, params)
    assert plain(decode(encode_response(id, Failure(5, method, jsonrpc.raw(params))))) == (id, 5, method, params)
    assert "id" not in json.loads(encode_response(None, Failure(5, method)))


LAYOUTS = st.sampled_from([None, 0, 2])


@given(IDS, WORDS, PARAMS, LAYOUTS, st.booleans())
def test_any_writer_is_understood(id: int | str, method: str, params: dict, indent: int | None, ascii: bool) -> None:
    data = json.dumps(
        {"id": id, "jsonrpc": "2.0", "params": params, "method": method}, indent=indent, ensure_ascii=ascii
    )
    assert plain(decode(data.encode())) == (id, method, params)


MESSAGE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": "é\n",
        "method": "tools/call",
        "params": {"name": "a\u2028", "arguments": {"x": [1, 2.5, None]}, "_meta": {"progressToken": 1}},
    },
    ensure_ascii=False,
    indent=1,
).encode()


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(MESSAGE)),
            st.integers(0, 3),
            st.sampled_from(
                [b"", b'"', b"\\", b"\n", b"\r", b"{", b"}", b",", b":", b"\xff", b"1", b"\\u0061", b"\\ud800"]
            )
            | st.binary(max_size=3),
        ),
        max_size=4,
    )
)
@example([])
@pytest.mark.covers("SEC-11", "SEC-12", "SEC-13", "F-P-10")
def test_whatever_is_taken_is_read_alike_by_another_parser(edits: list[tuple[int, int, bytes]]) -> None:
    """A differential fuzz: a message with a few bytes changed is refused, or means the same to Python's own reader."""
    data = MESSAGE
    for at, cut, put in edits:
        data = data[:at] + put + data[at + cut :]
    try:
        message = decode(data)
    except RemoteProtocolError:
        return
    if isinstance(message, Request):
        again = encode_request(message.id, message.method, message.params)
    elif isinstance(message, Notification):
        again = encode_notification(message.method, message.params)
    else:
        again = encode_response(message.id, message.reply)
    assert not re.search(rb"[\r\n\0]|\xe2\x80[\xa8\xa9]|\xc2\x85", again)
    assert facts(again) == re.sub("[\ud800-\udfff]", "\ufffd", facts(data))


def facts(data: bytes) -> str:
    """What a message says to Python's own reader; absent params are as good as empty ones."""
    message = json.loads(data)
    return json.dumps([message.get(name) or None for name in ("id", "method", "params", "result")], ensure_ascii=False)


# --- batches and objects --------------------------------------------------------------------------------------------


@pytest.mark.covers("B-15", "F-H-09")
def test_batches() -> None:
    assert jsonrpc.is_batch(b" \r\n\t[]")
    assert not jsonrpc.is_batch(b'{"a":[]}')
    assert jsonrpc.split_batch(b'[{"a":\n1}, 2]') == [b'{"a":1}', b"2"]
    for data, code in ((b"[]", -32600), (b"[", -32700), (b"{}", -32600), (b"[1\n", -32700), (b'{"a":1\n}', -32600)):
        with pytest.raises(RemoteProtocolError) as caught:
            jsonrpc.split_batch(data)
        assert caught.value.failure.code == code


@pytest.mark.covers("SEC-13")
def test_a_batch_of_too_many_is_refused_before_it_takes_memory() -> None:
    assert len(jsonrpc.split_batch(b"[%b0]" % (b"0," * (jsonrpc.MAX_PARTS - 1)))) == jsonrpc.MAX_PARTS
    data = b"[%b0]" % (b"0," * 100_000)
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match="at most length 256"):
        jsonrpc.split_batch(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(data)


def test_objects_one_level_at_a_time() -> None:
    assert jsonrpc.open_object(b'{"a":{"b":1}}') == {"a": Raw(b'{"b":1}')}
    with pytest.raises(RemoteProtocolError) as caught:
        jsonrpc.open_object(Raw(b"[1]"))
    assert caught.value.failure.code == -32602
    for peek, value, wanted, nothing in (
        (jsonrpc.peek_object, b'{"a":1}', {"a": Raw(b"1")}, {}),
        (jsonrpc.peek_array, b"[1]", [Raw(b"1")], []),
        (jsonrpc.peek_str, b'"a"', "a", None),
    ):
        assert peek(Raw(value)) == wanted
        assert peek(value) == wanted
        assert peek(None) == nothing
        assert peek(b"7") == nothing
        assert peek(b"{") == nothing


def test_detached_values_do_not_keep_their_message() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}')
    assert isinstance(message, Response)
    assert isinstance(message.reply, Result)
    kept = jsonrpc.detach(message.reply.value)
    assert kept == message.reply.value
    assert jsonrpc.raw({"a": kept}) == Raw(b'{"a":{"a":1}}')


def test_deep_recursion_in_the_parser_is_a_malformed_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The depth limit prevents it; if it happened all the same, it would be an answer and not a crash."""

    def overflow(data: bytes) -> object:
        return msgspec.json.decode(b"[" * 5000)

    monkeypatch.setattr(jsonrpc, "_decode_opened", overflow)
    monkeypatch.setattr(jsonrpc, "_decode_envelope", overflow)
    assert refusal(b'{"jsonrpc":"2.0","id":3,"method":"m"}').failure.code == -32700


@pytest.mark.covers("SEC-13")
def test_a_crowd_is_not_opened():
    few = level_item_limit.MAX_OPENED
    for padding in (b"", b" " * 100_000):
        full = Raw(b"{%b%b}" % (b",".join([b'"%d":{"a":0}' % number for number in range(few)]), padding))
        assert len(jsonrpc.peek_object(full)) == len(jsonrpc.open_object(full)) == few
        crowd = Raw(b'{%b,"one more":0%b}' % (bytes(full)[1:-1].rstrip(), padding))
        assert jsonrpc.peek_object(crowd) == {}
        with pytest.raises(RemoteProtocolError, match="more than"):
            jsonrpc.open_object(crowd)
        items = Raw(b"[%b%b]" % (b",".join([b'{"a":0}'] * few), padding))
        assert len(jsonrpc.peek_array(items)) == few
        assert jsonrpc.peek_array(Raw(b"[{},%b]" % bytes(items)[1:-1])) == []
    late = Raw(b'{"a":"%b",%b}' % (b"x" * 1_000_000, b",".join([b'"%d":0' % number for number in range(few)])))
    assert jsonrpc.peek_object(late) == {}
    assert level_item_limit.first_items(items, 3) == [Raw(b'{"a":0}')] * 3


@pytest.mark.covers("SEC-13", "I-5")
def test_a_crowd_takes_no_memory():
    objects = Raw(b"[%b]" % b",".join([b"{}"] * 1_000_000))
    members = Raw(b"{%b}" % b",".join([b'"%d":0' % number for number in range(300_000)]))
    tracemalloc.start()
    assert jsonrpc.peek_array(objects) == []
    assert jsonrpc.peek_object(members) == {}
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


@pytest.mark.covers("SEC-13")
def test_what_is_large_for_another_reason_is_opened():
    rows = {"rows": {str(number): number for number in range(2 * level_item_limit.MAX_OPENED)}}
    value = jsonrpc.raw({"content": [{"type": "text", "text": json.dumps(rows)}], "structuredContent": rows})
    assert list(jsonrpc.peek_object(value)) == ["content", "structuredContent"]
    other = jsonrpc.raw({"extra": rows, "more": [rows]})
    assert list(jsonrpc.open_object(other)) == ["extra", "more"]
    own = jsonrpc.raw({"tools": [{}] * 3 * level_item_limit.MAX_OPENED})
    assert len(jsonrpc.own_items(own, "tools")) == 3 * level_item_limit.MAX_OPENED
    assert level_item_limit.is_long_array(jsonrpc.raw([{}] * 3 * level_item_limit.MAX_OPENED))
    assert not level_item_limit.is_long_array(jsonrpc.raw(rows))


@pytest.mark.parametrize("text", ["x", "\u2028", "\u00fc"])
@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("id", [7, "a", None])
def test_pieces_make_the_response(id, size, text):
    value = json.dumps({"text": text * size}, ensure_ascii=False).encode()
    start = b'{"jsonrpc":"2.0",' + (b"" if id is None else b'"id":%b,' % json.dumps(id).encode())
    whole = start + b'"result":' + value.replace("\u2028".encode(), rb"\u2028") + b"}"
    on_one_line = value.replace("\u2028".encode(), rb"\u2028")
    for reply in (
        Result(Raw(value)),
        Result(Raw(on_one_line), is_plain=True),
        PiecedResult(EMPTY, pieces=(on_one_line[:3], on_one_line[3:])),
    ):
        pieces = response_pieces(id, reply)
        assert isinstance(pieces, tuple) is (len(whole) > LARGE_BYTES)
        assert join(pieces) == encode_response(id, reply) == whole
    assert reply.value == Raw(on_one_line)


def test_the_large_text_of_a_tool_leaves_as_it_came():
    data = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b"}]}}' % (b"x" * 100_000)
    reply = decode(data, strict=False).reply
    tracemalloc.start()
    pieces = response_pieces(2, reply)
    assert tracemalloc.get_traced_memory()[1] < 10_000
    tracemalloc.stop()
    assert join(pieces) == data.replace(b'"id":1', b'"id":2')
