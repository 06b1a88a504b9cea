"""The only consumer of upstream changes: rebuild the catalogue, swap it, tell the hosts whose view changed.

Changes are a set of dirty upstreams, so a flood of them costs one rebuild (STYLE rule 7: change flags merge). The last
change is never lost: the flag is cleared before the snapshots are read.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import trio

from hub.catalog.catalog import Catalog
from hub.catalog.view import View, server_view
from hub.wire.mcp import LOG_LEVELS, Kind

log = logging.getLogger("hubd.notify")

COALESCE_S: Final = 0.02
"""How long changes are gathered before one rebuild."""
LEVEL_LINGER_S: Final = 30.0
"""How long an upstream stays as talkative as a modern request wanted it (bridging.md 9.3)."""


class Audience(Protocol):
    """The hosts that want to hear of changes: `hub.downstream.hosts.Downstreams`,
    `hub.routing.subscriptions.Subscriptions`.
    """

    def list_changed(self, kinds: set[Kind], view: View) -> None: ...


class Shown(Protocol):
    """Where the current catalogue is kept; `hub.routing.router.Router` is it."""

    catalog: Catalog
    settled: trio.Event
    """Not set: no host has been shown a list yet."""


class LiveCatalog:
    """Keeps `shown.catalog` true to the upstreams' snapshots and passes on what became visible."""

    def __init__(self, build: Callable[[Catalog], Catalog], shown: Shown, *audiences: Audience) -> None:
        self._build = build
        self._shown = shown
        self._audiences = audiences
        self._dirty = trio.Event()
        self._changed: set[str] = set()
        self.rebuilds = 0

    def changed(self, upstream: str) -> None:
        """Note that an upstream's lists differ from what was last seen. Never blocks."""
        self._changed.add(upstream)
        self._dirty.set()

    @property
    def dirty(self) -> bool:
        """Whether there are changes that the catalogue does not have yet."""
        return self._dirty.is_set()

    def catch_up(self) -> None:
        """Rebuild now, if there are any."""
        if self.dirty:
            self.rebuild()

    async def run(self) -> None:
        """Rebuild whenever something changed, for ever."""
        while True:
            await self._dirty.wait()
            await trio.sleep(COALESCE_S)
            self.catch_up()

    def rebuild(self) -> None:
        """Build, swap and announce, now and without a checkpoint.

        A wall: lists that cannot be merged leave the catalogue as it was, until something changes again.
        """
        try:
            self._rebuild()
        except Exception:
            log.exception("cannot make a catalogue of what the upstreams list; the one before stays")

    def _rebuild(self) -> None:
        if self._dirty.is_set():  # else `run` is waiting for it
            self._dirty = trio.Event()
        changed, self._changed = self._changed, set()
        old = self._shown.catalog
        new = self._shown.catalog = self._build(old)
        self.rebuilds += 1
        for warning in new.warnings:
            if warning not in old.warnings:
                log.warning("%s", warning)
        if not self._shown.settled.is_set():
            return
        self._announce(old, new)
        for name in changed:
            view = server_view(name)
            self._announce(old.of(view), new.of(view))
        for view in old.projects.keys() & new.projects.keys():
            self._announce(old.of(view), new.of(view))

    def _announce(self, old: Catalog, new: Catalog) -> None:
        kinds = {kind for kind in Kind if new.differs(old, kind)}
        if kinds:
            for audience in self._audiences:
                audience.list_changed(kinds, new.view)


class LogLevels:
    """The one level each legacy upstream is set to: the most verbose any host wants (bridging.md 9.3).

    `apply` is called with it whenever it changes. Hosts of legacy sessions want theirs until they say otherwise; a
    modern request wants its own while it runs and for `LEVEL_LINGER_S` more, so that upstreams are not told twice per
    call.
    """

    def __init__(self, wanted: Callable[[], Iterable[str]], apply: Callable[[str | None], None]) -> None:
        self._wanted = wanted
        self._apply = apply
        self._held: Counter[str] = Counter()
        self._lingering: dict[str, float] = {}
        self._current: str | None = None

    @property
    def current(self) -> str | None:
        """What they are set to; None: nobody wants to hear anything."""
        return self._current

    def changed(self) -> None:
        """A legacy host set another level, or left."""
        self._settle()

    @contextmanager
    def held(self, level: str) -> Iterator[None]:
        """A modern request that wants `level` runs within."""
        self._held[level] += 1
        self._settle()
        try:
            yield
        finally:
            self._held[level] -= 1
            self._lingering[level] = trio.current_time() + LEVEL_LINGER_S

    async def run(self) -> None:
        """Let levels go that nobody wanted for a while."""
        while True:
            await trio.sleep(LEVEL_LINGER_S / 3)
            now = trio.current_time()
            self._held = +self._held
            self._lingering = {level: until for level, until in self._lingering.items() if until > now}
            self._settle()

    def _settle(self) -> None:
        level = most_verbose((*self._wanted(), *+self._held, *self._lingering))
        if level != self._current:
            self._current = level
            self._apply(level)


def most_verbose(levels: Sequence[str]) -> str | None:
    """The level that lets the most through; None for none."""
    return min(levels, key=LOG_LEVELS.index, default=None)
