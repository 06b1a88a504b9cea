"""Find the hub that owns a session, parked call or task; take over sessions of hubs that ended.

Any hub can answer most requests of modern hosts. But a legacy session, a parked call, and a task that lives in a
session of an upstream are in the memory of one hub. The sealed id that the host carries names the run of the hub where
they began; `membership` finds that run. When a hub has ended, its sessions may go on elsewhere. The directory says so:

    session/NAME      the run that has taken over the session of a hub that ended
    kept/NAME         settings of such a session beyond its handshake
    over/NAME         the session has ended

While the directory is young, no session is taken over. A hub that notices an emptied directory claims its sessions
again and repeats which sessions have ended. So a session is at one hub at most, as long as the hubs reach the
directory; a hub that could not reach it for a while gives up the sessions that others took meanwhile.

The gate asks here before anything is done for a request. The home of a modern request is read from the sealed state or
task id in it. Facts are published by a write-behind queue.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import trio
from msgspec import Struct

from cache.shared_store import Directory, StoreUnreachable
from hub.bridge.sealed_request_state import RequestStates, state_of
from hub.bridge.tasks.polled_tasks import MAX_TOLD, TaskHandles
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.sessions import HttpSessions
from hub.fleet.membership import TRIES, Membership, Registration
from hub.link.bounded_dict import BoundedDict
from hub.link.fault_isolation import FaultLog, keep_going
from hub.link.sync_primitives import DirtyFlag
from hub.wire.jsonrpc import RemoteProtocolError, Request, peek_object, peek_str
from hub.wire.mcp import LISTEN, TASKS_CANCEL, TASKS_GET, TASKS_UPDATE
from hub.wire.total_item_limit import read_strings

log = logging.getLogger("hubd.replicas")

NOTE_S: Final = 49 * 3600.0
"""Lifetime of a fact: longer than a hub whose clock is a day late could revive the session."""
RETRY_S: Final = 5.0
MAX_FACTS: Final = 4_096


class PublishedFacts:
    """Facts still to be written to `directory`, the newest of each name. `run` must be running.

    Bounded: while the directory is away, the oldest facts are dropped."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._unwritten: BoundedDict[str, bytes] = BoundedDict(MAX_FACTS)
        self._news = DirtyFlag()
        self._faults = FaultLog(log, "telling other hubs of sessions")

    def put(self, name: str, value: bytes) -> None:
        """Queue a fact. Never blocks."""
        self._unwritten.put(name, value)
        self._news.set()

    async def run(self) -> None:
        """Write queued facts until cancelled."""
        while True:
            await self._news.take()
            try:
                await self.flush()
            except* StoreUnreachable:
                await self._later()
            except* Exception as errors:  # noqa: BLE001  # a fault is logged, and the work goes on
                self._faults.log_once(errors)
                self._unwritten.pop(next(iter(self._unwritten), ""), None)
                await self._later()

    async def _later(self) -> None:
        await trio.sleep(RETRY_S)
        self._news.set()

    async def flush(self) -> None:
        """Write all queued facts. Raises StoreUnreachable: some are still to be written."""
        while self._unwritten:
            name, value = next(iter(self._unwritten.items()))
            await self._directory.put(name, value, NOTE_S)
            if self._unwritten.get(name) is value:
                del self._unwritten[name]


CLAIM_S: Final = 7 * 24 * 3600.0
"""Lifetime of a claim on a session: longer than any hub could revive the session once more."""
LEAVE_S: Final = 1.0
"""Time for an orderly stop to tell other hubs."""


class SessionOver(Exception):
    """A session has ended."""


class Elsewhere(Struct, frozen=True):
    """The owner of a request that this hub cannot answer by itself: one of `runs`."""

    runs: tuple[str, ...]
    session: str = ""
    """The durable name of its legacy session, which began in the first of `runs`; "": it has none."""
    minted: int = 0
    """The time of day at which that session began, in seconds."""
    youthful: bool = False
    """True if the session may be revived."""


