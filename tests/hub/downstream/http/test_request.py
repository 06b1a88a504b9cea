"""Reads that were read before are recognised, and say what they would say if they were read anew."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.downstream.http.refusals import Refused
from hub.downstream.http.request import FIELDS, Posts, read_post
from hub.wire.jsonrpc import RemoteProtocolError, encode
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, L4, MODERN, VERSION_KEY

META = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {"sampling": {}}, CLIENT_INFO_KEY: {"name": "x"}}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "mcp-protocol-version": MODERN,
    "mcp-method": "resources/read",
    "mcp-name": "note:a",
    "mcp-session-id": "s",
}
PARAMS = {"uri": "note:a", "_meta": META}


def first(id: object, params: object = PARAMS, method: str = "resources/read") -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def last(id: object, params: object = PARAMS, method: str = "resources/read") -> bytes:
    return encode({"method": method, "params": params, "jsonrpc": "2.0", "id": id})


def outcome(read, headers: Mapping[str, str], body: bytes) -> object:
    try:
        return read(headers, body)
    except Refused as error:
        return error.status, error.failure, error.id
    except RemoteProtocolError as error:
        return error.failure, error.id


@pytest.mark.parametrize("spelled", [first, last])
def test_what_differs_in_the_id_alone_is_recognised(spelled):
    posts = Posts()
    for id in (0, 7, 10**15 - 1, 7):
        assert posts.read(HEADERS, spelled(id)) == read_post(HEADERS, spelled(id))
    assert len(posts._known) == 1
    for id in (-1, "7", 10**15):
        assert posts.read(HEADERS, spelled(id)) == read_post(HEADERS, spelled(id))
    assert len(posts._known) == 1


@pytest.mark.parametrize("spelled", [first, last])
def test_nothing_else_is_remembered(spelled):
    posts = Posts()
    others = {**HEADERS, "mcp-method": "tools/call", "mcp-name": "t"}
    posts.read(others, spelled(1, {"name": "t", "_meta": META}, "tools/call"))
    posts.read(HEADERS, spelled(1, {**PARAMS, "more": "x" * Posts.LARGEST}))
    with pytest.raises(Refused):
        posts.read({**HEADERS, "mcp-name": "note:b"}, spelled(1))
    with pytest.raises(RemoteProtocolError):
        posts.read(HEADERS, spelled(1)[:-1] + b',"id":2}')
    assert not posts._known


def test_no_more_than_a_thousand_are_remembered():
    posts = Posts()
    for n in range(Posts.LIMIT + 1):
        posts.read(HEADERS, first(1, {**PARAMS, "n": n}))
    assert len(posts._known) == 1


def test_what_is_done_to_the_one_is_not_done_to_the_other():
    posts = Posts()
    for id in (1, 2):
        params = posts.read(HEADERS, first(id)).message.params
        assert params.pop("uri")


class Watched(dict[str, str]):
    """A head that notes what is looked at."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(fields)
        self.seen: set[str] = set()

    def get(self, name: str, default: object = None) -> object:
        self.seen.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.seen.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return super().__contains__(name)


def test_no_other_field_of_a_head_is_looked_at():
    headers = Watched(HEADERS)
    read_post(headers, first(1))
    assert headers.seen == set(FIELDS)


bodies = st.one_of(
    st.builds(
        lambda spelled, params, cut: spelled(3, params)[cut:],
        st.sampled_from((first, last)),
        st.sampled_from(({"uri": "note:a"}, PARAMS, {**PARAMS, "id": 4}, {"uri": "note:a", "_meta": {"id": 4}}, [], 7)),
        st.sampled_from((0, 0, 0, 1)),
    ),
    st.sampled_from(
        (
            b'{"jsonrpc":"2.0","id":3,"method":"resources/read","id":4}',
            b'{"jsonrpc":"2.0","id":3,"method":"resources/read","result":{}}',
            b'{"method":"resources/read","params":{"uri":"note:a","x":{"y":0,"jsonrpc":"2.0","id":3}},"jsonrpc":"2.0","id":3}',
            b'{"method":"resources/read","jsonrpc":"2.0","x":{"y":0,"jsonrpc":"2.0","id":3}}',
            b'{"method":"resources/read","params":{"uri":"\\",\\"jsonrpc\\":\\"2.0\\",\\"id\\":3}"},"jsonrpc":"2.0","id":3}',
            b'{"method":"resources/read","x":",","jsonrpc":"2.0","id":3}',
            b'{"jsonrpc":"2.0","id":03,"method":"resources/read"}',
            b'{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"note:a"}}\n',
            b'{"jsonrpc":"2.0","id":3,"method":"resources/read",}',
        )
    ),
)
heads = st.fixed_dictionaries(
    {"content-type": st.sampled_from(("application/json", "text/plain"))},
    optional={
        "accept": st.sampled_from(("text/event-stream", "text/html")),
        "mcp-protocol-version": st.sampled_from((MODERN, L4)),
        "mcp-method": st.sampled_from(("resources/read", "ping")),
        "mcp-name": st.sampled_from(("note:a", "note:b")),
    },
)


@given(st.lists(st.tuples(heads | st.just(HEADERS), bodies, st.sampled_from((b"3", b"5", b"12345"))), max_size=12))
def test_what_is_recognised_says_what_it_would_say_anew(asked):
    posts = Posts()
    for headers, body, id in asked:
        for text in (body, body.replace(b'"id":3', b'"id":' + id)):
            assert outcome(posts.read, headers, text) == outcome(read_post, headers, text)
