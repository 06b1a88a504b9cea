"""Roots that modern hosts have told: which workspaces they have open, for upstreams that ask in later calls. Pure."""

from typing import Final

from msgspec import Raw

from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Caller, Tenant
from hub.wire.jsonrpc import detach
from hub.wire.mcp import LIST_ROOTS, MAX_DECLARED_BYTES
from hub.wire.questions.askable_questions import Question, check_capabilities
from hub.wire.questions.check_and_translate import answer_for_upstream

ROOTS_VALID_S: Final = 600.0
MAX_ROOTS: Final = 256
"""Hosts whose roots are kept."""


class KnownRoots:
    """Answers of modern hosts to `roots/list`, which never tell of changes: each is reused for a while.

    That of a host that cannot be told from others is reused only within its call: programs that have one token may work
    in different places. Pure: time is an argument, in seconds.
    """

    def __init__(self) -> None:
        self._known: BoundedDict[Tenant | str, tuple[Raw, float]] = BoundedDict(MAX_ROOTS)
        """Answers, each with its expiry, by host or by the id of a call."""

    def answer(self, question: Question, caller: Caller, call: str, now: float) -> Raw | None:
        """The answer to `question`, which is asked in the call of the id `call`; None: `caller` is to be asked. Raises
        QuestionRefusal: this caller has no roots to be asked for."""
        if question.method != LIST_ROOTS:
            return None
        roots, until = self._known.get(_owner(caller, call), (None, 0.0))
        if roots is None or until <= now:
            return None
        check_capabilities(question, caller.capabilities)
        return answer_for_upstream(question, roots, caller.version)

    def remember(self, caller: Caller, call: str, roots: Raw, now: float) -> None:
        """Keep the answer that `caller` gave in the call of the id `call`, unless it is large."""
        if len(memoryview(roots)) <= MAX_DECLARED_BYTES:
            self._known.put(_owner(caller, call), (detach(roots), now + ROOTS_VALID_S))

    def forget(self, call: str) -> None:
        """Forget the answer that is of use in this call only."""
        self._known.pop(call, None)

    def sweep(self, now: float) -> None:
        """Forget expired answers."""
        for owner in [owner for owner, (_, until) in self._known.items() if until <= now]:
            del self._known[owner]


def _owner(caller: Caller, call: str) -> Tenant | str:
    return caller.tenant if caller.lasting else call
