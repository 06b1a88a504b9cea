"""Questions of a legacy upstream over one session, each from its arrival to its one answer.

    arrives --> refused at once: nothing of the kind was declared, it cannot be attributed, there are too many
            `-> asked, through the exchange of the operation it belongs to, until the first of these:
                    the host answers, or refuses        the upstream gets that
                    the operation ends                  withdrawn at the host, refused to the upstream
                    the upstream withdraws it,          withdrawn at the host, and not answered
                    or the session ends

A question is attributed when it arrives, before anything that arrives later is read: `receive` is sync; what it
returns is awaited in a task of its own; cancelling that task withdraws the question.

In a session that one host has alone, questions may come before the first operation is sent: those wait for `welcome`.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import trio
from msgspec import Raw, structs

from hub.link.call_interface import NOTHING, Exchange, Program
from hub.link.rate_limits import QuestionQuota
from hub.link.sync_primitives import Bell
from hub.wire import mcp
from hub.wire.jsonrpc import Failure, Reply, Request, Result, peek_object, raw
from hub.wire.modern_metadata import read_number, slightly_above
from hub.wire.questions.askable_questions import Question, QuestionRefusal, check_capabilities, missing_capabilities
from upstreams.questions.attribution import SUSPECT_S, RecentCalls, may_ask, owner
from upstreams.running_call import Running
from upstreams.session_contract import SessionEvents, SessionTerms

MAX_OPEN: Final = 32
"""Questions of one session that wait for an answer."""
MAX_OPEN_EACH: Final = 16
"""Open questions of one operation."""
KEEPALIVE_S: Final = 15.0
"""Seconds between progress reports to an upstream whose question is open, if it gave a progress token."""
STARTUP_QUIET_S: Final = 0.1
"""Time in which a new session may ask its first questions."""
EARLY_S: Final = 5.0
"""Seconds that such questions wait for a host."""
ROOTS_WAIT_S: Final = 60.0
"""Time limit for a host to say its roots when no operation of it runs."""

Tell = Callable[[str, dict[str, Raw]], None]
"""Sends the upstream a notification. Never blocks, never raises."""
Answering = Coroutine[Any, Any, Reply]


@dataclass(eq=False, repr=False, slots=True)
class OpenQuestion:
    """A question that is being answered. `running` None: it belongs to no call, but to the host of the session."""

    question: Question
    running: Running | None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


@dataclass(eq=False, repr=False)
class Questions:
    """All questions of one session, and the operations they may belong to."""

    name: str
    events: SessionEvents
    terms: SessionTerms
    tell: Tell
    version: Callable[[], str]
    """The revision in use."""
    alone: bool
    """All operations there ever were are of one principal, and what the upstream asks comes on one stream, so that it
    may belong to any of them."""
    running: dict[int, Running] = field(default_factory=dict)
    """All operations of the session, by the ids of their requests and in the order of sending."""
    principal: str | None = None
    """The account whose operation was sent last; None: there was none."""
    recent_calls: RecentCalls = field(default_factory=RecentCalls)
    """Programs the upstream may still speak of; not used where one host is alone."""
    _open: dict[OpenQuestion, None] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    """The methods of the questions that were asked, of which the upstream as a whole was told."""
    _host: Exchange | None = None
    """The host that owns the session, since it was welcomed."""
    _welcoming: bool = False
    _welcomed: trio.Event = field(default_factory=trio.Event)
    _settled: Bell = field(default_factory=Bell)
    """Rung whenever a question is settled."""

    def __post_init__(self) -> None:
        self._quota = QuestionQuota()

    @property
    def waits(self) -> bool:
        """True if the upstream waits for an answer."""
        return bool(self._open)

    # --- operations ---------------------------------------------------------------------------------------------------

    def serve(self, principal: str) -> None:
        """An operation of `principal` is about to be sent, who is another than before."""
        if self.principal is not None:
            self.alone = False
        self.principal = principal

    def is_plain(self, program: Program) -> bool:
        """True if all that may be going on at the upstream, the running operations aside, is of `program`."""
        return self.alone and not self._others(program)

    def _others(self, program: Program) -> bool:
        return self.recent_calls.others(program, trio.current_time())

    # --- a question arrives -------------------------------------------------------------------------------------------

    def receive(self, request: Request, on: Running | None = None) -> Answering:
        """Begin to answer a request of the upstream; what is returned must be awaited.

        `on`: the operation on whose own stream it came.
        """
        question = Question(request.method, request.params, self.name, self.version())
        try:
            if (known := self._answer_directly(question)) is not None:
                return _at_once(known)
            found = self._find(question, on)
        except QuestionRefusal as refused:
            if (found := self._call_lacking_capability(question, on)) is None:
                return self._refuse(question, refused.failure)
        try:
            self._admit(found, question)
        except QuestionRefusal as refused:
            return self._refuse(question, refused.failure)
        asked = OpenQuestion(question, found)
        self._open[asked] = None
        if found is not None:
            found.asked(asked.scope)
        return self._answer(asked)

    def _refuse(self, question: Question, failure: Failure) -> Answering:
        if question.method in mcp.QUESTIONS:
            self.events.answered(question.method, failure)
        return _at_once(failure)

    def _answer_directly(self, question: Question) -> Reply | None:
        """The answer to a question for which no host is needed.

        Raises:
            QuestionRefusal: there is no such question, or none was offered.
        """
        method, terms = question.method, self.terms
        if method == mcp.PING:
            return NOTHING
        if method not in mcp.QUESTIONS:
            raise QuestionRefusal(f"This client does not answer {method}", mcp.METHOD_NOT_FOUND)
        if method == mcp.LIST_ROOTS and terms.roots is not None:
            return Result(raw({"roots": [{"uri": uri} for uri in terms.roots]}))
        if method not in self._asked and terms.client_features != "none":
            self._asked.add(method)
            self.events.asked(method)
        if method == mcp.LIST_ROOTS and (why := self._withheld_roots()):
            self.events.roots_withheld()
            raise QuestionRefusal(f'{why}; with roots = "host" it is given those of each host', mcp.METHOD_NOT_FOUND)
        check_capabilities(question, terms.capabilities)
        return None

    def _withheld_roots(self) -> str:
        """The reason why the session has no roots, whatever its hosts have; "": there is none."""
        name, terms = self.name, self.terms
        if "roots" in terms.capabilities or terms.client_features == "none":
            return ""
        if not terms.tells_roots:
            return f"The configuration of {name} gives it no roots"
        return "" if terms.exclusive else f"Hosts share this session of {name}, so it is given no roots"

    def _find(self, question: Question, on: Running | None) -> Running | None:
        """The operation that a question belongs to; None: it is for the host of the session.

        Raises:
            QuestionRefusal: it is for nobody, as far as can be told.
        """
        exclusive = self.terms.exclusive
        if on is not None:
            if may_ask(on.operation, question.params):
                return on
            text = f"{question.method} may not be asked during {on.operation.method}"
            raise QuestionRefusal(text)
        running = self.running.values()
        found = owner(question.params, running, exclusive=exclusive, alone=self.alone, others=self._others)
        if found is not None:
            return found
        if exclusive and (self._welcoming or not self._welcomed.is_set() or question.method == mcp.LIST_ROOTS):
            return None
        raise self._attribution_refusal(question)

    def _call_lacking_capability(self, question: Question, on: Running | None) -> Running | None:
        """The operation of a modern host that has not declared what a refused question needs; None: there is none.

        Its exchange refuses the question, too, and tells the host what it lacks if the operation fails.
        """
        terms = self.terms
        if terms.client_features == "none":
            return None
        running = self.running.values()
        found = on or owner(question.params, running, exclusive=terms.exclusive, alone=self.alone, others=self._others)
        if found is None or not may_ask(found.operation, question.params):
            return None
        caller = found.exchange.caller
        return found if caller.era is mcp.Era.MODERN and missing_capabilities(question, caller.capabilities) else None

    def _attribution_refusal(self, question: Question) -> QuestionRefusal:
        self.events.unattributed(question.method)
        text = f"hubd cannot tell which call this {question.method} belongs to"
        if self.terms.exclusive or not any(each.operation.method in mcp.MAY_ASK for each in self.running.values()):
            return QuestionRefusal(f"{text}: none is running that may be asked")
        why, remedy = "another host may be meant", 'set session_mode = "per_host": each host has its own session then'
        if self.alone:
            why += f", which calls {self.name} now or did within the last {SUSPECT_S:g} s"
            remedy = f"repeat the call later, or {remedy}"
        return QuestionRefusal(f"{text}: {why}; {remedy}")

    def _admit(self, running: Running | None, question: Question) -> None:
        """Count one more question.

        Raises:
            QuestionRefusal: there are too many.
        """
        if len(self._open) >= MAX_OPEN or (running and running.questions and len(running.questions) >= MAX_OPEN_EACH):
            raise QuestionRefusal("Too many questions wait for an answer already")
        self._quota.admit(self.name)
        self.events.admit(question, running.asked_count if running else 0)
        if running and question.method == mcp.ELICIT:
            running.count_asked()

    # --- answering ----------------------------------------------------------------------------------------------------

    async def _answer(self, asked: OpenQuestion) -> Reply:
        reply: Reply | None = None
        try:
            with asked.scope:
                await trio.lowlevel.checkpoint_if_cancelled()
                if asked.running is not None:
                    reply = await self._ask(asked.question, asked.running.exchange)
                else:
                    reply = await self._ask_host(asked.question)
        finally:
            del self._open[asked]
            if asked.running is not None:
                asked.running.settled(asked.scope)
            self._settled.ring()
        method = asked.question.method
        reply = reply or Failure(mcp.INVALID_PARAMS, f"The call that this {method} belongs to is over")
        self.events.answered(method, reply)
        return reply

    async def _ask(self, question: Question, exchange: Exchange) -> Reply:
        """Ask the host; an upstream that wants to know how it goes is told."""
        if (token := peek_object(question.params.get("_meta")).get(mcp.PROGRESS_TOKEN)) is None:
            return await exchange.ask(question)
        report = _Report(partial(self.tell, mcp.PROGRESS), token)
        question = structs.replace(question, progress=report.pass_on)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(report.keep_alive)
            reply = await exchange.ask(question)
            nursery.cancel_scope.cancel()
        return reply

    async def _ask_host(self, question: Question) -> Reply:
        """Ask the host of the session while no operation of it runs: at the start; later on for its roots only."""
        with trio.move_on_after(EARLY_S):
            await self._welcomed.wait()
        question = structs.replace(question, version=self.version())  # it may have come while hands were being shaken
        if self._host is not None and self._welcoming:
            return await self._ask(question, self._host)
        if self._host is not None and question.method == mcp.LIST_ROOTS:
            with trio.move_on_after(ROOTS_WAIT_S):
                return await self._ask(question, self._host)
        return self._attribution_refusal(question).failure

    # --- the host of the session --------------------------------------------------------------------------------------

    async def welcome(self, exchange: Exchange) -> None:
        """Let the host that owns the session answer what the upstream asks as soon as it is open."""
        if not self.terms.exclusive or self._welcomed.is_set():
            return
        self._host, self._welcoming = exchange, True
        self._welcomed.set()
        try:
            await trio.sleep(STARTUP_QUIET_S)
            while any(asked.running is None for asked in self._open):
                await self._settled.wait()
        finally:
            self._welcoming = False
            for asked in self._open:
                if asked.running is None:
                    asked.scope.cancel()

    def roots_changed(self) -> None:
        """Tell the upstream that the roots have changed, if that was promised."""
        if peek_object(self.terms.capabilities.get("roots")).get("listChanged") == Raw(b"true"):
            self.tell(mcp.ROOTS_CHANGED, {})


async def _at_once(reply: Reply) -> Reply:
    return reply


class _Report:
    """Reports the progress of one question to the upstream, in rising values."""

    def __init__(self, tell: Callable[[dict[str, Raw]], None], token: Raw) -> None:
        self._tell = tell
        self._token = token
        self._reached = float("-inf")

    def pass_on(self, params: dict[str, Raw]) -> None:
        value = read_number(params.get("progress"))
        if value is not None and value > self._reached:
            self._reached = value
            self._tell({mcp.PROGRESS_TOKEN: self._token, **params})

    async def keep_alive(self) -> None:
        """Report progress every `KEEPALIVE_S`: upstreams may wait for as long as they hear of it."""
        while True:
            await trio.sleep(KEEPALIVE_S)
            self.pass_on({"progress": raw(slightly_above(self._reached))})
