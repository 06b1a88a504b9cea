"""Run: one call of a pipeline. Its steps are carried out in order, each as an operation of the same host.

    arguments do not fit       refused, nothing was carried out
    a value is missing         the step fails, and is not carried out
    a step fails, is refused   the run stops; the model is told at which step, and what was carried out before
    the time is over           the running step is cancelled; as above

Nothing is undone, retried or replayed.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import trio
from msgspec import Raw, structs

from config.loading.pipeline_references import StepReference, split_text
from config.secret_references import texts_in
from hub.bridge.era_bridge import EraBridge
from hub.calls.host_exchange import HostExchange
from hub.calls.step_exchange import StepExchange
from hub.catalog.endpoint_views import View
from hub.catalog.pipelines.pipeline_tools import ShownPipeline
from hub.catalog.pipelines.tools_of_steps import name_step
from hub.catalog.search.meta_tools import one_line
from hub.link.call_interface import HostEnd, Interim
from hub.link.hub_errors import DeadlineExceeded, Executed, HubError, InvalidArguments, Overloaded
from hub.link.memory_budget import Account
from hub.routing.live_catalog import LiveCatalog
from hub.routing.own_tools import Operate
from hub.routing.pipelines.fill_arguments import MAX_VALUE_BYTES, MissingValue, PipelineValues
from hub.routing.replies_for_hosts import HostReplies
from hub.wire.errors_for_hosts import ScopesNeeded
from hub.wire.jsonrpc import (
    Failure,
    RemoteProtocolError,
    Reply,
    Request,
    Result,
    peek_array,
    peek_object,
    peek_str,
    raw,
)
from hub.wire.mcp import HUB_FAILURE, MISSING_CAPABILITY, TOOLS_CALL
from hub.wire.total_item_limit import data_of, peek_limited

NO_ARGUMENTS: Final = Raw(b"{}")
NO_ROOM: Final = "the hub has no memory left for the results of steps (global_buffer_bytes)"
MAX_REASON: Final = 500
"""Characters of the reason why a step failed, in one line."""
ITS_WORDS: Final = "its own words follow"


@dataclass(eq=False, repr=False)
class PipelineRun:
    """One call of a pipeline. `_operate` carries out a step through the chain of its tool."""

    _shown: ShownPipeline
    _request: Request
    _exchange: HostExchange
    _operate: Operate
    _replies: HostReplies
    _live: LiveCatalog
    _arguments: Raw | None = None
    _has_sent: bool = True
    """The step that ran last has been sent to its server."""

    async def answer(self, bridge: EraBridge) -> Reply:
        """The answer for the host, which is asked meanwhile by `bridge`.

        Raises:
            Draining: the hub is stopping.
        Cancellation: passes to the running step.
        """
        budget, principal = bridge.parking.budget, self._exchange.caller.identity.principal

        async def work(call: HostEnd) -> Reply:
            held = budget.account(principal)
            try:
                return await self._carry_out(call, held)
            finally:
                held.close()

        return await bridge.carry_out(work, self._exchange, self._request)

    async def _carry_out(self, call: HostEnd, held: Account) -> Reply:
        """Carry out all steps, on behalf of `call`. Results that later steps need are `held`."""
        given = NO_ARGUMENTS if self._arguments is None else self._arguments
        if lines := self._misfits(given):
            text = f"The arguments do not fit the input schema of {self._shown.name}. Nothing was executed."
            return self._error(InvalidArguments("\n".join([text, *lines])))
        steps, values = self._shown.pipeline.steps, PipelineValues(given)
        at, reply = 0, None
        with trio.move_on_after(self._shown.total_s):
            for at, step in enumerate(steps):
                try:
                    arguments = values.fill(step.args)
                except MissingValue as error:
                    return self._fail(at, self._error(HubError(str(error), executed=Executed.NO)))
                reply = await self._carry_out_step(at, arguments, call)
                if not isinstance(reply, Result) or isinstance(reply, Interim) or reply.tells_error():
                    return self._fail(at, reply)
                if step.id in _roots(steps[at + 1 :]):
                    if not held.take(memoryview(reply.value).nbytes, trio.current_time()):
                        return self._fail(at + 1, self._error(Overloaded(NO_ROOM)))
                    values.keep(step.id, reply.value)
            assert reply is not None, "there is a step"
            return reply
        text = f"the time for all steps together is over (timeouts.call_total, {self._shown.total_s:g} s)"
        return self._fail(at, self._error(DeadlineExceeded(text)))

    def _misfits(self, given: Raw) -> list[str]:
        """The lines about arguments that do not fit."""
        if (size := memoryview(given).nbytes) > MAX_VALUE_BYTES:
            return [f"/: has {size} bytes, and {MAX_VALUE_BYTES} are the most"]
        try:
            return self._shown.schema.misfits(msgspec.json.decode(given))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return ["/: holds what cannot be read, such as a number that is too large"]

    async def _carry_out_step(self, at: int, arguments: Raw, call: HostEnd) -> Reply:
        """Carry out one step, as if the host had called its tool."""
        step, request = self._shown.pipeline.steps[at], self._request
        exchange = StepExchange(self._exchange, call, self._view, step.id, at, len(self._shown.pipeline.steps))
        params = {"name": raw(step.tool), "arguments": arguments}
        params |= {name: request.params[name] for name in ("_meta",) if name in request.params}  # its trace
        exchange.report_start(step.tool)
        self._has_sent = False
        try:
            return await self._operate(Request(request.id, TOOLS_CALL, params), exchange)
        except HubError as error:
            return self._replies.of_error(error, TOOLS_CALL, exchange, exchange.ref)
        except RemoteProtocolError as error:
            return error.failure
        finally:
            self._has_sent = exchange.sent_at > 0
            exchange.end()

    def _view(self) -> View:
        """The view in which the tools of steps are found: of what its profile hides too, but of nothing that rules deny
        to its host."""
        caller, view = self._exchange.caller, self._exchange.view
        audience = self._live.judge.view_for(view, caller.identity, caller.rights).audience
        return structs.replace(view.base, audience=audience)

    def _error(self, error: HubError) -> Reply:
        return self._replies.of_error(error, TOOLS_CALL, self._exchange)

    def _fail(self, at: int, reply: Reply) -> Reply:
        """The answer when the step after `at` others has failed with this reply."""
        if at == 0 and (isinstance(reply, ScopesNeeded) or getattr(reply, "code", None) == MISSING_CAPABILITY):
            return reply  # the host can mend that, and nothing is done twice
        steps = self._shown.pipeline.steps
        reason, facts, content = _read_failure(reply)
        where = name_step(self._shown.pipeline, at)
        done = {0: "", 1: " Step 1 was carried out."}.get(at, f" Steps 1 to {at} were carried out.")
        text = f"{where} failed: {reason or 'it does not say why'}"
        text = f"{text}{'' if text.endswith(('.', '!', '?')) else '.'}{done}"
        executed = Executed.UNKNOWN if self._has_sent else Executed.NO
        facts = {"hub": "pipeline", "executed": executed.value, "retryable": False, **facts, "step": steps[at].id}
        if at:
            facts |= {"executed": Executed.YES.value, "retryable": False}
        members = {
            "content": [{"type": "text", "text": text}, *content],
            "isError": True,
            "_meta": {HUB_FAILURE: facts},
        }
        return self._replies.of_hub(Result(raw(members)), self._exchange)


def _roots(steps: Any) -> frozenset[str]:
    """The steps, and perhaps the arguments, that references of these steps lead to."""
    parts = (part for step in steps for text in texts_in(step.args) for part in split_text(text))
    return frozenset(part.root for part in parts if isinstance(part, StepReference))


def _read_failure(reply: Reply) -> tuple[str, dict[str, Any], list[Raw]]:
    """The reason, in one line; the facts about it that are known; and what a server said besides. A reason that is all
    of a server's text stands in place of that; of a longer one only the text is told."""
    if isinstance(reply, Failure):
        facts = data_of(reply)
        return one_line(reply.message, MAX_REASON), dict(facts) if "hub" in facts else {}, []
    if isinstance(reply, Interim):
        return "it asked for something that a step cannot wait for", {}, []
    members = peek_limited(reply.value)
    content = peek_array(members.get("content"), counted=True)
    texts = (peek_str(peek_object(block).get("text")) for block in content)
    at, text = next(((at, text) for at, text in enumerate(texts) if text), (0, ""))
    reason = one_line(text, MAX_REASON)
    facts = dict(peek_object(peek_object(members.get("_meta")).get(HUB_FAILURE)))
    if facts:  # the hub's own
        return reason, facts, []
    if text and reason == text.strip():
        del content[at : at + 1]
    elif text:
        reason = ITS_WORDS
    return reason, {"executed": Executed.YES.value}, content
