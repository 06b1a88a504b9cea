"""The feed: what happens, told to each page that is open as a stream of server-sent events.

While nobody watches, nothing is computed. A page that does not read loses events, and is told how many; nobody waits
for it. While a page is open, calls that need a yes wait for it, as for `hubd approvals -f`.
"""

from collections.abc import Mapping
from contextlib import aclosing
from math import inf
from typing import Final

import trio
from msgspec import Raw, json

from hub.app import WALL
from hub.calls.count_dropped_messages import DROPPED
from hub.control.server import to_json
from hub.daemon.dashboard.dependencies import Parts
from hub.daemon.dashboard.guard import HEADERS, refusal
from hub.daemon.dashboard.inbox_items_and_decisions import Inbox
from hub.daemon.dashboard.overview import list_members
from hub.daemon.dashboard.tickets import PageKey, PageTickets
from hub.link.rate_limits import TokenBucket
from hub.net.response_writer import HttpResponse

TICK_S: Final = 1.0
MAX_PAGES: Final = 16
ROOM: Final = 128 << 10
"""Bytes that a page may leave unread before it loses events."""
LINES: Final = 200
"""Calls and lines of a log that a page is told of at first."""
MAX_CALLS: Final = 20
"""Calls within a second that a page is told of one by one."""
PAUSE_S: Final = 0.1
ALL: Final = "*"
"""In place of a name: the logs of the hub and of all servers."""
TOO_MANY: Final = refusal(503, "too_many", f"{MAX_PAGES} pages of the dashboard are open already; close one")


class OpenPage:
    """One page that is open."""

    def __init__(self, response: HttpResponse) -> None:
        self._response = response
        self._lost = 0
        self._shown: dict[str, bytes] = {}
        """What it was told last, by name."""

    def send(self, event: str, value: object) -> None:
        """Tell the page of something, or count it as lost."""
        if self._response.queued_bytes > ROOM:
            self._lost += 1
            DROPPED["event"] += 1
            self._shown = {}
            return
        lost, self._lost = self._lost, 0
        if lost:
            self._write("lost", json.encode({"events": lost}))
        self._write(event, bytes(to_json(value)))

    def show(self, members: Mapping[str, object]) -> None:
        """Tell the page of what is not as it was: of all at first, and after something was lost."""
        texts = {name: bytes(to_json(member)) for name, member in members.items()}
        changed = {name: Raw(text) for name, text in texts.items() if self._shown.get(name) != text}
        event, gone = "tick" if self._shown else "state", [name for name in self._shown if name not in texts]
        self._shown = texts
        self.send(event, {"at": WALL(), "set": changed, "gone": gone})

    def _write(self, event: str, data: bytes) -> None:
        self._response.write(b"event: %b\ndata: %b\n\n" % (event.encode(), data))


class Feed:
    """The streams of all pages."""

    def __init__(self, parts: Parts, inbox: Inbox, tickets: PageTickets) -> None:
        self._parts = parts
        self._inbox = inbox
        self._tickets = tickets
        self._pages: dict[OpenPage, trio.CancelScope] = {}
        self._is_over = False
        self._looking = trio.Lock()
        self._seen: tuple[float, int, dict[str, object]] = -inf, 0, {}
        """What pages were told last: when, and at which edition of the approvals."""

    async def look(self) -> dict[str, object]:
        """All that pages are told, by name."""
        return list_members(await self._parts.live.overview(), self._inbox.list())

    async def _look_for_all(self) -> dict[str, object]:
        """The same, looked up once for all pages that are told it at about the same time."""
        async with self._looking:
            at, edition, found = self._seen
            now, current = trio.current_time(), self._parts.hub.approvals.edition
            if edition != current or now - at >= TICK_S / 2:
                found = await self.look()
                self._seen = now, current, found
            return found

    async def serve(self, response: HttpResponse, key: PageKey, log: str = "") -> None:
        """Tell a page what happens until it leaves, its key ends, or the hub stops. `log`: whose log, too."""
        if len(self._pages) >= MAX_PAGES:
            response.reply(TOO_MANY.status, TOO_MANY.body, TOO_MANY.headers)
            return
        response.open_stream(HEADERS[:-1])
        page, scope = OpenPage(response), trio.CancelScope()
        self._pages[page] = scope
        response.when_gone(scope.cancel)
        try:
            with scope, self._parts.hub.approvals.watch():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._follow_calls, page)
                    if log:
                        nursery.start_soon(self._follow_log, page, log)
                    why = await self._tell(page, key)
                    page.send("bye", {"why": why})
                    nursery.cancel_scope.cancel()
        finally:
            response.when_gone(None)
            del self._pages[page]
            if not self._pages:
                self._seen = -inf, 0, {}

    def end(self) -> None:
        """End all streams: the hub stops."""
        self._is_over = True
        for page, scope in self._pages.items():
            page.send("bye", {"why": "stopping"})
            scope.cancel()

    async def _tell(self, page: OpenPage, key: PageKey) -> str:
        """Tell what happens each second; why that ends."""
        hub = self._parts.hub
        while True:
            if not self._tickets.is_good(key):
                return "signed_out"
            if self._is_over or hub.config.dashboard.enabled == "off":
                return "stopping" if self._is_over else "off"
            page.show(await self._look_for_all())
            with trio.move_on_after(TICK_S):
                edition = hub.approvals.edition
                while hub.approvals.edition == edition:
                    await hub.approvals.changed.wait()
            await trio.sleep(PAUSE_S)

    async def _follow_calls(self, page: OpenPage) -> None:
        room = TokenBucket(MAX_CALLS, MAX_CALLS)
        async with aclosing(self._parts.live.calls(n=LINES, follow=True)) as lists:
            page.send("calls", {"calls": (await anext(lists)).calls, "more": 0})
            async for found in lists:
                calls = [each for each in found.calls if room.take(trio.current_time())]
                page.send("calls", {"calls": calls, "more": found.lost + len(found.calls) - len(calls)})

    async def _follow_log(self, page: OpenPage, log: str) -> None:
        async for found in self._parts.api.logs(None if log == ALL else log, LINES, follow=True):
            page.send("log", found)
