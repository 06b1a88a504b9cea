"""Ask: the stage that asks a person where a rule wants that, before anything goes upstream.

    an answer that a modern host brings   decides
    a grant                               the call goes on
    a decision of before                  the call goes on, or is refused
    a host that has forms                 is asked: the call waits (legacy), or comes back with the answer (modern)
    somebody watches                      the call waits for a while
    else                                  refused; the model is told of the request

After a wait the rules are asked once more, and so is the person, if the tool or its server is not what was shown any
more. States of other stages that were made behind a yes say to what: a retry that
brings one goes on, and never begins its call anew there, since nobody has agreed to that. One of before there was such
a rule is asked about as a new call.
"""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

import trio
from msgspec import structs

from config.loading.checks.profiles import OWN_LABEL
from config.settings import ApprovalsConfig, HubConfig
from hub.bridge.questions_in_results import MAX_ROUNDS
from hub.bridge.sealed_request_state import NO_ROUND, BadState, RequestStates
from hub.calls.chain import WAIT, Intent, Next, Stage, Wait
from hub.link.hub_errors import CallDenied, Overloaded
from hub.rules.approvals.approvals import Approvals, approval_error, decline_error
from hub.rules.approvals.grants import Grants
from hub.rules.approvals.question_form import Decision, form, read_answer
from hub.rules.approvals.requests import ApprovalRequest, Wish
from hub.rules.approvals.sealed_questions import BroughtBack, SealedQuestions, brings_state
from hub.rules.approvals.what_person_is_asked import MAX_ASKED_BYTES, VERBS, first_attempt, subject_of, wish_of
from hub.rules.policy.judge import Judge, Note
from hub.rules.policy.verdict import Effect, Verdict
from hub.wire.capabilities import FORM, elicitation_modes
from hub.wire.jsonrpc import Reply, Result
from hub.wire.mcp import MODERN, Era
from upstreams.redact import CommonSecrets

TOO_LARGE: Final = (
    "Not run: a person has to approve this first, and its arguments are too large to be looked through (more than"
    f" {MAX_ASKED_BYTES >> 10} KiB). Do not try again with the same arguments: send less at a time."
)