@dataclass(eq=False, repr=False)
class Ownership:
    """Finds and claims owners of sessions. `run` must be running."""

    _membership: Membership
    _facts: PublishedFacts
    _sessions: HttpSessions
    """The sessions of this hub."""
    _durable: DurableSessions
    """Their settings, which are published again if the directory has lost them."""

    def __post_init__(self) -> None:
        self._directory = self._membership.directory

    async def run(self) -> None:
        """Stay registered and publish facts until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._membership.run, self._tend)
            nursery.start_soon(keep_going, "Writing where sessions are", self._facts.run)

    async def deregister(self) -> None:
        """Deregister, so that other hubs take over at once. Takes at most `LEAVE_S`; raises nothing."""
        with trio.move_on_after(LEAVE_S):
            try:
                await self._membership.deregister()
                await self._facts.flush()
            except* StoreUnreachable:
                pass
            except* Exception as errors:  # noqa: BLE001  # a fault is logged, and the work goes on
                FaultLog(log, "taking leave of other hubs").log_once(errors)

    async def _tend(self, lapsed: bool, emptied: bool) -> None:
        """Renew the claims of this hub. `lapsed`: other hubs may have taken sessions that began here; `emptied`: the
        directory has lost everything that this hub published."""
        if emptied:
            self._durable.publish_again()
        mine = self._membership.me.run.encode()
        for name, is_revived in [(each.durable_name, each.is_revived) for each in self._sessions]:
            if not name or not (is_revived or lapsed):
                continue
            place = f"session/{name}"
            claim = await self._directory.get(place)
            if claim is None and is_revived:
                await self._directory.swap(place, None, mine, CLAIM_S)
                claim = await self._directory.get(place)
            if claim not in (None, mine):
                log.info("a session of this hub goes on at another one, which could not see this one")
                for session in self._sessions:
                    if session.durable_name == name:
                        self._sessions.close(session, moved=True)

    async def find_owner(self, away: Elsewhere, dead: Collection[str] = ()) -> Registration | None:
        """The hub that has what `away` names; None: this hub, which has just claimed the session, or no hub.

        `dead`: runs that cannot be reached, whatever the directory says. Of all hubs that ask at once for a session of
        an ended hub, one gets None; the others get that hub. Raises SessionOver: the session has ended, or cannot be
        revived; StoreUnreachable: the directory cannot be asked."""
        if not away.session:
            for run in away.runs:
                if run not in dead and (peer := await self._membership.reach(run)) is not None:
                    return peer
            return None
        me = self._membership.me.run
        for _ in range(TRIES):
            try:
                claim = await self._directory.get(f"session/{away.session}")
            except StoreUnreachable:
                if (known := self._membership.last_known(away.runs[0])) is not None:
                    return known  # that hub refuses if it has lost the session
                raise
            owner = away.runs[0] if claim is None else claim.decode("ascii", "replace")
            if owner == me:
                if claim is None:  # the session began here and is gone
                    raise SessionOver
                return None
            if owner not in dead and (peer := await self._membership.reach(owner)) is not None:
                return peer
            if not away.youthful or await self._directory.get(f"over/{away.session}") is not None:
                raise SessionOver
            if not await self._membership.is_settled():
                raise StoreUnreachable("it is new, and running hubs may not be registered yet")
            if await self._directory.swap(f"session/{away.session}", claim, me.encode(), CLAIM_S):
                log.info("taking over a session of the hub %s, which is gone", owner)
                return None
        raise StoreUnreachable("other hubs keep claiming and releasing this session")

    async def find(self, session: str) -> bytes | None:
        """The published settings of a session; None: none, or the directory cannot be asked."""
        try:
            return await self._directory.get(f"kept/{session}")
        except StoreUnreachable:
            return None


_ABOUT_TASKS = frozenset({TASKS_GET, TASKS_UPDATE, TASKS_CANCEL})


def runs_of(request: Request, states: RequestStates, handles: TaskHandles) -> tuple[str, ...]:
    """The runs that alone can answer `request` or a part of it; empty: any hub can."""
    runs: list[str] = []
    if "requestState" in request.params:
        runs = [states.run_of(state_of(request) or "")]
    elif request.method in _ABOUT_TASKS:
        runs = [handles.run_of(peek_str(request.params.get("taskId")) or "")]
    elif request.method == LISTEN:
        runs = [handles.run_of(id) for id in _task_ids(request)[:MAX_TOLD]]
    return tuple(dict.fromkeys(run for run in runs if run))


def _task_ids(request: Request) -> list[str]:
    """The task ids in a listen request; empty for a malformed one, which any hub can refuse."""
    named = peek_object(request.params.get("notifications")).get("taskIds")
    try:
        return [] if named is None else read_strings(named, "taskIds")
    except RemoteProtocolError:
        return []
