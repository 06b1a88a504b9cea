"""Questions to one legacy host: those that are open, and the roots that the host has told.

A question is a request of the hub's own, under an id of the hub, on the stream of the request that caused it and on no
other. It is open until the first of these:

    the host answers            the upstream gets the answer, or the host's error as it is
    no answer for `ttl_s`       withdrawn at the host; the upstream gets the answer of a person who declines
    the host leaves             an error
    its call ends               withdrawn at the host, before the response to the call; the upstream gets an error
    the asker is cancelled      withdrawn at the host

An id is in the table just as long as its question is open, so late, second and misdirected answers find nothing. An
answer cannot be refused: after a malformed one the hub asks a person once more; then the question counts as declined.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Final

import trio
from msgspec import Raw, Struct, field

from hub.calls.host_exchange import Send
from hub.link.call_interface import Caller
from hub.link.rate_limits import QuestionQuota
from hub.link.sync_primitives import Promise
from hub.wire import jsonrpc, mcp
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, RequestId, Response, Result, detach, peek_object, raw
from hub.wire.modern_metadata import read_number
from hub.wire.questions.askable_questions import (
    NO_FORM,
    Question,
    QuestionRefusal,
    check_capabilities,
    reply_without_answer,
)
from hub.wire.questions.check_and_translate import answer_for_upstream, question_for_host

MAX_OPEN: Final = 32
"""Open questions of one host."""
MAX_OPEN_BYTES: Final = 16 << 20
PROGRESS_EVERY_S: Final = 0.1
ROOTS_KEPT_S: Final = 600.0
"""Lifetime of the roots of a host that did not promise to tell of changes."""

NO_TIME: Final = "Nobody has answered in time"
ENDED: Final = "The call that this was asked for has ended"
TAKEN_BACK: Final = Failure(mcp.INVALID_PARAMS, ENDED)
LEFT: Final = Failure(mcp.INTERNAL_ERROR, "The host has left")


class _Open(Struct, eq=False):
    """A question that waits for the host."""

    send: Send
    size: int
    on_progress: Callable[[dict[str, Raw]], None] | None
    answered: Promise[Reply | None] = field(default_factory=Promise)
    """None: the question was withdrawn, so that there will be no reply."""
    reached: float = float("-inf")
    reported_at: float = float("-inf")


class HostQuestions:
    """All questions of one host. Their ids begin with `name`."""

    def __init__(self, ttl_s: float, name: str = "hub") -> None:
        self._ttl_s = ttl_s
        self._name = name
        self._numbers = count(1)
        self._open: dict[RequestId, _Open] = {}
        self._quotas: defaultdict[str, QuestionQuota] = defaultdict(QuestionQuota)
        """Allowance of questions, by upstream."""
        self._roots = _Roots()
        self._left = False

    def __len__(self) -> int:
        return len(self._open)

    # --- what the host says

    def answered(self, response: Response) -> None:
        """Handle a response of the host, which need not answer a question."""
        if response.id is not None and (question := self._open.pop(response.id, None)) is not None:
            question.answered.fulfil(response.reply)

    def progressed(self, params: dict[str, Raw]) -> None:
        """Handle a `notifications/progress` of the host: passed on if it belongs to a question and rises."""
        question = self._open.get(jsonrpc.peek_str(params.get(mcp.PROGRESS_TOKEN)) or "")
        value = read_number(params.get("progress"))
        if question is None or question.on_progress is None or value is None or value <= question.reached:
            return
        question.reached = value
        if trio.current_time() - question.reported_at >= PROGRESS_EVERY_S:
            question.reported_at = trio.current_time()
            hidden = (mcp.PROGRESS_TOKEN, "_meta")
            question.on_progress({name: each for name, each in params.items() if name not in hidden})

    def roots_changed(self) -> None:
        """Forget the roots: they have changed."""
        self._roots.forget()

    def start_over(self) -> None:
        """Void all open questions: the host has begun anew."""
        self._roots.forget()
        questions, self._open = self._open, {}
        for question in questions.values():
            question.answered.fulfil(LEFT)

    def host_left(self) -> None:
        """The host has left: questions fail, now and later."""
        self._left = True
        self.start_over()

    # --- what upstreams ask

    def withdraw(self, send: Send) -> None:
        """Withdraw the open questions of the request of `send`, which is over."""
        for id in [id for id, question in self._open.items() if question.send == send]:
            question = self._open.pop(id)
            _withdraw_at_host(id, ENDED, send)
            question.answered.fulfil(None)

    async def ask(self, question: Question, caller: Caller, send: Send) -> Reply:
        """Ask the host, which is `caller` now, on the stream of `send`; its answer, written for the upstream.

        Cancellation: withdraws the question."""
        why = ""
        try:
            check_capabilities(question, caller.capabilities)
            for _ in range(2 if question.method == mcp.ELICIT else 1):
                reply = await self._answer(question, caller, send)
                if not isinstance(reply, Result) or reply is NO_FORM:
                    return reply or TAKEN_BACK
                try:
                    return Result(answer_for_upstream(question, reply.value, caller.version))
                except RemoteProtocolError as error:
                    if question.method == mcp.LIST_ROOTS:
                        self._roots.forget()
                    why = str(error)
        except QuestionRefusal as refused:
            return refused.failure
        return reply_without_answer(question, why)

    async def _answer(self, question: Question, caller: Caller, send: Send) -> Reply | None:
        """The host's answer. Known roots are not asked for again; several askers of the roots share one question."""
        if question.method != mcp.LIST_ROOTS:
            return await self._ask(question, caller, send)
        roots = self._roots
        while roots.known is None or trio.current_time() >= roots.known_until:
            if roots.pending is None:
                return await self._ask_roots(question, caller, send)
            reply = await roots.pending.wait()
            if reply is not None:
                return reply
        return Result(roots.known)

    async def _ask_roots(self, question: Question, caller: Caller, send: Send) -> Reply | None:
        roots = self._roots
        mine = roots.pending = Promise()
        reply = None
        try:
            reply = await self._ask(question, caller, send)
        finally:
            if roots.pending is mine:  # else they have changed meanwhile
                roots.pending = None
                roots.remember(reply, caller)
            mine.fulfil(reply)
        return reply

    async def _ask(self, question: Question, caller: Caller, send: Send) -> Reply | None:
        """The host's own words, or those for a host that stays silent; None: the question was taken back. Raises
        QuestionRefusal: it cannot be asked, or not now."""
        id = f"{self._name}-{next(self._numbers)}"
        params = question_for_host(question, caller.version)
        on_progress = question.progress
        if on_progress is not None and mcp.PROGRESS_TOKEN in peek_object(question.params.get("_meta")):
            params["_meta"] = raw({**peek_object(params.get("_meta")), mcp.PROGRESS_TOKEN: id})
        else:
            on_progress = None
        message = jsonrpc.encode_request(id, question.method, params)
        self._admit(question.upstream, len(message))
        put = self._open[id] = _Open(send, len(message), on_progress)
        send(message, vital=True)
        why = ENDED
        try:
            with trio.move_on_after(self._ttl_s):
                return await put.answered.wait()
            why = NO_TIME
            return reply_without_answer(question, NO_TIME)
        finally:
            if self._open.pop(id, None) is not None:
                _withdraw_at_host(id, why, send)

    def _admit(self, upstream: str, size: int) -> None:
        """Admit one more question. Raises QuestionRefusal: there are too many, or the host has left."""
        if self._left:
            raise QuestionRefusal(LEFT.message, LEFT.code)
        if len(self._open) >= MAX_OPEN:
            raise QuestionRefusal(f"{MAX_OPEN} questions wait for this host already")
        if sum(each.size for each in self._open.values()) + size > MAX_OPEN_BYTES:
            raise QuestionRefusal("The questions that wait for this host are too large")
        self._quotas[upstream].admit(upstream)


class _Roots(Struct, eq=False):
    """The roots of a host: its last answer, or the question that is open."""

    known: Raw | None = None
    known_until: float = float("-inf")
    pending: Promise[Reply | None] | None = None
    """The answer that somebody waits for; None in it: the asker went away, so another is to ask."""

    def forget(self) -> None:
        self.known = self.pending = None

    def remember(self, reply: Reply | None, caller: Caller) -> None:
        """Keep the roots that the host of `caller` answered with."""
        if not isinstance(reply, Result):
            return
        if len(memoryview(reply.value)) > mcp.MAX_DECLARED_BYTES:
            return  # passed on, and asked for again when somebody wants to know
        tells = peek_object(caller.capabilities.get("roots")).get("listChanged") == Raw(b"true")
        self.known = detach(reply.value)
        self.known_until = float("inf") if tells else trio.current_time() + ROOTS_KEPT_S


def _withdraw_at_host(id: RequestId, why: str, send: Send) -> None:
    send(jsonrpc.encode_notification(mcp.CANCELLED, {"requestId": raw(id), "reason": raw(why)}), vital=True)
