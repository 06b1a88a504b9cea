"""Tasks that modern hosts poll themselves, by `tasks/get`, `/update`, `/cancel` and notifications.

A task of the extension is passed on; a task of 2025-11-25 is converted to the extension. The id that a host gets is
sealed: it cannot be guessed or changed, is valid for one principal, outlives the daemon, and spares the hub a table of
tasks. The error for an invalid id is that of an expired task, whatever the reason.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import trio
from msgspec import Raw

from config.server_names import server_of
from hub.bridge.questions_in_results import InputRefused, capabilities_offered, input_requests, read_questions
from hub.bridge.sealed_request_state import RequestStates, answers_of
from hub.bridge.tasks import translate_tasks
from hub.bridge.tasks.client import SilentExchange, TaskClient, is_unknown
from hub.bridge.tasks.questions_of_legacy_task import TaskQuestions
from hub.bridge.tasks.translate_tasks import TERMINAL, Task, TaskTicket
from hub.catalog.endpoint_views import View
from hub.link.call_interface import Call, Caller, Interim, Upstream
from hub.link.fault_isolation import run_isolated
from hub.link.hub_errors import HubError
from hub.link.sealing import InvalidSeal
from hub.wire import mcp
from hub.wire.capabilities import TASKS_NEEDED
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, Result, open_object, peek_str, raw
from hub.wire.mcp import Era, era_of
from hub.wire.questions.askable_questions import QuestionRefusal

PURPOSE: Final = "task"
MAX_GATHERINGS: Final = 256
"""Tasks whose questions the hub collects at one time."""
MAX_TOLD: Final = 64
"""Tasks that one stream may listen to."""
MAX_MISSES: Final = 5
"""Failures in a row to get a task, after which nothing more is told of it."""
ELSEWHERE: Final = Failure(mcp.INTERNAL_ERROR, "This task is at another hub, which has to be asked; it goes on there")
UNKNOWN: Final = Failure(mcp.INVALID_PARAMS, "There is no such task: it has expired, or there never was one of this id")


class Viewer(Protocol):
    """The host that looks, and the view of its endpoint."""

    @property
    def caller(self) -> Caller: ...

    @property
    def view(self) -> View: ...


class TaskDoors(Protocol):
    """The ways to tasks at upstreams for the host that looks; `hub.routing.make_intents.Intents` is one."""

    def call_about_task(self, ticket: TaskTicket, viewer: Viewer) -> Call:
        """The way of requests about the task of a ticket."""

    def check_answers(self, ticket: TaskTicket, viewer: Viewer) -> None:
        """Raises CallDenied: the task of a ticket may have no answers of this host, by the rules of now."""

    def note_denial(self, ticket: TaskTicket, viewer: Viewer, method: str) -> None:
        """Write down that a host asks for `method` of the task of a ticket, whose tool is left out for it, if rules do
        that."""

    def cut(self, reply: Reply, ticket: TaskTicket, viewer: Viewer) -> Reply:
        """The outcome of the task of a ticket, with as much text as its host is shown."""

    def may_follow(self, ticket: TaskTicket, viewer: Viewer) -> bool:
        """True if a host may hear of the task of a ticket, by the stages of now."""


class TaskListener(Viewer, Protocol):
    """A stream that hears of tasks; `hub.routing.change_listeners.ListenStream` is one."""

    def notify(self, subject: str, method: str, params: dict[str, Raw]) -> None:
        """Send a notification; an unsent one of the same subject is replaced. Never blocks."""


Shows = Callable[[View, str, str], bool]
"""True if a view has a tool of an upstream in it, by the upstream's own name of it."""
Show = Callable[[Reply, str, str, str, Viewer], Reply]
"""A reply as a host may see it; further arguments: the method, the upstream, its revision, whose host."""


