"""Messages of tasks: those of 2025-11-25 and of the extension, and the translation between them. Pure.

    2025-11-25, experimental       the extension, 2026-07-28
    {"task": {...}}                {"resultType": "task", ...}      what a call begins
    ttl, pollInterval              ttlMs, pollIntervalMs
    tasks/result                   `result` or `error`, in `tasks/get`
    questions of the server        `inputRequests`, in `tasks/get`

Inside the hub a task has the names of the extension. Malformed members on which nothing depends are corrected, so that
hosts see only what the schema allows; a task without id or status is an error of its upstream.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from hub.link.hub_errors import UpstreamProtocolError
from hub.wire import mcp
from hub.wire.excerpt_and_read_large_results import excerpt
from hub.wire.jsonrpc import NULL, Failure, Reply, Result, peek_object, peek_str, raw
from hub.wire.mcp import Era, era_of
from hub.wire.total_item_limit import TooManyItems, open_result

WORKING: Final = "working"
NEEDS_INPUT: Final = "input_required"
DONE: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
STATUSES: Final = frozenset({WORKING, NEEDS_INPUT, DONE, FAILED, CANCELLED})
TERMINAL: Final = frozenset({DONE, FAILED, CANCELLED})

POLL_S: Final = 1.0
"""Poll interval, if the upstream names none."""
POLL_LEAST_S: Final = 0.25
POLL_MOST_S: Final = 60.0
_ERROR_CODE: Final = re.compile(rb"-?[0-9]{1,16}")
SOME_DAY: Final = raw("1970-01-01T00:00:00Z")
"""Timestamp of events for which the upstream names none."""


def nonsense(upstream: str, what: str) -> UpstreamProtocolError:
    """The error for a malformed answer; `what` describes it."""
    return UpstreamProtocolError(f"{upstream} answered with {what}", upstream=upstream)


class Task(Struct, frozen=True):
    """A task as its upstream describes it."""

    id: str
    """Id at the upstream."""
    status: str
    """One of `STATUSES`."""
    about: dict[str, Raw]
    """Further members of every message about the task, in the extension's names and order."""
    members: dict[str, Raw] = {}
    """All members, for those that depend on the status."""
    session: str = ""
    """Session that alone knows a legacy task that has just begun."""

    @property
    def message(self) -> str | None:
        """Progress message."""
        return peek_str(self.about.get("statusMessage"))

    @property
    def poll_s(self) -> float:
        """Pause before the next poll, in seconds."""
        return poll_s(self.about)

    @property
    def ttl_s(self) -> float | None:
        """Lifetime after creation, in seconds; None: unlimited."""
        return None if (ttl_ms := _number(self.about.get("ttlMs"))) is None else ttl_ms / 1000


def may_be_task(result: Result) -> bool:
    """False if a cheap look at a result tells that it is no task."""
    return not result.is_plain and excerpt(result.value).find(_MARK) >= 0


def task_in(reply: Reply, version: str, upstream: str) -> Task | None:
    """The task that a call of an `upstream` of `version` began in place of a result; None: it gave another reply.
    Raises UpstreamProtocolError: it is said to be one and is not."""
    if not isinstance(reply, Result) or not may_be_task(reply):
        return None
    try:
        members = open_result(reply.value)
    except TooManyItems as error:
        raise nonsense(upstream, f"what may be a task: {error}") from None
    if era_of(version) is Era.MODERN:
        return read_task(members, version, upstream) if peek_str(members.get(mcp.RESULT_TYPE)) == mcp.TASK else None
    if (inner := members.get("task")) is None or "content" in members:
        return None
    session = peek_str(peek_object(members.get("_meta")).get(mcp.HUB_SESSION))
    return structs.replace(read_task(peek_object(inner), version, upstream), session=session or "")


_MARK: Final = b'"task"'


def read_task(members: Mapping[str, Raw], version: str, upstream: str) -> Task:
    """The task that an `upstream` of `version` describes by `members`. Raises UpstreamProtocolError: they have no id,
    or no status that there is."""
    id, status = peek_str(members.get("taskId")), peek_str(members.get("status"))
    if not id:
        raise nonsense(upstream, "a task without taskId")
    if status not in STATUSES:
        raise nonsense(upstream, f"a task of status {(status or 'none')[:40]}")
    ttl, poll = ("ttlMs", "pollIntervalMs") if era_of(version) is Era.MODERN else ("ttl", "pollInterval")
    about = {}
    if peek_str(members.get("statusMessage")) is not None:
        about["statusMessage"] = members["statusMessage"]
    about["createdAt"] = _time(members, "createdAt", "lastUpdatedAt")
    about["lastUpdatedAt"] = _time(members, "lastUpdatedAt", "createdAt")
    about["ttlMs"] = members[ttl] if _number(members.get(ttl)) is not None else NULL
    if _number(members.get(poll)) is not None:
        about["pollIntervalMs"] = members[poll]
    return Task(id, status, about, dict(members))


def _time(members: Mapping[str, Raw], *names: str) -> Raw:
    return next((members[name] for name in names if peek_str(members.get(name)) is not None), SOME_DAY)


