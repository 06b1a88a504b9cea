"""Sealed questions: how a modern host is asked, and how it brings the answer back.

The state that it carries names the request, and is good for one answer, in this run of the hub, for the arguments that
were shown. Anything else is no answer, and the host is asked anew.
"""

import secrets
from hashlib import sha256
from time import perf_counter
from typing import Final, NamedTuple

import trio
from msgspec import structs

from hub.bridge.era_bridge import RELAY
from hub.bridge.sealed_request_state import (
    ASK,
    BadState,
    RequestState,
    RequestStates,
    answers_of,
    bind,
    input_required,
    state_of,
)
from hub.bridge.sealed_request_state import ELSEWHERE as AT_ANOTHER_HUB
from hub.bridge.url_elicitation import AGAIN
from hub.calls.chain import Intent
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Interim
from hub.rules.approvals.approvals import Approvals
from hub.rules.approvals.question_form import Decision, form, read_answer
from hub.rules.approvals.requests import ApprovalRequest, Wish
from hub.rules.policy.judge import LEGS
from hub.wire.jsonrpc import peek_str, raw
from hub.wire.mcp import ELICIT, MODERN, Era
from hub.wire.questions.askable_questions import Question
from hub.wire.questions.check_and_translate import answer_for_upstream, question_for_host

KEY: Final = "hub-approval"
"""The key of the question in a result."""
MAX_SPENT: Final = 4096


class BroughtBack(NamedTuple):
    """A retry that answers a question of this hub."""

    request: ApprovalRequest
    round: int
    decision: Decision | None
    """None: it has no answer."""


class SealedQuestions:
    """The questions of one hub to modern hosts."""

    def __init__(self, states: RequestStates, approvals: Approvals) -> None:
        self._states = states
        self._approvals = approvals
        self._run = secrets.token_hex(8)
        """This run of the hub, whose requests no other knows."""
        self._spent: BoundedDict[bytes, None] = BoundedDict(MAX_SPENT)
        """Digests of states of other stages that were brought back."""

    def question(self, request: ApprovalRequest, wish: Wish, intent: Intent, round: int) -> Interim:
        """The result that asks the host of an intent."""
        number = secrets.token_hex(8)
        request.states.put(number, None)
        question = form(wish.text, self._approvals.offers(wish), MODERN)
        params = question_for_host(question, wish.caller.version)
        members = {"i": request.id, "o": number, "n": round, "r": self._run}
        first = intent.first
        if not first.ref:
            first = self._states.first_round(intent.ref, perf_counter() - intent.began)
        binding = bind(intent.target.upstream.name, wish.subject.principal, intent.request, first)
        state = self._states.seal(ASK, binding, members, ttl_s=self._approvals.config.ttl_s, here=True)
        return input_required({KEY: raw({"method": ELICIT, "params": params})}, state)

    def open(self, intent: Intent) -> RequestState | None:
        """The state that a modern host brings. None: it brings none. Raises BadState: it cannot go on."""
        if not brings_state(intent):
            return None
        principal, text = intent.host.caller.identity.principal, state_of(intent.request) or ""
        state = self._states.open(text, principal, intent.request, intent.target.upstream.name)
        if state.mode == ASK and self._states.is_elsewhere(state.run):
            raise BadState(AT_ANOTHER_HUB)
        return state

    def note_yes(self, intent: Intent, wish: Wish) -> Intent:
        """An intent whose states of other stages say that they were made behind a yes to a wish."""
        return structs.replace(intent, first=intent.first._replace(agreed=self._agreement(wish)))

    def _agreement(self, wish: Wish) -> str:
        """What a yes is to: the rules by which people are asked, and the thing as it is now. No other run of the hub
        knows which states were spent, so it has none of these."""
        return sha256(repr((self._run, wish.says, wish.subject.definition, wish.runs)).encode()).hexdigest()[:16]

    def is_agreed(self, wish: Wish, agreed: str) -> bool:
        """True if a person has agreed to a wish: by what `agreed` of an intent says, or for longer."""
        return agreed == self._agreement(wish) or self._approvals.grants.covers(wish)

    def spares(self, state: RequestState, intent: Intent, wish: Wish) -> bool:
        """True if a state spares the question: its call runs already, and no rule asks for what was called since; or it
        was made behind a yes to what is asked, or that is agreed to anyway. One that has the upstream called anew
        does so once."""
        if state.mode == ASK:
            return False
        goes_on = state.mode not in (RELAY, AGAIN)
        if not ((goes_on and LEGS not in wish.says) or self.is_agreed(wish, state.binding.first.agreed)):
            return False
        if goes_on:
            return True
        key = sha256((state_of(intent.request) or "").encode()).digest()
        if key in self._spent:
            return False
        self._spent.put(key, None)
        return True

    def read(self, state: RequestState, intent: Intent, wish: Wish) -> BroughtBack | None:
        """Read a retry, whose state is used then. None: it is no answer to what is asked now. Raises
        RemoteProtocolError: the answer is malformed; the host may try again with the same state."""
        members = state.members
        id, number, run = (peek_str(members.get(name)) or "" for name in ("i", "o", "r"))
        request = self._approvals.requests.find(id, trio.current_time()) if run == self._run else None
        if state.expired or request is None or number not in request.states:
            return None
        if request.wish.key != wish.key:
            return None
        decision: Decision | None = None
        if (answer := answers_of(intent.request).get(KEY)) is not None:
            checked = answer_for_upstream(Question(ELICIT, {}, "", MODERN), answer, MODERN)
            decision = read_answer(checked, self._approvals.offers(wish))
        del request.states[number]
        return BroughtBack(request, int(bytes(members["n"])), decision)


def brings_state(intent: Intent) -> bool:
    """True if a modern host brings a state, made here or elsewhere; older ones have none."""
    return intent.host.caller.era is Era.MODERN and "requestState" in intent.request.params
