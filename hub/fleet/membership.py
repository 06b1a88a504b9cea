"""Membership of the fleet: which hubs of one configuration and one sealing key are running.

Each hub registers in a directory that the hubs share, a small fact per name (`cache.shared_store.Directory`):

    replica/RUN       the address of that run of a hub; gone within `LIVES_S` after the hub
    replicas          the runs that may exist: a directory cannot be listed
    began             a random value, written by the hub that found the directory empty
    young             present until every running hub has had time to register again (`YOUNG_S`)

A directory that lost its facts must not make a running hub seem dead: `is_settled` says whether it can be believed.
"""

import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import trio
from msgspec import Struct, structs

from cache.shared_store import Directory, StoreUnreachable
from hub.control.answers import PeerRow, ReplicaStatus
from hub.link.fault_isolation import FaultLog
from upstreams.transports.connect_to_url import parse_url

log = logging.getLogger("hubd.replicas")

LIVES_S: Final = 15.0
"""Time for which a silent hub counts as running."""
RENEW_S: Final = 5.0
RETRY_S: Final = 0.5
"""Seconds between attempts to register while that fails."""
START_S: Final = 3.0
"""Time after its start that a hub waits for the directory, if a request depends on it."""
ROUNDS: Final = 2
"""Registration rounds before the list of members counts as complete: hubs may start simultaneously."""
YOUNG_S: Final = 8.0
TEND_S: Final = 60.0
"""Seconds between renewals of other facts: a full store may drop them."""
ROSTER_S: Final = 24 * 3600.0
BEGAN_S: Final = 7 * 24 * 3600.0
"""As long as the longest fact lives (`hub.fleet.session_ownership.CLAIM_S`)."""
KNOWN_S: Final = 1.0
"""Time for which a found hub is not looked for again."""
TRIES: Final = 4
MAX_REPLICAS: Final = 256
_ROSTER: Final = "replicas"
_BEGAN: Final = "began"
_YOUNG: Final = "young"
_RUN: Final = re.compile(r"[0-9a-f]{8,32}")

T = TypeVar("T")


Tend = Callable[[bool, bool], Awaitable[None]]
"""Renews other facts of a hub in the directory. Two flags: its registration had lapsed; the directory was emptied."""


class Registration(Struct, frozen=True):
    """The registration of one hub."""

    run: str
    name: str
    url: str
    """Base URL of the hub's own HTTP listener; "": other hubs cannot reach it."""


