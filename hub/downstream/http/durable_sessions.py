"""Durable sessions: legacy sessions over HTTP outlive the daemon.

A session id contains the result of the handshake, signed: a hub that does not know an id, since an earlier run made
it, makes the session anew from the id. The id is bound to its principal, host and endpoint. Later facts are rare and go
into a journal; if that cannot be written, only these are lost:

    kept    session -> when it began, its level and subscriptions, its last run, the notifications that its
                       host did not receive in that run, the view that it was shown, and where it worked
    over    session -> when it began; a session that has ended stays ended
    lists   run -> endpoint -> digests of its lists

A session older than `LIFE_S` is not revived, so each entry of the journal is forgotten once hubs have run for that long
since it was written (`hub.downstream.http.age_in_running_time`).
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field, structs

from cache.shared_store import MAX_FACT_BYTES
from config.remembered_facts import Memory
from hub.catalog.endpoint_views import View
from hub.downstream.http.age_in_running_time import JournalClock
from hub.link.autosave import SaveBarrier, autosave
from hub.link.call_interface import Identity
from hub.link.sealing import InvalidSeal, Signer
from hub.wire.jsonrpc import peek_object, peek_str
from hub.wire.mcp import LEGACY_VERSIONS

log = logging.getLogger("hubd")

LIFE_S: Final = 24 * 3600.0
"""Time after its handshake in which a session can be revived."""
MAX_ID: Final = 1_024
"""Characters. A host with so many capabilities that its id were longer gets one that says nothing, and is not revived:
it repeats its id with every request, and large heads cost too much (`hub.wire.http.request_parser.HeadParser`)."""
MAX_SHOWN: Final = 100
"""Characters of a host's name that are kept."""
FORGET_S: Final = LIFE_S + 900.0
"""Running time of hubs after which entries are forgotten; more than upkeep (`IDLE_UPKEEP_S` of sessions) adds."""
MAX_OVER: Final = 4_096
MAX_KEPT: Final = 4_096
"""Sessions of which something is kept; the oldest make room."""
MAX_URIS: Final = 256
"""Subscriptions of one session that are kept."""
MAX_KEPT_CHARS: Final = 1 << 20
"""Characters kept of the URIs of all sessions."""
MAX_RUNS: Final = 8

_PURPOSE: Final = "session"


class Handshake(Struct, array_like=True, frozen=True):
    """The signed content of a session id."""

    run: str = ""
    """The run of the hub that made the id."""
    name: str = ""
    """Short name for the id; "": the session cannot be revived."""
    minted: int = 0
    """The time of day at which the session began, in seconds."""
    version: str = ""
    capabilities: dict[str, Raw] = {}
    info: dict[str, str] = {}


