"""Questions in results. What upstreams get away with is in `test_input_required` and `test_tasks`, too."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from config.settings import UpstreamConfig
from hub.bridge.questions_in_results import (
    MAX_AT_ONCE,
    capabilities_offered,
    check_answers,
    input_requests,
    judge,
    kinds_of,
    read_questions,
)
from hub.link.hub_errors import UpstreamProtocolError
from hub.wire.jsonrpc import RemoteProtocolError, peek_object, raw
from hub.wire.mcp import MODERN
from hub.wire.total_item_limit import MAX_ITEMS
from tests.support.fakes import FakeHost

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
FORM = {"method": "elicitation/create", "params": {"message": "Name?", "requestedSchema": SCHEMA}}
VISIT = {"method": "elicitation/create", "params": {"mode": "url", "message": "Open", "url": "https://example.com"}}
ROOTS = {"method": "roots/list"}


def asked(**requests: Any) -> dict[str, Any]:
    return read_questions({"inputRequests": raw(requests)}, "up", MODERN)


def members(**values: Any) -> dict[str, Raw]:
    return {name: raw(value) for name, value in values.items()}


def test_questions_are_read_by_key() -> None:
    found = asked(a=FORM, b=ROOTS)
    assert {key: question.method for key, question in found.items()} == {"a": "elicitation/create", "b": "roots/list"}
    assert {question.upstream for question in found.values()} == {"up"}
    assert read_questions({}, "up", MODERN) == {}
    for wrong in ([FORM], {"a": 1}, {"a": {"method": "ping"}}, {str(each): FORM for each in range(MAX_AT_ONCE + 1)}):
        with pytest.raises(UpstreamProtocolError, match="up asks for input"):
            read_questions({"inputRequests": raw(wrong)}, "up", MODERN)


@pytest.mark.covers("R-5")
def test_what_was_not_offered_is_not_asked() -> None:
    may = members(elicitation={"form": {}})
    judge(asked(a=FORM), may, "up")
    host = FakeHost(version=MODERN, capabilities={"elicitation": {}})
    for wrong in (asked(a=FORM, b=VISIT), asked(a=ROOTS)):
        with pytest.raises(UpstreamProtocolError, match="not offered"):
            judge(wrong, may, "up")
        with pytest.raises(UpstreamProtocolError, match="cannot give"):
            input_requests(wrong, host.caller, may)
    shown = json.loads(bytes(input_requests(asked(a=FORM), host.caller, may)["a"]))
    assert shown["params"]["message"] == "[up] Name?"


def test_what_is_offered_is_what_the_upstream_was_told() -> None:
    everything = members(elicitation={}, roots={})
    assert capabilities_offered(UpstreamConfig(command="x"), everything) is everything
    assert capabilities_offered(UpstreamConfig(command="x", client_features="none"), everything) == {}
    for roots in ("none", ("file:///a",)):
        assert capabilities_offered(UpstreamConfig(command="x", roots=roots), everything) == members(elicitation={})


@pytest.mark.covers("R-10")
def test_answers_are_judged_by_what_a_state_kept() -> None:
    kinds = peek_object(raw(kinds_of(asked(a=FORM, b=VISIT, c=ROOTS))))
    good = members(a={"action": "accept", "content": {"name": "Ann"}}, b={"action": "accept"}, c={"roots": []})
    noted: list[str] = []
    up: Any = SimpleNamespace(name="up", answered=lambda method, reply: noted.append(method))
    check_answers(good, kinds, up)
    assert sorted(noted) == ["elicitation/create", "elicitation/create", "roots/list"]
    check_answers(members(unasked=1), kinds, up)
    for wrong in (members(a={"action": "perhaps"}), members(b={}), members(c={"roots": 1})):
        with pytest.raises(RemoteProtocolError):
            check_answers({**good, **wrong}, kinds, up)
    assert len(noted) == 3


@pytest.mark.covers("SEC-13", "I-3")
def test_a_crowd_of_questions_is_not_opened() -> None:
    crowd = {str(number): {} for number in range(MAX_ITEMS + 1)}
    with pytest.raises(UpstreamProtocolError, match="inputRequests of more than 100000 items"):
        read_questions({"inputRequests": raw(crowd)}, "files", MODERN)
