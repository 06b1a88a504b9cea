"""Suggestion of a profile: the tools that a host might need. Pure.

These are what the host called in the last days, if it called enough to tell; else what it called nevertheless, and the
servers that it had itself before an import, with its own choice of their tools, or else all servers. The smallest
server comes first, up to what the host takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from config.name_globs import NameChoice
from hub.cli.render.words import about, group
from hub.control.answers import ToolUse, ToolUses, tokens_together

MIN_CALLS: Final = 20
"""Calls of a host that tell what it needs."""


class Limits(Struct, frozen=True):
    """The limits of a host."""

    tools: int | None = None
    """None: no limit is known."""
    tokens: int | None = None

    def hold(self, found: Sequence[ToolUse]) -> bool:
        """True if so many tools are not too many."""
        too_many = self.tools is not None and len(found) > self.tools
        return not too_many and (self.tokens is None or tokens_together(found) <= self.tokens)

    def __str__(self) -> str:
        told = {f"{self.tools} tools": self.tools, f"{about(self.tokens or 0)} tokens of tools": self.tokens}
        return " and ".join(text for text, limit in told.items() if limit is not None)


class Suggestion(Struct, frozen=True):
    """A choice of tools for one host."""

    names: tuple[str, ...]
    """Visible names, in the order of the list."""
    why: str
    """The kind of tools they are, as a phrase."""


def suggest(host: str, uses: ToolUses, had: Mapping[str, Sequence[str]], limits: Limits) -> Suggestion:
    """The tools that `host`, a label, might need. `had`: the servers that it had, each with its choice of own names of
    tools."""
    calls = {each.name: each.calls.get(host, 0) for each in uses.tools}
    total = sum(calls.values())
    by_calls = sorted(uses.tools, key=lambda each: -calls[each.name])
    called = _as_many([[each] for each in by_calls if calls[each.name]], limits)
    if total >= MIN_CALLS:
        names = _in_order(called, uses.tools)
        return Suggestion(names, f"what it called in the last {uses.days} days ({total} calls)")
    own = {name: globs for name, globs in had.items() if any(each.server == name for each in uses.tools)}
    whose = "the servers that it had before hubd" if own else "all servers"
    choices = {name: NameChoice(globs) for name, globs in own.items()}
    chosen = [each for each in uses.tools if not own or each.tool in choices.get(each.server, ()) or each in called]
    fitting = _as_many(_by_size(chosen), limits, called)
    cut = "" if len(fitting) == len(chosen) else ", the smallest first"
    if not fitting and chosen:
        fitting = _as_many([[each] for each in _by_size(chosen)[0]], limits)
        cut = ", of the smallest as many tools as it takes"
    few = f"what it called ({total} so far), and " if called else ""
    return Suggestion(_in_order(fitting, uses.tools), f"{few}{whose}{cut}")


def _by_size(chosen: Iterable[ToolUse]) -> list[list[ToolUse]]:
    servers = group((each.server, each) for each in chosen)
    return sorted(servers.values(), key=lambda found: (len(found), tokens_together(found)))


def _as_many(groups: Iterable[Sequence[ToolUse]], limits: Limits, called: Sequence[ToolUse] = ()) -> list[ToolUse]:
    """The tools that were `called`, and as many whole groups, in their order, as fit beside them."""
    found = list(called)
    for members in groups:
        more = [each for each in members if each not in called]
        if limits.hold([*found, *more]):
            found += more
    return found


def _in_order(found: Iterable[ToolUse], tools: Iterable[ToolUse]) -> tuple[str, ...]:
    names = {each.name for each in found}
    return tuple(each.name for each in tools if each.name in names)
