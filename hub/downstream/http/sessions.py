"""All legacy sessions of an endpoint: found by their ids, revived after a restart, and ended by silence."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import trio

from hub.catalog.endpoint_views import View
from hub.downstream.host_conversations import Hosts
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.event_stream import StreamArchive
from hub.downstream.http.session import HttpSession
from hub.link.call_interface import Identity
from hub.link.fault_isolation import keep_going, run_isolated
from hub.link.sync_primitives import DirtyFlag
from hub.routing.router import Router

MAX_SESSIONS: Final = 2000
MAX_SESSIONS_OF_PRINCIPAL: Final = 1500
SESSION_IDLE_S: Final = 1800.0
SPARE_S: Final = 60.0
"""Silence after which a session may give way to a new one of its principal."""
UPKEEP_S: Final = 10.0
IDLE_UPKEEP_S: Final = 600.0
"""Interval of upkeep while there are no sessions: it adds to the time for which hubs have run."""


class HttpSessions:
    """All sessions of an endpoint. `run` must be running beside it."""

    def __init__(self, router: Router, hosts: Hosts, durable: DurableSessions) -> None:
        self.archive = StreamArchive()
        self._router = router
        self._hosts = hosts
        self._durable = durable
        self._sessions: dict[str, HttpSession] = {}
        self._views: set[View] = set()
        """Views that hosts of sessions were shown when they came."""
        self._unrestored: list[HttpSession] = []
        self._revived = DirtyFlag()
        self._occupied = trio.Event()
        """Set when there is a session, since there was none."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._sessions.values()))

    def __contains__(self, id: str) -> bool:
        return id in self._sessions

    def mint(self, identity: Identity, view: View) -> HttpSession | None:
        """Make a session, to be `add`ed after its handshake; None: there are too many."""
        if not self._has_room(identity.principal) and not self._make_room(identity.principal):
            return None
        return HttpSession(identity, view, self._hosts, self.archive, self._durable)

    def add(self, session: HttpSession) -> None:
        """Add a session after its handshake."""
        session.name()
        self._attach(session)

    def _attach(self, session: HttpSession) -> None:
        self._sessions[session.id] = session
        self._occupied.set()
        self._hosts.add(session)
        if session.view not in self._views:
            self._views.add(session.view)
            self.note_lists()

    async def run(self) -> None:
        """Restore revived sessions, end silent ones, and keep which lists hosts were shown, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_going, "Restoring sessions", self._restore)
            nursery.start_soon(keep_going, "Keeping digests of lists", self._follow_lists)
            nursery.start_soon(keep_going, "Looking after sessions", self._look_after)

    async def _restore(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await self._revived.take()
                sessions, self._unrestored = self._unrestored, []
                for session in sessions:
                    nursery.start_soon(run_isolated, "Restoring a session", partial(session.restore, self._router))

    async def _follow_lists(self) -> None:
        await self._router.settled.wait()
        while True:
            self.note_lists()
            await self._hosts.list_changes.take()

    async def _look_after(self) -> None:
        while True:
            self.expire(trio.current_time())
            if self._sessions:
                await trio.sleep(UPKEEP_S)
            else:
                self._occupied = trio.Event()
                with trio.move_on_after(IDLE_UPKEEP_S):
                    await self._occupied.wait()

    def _has_room(self, principal: str) -> bool:
        if len(self._sessions) >= MAX_SESSIONS:
            return False
        if len(self._sessions) < MAX_SESSIONS_OF_PRINCIPAL:
            return True
        mine = sum(session.identity.principal == principal for session in self._sessions.values())
        return mine < MAX_SESSIONS_OF_PRINCIPAL

    def _make_room(self, principal: str) -> bool:
        """End the idle session of `principal` that was silent longest; False: there is none."""
        latest = trio.current_time() - SPARE_S
        spare = [
            session
            for session in self._sessions.values()
            if session.identity.principal == principal and session.seen <= latest and session.idle
        ]
        if not spare:
            return False
        self.close(min(spare, key=lambda session: session.seen))
        return True

    def find(self, id: str, identity: Identity, view: View) -> HttpSession | None:
        """Find or revive a session of this identity at this endpoint; None: there is none, or it belongs to others."""
        session = self._sessions.get(id)
        if session is None:
            return self.revive(id, identity, view)
        if session.identity != identity or session.endpoint != view:
            return None
        return session

    def revive(
        self, id: str, identity: Identity, view: View, *, claimed: bool = False, kept: bytes | None = None
    ) -> HttpSession | None:
        """Revive a session of another run; None: it cannot be. `claimed` and `kept` as for `DurableSessions.find`."""
        if id in self._sessions:
            return None
        shown = self._hosts.view_of(view, identity, identity.profile or view.profile)
        past = self._durable.find(id, identity, view, shown, claimed=claimed, kept=kept)
        session = None if past is None else self.mint(identity, view)
        if past is None or session is None:
            return None
        session.revive(past)
        self._attach(session)
        self._unrestored.append(session)
        self._revived.set()
        if past.kept.level is not None:
            self._router.levels.changed()
        session.at_work()
        return session

    def note_lists(self) -> None:
        """Keep digests of the current lists, so that the next run knows which changes hosts missed."""
        if self._router.settled.is_set():
            for view in self._views | {session.view for session in self._sessions.values()}:
                self._durable.note_lists(view, self._router.digests(view))

    def close(self, session: HttpSession, *, moved: bool = False) -> None:
        """End a session for good; `moved`: it goes on at another hub."""
        del self._sessions[session.id]
        session.close(moved=moved)
        session.end_conversation(self._router)

    def stop_listening(self) -> None:
        """End all connections that only listen."""
        for session in self._sessions.values():
            session.stop_listening()

    def expire(self, now: float) -> None:
        """End sessions that were silent for too long; forget old streams."""
        for session in list(self._sessions.values()):
            if now - session.seen >= SESSION_IDLE_S and session.idle:
                self.close(session)
            else:
                session.tell_untold()
        self.archive.expire(now)
        self._durable.forget(now)
