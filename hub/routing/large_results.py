"""Large results: texts of results that are longer than the configuration wants are cut, and kept for a while.

The stage stands in no chain unless a server or a profile has a limit. A host gets the beginning, to the end of a line,
and how to go on: by the tool `hub__read_result`, or by reading the resource that is linked. What is kept is in memory
only, for the account that it was for, and bounded in all and for each account.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Raw, Struct, structs

from hub.bridge.tasks.polled_tasks import Viewer
from hub.calls.chain import WAIT, Intent, Next, Stage, Wait
from hub.catalog.search.meta_tools import READ_RESULT, Answer
from hub.catalog.upstream_entries import Route
from hub.link.call_interface import Caller, Interim
from hub.routing.live_catalog import LiveCatalog
from hub.rules.policy.judge import Judge
from hub.wire.errors_for_hosts import resource_not_found
from hub.wire.jsonrpc import Failure, Reply, Result, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import HUB_RESULTS, L1, L2, Kind
from hub.wire.modern_metadata import read_number
from hub.wire.total_item_limit import TooManyItems, open_result

KEEP_S: Final = 3600.0
MAX_KEPT_BYTES: Final = 64 << 20
"""Bytes of all results that are kept."""
MAX_EACH_BYTES: Final = 32 << 20
"""Those of one account, so that no other is forgotten for it."""
MAX_LENGTH: Final = 1 << 20
"""Bytes that are read at once."""
MAX_FOUND: Final = 50
"""Lines that are found at once."""
MAX_LINE: Final = 300
"""Bytes of each of them."""
GONE: Final = "this result is no longer kept; call the tool again"
ID_BYTES: Final = 12
Source = tuple[Route, Kind]
"""The tool or resource that a result is of."""


class KeptResult(Struct, frozen=True):
    """The text of one result."""

    principal: str
    text: bytes
    until: float
    length: int
    """Bytes that are read at once, unless a host says something else."""
    source: Source | None
    """What it is of: whoever is denied that by now does not get the rest."""


class LargeResults:
    """The results that are kept. `clock`: the time in seconds."""

    def __init__(self, clock: Callable[[], float], judge: Judge) -> None:
        self._clock = clock
        self._judge = judge
        self._kept: dict[str, KeptResult] = {}
        """By id, the oldest first. Ids cannot be guessed, and are of use to their account only."""
        self._sizes: Counter[str] = Counter()
        """Bytes by account."""

    def cut(self, reply: Reply, limit: int, caller: Caller, tool: str, source: Source | None = None) -> Reply:
        """A result of a tool, in the form of the host, with at most so many bytes of text. `source`: what it
        is of."""
        if not isinstance(reply, Result) or isinstance(reply, Interim) or memoryview(reply.value).nbytes <= limit:
            return reply
        try:
            members = open_result(reply.value)
        except TooManyItems:
            return reply
        texts: list[str] = []
        others: list[Raw] = []
        for block in peek_array(members.get("content"), counted=True):
            parts = peek_object(block, counted=True)
            text = peek_str(parts.get("text")) if peek_str(parts.get("type")) == "text" else None
            others += [block] if text is None else []
            texts += [] if text is None else [text]
        whole = "\n".join(texts).encode()
        structured = members.get("structuredContent", Raw(b""))
        if len(whole) <= limit and memoryview(structured).nbytes > max(limit, 2 * len(whole)):
            whole = bytes(structured)  # it says more than the text does
        if len(whole) <= limit:
            return reply
        end = _end_of_line(whole, limit)
        id = self._keep(whole, caller.identity.principal, limit, source)
        rest = f"the rest: {READ_RESULT} id={id} offset={end}" if id else "the rest is too large to be kept"
        shown = f"{whole[:end].decode(errors='ignore')}\n[{_show_size(len(whole))} in all; {rest}]"
        content: list[object] = [{"type": "text", "text": shown}, *others]
        if id and caller.version not in (L1, L2):  # which know no links
            about = {"name": f"result of {tool}", "mimeType": "text/plain", "size": len(whole)}
            content.append({"type": "resource_link", "uri": HUB_RESULTS + id, **about})
        members = {name: value for name, value in members.items() if name != "structuredContent"}
        return Result(raw({**members, "content": content}))

    def read(self, given: Raw | None, viewer: Viewer) -> Answer:
        """The answer to a call of the tool that reads more."""
        members = peek_object(given)
        kept = self._find(peek_str(members.get("id")) or "", viewer)
        if kept is None:
            return Answer(GONE, is_error=True)
        offset, length = (read_number(members.get(name)) for name in ("offset", "length"))
        start = int(min(max(offset or 0, 0), len(kept.text)))
        if sought := peek_str(members.get("find")):
            return Answer(_find_lines(kept.text, sought, start))
        end = start + int(min(max(length or kept.length, 1), MAX_LENGTH))
        end = len(kept.text) if end >= len(kept.text) else _end_of_line(kept.text, end, start)
        where = f"[bytes {start} to {end} of {len(kept.text)}"
        more = f"; the rest: offset={end}]" if end < len(kept.text) else ", the end]"
        return Answer(f"{kept.text[start:end].decode(errors='ignore')}\n{where}{more}")

    def read_resource(self, uri: str, viewer: Viewer) -> Reply:
        """The whole text of a result, as the resource that is linked."""
        if (kept := self._find(uri.removeprefix(HUB_RESULTS), viewer)) is None:
            return Failure(resource_not_found(uri, viewer.caller.version).code, GONE)
        text = {"uri": uri, "mimeType": "text/plain", "text": kept.text.decode(errors="ignore")}
        return Result(raw({"contents": [text]}))

    def _find(self, id: str, viewer: Viewer) -> KeptResult | None:
        self._forget_old()
        found = self._kept.get(id)
        if found is None or found.principal != viewer.caller.identity.principal:
            return None
        if self._judge.book is None or found.source is None:
            return found
        return None if self._judge.look_up_route(viewer.caller, viewer.view, *found.source).is_hidden else found

    def _keep(self, text: bytes, principal: str, length: int, source: Source | None) -> str:
        """Keep a text; its id. "": it is too large."""
        if (size := len(text)) > MAX_EACH_BYTES:
            return ""
        self._forget_old()
        for id, each in self._kept.items():  # an outcome that is polled comes again and again
            if (each.principal, each.source, each.length) == (principal, source, length) and each.text == text:
                self._kept[id] = structs.replace(self._kept.pop(id), until=self._clock() + KEEP_S)
                return id
        mine = (id for id, each in list(self._kept.items()) if each.principal == principal)
        while self._sizes[principal] + size > MAX_EACH_BYTES:
            self._forget(next(mine))
        while self._sizes.total() + size > MAX_KEPT_BYTES:
            self._forget(next(iter(self._kept)))
        id = secrets.token_urlsafe(ID_BYTES)
        self._kept[id] = KeptResult(principal, text, self._clock() + KEEP_S, length, source)
        self._sizes[principal] += size
        return id

    def _forget_old(self) -> None:
        now = self._clock()
        while self._kept and self._kept[oldest := next(iter(self._kept))].until <= now:
            self._forget(oldest)

    def _forget(self, id: str) -> None:
        kept = self._kept.pop(id)
        self._sizes[kept.principal] -= len(kept.text)
        if not self._sizes[kept.principal]:
            del self._sizes[kept.principal]


class CutResults(Stage):
    """Cuts results for hosts. Outside of whatever judges or changes a result, so that what is kept is what hosts may
    see."""

    def __init__(self, results: LargeResults, live: LiveCatalog) -> None:
        self._results = results
        self._live = live

    def admits(self, intent: Intent) -> Wait | None:
        return WAIT if self._limit(intent) else None

    async def call(self, intent: Intent, next: Next) -> Reply:
        return self.cut(intent, await next(intent))

    def cut(self, intent: Intent, reply: Reply) -> Reply:
        """The reply to an intent, with as much text as its host is shown."""
        if not (limit := self._limit(intent)):
            return reply
        target = intent.target
        return self._results.cut(reply, limit, intent.host.caller, target.exposed, (target.route, Kind.TOOL))

    def _limit(self, intent: Intent) -> int:
        """Bytes of text that a host is shown; 0: all."""
        host = intent.host
        if host.view.server or host.is_inserted:  # one server's endpoint shows what the server says
            return 0
        profile = self._live.servers.rules.profiles.get(host.profile)
        if profile is not None and profile.large_results_bytes is not None:
            return profile.large_results_bytes
        return intent.target.upstream.config.large_results_bytes


def _end_of_line(text: bytes, most: int, start: int = 0) -> int:
    """The end of the last line that is whole within the first `most` bytes, from `start` on; of a longer line, that of
    the last whole character."""
    if (end := text.rfind(b"\n", start, most)) > start:
        return end + 1
    end = most
    while end > start and text[end] & 0xC0 == 0x80:
        end -= 1
    while end <= start or (end < len(text) and text[end] & 0xC0 == 0x80):  # one character at least
        end += 1
    return end


def _find_lines(text: bytes, sought: str, start: int) -> str:
    """The lines from `start` on that have a text, whatever its case, each with its offset."""
    lowered, wanted = text.lower(), sought.encode(errors="replace").lower()
    lines: list[str] = []
    at = lowered.find(wanted, start)
    while at >= 0 and len(lines) < MAX_FOUND:
        begin = text.rfind(b"\n", 0, at) + 1
        end = len(text) if (end := text.find(b"\n", at)) < 0 else end
        shown = text[max(begin, at - MAX_LINE // 2) : min(end, at + MAX_LINE // 2)]
        lines.append(f"offset={at}: {shown.decode(errors='ignore')}")
        at = lowered.find(wanted, max(end, at + len(wanted)))
    if not lines:
        return f"no line from {start} on has that"
    return "\n".join(lines + ([f"[more: offset={at}]"] if at >= 0 else []))


def _show_size(size: int) -> str:
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
