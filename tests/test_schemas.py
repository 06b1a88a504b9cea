"""Tests of the schema check itself: examples of the specification pass, and each with one mistake fails."""

import json

import pytest

from tests.support.schemas import Invalid, validate

L1, L2, L3, L4, M = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": M, "io.modelcontextprotocol/clientCapabilities": {}}
INIT = {"protocolVersion": L4, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


def message(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def result(value: object) -> bytes:
    return message(id=1, result=value)


RIGHT = [
    *((message(id=1, method="initialize", params=INIT), version, "client", None) for version in (L1, L2, L3, L4)),
    *((result({}), version, "server", "ping") for version in (L1, L2, L3, L4)),
    *((result({"content": []}), version, "server", "tools/call") for version in (L1, L2, L3, L4)),
    *((message(id=1, error={"code": -32002, "message": ""}), version, "server", None) for version in (L1, L4)),
    (message(error={"code": -32700, "message": ""}), L4, "server", None),
    (message(method="notifications/initialized"), L1, "client", None),
    (message(id=1, method="tools/call", params={"name": "x", "_meta": META}), M, "client", None),
    (message(method="notifications/cancelled", params={"requestId": 1}), M, "client", None),
    (result({"resultType": "complete", "content": [], "structuredContent": [1.5, None]}), M, "server", "tools/call"),
    (result({"resultType": "input_required", "requestState": "x"}), M, "server", "tools/call"),
    (result({"resultType": "complete", "x": 1}), M, "server", None),
    (message(id=1, error={"code": -32020, "message": ""}), M, "server", None),
    (message(id=1, error={"code": -32602, "message": "", "data": 1}), M, "server", None),
    (
        message(id=1, error={"code": -32022, "message": "", "data": {"supported": [M], "requested": ""}}),
        M,
        "server",
        None,
    ),
    (result({"action": "accept", "content": {"x": 1.5}}), L3, "client", "elicitation/create"),
    (result({"action": "accept", "content": {"x": 1.5, "y": ["a"]}}), L4, "client", "elicitation/create"),
    (
        result({"task": {}}).replace(
            b"{}",
            json.dumps(
                {"taskId": "a", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": None}
            ).encode(),
        ),
        L4,
        "server",
        "tools/call",
    ),
    (
        b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":""}}]',
        L2,
        "server",
        None,
    ),
]

WRONG = [
    *((message(id=1, method="initialize", params={}), version, "client", None) for version in (L1, L2, L3, L4)),
    (message(id=1, method="initialize", params=INIT), M, "client", None),
    (message(id=1, method="tools/call", params={"name": "x"}), M, "client", None),
    (message(id=1, method="tools/call", params={"name": "x", "_meta": META}), M, "server", None),
    (message(id=1, method="roots/list"), M, "server", None),
    (message(id=None, method="ping"), L4, "client", None),
    (message(id=1, method="nonsense"), L4, "client", None),
    (message(method="notifications/progress", params={}), L4, "server", None),
    (message(method="notifications/initialized"), L4, "server", None),
    (message(error={"code": -32700, "message": ""}), L3, "server", None),
    (message(id=1, error={"code": "1", "message": ""}), L4, "server", None),
    (message(id=1, error={"code": -32002, "message": ""}), M, "server", None),
    (message(id=1, error={"code": -32042, "message": ""}), M, "server", None),
    (message(id=1, error={"code": -32022, "message": ""}), M, "server", None),
    (result({"content": []}), M, "server", "tools/call"),
    (result({"content": []}), M, "server", None),
    (result({"resultType": "else", "content": []}), M, "server", "tools/call"),
    (result({"resultType": "complete", "tools": []}), M, "server", "tools/list"),
    (result({"tools": [{"name": "x"}]}), L4, "server", "tools/list"),
    (result({"content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}), L1, "server", "tools/call"),
    (result({"content": [{"type": "resource_link", "name": "x", "uri": "a:b"}]}), L2, "server", "tools/call"),
    (result({"content": [], "structuredContent": [1]}), L4, "server", "tools/call"),
    (result({}), M, "server", "ping"),
    (result([]), L4, "server", "ping"),
    (b'{"jsonrpc":"2.0",\n"id":1,"result":{}}', L4, "server", "ping"),
    (b"[]", L2, "server", None),
    (b'[{"jsonrpc":"2.0","id":1,"result":{}}]', L3, "server", None),
    (b'[{"jsonrpc":"2.0","id":1,"result":7}]', L2, "server", None),
    (b"7", L4, "server", None),
]


@pytest.mark.parametrize(("data", "version", "sender", "method"), RIGHT)
def test_what_a_revision_allows(data, version, sender, method):
    validate(data, version, sender=sender, method=method)


@pytest.mark.parametrize(("data", "version", "sender", "method"), WRONG)
def test_what_a_revision_forbids(data, version, sender, method):
    with pytest.raises(Invalid):
        validate(data, version, sender=sender, method=method)
