r"""State of one parked call, as a table. Pure: time is an argument.

A legacy upstream asks inside its running call and waits. The request of a modern host cannot wait with it: it ends with
the questions, and comes back, perhaps, as a new request with the answers. So a call outlives the request it came with:

    RUN --ASKED--> ASK --SHOWN--> PARK --ENDED--> DONE --ANSWERED--> GONE
     ^              |              | \              \
     +---SETTLED----+              |  EXPIRED        EXPIRED
     +-----------------ANSWERED----+   \--> GONE      \--> GONE

In `RUN` and `ASK` a request of the host is attached: it gets the outcome, and when it is cancelled the call is. In
`ASK` questions are collected for a moment, since upstreams ask several at once. In `PARK` no request is attached: the
call waits for answers, or runs on. In `DONE` its outcome waits. In `GONE` a retry is told `ParkedState.reason`.

Questions go to the host in rounds. A retry answers the latest round, and uses it up unless it is malformed. Questions
left open are asked again in a new round, together with new ones, as far as the capabilities of this retry allow. Every
question is settled exactly once: answered, refused or withdrawn. Its key is never used again.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Raw, structs

from hub.bridge.questions_in_results import MAX_OPEN, MAX_ROUNDS, PendingQuestion, input_request
from hub.bridge.sealed_request_state import EXPIRED, LOST, USED, BadState
from hub.link.call_interface import Caller
from hub.wire.jsonrpc import Failure, Reply
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.questions.askable_questions import Question, QuestionRefusal, reply_without_answer

UNANSWERED: Final = "Nobody answered"
_OVER: Final = Failure(INVALID_PARAMS, "The call that this question belongs to is over")


class Phase(Enum):
    """Phase of a call."""

    RUN = "run"
    ASK = "ask"
    PARK = "park"
    DONE = "done"
    GONE = "gone"


class CallEvent(Enum):
    """Event of a call that changes its phase."""

    ASKED = "asked"
    """A question of the upstream that this host can be asked."""
    SETTLED = "settled"
    """No question is open any more, since the upstream withdrew them."""
    SHOWN = "shown"
    """A round went to the host, and its request ended with it."""
    ANSWERED = "answered"
    """A retry that leaves nothing open: its request is attached, or gets the outcome that waits."""
    ENDED = "ended"
    """The upstream's result or error, or one of the hub's own."""
    LOST = "lost"
    """The upstream's session ended, and the call with it."""
    LEFT = "left"
    """The host cancelled, or went away."""
    EXPIRED = "expired"
    """Nobody came back in time."""


_ATTACHED: Final = {CallEvent.ENDED: Phase.GONE, CallEvent.LOST: Phase.GONE, CallEvent.LEFT: Phase.GONE}
_ALONE: Final = {CallEvent.LEFT: Phase.GONE, CallEvent.EXPIRED: Phase.GONE}

TRANSITIONS: Final[Mapping[Phase, Mapping[CallEvent, Phase]]] = {
    Phase.RUN: {CallEvent.ASKED: Phase.ASK, **_ATTACHED},
    Phase.ASK: {CallEvent.ASKED: Phase.ASK, CallEvent.SETTLED: Phase.RUN, CallEvent.SHOWN: Phase.PARK, **_ATTACHED},
    Phase.PARK: {
        **dict.fromkeys((CallEvent.ASKED, CallEvent.SETTLED, CallEvent.SHOWN), Phase.PARK),
        **{CallEvent.ANSWERED: Phase.RUN, CallEvent.ENDED: Phase.DONE, CallEvent.LOST: Phase.GONE},
        **_ALONE,
    },
    Phase.DONE: {CallEvent.ANSWERED: Phase.GONE, **_ALONE},
    Phase.GONE: {},
}

_REASONS: Final[Mapping[CallEvent, str]] = {CallEvent.LOST: LOST, CallEvent.LEFT: EXPIRED, CallEvent.EXPIRED: EXPIRED}
"""Reason why a retry finds nothing to resume, if no request was attached at the end; other ends were told to the host,
and used up its last round."""


