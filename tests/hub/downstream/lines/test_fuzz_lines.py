"""Malformed lines on a host's connection: no crash, no hang, nothing left behind, and the connection goes on.

`HUBD_FUZZ=10000 pytest tests/hub/downstream/lines/test_fuzz_lines.py` for the long run; `HUBD_FUZZ_SEED` to repeat one.
"""

import os
import random
import socket

import msgspec
import pytest
import trio
import trio.lowlevel

from hub.downstream.host_conversations import Hosts
from hub.downstream.lines.connection import LineHost
from hub.wire.jsonrpc import encode
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, L2, L4, MODERN, TOOLS_CALL, VERSION_KEY
from tests.support.http_fakes import ALICE, Scripted, call
from tests.support.schemas import validate

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))
SEED = int(os.environ.get("HUBD_FUZZ_SEED", "1"))

META = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}, "progressToken": 3}
CORPUS = [
    encode(message)
    for message in (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": L4, "capabilities": {}}},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": L2, "capabilities": {}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2, "reason": "x"}},
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        {"jsonrpc": "2.0", "id": 5, "method": "logging/setLevel", "params": {"level": "error"}},
        {"jsonrpc": "2.0", "id": 6, "result": {}},
        {"jsonrpc": "2.0", "id": 6, "error": {"code": 1, "message": "x", "data": [1]}},
        call("echo", 2),
        call("progress", 3, token="ü"),
        call("log", "4"),
        [call("echo", 7), call("log", 8), {"jsonrpc": "2.0", "method": "x"}],
        {"jsonrpc": "2.0", "id": 9, "method": TOOLS_CALL, "params": {"name": "progress", "_meta": META}},
        {"jsonrpc": "2.0", "id": 10, "method": "nothing/such", "params": {"_meta": META}},
    )
]
PIECES = [
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"1e999", b"-", b"\\ud800", b"\\u0000", b"\0", b"\r"),
    *(
        b"\xff",
        b"\xc3",
        b"\xe2\x80\xa8",
        b'"id":1,',
        b'"id":null,',
        b'"jsonrpc":"2.0",',
        b'"method":"ping",',
        b"{}" * 9,
    ),
    *(b'"params":{},', b'"_meta":{},', b"{}" * 9, b"[" * 200, b'{"a":' * 200, b"9" * 400, b'"x":1111', b"\xef\xbb\xbf"),
]


def mutated(chance: random.Random) -> bytes:
    """A line that was a message, or nearly one."""
    line = bytearray(chance.choice(CORPUS))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(line) + 1)
        match chance.randrange(6):
            case 0:
                line[at:at] = chance.choice(PIECES)
            case 1:
                del line[at : at + chance.randrange(1, 12)]
            case 2:
                line[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                other = chance.choice(CORPUS)
                line[at:] = other[chance.randrange(len(other)) :]
            case 4:
                line[at:at] = line[chance.randrange(len(line) + 1) :][: chance.randrange(40)]
            case 5:
                line = line.replace(chance.choice((b"1", b'"', b"{", b"2.0", b"id")), chance.choice(PIECES), 1)
    return bytes(line).replace(b"\n", b" ")


def sound(line: bytes) -> None:
    """What the hub may say: valid in the newest legacy revision or in the modern one, or a batch of such."""
    message = msgspec.json.decode(line)
    for part in message if isinstance(message, list) else [message]:
        assert part["jsonrpc"] == "2.0"
        newest = MODERN if "resultType" in part.get("result", {}) else L4
        validate(msgspec.json.encode(part), newest, sender="server")


@pytest.mark.covers("F-H-08", "SEC-11", "SEC-13", "I-12")
async def test_malformed_lines():
    chance = random.Random(SEED)
    router, hosts = Scripted(), Hosts()
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    async with trio.open_nursery() as nursery, ours, theirs:
        tasks = trio.lowlevel.current_statistics().tasks_living
        nursery.start_soon(lambda: LineHost(theirs, ALICE, router, hosts).serve())
        buffer = b""
        for number in range(COUNT):
            line = mutated(chance)
            mark = f"mark-{number}".encode()
            ping = b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % mark
            cuts = sorted(chance.randrange(len(line) + 1) for _ in range(chance.randrange(3)))
            for start, end in zip([0, *cuts], [*cuts, len(line)], strict=True):
                await ours.send_all(line[start:end])
            await ours.send_all(b"\n" + ping + b"\n")
            with trio.fail_after(30):
                while mark not in buffer.rpartition(b"\n")[0]:
                    data = await ours.receive_some(1 << 16)
                    assert data, f"the connection ended after {line!r}"
                    buffer += data
            *lines, buffer = buffer.split(b"\n")
            for said in lines:
                sound(said)
        await ours.aclose()
        while len(hosts):
            await trio.lowlevel.checkpoint()
        while trio.lowlevel.current_statistics().tasks_living > tasks:
            await trio.lowlevel.checkpoint()
    assert hosts.requests.count == 0
