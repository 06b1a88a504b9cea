"""HookCalls: the stage that asks the hooks of a tool about each call, in the order of the configuration.

Each hook sees what the one before has left; the first deny ends it. Rewritten arguments are judged by the rules once
more. What a hook may not do is ignored, and logged. A retry of a call that goes on at its server is not asked about
again; its result is, as every result that is no question.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, Raw, structs

from config.policy.selectors import TOOL, CallerTerm, Selector, Thing, read_selector
from config.profile_settings import DEFAULT_PROFILE
from config.security_settings import HookConfig
from config.server_names import NO_ACCOUNTS
from hub.bridge.parking.parking import PARK
from hub.bridge.sealed_request_state import BadState, RequestStates, state_of
from hub.bridge.tasks.task_bridge import ABSORBED
from hub.calls.chain import WAIT, Intent, Next, Stage, Wait
from hub.catalog.endpoint_views import home_of
from hub.catalog.tool_annotations import WORST
from hub.catalog.upstream_entries import UpstreamEntries
from hub.link.call_interface import Interim, Operation
from hub.link.hub_errors import CallDenied, Executed, HookUnanswered
from hub.link.log_context import spell_ref
from hub.rules.fingerprints import hash_listed
from hub.rules.hooks.messages import AFTER, BEFORE, HookFailed, Opinion, message
from hub.rules.hooks.run import Hook
from hub.rules.policy.audiences import holds
from hub.rules.policy.judge import Judge, Note
from hub.rules.policy.verdict import Effect
from hub.rules.settle_arguments import settle
from hub.wire.jsonrpc import Failure, Reply, Result, open_object, raw
from hub.wire.mcp import RESULT_TYPE, Era, Kind

log = logging.getLogger("hubd.hooks")
FindPart = Callable[[str], UpstreamEntries | None]
"""Finds what a server is listed with."""


@dataclass(eq=False, repr=False)
class HookCalls(Stage):
    """The stage of one hub."""

    _judge: Judge
    _states: RequestStates
    _find_part: FindPart
    _note: Note
    _environ: Mapping[str, str]
    """The variables of the hub, of which hooks get some."""
    _check: Callable[[Intent], Operation]
    """Gives the operation of an intent whose arguments were rewritten; raises InvalidArguments."""
    _hooks: tuple[tuple[Hook, tuple[Selector, ...]], ...] = ()

    def adjust(self, hooks: tuple[HookConfig, ...]) -> None:
        """Ask these hooks from now on. Calls that are asked about go on with what they have."""
        known = {hook.config: (hook, selectors) for hook, selectors in self._hooks}
        self._hooks = tuple(
            known.get(each) or (Hook(each, self._environ), tuple(map(read_selector, each.match))) for each in hooks
        )

    def admits(self, intent: Intent) -> Wait | None:
        return WAIT if self._find(intent) else None

    def _find(self, intent: Intent) -> list[Hook]:
        """The hooks that are asked about a call."""
        things, caller = self._things(intent), intent.host.caller
        profile = intent.host.profile or DEFAULT_PROFILE

        def is_so(term: CallerTerm) -> bool:
            return holds(term, caller.identity, caller.rights, profile)

        return [
            hook
            for hook, selectors in self._hooks
            if any(any(map(each.means, things)) and each.admits(is_so) for each in selectors)
        ]

    def _things(self, intent: Intent) -> set[Thing]:
        """The tool, under each of the names that rules go by."""
        route = intent.target.route
        server, _ = home_of(route.upstream)
        part = self._find_part(route.upstream)
        entry = None if part is None else part.find(Kind.TOOL, route.original)
        if part is None or entry is None:
            return {Thing(TOOL, f"{server}__{route.original}", server, WORST)}
        names = entry.visible, part.contested.get(entry.original, entry.visible)
        return {Thing(TOOL, name, server, part.marks_of(entry)) for name in names}

    async def call(self, intent: Intent, next: Next) -> Reply:
        """As `Stage.call`.

        Raises:
            CallDenied: a hook, or a rule after one has rewritten the arguments, denies it.
            HookUnanswered: a hook gave no answer.
            RemoteProtocolError: -32602, nobody can look through the arguments.
            InvalidArguments: what a hook has rewritten does not fit the tool's schema.
        """
        hooks, ids = self._find(intent), (f"{intent.host.caller.conversation}", secrets.token_hex(8))
        if any(hook.config.on == "after" for hook in hooks):
            intent.host.wait_for_tasks()  # a result that is polled would be seen by no hook
        if self._goes_on(intent):
            intent = structs.replace(intent, begins_again=False)
        else:
            intent = structs.replace(intent, operation=await settle(intent.operation))
            for hook in (each for each in hooks if each.config.on == "before"):
                intent = await self._before(hook, intent, ids)
        reply = await next(intent)
        for hook in (each for each in hooks if each.config.on == "after"):
            if not isinstance(reply, Interim):
                reply = await self._after(hook, intent, reply, ids)
        return reply

    def _goes_on(self, intent: Intent) -> bool:
        """True if a retry brings the state of a call that goes on at its server, with the arguments it has."""
        caller, text = intent.host.caller, state_of(intent.request)
        if caller.era is not Era.MODERN or text is None:
            return False
        try:
            state = self._states.open(text, caller.identity.principal, intent.request, intent.target.upstream.name)
        except BadState:  # refused later, by whoever needs it
            return True
        return state.mode in (PARK, ABSORBED)

    async def _before(self, hook: Hook, intent: Intent, ids: tuple[str, str]) -> Intent:
        opinion, upstream = await self._ask(hook, intent, BEFORE, ids), intent.target.upstream.name
        if opinion.decision == "deny":
            self._write_down(hook, intent, "deny")
            raise CallDenied.because(opinion.reason or "a check of this hub denies it", upstream)
        if opinion.rewritten is not None and self._may(hook, "rewrite"):
            operation = intent.operation.with_arguments(opinion.rewritten)
            intent = structs.replace(intent, operation=operation, spares_asking=False)  # others have not seen these
            intent = structs.replace(intent, operation=self._check(intent))
            verdict = self._judge.judge_arguments(intent)
            if verdict.effect is Effect.DENY:
                self._judge.note_denial(intent, verdict)
                raise CallDenied.because(verdict.reason, upstream)
        if opinion.decision == "ask":
            self._write_down(hook, intent, "ask")
            return structs.replace(intent, hook=f"hook {hook.config.name}", spares_asking=False)
        if opinion.decision == "allow" and not intent.hook and self._may(hook, "allow"):
            self._write_down(hook, intent, "allow")
            return structs.replace(intent, spares_asking=True)
        return intent

    async def _after(self, hook: Hook, intent: Intent, reply: Reply, ids: tuple[str, str]) -> Reply:
        shown = reply if isinstance(reply, Result) else _result_of(reply, intent.host.caller.era)
        opinion = await self._ask(hook, intent, AFTER, ids, tool_response=shown.value)
        if opinion.decision == "deny":
            self._write_down(hook, intent, "deny")
            text = f"The result is withheld: {opinion.reason or 'a check of this hub says so'}."
            raise CallDenied(text, upstream=intent.target.upstream.name, executed=Executed.YES)
        if opinion.rewritten is None or not self._may(hook, "rewrite"):
            return reply
        marks = {name: value for name, value in open_object(shown.value).items() if name == RESULT_TYPE}
        return Result(raw({**marks, **open_object(opinion.rewritten)}))

    async def _ask(self, hook: Hook, intent: Intent, event: str, ids: tuple[str, str], **more: Raw) -> Opinion:
        """The opinion of a hook. Raises HookUnanswered: it has none, and that denies the call."""
        route, identity, upstream = intent.target.route, intent.host.caller.identity, intent.target.upstream
        about = {
            "host": identity.host,
            "principal": identity.principal,
            "upstream": route.upstream,
            "account": "" if upstream.config.account in NO_ACCOUNTS else upstream.config.account,
            "original": route.original,
            "definition": hash_listed(upstream.snapshot, Kind.TOOL, route.original),
            "exposed": intent.target.exposed,
            "trusted": upstream.config.trusted,
        }
        name = f"mcp__{home_of(route.upstream)[0]}__{route.original}"
        arguments: Raw | None = intent.operation.params.get("arguments")
        try:
            return await hook.ask(message(event, name, arguments, about, ids, **more), event, identity)
        except HookFailed as error:
            log.warning("the hook %s gave no answer about %s: %s", hook.config.name, intent.target.exposed, error)
            if hook.config.on_error == "pass":
                return Opinion()
            self._write_down(hook, intent, "deny")
            executed = Executed.NO if event == BEFORE else Executed.YES
            text = "Not run: the check" if event == BEFORE else "The result is withheld: the check"
            text = f"{text} {hook.config.name} gave no answer (ref {spell_ref(intent.ref)})."
            raise HookUnanswered(text, upstream=upstream.name, executed=executed) from None

    def _may(self, hook: Hook, right: Literal["rewrite", "allow"]) -> bool:
        if right in hook.config.may:
            return True
        log.warning('the hook %s may not %s (`may = ["%s"]`): ignored', hook.config.name, right, right)
        return False

    def _write_down(self, hook: Hook, intent: Intent, decision: str) -> None:
        self._note("hook", **intent.facts(), hook=hook.config.name, decision=decision)


def _result_of(failure: Failure, era: Era) -> Result:
    """An error of a server as hooks are told of it: as the result of a tool that failed, for hosts of an era."""
    data = b"" if failure.data is UNSET else bytes(failure.data)
    texts = [text.decode(errors="replace") for text in (failure.message.encode(errors="replace"), data) if text]
    marks = {RESULT_TYPE: "complete"} if era is Era.MODERN else {}
    return Result(raw({**marks, "content": [{"type": "text", "text": text} for text in texts], "isError": True}))
