"""Form in which a host asks its person about a call, and what may be answered. Pure."""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Raw

from hub.wire.jsonrpc import peek_object, peek_str, raw
from hub.wire.mcp import ELICIT
from hub.wire.questions.askable_questions import Question

Lasting = Literal["once", "session", "hour", "always"]
"""The time for which a yes is good."""
Decision = Lasting | Literal["no", "nothing"]
"""A yes, "no", or "nothing" of these."""
_LENGTHS: Final[tuple[Lasting, ...]] = ("once", "session", "always")


def offers(remember: str, *, lasts: bool) -> tuple[Lasting, ...]:
    """The answers that mean yes, at most as long as `remember`. `lasts`: the conversation goes on after the call."""
    some = _LENGTHS[: _LENGTHS.index(remember) + 1]
    return tuple("hour" if each == "session" and not lasts else each for each in some)


def form(message: str, offered: Iterable[Lasting], version: str) -> Question:
    """The question as a form with one choice, which each revision that has forms can show. It is no server's, so its
    message has no server's name in front."""
    choice = {"type": "string", "title": "Decision", "enum": list(offered)}
    schema = {"type": "object", "properties": {"decision": choice}, "required": ["decision"]}
    return Question(ELICIT, {"message": raw(message), "requestedSchema": raw(schema)}, "", version)


def read_answer(answer: Raw, offered: Iterable[Lasting]) -> Decision:
    """The decision of an answer to `form`, which may be one of those that were offered."""
    members = peek_object(answer)
    action = peek_str(members.get("action"))
    if action == "decline":
        return "no"
    decision = peek_str(peek_object(members.get("content")).get("decision")) if action == "accept" else None
    return next((each for each in offered if each == decision), "nothing")
