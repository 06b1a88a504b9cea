"""Calls of pipelines, as rules judge them as a whole, before anything is carried out. What rules say of a step, its own
chain finds.

A pipeline is no tool of a server, so something stands in the place of one for whoever judges a call, writes it down or
asks a person about it: a server "hub" that runs the tools of the steps. A yes that lasts is bound to these, and to all
that the steps say.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from msgspec import Raw, structs

from config.server_names import RESERVED
from config.settings import UpstreamConfig
from hub.calls.chain import Chain, Intent, Target, go_through
from hub.calls.host_exchange import HostExchange
from hub.catalog.pipelines.pipeline_tools import ShownPipeline
from hub.catalog.upstream_entries import Route
from hub.link.call_interface import Operation
from hub.routing.live_catalog import LiveCatalog
from hub.wire.jsonrpc import Reply, Request, raw
from hub.wire.mcp import TOOLS_CALL, Kind
from hub.wire.modern_metadata import split_params
from hub.wire.upstream_snapshot import ListEntry

if TYPE_CHECKING:
    from upstreams.upstream import ManagedUpstream


class PipelineServer:
    """What stands in the place of the server of a pipeline."""

    name = whole_name = RESERVED

    def __init__(self, shown: ShownPipeline) -> None:
        steps = shown.pipeline.steps
        self.config = UpstreamConfig(command="a pipeline of", args=tuple(step.tool for step in steps))
        self.newest = self.snapshot = self
        self._entry = ListEntry(shown.name, {**shown.entry.fields, "steps": raw(steps)})

    def find(self, kind: Kind, key: str) -> ListEntry:
        """The pipeline, with all that its steps say."""
        return self._entry


async def pass_rules(
    shown: ShownPipeline,
    request: Request,
    exchange: HostExchange,
    chain: Chain,
    live: LiveCatalog,
    run: Callable[[Raw | None], Awaitable[Reply]],
) -> Reply:
    """The reply to a call of a pipeline, which `run` carries out with these arguments if `chain` lets it pass. Raises
    as `Stage.call`. Cancellation: passes to whoever is asked, and to `run`."""
    intent = _intent_of(shown, request, exchange, chain)
    live.judge.settle_arguments(exchange, intent.target.route, intent.operation.params)
    try:
        return await go_through(chain.outer, lambda passed: run(passed.operation.params.get("arguments")), intent)
    finally:
        exchange.note_unrecorded()  # but of its steps


def note_denied(request: Request, exchange: HostExchange, name: str, chain: Chain, live: LiveCatalog) -> None:
    """Write down that a host called a pipeline which it is not shown, since rules deny it or one of its steps."""
    judge, view = live.judge, exchange.view
    shown = live.of(structs.replace(view, audience="")).pipelines.get(name)
    if shown is not None and judge.audiences.find(view.audience) is not None:
        found = judge.judge_pipeline(view.audience, shown)
        if (judged := next((each for each in found if each.is_hidden), None)) is not None:
            judge.note_denial(_intent_of(shown, request, exchange, chain), judged.verdict)


def _intent_of(shown: ShownPipeline, request: Request, exchange: HostExchange, chain: Chain) -> Intent:
    params, meta = split_params(request.params)
    upstream = cast("ManagedUpstream", PipelineServer(shown))
    target = Target(upstream, Route(RESERVED, shown.name), shown.name, chain, Kind.TOOL)
    return Intent(target, request, Operation(TOOLS_CALL, params, meta), exchange, exchange)
