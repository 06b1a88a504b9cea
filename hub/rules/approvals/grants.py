"""Grants: what a person has agreed to for longer than one call, in memory or in `grants.json`.

A grant ends with any change of what it is for: another definition, program or address, or what the rules say that ask.
It never beats a deny, since it is only looked up where a rule asks. A file that cannot be read grants nothing, and is
left alone. One that cannot be written, and holds a grant that has ended, is removed, which needs no room: the others
count until the hub ends then, unless there is room before. Several hubs of one user share the file: each writes what it
has changed into what it finds, and looks whether another has written before it goes by a lasting grant.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import trio
from msgspec import structs

from config.atomic_writes import remove_private, replace_private
from config.private_directories import make_dirs
from config.secrets.private_state_files import StateFile, StateUnreadable
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Tenant
from hub.linux.file_locks import hold_lock
from hub.rules.approvals.requests import Subject, Wish

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
MAX_GRANTS: Final = 1000
"""Of each kind; the oldest are forgotten."""
RETRY_S: Final = 5.0
"""Seconds between two tries to save."""
_PLACE: Final = re.compile(r".*?:\d+ +")
"""The file and line of a rule."""


class LastingApproval(Subject, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A yes for all calls of one thing by one program."""

    runs: str
    """Digest of the program or address behind the upstream."""
    rule: str
    """The rule that asked, without its place, for people."""
    exposed: str
    """The name or URI under which the host knew it."""
    expires: float | None = None
    """By the time of day; None: with the conversation."""
    says: tuple[str, ...] = ()
    """Digests of what the rules said that asked, as in `Wish`. A rule that has only moved is the same."""

    def lasts_beyond(self, now: float) -> bool:
        """True if it has not expired by then."""
        return self.expires is None or self.expires > now

    def fits(self, wish: Wish) -> bool:
        """True if nothing has changed since."""
        is_same = (self.definition, self.runs) == (wish.subject.definition, wish.runs)
        return is_same and set(wish.says) <= set(self.says)


Changes = dict[str, LastingApproval | None]
"""Lasting grants by their ids; None: it has ended."""
Mark = tuple[int, int, int] | None
"""What tells one state of the file from another; None: there is none."""
GRANTS: Final = StateFile("grants", LastingApproval, if_damaged="approve again what is needed")


def rule_of(rule: str) -> str:
    """A rule without the place where it stands."""
    return _PLACE.sub("", rule, count=1)


