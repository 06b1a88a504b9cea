"""Visits to pages in progress, so that the conversations that began them are told of their end."""

from typing import Final

from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Caller
from hub.link.elicitation_ends import MAX_ID_CHARS
from hub.wire.capabilities import URL, elicitation_modes
from hub.wire.jsonrpc import peek_str
from hub.wire.mcp import ELICIT, L4
from hub.wire.questions.askable_questions import Question, mode_of
from hub.wire.questions.check_and_translate import elicitation_id

MAX_VISITS: Final = 1024
MAX_SENT: Final = 64
"""Conversations that were given one visit id."""


class PageVisits:
    """Visits in progress: which conversations were given which visit ids. Bounded: the oldest are forgotten."""

    def __init__(self) -> None:
        self._begun: BoundedDict[str, BoundedDict[int, None]] = BoundedDict(MAX_VISITS)

    def on_question(self, question: Question, caller: Caller) -> None:
        """`question` is about to be put to `caller`, a host of a legacy session; others have no ids."""
        theirs = peek_str(question.params.get("elicitationId"))
        is_visit = question.method == ELICIT and mode_of(question) == URL and theirs is not None
        if is_visit and caller.version == L4 and URL in elicitation_modes(caller.capabilities):
            self.on_visit_begun(question.upstream, theirs or "", caller.conversation)

    def on_visit_begun(self, upstream: str, theirs: str, conversation: int) -> None:
        """Note that a host was sent to the page that `upstream` calls `theirs`."""
        if len(theirs) > MAX_ID_CHARS:
            return
        id = elicitation_id(upstream, theirs)
        conversations: BoundedDict[int, None] = self._begun.get(id) or BoundedDict(MAX_SENT)
        conversations.put(conversation, None)
        self._begun.put(id, conversations)

    def on_visit_done(self, upstream: str, theirs: str) -> tuple[str, frozenset[int]]:
        """The hub's id of a visit that is done, and the conversations to be told: each once."""
        id = elicitation_id(upstream, theirs)
        return id, frozenset(self._begun.pop(id, ()))
