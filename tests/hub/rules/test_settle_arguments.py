"""Arguments that mean one thing only."""

import pytest
from msgspec import Raw

from hub.link.call_interface import Operation
from hub.rules.settle_arguments import LARGE_BYTES, settle
from hub.wire.jsonrpc import RemoteProtocolError


def call(arguments):
    return Operation("tools/call", {"name": Raw(b'"t"'), "arguments": Raw(arguments)})


@pytest.mark.covers("POL-01")
@pytest.mark.parametrize("more", ["", "x" * LARGE_BYTES], ids=["small", "large"])
async def test_of_a_name_that_stands_twice_all_see_one_value(more):
    one = call(b'{"path":"/etc","path":"/tmp","n":1.50,"more":"%b"}' % more.encode())
    assert bytes((await settle(one)).params["arguments"]) == b'{"path":"/tmp","n":1.50,"more":"%b"}' % more.encode()


async def test_others_are_sent_as_they_came():
    for operation in (call(b'{ "path": "/tmp", "n": 1.50 }'), Operation("tools/call", {})):
        assert await settle(operation) is operation


async def test_what_cannot_be_read_is_refused():
    with pytest.raises(RemoteProtocolError, match="cannot be looked through"):
        await settle(call(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"))