@dataclass(eq=False, repr=False)
class TaskHandles:
    """Tasks of one hub that hosts poll. `run` must be running."""

    states: RequestStates
    upstreams: Mapping[str, Upstream]
    ttl_s: float
    """Time that an upstream waits for an answer."""
    shows: Shows
    nursery: trio.Nursery | None = None
    _show: Show = field(init=False)
    _doors: TaskDoors = field(init=False)
    _gatherings: dict[tuple[str, str, str], TaskQuestions] = field(default_factory=dict)
    """By upstream, session and the id of the task there."""
    _told: dict[TaskListener, trio.CancelScope] = field(default_factory=dict)

    def adjust(self, ttl_s: float) -> None:
        """Let upstreams wait so long for answers from now on."""
        self.ttl_s = ttl_s

    def work_in(self, nursery: trio.Nursery | None) -> None:
        """Start what outlives requests of hosts there from now on; None: start no more."""
        self.nursery = nursery

    def create_handle(self, client: TaskClient, task: Task, tool: str, exposed: str, agreed: str) -> Interim:
        """Make the result of a call of `tool`, by the name `exposed`, that began `task`, which `client` has in hand;
        `agreed`: as in `FirstRound`."""
        principal, session = client.exchange.caller.identity.principal, task.session
        created, run = peek_str(task.about["createdAt"]) or "", self.states.run if session else ""
        ticket = TaskTicket(
            client.upstream.name, principal, task.id, tool, client.version, session, created, run, exposed, agreed
        )
        return Interim(
            translate_tasks.task_handle(task, self.states.sealer.seal(PURPOSE, translate_tasks.write_ticket(ticket)))
        )

    # --- requests of hosts --------------------------------------------------------------------------------------------

    def handlers(self, show: Show, doors: TaskDoors) -> dict[str, Callable[[Request, Viewer], Awaitable[Reply]]]:
        """Handlers by method. From now on `show` rewrites replies of upstreams for hosts, and requests to these go by
        `doors`."""
        self._show, self._doors = show, doors
        return dict.fromkeys((mcp.TASKS_GET, mcp.TASKS_UPDATE, mcp.TASKS_CANCEL), self._answer)

    async def _answer(self, request: Request, viewer: Viewer) -> Reply:
        """Answer a request about a task, if there is such a task for this host. Raises HubError: as `Upstream.call`."""
        caller, method = viewer.caller, request.method
        if caller.era is Era.LEGACY:
            return Failure(mcp.METHOD_NOT_FOUND, f"Method not found: {method}")
        if not translate_tasks.declares(caller.capabilities):
            text = f"{method} needs the tasks extension among the capabilities"
            return Failure(mcp.MISSING_CAPABILITY, text, TASKS_NEEDED)
        if (id := peek_str(request.params.get("taskId"))) is None:
            return Failure(mcp.INVALID_PARAMS, f"{method} needs a taskId")
        if (ticket := self._open(id, viewer)) is None or not self._is_shown(ticket, viewer):
            if ticket is not None and method != mcp.TASKS_GET:  # which is asked for every few seconds
                self._doors.note_denial(ticket, viewer, method)
            return UNKNOWN
        if self.states.is_elsewhere(ticket.run):
            return ELSEWHERE
        if method == mcp.TASKS_GET:
            found = await self._look(id, ticket, viewer)
            return found if isinstance(found, Failure) else Result(translate_tasks.complete_result(found))
        do = self._update if method == mcp.TASKS_UPDATE else self._cancel
        if (refusal := await do(ticket, request, viewer)) is None:
            return Result(translate_tasks.complete_result({}))
        return self._refusal(refusal, method, ticket, viewer)

    async def _update(self, ticket: TaskTicket, request: Request, viewer: Viewer) -> Failure | None:
        answers = answers_of(request, needed=True)
        for answer in answers.values():
            open_object(answer)
        self._doors.check_answers(ticket, viewer)
        if era_of(ticket.version) is Era.MODERN:
            reply = await self._client(ticket, viewer).request(mcp.TASKS_UPDATE, inputResponses=raw(answers))
            return reply if isinstance(reply, Failure) else None
        if self._is_lost(ticket):
            return UNKNOWN
        if gathering := self._gatherings.get((ticket.upstream, ticket.session, ticket.task)):
            gathering.update(answers)
        return None

    async def _cancel(self, ticket: TaskTicket, request: Request, viewer: Viewer) -> Failure | None:
        if self._is_lost(ticket):
            return UNKNOWN
        client = self._client(ticket, viewer)
        reply = await client.request(mcp.TASKS_CANCEL)
        if isinstance(reply, Failure) and client.era is Era.LEGACY and is_unknown(reply):
            found = await client.poll()  # one that is over cannot be cancelled there, which is no error here
            return reply if isinstance(found, Failure) else None
        return reply if isinstance(reply, Failure) else None

    def _refusal(self, failure: Failure, method: str, ticket: TaskTicket, viewer: Viewer) -> Failure:
        """An upstream's error about a task, as its host may see it."""
        if is_unknown(failure):
            return UNKNOWN
        shown = self._show(failure, method, ticket.upstream, ticket.version, viewer)
        assert isinstance(shown, Failure), "an error stays one, whoever sees it"
        return shown

    def _read(self, id: str) -> TaskTicket | None:
        try:
            return translate_tasks.read_ticket(self.states.sealer.open(PURPOSE, id))
        except (InvalidSeal, msgspec.DecodeError):
            return None

    def _open(self, id: str, viewer: Viewer) -> TaskTicket | None:
        """Open the ticket in `id`; None: the id is not valid for this host."""
        if (ticket := self._read(id)) is None or ticket.principal != viewer.caller.identity.principal:
            return None
        upstream, view = self.upstreams.get(ticket.upstream), viewer.view
        is_here = view.server in ("", server_of(ticket.upstream))
        return ticket if upstream is not None and upstream.config.tasks != "off" and is_here else None

    def _is_shown(self, ticket: TaskTicket, viewer: Viewer) -> bool:
        """False: its tool is left out for this host, so it has no tasks of that either."""
        return self.shows(viewer.view, ticket.upstream, ticket.tool)

    def run_of(self, id: str) -> str:
        """The run that alone knows the task `id`; "": any does, or there is none."""
        return "" if (ticket := self._read(id)) is None else ticket.run

    def _client(self, ticket: TaskTicket, viewer: Viewer) -> TaskClient:
        upstream, exchange = self.upstreams[ticket.upstream], SilentExchange(viewer.caller)
        call = self._doors.call_about_task(ticket, viewer)
        return TaskClient(upstream, ticket.task, ticket.version, exchange, call, ticket.session)

    def _is_lost(self, ticket: TaskTicket) -> bool:
        return bool(ticket.session) and self.upstreams[ticket.upstream].has_lost(ticket.session)

    # --- how a task is ------------------------------------------------------------------------------------------------

    async def _look(self, id: str, ticket: TaskTicket, viewer: Viewer) -> dict[str, Any] | Failure:
        """The state of the task, in the format of the extension."""
        if self._is_lost(ticket):
            return translate_tasks.loss_of(id, ticket)
        client = self._client(ticket, viewer)
        if isinstance(task := await client.poll(), Failure):
            return self._refusal(task, mcp.TASKS_GET, ticket, viewer)
        if task.status == translate_tasks.NEEDS_INPUT:
            requests = await self._requests(task, client, ticket, viewer.caller)
            return translate_tasks.task_params(task, id, {"inputRequests": requests})
        if task.status not in TERMINAL or task.status == translate_tasks.CANCELLED:
            return translate_tasks.task_params(task, id, {})
        reply = self._show(await _outcome(task, client), mcp.TOOLS_CALL, ticket.upstream, ticket.version, viewer)
        status, more = translate_tasks.status_and_outcome(self._doors.cut(reply, ticket, viewer))
        return translate_tasks.task_params(task, id, more, status=status)

    async def _requests(self, task: Task, client: TaskClient, ticket: TaskTicket, caller: Caller) -> dict[str, Raw]:
        if client.era is Era.MODERN:
            found = read_questions(task.members, ticket.upstream, ticket.version)
            try:
                client.upstream.judge(found.values())
            except QuestionRefusal as refused:
                raise InputRefused(refused.failure.message, upstream=ticket.upstream) from None
            return input_requests(found, caller, capabilities_offered(client.upstream.config, caller.capabilities))
        key = ticket.upstream, ticket.session, ticket.task
        if (gathering := self._gatherings.get(key)) is None:
            if self.nursery is None or len(self._gatherings) >= MAX_GATHERINGS:
                return {}
            gathering = self._gatherings[key] = TaskQuestions(caller, self.ttl_s)
            self.nursery.start_soon(self._gather, key, gathering, client)
        gathering.caller = caller
        return await gathering.requests()

    async def _gather(self, key: tuple[str, str, str], gathering: TaskQuestions, client: TaskClient) -> None:
        try:
            await run_isolated(f"Gathering what a task of {client.upstream.name} asks", partial(gathering.run, client))
        finally:
            del self._gatherings[key]

    # --- telling unasked ----------------------------------------------------------------------------------

    async def listen(self, ids: list[str], stream: TaskListener) -> list[str]:
        """Notify `stream` of changes of these tasks, as far as its host may see them, and as long."""
        found = {id: self._follow(id, stream) for id in ids[:MAX_TOLD]}
        known = {id: ticket for id, ticket in found.items() if ticket and not self.states.is_elsewhere(ticket.run)}
        if known and self.nursery is not None:
            self._told[stream] = trio.CancelScope()
            self.nursery.start_soon(self._tell_all, known, stream, self._told[stream])
        return list(known)

    def _follow(self, id: str, stream: TaskListener) -> TaskTicket | None:
        """Open the ticket in `id`; None: the host of a stream may not hear of its task now."""
        ticket = self._open(id, stream)
        if ticket is None or not self._is_shown(ticket, stream):
            return None
        return ticket if self._doors.may_follow(ticket, stream) else None

    def unlisten(self, stream: TaskListener) -> None:
        """Stop notifying a stream."""
        if (scope := self._told.pop(stream, None)) is not None:
            scope.cancel()

    async def _tell_all(self, known: Mapping[str, TaskTicket], stream: TaskListener, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                for id, ticket in known.items():
                    work = partial(self._tell, id, ticket, stream)
                    nursery.start_soon(run_isolated, f"Telling a host of a task of {ticket.upstream}", work)

    async def _tell(self, id: str, ticket: TaskTicket, stream: TaskListener) -> None:
        """Notify of each change of one task until it is over."""
        told: dict[str, Raw] = {}
        misses = 0
        while misses <= MAX_MISSES and self._follow(id, stream) is not None:
            pause_s = translate_tasks.POLL_S
            try:
                found = await self._look(id, ticket, stream)
            except (HubError, RemoteProtocolError):
                misses += 1
            else:
                if isinstance(found, Failure) or self._follow(id, stream) is None:  # by now
                    return
                misses = 0
                if (params := open_object(raw(found))) != told:
                    stream.notify(f"task {id}", mcp.TASK_CHANGED, params)
                told = params
                if found["status"] in TERMINAL:
                    return
                pause_s = translate_tasks.poll_s(found)
            await trio.sleep(pause_s)


async def _outcome(task: Task, client: TaskClient) -> Reply:
    if client.era is Era.MODERN:
        return translate_tasks.outcome(task, client.upstream.name)
    reply = await client.request(mcp.TASKS_RESULT)
    return (
        reply
        if task.status != translate_tasks.FAILED or translate_tasks.has_content(reply)
        else translate_tasks.message_result(task)
    )
