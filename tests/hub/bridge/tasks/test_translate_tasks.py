"""Tasks in the words of either kind, held against the schemas of both."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from hub.bridge.tasks.translate_tasks import (
    POLL_S,
    STATUSES,
    Task,
    TaskTicket,
    augments_calls,
    complete_result,
    declares,
    has_content,
    loss_of,
    message_result,
    outcome,
    poll_s,
    read_task,
    read_ticket,
    requires_task,
    status_and_outcome,
    task_handle,
    task_in,
    task_params,
    write_ticket,
)
from hub.link.hub_errors import UpstreamProtocolError
from hub.wire.capabilities import TASKS_NEEDED
from hub.wire.jsonrpc import Failure, Reply, Result, encode_notification, encode_response, open_object, raw
from hub.wire.mcp import HUB_SESSION, L4, MODERN
from hub.wire.total_item_limit import MAX_ITEMS
from tests.support.schemas import validate

TIMES = {"createdAt": "2026-11-01T10:00:00Z", "lastUpdatedAt": "2026-11-01T10:02:00Z"}
OLD = {"taskId": "u-9", "status": "working", **TIMES, "ttl": 60_000, "pollInterval": 2_000}
NEW = {"taskId": "u-9", "status": "working", **TIMES, "ttlMs": 60_000, "pollIntervalMs": 2_000}
WORDS = st.none() | st.booleans() | st.integers(-5, 2**60) | st.text(max_size=5) | st.just({}) | st.just([])


def members(value: dict[str, Any]) -> dict[str, Raw]:
    return {name: raw(each) for name, each in value.items()}


def plain(value: Raw) -> Any:
    return json.loads(bytes(value))


def judged(result: Raw, method: str) -> Any:
    """A result, which is one of `method` to a modern host."""
    validate(encode_response(1, Result(result)), MODERN, sender="server", method=method)
    return plain(result)


# --- what upstreams say -----------------------------------------------------------------------------------------------


def test_both_kinds_say_the_same() -> None:
    old, new = read_task(members(OLD), L4, "up"), read_task(members(NEW), MODERN, "up")
    assert (old.id, old.status, old.about) == (new.id, new.status, new.about)
    assert (old.poll_s, old.ttl_s, old.message) == (2.0, 60.0, None)
    validate(encode_response(1, Result(raw(OLD))), L4, sender="server", method="tasks/get")


def test_a_task_may_say_how_far_it_is() -> None:
    assert read_task(members({**OLD, "statusMessage": "half"}), L4, "up").message == "half"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [({}, POLL_S), ({"pollIntervalMs": Raw(b"1")}, 0.25), ({"pollIntervalMs": Raw(b"9999999")}, 60.0)],
)
def test_nobody_is_asked_too_often_or_too_rarely(wanted: dict[str, Raw], found: float) -> None:
    assert poll_s(wanted) == found


@pytest.mark.parametrize(
    "about", [{}, {"taskId": "a"}, {"taskId": "", "status": "working"}, {"taskId": "a", "status": "?"}]
)
def test_a_task_has_an_id_and_a_status(about: dict[str, Any]) -> None:
    with pytest.raises(UpstreamProtocolError):
        read_task(members(about), L4, "up")


@pytest.mark.covers("X-5")
@given(st.dictionaries(st.sampled_from([*OLD, *NEW, "statusMessage"]), WORDS), st.sampled_from(sorted(STATUSES)))
def test_whatever_an_upstream_says_hosts_see_what_the_schema_allows(wild: dict[str, Any], status: str) -> None:
    more = {"input_required": {"inputRequests": {}}, "completed": {"result": {}}}.get(status, {})
    more |= {"error": {"code": 1, "message": ""}} if status == "failed" else {}
    for version in (L4, MODERN):
        task = read_task(members({**wild, "taskId": "u", "status": status}), version, "up")
        assert judged(task_handle(task, "h"), "tools/call")["taskId"] == "h"
        assert judged(complete_result(task_params(task, "h", more)), "tasks/get")["status"] == status
        params = open_object(raw(task_params(task, "h", more)))
        validate(encode_notification("notifications/tasks", params), MODERN, sender="server")


@pytest.mark.covers("X-3")
def test_what_begins_a_task() -> None:
    old: Reply = Result(raw({"task": OLD, "_meta": {HUB_SESSION: "s"}}))
    new: Reply = Result(raw({"resultType": "task", **NEW}))
    for reply, version, session in ((old, L4, "s"), (new, MODERN, "")):
        task = task_in(reply, version, "up")
        assert task is not None
        assert (task.id, task.session) == ("u-9", session)
    assert task_in(new, L4, "up") is None
    assert task_in(old, MODERN, "up") is None


@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize(
    "reply",
    [
        Failure(-1, '"task"'),
        Result(raw({"content": []})),
        Result(raw({"content": [], "task": OLD})),
        Result(raw({"content": [], "structuredContent": {"resultType": "task", "x": "task"}})),
    ],
)
def test_other_replies_begin_none(reply: Reply, version: str) -> None:
    assert task_in(reply, version, "up") is None


def test_what_only_says_it_is_a_task_is_none() -> None:
    with pytest.raises(UpstreamProtocolError):
        task_in(Result(Raw(b'{"task":1}')), L4, "up")
    with pytest.raises(UpstreamProtocolError):
        task_in(Result(Raw(b'{"resultType":"task"}')), MODERN, "up")


# --- what came of it --------------------------------------------------------------------------------------------------


def ended(status: str, **more: Any) -> Task:
    return read_task(members({**NEW, "status": status, **more}), MODERN, "up")


def test_outcomes() -> None:
    assert outcome(ended("completed", result={"content": []}), "up") == Result(Raw(b'{"content":[]}'))
    error = {"code": -5, "message": "no", "data": 1}
    assert outcome(ended("failed", error=error), "up") == Failure(-5, "no", Raw(b"1"))
    assert outcome(ended("failed", statusMessage="dead"), "up") == Failure(-32603, "dead")
    assert outcome(ended("failed", error={"code": "x"}), "up") == Failure(-32603, "The task failed")
    endless = ended("failed", error={"code": Raw(b"1" * 5_000)})
    assert outcome(endless, "up") == Failure(-32603, "The task failed"), "more digits than Python reads"
    for task in (ended("completed"), ended("completed", result=1), ended("cancelled")):
        with pytest.raises(UpstreamProtocolError):
            outcome(task, "up")


def test_a_tool_that_raised() -> None:
    assert has_content(Failure(-1, ""))
    assert has_content(Result(raw({"content": []})))
    nothing = Result(raw({"_meta": {}}))
    assert not has_content(nothing)
    result = plain(message_result(ended("failed", statusMessage="out of paper")).value)
    assert result == {"content": [{"type": "text", "text": "out of paper"}], "isError": True}
    assert plain(message_result(ended("failed")).value)["content"][0]["text"]


@pytest.mark.covers("X-7")
def test_only_errors_fail() -> None:
    assert status_and_outcome(Result(raw({"isError": True}))) == ("completed", {"result": Raw(b'{"isError":true}')})
    assert status_and_outcome(Failure(-1, "no")) == ("failed", {"error": Failure(-1, "no")})


@pytest.mark.covers("X-7", "X-12")
def test_the_wire_example() -> None:
    """A legacy task that failed by its result is complete."""
    task = read_task(members({**OLD, "status": "failed"}), L4, "up")
    status, more = status_and_outcome(
        Result(raw({"content": [{"type": "text", "text": "quota exceeded"}], "isError": True}))
    )
    result = judged(complete_result(task_params(task, "SEAL4", more, status=status)), "tasks/get")
    del result["_meta"]
    assert result == {
        **{"resultType": "complete", "taskId": "SEAL4", "status": "completed"},
        **{**TIMES, "ttlMs": 60_000, "pollIntervalMs": 2_000},
        "result": {"content": [{"type": "text", "text": "quota exceeded"}], "isError": True},
    }


def test_what_hosts_are_told_of_a_lost_task() -> None:
    ticket = TaskTicket("files", "me", "u-9", "slow", L4, "s", TIMES["createdAt"])
    assert read_ticket(write_ticket(ticket)) == ticket
    result = judged(complete_result(loss_of("h", ticket)), "tasks/get")
    assert (result["status"], result["error"]["data"]["hub"]) == ("failed", "upstream_lost")


# --- capabilities -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("X-1", "X-10", "X-14")
def test_who_wants_tasks() -> None:
    assert declares(members(plain(TASKS_NEEDED)["requiredCapabilities"]))
    assert not declares(members({"tasks": {"requests": {"tools": {"call": {}}}}}))
    assert not declares(members({"extensions": {}}))
    assert augments_calls(members({"tasks": {"requests": {"tools": {"call": {}}}}}))
    assert not augments_calls(members({"tasks": {"list": {}}}))
    assert requires_task(members({"execution": {"taskSupport": "required"}}))
    for execution in ({"taskSupport": "optional"}, {"taskSupport": "forbidden"}, {}):
        assert not requires_task(members({"execution": execution}))
    assert not requires_task({})


@pytest.mark.covers("SEC-13", "I-3")
def test_a_reply_that_is_a_crowd_is_not_opened() -> None:
    crowd = Result(raw({"task": {"taskId": "t", "status": "working"}, "more": [1] * (MAX_ITEMS + 1)}))
    with pytest.raises(UpstreamProtocolError, match="a result has more than 100000 items"):
        task_in(crowd, L4, "up")
    assert has_content(crowd)


@pytest.mark.covers("E-8")
def test_the_code_of_an_error_is_a_number_of_ordinary_length() -> None:
    found = outcome(ended("failed", error={"code": 7, "message": "no"}), "up")
    assert isinstance(found, Failure)
    assert found.code == 7
    endless = structs.replace(ended("failed"), members={"error": Raw(b'{"code":%b,"message":"no"}' % (b"9" * 5000))})
    found = outcome(endless, "up")
    assert isinstance(found, Failure)
    assert found.code == -32603
