"""Task bridge: tasks of a hub, of either kind: results that come later, for hosts with and without the extension.

    host                            task of 2025-11-25                      task of the extension
    legacy                          absorbed                                absorbed
    modern, without the extension   absorbed, as a call that may park       absorbed; questions end the request
    modern, with it                 converted                               relayed

Absorbed tasks are awaited by `awaited_tasks`, the others polled by hosts through `polled_tasks`. Only tools that can be
called in no other way are called as tasks of 2025-11-25; upstreams of the extension decide for themselves.
"""

import logging
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

import trio
from msgspec import Raw

from hub.bridge.questions_in_results import Crossing, check_answers, input_requests, kinds_of
from hub.bridge.sealed_request_state import Binding, RequestState, RequestStates, answers_of, input_required
from hub.bridge.tasks.awaited_tasks import Show, TaskWait
from hub.bridge.tasks.client import SilentExchange, TaskClient
from hub.bridge.tasks.polled_tasks import Shows, TaskHandles
from hub.bridge.tasks.translate_tasks import augments_calls, declares, requires_task, task_in
from hub.link.call_interface import Interim, Upstream
from hub.link.hub_errors import Executed, HubError, UpstreamUnauthorized, with_evidence
from hub.wire.jsonrpc import Reply, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import L4, MODERN, TASKS_CANCEL, TOOLS_CALL, Era, Kind, era_of
from hub.wire.questions.askable_questions import Question
from hub.wire.upstream_snapshot import Snapshot

log = logging.getLogger(__name__)

ABSORBED: Final = "task"
"""Mode of the request states made here."""
INPUT_TTL_S: Final = 24 * 3600.0
"""Lifetime of a state that asks for answers. The hub keeps nothing meanwhile, and the task may end before."""
CANCEL_S: Final = 10.0
"""Time for an upstream to acknowledge the cancellation of a task."""


class Tasks:
    """The tasks of one hub. `handles.run` must be running; `upstreams` is everything there is, by name."""

    def __init__(self, states: RequestStates, upstreams: Mapping[str, Upstream], *, ttl_s: float, shows: Shows) -> None:
        self.handles = TaskHandles(states, upstreams, ttl_s, shows)
        self._states = states
        self._task_tools: WeakKeyDictionary[Upstream, tuple[Snapshot, frozenset[str]]] = WeakKeyDictionary()
        """The tools that can be called only as tasks, and the snapshot that says so."""

    def prepare(self, crossing: Crossing) -> Crossing:
        """Make the operation a task, if it is a call of a tool that can be called only as a task."""
        upstream, operation = crossing.upstream, crossing.operation
        if operation.method != TOOLS_CALL or "tasks" not in upstream.snapshot.capabilities:
            return crossing
        snapshot, tools = self._task_tools.get(upstream, (None, frozenset()))
        if snapshot is not upstream.snapshot:
            tools = _task_tools(upstream.snapshot)
            self._task_tools[upstream] = upstream.snapshot, tools
        if upstream.config.tasks == "off" or peek_str(operation.params.get("name")) not in tools:
            return crossing
        return crossing.with_params({"task": raw({"ttl": int(upstream.config.timeouts.call_total * 1000)})})

    async def handle_reply(self, reply: Reply, crossing: Crossing) -> Reply:
        """Turn `reply`, the first to an operation, into the reply for its host.

        That is `reply` itself, if it is no task; else a handle of the task, or what becomes of it, or what the upstream
        wants to know meanwhile. Raises UpstreamProtocolError: it is said to be a task and is not; HubError: as
        `TaskWait.wait`. Cancellation: cancels the task, if the host knows nothing of it."""
        upstream, operation, exchange = crossing.upstream, crossing.operation, crossing.exchange
        version = upstream.snapshot.version
        may_begin = operation.method == TOOLS_CALL and upstream.config.tasks != "off"
        if not may_begin or (era_of(version) is Era.LEGACY and "task" not in operation.params):
            return reply
        if (task := task_in(reply, version, upstream.name)) is None:
            return reply
        caller = exchange.caller
        client = TaskClient(upstream, task.id, version, SilentExchange(caller, exchange), crossing.call, task.session)
        client.keep_session(task)
        if caller.era is Era.MODERN and declares(caller.capabilities):
            tool, exposed = (peek_str(each.params.get("name")) or "" for each in (operation, crossing.request))
            return self.handles.create_handle(client, task, tool, exposed, crossing.first.agreed)
        return await self._absorb(TaskWait(client, task, exchange, self._shower(client, crossing)))

    async def resume(self, state: RequestState, crossing: Crossing) -> Reply:
        """Resume the task of `state` with the answers in the request. Returns as `handle_reply`. Raises
        RemoteProtocolError: -32602, an answer is none to what was asked under its key. Nothing has changed; HubError:
        as `handle_reply`. Cancellation: cancels the task."""
        members, upstream, exchange = state.members, crossing.upstream, crossing.exchange
        kinds = peek_object(members["k"])
        answers = {key: answer for key, answer in answers_of(crossing.request).items() if key in kinds}
        check_answers(answers, kinds, upstream)
        id, silent = peek_str(members["t"]) or "", SilentExchange(exchange.caller, exchange)
        client = TaskClient(upstream, id, MODERN, silent, crossing.call)
        show = self._shower(client, crossing, state.binding)
        answered = [key for key in map(peek_str, peek_array(members["a"])) if key is not None]
        task_wait = TaskWait(client, None, exchange, show, answered, round=int(bytes(members["n"])))
        return await self._absorb(task_wait, answers)

    async def _absorb(self, task_wait: TaskWait, answers: Mapping[str, Raw] | None = None) -> Reply:
        try:
            return await task_wait.wait(answers)
        except UpstreamUnauthorized as error:  # of a request about the task, which has begun
            raise with_evidence(error, Executed.UNKNOWN) from None
        finally:
            if not task_wait.over and self.handles.nursery is not None:
                self.handles.nursery.start_soon(_cancel, task_wait.client)

    def _shower(self, client: TaskClient, crossing: Crossing, binding: Binding | None = None) -> Show | None:
        """The way to ask a modern host: by the end of its request."""
        exchange = crossing.exchange
        if exchange.caller.era is Era.LEGACY or exchange.is_step or client.era is Era.LEGACY:
            return None

        def show(questions: Mapping[str, Question], answered: list[str], round: int) -> Interim:
            requests = input_requests(questions, crossing.exchange.caller, crossing.offered)
            kept = {"t": client.id, "k": kinds_of(questions), "a": answered, "n": round}
            sealed = self._states.seal(ABSORBED, binding or crossing.binding, kept, ttl_s=INPUT_TTL_S)
            return input_required(requests, sealed)

        return show


async def _cancel(client: TaskClient) -> None:
    with trio.move_on_after(CANCEL_S):
        try:
            await client.request(TASKS_CANCEL)
        except HubError as error:
            log.info("a task of %s was not cancelled: %s", client.upstream.name, error)


def _task_tools(snapshot: Snapshot) -> frozenset[str]:
    if snapshot.version != L4 or not augments_calls(snapshot.capabilities):
        return frozenset()
    return frozenset(tool.key for tool in snapshot.lists.get(Kind.TOOL, ()) if requires_task(tool.fields))
