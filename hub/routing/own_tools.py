"""Tools of the hub's own: the registry of those that it answers itself, calls by way of the search for tools, and the
tool of an upstream that wants a sign-in.

A new tool is a definition in the catalogue (`hub.catalog.search.meta_tools`) and a line in `OwnTools`; pipelines are
what the catalogue says. Those that call one other tool are no answers: `unwrap` makes the call of them that they ask
for, before anything is resolved.

Calling the tool for a sign-in does nothing at the upstream but connect. So it fails as every call does while a person
has to sign in, and hosts are asked in the same way; after that it says so.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from hub.calls.host_exchange import HostExchange
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import View
from hub.catalog.search import meta_tools
from hub.catalog.search.index import FoundTool, SearchIndex
from hub.catalog.sign_in_tool import lists_unknown_text, no_need_text
from hub.catalog.upstream_entries import Route, UpstreamEntries, VisibleEntry
from hub.link.call_interface import Exchange, Interim
from hub.routing.live_catalog import LiveCatalog
from hub.wire.jsonrpc import Failure, Reply, Request, Result, peek_object, raw
from hub.wire.mcp import HUB_TOOL, INVALID_PARAMS, RESULT_TYPE, Era, Kind, era_of
from hub.wire.total_item_limit import TooManyItems, data_of, open_result
from upstreams.upstream import ManagedUpstream

if TYPE_CHECKING:
    from hub.catalog.pipelines.pipeline_tools import HiddenPipeline, ShownPipeline

WORDS_PER_STEP: Final = 1_000
"""Work between two checkpoints, as `SearchIndex.add` counts it; the last tool of a step may pass it."""


Operate = Callable[[Request, HostExchange], Awaitable[Reply]]
"""Carries out an operation of a host, through its chain."""
OwnTool = Callable[[Request, HostExchange, Operate], Awaitable[Reply]]
"""Answers a call of one tool of the hub's own, in the form of its host; by way of other tools, if it has to."""
RunPipeline = Callable[["ShownPipeline", Request, HostExchange, Operate], Awaitable[Reply]]
"""Answers a call of a pipeline, likewise."""


class OwnTools:
    """The tools that the hub answers itself, by name, in the views of `live`. `of_hub`: makes an answer one for a
    host."""

    def __init__(
        self,
        live: LiveCatalog,
        of_hub: Callable[[Reply, HostExchange], Reply],
        run_pipeline: RunPipeline,
        optional: Mapping[str, OwnTool],
    ) -> None:
        """`optional`: tools that some views list (`hub.catalog.result_and_resource_tools`)."""
        self._live = live
        self._of_hub = of_hub
        self._run_pipeline = run_pipeline
        self._optional = optional
        self._making = trio.Lock()
        self._tools: dict[str, OwnTool] = {meta_tools.FIND_TOOLS: self._find_tools}

    def find(self, name: str, view: View) -> OwnTool | None:
        """The tool that hosts of `view` call by this name. A server's own endpoint has none."""
        if view.server:
            return None
        catalog = self._live.of(view)
        if (pipeline := catalog.pipelines.get(name)) is not None:
            return partial(self._run_pipeline, pipeline)
        if (hidden := catalog.hidden_pipelines.get(name)) is not None:
            return partial(self._refuse_hidden, hidden, catalog)
        return self._tools.get(name) or (self._optional.get(name) if name in catalog.optional else None)

    async def _find_tools(self, request: Request, exchange: HostExchange, operate: Operate) -> Reply:
        await self._live.wait(exchange.view)
        catalog = self._live.of(exchange.view)
        index = await self.index_of(catalog)
        found = meta_tools.find(index, catalog.tool_counts(), request.params.get("arguments"))
        return self._of_hub(result_of(found), exchange)

    async def _refuse_hidden(
        self, hidden: "HiddenPipeline", catalog: Catalog, request: Request, exchange: HostExchange, operate: Operate
    ) -> Reply:
        """The refusal of a pipeline that cannot be called now; only names that its host sees are told as near."""
        why = hidden.tell(lambda name: catalog.route(Kind.TOOL, name) is not None)
        # Who comes back with a state has had steps carried out before.
        done = "" if "requestState" in request.params else " Nothing was executed."
        return Failure(INVALID_PARAMS, f"{hidden.name} cannot be called now: {why}.{done}")

    async def unknown(self, name: str, catalog: Catalog) -> Result:
        """The text for a model that calls a tool which is not there."""
        if name in catalog.pipelines:
            return refuse(f"{name} is called directly.")
        return refuse(meta_tools.unknown_tool(name, (await self.index_of(catalog)).near(name)))

    async def index_of(self, catalog: Catalog) -> SearchIndex:
        """The index of the tools of a catalogue, made for the first who asks, in steps."""
        if catalog.index is not None:
            return catalog.index
        async with self._making:
            if catalog.index is not None:  # by whoever waited before
                return catalog.index
            index = SearchIndex()
            work = WORDS_PER_STEP
            for part, shown in catalog.findable():
                title = part.title
                for each in shown:
                    if work >= WORDS_PER_STEP:
                        await trio.lowlevel.checkpoint()
                        work = 0
                    work += index.add(FoundTool(each.visible, each.original, part.server_id, each.fields), title)
            catalog.keep_index(index)
            return index


