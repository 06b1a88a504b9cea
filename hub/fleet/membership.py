"""This hub among others of one configuration and one sealing key, behind any balancer: who there is.

Each is in a directory that the hubs have in common, as small facts under a name each (`cache.shared_store.Directory`):

    replica/RUN       where that run of a hub is reached; gone within `LIVES_S` after the hub
    replicas          the runs there may be: a directory cannot be leafed through
    began             a word of whoever found the directory empty, and
    young             until every hub that is there has had the time to register again (`YOUNG_S`)

What a directory has lost must not make a hub seem dead that is there: `is_grown` says whether it can be believed.
"""

import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import trio
from msgspec import Struct, structs

from cache.shared_store import Directory, Unreachable
from hub.link.wall import Wall

log = logging.getLogger("hubd.replicas")

LIVES_S: Final = 15.0
"""How long a hub is taken to be there that says nothing more."""
RENEW_S: Final = 5.0
RETRY_S: Final = 0.5
"""How often to try to register while that fails."""
START_S: Final = 3.0
"""How long after the start of a hub the directory is waited for, if a request depends on it."""
ROUNDS: Final = 2
"""Registration rounds before the list of members counts as complete: hubs may start simultaneously."""
YOUNG_S: Final = 8.0
TEND_S: Final = 60.0
"""How often what else was said is looked after: a full store may drop it."""
ROSTER_S: Final = 24 * 3600.0
BEGAN_S: Final = 7 * 24 * 3600.0
"""For as long as anything is known there (`hub.fleet.ownership.CLAIM_S`)."""
KNOWN_S: Final = 1.0
"""For how long a hub that was there need not be looked for again."""
TRIES: Final = 4
MAX_REPLICAS: Final = 256
_ROSTER: Final = "replicas"
_BEGAN: Final = "began"
_YOUNG: Final = "young"
_RUN: Final = re.compile(r"[0-9a-f]{8,32}")

T = TypeVar("T")


async def _nothing(lapsed: bool, emptied: bool) -> None:
    """There is nothing else."""


class Peer(Struct, frozen=True):
    """A hub, as it is registered."""

    run: str
    name: str
    url: str
    """Its own HTTP; "": others do not reach it."""


