"""Find the hub that owns a session, parked call or task; take over sessions of hubs that ended.

Most requests need no such thing: what a modern host asks any hub can answer. But a legacy session, a call that waits
for answers, and a task that lives in a session of an upstream are in the memory of one hub. What hosts carry for them
says by its seal in which run of which hub they began; `replicas` knows where that is. A session may go on elsewhere
when its hub has ended. The directory says so:

    session/NAME      the run that has taken over the session of a hub that ended
    kept/NAME         what such a session has set beyond its handshake
    over/NAME         it is over

While the directory is young nothing is taken over, and whoever notices that it is another one claims again what it had
claimed, and says again which sessions are over. So a session is at one hub at most, as long as the hubs reach the
directory; one that could not for a while gives up what others took meanwhile.

Whoever gets a request that belongs elsewhere raises `Elsewhere`, before anything is done for it.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

import trio

from cache.shared_store import Directory, Unreachable
from hub.downstream.http.elsewhere import Elsewhere
from hub.fleet.membership import TRIES, Peer, Replicas
from hub.fleet.notes import Notes
from hub.link.wall import Wall, keep_going

log = logging.getLogger("hubd.replicas")

CLAIM_S: Final = 7 * 24 * 3600.0
"""How long it is known who took a session over: for longer than anybody could revive it once more."""
LEAVE_S: Final = 1.0
"""How long an orderly stop may take to tell the others."""


class Over(Exception):
    """A session has ended."""


class Ownership:
    """Of what this hub has, and of what it is asked for and has not. `run` must be running."""

    def __init__(self, replicas: Replicas) -> None:
        self.notes = Notes(replicas.directory)
        """What is told of sessions."""
        self.holdings: Callable[[], Iterable[tuple[str, bool]]] = tuple
        """The sessions that are here, and which of them began elsewhere."""
        self.on_taken: Callable[[str], None] = lambda session: None
        """Told of a session of these that another hub has taken over."""
        self.on_emptied: Callable[[], None] = lambda: None
        """Told that what was noted of sessions is lost, and is to be noted again."""
        self._replicas = replicas
        replicas.tend = self._tend

    @property
    def _directory(self) -> Directory:
        return self._replicas.directory

    def __repr__(self) -> str:
        return f"<Ownership, {self.notes!r}>"

    async def run(self) -> None:
        """Be found with what is here, and write what is noted, for ever."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._replicas.run)
            nursery.start_soon(keep_going, "Writing where sessions are", self.notes.run)

    async def leave(self) -> None:
        """Be found no more, so that others take over at once. Takes at most `LEAVE_S`; raises nothing."""
        with trio.move_on_after(LEAVE_S):
            try:
                await self._replicas.leave()
                await self.notes.flush()
            except* Unreachable:
                pass
            except* Exception as errors:  # noqa: BLE001  # a wall: logged there
                Wall(log, "taking leave of other hubs").caught(errors)

    async def _tend(self, lapsed: bool, emptied: bool) -> None:
        """Look after the claims of this hub. `lapsed`: others may have taken what began here, too; `emptied`: nothing
        is left in the directory of what this hub has noted there."""
        if emptied:
            self.on_emptied()
        mine = self._replicas.me.run.encode()
        for session, came in list(self.holdings()):
            if not came and not lapsed:
                continue
            claim = await self._directory.get(f"session/{session}")
            if claim is None and came:
                await self._directory.swap(f"session/{session}", None, mine, CLAIM_S)
                claim = await self._directory.get(f"session/{session}")
            if claim not in (None, mine):
                log.info("a session of this hub goes on at another one, which could not see this one")
                self.on_taken(session)

    async def keeper(self, away: Elsewhere, dead: Collection[str] = ()) -> Peer | None:
        """Who has what is `away`; None: this hub, for a session has just been claimed for it, or nobody has it.

        `dead`: runs that cannot be reached, whatever the directory says. Of all hubs that ask at once for a session
        whose hub is gone, one is told None; the others are told of that one.

        Raises:
            Over: it is a session that has ended, or cannot be revived.
            Unreachable: the directory cannot be asked.
        """
        if not away.session:
            for run in away.runs:
                if run not in dead and (peer := await self._replicas.reach(run)) is not None:
                    return peer
            return None
        me = self._replicas.me.run
        for _ in range(TRIES):
            try:
                claim = await self._directory.get(f"session/{away.session}")
            except Unreachable:
                if (known := self._replicas.last_known(away.runs[0])) is not None:
                    return known  # it will say so if it has not got it any more
                raise
            owner = away.runs[0] if claim is None else claim.decode("ascii", "replace")
            if owner == me:
                if claim is None:  # it began here, and is not here any more
                    raise Over
                return None
            if owner not in dead and (peer := await self._replicas.reach(owner)) is not None:
                return peer
            if not away.youthful or await self._directory.get(f"over/{away.session}") is not None:
                raise Over
            if not await self._replicas.is_grown():
                raise Unreachable("it has just begun, and hubs that are there may be missing in it")
            if await self._directory.swap(f"session/{away.session}", claim, me.encode(), CLAIM_S):
                log.info("taking over a session of the hub %s, which is gone", owner)
                return None
        raise Unreachable("others take over what they let go at once")

    async def kept(self, session: str) -> bytes | None:
        """What was noted of a session; None: nothing, or nobody can tell."""
        try:
            return await self._directory.get(f"kept/{session}")
        except Unreachable:
            return None
