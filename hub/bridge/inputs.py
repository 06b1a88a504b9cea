"""Questions that come in a result, as those of modern upstreams do, and how modern hosts are asked any (R-3 to R-5).

What was asked goes into the state that is sealed with the questions, as far as answers have to be judged by it; so the
hub keeps nothing while people think.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from config.schema import UpstreamConfig
from hub.bridge.request_state import wanted
from hub.link.interface import Caller, Question, UpstreamProtocolError
from hub.wire.jsonrpc import RemoteProtocolError, open_object, peek_object, peek_str
from hub.wire.mcp import MODERN, QUESTIONS
from hub.wire.questions.question import (
    QuestionRefusal,
    answer_for_upstream,
    check_capabilities,
    mode_of,
    question_for_host,
)
from hub.wire.value_limits import MAX_ITEMS, has_too_many_items

MAX_ROUNDS: Final = 16
"""Of questions in one operation (`max_rounds`, F-I-08)."""
MAX_AT_ONCE: Final = 32
"""Questions in one round."""


def offered(config: UpstreamConfig, capabilities: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """What a modern upstream may ask of a host with `capabilities`: what it was told of them, at most (5.1)."""
    if config.client_features == "none":
        return {}
    if config.roots in ("auto", "host") or "roots" not in capabilities:
        return capabilities
    return {name: value for name, value in capabilities.items() if name != "roots"}


def read_questions(members: Mapping[str, Raw], upstream: str, version: str) -> dict[str, Question]:
    """What a result, or a task, of `upstream` asks for, by key; nothing, if it has no `inputRequests`.

    Raises:
        UpstreamProtocolError: it asks for what no host can be asked (R-4), or for too much.
    """
    try:
        if has_too_many_items(members.get("inputRequests", b"")):
            raise bad_input(upstream, f"with inputRequests of more than {MAX_ITEMS} items")
        requests = open_object(members["inputRequests"]) if "inputRequests" in members else {}
    except RemoteProtocolError:
        raise bad_input(upstream, "with inputRequests that are no object") from None
    if len(requests) > MAX_AT_ONCE:
        raise bad_input(upstream, f"with more than {MAX_AT_ONCE} questions at once")
    return {key: _question(value, upstream, version) for key, value in requests.items()}


def _question(value: Raw, upstream: str, version: str) -> Question:
    request = peek_object(value)
    method = peek_str(request.get("method"))
    if method not in QUESTIONS:
        raise bad_input(upstream, "of an unknown kind")
    return Question(method, peek_object(request.get("params")), upstream, version)


def judge(questions: Mapping[str, Question], declared: Mapping[str, Raw], upstream: str) -> None:
    """Raise, unless all of them may be asked: else a person would be bothered in vain.

    `declared`: what the upstream was told that the host can do.

    Raises:
        UpstreamProtocolError: it asks for something else (R-5).
    """
    try:
        for question in questions.values():
            check_capabilities(question, declared)
    except QuestionRefusal as refused:
        raise bad_input(upstream, f"that was not offered: {refused.failure.message}") from None


def input_requests(questions: Mapping[str, Question], caller: Caller, declared: Mapping[str, Raw]) -> dict[str, Raw]:
    """The questions as a modern host may see them, by key. `declared`: as for `judge`.

    Raises:
        UpstreamProtocolError: one asks for something else (R-5), or is not put as it must be.
    """
    requests = {}
    for key, question in questions.items():
        try:
            requests[key] = input_request(question, caller.version, declared)
        except QuestionRefusal as refused:
            raise bad_input(question.upstream, f"that this host cannot give: {refused.failure.message}") from None
    return requests


def input_request(question: Question, host_version: str, declared: Mapping[str, Raw]) -> Raw:
    """One question as a modern host may see it. `declared`: what the host can do, as far as it counts.

    Raises:
        QuestionRefusal: it cannot be asked that.
    """
    check_capabilities(question, declared)
    return wanted(question, question_for_host(question, host_version))


def kinds_of(questions: Mapping[str, Question]) -> dict[str, Any]:
    """For a state: as much of each question as `check_answers` needs."""
    return {key: {"method": question.method, "mode": mode_of(question)} for key, question in questions.items()}


def check_answers(answers: Mapping[str, Raw], kinds: Mapping[str, Raw], upstream: str) -> None:
    """Raise, unless each answer to one of the questions is one to it. `kinds`: from a state, what `kinds_of` gave.

    Raises:
        RemoteProtocolError: -32602, an answer is none to what was asked under its key (R-10).
    """
    for key in answers.keys() & kinds.keys():
        kind = peek_object(kinds[key])
        question = Question(peek_str(kind["method"]) or "", {"mode": kind["mode"]}, upstream, MODERN)
        answer_for_upstream(question, answers[key], MODERN)


def bad_input(upstream: str, how: str) -> UpstreamProtocolError:
    """The error of an upstream that asks for input in a way, or for input, that there is not."""
    return UpstreamProtocolError(f"{upstream} asks for input {how}", upstream=upstream)