def unwrap(request: Request) -> tuple[Request, str]:
    """The call that a call of `CALL_TOOL` or its like asks for, and the name of its tool. Raises: BadMetaCall."""
    call = meta_tools.read_meta_call(request.params.get("arguments"))
    params = {**request.params, "name": raw(call.name), "arguments": call.arguments}
    return Request(request.id, request.method, params), call.name


def result_of(answer: meta_tools.Answer) -> Result:
    """An answer as the result of a tool."""
    content = [{"type": "text", "text": answer.text}]
    return Result(raw({"content": content, "isError": True} if answer.is_error else {"content": content}))


def refuse(text: str) -> Result:
    """The text for a model that can mend its call."""
    return result_of(meta_tools.Answer(text, is_error=True))


def not_for_reading(name: str, route: Route, catalog: Catalog) -> Result | None:
    """The refusal of a tool that may do more than read, as far as is known; None: it only reads."""
    part, tool = _find(route, catalog)
    if part is None or tool is None or route.signs_in or not meta_tools.only_reads(tool.fields):
        return refuse(f"{meta_tools.quote(name)} does not say that it only reads; call it with {meta_tools.CALL_TOOL}.")
    if not part.only_reads(tool):
        text = (
            f"{meta_tools.quote(name)} says that it only reads, but its server is not trusted to say so; call it with"
            f" {meta_tools.CALL_TOOL}. The user can set trusted = true for {route.upstream}."
        )
        return refuse(text)
    return None


def mark(reply: Reply, name: str) -> Reply:
    """`reply` to a meta call of the tool `name`, which it says."""
    if not isinstance(reply, Result) or isinstance(reply, Interim):
        return reply
    try:
        members = open_result(reply.value)
    except TooManyItems:
        return reply
    meta = {**peek_object(members.get("_meta")), HUB_TOOL: raw(name)}
    return Result(raw({**members, "_meta": raw(meta)}), says_error=reply.says_error)


def explain(reply: Reply, name: str, route: Route, catalog: Catalog) -> Reply:
    """`reply`; an upstream's complaint about the arguments as a text with the tool's definition."""
    if not isinstance(reply, Failure) or reply.code != INVALID_PARAMS:
        return reply
    if "reason" in data_of(reply):  # the hub's own, which its host has to see
        return reply
    part, tool = _find(route, catalog)
    if tool is None or part is None:
        return reply
    known = meta_tools.definition(FoundTool(tool.visible, tool.original, part.server_id, tool.fields))
    return refuse(f"{reply.message}\nThe definition of {meta_tools.quote(name)}:\n{known}")


def _find(route: Route, catalog: Catalog) -> tuple[UpstreamEntries | None, VisibleEntry | None]:
    part = catalog.part(route.upstream)
    tools = part.shown[Kind.TOOL] if part else ()
    return part, next((tool for tool in tools if tool.original == route.original), None)


async def call_sign_in_tool(upstream: ManagedUpstream, exchange: Exchange) -> Reply:
    """The answer to a call of the hub's own tool of `upstream`, at which a person has to sign in, in its place."""
    await upstream.wait_ready(exchange)
    waits_for_owner = upstream.wants_sign_in and upstream.pool.has_own_account(exchange.caller)
    text = (lists_unknown_text if waits_for_owner else no_need_text)(upstream.name)
    members: dict[str, object] = {"content": [{"type": "text", "text": text}]}
    if waits_for_owner:
        members["isError"] = True
    if era_of(upstream.snapshot.version) is Era.MODERN:
        members[RESULT_TYPE] = "complete"
    return Result(raw(members))
