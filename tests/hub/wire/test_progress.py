"""Progress: values that rise, and tokens."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire.jsonrpc import raw
from hub.wire.progress import progress_token, read_number, slightly_above


@pytest.mark.parametrize(
    ("value", "found"), [(b"1", 1.0), (b"-0.5", -0.5), (b"1e2", 100.0), (b'"1"', None), (b"null", None), (b"[1]", None)]
)
def test_what_is_a_number(value: bytes, found: float | None) -> None:
    assert read_number(Raw(value)) == found
    assert read_number(None) is None


@pytest.mark.covers("P-2")
@given(last=st.floats(allow_nan=False, allow_infinity=False, max_value=1e300))
def test_the_hubs_own_progress_rises_and_leaves_room(last: float) -> None:
    value = slightly_above(last)
    assert last < value <= max(last + 1e-6, math.nextafter(last, math.inf))
    assert read_number(raw(value)) == value


def test_it_begins_at_nothing() -> None:
    assert slightly_above(float("-inf")) == 0


@pytest.mark.covers("P-1")
@pytest.mark.parametrize(
    ("value", "token"),
    [("7", b"7"), ("-7", b"-7"), ('""', b'""'), ("1.5", b"1.5"), ("null", None), ("true", None), ("[]", None)],
)
def test_progress_tokens_keep_their_type(value: str, token: bytes | None) -> None:
    found = progress_token({"_meta": Raw(f'{{"progressToken":{value}}}'.encode())})
    assert found == (None if token is None else Raw(token))
    assert progress_token({}) is None