class Grants:
    """All grants of a hub. `path`: the file of those that last; None: none does. `wall`: the time of day."""

    def __init__(self, path: Path | None, wall: Callable[[], float]) -> None:
        self.lasts = path is not None
        """True if a grant can outlive the hub."""
        self.problem = ""
        """The reason why lasting grants are not read or saved; ""."""
        self._path = path
        self.wall = wall
        self._always: BoundedDict[str, LastingApproval] = BoundedDict(MAX_GRANTS)
        """By the id of the request in which they were given."""
        self._sessions: BoundedDict[str, tuple[Tenant, LastingApproval]] = BoundedDict(MAX_GRANTS)
        self._found: dict[Subject, str] = {}
        """The ids of lasting grants by what they are for."""
        self._unsaved: Changes = {}
        self._seen: Mark = None
        self._saving = trio.Lock()
        self._failed = trio.Event()
        """Set when something could not be saved; made anew for each further try."""
        if path is not None:
            self._seen = _mark_of(path)
            try:
                self._adopt(GRANTS.read(path))
            except StateUnreadable as error:
                self.problem = f"lasting approvals do not count: {error}"
                self._path = None

    def __contains__(self, id: str) -> bool:
        return id in self._always or id in self._sessions

    def __iter__(self) -> Iterator[tuple[str, LastingApproval, Tenant | None]]:
        """Ids and grants, those of conversations with whose they are; none that has expired."""
        self._look()
        now = self.wall()
        always = ((id, grant, None) for id, grant in self._always.items())
        sessions = ((id, grant, tenant) for id, (tenant, grant) in self._sessions.items())
        return iter([each for each in (*always, *sessions) if each[1].lasts_beyond(now)])

    def knows(self, thing: Subject) -> bool:
        """True if there may be a grant for it: a cheap look."""
        return thing in self._found or any(grant.thing == thing for _, grant in self._sessions.values())

    def covers(self, wish: Wish) -> bool:
        """True if a person has agreed to it. A grant for what has changed since ends."""
        self._look()
        now, thing, tenant = self.wall(), wish.subject.thing, wish.caller.tenant
        known = [] if (id := self._found.get(thing)) is None else [(id, self._always[id])]
        known += [(id, each) for id, (whose, each) in self._sessions.items() if whose == tenant and each.thing == thing]
        for id, grant in known:
            if grant.fits(wish) and grant.lasts_beyond(now):
                return True
            if wish.subject.definition or not grant.definition:  # else it is not listed at the moment
                self.revoke(id)
        return False

    def give_session(self, id: str, wish: Wish) -> None:
        """Agree to all calls of this thing in the conversation of `wish`; of a host that begins each request anew, for
        an hour."""
        expires = None if wish.caller.lasting else self.wall() + HOUR_S
        self._sessions.put(id, (wish.caller.tenant, _grant(wish, expires)))

    def give_always(self, id: str, wish: Wish, days: float) -> None:
        """Agree to all calls of this thing by its program for so many days."""
        grant = _grant(wish, self.wall() + days * DAY_S)
        if (before := self._found.get(grant.thing)) is not None:
            self._unsaved[before] = None
        self._unsaved[id] = grant
        self._adopt(self._always)

    def revoke(self, id: str) -> LastingApproval | None:
        """End a grant; None: there is none of this id."""
        if (found := self._sessions.pop(id, None)) is not None:
            return found[1]
        if (grant := self._always.get(id)) is not None:
            self._unsaved[id] = None
            self._adopt(self._always)
        return grant

    def conversation_over(self, tenant: Tenant) -> None:
        """Forget what was agreed to for a conversation."""
        if tenant.conversation:
            for id in [id for id, (whose, _) in self._sessions.items() if whose == tenant]:
                del self._sessions[id]

    def _adopt(self, entries: Mapping[str, LastingApproval]) -> None:
        """Take these lasting grants and no others, but for what is not saved yet."""
        self._always = BoundedDict(MAX_GRANTS)
        for id, grant in _change(entries, self._unsaved).items():
            self._always.put(id, grant)
        self._found = {grant.thing: id for id, grant in self._always.items()}

    def _look(self) -> None:
        """Take over what another hub has written. What cannot be read counts as it was known."""
        if self._path is not None and (mark := _mark_of(self._path)) != self._seen:
            self._seen = mark
            with suppress(StateUnreadable):
                self._adopt(GRANTS.read(self._path))

    @property
    def may_return(self) -> bool:
        """True if the file has a grant that has ended: it would count again after the next start."""
        return self._path is not None and None in self._unsaved.values()

    async def save(self) -> None:
        """Write what has changed. What cannot be written counts until the hub ends, or `run` has written it; `problem`
        says so."""
        async with self._saving:
            if (write := self._draft()) is not None:
                self._note_saved(await trio.to_thread.run_sync(write))

    def save_now(self) -> None:
        """As `save`. Blocks."""
        if (write := self._draft()) is not None:
            self._note_saved(write())

    async def run(self) -> NoReturn:
        """Try again, for ever, what could not be saved."""
        while True:
            await self._failed.wait()
            self._failed = trio.Event()
            await trio.sleep(RETRY_S)
            await self.save()

    def _draft(self) -> Callable[[], "Saved"] | None:
        """The write of what has changed; None: nothing has."""
        if not self._unsaved or self._path is None:
            return None
        return partial(_write, self._path, dict(self._unsaved), dict(self._always.items()), self.wall())

    def _note_saved(self, saved: "Saved") -> None:
        self.problem = saved.problem
        if saved.problem:
            self._failed.set()
        if saved.changes is None:
            return
        new = {id: it for id, it in self._unsaved.items() if id not in saved.changes or saved.changes[id] is not it}
        self._unsaved, self._seen = new, saved.mark
        if saved.problem:  # the file is gone: all are to be written
            self._unsaved = {**self._always, **new}
        else:
            self._adopt(saved.entries)


class Saved(NamedTuple):
    """The outcome of a write."""

    problem: str
    """The reason why the file was not replaced; ""."""
    changes: Changes | None = None
    """What it has now; None: it was neither replaced nor removed."""
    entries: Mapping[str, LastingApproval] = {}
    mark: Mark = None


def _write(path: Path, changes: Changes, known: Mapping[str, LastingApproval], now: float) -> Saved:
    """Change the file, or remove it if that fails and it has a grant that has ended. One that cannot be read is
    replaced by what is known."""
    has_ended = None in changes.values()
    try:
        make_dirs(str(path.parent))
        with hold_lock(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)):
            with suppress(StateUnreadable):
                known = GRANTS.read(path)
            entries = [each for each in _change(known, changes).items() if each[1].lasts_beyond(now)]
            entries = entries[-MAX_GRANTS:]
            replace_private(path, GRANTS.encode(dict(entries)), sync_name=has_ended)
            return Saved("", changes, dict(entries), _mark_of(path))
    except OSError as error:
        problem = f"approvals are not saved: {error}"
        if not has_ended:
            return Saved(problem)
        try:
            remove_private(path)
        except OSError:
            return Saved(f"{problem}; after the next start those count again that were taken back")
        return Saved(f"{problem}; all of them end with the hub", changes)


def _change(entries: Mapping[str, LastingApproval], changes: Changes) -> dict[str, LastingApproval]:
    return {id: grant for id, grant in {**entries, **changes}.items() if grant is not None}


def _mark_of(path: Path) -> Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _grant(wish: Wish, expires: float | None) -> LastingApproval:
    its = {"runs": wish.runs, "rule": rule_of(wish.rule), "exposed": wish.exposed}
    return LastingApproval(**structs.asdict(wish.subject), **its, expires=expires, says=wish.says)
