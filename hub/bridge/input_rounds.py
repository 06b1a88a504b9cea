"""Input for modern upstreams from legacy hosts: the host is asked, and the upstream is called again.

The upstream's call has ended with its questions, so nothing runs there while people think. Each round asks everything
at once, each key once, and calls again with all answers and the upstream's own state, byte for byte. There is no
place for errors among answers: a refused form counts as cancelled; without a sample, or without roots, the operation
ends here.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio
from msgspec import Raw, Struct, structs

from hub.bridge.input_requests import MAX_ROUNDS, bad_input, judge, read_questions
from hub.link.hub_errors import Executed, HubError, without_frames
from hub.link.interface import Exchange
from hub.wire.capabilities import URL
from hub.wire.jsonrpc import Failure, Reply, Result, peek_str, raw
from hub.wire.mcp import ELICIT, INPUT_REQUIRED, RESULT_TYPE
from hub.wire.questions.question import Question, mode_of
from hub.wire.value_limits import TooManyItems, open_result

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 10.0
"""Pause before calling again when there was nothing to ask: none at first, then doubling."""
CANCELLED: Final = raw({"action": "cancel"})


class InputRefused(HubError):
    """The host refused input that the upstream cannot go on without; `refusal` is its answer."""

    kind = "input_refused"

    def __init__(
        self, message: str, *, upstream: str, executed: Executed | None = None, refusal: Failure | None = None
    ) -> None:
        super().__init__(message, upstream=upstream, executed=executed)
        self.refusal = refusal

    def facts(self) -> dict[str, object]:
        facts = super().facts()
        if self.refusal is not None:
            said: dict[str, object] = {"code": self.refusal.code, "message": self.refusal.message}
            if isinstance(self.refusal.data, Raw):
                said["data"] = self.refusal.data
            facts["host"] = said
        return facts


class Wanted(Struct, frozen=True):
    """Questions and state of an `input_required` result."""

    questions: dict[str, Question]
    state: Raw | None
    """The upstream's state, as JSON, echoed unchanged; None: there is none."""


def read_wanted(reply: Reply, upstream: str, version: str) -> Wanted | None:
    """Read an `input_required` result of the modern `upstream`; None: `reply` is another result.

    Raises:
        UpstreamProtocolError: it asks for nothing, or for what no host can be asked.
    """
    if not isinstance(reply, Result) or INPUT_REQUIRED.encode() not in memoryview(reply.value).tobytes():
        return None
    try:
        members = open_result(reply.value)
    except TooManyItems as error:
        raise bad_input(upstream, f"in a way that nobody can look through: {error}") from None
    if peek_str(members.get(RESULT_TYPE)) != INPUT_REQUIRED:
        return None
    state = members.get("requestState")
    if state is not None and peek_str(state) is None:
        raise bad_input(upstream, "with a requestState that is no string")
    questions = read_questions(members, upstream, version)
    if not questions and state is None:
        raise bad_input(upstream, "but for none in particular")
    return Wanted(questions, state)


async def answer_until_final(
    reply: Reply,
    retry: Callable[[dict[str, Raw]], Awaitable[Reply]],
    exchange: Exchange,
    upstream: str,
    version: str,
    *,
    declared: Mapping[str, Raw] | None = None,
    visited: Callable[[str], None] | None = None,
) -> Reply:
    """Answer the questions of a modern upstream until it gives its final reply. `reply` was its first.

    `retry` calls it again with the same params and those given. `declared`: the capabilities it was told of, if others
    than the host's. `visited` hears in the end of visits to pages: they have ids for hosts of 2025-11-25, which the
    hub makes, and are done when the upstream is content; it must not block.

    Raises:
        InputRefused: the host did not sample, or has no roots to tell of.
        UpstreamProtocolError: it asks nonsense, what the host said it cannot do, or without end.
        HubError: as `retry`.
    Cancellation: withdraws what is asked; nothing is called any more.
    """
    pause_s = 0.0
    visits: list[str] = []
    for _ in range(MAX_ROUNDS):
        wanted = read_wanted(reply, upstream, version)
        if wanted is None:
            break
        more: dict[str, Raw] = {}
        if wanted.questions:
            judge(wanted.questions, exchange.caller.capabilities if declared is None else declared, upstream)
            questions = {key: _with_id(question, visits) for key, question in wanted.questions.items()}
            more["inputResponses"] = raw(await ask_all(questions, exchange))
            pause_s = 0.0
        else:
            await trio.sleep(pause_s)
            pause_s = min(max(FIRST_PAUSE_S, 2 * pause_s), LONGEST_PAUSE_S)
        if wanted.state is not None:
            more["requestState"] = wanted.state
        reply = await retry(more)
    else:
        if read_wanted(reply, upstream, version) is not None:
            raise bad_input(upstream, f"more than {MAX_ROUNDS} times for one operation")
    if visited is not None:
        for visit in visits:
            visited(visit)
    return reply


def _with_id(question: Question, visits: list[str]) -> Question:
    """`question`, with an id if it is about a visit to a page; modern upstreams give none. Adds it to `visits`."""
    if question.method != ELICIT or mode_of(question) != URL:
        return question
    visits.append(secrets.token_urlsafe(12))
    return structs.replace(question, params={**question.params, "elicitationId": raw(visits[-1])})


async def ask_all(questions: Mapping[str, Question], exchange: Exchange) -> dict[str, Raw]:
    """Ask all questions; the answers by key, in the order of the questions.

    Raises:
        InputRefused: one cannot be done without; the others are withdrawn.
    """
    if len(questions) == 1:
        ((key, question),) = questions.items()
        return {key: _answer(question, await exchange.ask(question))}
    answers: dict[str, Raw] = {}
    refusals: list[InputRefused] = []

    async def ask(key: str, question: Question) -> None:
        try:
            answers[key] = _answer(question, await exchange.ask(question))
        except InputRefused as error:
            refusals.append(without_frames(error))
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for key, question in questions.items():
            nursery.start_soon(ask, key, question)
    if refusals:
        raise refusals.pop(0)
    return {key: answers[key] for key in questions}


def _answer(question: Question, reply: Reply) -> Raw:
    if isinstance(reply, Result):
        return reply.value
    if question.method == ELICIT:
        return CANCELLED
    text = f"{question.upstream} needs an answer to {question.method}, which was refused: {reply.message}"
    raise InputRefused(text, upstream=question.upstream, refusal=reply)
