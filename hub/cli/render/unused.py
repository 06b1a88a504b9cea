"""`hubd tools --unused` as blocks of a screen: the tools that nobody called, and since when that is known."""

from datetime import date
from typing import Any, Final

from hub.cli.render.screen import Block, Table, styled
from hub.cli.render.tables import about
from hub.control.answers import ToolUse, ToolUses, tokens_together

NOT_KEPT: Final = "calls are not counted (`[usage] keep = false` in hubd.toml), so nobody knows what is unused"


def unused_of(uses: ToolUses) -> list[ToolUse]:
    """The tools that no host called in the last days, by server, the most expensive first."""
    order = list(dict.fromkeys(each.server for each in uses.tools))
    found = [each for each in uses.tools if not each.calls]
    return sorted(found, key=lambda each: (order.index(each.server), -each.tokens))


def by_server(uses: ToolUses) -> dict[str, tuple[int, int]]:
    """Of each server whose tools are told, the number of those that nobody called, and their tokens."""
    found: dict[str, list[ToolUse]] = {each.server: [] for each in uses.tools}
    for each in unused_of(uses):
        found[each.server].append(each)
    return {server: (len(tools), tokens_together(tools)) for server, tools in found.items()}


def unused(uses: ToolUses, name: str | None = None) -> list[Block]:
    """The screen; `name`: of this server only."""
    if uses.since is None:
        return [NOT_KEPT]
    among = [each for each in uses.tools if name in (None, each.server)]
    shown = [each for each in unused_of(uses) if name in (None, each.server)]
    if not shown:
        return [f"every one of {len(among)} tools was called in the last {uses.days} days" if among else "no tools"]
    rows = [(styled(each.name, "name"), about(each.tokens), each.last) for each in shown]
    whole = f"{len(shown)} of {len(among)} tools, {about(tokens_together(shown))} tokens: not called "
    return [
        Table(("TOOL", "TOKENS", "LAST CALL"), rows, shorten=("TOOL",), drop=("LAST CALL",)),
        "",
        f"{whole}{span(uses)}",
    ]


def unused_json(uses: ToolUses, name: str | None = None) -> dict[str, Any]:
    """The same for programs."""
    shown = [each for each in unused_of(uses) if name in (None, each.server)] if uses.since is not None else []
    return {
        "since": uses.since,
        "days": uses.days,
        "tools": [
            {"name": each.name, "server": each.server, "tokens": each.tokens, "last": each.last} for each in shown
        ],
    }


def span(uses: ToolUses) -> str:
    """The time that the record speaks of, to end a sentence."""
    days = counted_days(uses)
    if days >= uses.days:
        return f"for {uses.days} days"
    ago = {0: "today", 1: "yesterday"}.get(days, f"{days} days ago")
    return f"since {uses.since}, when the counting began ({ago})"


def counted_days(uses: ToolUses) -> int:
    """Days for which calls have been counted."""
    try:
        return (date.fromisoformat(uses.today) - date.fromisoformat(uses.since or "")).days
    except ValueError:
        return 0
