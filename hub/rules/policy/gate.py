"""The gate: the stage that every operation passes first, where there are rules.

What is denied is answered as what nobody has, in the words of whoever looks names up; nothing leads there anyway
(`audience_lists`), so what comes here was looked up before other rules came, or is listed nowhere. Conditions are
judged here, by the very arguments that are sent. What a person is asked about passes: a later stage asks.
"""

from collections.abc import Callable
from functools import partial

from config.settings import UpstreamConfig
from hub.bridge.tasks.polled_tasks import UNKNOWN
from hub.calls.chain import Intent, Stage
from hub.link.call_interface import Tenant
from hub.link.hub_errors import CallDenied, HubError
from hub.rules.policy.judge import LEGS, Judge, conversation_of
from hub.rules.policy.verdict import Effect
from hub.wire import mcp
from hub.wire.errors_for_hosts import NO_REFERENCE, NOUNS, ScopesNeeded, conceal, resource_not_found, unknown_name
from hub.wire.jsonrpc import Failure, Reply
from hub.wire.questions.askable_questions import Question


class Gate(Stage):
    """Lets pass what is not denied."""

    def __init__(self, judge: Judge, refuse: Callable[[HubError, Intent], Reply]) -> None:
        """`refuse` makes the reply of a refusal, as the host of the intent may see it."""
        self._judge = judge
        self._refuse = refuse

    def admits(self, intent: Intent) -> Reply | None:
        judge = self._judge
        known = judge.look_up(intent.host.caller, intent.host.view, intent.target)
        if known.verdict.effect is not Effect.DENY and not known.is_open and judge.legs is None:
            return None
        if known.is_hidden:
            judge.note_denial(intent, known.verdict)
            return conceal(_unknown(intent))
        if known.scopes:
            issuer = f"{intent.host.caller.rights.issuer}/"
            scopes = tuple(scope.removeprefix(issuer) for scope in known.scopes)
            return ScopesNeeded(mcp.INVALID_PARAMS, _unknown(intent).message, scopes=scopes)
        if intent.request.method == mcp.TASKS_GET:  # the call that began the task was judged
            return None
        verdict = judge.judge_arguments(intent)
        if verdict.effect is not Effect.DENY:
            return None
        judge.note_denial(intent, verdict)
        return self._refuse(CallDenied.because(verdict.reason, intent.target.upstream.name), intent)


class SentCalls(Stage):
    """Notes what a conversation calls and reads, of servers with a `flow`, and has answers refused to calls that began
    before they would have been the third leg."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def admits(self, intent: Intent) -> None:
        target, legs, tenant = intent.target, self._judge.legs, conversation_of(intent.host.caller, intent.host.view)
        call = tenant, target.upstream.config, target.route.original if target.kind is mcp.Kind.TOOL else ""
        if legs is not None:
            legs.note(*call)
            if not legs.closes(*call):  # else somebody has agreed, or it closes them itself
                intent.host.judge_answers(partial(self._refuse_answer, call, intent.facts()))

    def _refuse_answer(
        self, call: tuple[Tenant, UpstreamConfig, str], facts: dict[str, object], question: Question
    ) -> Failure | None:
        """The refusal of an answer to a call that began before it would have been the third leg."""
        legs = self._judge.legs
        if legs is None or question.method == mcp.LIST_ROOTS or not legs.closes(*call):
            return None
        self._judge.note("refuse", **facts, rule=LEGS, why=question.method)
        return Failure(mcp.INVALID_PARAMS, f"A rule of the hub denies an answer to this {question.method} by now")


def _unknown(intent: Intent) -> Failure:
    """The answer to a name that nothing has."""
    method, name = intent.request.method, intent.target.exposed
    if method in NOUNS and intent.target.kind is not None:
        return unknown_name(method, intent.target.kind, name)
    if method == mcp.COMPLETE:
        return NO_REFERENCE
    if method == mcp.TASKS_GET:
        return UNKNOWN
    return resource_not_found(name, mcp.L4 if method == mcp.SUBSCRIBE else intent.host.caller.version)
