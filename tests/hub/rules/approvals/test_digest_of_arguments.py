"""Digests of what a person is asked about."""

import pytest
from msgspec import Raw

from hub.rules.approvals.digest_of_arguments import digest_of
from hub.rules.settle_arguments import LARGE_BYTES


def digest(arguments):
    return digest_of("tools/call", Raw(arguments))


@pytest.mark.covers("POL-20")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"9007199254740993", b"9007199254740992"),
        (b"9007199254740993.0", b"9007199254740992.0"),
        (b"1234567890123456789", b"1234567890123456700"),
        (b"1e400", b"9e999"),
        (b"1e400", b"1" * 400),
        (b"1" * 5000, b"1" * 4999 + b"2"),
        (b"1e-400", b"0"),
        (b"0.99999999999999999999", b"1"),
        (b"9007199254740993", b'"9007199254740993"'),
        (b"1", b'{"":"1"}'),
        (b"[1,2]", b"[2,1]"),
        (b'"\\ud800"', b'"\\ud801"'),
        (b'"' + b"x" * LARGE_BYTES + b'"', b'"' + b"x" * LARGE_BYTES + b'y"'),
        (b"[" * 5000 + b"]" * 5000, b"[" * 5000 + b"1" + b"]" * 5000),
    ],
)
def test_other_arguments_have_another_digest(one, other):
    assert digest(b'{"n":%b}' % one) != digest(b'{"n":%b}' % other)


@pytest.mark.covers("POL-20")
def test_another_spelling_has_the_same_digest():
    assert digest(b'{"a":{"x":1.0,"y":-0},"b":"\\u0041"}') == digest(b' {"b":"A", "a":{"y":0,"x":1}}')
    assert digest(b"{}") != digest_of("completion/complete", Raw(b"{}"))