class Ask(Stage):
    """The stage of one hub. `common`: secrets of the hub, which nobody is shown."""

    def __init__(
        self,
        judge: Judge,
        grants: Grants,
        states: RequestStates,
        common: CommonSecrets,
        note: Note,
        read_config: Callable[[], HubConfig],
        look_around: Callable[[], Awaitable[None]],
    ) -> None:
        """`read_config`: reads the configuration in effect; `look_around`: takes note of who is connected."""
        self.approvals = Approvals(lambda: _settings_of(read_config()), grants, note)
        self._read_config, self._look_around = read_config, look_around
        self._judge = judge
        self._sealed = SealedQuestions(states, self.approvals)
        self._first_round = states.first_round
        self._common = common

    def look_again(self) -> None:
        """Other rules have come: what they deny is asked no more, nor what none of them asks about; calls that wait go
        by them."""
        rules = () if self._judge.book is None else self._judge.book.rules
        said = {rule.digest for rule in rules}
        for request in self.approvals.requests.all(trio.current_time()):
            wish = request.wish
            is_gone = not request.waiting and wish.says != (wish.rule,) and said.isdisjoint(wish.says)
            if is_gone or self._judge.judge(wish.caller, wish.view, wish.target).effect is Effect.DENY:
                self.approvals.requests.drop(request)
        self.approvals.wake()

    def admits(self, intent: Intent) -> Wait | None:
        verdict, grants = self._judge_call(intent), self.approvals.grants
        if verdict.effect is Effect.ALLOW:
            return None
        is_known = intent.first.agreed or grants.knows(subject_of(intent))
        if verdict.effect is Effect.ASK and not brings_state(intent) and is_known:
            is_agreed = self._sealed.is_agreed(wish_of(intent, verdict, self._common), intent.first.agreed)
            return None if is_agreed else WAIT
        return WAIT

    def _judge_call(self, intent: Intent) -> Verdict:
        """The verdict of the rules; a hook may want a person to be asked, or have agreed in place of one."""
        verdict = self._judge.judge_arguments(intent)
        if intent.hook and verdict.effect is Effect.ALLOW:
            return Verdict(Effect.ASK, intent.hook)
        if intent.spares_asking and verdict.effect is Effect.ASK:
            return Verdict(Effect.ALLOW, verdict.rule)
        return verdict

    async def call(self, intent: Intent, next: Next) -> Reply:
        """As `Stage.call`.

        Raises:
            ApprovalRequired: nobody has agreed yet.
            ApprovalDeclined: a person has said no.
            CallDenied: rules deny it, or nobody could look through it.
            Overloaded: too many calls wait for a person.
            RemoteProtocolError: an answer is malformed, and the host may try again; or the arguments are.
        """
        verdict = self._judge_call(intent)
        if verdict.effect is Effect.ASK:
            asked = await self._ask(intent, verdict)
            if not isinstance(asked, Intent):
                return asked
            intent = asked
            verdict = self._judge_call(intent)
        if verdict.effect is Effect.DENY:
            self._judge.note_denial(intent, verdict)
            raise CallDenied.because(verdict.reason, intent.target.upstream.name)
        return await next(intent)

    async def _ask(self, intent: Intent, verdict: Verdict) -> Intent | Reply:
        """The intent with which to go on, or the question to its host. Raises as `call`."""
        try:
            state = self._sealed.open(intent)
        except BadState as error:
            return error.failure
        first = await first_attempt(intent)
        if state is not None:
            first = structs.replace(first, first=state.binding.first)
        wish = wish_of(first, verdict, self._common)
        if state is not None and self._sealed.spares(state, intent, wish):
            return self._sealed.note_yes(structs.replace(intent, begins_again=False), wish)
        back = None if state is None else self._sealed.read(state, intent, wish)
        while isinstance(asked := await self._decide(first, wish, back), Intent):
            await self.approvals.grants.save()
            shown, wish, back = wish, wish_of(first, verdict, self._common), None
            if wish.key == shown.key or self._is_over(first):  # else the server is another by now
                return self._sealed.note_yes(asked, wish)
        await self.approvals.grants.save()
        return asked

    async def _decide(self, intent: Intent, wish: Wish, back: BroughtBack | None) -> Intent | Reply:
        approvals, requests = self.approvals, self.approvals.requests
        if back is not None and back.decision is not None:
            approvals.decide(back.request, wish, back.decision)
            return intent
        if approvals.grants.covers(wish):
            return intent
        await approvals.grants.save()  # one may have ended
        if wish.is_too_large:
            approvals.write_down("refuse", wish, why="too large to be looked through")
            raise CallDenied(TOO_LARGE, upstream=wish.subject.upstream)
        if requests.is_unasked(wish.subject, trio.current_time()):
            approvals.write_down("refuse", wish)
            raise decline_error(wish)
        try:
            request = requests.join(wish, trio.current_time(), approvals.config.ttl_s)
        except Overloaded:
            approvals.write_down("refuse", wish, why="too many wait for a person")
            raise
        own = self._first_round(intent.ref, perf_counter() - intent.began)
        if request.first is NO_ROUND:  # it is new
            request.first = own
            approvals.write_down("ask", wish, request=request.id)
            await self._look_around()
            approvals.wake()  # not before: whoever watches is shown whether it waits
        if not intent.first.ref and request.first.ref != own.ref:
            intent = structs.replace(intent, first=request.first)
        if approvals.hear(request, wish):
            requests.settle(request)
            return intent
        has_forms, is_modern = _has_forms(intent), wish.caller.era is Era.MODERN and not intent.host.is_step
        round = 1 if back is None else back.round + 1
        if has_forms and is_modern and requests.may_show(request) and round <= MAX_ROUNDS:
            return self._sealed.question(request, wish, intent, round)
        asks = has_forms and not is_modern
        wait_s = self._read_config().park_ttl_s if asks else self._wait_s(intent)
        if wait_s <= 0 or not requests.may_wait(request):
            raise approval_error(request)
        decision: Decision | None = "nothing"
        request.waiting += 1
        try:
            with trio.move_on_after(wait_s):
                decision = await self._wait(request, wish, intent, asks=asks)
        finally:
            request.waiting -= 1
        if decision is None:
            requests.settle(request)
        else:
            approvals.decide(request, wish, decision)
        return intent

    def _wait_s(self, intent: Intent) -> float:
        """The time that a call may wait for a decision outside of its host."""
        approvals = self.approvals
        waits = approvals.watchers and intent.request.method in VERBS and not _is_command(intent)
        return approvals.config.wait_s if waits else 0.0

    async def _wait(self, request: ApprovalRequest, wish: Wish, intent: Intent, *, asks: bool) -> Decision | None:
        """Wait for a decision, of the host itself if it `asks`; None: one of elsewhere lets the call go on. Raises
        ApprovalDeclined: a person has said no elsewhere. Cancellation: the host is asked no more."""
        while not self._is_over(intent) and not self.approvals.hear(request, wish):
            if not (asks and self.approvals.requests.may_show(request)):
                await self.approvals.changed.wait()
            elif (decision := await self._show(request, wish, intent)) is not None:
                return decision
        return None

    def _is_over(self, intent: Intent) -> bool:
        """True if no rule asks about it any more."""
        return self._judge_call(intent).effect is not Effect.ASK

    async def _show(self, request: ApprovalRequest, wish: Wish, intent: Intent) -> Decision | None:
        """The decision of the host that shows it to its user; None: there is another one."""
        approvals, decision = self.approvals, None
        offered = approvals.offers(wish)

        async def watch() -> None:
            while not (self._is_over(intent) or approvals.is_decided(request, wish)):
                await approvals.changed.wait()
            nursery.cancel_scope.cancel()

        request.is_shown = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                reply = await intent.exchange.ask(form(wish.text, offered, MODERN))
                decision = read_answer(reply.value, offered) if isinstance(reply, Result) else "nothing"
                nursery.cancel_scope.cancel()
        finally:
            request.is_shown = False
            approvals.wake()  # others may show theirs
        return decision


def _settings_of(config: HubConfig) -> ApprovalsConfig:
    """The settings for approvals, with the longest that people are offered."""
    remember = config.approvals.remember or ("session" if config.serves_several else "always")
    return structs.replace(config.approvals, remember=remember)


def _has_forms(intent: Intent) -> bool:
    """True if the host of an intent can show its user a form, now (legacy) or by the result (modern)."""
    caller = intent.host.caller
    if intent.request.method not in VERBS or _is_command(intent) or FORM not in elicitation_modes(caller.capabilities):
        return False
    return caller.era is Era.MODERN or intent.host.host is not None


def _is_command(intent: Intent) -> bool:
    """True for commands of hubd, which ask their user themselves, and decide by the control socket: so a program that
    runs one cannot say yes for a person."""
    return intent.host.caller.identity.host == OWN_LABEL
