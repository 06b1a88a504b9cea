"""Messages of hooks: what a hook is told of a call, and what it may answer. Pure.

exit 0, nothing     no opinion
exit 0, JSON        its opinion: `hookSpecificOutput` (`permissionDecision`, `updatedInput`, `updatedToolOutput`, ...),
                    or `decision` and `reason`; `continue: false` denies
exit 2              deny; standard error is the reason
all else            no answer
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import Raw

from hub.wire.byte_checks import MAX_DEPTH
from hub.wire.jsonrpc import raw
from hub.wire.printable import printable
from upstreams.fetch.strict_json import read_json_object

MAX_BYTES: Final = 1 << 20
"""Bytes of a message to a hook, and of its answer."""
MAX_REASON: Final = 500
BEFORE, AFTER = "PreToolUse", "PostToolUse"
_DECISIONS: Final[Mapping[str, Literal["deny", "ask", "allow", ""]]] = {
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
    "allow": "allow",
    "approve": "allow",
    "defer": "",
}
_STRICTNESS: Final = ("deny", "ask", "allow", "")
_WITHIN: Final = frozenset(("permissionDecision", "updatedInput", "updatedToolOutput", "updatedMCPToolOutput"))
"""Members that count in `hookSpecificOutput` only: whoever writes one beside it does not mean to be ignored."""


class HookFailed(Exception):
    """A hook gave no answer. The text is a clause for the log."""


class Opinion(NamedTuple):
    """The answer of a hook."""

    decision: Literal["deny", "ask", "allow", ""] = ""
    """"": none."""
    reason: str = ""
    rewritten: Raw | None = None
    """Other arguments, or another result; None: none."""


def message(
    event: str, tool: str, arguments: Raw | None, about: Mapping[str, object], ids: tuple[str, str], **more: object
) -> bytes:
    """The message that tells a hook of a call. `about`: what the hub adds; `ids`: of the conversation and the call.

    Raises:
        HookFailed: it is too large to be told, or no JSON that can be written.
    """
    members = {
        "hook_event_name": event,
        "session_id": ids[0],
        "transcript_path": "",
        "cwd": "",
        "tool_name": tool,
        "tool_input": raw({}) if arguments is None else arguments,
        "tool_use_id": ids[1],
        **more,
        "hub": {"v": 1, **about},
    }
    try:
        data = bytes(raw(members))
    except UnicodeEncodeError:
        raise HookFailed("the call cannot be written as JSON") from None
    if len(data) > MAX_BYTES:
        raise HookFailed(f"the call has more than {MAX_BYTES >> 10} KiB")
    return data


def read_exit(status: int, stdout: bytes, stderr: bytes, event: str) -> Opinion:
    """The opinion of a program that ended so. Raises HookFailed: it is none."""
    if status == 2:
        return Opinion("deny", _reason(stderr.decode(errors="replace")))
    if status != 0:
        raise HookFailed(f"it exited with {status}")
    return read_answer(stdout, event) if stdout.strip() else Opinion()


def read_answer(data: bytes, event: str) -> Opinion:
    """The opinion in an answer of JSON: of several words the strictest. Raises HookFailed: it is none."""
    if (answer := read_json_object(data, MAX_DEPTH)) is None:
        raise HookFailed("it answered no JSON object, or one that can be read in two ways")
    if misplaced := _WITHIN & answer.keys():
        raise HookFailed(f"its {min(misplaced)} does not stand in hookSpecificOutput")
    its = _member(answer, "hookSpecificOutput", dict, {})
    if _member(its, "hookEventName", str, event) != event:
        raise HookFailed("it answered to another event")
    if _member(answer, "continue", bool, True) is False:
        return Opinion("deny", _reason(_member(answer, "stopReason", str, "")))
    words = [_member(its, "permissionDecision", str, "defer"), _member(answer, "decision", str, "defer")]
    for word in words:
        if word not in _DECISIONS or (event == AFTER and word not in ("block", "deny", "defer")):
            raise HookFailed(f"it decided {word[:40]!r}, which is no decision")
    decision = min((_DECISIONS[word] for word in words), key=_STRICTNESS.index)
    reason = _member(its, "permissionDecisionReason", str, _member(answer, "reason", str, ""))
    return Opinion(decision, _reason(reason), _rewritten(its, event))


def _rewritten(its: dict[str, Any], event: str) -> Raw | None:
    if event == BEFORE:
        found = _member(its, "updatedInput", dict, None)
    else:
        found = _member(its, "updatedMCPToolOutput", dict, None)
        found = _member(its, "updatedToolOutput", dict, None) if found is None else found
        if found is not None and not isinstance(found.get("content"), list):
            raise HookFailed("it wrote a result without content")
    try:
        return None if found is None else raw(found)
    except UnicodeEncodeError:
        raise HookFailed("it wrote what cannot be sent") from None


def _member(values: dict[str, Any], name: str, type: type, default: Any) -> Any:
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, type):
        raise HookFailed(f"its {name} is of a wrong type")
    return value


def _reason(text: str) -> str:
    return printable(" ".join(text.split()))[:MAX_REASON]