class Replicas:
    """What this hub, `me`, knows of others. `run` must be running while it is to be found.

    `was_mine` says of which earlier runs this hub is the successor: they are over, whatever the directory says.
    """

    def __init__(self, me: Peer, directory: Directory, was_mine: Callable[[str], bool] = lambda run: False) -> None:
        self.me = me
        self.was_mine = was_mine
        self.directory = directory
        self.tend: Callable[[bool, bool], Awaitable[None]] = _nothing
        """Called from time to time to look after what else this hub has said in the directory, with two facts: whether
        this hub was not to be found for a while, and whether the directory is another one than before, so that what was
        said there is lost. After Unreachable it is called again soon."""
        self._known: dict[str, tuple[Peer, float]] = {}
        """Those that were there when last looked for, and until when that is good."""
        self._seen: dict[str, tuple[Peer, float]] = {}
        """Those whose registration was there when last looked for, and how long they are asked though it is not."""
        self._roster: tuple[str, ...] = ()
        self._until = 0.0
        """Until when this hub is registered."""
        self._began: bytes | None = None
        self._tend_at = 0.0
        self._ready = trio.Event()
        self._wait_until: float | None = None
        self._leaving = False
        self._reached = False
        self._wall = Wall(log, "being registered where other hubs look")
        self._rounds = 0
        """How often it has seen who is there, up to `ROUNDS`."""

    def __repr__(self) -> str:
        state = "leaving" if self._leaving else "registered" if self._reached else "alone"
        return f"<Replicas {self.me.name} {self.me.run} {state}, {len(self._peers())} others>"

    def facts(self) -> dict[str, object]:
        """For `hubd status`."""
        others = [{"name": peer.name, "run": peer.run, "url": peer.url} for peer in self._peers()]
        mine = {"name": self.me.name, "run": self.me.run, "url": self.me.url}
        return {
            **mine,
            "registered": self._reached and not self._leaving,
            "peers": others,
            "looking": self._rounds < ROUNDS,
        }

    def _peers(self) -> list[Peer]:
        return [self._known[run][0] for run in self._roster if run != self.me.run and run in self._known]

    def move(self, url: str) -> None:
        """Be found at another address, soon."""
        self.me = structs.replace(self.me, url=url)

    def is_elsewhere(self, run: str) -> bool:
        """Whether another hub that was there a moment ago is of this run, so that what it has is not lost."""
        return run != self.me.run and run in self._known and not self.was_mine(run)

    # --- being found --------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be registered, for ever. Started once the first attempt to register was made."""
        await self._renew()
        task_status.started()
        while True:
            await trio.sleep(RENEW_S if self._reached else RETRY_S)
            await self._renew()

    async def ready(self) -> None:
        """Wait until the directory was reached once, but for no longer than `START_S` after the first who waits."""
        if not self._ready.is_set():
            if self._wait_until is None:
                self._wait_until = trio.current_time() + START_S
            with trio.move_on_at(self._wait_until):
                await self._ready.wait()

    async def leave(self) -> None:
        """Be registered no more.

        Raises:
            Unreachable: it will be noticed anyway, later.
        """
        self._leaving = True
        await self.directory.delete(f"replica/{self.me.run}")

    async def _renew(self) -> None:
        if self._leaving:
            return
        now = trio.current_time()
        lapsed = now >= self._until
        try:
            await self.directory.put(f"replica/{self.me.run}", msgspec.json.encode(self.me), LIVES_S)
            if self._leaving:  # meanwhile
                await self.directory.delete(f"replica/{self.me.run}")
            began = await self.directory.get(_BEGAN) or await self._begin()
            for _ in range(TRIES):
                if await self._sign_roster():
                    break
            self._reached = True
            self._rounds = min(self._rounds + 1, ROUNDS)
            self._ready.set()
            emptied = began != self._began
            if lapsed or emptied or now >= self._tend_at:
                await self.tend(lapsed, emptied)
                self._began, self._tend_at = began, now + TEND_S
            self._until = now + LIVES_S
        except* Unreachable:
            self._reached = False
        except* Exception as errors:  # noqa: BLE001  # a wall: logged there
            self._reached = False
            self._wall.caught(errors)

    async def _begin(self) -> bytes | None:
        """The directory is empty: nobody is taken for dead before all were able to register."""
        await self.directory.put(_YOUNG, b"1", YOUNG_S)
        await self.directory.swap(_BEGAN, None, secrets.token_bytes(8), BEGAN_S)
        return await self.directory.get(_BEGAN)

    async def is_grown(self) -> bool:
        """Whether every hub that is there has had the time to register.

        Raises:
            Unreachable: the directory cannot be asked.
        """
        if await self.directory.get(_BEGAN) is None:
            await self._begin()
        return await self.directory.get(_YOUNG) is None

    async def _sign_roster(self) -> bool:
        """See who is there, and be on the list; False: somebody else has changed it meanwhile."""
        found = await self.directory.get(_ROSTER)
        runs = _read(found, tuple[str, ...]) or ()
        there = [run for run in runs[:MAX_REPLICAS] if _RUN.fullmatch(run) and run != self.me.run]
        living = [run for run in there if await self.find(run, fresh=True) is not None]
        self._roster = tuple(sorted((*living, self.me.run)))
        self._known = {run: known for run, known in self._known.items() if run in living}
        self._seen = {run: seen for run, seen in self._seen.items() if trio.current_time() < seen[1]}
        return await self.directory.swap(_ROSTER, found, msgspec.json.encode(self._roster), ROSTER_S)

    # --- finding others -----------------------------------------------------------------------------------------------

    async def find(self, run: str, *, fresh: bool = False) -> Peer | None:
        """The hub of this run, if it is there; while the directory cannot be asked, one that was when it last could.

        Raises:
            Unreachable: the directory cannot be asked, and the hub was not there before; or it is to be `fresh`.
        """
        if run == self.me.run or self.was_mine(run) or not _RUN.fullmatch(run):
            return None
        known = self._known.get(run)
        if known is not None and not fresh and trio.current_time() < known[1]:
            return known[0]
        try:
            data = await self.directory.get(f"replica/{run}")
        except Unreachable:
            if known is not None and not fresh:
                return known[0]
            raise
        peer = _read(data, Peer)
        if peer is None or peer.run != run:
            self._known.pop(run, None)
            return None
        self._known[run] = peer, trio.current_time() + KNOWN_S
        self._seen[run] = peer, trio.current_time() + LIVES_S
        return peer

    async def reach(self, run: str) -> Peer | None:
        """As `find`; or the hub whose registration is missing too early: a full store drops what it likes, and whether
        the hub is there shows when it is asked."""
        peer = await self.find(run)
        seen, until = self._seen.get(run, (None, 0.0))
        return seen if peer is None and trio.current_time() < until and not self.was_mine(run) else peer

    def last_known(self, run: str) -> Peer | None:
        """The hub of this run, if it was there when last looked for."""
        known = self._known.get(run)
        return None if known is None else known[0]

    def doubt(self, run: str) -> None:
        """A hub was not where it should be: look for it anew."""
        self._known.pop(run, None)
        self._seen.pop(run, None)


def _read(data: bytes | None, type: type[T]) -> T | None:
    """What another hub wrote; None: nothing, or another version of it did."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
