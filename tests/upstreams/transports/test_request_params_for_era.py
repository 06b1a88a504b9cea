"""What all sessions share: stamps, notifications, capabilities."""

import json

import pytest

from hub.link.call_interface import Operation
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import encode_request, raw
from hub.wire.mcp import L1, L4, MODERN, Era
from tests.support.fakes import FakeHost
from tests.support.schemas import validate
from upstreams.session_contract import SessionTerms, capability
from upstreams.transports.request_params_for_era import DeclaredCapabilities, stamp_call, stamp_own
from upstreams.transports.session_base import prefix_log, split_progress

ANYTHING = DeclaredCapabilities(SessionTerms())
CALL = Operation("tools/call", {"name": raw("t"), "arguments": raw({})})
TRACED = Operation("tools/call", {"name": raw("t")}, {"traceparent": raw("00-1-2-01")})


def meta_of(params):
    return json.loads(bytes(params["_meta"])) if "_meta" in params else None


# --- stamps -----------------------------------------------------------------------------------------------------------


def test_a_legacy_call_is_left_alone_unless_there_is_something_to_say():
    assert stamp_call(Era.LEGACY, L4, CALL, FakeHost(), 7, ANYTHING) is CALL.params
    assert meta_of(stamp_call(Era.LEGACY, L4, CALL, FakeHost(token="theirs"), 7, ANYTHING)) == {"progressToken": 7}
    assert meta_of(stamp_call(Era.LEGACY, L4, TRACED, FakeHost(), 7, ANYTHING)) == {"traceparent": "00-1-2-01"}
    both = meta_of(stamp_call(Era.LEGACY, L4, TRACED, FakeHost(token=1), 7, ANYTHING))
    assert both == {"traceparent": "00-1-2-01", "progressToken": 7}
    assert "_meta" not in CALL.params


@pytest.mark.covers("G-2", "P-1", "C-1")
def test_a_modern_call_says_everything_about_itself():
    host = FakeHost(version=MODERN, token="theirs", level="info", capabilities={"sampling": {}})
    meta = meta_of(stamp_call(Era.MODERN, MODERN, TRACED, host, 7, ANYTHING))
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"sampling": {}, **tasks}
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "hubd"
    assert meta["io.modelcontextprotocol/logLevel"] == "info"
    assert meta["progressToken"] == 7
    assert meta["traceparent"] == "00-1-2-01"
    quiet = meta_of(stamp_call(Era.MODERN, MODERN, CALL, FakeHost(), 7, ANYTHING))
    assert set(quiet) == {
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
    }


@pytest.mark.parametrize("version", [L1, L4, MODERN])
@pytest.mark.parametrize("host", [FakeHost(), FakeHost(token="theirs", level="error")])
def test_stamped_calls_are_valid(version, host):
    era = Era.MODERN if version == MODERN else Era.LEGACY
    for operation in (CALL, TRACED):
        message = encode_request(1, operation.method, stamp_call(era, version, operation, host, 1, ANYTHING))
        validate(message, version, sender="client")
    validate(encode_request(1, "tools/list", stamp_own(era, version, {})), version, sender="client")


def test_own_requests_are_bare_in_legacy_and_promise_nothing_in_modern():
    params = {"cursor": raw("x")}
    assert stamp_own(Era.LEGACY, L4, params) is params
    declared = meta_of(stamp_own(Era.MODERN, MODERN, params))["io.modelcontextprotocol/clientCapabilities"]
    apps = {"mimeTypes": ["text/html;profile=mcp-app"]}
    assert declared == {"extensions": {"io.modelcontextprotocol/ui": apps}}


@pytest.mark.covers("R-5")
@pytest.mark.parametrize(
    ("terms", "told"),
    [
        (SessionTerms(), {"roots", "sampling", "elicitation", "extensions"}),
        (SessionTerms(absorbs_tasks=False), {"roots", "sampling", "elicitation"}),
        (SessionTerms(tells_roots=False, absorbs_tasks=False), {"sampling", "elicitation"}),
        (SessionTerms(client_features="none", absorbs_tasks=False), set()),
    ],
)
def test_a_modern_upstream_hears_what_its_configuration_allows(terms, told):
    host = FakeHost(version=L4, capabilities={"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}})
    meta = meta_of(stamp_call(Era.MODERN, MODERN, CALL, host, 7, DeclaredCapabilities(terms)))
    assert set(meta["io.modelcontextprotocol/clientCapabilities"]) == told


@pytest.mark.covers("R-5", "I-2")
def test_hosts_that_come_after_each_other_are_not_confused():
    offer = DeclaredCapabilities(SessionTerms(absorbs_tasks=False))
    for capabilities in ({"sampling": {}}, {}, {"sampling": {}}, {"sampling": {"tools": {}}}):
        assert offer.of(FakeHost(capabilities=capabilities).caller) == {k: raw(v) for k, v in capabilities.items()}


# --- notifications ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-11", "P-2")
@pytest.mark.parametrize(
    ("token", "found"), [(7, 7), ("7", None), (-7, None), (7.0, None), (None, None), (10**30, None), ([7], None)]
)
def test_only_an_integer_can_be_our_token(token, found):
    params = {"progressToken": raw(token), "progress": raw(1), "_meta": raw({})}
    assert split_progress(params) == (found, {"progress": raw(1)})
    assert split_progress({}) == (None, {})


def test_loggers_carry_the_name_of_their_upstream():
    said = {"level": raw("info"), "data": raw({"a": 1}), "logger": raw("db"), "_meta": raw({})}
    assert prefix_log("files", said) == {"level": raw("info"), "data": raw({"a": 1}), "logger": raw("files/db")}
    assert prefix_log("files", {"data": raw(1)})["logger"] == raw("files")


def test_capabilities_are_looked_up_kindly():
    facts = ServerFacts(L4, {"tools": raw({"listChanged": True, "x": 1})}, {}, "")
    assert capability(facts, "tools", "listChanged")
    assert not capability(facts, "tools", "x")
    assert not capability(facts, "prompts", "listChanged")
