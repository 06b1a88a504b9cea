"""Input: questions in results, as modern upstreams put them and modern hosts get them.

The facts about questions that are needed to check the answers are sealed into the state, so the hub keeps nothing
while people think. A legacy host is asked on its own wire, and the upstream is called again with all answers and its
own state, byte for byte. Nothing runs at the upstream meanwhile. There is no place for errors among answers: a refused
form counts as cancelled; without a sample, or without roots, the operation ends.
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final

import trio
from msgspec import Raw, Struct, field, structs

from config.settings import UpstreamConfig
from hub.bridge.sealed_request_state import NO_ROUND, Binding, FirstRound, bind
from hub.link.call_interface import Call, Caller, Exchange, HostEnd, Operation, Upstream
from hub.link.hub_errors import HubError, UpstreamProtocolError
from hub.link.sync_primitives import Promise
from hub.wire import jsonrpc
from hub.wire.capabilities import URL
from hub.wire.excerpt_and_read_large_results import excerpt
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, Result, raw
from hub.wire.mcp import ELICIT, INPUT_REQUIRED, MODERN, QUESTIONS, RESULT_TYPE, Era, era_of
from hub.wire.questions.askable_questions import Question, QuestionRefusal, check_capabilities, mode_of
from hub.wire.questions.check_and_translate import answer_for_upstream, question_for_host
from hub.wire.total_item_limit import MAX_ITEMS, TooManyItems, has_too_many_items, open_result

MAX_ROUNDS: Final = 16
"""Rounds of questions in one operation."""
MAX_AT_ONCE: Final = 32
"""Questions in one round."""
MAX_OPEN: Final = 32
"""Open questions of one parked call, or of one task."""
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 10.0
"""Pause before calling again when there was nothing to ask: none at first, then doubling."""
CANCELLED: Final = raw({"action": "cancel"})
_ASKS: Final = INPUT_REQUIRED.encode()


class Crossing(Struct, frozen=True):
    """An operation on its way between a host and an upstream, perhaps of different eras."""

    upstream: Upstream
    operation: Operation
    exchange: HostEnd
    request: Request
    """The host's own, to which states are bound."""
    call: Call
    begins_again: bool = True
    """The upstream may be called anew where a retry cannot go on."""
    first: FirstRound = NO_ROUND
    """The first of the requests by which it is carried out."""

    @property
    def binding(self) -> Binding:
        """Binding of states of this request."""
        return bind(self.upstream.name, self.exchange.caller.identity.principal, self.request, self.first)

    @property
    def offered(self) -> Mapping[str, Raw]:
        """The capabilities of the host that the upstream was told of."""
        return capabilities_offered(self.upstream.config, self.exchange.caller.capabilities)

    def with_params(self, more: Mapping[str, Raw]) -> "Crossing":
        """The same with further params of the operation."""
        operation = structs.replace(self.operation, params={**self.operation.params, **more})
        return structs.replace(self, operation=operation)

    async def again(self, more: Mapping[str, Raw]) -> Reply:
        """Call with further params."""
        return await self.call(self.with_params(more).operation, self.exchange)


