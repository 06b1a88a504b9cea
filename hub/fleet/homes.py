"""Home of a modern request: the hub that must answer it, read from the sealed state or task id in the request.

A state may stand for a call parked in the memory of one hub; a task may live in a session of one hub. The sealed text
names the run of that hub.
"""

from hub.bridge.request_state import RequestStates, state_of
from hub.bridge.tasks.task_handles import MAX_TOLD, TaskHandles
from hub.wire.jsonrpc import RemoteProtocolError, Request, peek_object, peek_str
from hub.wire.mcp import LISTEN, TASKS_CANCEL, TASKS_GET, TASKS_UPDATE
from hub.wire.value_limits import read_strings

_ABOUT_TASKS = frozenset({TASKS_GET, TASKS_UPDATE, TASKS_CANCEL})


def runs_of(request: Request, states: RequestStates, handles: TaskHandles) -> tuple[str, ...]:
    """The runs that alone can answer `request` or a part of it; empty: any hub can."""
    runs: list[str] = []
    if "requestState" in request.params:
        runs = [states.run_of(state_of(request) or "")]
    elif request.method in _ABOUT_TASKS:
        runs = [handles.run_of(peek_str(request.params.get("taskId")) or "")]
    elif request.method == LISTEN:
        runs = [handles.run_of(id) for id in _task_ids(request)[:MAX_TOLD]]
    return tuple(dict.fromkeys(run for run in runs if run))


def _task_ids(request: Request) -> list[str]:
    """The task ids in a listen request; empty for a malformed one, which any hub can refuse."""
    named = peek_object(request.params.get("notifications")).get("taskIds")
    try:
        return [] if named is None else read_strings(named, "taskIds")
    except RemoteProtocolError:
        return []
