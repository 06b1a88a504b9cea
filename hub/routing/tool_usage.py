"""Use of tools: how often each was called, on which day and by which host. Names and counts, never arguments.

A call adds one to a number in `calls`, which costs no function call; `fold`, once a minute, adds these numbers to those
of the day. Tools have their upstreams' own names, so that another name for hosts loses nothing, and hosts the labels of
their entries. What is 90 days old is forgotten.

Names come from servers and hosts, so all is bounded: long names are not counted, and of too many numbers those go first
whose tool was not called for the longest time.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from config.remembered_facts import Memory

KEEP_DAYS: Final = 90
RECENT_DAYS: Final = 30
"""Days after which a tool that nobody called counts as unused."""
MAX_NAME: Final = 256
"""Characters of a name or label that is counted."""
MAX_NUMBERS: Final = 50_000
"""Numbers of one tool, host and day each: about 1 MB."""
MAX_CALLED: Final = 5_000
"""Tools, by host, that can have been called since the last `fold`."""

_CALLS: Final = "calls"
_FACTS: Final = "facts"
_SINCE: Final = "since"
_SEEN: Final = "seen"
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")

Called = tuple[str, str, str]
"""An upstream, its own name of a tool, and the label of the host that called it."""
_Tools = dict[str, dict[str, dict[str, int]]]
"""By tool, host and day, the number of calls."""


class RecentUse(Struct, frozen=True):
    """The use of one tool."""

    calls: dict[str, int] = {}
    """By host, the calls of the last 30 days; no host without any."""
    last: str = ""
    """The day of the last call, as in 2026-11-23; "": not within 90 days."""


class ToolUsage:
    """The record of one hub, in `memory`. `wall` is the time of day in seconds."""

    def __init__(self, memory: Memory, wall: Callable[[], float], *, keep: bool = True) -> None:
        self.memory = memory
        self.calls: dict[Called, int] = {}
        """Calls since the last `fold`. To count one: add 1 to what is there, else call `begin`."""
        self._wall = wall
        self._keep = keep
        self._pruned = ""
        """The day on which old numbers were dropped."""
        for server in memory.keys(_CALLS):
            memory.put(_CALLS, server, _sound(memory.get(_CALLS, server)))

    def begin(self, called: Called) -> None:
        """Count the first call of a tool by a host since the last `fold`."""
        if len(self.calls) < MAX_CALLED and max(map(len, called)) <= MAX_NAME:
            self.calls[called] = 1

    def adjust(self, *, keep: bool) -> None:
        """Keep a record from now on, or forget it and keep none."""
        self._keep = keep
        self.fold()

    @property
    def since(self) -> str:
        """The day on which the record begins; "": there is none. The clock may have been ahead then."""
        found = self.memory.get(_FACTS, _SINCE)
        return min(found, self.today) if isinstance(found, str) else ""

    @property
    def today(self) -> str:
        """The day on which calls are counted now."""
        return self._today().isoformat()

    def fold(self) -> None:
        """Add the calls since the last time to the record, which is on disk after the next write."""
        calls, today = dict(self.calls), self.today
        self.calls.clear()
        if not self._keep:
            for section in (_CALLS, _FACTS):
                for key in self.memory.keys(section):
                    self.memory.put(section, key, None)
            return
        if not self.since:
            self.memory.put(_FACTS, _SINCE, today)
        for (server, tool, host), count in calls.items():
            tools = self._tools(server)
            hosts = tools.get(tool, {})
            days = hosts.get(host, {})
            days = {**days, today: days.get(today, 0) + count}
            self.memory.put(_CALLS, server, {**tools, tool: {**hosts, host: days}})
        if self._pruned != today:
            self._prune()
            self._pruned = today
        if calls:
            self._shed()

    def recent(self) -> Mapping[tuple[str, str], RecentUse]:
        """By upstream and its own name of a tool, the use of all tools that were called within 90 days."""
        self.fold()
        today = self._today()
        first, last = (today - timedelta(RECENT_DAYS)).isoformat(), today.isoformat()
        found = {}
        for server in self.memory.keys(_CALLS):
            for tool, hosts in self._tools(server).items():
                calls = {
                    host: sum(count for day, count in days.items() if first < day <= last)
                    for host, days in hosts.items()
                }
                latest = max((day for days in hosts.values() for day in days if day <= last), default="")
                found[server, tool] = RecentUse({host: count for host, count in calls.items() if count}, latest)
        return found

    def _today(self) -> date:
        return datetime.fromtimestamp(self._wall(), UTC).date()

    def _tools(self, server: str) -> _Tools:
        return self.memory.get(_CALLS, server) or {}  # type: ignore[return-value]  # `_sound` has seen it

    def _prune(self) -> None:
        """Drop numbers that are too old, and what has none left. A clock that is wrong drops no later ones, and none
        where it is far ahead of the day on which this was looked at last: they have to wait for another day."""
        today, seen = self._today(), self.memory.get(_FACTS, _SEEN)
        self.memory.put(_FACTS, _SEEN, today.isoformat())
        if not isinstance(seen, str) or seen < (today - timedelta(RECENT_DAYS)).isoformat():
            return
        oldest = (today - timedelta(KEEP_DAYS)).isoformat()
        for server in self.memory.keys(_CALLS):
            self.memory.put(_CALLS, server, _select(self._tools(server), lambda tool, host, day: day > oldest))

    def _shed(self) -> None:
        """Of too many numbers, drop those of tools that were not called for the longest time, and a tenth more."""
        used = sorted(
            (max(days), len(days), server, tool, host)
            for server in self.memory.keys(_CALLS)
            for tool, hosts in self._tools(server).items()
            for host, days in hosts.items()
        )
        excess = sum(count for _, count, *_ in used) - MAX_NUMBERS
        if excess <= 0:
            return
        excess += MAX_NUMBERS // 10
        dropped: dict[str, set[tuple[str, str]]] = {}
        for _, count, server, tool, host in used:
            dropped.setdefault(server, set()).add((tool, host))
            excess -= count
            if excess <= 0:
                break
        for server, pairs in dropped.items():
            left = _select(self._tools(server), lambda tool, host, day, pairs=pairs: (tool, host) not in pairs)  # type: ignore[misc]
            self.memory.put(_CALLS, server, left)


def _select(tools: _Tools, is_kept: Callable[[str, str, str], bool]) -> _Tools | None:
    """The numbers of those tools, hosts and days that are kept; None: none is."""
    left: _Tools = {}
    for tool, hosts in tools.items():
        for host, numbers in hosts.items():
            if days := {day: count for day, count in numbers.items() if is_kept(tool, host, day)}:
                left.setdefault(tool, {})[host] = days
    return left or None


def _sound(value: object) -> _Tools | None:
    """The usage that a file has kept of one upstream, if it is what this module writes; else None."""
    try:
        tools = msgspec.convert(value, _Tools)
    except msgspec.ValidationError:
        return None
    return _select(tools, lambda tool, host, day: _DAY.fullmatch(day) is not None)
