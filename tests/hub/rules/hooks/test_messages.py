"""Messages of hooks: every exit and every answer, right or wrong."""

import json

import pytest

from hub.rules.hooks.messages import AFTER, BEFORE, MAX_BYTES, HookFailed, Opinion, message, read_answer, read_exit
from hub.wire.jsonrpc import raw


def its(**members):
    return json.dumps({"hookSpecificOutput": {"hookEventName": BEFORE, **members}}).encode()


@pytest.mark.covers("POL-40")
def test_a_call_is_told_as_claude_code_does():
    told = json.loads(
        message(BEFORE, "mcp__github__merge", raw({"n": 1}), {"host": "cursor", "trusted": False}, ("7", "c7f3"))
    )
    assert told == {
        "hook_event_name": "PreToolUse",
        "session_id": "7",
        "transcript_path": "",
        "cwd": "",
        "tool_name": "mcp__github__merge",
        "tool_input": {"n": 1},
        "tool_use_id": "c7f3",
        "hub": {"v": 1, "host": "cursor", "trusted": False},
    }
    after = json.loads(message(AFTER, "t", None, {}, ("", ""), tool_response=raw({"content": []})))
    assert (after["tool_input"], after["tool_response"]) == ({}, {"content": []})
    with pytest.raises(HookFailed, match="more than 1024 KiB"):
        message(BEFORE, "t", raw({"a": "x" * MAX_BYTES}), {}, ("", ""))


@pytest.mark.covers("POL-41")
@pytest.mark.parametrize(
    ("status", "stdout", "stderr", "found"),
    [
        (0, b"", b"noise", Opinion()),
        (0, b" \n", b"", Opinion()),
        (2, b"", b"contains\ncustomer data\x1b[0m", Opinion("deny", "contains customer data\\x1b[0m")),
        (2, its(permissionDecision="allow"), b"", Opinion("deny", "")),
        (0, its(permissionDecision="deny", permissionDecisionReason="no"), b"", Opinion("deny", "no")),
        (0, its(permissionDecision="ask"), b"", Opinion("ask")),
        (0, its(permissionDecision="allow"), b"", Opinion("allow")),
        (0, its(permissionDecision="defer"), b"", Opinion()),
        (0, b'{"decision": "block", "reason": "old form"}', b"", Opinion("deny", "old form")),
        (0, b'{"decision": "approve"}', b"", Opinion("allow")),
        (0, b'{"decision": "block", "hookSpecificOutput": {"permissionDecision": "allow"}}', b"", Opinion("deny")),
        (0, b'{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "ask"}}', b"", Opinion("ask")),
        (0, b'{"continue": false, "stopReason": "enough"}', b"", Opinion("deny", "enough")),
        (0, b'{"suppressOutput": true, "later": [1]}', b"", Opinion()),
        (0, b"{}", b"", Opinion()),
    ],
)
def test_exits_and_answers(status, stdout, stderr, found):
    assert read_exit(status, stdout, stderr, BEFORE) == found


@pytest.mark.covers("POL-41")
@pytest.mark.parametrize("status", [1, 3, -9, 127])
def test_other_exits_are_no_answer(status):
    with pytest.raises(HookFailed):
        read_exit(status, b"{}", b"", BEFORE)


@pytest.mark.covers("POL-41")
@pytest.mark.parametrize(
    "answer",
    [
        b"yes",
        b"[]",
        b"1",
        b'"deny"',
        b"\xff",
        b"[" * 100_000,
        its(permissionDecision="perhaps"),
        its(permissionDecision=1),
        its(permissionDecision=["deny"]),
        its(permissionDecisionReason={}),
        its(updatedInput=[1]),
        its(updatedInput="x"),
        its(hookEventName="PostToolUse"),
        b'{"hookSpecificOutput": []}',
        b'{"continue": "false"}',
        b'{"decision": "later"}',
        b'{"hookSpecificOutput": {"updatedInput": {"a": "\\ud800"}}}',
        b'{"permissionDecision": "deny"}',
        b'{"updatedInput": {}}',
        b'{"hookSpecificOutput": {"permissionDecision": "deny"}, "hookSpecificOutput": {}}',
        b'{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}',
        b'{"later": NaN}',
    ],
)
def test_answers_of_wrong_types_are_none(answer):
    with pytest.raises(HookFailed):
        read_answer(answer, BEFORE)


@pytest.mark.covers("POL-41")
def test_what_is_rewritten():
    assert read_answer(its(updatedInput={"a": 2}), BEFORE).rewritten == raw({"a": 2})
    result = {"content": [{"type": "text", "text": "***"}]}
    for name in ("updatedMCPToolOutput", "updatedToolOutput"):
        answer = json.dumps({"hookSpecificOutput": {name: result}}).encode()
        assert read_answer(answer, AFTER).rewritten == raw(result)
        assert read_answer(answer, BEFORE).rewritten is None
    assert read_answer(b'{"decision": "block", "reason": "x"}', AFTER) == Opinion("deny", "x")
    for wrong in ({"updatedToolOutput": {"text": "x"}}, {"updatedToolOutput": "x"}):
        with pytest.raises(HookFailed):
            read_answer(json.dumps({"hookSpecificOutput": wrong}).encode(), AFTER)
    with pytest.raises(HookFailed):
        read_answer(b'{"decision": "ask"}', AFTER)
