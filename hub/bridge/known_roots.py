"""Known roots of modern hosts, which are asked by ending a request and never tell of changes.

So an answer is reused for a while for further questions of upstreams. The answer of a host that cannot be told from
others is reused only within its call.
"""

from typing import Final

from msgspec import Raw

from hub.link.interface import Caller, Tenant
from hub.wire.jsonrpc import detach
from hub.wire.mcp import LIST_ROOTS
from hub.wire.questions.question import Question, answer_for_upstream, check_capabilities

ROOTS_VALID_S: Final = 600.0
MAX_ROOTS: Final = 256
"""Hosts whose roots are kept."""


class KnownRoots:
    """Answers of hosts to `roots/list`. Pure: time is an argument, in seconds."""

    def __init__(self) -> None:
        self._known: dict[Tenant, tuple[Raw, float]] = {}
        """Answers, each with its expiry; the oldest first."""

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, question: Question, caller: Caller, now: float) -> Raw | None:
        """The answer to `question`; None: `caller` is to be asked.

        Raises:
            Refused: this caller has no roots to be asked for.
        """
        if question.method != LIST_ROOTS:
            return None
        roots, until = self._known.get(caller.tenant, (None, 0.0))
        if roots is None or until <= now:
            return None
        check_capabilities(question, caller.capabilities)
        return answer_for_upstream(question, roots, caller.version)

    def remember(self, caller: Caller, roots: Raw, now: float) -> None:
        """Keep the answer of `caller`. Beyond `MAX_ROOTS` the oldest is forgotten."""
        self._known.pop(caller.tenant, None)
        self._known[caller.tenant] = detach(roots), now + ROOTS_VALID_S
        if len(self._known) > MAX_ROOTS:
            del self._known[next(iter(self._known))]

    def sweep(self, now: float) -> None:
        """Forget expired answers."""
        self._known = {tenant: known for tenant, known in self._known.items() if known[1] > now}
