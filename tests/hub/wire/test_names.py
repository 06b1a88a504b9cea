import pytest

from hub.wire.jsonrpc import RemoteProtocolError, raw
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.request_names import MAX_STRINGS, read_strings


def test_each_string_once():
    assert read_strings(raw(["b", "a", "b", ""]), "uris") == ["b", "a", ""]
    assert read_strings(raw([]), "uris") == []


@pytest.mark.covers("F-H-24")
def test_as_many_as_anybody_needs():
    most = [str(number) for number in range(MAX_STRINGS)]
    assert read_strings(raw(most), "uris") == most
    with pytest.raises(RemoteProtocolError, match=f"uris is a list of at most {MAX_STRINGS} strings") as error:
        read_strings(raw(["a"] * (MAX_STRINGS + 1)), "uris")
    assert error.value.failure.code == INVALID_PARAMS


@pytest.mark.parametrize("value", [{}, "a", None, 1, [1], ["a", None], [["a"]]])
def test_what_is_no_list_of_strings(value):
    with pytest.raises(RemoteProtocolError, match="uris is a list"):
        read_strings(raw(value), "uris")
