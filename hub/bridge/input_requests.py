"""Input requests: questions in results, as modern upstreams put them and modern hosts get them.

The facts about questions that are needed to check the answers are sealed into the state, so the hub keeps nothing
while people think.

A modern host whose legacy server asked for what the host had not declared gets the error -32021.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, Raw

from config.settings import UpstreamConfig
from hub.bridge.request_state import encode_input_request
from hub.link.hub_errors import UpstreamProtocolError
from hub.link.interface import Caller
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, open_object, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import MISSING_CAPABILITY, MODERN, QUESTIONS, URL_ELICITATION_REQUIRED
from hub.wire.questions.question import (
    Question,
    QuestionRefusal,
    answer_for_upstream,
    check_capabilities,
    mode_of,
    question_for_host,
)
from hub.wire.value_limits import MAX_ITEMS, has_too_many_items

MAX_ROUNDS: Final = 16
"""Rounds of questions in one operation."""
MAX_AT_ONCE: Final = 32
"""Questions in one round."""


def capabilities_offered(config: UpstreamConfig, capabilities: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """The capabilities of a host that a modern upstream may use: at most those that it was told."""
    if config.client_features == "none":
        return {}
    if config.roots in ("auto", "host") or "roots" not in capabilities:
        return capabilities
    return {name: value for name, value in capabilities.items() if name != "roots"}


def read_questions(members: Mapping[str, Raw], upstream: str, version: str) -> dict[str, Question]:
    """Read the questions in a result or task of `upstream`, by key; empty without `inputRequests`.

    Raises:
        UpstreamProtocolError: it asks for what no host can be asked, or for too much.
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
    """Check that all questions may be asked, so that no person is bothered in vain.

    `declared`: what the upstream was told that the host can do.

    Raises:
        UpstreamProtocolError: it asks for something else.
    """
    try:
        for question in questions.values():
            check_capabilities(question, declared)
    except QuestionRefusal as refused:
        raise bad_input(upstream, f"that was not offered: {refused.failure.message}") from None


def input_requests(questions: Mapping[str, Question], caller: Caller, declared: Mapping[str, Raw]) -> dict[str, Raw]:
    """Write the questions for a modern host, by key. `declared`: as for `judge`.

    Raises:
        UpstreamProtocolError: one asks for something else, or is not put as it must be.
    """
    requests = {}
    for key, question in questions.items():
        try:
            requests[key] = input_request(question, caller.version, declared)
        except QuestionRefusal as refused:
            raise bad_input(question.upstream, f"that this host cannot give: {refused.failure.message}") from None
    return requests


def input_request(question: Question, host_version: str, declared: Mapping[str, Raw]) -> Raw:
    """Write one question for a modern host. `declared`: the capabilities that count.

    Raises:
        QuestionRefusal: it cannot be asked that.
    """
    check_capabilities(question, declared)
    return encode_input_request(question, question_for_host(question, host_version))


def kinds_of(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Summarise questions for a state, as far as `check_answers` needs."""
    return {key: {"method": question.method, "mode": mode_of(question)} for key, question in questions.items()}


def check_answers(answers: Mapping[str, Raw], kinds: Mapping[str, Raw], upstream: str) -> None:
    """Check that each answer fits its question. `kinds`: the result of `kinds_of`, from a state.

    Raises:
        RemoteProtocolError: -32602, an answer is none to what was asked under its key.
    """
    for key in answers.keys() & kinds.keys():
        kind = peek_object(kinds[key])
        question = Question(peek_str(kind["method"]) or "", {"mode": kind["mode"]}, upstream, MODERN)
        answer_for_upstream(question, answers[key], MODERN)


def bad_input(upstream: str, how: str) -> UpstreamProtocolError:
    """The error of an upstream whose input requests are malformed."""
    return UpstreamProtocolError(f"{upstream} asks for input {how}", upstream=upstream)


MAX_WORDS: Final = 300
"""Characters of the server's own words in the message; all of them are in `data`."""


def explain(reply: Reply, lacking: Mapping[str, Mapping[str, Any]], upstream: str) -> Reply:
    """The error to send in place of `reply`, if that is a failure; other replies are returned unchanged.

    `lacking`: the capabilities that were asked for in vain, as `requiredCapabilities` has them.
    """
    if isinstance(reply, Failure):
        if reply.code == URL_ELICITATION_REQUIRED:
            return reply  # it says itself what it needs
        words = reply.message
        theirs: dict[str, Any] = {"server": upstream, "code": reply.code, "message": reply.message}
        if reply.data is not UNSET:
            theirs["data"] = reply.data
    else:
        members = peek_object(reply.value)
        if members.get("isError") != _TRUE:
            return reply
        content = members.get("content", Raw(b"[]"))
        words = _text_of(content)
        theirs = {"server": upstream, "content": content}
    needed = ", ".join(_names(lacking))
    text = f"{upstream} failed after asking for what this host did not declare ({needed}): {words}"
    data = {"requiredCapabilities": lacking, "upstream": theirs}
    return Failure(MISSING_CAPABILITY, text.removesuffix(": "), raw(data))


def _names(lacking: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{name}.{part}" if part else name for name, parts in lacking.items() for part in parts or ("",)]


def _text_of(content: Raw) -> str:
    """The first text of a result, cut."""
    texts = (peek_str(peek_object(part).get("text")) for part in peek_array(content))
    text = next(filter(None, texts), "")
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}..."


_TRUE: Final = Raw(b"true")
