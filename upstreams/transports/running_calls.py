"""Running calls of one session: entered when they are sent, and told what the upstream reports meanwhile."""

from collections.abc import Mapping

from msgspec import Raw

from hub.link.interface import Exchange, Operation
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import TASKS_RESULT, Era
from upstreams.questions.running_operation import Running, TaskTokens
from upstreams.session import CallTimeouts, SessionEvents, SessionTerms, prefix_log, split_progress


class RunningCalls:
    """The calls that run in one session, the tokens of its tasks, and the host that owns it."""

    __slots__ = ("_events", "_exclusive", "_mask_data", "_name", "_owner", "_tokens", "by_id")

    def __init__(self, name: str, events: SessionEvents, terms: SessionTerms, by_id: dict[int, Running]) -> None:
        self.by_id = by_id
        """By the ids of their requests and in the order of sending; `Questions` reads it."""
        self._name = name
        self._events = events
        self._exclusive = terms.exclusive
        self._mask_data = terms.mask_data
        self._owner: Exchange | None = None
        """The exchange of the host that owns the session, if it can be told things between its calls."""
        self._tokens = TaskTokens()

    def enter(
        self, id: int, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, now: float | None = None
    ) -> Running:
        """Enter a call that is about to be sent; `leave` must follow."""
        running = self.by_id[id] = Running(operation, exchange, timeouts, now)
        if self._exclusive and exchange.caller.lasting and exchange.caller.era is Era.LEGACY:
            self._owner = exchange
        if operation.method == TASKS_RESULT:
            self._tokens.wait(running)
        return running

    def task_begun(self, id: int, reply: Reply) -> None:
        """Call `id`, which was to begin a task, was answered: its progress token is valid until the task is over."""
        self._tokens.began(reply, id)

    def leave(self, id: int) -> None:
        """The call is over: what the upstream asked meanwhile is withdrawn."""
        running = self.by_id.pop(id)
        if running.operation.method == TASKS_RESULT:
            self._tokens.leave(running)
        if running.questions:
            running.withdraw()

    def report_progress(self, params: dict[str, Raw], calls: Mapping[int, Running]) -> None:
        """Tell the host of the call that a `notifications/progress` is about: one of `calls`, or that waits for a task.

        The idle time of the call starts anew.
        """
        token, params = split_progress(params)
        running = None if token is None else calls.get(token) or self._tokens.find(token)
        if running is not None:
            running.touch()
            running.exchange.progress(self._mask_param(params, "message"))

    def report_log(self, params: dict[str, Raw], running: Running | None) -> None:
        """Pass a `notifications/message` to the host of `running`; None: to the owner of the session, or to the hub."""
        params = prefix_log(self._name, params)
        owner = self._owner if running is None else running.exchange
        if owner is None:
            self._events.log(params)
        else:
            owner.log(self._mask_param(params, "data"))

    def _mask_param(self, params: dict[str, Raw], name: str) -> dict[str, Raw]:
        return {**params, name: self._mask_data(params[name])} if name in params else params
