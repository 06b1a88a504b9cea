"""Metadata of the per-request era: which requests are modern, which are refused and how, and the hub's own requests."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hub.wire.capabilities import ServerFacts, read_initialize_result
from hub.wire.http.mirror_headers import encode_header
from hub.wire.jsonrpc import RemoteProtocolError, raw
from hub.wire.mcp import HOP_KEYS, MODERN, NAMED_BY, PREFIX
from hub.wire.modern_metadata import (
    MAX_META_BYTES,
    Metadata,
    RequestRefusal,
    check_headers,
    newest_mutual,
    progress_token,
    read_discover_result,
    read_freshness,
    read_metadata,
    read_number,
    request_headers,
    slightly_above,
    split_params,
    stamp,
)
from hub.wire.upstream_snapshot import Freshness


def meta(**members: object) -> dict[str, Raw]:
    """Params with a `_meta` of protocol keys, `protocolVersion` and the like."""
    return {"_meta": Raw(json.dumps({PREFIX + name: value for name, value in members.items()}).encode())}


def refused(params: dict[str, Raw], headers: dict[str, str] | None = None) -> RequestRefusal:
    with pytest.raises(RequestRefusal) as caught:
        read_metadata(params, headers)
    assert caught.value.status == 400
    return caught.value


# --- metadata -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-20")
def test_what_a_host_says_of_itself_has_a_limit():
    large = {"name": "x" * MAX_META_BYTES, "version": "1"}
    with pytest.raises(RequestRefusal, match="more than"):
        read_metadata(meta(protocolVersion=MODERN, clientCapabilities={}, clientInfo=large))
    own = Raw(json.dumps({"of its own": large}).encode())
    assert read_metadata({"_meta": own}) is None, "a legacy host may send what it likes"


@pytest.mark.covers("B-10", "B-11", "N-9")
def test_a_modern_request() -> None:
    params = meta(
        protocolVersion=MODERN,
        clientCapabilities={"sampling": {"tools": {}}, "x": []},
        clientInfo={"name": "host"},
        logLevel="info",
    )
    assert read_metadata(params) == Metadata(
        MODERN, {"sampling": Raw(b'{"tools": {}}'), "x": Raw(b"[]")}, "info", Raw(b'{"name": "host"}')
    )
    assert read_metadata(meta(protocolVersion=MODERN, clientCapabilities={})) == Metadata(MODERN, {}, None, None)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": Raw(b"7")},
        {"_meta": Raw(b"{}")},
        {"_meta": Raw(b'{"progressToken":1}')},
        meta(clientCapabilities=7),
    ],
)
def test_a_request_without_a_revision_is_not_modern(params: dict[str, Raw]) -> None:
    assert read_metadata(params) is None


@pytest.mark.covers("V-2", "V-27", "T-22", "F-H-18")
@pytest.mark.parametrize("version", ["2025-11-25", "1900-01-01", ""])
def test_a_revision_not_spoken_per_request(version: str) -> None:
    error = refused(meta(protocolVersion=version, clientCapabilities={}))
    assert error.failure.code == -32022
    assert error.failure.data is not UNSET
    assert json.loads(bytes(error.failure.data)) == {
        "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "requested": version,
    }


@pytest.mark.covers("B-10", "T-22", "S-7")
@pytest.mark.parametrize(
    "params",
    [
        meta(protocolVersion=MODERN),
        meta(protocolVersion=MODERN, clientCapabilities=None),
        meta(protocolVersion=MODERN, clientCapabilities=[]),
        meta(protocolVersion=20260728, clientCapabilities={}),
        meta(protocolVersion=MODERN, clientCapabilities={}, logLevel="loud"),
        meta(protocolVersion=MODERN, clientCapabilities={}, logLevel=3),
    ],
)
def test_incomplete_metadata(params: dict[str, Raw]) -> None:
    assert refused(params).failure.code == -32602


@pytest.mark.covers("H-1", "H-8", "T-22", "F-H-17")
def test_the_version_header_is_judged_first() -> None:
    params = meta(protocolVersion="1900-01-01")
    assert refused(params, {}).failure.code == -32020
    assert refused(params, {"mcp-protocol-version": MODERN}).failure.code == -32020
    assert refused(params, {"mcp-protocol-version": "1900-01-01"}).failure.code == -32022
    fine = meta(protocolVersion=MODERN, clientCapabilities={})
    assert read_metadata(fine, {"mcp-protocol-version": MODERN}) is not None


# --- headers --------------------------------------------------------------------------------------------------------

CALL = {"name": Raw('"wörter"'.encode()), "arguments": Raw(b"{}")}
RIGHT = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "=?base64?d8O2cnRlcg==?="}


@pytest.mark.covers("H-1", "H-2", "H-3", "H-5", "H-7", "H-8", "F-H-17", "SEC-14")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mcp-protocol-version", None),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", None),
        ("mcp-method", "Tools/call"),
        ("mcp-method", "tools/list"),
        ("mcp-name", None),
        ("mcp-name", ""),
        ("mcp-name", "WÖRTER"),
        ("mcp-name", "=?base64?d8O2cnRlcg?="),
        ("mcp-name", "=?base64?eA==?="),
    ],
)
def test_headers_that_do_not_repeat_the_body(name: str, value: str | None) -> None:
    check_headers(RIGHT, "tools/call", CALL, MODERN)
    headers = {header: text for header, text in RIGHT.items() if header != name}
    if value is not None:
        headers[name] = value
    with pytest.raises(RequestRefusal) as caught:
        check_headers(headers, "tools/call", CALL, MODERN)
    assert (caught.value.status, caught.value.failure.code) == (400, -32020)


@pytest.mark.covers("H-3", "H-8")
def test_a_name_is_needed_where_the_body_has_one() -> None:
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call"}
    check_headers(headers, "tools/call", {}, MODERN)
    check_headers(headers, "tools/call", {"name": Raw(b"7")}, MODERN)
    with pytest.raises(RequestRefusal):
        check_headers({**headers, "mcp-name": "x"}, "tools/call", {}, MODERN)
    check_headers({**headers, "mcp-method": "tools/list", "mcp-name": "any"}, "tools/list", {}, MODERN)


NAMES = st.text(st.characters(codec="utf-8"))


@pytest.mark.covers("H-2", "H-3", "H-4", "H-6", "H-17", "SEC-14")
@given(st.sampled_from([*NAMED_BY, "tools/list", "server/discover"]), NAMES)
def test_our_headers_pass_our_own_check(method: str, name: str) -> None:
    params = {"name": Raw(json.dumps(name).encode()), "uri": Raw(json.dumps(name, ensure_ascii=False).encode())}
    params["taskId"] = params["name"]
    headers = request_headers(method, params, MODERN)
    check_headers({header.lower(): value.decode() for header, value in headers}, method, params, MODERN)
    assert (("Mcp-Name", encode_header(name)) in headers) == (method in NAMED_BY)


def test_a_call_of_ours_without_a_name_has_no_name_header() -> None:
    assert request_headers("tools/call", {}, MODERN) == [
        ("MCP-Protocol-Version", b"2026-07-28"),
        ("Mcp-Method", b"tools/call"),
    ]


# --- what crosses the hub -------------------------------------------------------------------------------------------


@pytest.mark.covers("G-2", "G-13", "B-20")
def test_hop_keys_end_here_and_others_pass() -> None:
    ours = dict.fromkeys(HOP_KEYS, 1) | {"progressToken": "é"}
    theirs = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor/key": {"a": [1]}}
    params = {"name": Raw(b'"x"'), "_meta": Raw(json.dumps({**ours, **theirs}).encode())}
    rest, foreign = split_params(params)
    token = progress_token(params)
    assert rest == {"name": Raw(b'"x"')}
    assert {name: json.loads(bytes(value)) for name, value in foreign.items()} == theirs
    assert token == Raw(b'"\\u00e9"')
    assert "_meta" in params


def test_params_without_meta_are_copied_too() -> None:
    params = {"name": Raw(b'"x"')}
    rest = split_params(params)
    assert rest == (params, {})
    assert rest[0] is not params
    assert split_params({"_meta": Raw(b"[]")}) == ({}, {})


@pytest.mark.covers("POL-01")
def test_no_member_passes_that_some_servers_take_for_one_that_was_judged():
    params = {"name": Raw(b'"a"'), "arguments": Raw(b"{}"), "cursor": Raw(b'"x"'), "later": Raw(b"1")}
    odd = (
        "Name",
        "NAME",
        "Arguments",
        "Argument\u017f",
        "URI",
        "Ref",
        "_Meta",
        "Task",
        "RequestState",
        "Context",
        "name\0",
    )
    assert split_params(params | {name: Raw(b"1") for name in odd}) == (params, {})


@pytest.mark.covers("C-1", "V-21", "G-13")
def test_our_stamp() -> None:
    bare = json.loads(bytes(stamp({}, version=MODERN, capabilities={})))
    assert bare[PREFIX + "protocolVersion"] == MODERN
    assert bare[PREFIX + "clientInfo"]["name"] == "hubd"
    assert bare[PREFIX + "clientCapabilities"] == {}
    assert len(bare) == 3
    full = stamp(
        {"traceparent": Raw(b'"00-1"'), PREFIX + "protocolVersion": Raw(b'"forged"')},
        version=MODERN,
        capabilities={"roots": Raw(b"{}")},
        log_level="debug",
        progress_token=9,
    )
    assert json.loads(bytes(full)) == bare | {
        "traceparent": "00-1",
        PREFIX + "clientCapabilities": {"roots": {}},
        PREFIX + "logLevel": "debug",
        "progressToken": 9,
    }
    assert read_metadata({"_meta": full}) is not None


# --- discovery ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("V-3", "B-7", "K-9")
def test_a_discover_result() -> None:
    value = {
        "resultType": "complete",
        "supportedVersions": [MODERN, "2025-11-25"],
        "capabilities": {"tools": {}},
        "instructions": "Do",
        "ttlMs": 5,
        "cacheScope": "public",
        "_meta": {PREFIX + "serverInfo": {"name": "x"}},
    }
    facts = ServerFacts(MODERN, {"tools": Raw(b"{}")}, {"name": Raw(b'"x"')}, "Do")
    assert read_discover_result(Raw(json.dumps(value).encode())) == ((MODERN, "2025-11-25"), facts)
    assert read_discover_result(Raw(b'{"supportedVersions":["x"]}')) == (("x",), ServerFacts("", {}, {}, ""))


@pytest.mark.covers("B-6", "B-7", "F-P-12")
@pytest.mark.parametrize(
    "value",
    [
        b"[]",
        b"{}",
        b'{"supportedVersions":[]}',
        b'{"supportedVersions":["2026-07-28",7]}',
        b'{"supportedVersions":"2026-07-28"}',
        b'{"supportedVersions":["x"],"resultType":"input_required"}',
        b'{"supportedVersions":["x"],"capabilities":[]}',
    ],
)
def test_what_is_no_discover_result(value: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_discover_result(Raw(value))


@pytest.mark.covers("K-9")
@pytest.mark.parametrize(
    ("ttl", "wanted"),
    [(b"60000", 60000), (b"-1", 0), (b"1.9", 1), (b'"5"', 0), (b"1e99", 2**53), (b"null", 0), (b"1e999", 0)],
)
def test_freshness(ttl: bytes, wanted: int) -> None:
    assert read_freshness({"ttlMs": Raw(ttl), "cacheScope": Raw(b'"shared"')}) == Freshness(wanted, False)
    assert read_freshness({}) == Freshness(0, False)


@pytest.mark.covers("V-3")
def test_the_newest_mutual_revision() -> None:
    assert newest_mutual(["2025-11-25", MODERN, "2027-01-01"]) == MODERN
    assert newest_mutual(["2025-11-25"]) is None
    assert newest_mutual([]) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    max_leaves=5,
)


@pytest.mark.covers("F-P-12", "SEC-16")
@given(JSON)
def test_whatever_a_peer_says_is_an_answer_or_a_protocol_error(value: object) -> None:
    said = Raw(json.dumps(value).encode().replace(b"Infinity", b"1e999"))
    for member in ("supportedVersions", "capabilities", "ttlMs", "_meta", "resultType", "instructions"):
        facts = b'{"supportedVersions":["x"],"protocolVersion":"2024-11-05","%b":%b}' % (member.encode(), bytes(said))
        for result in (said, Raw(facts)):
            with contextlib.suppress(RemoteProtocolError):
                read_discover_result(result)
            with contextlib.suppress(RemoteProtocolError):
                read_initialize_result(result)
    for member in ("protocolVersion", "clientCapabilities", "logLevel", "clientInfo"):
        spoilt = meta(**{"protocolVersion": MODERN, "clientCapabilities": {}, member: None})
        for found in (said, Raw(bytes(spoilt["_meta"]).replace(b"null", bytes(said)))):
            with contextlib.suppress(RequestRefusal):
                read_metadata({"_meta": found})
            split_params({"_meta": said})


@pytest.mark.covers("X-11", "R-19", "G-2")
def test_what_was_meant_for_the_hub_goes_no_further() -> None:
    params = {"name": raw("x"), "arguments": raw({"task": 1})}
    more = {**params, "task": raw({}), "inputResponses": raw({}), "requestState": raw("s")}
    assert split_params(more) == (params, {})


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
