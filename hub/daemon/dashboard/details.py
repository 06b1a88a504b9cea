"""What pages show of one server, one call and the configuration, beyond the overview: asked for when they show it."""

from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice
from typing import Final

import trio

from config.loading.gather import Gathered, gather
from config.server_names import server_of
from config.show.effective import ShownSetting, hub_settings, upstreams
from hub.catalog.token_cost import tokens_of
from hub.catalog.upstream_entries import UpstreamEntries
from hub.control.pin_messages import PinnedServer
from hub.daemon.dashboard.dependencies import Parts
from hub.link.hub_errors import UpstreamUnavailable
from hub.routing.tool_usage import RecentUse
from hub.rules.fingerprints import key_of
from hub.telemetry.describe_calls import count_failures, percentiles
from hub.wire.mcp import PROMPTS_GET, TOOLS_CALL, Kind
from upstreams.journal.lacking_variable import hint_at_variable

MAX_ENTRIES: Final = 2_000
"""Entries of a list that are told."""
LOG_LINES: Final = 200
_CALLED_BY: Final = {Kind.TOOL: TOOLS_CALL, Kind.PROMPT: PROMPTS_GET}


class Details:
    """Looks closely at a hub."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def server(self, name: str) -> dict[str, object]:
        """A server: its status, what may mend it, what it offers and how that is used, what differs from what was
        approved, its settings. Raises UpstreamUnavailable: there is none of this name."""
        hub, status = self._parts.hub, await self._parts.api.status()
        row = next((row for row in status.upstreams if row.name == name), None)
        if row is None:
            raise UpstreamUnavailable(f"There is no server {name}")
        name = server_of(name)  # its definitions and settings are those of all accounts there
        is_running, part = name in hub.live.upstreams, hub.live.everything.part(name)
        pins = (await self._parts.decisions.pins(name, shows=True))[0] if is_running else PinnedServer()
        gathered = await self._gather()
        settings = next((each.settings for each in upstreams(gathered, defaults=False) if each.name == name), ())
        lists = {} if part is None else {kind.value: [*self._entries(kind, part, pins)] for kind in Kind}
        hint = hint_at_variable(row.last_error or "", name)
        shown = [*map(_describe_setting, settings)]
        return {"status": row, "hint": hint, "lists": lists, "pins": pins, "settings": shown}

    def _entries(self, kind: Kind, part: UpstreamEntries, pins: PinnedServer) -> Iterator[dict[str, object]]:
        """The entries of one list, as their server wrote them, with what is known of each."""
        hub = self._parts.hub
        tallies, recent = hub.router.chains.recorder.tallies, hub.usage.recent()
        changes, sizes = {change.item: change for change in pins.changes}, part.tool_bytes()
        for entry in islice(part.askable(kind), MAX_ENTRIES):
            change = changes.get(key_of(kind, entry.original))
            use = recent.get((part.name, entry.original), RecentUse()) if kind is Kind.TOOL else RecentUse()
            tally = tallies.get((part.name, _CALLED_BY.get(kind, ""), entry.original))
            p50_s, p95_s, _ = percentiles(() if tally is None else (tally,))
            yield {
                "name": entry.original,
                "visible": entry.visible,
                "definition": entry.fields,
                "tokens": tokens_of(sizes.get(entry.visible, 0)),
                "calls": 0 if tally is None else tally.count,
                "failed": 0 if tally is None else count_failures(tally),
                "p50_s": p50_s,
                "p95_s": p95_s,
                "uses": sum(use.calls.values()),
                "last_day": use.last or None,
                "change": "" if change is None else change.change,
                "held": change is not None and change.held,
            }

    async def operation(self, ref: str) -> dict[str, object]:
        """An operation, whether it is over or not, and its log. Raises UpstreamUnavailable: there is none of this
        number."""
        live, api = self._parts.live, self._parts.api
        async with aclosing(live.calls(about=ref, n=1, contents=True)) as calls:
            found = await anext(calls)
        async with aclosing(api.logs(lines=LOG_LINES, ref=ref)) as logs:
            log = await anext(logs)
        if not found.calls and not found.running:
            raise UpstreamUnavailable(f"there is no call {ref}: the hub keeps the last {found.kept} since it started")
        return {"call": next(iter(found.calls), None), "running": next(iter(found.running), None), "log": log.records}

    async def config(self) -> dict[str, object]:
        """The configuration as the files say it, secrets masked, and which of them says what."""
        gathered = await self._gather()
        return {
            "status": self._parts.reloader.status(),
            "settings": [*map(_describe_setting, hub_settings(gathered, defaults=False))],
            "servers": [
                {"name": each.name, "settings": [*map(_describe_setting, each.settings)]}
                for each in upstreams(gathered, defaults=False)
            ],
        }

    async def _gather(self) -> Gathered:
        loaded, environ = self._parts.reloader.loaded, self._parts.reloader.environment
        return await trio.to_thread.run_sync(gather, next(iter(loaded.files), None), environ)


def _describe_setting(setting: ShownSetting) -> dict[str, object]:
    origin = setting.origin
    key = ".".join(setting.keys)
    if origin is None:
        return {"key": key, "value": setting.value, "layer": "default"}
    return {
        "key": key,
        "value": setting.value,
        "layer": origin.layer.value,
        "file": str(origin.file),
        "line": origin.line,
    }
