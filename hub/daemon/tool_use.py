"""The tools of the common endpoint, with the calls that were counted of each."""

from hub.catalog.token_cost import tokens_of
from hub.control.tool_use import ToolUse, ToolUses
from hub.link.tool_usage import RECENT_DAYS, RecentUse, ToolUsage
from hub.routing.live_catalog import LiveCatalog
from hub.wire.mcp import Kind


def tool_uses(live: LiveCatalog, usage: ToolUsage) -> ToolUses:
    """Every tool that a model is shown, in the order of its list, and its use."""
    catalog, recent = live.everything, usage.recent()
    tools = []
    for name, size in catalog.tool_bytes():
        route = catalog.route(Kind.TOOL, name)
        if route is None or route.signs_in:
            continue
        use = recent.get((route.upstream, route.original), RecentUse())
        tools.append(
            ToolUse(
                name=name,
                server=route.upstream,
                tool=route.original,
                tokens=tokens_of(size),
                bytes=size,
                calls=use.calls,
                last=use.last or None,
            )
        )
    return ToolUses(tools=tuple(tools), since=usage.since or None, today=usage.today, days=RECENT_DAYS)
