"""Which hub a request of a modern host belongs to, if not to any: by what the host carries for it.

A state may stand for a call that waits in the memory of one hub, a task may live in a session that one hub has. What
is sealed says in which run of which hub that is.
"""

from hub.bridge.handles import MAX_TOLD, Handles
from hub.bridge.states import States, state_of
from hub.wire.crowds import peek_few
from hub.wire.jsonrpc import Request, peek_array, peek_str
from hub.wire.mcp import LISTEN, TASKS_CANCEL, TASKS_GET, TASKS_UPDATE

_ABOUT_TASKS = frozenset({TASKS_GET, TASKS_UPDATE, TASKS_CANCEL})


def runs_of(request: Request, states: States, handles: Handles) -> tuple[str, ...]:
    """The runs that alone can answer `request`, or a part of it; none: any hub can."""
    runs: list[str] = []
    if "requestState" in request.params:
        runs = [states.run_of(state_of(request) or "")]
    elif request.method in _ABOUT_TASKS:
        runs = [handles.run_of(peek_str(request.params.get("taskId")) or "")]
    elif request.method == LISTEN:
        wanted = peek_few(request.params.get("notifications"))
        ids = dict.fromkeys(map(peek_str, peek_array(wanted.get("taskIds"))))
        runs = [handles.run_of(id or "") for id in list(ids)[:MAX_TOLD]]  # it hears of no more than these
    return tuple(dict.fromkeys(run for run in runs if run))