def capabilities_offered(config: UpstreamConfig, capabilities: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """The capabilities of a host that a modern upstream may use: at most those that it was told."""
    if config.client_features == "none":
        return {}
    if config.roots in ("auto", "host") or "roots" not in capabilities:
        return capabilities
    return {name: value for name, value in capabilities.items() if name != "roots"}


# --- questions of upstreams -------------------------------------------------------------------------------------------


def may_want_input(result: Result) -> bool:
    """False if a cheap look at a result tells that it asks for no input."""
    return not result.is_plain and excerpt(result.value).find(_ASKS) >= 0


def read_wanted(reply: Reply, upstream: str, version: str) -> tuple[dict[str, Question], Raw | None] | None:
    """Read an `input_required` result of the modern `upstream`: its questions, and its state as JSON, if it has one;
    None: `reply` is another result. Raises UpstreamProtocolError: it asks for nothing, or for what no host can be
    asked."""
    if not isinstance(reply, Result) or not may_want_input(reply):
        return None
    try:
        members = open_result(reply.value)
    except TooManyItems as error:
        raise bad_input(upstream, f"in a way that nobody can look through: {error}") from None
    if jsonrpc.peek_str(members.get(RESULT_TYPE)) != INPUT_REQUIRED:
        return None
    if (state := members.get("requestState")) is not None and jsonrpc.peek_str(state) is None:
        raise bad_input(upstream, "with a requestState that is no string")
    if not (questions := read_questions(members, upstream, version)) and state is None:
        raise bad_input(upstream, "but for none in particular")
    return questions, state


def read_questions(members: Mapping[str, Raw], upstream: str, version: str) -> dict[str, Question]:
    """Read the questions in a result or task of `upstream`, by key; empty without `inputRequests`. Raises
    UpstreamProtocolError: it asks for what no host can be asked, or for too much."""
    try:
        if has_too_many_items(members.get("inputRequests", b"")):
            raise bad_input(upstream, f"with inputRequests of more than {MAX_ITEMS} items")
        requests = jsonrpc.open_object(members["inputRequests"]) if "inputRequests" in members else {}
    except RemoteProtocolError:
        raise bad_input(upstream, "with inputRequests that are no object") from None
    if len(requests) > MAX_AT_ONCE:
        raise bad_input(upstream, f"with more than {MAX_AT_ONCE} questions at once")
    questions = {}
    for key, request in ((key, jsonrpc.peek_object(value)) for key, value in requests.items()):
        if (method := jsonrpc.peek_str(request.get("method"))) not in QUESTIONS:
            raise bad_input(upstream, "of an unknown kind")
        questions[key] = Question(method, jsonrpc.peek_object(request.get("params")), upstream, version)
    return questions


def admit(upstream: Upstream, questions: Mapping[str, Question], asked: int = 0) -> int:
    """Count questions of a call that has `asked` for so many forms and visits before; how many it has then. Raises
    InputRefused: the upstream may ask no more."""
    try:
        upstream.admit(questions.values(), asked)
    except QuestionRefusal as refused:
        error = InputRefused(f"{refused.failure.message}: it was not asked", upstream=upstream.name)
        error.refusal = refused.failure
        raise error from None
    return asked + sum(question.method == ELICIT for question in questions.values())


def judge(questions: Mapping[str, Question], declared: Mapping[str, Raw], upstream: str) -> None:
    """Check that all questions may be asked, so that no person is bothered in vain.

    `declared`: what the upstream was told that the host can do. Raises UpstreamProtocolError: it asks for something
    else."""
    try:
        for question in questions.values():
            check_capabilities(question, declared)
    except QuestionRefusal as refused:
        raise bad_input(upstream, f"that was not offered: {refused.failure.message}") from None


def bad_input(upstream: str, how: str) -> UpstreamProtocolError:
    """The error of an upstream whose input requests are malformed."""
    return UpstreamProtocolError(f"{upstream} asks for input {how}", upstream=upstream)


# --- modern hosts -----------------------------------------------------------------------------------------------------


def input_requests(questions: Mapping[str, Question], caller: Caller, declared: Mapping[str, Raw]) -> dict[str, Raw]:
    """Write the questions for a modern host, by key. `declared`: as for `judge`. Raises UpstreamProtocolError: one asks
    for something else, or is not put as it must be."""
    requests = {}
    for key, question in questions.items():
        try:
            requests[key] = input_request(question, caller.version, declared)
        except QuestionRefusal as refused:
            raise bad_input(question.upstream, f"that this host cannot give: {refused.failure.message}") from None
    return requests


def input_request(question: Question, host_version: str, declared: Mapping[str, Raw]) -> Raw:
    """Write one question for a modern host. `declared`: the capabilities that count. Raises QuestionRefusal: it cannot
    be asked that."""
    check_capabilities(question, declared)
    return raw({"method": question.method, "params": question_for_host(question, host_version)})


def kinds_of(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Summarise questions for a state, as far as `check_answers` needs."""
    return {key: {"method": question.method, "mode": mode_of(question)} for key, question in questions.items()}


def check_answers(answers: Mapping[str, Raw], kinds: Mapping[str, Raw], upstream: Upstream) -> None:
    """Check that each answer fits its question, and note all. `kinds`: the result of `kinds_of`, from a state. Raises
    RemoteProtocolError: -32602, an answer is none to what was asked under its key. Nothing is noted."""
    questions: dict[str, Question] = {}
    for key in answers.keys() & kinds.keys():
        kind = jsonrpc.peek_object(kinds[key])
        question = Question(jsonrpc.peek_str(kind["method"]) or "", {"mode": kind["mode"]}, upstream.name, MODERN)
        answer_for_upstream(question, answers[key], MODERN)
        questions[key] = question
    for key, question in questions.items():
        upstream.answered(question.method, Result(answers[key]))


class PendingQuestion(Struct, frozen=True):
    """A question of a running call or task, put to a modern host that brings the answer later."""

    question: Question
    request: Raw
    """As the host is asked."""
    reply: Promise[Reply] = field(default_factory=Promise)

    def read(self, answer: Raw, host_version: str) -> Reply:
        """The reply for the upstream that an answer of the host is. Raises RemoteProtocolError: -32602, it is no answer
        to this question."""
        try:
            return Result(answer_for_upstream(self.question, answer, host_version))
        except QuestionRefusal as refused:
            return refused.failure


# --- legacy hosts -----------------------------------------------------------------------------------------------------


class InputRefused(HubError):
    """The host refused input that the upstream cannot go on without; `refusal` is its answer, if it gave one."""

    kind = "input_refused"
    refusal: Failure | None = None

    def facts(self) -> dict[str, object]:
        return super().facts() | ({} if self.refusal is None else {"host": self.refusal})


async def call_to_the_end(crossing: Crossing) -> Reply:
    """The final reply of the upstream; the host is asked on the way.

    Visits to pages have ids for hosts of 2025-11-25, which the hub makes; they are done when the upstream is content.
    Raises InputRefused: the host did not sample, or has no roots to tell of; UpstreamProtocolError: it asks nonsense,
    what the host said it cannot do, or without end; HubError: as `Upstream.call`. Cancellation: passes to the upstream;
    withdraws what is asked."""
    upstream = crossing.upstream
    reply = await crossing.call(crossing.operation, crossing.exchange)
    version = upstream.snapshot.version  # of a server of both eras the newer, whose answers say what they are
    if era_of(version) is Era.LEGACY:
        return reply
    pause_s = 0.0
    visits: list[str] = []
    asked_before = 0
    for _ in range(MAX_ROUNDS):
        if (wanted := read_wanted(reply, upstream.name, version)) is None:
            break
        more: dict[str, Raw] = {}
        asked, state = wanted
        if asked:
            judge(asked, crossing.offered, upstream.name)
            asked_before = admit(upstream, asked, asked_before)
            questions = {key: _with_id(question, visits) for key, question in asked.items()}
            more["inputResponses"] = raw(await ask_all(questions, crossing.exchange, upstream))
            pause_s = 0.0
        else:
            await trio.sleep(pause_s)
            pause_s = min(max(FIRST_PAUSE_S, 2 * pause_s), LONGEST_PAUSE_S)
        if state is not None:
            more["requestState"] = state
        reply = await crossing.again(more)
    else:
        if read_wanted(reply, upstream.name, version) is not None:
            raise bad_input(upstream.name, f"more than {MAX_ROUNDS} times for one operation")
    for visit in visits:
        upstream.elicitations.on_complete(visit)
    return reply


def _with_id(question: Question, visits: list[str]) -> Question:
    """`question`, with an id if it is about a visit to a page; modern upstreams give none. Adds it to `visits`."""
    if question.method != ELICIT or mode_of(question) != URL:
        return question
    visits.append(secrets.token_urlsafe(12))
    return structs.replace(question, params={**question.params, "elicitationId": raw(visits[-1])})


async def ask_all(questions: Mapping[str, Question], exchange: Exchange, upstream: Upstream) -> dict[str, Raw]:
    """Ask all questions of `upstream`; the answers by key, in the order of the questions. Raises InputRefused: one
    cannot be done without; the others are withdrawn."""
    answers: dict[str, Raw] = {}
    refusals: list[InputRefused] = []

    async def ask(key: str, question: Question) -> None:
        reply = await exchange.ask(question)
        upstream.answered(question.method, reply)
        if isinstance(reply, Result):
            answers[key] = reply.value
        elif question.method == ELICIT:
            answers[key] = CANCELLED
        else:
            text = f"{question.upstream} needs an answer to {question.method}, which was refused: {reply.message}"
            error = InputRefused(text, upstream=question.upstream)
            error.refusal = reply
            refusals.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for key, question in questions.items():
            nursery.start_soon(ask, key, question)
    if refusals:
        raise refusals.pop(0)
    return {key: answers[key] for key in questions}
