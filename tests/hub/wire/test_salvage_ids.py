"""Ids recovered from a message that is not JSON; nothing inside its values is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.wire.jsonrpc import encode
from hub.wire.salvage_ids import EDGE, MOST, MOST_COMMAS, MOST_MEMBERS, Salvaged, salvage
from tests.support.counting import lines_of

ANSWER = Salvaged(7, is_request=False, is_answer=True)
REQUEST = Salvaged(7, is_request=True, is_answer=False)
UNKNOWN = Salvaged(None, is_request=False, is_answer=False)
LONG = b"\x01" * 2 * EDGE


@pytest.mark.covers("F-P-10")
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}', [ANSWER]),
        (b'{"result":[NaN,{"id":3}],"id":7,"jsonrpc":"2.0"}', [ANSWER]),
        (b'{"jsonrpc":"2.0","id":7,"error":{"x":NaN,"id":3}}', [ANSWER]),
        (b'\xef\xbb\xbf {"id" : 7, "result" : "' + LONG, [ANSWER]),
        (b'{"result":"' + LONG + b'","id":7}\r', [ANSWER]),
        (b'{"id":7,"method":"m","params":{"x":NaN}}', [REQUEST]),
        (b'{"params":{"x":NaN},"method":"m","id":7}', [REQUEST]),
        (b'{"id":7,"params":{"x":NaN},"method":"m"}', [REQUEST]),
        (b'{"id":"a-7","result":NaN}', [Salvaged("a-7", is_request=False, is_answer=True)]),
        (b'{"id":7.5,"result":NaN}', [Salvaged(None, is_request=False, is_answer=True)]),
        (b'{"id":"\\u0037","result":NaN}', [Salvaged(None, is_request=False, is_answer=True)]),
        (b'{"result":{"id":7,"x":NaN}}', [Salvaged(None, is_request=False, is_answer=True)]),
        (b'{"result":{"x":NaN,"id":7}}', [Salvaged(None, is_request=False, is_answer=True)]),
        (b'{"x":NaN,"id":7}', [Salvaged(7, is_request=False, is_answer=False)]),
        (b'{"x":' + b"9" * 2 * EDGE + b"}", [UNKNOWN]),
        (b"", [UNKNOWN]),
        (b"{", [UNKNOWN]),
        (b"[1", [UNKNOWN]),
        (b"Listening on port 7", [UNKNOWN]),
    ],
)
def test_what_is_found(data, found):
    assert salvage(data) == found


@pytest.mark.covers("F-P-10")
def test_several_messages_on_one_line():
    lines = [b'{"jsonrpc":"2.0","id":%d,"result":{"t":"}{\\"jsonrpc\\":"}}' % number for number in range(3)]
    assert [each.id for each in salvage(b"".join(lines))] == [0, 1, 2]
    assert [each.id for each in salvage(b" ".join(lines))] == [0, 1, 2]
    nested = b'{"jsonrpc":"2.0","id":7,"result":[%b,NaN]}' % b",".join(lines)
    assert salvage(nested) == [ANSWER]
    assert len(salvage(lines[0] * 1000)) <= MOST + 1


@pytest.mark.covers("F-P-10")
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_nothing_within_a_result_is_taken_for_the_message(value):
    inner = encode({"id": 3, "method": "m", "value": value, "error": {}})
    for whole in (b'{"id":7,"result":[%b,NaN]}', b'{"result":[%b,NaN],"id":7}'):
        assert salvage(whole % inner) == [ANSWER]


@pytest.mark.covers("F-P-07", "F-P-10", "I-3")
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0"%b' % (b',"a":1' * 170),
        b'{"jsonrpc":"2.0"%b}' % (b',"a":1' * 170),
        b'{"jsonrpc":"2.0","a":"%b' % (b"," * 1_000),
        b'{"a":"%b"}' % (b"," * 1_000),
        b'{"jsonrpc":"2.0","result":{%b}' % (b',"id":"1"' * 110),
    ],
)
def test_only_so_many_members_are_looked_at_from_the_end(line):
    """Each search takes time linear in the bytes searched, so the number of searches is limited."""
    assert lines_of(lambda: salvage(line)) <= 3 * MOST_MEMBERS * MOST_COMMAS + 100
