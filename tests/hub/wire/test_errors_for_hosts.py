"""Errors between every two revisions: a code means the same on both sides, or is replaced."""

import json
from itertools import product

import pytest
from msgspec import UNSET, Raw

from hub.wire.errors_for_hosts import failure_for_host
from hub.wire.jsonrpc import Failure, encode_response, raw
from hub.wire.mcp import ALL_VERSIONS, L1, L2, L3, L4, MODERN
from hub.wire.total_item_limit import MAX_ITEMS
from tests.support.schemas import validate
from tests.support.tables import each_row

CALL, PROMPT, READ, COMPLETE = "tools/call", "prompts/get", "resources/read", "completion/complete"
LEGACY = (L1, L2, L3, L4)


ERRORS = [
    # method, code, from, to host, code the host gets
    *((CALL, -32602, from_, to, -32602) for from_, to in product(ALL_VERSIONS, ALL_VERSIONS)),
    *((READ, -32002, from_, to, -32002) for from_, to in product(ALL_VERSIONS, LEGACY)),
    *((READ, -32002, from_, MODERN, -32602) for from_ in ALL_VERSIONS),
    *((READ, -32602, MODERN, to, -32002) for to in LEGACY),
    *((READ, -32602, from_, to, -32602) for from_, to in product(LEGACY, ALL_VERSIONS)),
    (READ, -32602, MODERN, MODERN, -32602),
    *((CALL, code, L4, L4, code) for code in (-32601, -32000, -32019, -32002, -32042, -32050)),
    *((CALL, code, L4, MODERN, -32603) for code in (-32601, -32000, -32019, -32002, -32042, -32050, -32099)),
    *((CALL, code, MODERN, to, -32603) for code, to in product((-32020, -32022), ALL_VERSIONS)),
    *((CALL, -32042, L4, to, -32603) for to in (L1, L2, L3)),
    *((CALL, code, L4, to, code) for code, to in product((-32700, -32600, -32603, -32100, -1, 0, 7), ALL_VERSIONS)),
]


@pytest.mark.covers("E-1", "E-2", "E-4", "E-8", "E-9", "S-8", "S-9", "S-28", "C-15", "P-13")
@each_row("method, code, from_, to, wanted", ERRORS)
def test_errors(method: str, code: int, from_: str, to: str, wanted: int) -> None:
    said = {"uri": "up:x", "elicitations": []}
    failure = Failure(code, "Because", raw(said))
    after = failure_for_host(failure, method, upstream="up", upstream_version=from_, host_version=to, uri="hub.up+up:x")
    validate(encode_response(1, after), to, sender="server", method=method)
    assert (after.code, after.message) == (wanted, "Because")
    assert after.data is not UNSET
    data = json.loads(bytes(after.data))
    uri = {"uri": "hub.up+up:x"} if method == READ else {}
    if wanted == code:
        assert data == {**said, **uri}
    else:
        original = {"server": "up", "code": code, "message": "Because", "data": said}
        assert data == {"upstream": original, **uri}


def test_an_error_without_data() -> None:
    mapped = failure_for_host(Failure(-32601, "No"), CALL, upstream="up", upstream_version=L4, host_version=MODERN)
    assert mapped.data == Raw(b'{"upstream":{"server":"up","code":-32601,"message":"No"}}')
    plain = Failure(-32602, "No")
    for method in (READ, CALL):
        assert failure_for_host(plain, method, upstream="up", upstream_version=MODERN, host_version=L4) is plain
    not_found = Failure(-32002, "No")
    assert (
        failure_for_host(not_found, READ, upstream="up", upstream_version=L4, host_version=L4, uri="x:y") is not_found
    )


@pytest.mark.covers("S-6", "E-8")
@pytest.mark.parametrize(
    ("capabilities", "wanted"),
    [(None, -32021), ({}, -32021), ({"roots": Raw(b"{}")}, -32021), ({"sampling": Raw(b"{}")}, -32603)],
)
@pytest.mark.parametrize("to", [L4, MODERN])
def test_a_missing_capability_is_the_hosts_or_ours(capabilities: dict | None, wanted: int, to: str) -> None:
    failure = Failure(-32021, "Needs sampling", Raw(b'{"requiredCapabilities":{"sampling":{}}}'))
    after = failure_for_host(
        failure, CALL, upstream="up", upstream_version=MODERN, host_version=to, host_capabilities=capabilities
    )
    assert after.code == wanted
    assert (after is failure) == (wanted == -32021)
    validate(encode_response(1, after), to, sender="server")


def test_a_missing_mode_of_a_capability_is_the_hosts() -> None:
    failure = Failure(-32021, "Needs a visit", Raw(b'{"requiredCapabilities":{"elicitation":{"url":{}}}}'))
    for capabilities, wanted in ((b"{}", -32021), (b'{"form":{}}', -32021), (b'{"url":{}}', -32603)):
        after = failure_for_host(
            failure,
            CALL,
            upstream="up",
            upstream_version=L4,
            host_version=MODERN,
            host_capabilities={"elicitation": Raw(capabilities)},
        )
        assert after.code == wanted


@pytest.mark.covers("I-3", "SEC-13")
def test_details_of_an_error_that_are_a_crowd_are_not_opened():
    failure = Failure(-32602, "no", raw({"uri": "x", "more": [1] * (MAX_ITEMS + 1)}))
    found = failure_for_host(
        failure, "resources/read", upstream="a", upstream_version=L4, host_version=L4, uri="hub.a+x"
    )
    assert found is failure