class KeptFacts(Struct, array_like=True, frozen=True):
    """The settings of a session beyond its handshake, and what its host was shown last."""

    minted: int
    run: str
    """The run of the hub that showed it."""
    level: str | None = None
    uris: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Methods of list-changed notifications that the host has not received."""
    view: str | None = None
    """The key of its view; None: that of the endpoint."""
    workplace: str = ""
    """The directory that it worked in, if that is in a project; "": none."""

    @property
    def chars(self) -> int:
        """Characters of what its host has named."""
        return sum(map(len, self.uris)) + len(self.workplace)


class Past(Struct, frozen=True):
    """A session that a later run may know by its id."""

    id: str
    handshake: Handshake = Handshake()
    kept: KeptFacts = KeptFacts(0, "")
    lists: dict[str, str] = {}
    """Digests of the lists that the host may have seen; empty: unknown."""


@dataclass(eq=False, repr=False)
class DurableSessions:
    """Makes session ids, and reads those of earlier runs.

    `wall` is the time of day in seconds. Of hubs behind one balancer, `replica` is the name that ids begin with,
    another for each hub, and `publish` tells the others a fact of the journal by its name. `run` must be running;
    `save` is for the end."""

    _signer: Signer
    _journal: Memory
    _wall: Callable[[], float]
    _replica: str = ""
    _publish: Callable[[str, bytes], None] = lambda name, fact: None

    def __post_init__(self) -> None:
        self.run_id = secrets.token_hex(4)
        self._clock = JournalClock(self._journal)
        self.kept_chars = 0
        """Characters of all URIs and workplaces in the journal."""
        for name in self._journal.keys("kept"):
            self.kept_chars += kept.chars if (kept := self._find(name)) else 0
        self._save_barrier = SaveBarrier()

    # --- ids

    def mint(
        self, identity: Identity, view: View, version: str, capabilities: dict[str, Raw], client_info: Raw
    ) -> Past:
        """Make the id of a new session, after its handshake."""
        shown = peek_object(client_info)
        names = {key: (peek_str(shown.get(key)) or "")[:MAX_SHOWN] for key in ("name", "title", "version")}
        info = {key: text for key, text in names.items() if text}
        name = secrets.token_urlsafe(16)
        minted = max(int(self._wall()), self._floor() + 1)  # sooner, and it could not be revived
        handshake = Handshake(self.run_id, name, minted, version, capabilities, info)
        front = self._replica and f"{self._replica}~"
        id = front + self._signer.sign(_PURPOSE, msgspec.json.encode(handshake), _bind(identity, view, self._replica))
        if len(id) > MAX_ID:
            return Past(front + secrets.token_urlsafe(32))
        return Past(id, handshake)

    def read_id(self, id: str, identity: Identity, view: View) -> Handshake | None:
        """Read an id that a hub of this key made for `identity`; None: it is no such id, or its session is over."""
        if len(id) > MAX_ID:
            return None
        replica, _, signed = id.rpartition("~")
        try:
            opened = self._signer.open(_PURPOSE, signed, _bind(identity, view, replica))
            found = msgspec.json.decode(opened, type=Handshake)
        except (InvalidSeal, msgspec.DecodeError):
            return None
        if found.version not in LEGACY_VERSIONS or self._journal.get("over", found.name) is not None:
            return None
        return found

    def is_youthful(self, found: Handshake) -> bool:
        """True if the session may be revived."""
        return abs(self._wall() - found.minted) < LIFE_S and found.minted > self._floor()

    def find(
        self, id: str, identity: Identity, view: View, shown: View, *, claimed: bool = False, kept: bytes | None = None
    ) -> Past | None:
        """Find a session of another run that can be revived; None: there is none. `shown`: what its host is shown at
        the endpoint of `view`.

        `claimed`: this hub has taken the session over, wherever it began; `kept` is what its last hub published of it.
        """
        found = self.read_id(id, identity, view)
        if found is None or not self.is_youthful(found) or (found.run == self.run_id and not claimed):
            return None
        known = _decode(kept) or self._find(found.name) or KeptFacts(found.minted, found.run)
        key = shown.key if known.view is None else known.view
        return Past(id, found, known, self._lists(known.run).get(key, {}))

    def _floor(self) -> int:
        """Time before which sessions are not revived, since the journal has forgotten which of them are over."""
        return _read(self._journal.get("floor", "minted"), int) or 0

    # --- the journal

    def keep(self, past: Past, kept: KeptFacts) -> None:
        """Keep the settings of a session beyond its handshake, the notifications that its host has not received, and
        what it is shown."""
        if name := past.handshake.name:
            self._drop(name)
            kept = structs.replace(kept, uris=kept.uris[:MAX_URIS])
            if self.kept_chars + kept.chars > MAX_KEPT_CHARS:
                kept = structs.replace(kept, uris=[], workplace="")
            self._clock.put("kept", name, msgspec.to_builtins(kept))
            self.kept_chars += kept.chars
            self._publish_kept(name, kept)
            for oldest in self._journal.keys("kept")[:-MAX_KEPT]:
                self._drop(oldest)

    def _publish_kept(self, name: str, kept: KeptFacts) -> None:
        kept = structs.replace(kept, workplace="")  # which is of this machine
        told = msgspec.json.encode(kept)
        if len(told) > MAX_FACT_BYTES:
            told = msgspec.json.encode(structs.replace(kept, uris=[]))
        self._publish(f"kept/{name}", told)

    def _drop(self, name: str) -> None:
        kept = self._find(name)
        self.kept_chars -= kept.chars if kept else 0
        self._clock.put("kept", name, None)

    def end(self, past: Past) -> None:
        """Note that a session is over for good."""
        if name := past.handshake.name:
            self.end_elsewhere(name, past.handshake.minted)
            self._publish(f"over/{name}", b"1")

    def end_elsewhere(self, name: str, minted: int) -> None:
        """Remember that another hub has ended a session, in case all who know it are gone one day."""
        self._drop(name)
        over = {name: _read(self._journal.get("over", name), int) or 0 for name in self._journal.keys("over")}
        if len(over) >= MAX_OVER:
            self._forget_end(min(over, key=over.__getitem__))
        self._clock.put("over", name, minted)

    def publish_again(self) -> None:
        """Publish all of the journal that other hubs need: they have lost it. Not what sessions of earlier runs
        had set: they may go on elsewhere, where more is known of them."""
        for name in self._journal.keys("kept"):
            if (kept := self._find(name)) is not None and kept.run == self.run_id:
                self._publish_kept(name, kept)
        for name in self._journal.keys("over"):  # last: if there are too many notes, the first ones are dropped
            self._publish(f"over/{name}", b"1")

    def _forget_end(self, name: str) -> None:
        """Forget that a session is over; none that began before it is revived from now on, whatever the clock says."""
        minted = _read(self._journal.get("over", name), int) or 0
        self._journal.put("floor", "minted", max(self._floor(), minted))
        self._clock.put("over", name, None)

    def give_up(self, past: Past) -> None:
        """Forget a session that goes on at another hub."""
        if past.handshake.name:
            self._drop(past.handshake.name)

    def note_lists(self, view: View, digests: dict[str, str]) -> None:
        """Keep digests of the lists of a view."""
        mine = self._lists(self.run_id)
        if mine.get(view.key) != digests:
            self._journal.put("lists", self.run_id, {**mine, view.key: digests})

    def _lists(self, run: str) -> dict[str, dict[str, str]]:
        return _read(self._journal.get("lists", run), dict[str, dict[str, str]]) or {}

    def _find(self, name: str) -> KeptFacts | None:
        kept: KeptFacts | None = _read(self._journal.get("kept", name), KeptFacts)
        return kept

    def record_run(self) -> None:
        """Let later runs of this hub know that this run was before them (`was_mine`)."""
        self._clock.put("runs", self.run_id, int(self._wall()))

    def was_mine(self, run: str) -> bool:
        """True if `run` was an earlier run of this hub, by `record_run`."""
        return run != self.run_id and self._journal.get("runs", run) is not None

    def forget(self, now: float) -> None:
        """Drop what is too old to matter, and the lists of runs long ago. `now` is the loop's time, in seconds."""
        self._clock.run_on(now)
        for name in self._journal.keys("runs"):
            if name != self.run_id and self._clock.is_older("runs", name, FORGET_S):
                self._clock.put("runs", name, None)
        for name in self._journal.keys("kept"):
            if self._find(name) is None or self._clock.is_older("kept", name, FORGET_S):
                self._drop(name)
        for name in self._journal.keys("over"):
            minted = _read(self._journal.get("over", name), int)
            if self._clock.is_older("over", name, FORGET_S) and (minted or 0) <= self._wall():
                self._forget_end(name)
        runs = [run for run in self._journal.keys("lists") if run != self.run_id]
        for run in runs[: max(0, len(runs) - MAX_RUNS)]:
            self._journal.put("lists", run, None)

    async def run(self) -> None:
        """Save changes until cancelled."""
        await autosave(self._journal, barrier=self._save_barrier)

    async def saved(self) -> None:
        """Wait until all changes so far are on disk, or cannot be written."""
        await self._save_barrier.saved(self._journal)

    def save(self) -> None:
        """Save all changes now. Blocks; never raises."""
        self._clock.note()
        self._journal.save()


def _bind(identity: Identity, view: View, replica: str = "") -> bytes:
    """The binding of an id: principal, host, view, and the name at its front, so that a session has only one id."""
    profile = (f"~{identity.profile}",) if identity.profile else ()
    more = (*profile, replica) if replica else profile
    return msgspec.json.encode((identity.principal, identity.host, view.name or None, *more))


def _decode(kept: bytes | None) -> KeptFacts | None:
    try:
        return None if kept is None else msgspec.json.decode(kept, type=KeptFacts)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read(value: object, type: Any) -> Any:
    """Decode a value of the journal; None: there is none, or not one that this version writes."""
    try:
        return None if value is None else msgspec.convert(value, type)
    except msgspec.ValidationError:
        return None
