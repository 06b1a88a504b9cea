"""Choices of tools in hosts' files, as our setting `tools` says them. Pure.

    enabled_tools, disabled_tools    Codex
    includeTools, excludeTools       Gemini CLI; `name(...)` means the tool `name`
    disabledTools, enabledTools      Windsurf, Kiro, Cline, ...
    available_tools                  Goose; an empty list means all
    tools                            Copilot CLI: names, or "*"

Where a host both names and takes away, what is taken away is gone, as with us.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from config.name_globs import ALL, problem_of

NAMING: Final = ("enabled_tools", "enabledTools", "includeTools", "available_tools", "tools")
TAKING_AWAY: Final = ("disabled_tools", "disabledTools", "excludeTools")
FILTERS: Final = frozenset((*NAMING, *TAKING_AWAY))
"""Keys with which hosts choose tools of a server."""
_EMPTY_IS_ALL: Final = ("available_tools", "tools")


class HostFilter(Struct, frozen=True):
    """The choice of tools in one entry."""

    tools: tuple[str, ...] = ALL
    """As the setting `tools`."""
    key: str = ""
    """The key that says it, the first of several; "": there is no choice."""
    ignored: tuple[tuple[str, str], ...] = ()
    """Keys that cannot be understood, and why."""


def filter_of(entry: Mapping[str, Any]) -> HostFilter:
    """The choice of tools in an entry of a host's file."""
    ignored: list[tuple[str, str]] = []
    named: list[str] | None = None
    taken_away: list[str] = []
    keys: list[str] = []
    for key in (*NAMING, *TAKING_AWAY):
        value = ["*"] if entry.get(key) == "*" else entry.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            ignored.append((key, "expected names of tools"))
            continue
        names = list(_names(value, key))
        if key in TAKING_AWAY:
            taken_away += names
        elif names or key not in _EMPTY_IS_ALL:
            named = [*(named or ()), *names]
        if names != ["*"] and (names or (named is not None and key in NAMING)):
            keys.append(key)
    if not keys:
        return HostFilter(ignored=tuple(ignored))
    tools = tuple(dict.fromkeys([*(named or ()), *(f"!{name}" for name in taken_away)]))
    if why := problem_of(tools):
        return HostFilter(ignored=(*ignored, (keys[0], why)))
    return HostFilter(tools, keys[0], tuple(ignored))


def _names(value: list[str], key: str) -> Iterator[str]:
    """The names in a list. None begins with `!`, which would turn its meaning around."""
    for name in value:
        plain = name.partition("(")[0] if key in ("includeTools", "excludeTools") else name
        if plain and not plain.startswith("!"):
            yield plain