class ParkedState:
    """State of one call. `caller` made the latest attempt; times are in seconds of one clock.

    `ttl_s` is how long one round waits for its retry, `total_s` how long all of them together.
    """

    def __init__(self, caller: Caller, *, ttl_s: float, total_s: float) -> None:
        self.caller = caller
        self.phase = Phase.RUN
        self.reason = USED
        self.round = 0
        """Number of the latest round; 0 before the first."""
        self.deadline = float("inf")
        """Deadline of the latest round."""
        self._ttl_s = ttl_s
        self._total_s = total_s
        self._until = float("inf")
        self._keys = 0
        self.open: dict[str, PendingQuestion] = {}
        """Open questions by key; whoever asked waits for their replies."""
        self._shown: frozenset[str] = frozenset()
        """The keys of the latest round."""

    def __repr__(self) -> str:
        return f"<ParkedState {self.phase.value}, round {self.round} [{len(self.open)} open]>"

    def feed(self, event: CallEvent) -> None:
        """Move on by the table. KeyError: a bug of ours."""
        before, self.phase = self.phase, TRANSITIONS[self.phase][event]
        if self.phase is Phase.GONE:
            is_alone = before in (Phase.PARK, Phase.DONE)
            self.reason = _REASONS.get(event, USED) if is_alone else USED

    def open_question(self, question: Question, now: float) -> str:
        """Open a question; its key. Raises QuestionRefusal: this host cannot be asked that; or this call has asked
        enough, or is over."""
        request = self._write(question)
        if CallEvent.ASKED not in TRANSITIONS[self.phase]:
            raise QuestionRefusal("The call this question belongs to is over")
        if self._spent(now) or len(self.open) >= MAX_OPEN:
            raise QuestionRefusal("This call has asked too many questions")
        self._keys += 1
        key = f"q{self._keys}"
        self.open[key] = PendingQuestion(question, request)
        self.feed(CallEvent.ASKED)
        return key

    def withdraw_question(self, key: str) -> None:
        """Withdraw a question. Nothing happens if it is settled."""
        if self.open.pop(key, None) is not None and not self.open and CallEvent.SETTLED in TRANSITIONS[self.phase]:
            self.feed(CallEvent.SETTLED)

    def end_call(self, *, lost: bool) -> None:
        """End the call; `lost`: its session ended. Open questions are void; the outcome waits for a request."""
        self._settle(dict.fromkeys(self.open, _OVER))
        if self.phase is not Phase.GONE:
            self.feed(CallEvent.LOST if lost else CallEvent.ENDED)

    def begin_round(self, now: float) -> None:
        """Begin a round with all open questions; `input_requests` then gives them for the host."""
        if not self.round:
            self._until = now + self._total_s
        self.round += 1
        self.deadline = min(now + self._ttl_s, self._until)
        self._shown = frozenset(self.open)
        self.feed(CallEvent.SHOWN)

    def input_requests(self) -> dict[str, Raw]:
        """The input requests of the latest round."""
        return {key: self.open[key].request for key in self.open if key in self._shown}

    def retry(self, round: int, answers: Mapping[str, Raw], caller: Caller, now: float) -> dict[str, Reply]:
        """Handle the answers of a retry, which may be all, some or none; the replies that the upstream gets, by key.

        Then `phase` says how it goes on: `PARK`, there is a new round; `RUN`, the retry waits for the outcome; `GONE`,
        it gets the outcome that waited. Raises BadState: there is nothing to go on from, or not from this round;
        RemoteProtocolError: an answer is none to its question. Nothing has changed."""
        if self.phase is Phase.GONE:
            raise BadState(self.reason)
        if round != self.round or self.phase in (Phase.RUN, Phase.ASK):
            raise BadState(USED)
        if self.phase is Phase.DONE:
            self.feed(CallEvent.ANSWERED)
            return {}
        answered = self._shown & answers.keys() & self.open.keys()
        settled = {key: self.open[key].read(answers[key], caller.version) for key in answered}
        self.caller = caller
        self._settle(settled)
        settled |= self._write_again(now)
        if self.open:
            self.begin_round(now)
        else:
            self.feed(CallEvent.ANSWERED)
        return settled

    def _write_again(self, now: float) -> dict[str, Reply]:
        """Write open questions anew for the host of the latest attempt; replies to those that it cannot be asked."""
        if self._spent(now):
            return self._decline()
        refused: dict[str, Reply] = {}
        for key, each in self.open.items():
            try:
                self.open[key] = structs.replace(each, request=self._write(each.question))
            except QuestionRefusal as error:
                refused[key] = error.failure
        return self._settle(refused)

    def expire(self) -> dict[str, Reply]:
        """Give up waiting; the replies to the open questions, by key."""
        self.feed(CallEvent.EXPIRED)
        return self._decline()

    def _decline(self) -> dict[str, Reply]:
        return self._settle({key: reply_without_answer(each.question, UNANSWERED) for key, each in self.open.items()})

    def _settle(self, replies: dict[str, Reply]) -> dict[str, Reply]:
        for key, reply in replies.items():
            self.open.pop(key).reply.fulfil(reply)
        return replies

    def _spent(self, now: float) -> bool:
        return self.round >= MAX_ROUNDS or now >= self._until

    def _write(self, question: Question) -> Raw:
        """`question` as the host of the latest attempt is asked. Raises QuestionRefusal."""
        return input_request(question, self.caller.version, self.caller.capabilities)
