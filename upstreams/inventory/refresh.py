"""List refresh: lists are read again when they may have changed, one reading of each list at a time.

    the session opens            all lists are read and shown together
    the upstream says "changed"  read at once, unless several readings in a row brought nothing new: then at intervals
    a host wants to see it       read at once; whoever asks while it is being read waits for that reading, or for the
                                 next one, which all share who want the list as it is from now on
    it could not be read         read again after `RETRY_LIST_S`

So a flood of changes costs one reading at a time and one that follows. Nobody waits for longer than `REFRESH_WAIT_S`,
nor for a reading that others have waited for in vain. A list that took too long is read in the background from then on,
and waited for again once it was quick.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final

import trio
from msgspec import Struct, field

from config.settings import UpstreamConfig
from hub.link.hub_errors import HubError, UpstreamUnauthorized
from hub.link.sync_primitives import DirtyFlag
from hub.wire.mcp import Kind
from upstreams.inventory.read_lists import Listing, walk
from upstreams.session_contract import Session

REFRESH_WAIT_S: Final = 1.5
"""Time that a request waits for a list to be read again."""
RETRY_LIST_S: Final = 30.0
CALM_READINGS: Final = 3
CALM_WINDOW_S: Final = 10.0
FIRST_INTERVAL_S: Final = 1.0
LONGEST_INTERVAL_S: Final = 60.0

OnRead = Callable[[Mapping[Kind, Listing], list[str]], bool]
"""Called with lists that were read, and why any list is incomplete; whether that is something new."""


class Reading(Struct, eq=False):
    """One reading of one list, to wait for."""

    over: trio.Event = field(default_factory=trio.Event)
    until: float = inf
    """Until when the reading is worth waiting for; `inf`: it has not begun, or is the first of a session."""

    async def wait(self) -> None:
        """Wait until the reading is over, at most `REFRESH_WAIT_S` and `until`."""
        with trio.move_on_at(min(self.until, trio.current_time() + REFRESH_WAIT_S)):
            await self.over.wait()


class ReadPacing(Struct, eq=False):
    """Pacing of readings after changes: at once, unless several readings have brought nothing new."""

    next_at: float = -inf
    _interval_s: float = 0.0
    _in_vain: list[float] = []

    def was_read(self, now: float, changed: bool) -> None:
        if changed or now > self.next_at + LONGEST_INTERVAL_S:
            self._interval_s = 0.0
            self._in_vain.clear()
        if not changed:
            self._in_vain = [at for at in self._in_vain if at > now - CALM_WINDOW_S] + [now]
        if self._interval_s or len(self._in_vain) >= CALM_READINGS:
            self._interval_s = min(max(FIRST_INTERVAL_S, self._interval_s * 2), LONGEST_INTERVAL_S)
        self.next_at = now + self._interval_s


class _ListState(Struct, eq=False):
    """State of one list: whether to read it, and when."""

    running: Reading | None = None
    requested: Reading | None = None
    """The reading that follows."""
    stale: bool = False
    """The upstream said that the list changed."""
    slow: bool = False
    problem: str = ""
    """The reason why the list is incomplete, or could not be read."""
    retry_at: float = inf
    """Time at which to read the list again, since it could not be read."""
    wants_sign_in: bool = False
    """A person has to sign in before it can be read."""
    pacing: ReadPacing = field(default_factory=ReadPacing)
    news: DirtyFlag = field(default_factory=DirtyFlag)

    async def due(self) -> None:
        """Wait until the list is to be read."""
        while self.requested is None:
            due_at = min(self.pacing.next_at if self.stale else inf, self.retry_at)
            if due_at <= trio.current_time():
                return
            with trio.move_on_at(due_at):
                await self.news.take()

    def begin(self, *, first: bool) -> bool:
        """A reading begins, the `first` of a session or a later one; true if that is because the list changed.

        A first one may be slow because the server is only starting, so it does not make the list a slow one.
        """
        self.running, self.requested = self.requested or Reading(), None
        self.running.until = inf if first else trio.current_time() + REFRESH_WAIT_S
        was_stale, self.stale = self.stale, False
        return was_stale

    def end(self) -> None:
        """Wake whoever waits for the running reading: it is over."""
        if self.running is not None:
            self.running.over.set()
            self.running = None

    def abandon(self) -> None:
        """Let nobody wait any more: the session is over."""
        self.end()
        if self.requested is not None:
            self.requested.over.set()
            self.requested = None
        self.slow = False


class ListRefresh:
    """Readings of the lists of one upstream, over one main session after another."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._lists = {kind: _ListState() for kind in Kind}
        self.adjust(config)

    def adjust(self, config: UpstreamConfig) -> None:
        self._list_s = config.timeouts.list

    @property
    def is_complete(self) -> bool:
        """True if every list could be read, when it was read last."""
        return all(state.retry_at == inf for state in self._lists.values())

    @property
    def want_sign_in(self) -> bool:
        """True if a person has to sign in before all lists can be read."""
        return any(state.wants_sign_in for state in self._lists.values())

    def signed_in(self) -> None:
        """A person has signed in: the lists that could not be read for that are read at once."""
        for kind, state in self._lists.items():
            if state.wants_sign_in:
                state.wants_sign_in = False
                self.request(kind)

    def mark_stale(self, kinds: Iterable[Kind]) -> None:
        """Have these lists read soon: they changed, or there is reason to believe so."""
        for kind in kinds:
            self._lists[kind].stale = True
            self._lists[kind].news.set()

    def request(self, kind: Kind, *, anew: bool = False) -> Reading | None:
        """Have a list read at once, `anew`: from now on; the reading to wait for, None: waiting would be in vain."""
        state = self._lists[kind]
        if (running := state.running) is not None and not anew:
            reading = running
        else:
            reading = state.requested = state.requested or Reading()
            state.news.set()
        in_vain = running is not None and running.until <= trio.current_time()
        return None if in_vain or state.slow else reading

    async def run(self, session: Session, on_read: OnRead) -> None:
        """Read all lists over `session`, then each of them whenever it is due, for ever.

        Cancellation: the session is over; nobody waits any more.
        """
        try:
            for state in self._lists.values():
                state.pacing = ReadPacing()
            await self._read(session, on_read, *Kind, first=True)
            async with trio.open_nursery() as nursery:
                for kind in Kind:
                    nursery.start_soon(self._keep_fresh, session, on_read, kind)
        finally:
            for state in self._lists.values():
                state.abandon()

    async def _keep_fresh(self, session: Session, on_read: OnRead, kind: Kind) -> None:
        while True:
            await self._lists[kind].due()
            await self._read(session, on_read, kind)

    async def _read(self, session: Session, on_read: OnRead, *kinds: Kind, first: bool = False) -> None:
        states = [self._lists[kind] for kind in kinds]
        stale = [state for state in states if state.begin(first=first)]
        found: dict[Kind, Listing] = {}
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                nursery.start_soon(self._read_one, session, kind, found)
        changed = on_read(found, [state.problem for state in self._lists.values() if state.problem])
        for state in stale:
            state.pacing.was_read(trio.current_time(), changed)
        for state in states:
            state.end()

    async def _read_one(self, session: Session, kind: Kind, found: dict[Kind, Listing]) -> None:
        state = self._lists[kind]
        problem, state.wants_sign_in = f"{kind.value} could not be read in time", False
        with trio.move_on_after(self._list_s):
            try:
                found[kind] = await walk(session, kind)
                problem = found[kind].degraded
            except HubError as error:
                problem = f"{kind.value} could not be read: {error}"
                state.wants_sign_in = isinstance(error, UpstreamUnauthorized) and error.asks_person
        state.problem = problem  # not before: readings of other lists tell the problems of all
        now = trio.current_time()
        state.retry_at = inf if kind in found else now + RETRY_LIST_S
        state.slow = state.running is not None and state.running.until <= now