class Membership:
    """Registration of this hub, `me`, and lookup of others. `run` must be running for other hubs to find it.

    `was_mine` tells whether this hub succeeds an earlier run: such a run has ended, whatever the directory says."""

    def __init__(
        self, me: Registration, directory: Directory, was_mine: Callable[[str], bool] = lambda run: False
    ) -> None:
        self.me = me
        self.was_mine = was_mine
        self.directory = directory
        self._known: dict[str, tuple[Registration, float]] = {}
        """Hubs found at the last look, and until when that counts."""
        self._seen: dict[str, tuple[Registration, float]] = {}
        """Hubs once found registered, and until when they are asked though their registration is missing."""
        self._roster: tuple[str, ...] = ()
        self._until = 0.0
        """Until when this hub is registered."""
        self._began: bytes | None = None
        self._tend_at = 0.0
        self._ready = trio.Event()
        self._wait_until: float | None = None
        self._leaving = False
        self._reached = False
        self._faults = FaultLog(log, "being registered where other hubs look")
        self._rounds = 0
        """Registration rounds completed, up to `ROUNDS`."""

    def status(self) -> ReplicaStatus:
        """For `hubd status`."""
        peers = [self._known[run][0] for run in self._roster if run != self.me.run and run in self._known]
        return ReplicaStatus(
            name=self.me.name,
            run=self.me.run,
            url=self.me.url,
            registered=self._reached and not self._leaving,
            peers=tuple(PeerRow(name=peer.name, run=peer.run, url=peer.url) for peer in peers),
            looking=self._rounds < ROUNDS,
        )

    def change_url(self, url: str) -> None:
        """Register under another address at the next renewal."""
        self.me = structs.replace(self.me, url=url)

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and port by which other hubs reach this one; None: they cannot."""
        if not self.me.url:
            return None
        url = parse_url(self.me.url)
        return url.host, url.port

    def is_elsewhere(self, run: str) -> bool:
        """True if `run` is another hub that was running a moment ago, so that its sessions are not lost."""
        return run != self.me.run and run in self._known and not self.was_mine(run)

    # --- registration -------------------------------------------------------------------------------------------------

    async def run(
        self, tend: Tend | None = None, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Stay registered until cancelled. Started after the first attempt to register. `tend` is called after each
        lapse or loss, and every `TEND_S`; after StoreUnreachable it is called again soon."""
        await self.renew(tend)
        task_status.started()
        while True:
            await trio.sleep(RENEW_S if self._reached else RETRY_S)
            await self.renew(tend)

    async def ready(self) -> None:
        """Wait until the directory was reached once, at most `START_S` after the first call."""
        if not self._ready.is_set():
            if self._wait_until is None:
                self._wait_until = trio.current_time() + START_S
            with trio.move_on_at(self._wait_until):
                await self._ready.wait()

    async def deregister(self) -> None:
        """Deregister. Raises StoreUnreachable: the registration expires by itself, later."""
        self._leaving = True
        await self.directory.delete(f"replica/{self.me.run}")

    async def renew(self, tend: Tend | None = None) -> None:
        """Renew the registration, and look up the others, now. Raises nothing: `status` tells whether it succeeded."""
        if self._leaving:
            return
        now = trio.current_time()
        lapsed = now >= self._until
        try:
            await self.directory.put(f"replica/{self.me.run}", msgspec.json.encode(self.me), LIVES_S)
            if self._leaving:  # meanwhile
                await self.directory.delete(f"replica/{self.me.run}")
            began = await self.directory.get(_BEGAN) or await self._mark_young()
            for _ in range(TRIES):
                if await self._sign_roster():
                    break
            self._reached = True
            self._rounds = min(self._rounds + 1, ROUNDS)
            self._ready.set()
            emptied = began != self._began
            if lapsed or emptied or now >= self._tend_at:
                if tend is not None:
                    await tend(lapsed, emptied)
                self._began, self._tend_at = began, now + TEND_S
            self._until = now + LIVES_S
        except* StoreUnreachable:
            self._reached = False
        except* Exception as errors:  # noqa: BLE001  # a fault is logged, and the work goes on
            self._reached = False
            self._faults.log_once(errors)

    async def _mark_young(self) -> bytes | None:
        """Mark an empty directory as young: no hub counts as dead before all were able to register."""
        await self.directory.put(_YOUNG, b"1", YOUNG_S)
        await self.directory.swap(_BEGAN, None, secrets.token_bytes(8), BEGAN_S)
        return await self.directory.get(_BEGAN)

    async def is_settled(self) -> bool:
        """True if every running hub had time to register. Raises StoreUnreachable: the directory cannot be asked."""
        if await self.directory.get(_BEGAN) is None:
            await self._mark_young()
        return await self.directory.get(_YOUNG) is None

    async def _sign_roster(self) -> bool:
        """Read the roster and put this hub on it; False: another hub has changed the roster meanwhile."""
        found = await self.directory.get(_ROSTER)
        runs = _read(found, tuple[str, ...]) or ()
        there = [run for run in runs[:MAX_REPLICAS] if _RUN.fullmatch(run) and run != self.me.run]
        living = [run for run in there if await self.find(run, fresh=True) is not None]
        self._roster = tuple(sorted((*living, self.me.run)))
        self._known = {run: known for run, known in self._known.items() if run in living}
        self._seen = {run: seen for run, seen in self._seen.items() if trio.current_time() < seen[1]}
        return await self.directory.swap(_ROSTER, found, msgspec.json.encode(self._roster), ROSTER_S)

    # --- finding others -----------------------------------------------------------------------------------------------

    async def find(self, run: str, *, fresh: bool = False) -> Registration | None:
        """The hub of this run, if registered; while the directory cannot be asked, the hub found last. Raises
        StoreUnreachable: the directory cannot be asked, and the hub was not known or must be looked up `fresh`."""
        if run == self.me.run or self.was_mine(run) or not _RUN.fullmatch(run):
            return None
        known = self._known.get(run)
        if known is not None and not fresh and trio.current_time() < known[1]:
            return known[0]
        try:
            data = await self.directory.get(f"replica/{run}")
        except StoreUnreachable:
            if known is not None and not fresh:
                return known[0]
            raise
        peer = _read(data, Registration)
        if peer is None or peer.run != run:
            self._known.pop(run, None)
            return None
        self._known[run] = peer, trio.current_time() + KNOWN_S
        self._seen[run] = peer, trio.current_time() + LIVES_S
        return peer

    async def reach(self, run: str) -> Registration | None:
        """Find a hub, also one whose registration vanished too early: a full store drops any fact, and asking the hub
        shows whether it runs."""
        peer = await self.find(run)
        seen, until = self._seen.get(run, (None, 0.0))
        return seen if peer is None and trio.current_time() < until and not self.was_mine(run) else peer

    def last_known(self, run: str) -> Registration | None:
        """The hub of this run, if the last look found it."""
        known = self._known.get(run)
        return None if known is None else known[0]

    def forget(self, run: str) -> None:
        """Forget where a hub was, so that it is looked up anew."""
        self._known.pop(run, None)
        self._seen.pop(run, None)


def _read(data: bytes | None, type: type[T]) -> T | None:
    """Decode a fact; None: no fact, or one of another version of hubd."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
