"""Events of one upstream that belong to no call: what it tells unasked, at a limited rate, and the end of a process."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

import trio
from msgspec import Raw

from hub.link.elicitation_ends import FinishedElicitations
from hub.wire.jsonrpc import Reply, peek_str
from hub.wire.mcp import Kind
from hub.wire.questions.askable_questions import Question
from upstreams.inventory.refresh import ListRefresh
from upstreams.journal.events_and_trouble import History
from upstreams.questions.budgets import QuestionBudget
from upstreams.session_contract import Exit
from upstreams.status_facts import SandboxFacts
from upstreams.subscriptions.resource_subscription import InvalidationListener

log = logging.getLogger(__name__)

SEVERITY: Final = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}
LOGS_PER_S: Final = 20
LOG_CHARS: Final = 2_000
TELL_REFUSED_S: Final = 60.0


@dataclass(eq=False, repr=False)
class EventSink:
    """The `UpstreamEvents` of one upstream; `asked`, `answered` and `ended` are those of whoever made it."""

    name: str
    history: History
    lists: ListRefresh
    listener: InvalidationListener
    elicitations: FinishedElicitations
    """Elicitations at URLs that are done."""
    budget: QuestionBudget
    """What it may ask."""
    asked: Callable[[str], None]
    answered: Callable[[str, Reply], None]
    ended: Callable[[], None]
    unattributed_count: int = 0
    """Questions that were refused because they could not be attributed to a host."""
    withheld_roots: int = 0
    """Questions for roots that were refused, because hosts share the session or the configuration gives none."""
    sandbox: SandboxFacts | None = None
    """The sandbox of the last process; None: none was started."""
    _logs_left: int = LOGS_PER_S
    _second: int = 0
    _told_refused: float = -inf

    def __post_init__(self) -> None:
        self.said, self.note = self.history.said, self.history.note

    def follow(self, old: "EventSink") -> None:
        """Go on where the sink of the predecessor ends."""
        self.elicitations = old.elicitations
        self.unattributed_count += old.unattributed_count
        self.withheld_roots += old.withheld_roots
        self.budget.follow(old.budget)

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        if Kind.RESOURCE in kinds:
            self.listener.resources_relisted()
        self.lists.mark_stale(kinds)

    def log(self, params: dict[str, Raw]) -> None:
        """Write a log message to the hub's log and the journal, at most `LOGS_PER_S`."""
        if (second := int(trio.current_time())) != self._second:
            self._second, self._logs_left = second, LOGS_PER_S
        if not self._logs_left:
            return
        self._logs_left -= 1
        level = peek_str(params.get("level")) or ""
        text = self.history.note_log(level, bytes(params.get("data", b"")).decode(errors="replace")[:LOG_CHARS])
        log.log(SEVERITY.get(level, logging.ERROR), "%s: %s", peek_str(params.get("logger")), text)

    def exited(self, exit: Exit) -> None:
        self.history.exited(exit, trio.current_time())

    def admit(self, question: Question, asked: int) -> None:
        self.budget.admit([question], trio.current_time(), asked)

    def sandboxed(self, facts: SandboxFacts) -> None:
        self.sandbox = facts

    def roots_withheld(self) -> None:
        self.withheld_roots += 1

    def unattributed(self, method: str) -> None:
        """Count a question that could not be attributed; warn at most every `TELL_REFUSED_S`."""
        self.unattributed_count += 1
        if trio.current_time() >= self._told_refused + TELL_REFUSED_S:
            self._told_refused = trio.current_time()
            text = "%s asked a question (%s), and nobody can tell which host it is for: refused, %d so far."
            text += ' With session_mode = "per_host" each host has its own %s'
            log.warning(text, self.name, method, self.unattributed_count, self.name)

    def elicited(self, id: str) -> None:
        self.elicitations.on_complete(id)
