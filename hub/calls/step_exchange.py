"""The end of one step of a pipeline at its host: what it reports and asks goes by the call of the pipeline."""

from collections.abc import Callable
from math import isfinite
from typing import Final

from msgspec import Raw

from hub.calls.host_exchange import HostExchange, tell_nobody
from hub.catalog.endpoint_views import View
from hub.link.call_interface import HostEnd
from hub.wire.jsonrpc import Failure, Reply, peek_str, raw
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.modern_metadata import read_number
from hub.wire.questions.askable_questions import Question

_MOST: Final = 0.99
"""The largest share of a step that its own progress makes: the rest is its result."""


class StepExchange(HostExchange):
    """One running step. Its host is asked while it waits, whatever its era, by `call`: the request of the host, or what
    outlives that."""

    __slots__ = ("_at", "_call", "_find_view", "_id", "_is_over", "_of", "_profile")
    is_step = True

    def __init__(
        self, exchange: HostExchange, call: HostEnd, find_view: Callable[[], View], id: str, at: int, of: int
    ) -> None:
        """`exchange`: of the request that began the pipeline; `find_view`: finds the view in which the tool is found,
        by the rules of now. It is step `id`, the one after `at` others, of so many."""
        self._find_view = find_view
        super().__init__(call.caller, tell_nobody, host=exchange.host, find_ends=exchange.find_ends)
        self.wait_for_tasks()
        self.wants_progress = call.wants_progress
        self._call, self._id, self._at, self._of = call, id, at, of
        self._is_over = False
        self._profile = exchange.profile

    @property
    def view(self) -> View:
        """Found anew whenever somebody looks: other rules may have come, and the view does not say whose step it is."""
        return self._find_view()

    @view.setter
    def view(self, view: View) -> None:
        """That of the base class is not kept."""

    @property
    def profile(self) -> str:
        return self._profile

    @property
    def is_inserted(self) -> bool:
        return self._at + 1 < self._of

    def report_start(self, tool: str) -> None:
        """Report that the step begins."""
        self._report(0.0, tool)

    def end(self) -> None:
        """The step is over: nothing can be asked on behalf of it any more."""
        self._is_over = True

    def progress(self, params: dict[str, Raw]) -> None:
        """Report the share of this step that is done."""
        value, total = read_number(params.get("progress")), read_number(params.get("total"))
        if value is None or not isfinite(value) or value < 0:
            return
        whole = total if total is not None and isfinite(total) and total > 0 else value + 1
        self._report(min(value / whole, _MOST), peek_str(params.get("message")))

    def _report(self, share: float, message: str | None) -> None:
        told = {"progress": raw(self._at + share), "total": raw(self._of)}
        self._call.progress(told | {"message": raw(f"{self._id}: {message}" if message else self._id)})

    def log(self, params: dict[str, Raw]) -> None:
        """Pass a log message on."""
        self._call.log(params)

    async def ask(self, question: Question) -> Reply:
        """Put a question to the host of the pipeline."""
        if self._is_over:
            return Failure(INVALID_PARAMS, f"The call that this {question.method} belongs to is over")
        reply = await self.pass_on(question, self._call.ask)
        self.lacking = self._call.lacking
        return reply