def _number(value: Raw | None) -> int | None:
    text = b"" if value is None else bytes(value)
    return int(text) if text.isdigit() and len(text) < 17 else None


def poll_s(about: Mapping[str, Raw]) -> float:
    """Pause before the next poll of a task with these members, in seconds."""
    wanted = _number(about.get("pollIntervalMs"))
    return POLL_S if wanted is None else min(max(wanted / 1000, POLL_LEAST_S), POLL_MOST_S)


def outcome(task: Task, upstream: str) -> Reply:
    """The outcome of a call whose task of the extension is `completed` or `failed`. Raises UpstreamProtocolError: it
    has neither a result nor an error."""
    value = task.members.get("result")
    if task.status == DONE and value is not None and memoryview(value)[0] == ord("{"):
        return Result(value)
    if task.status == FAILED:
        error = peek_object(task.members.get("error"))
        code = bytes(error.get("code", b""))
        message = peek_str(error.get("message")) or task.message or "The task failed"
        number = int(code) if _ERROR_CODE.fullmatch(code) else mcp.INTERNAL_ERROR
        return Failure(number, message, error.get("data", UNSET))
    raise nonsense(upstream, f"a task that is {task.status} without saying what came of it")


def has_content(reply: Reply) -> bool:
    """True if `reply`, to a legacy `tasks/result`, says anything: of a tool that raised, some servers keep nothing."""
    try:
        return isinstance(reply, Failure) or "content" in open_result(reply.value)
    except TooManyItems:
        return True


def message_result(task: Task) -> Result:
    """The result of a tool that raised, of which there is nothing but what its task says."""
    text = task.message or "The tool failed, and did not say why"
    return Result(raw({"content": [{"type": "text", "text": text}], "isError": True}))


def task_handle(task: Task, id: str) -> Raw:
    """The result of a call that began `task`, known to the host as `id`."""
    return raw({mcp.RESULT_TYPE: mcp.TASK, "taskId": id, "status": task.status, **task.about, "_meta": _META})


def task_params(task: Task, id: str, more: Mapping[str, Any], *, status: str | None = None) -> dict[str, Any]:
    """The params of `notifications/tasks`. `more` is what its status calls for.

    `status`: as what it is to be shown, if not as what it is.
    """
    return {"taskId": id, "status": status or task.status, **task.about, **more}


def complete_result(members: Mapping[str, Any]) -> Raw:
    """The result of a request about a task."""
    return raw({mcp.RESULT_TYPE: mcp.COMPLETED, **members, "_meta": _META})


_META: Final = raw({mcp.SERVER_INFO_KEY: mcp.HUB_INFO})


def status_and_outcome(reply: Reply) -> tuple[str, dict[str, Any]]:
    """The status of a task that came to `reply`, and what tells so: `failed` is for errors only."""
    if isinstance(reply, Result):
        return DONE, {"result": reply.value}
    return FAILED, {"error": reply}


def loss_of(id: str, ticket: "TaskTicket") -> dict[str, Any]:
    """The state of a task that ended with its session."""
    text = f"{ticket.upstream} was restarted, and the task ended with it; whether it acted is unknown"
    facts = {"hub": mcp.UPSTREAM_LOST, "upstream": ticket.upstream}
    error = {"code": mcp.INTERNAL_ERROR, "message": text, "data": facts}
    about = {"createdAt": ticket.created, "lastUpdatedAt": ticket.created, "ttlMs": None}
    return {"taskId": id, "status": FAILED, "statusMessage": text, **about, "error": error}


def declares(capabilities: Mapping[str, Raw]) -> bool:
    """True if a host with `capabilities` may be given tasks."""
    value = capabilities.get("extensions")
    return value is not None and mcp.TASKS_EXTENSION in peek_object(value)


def augments_calls(capabilities: Mapping[str, Raw]) -> bool:
    """True if a legacy upstream with `capabilities` takes tool calls as tasks."""
    requests = peek_object(peek_object(capabilities.get("tasks")).get("requests"))
    return "call" in peek_object(requests.get("tools"))


def requires_task(fields: Mapping[str, Raw]) -> bool:
    """True if a tool can be called only as a task."""
    execution = fields.get("execution")
    return execution is not None and peek_str(peek_object(execution).get("taskSupport")) == "required"


_TICKET = ("upstream", "principal", "task", "tool", "version", "session", "created", "run", "exposed", "agreed")


class TaskTicket(Struct, frozen=True, rename=dict(zip(_TICKET, "uptnvscrea", strict=True))):
    """Sealed content of the task id that a host gets. It is written with short names, which keep the id short."""

    upstream: str
    principal: str
    task: str
    """Id at the upstream."""
    tool: str
    version: str
    """The revision that it was begun under."""
    session: str = ""
    """The session that knows it; "": any."""
    created: str = ""
    run: str = ""
    """The run of the hub that has that session, if there are others beside it."""
    exposed: str = ""
    """The name by which the host called the tool; "": an earlier hub did not say."""
    agreed: str = ""
    """As in `FirstRound`."""


write_ticket = msgspec.json.Encoder().encode
read_ticket = msgspec.json.Decoder(TaskTicket).decode
