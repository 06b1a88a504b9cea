"""Pins: what hosts are shown of each server that runs, and what is held back, by what was approved and by hidden text.

A review is made when the lists of a server were read, before a catalogue is made of them, and again when settings or
approvals change. One that was replaced is reviewed as any other, but changes no record.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

import trio
from msgspec import structs

from config.diff import what_runs
from config.security_settings import HiddenText, Pinning, PolicyConfig
from config.settings import HubConfig, UpstreamConfig
from hub.catalog.time_slices import STEP, Steps, finish
from hub.control.pin_messages import PinnedServer
from hub.link.fault_isolation import keep_going
from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.sync_primitives import DirtyFlag
from hub.rules import fingerprints
from hub.rules.fingerprints import INSTRUCTIONS, KINDS, Definition, Fingerprint
from hub.rules.pins.judge import HOLDING, Changes, apply, compare, judge
from hub.rules.pins.reviews import LISTS, PinTerms, Review, clean
from hub.rules.pins.store import (
    ELSEWHERE,
    CannotReadPins,
    Opened,
    PinFolder,
    TeamPins,
    encode_team_pins,
    read_team_pins,
)
from hub.rules.policy.judge import Note, note_nothing
from upstreams.upstream import ManagedUpstream

log = logging.getLogger("hubd.pins")

SAVE_AFTER_S: Final = 1.0
"""Time that changes are gathered before they are written."""
RETRY_S: Final = 30.0
LOOK_EVERY_S: Final = 5.0
"""Interval for looking whether the file of a team's pins has changed."""


class Pins:
    """The reviews of the servers that run, `upstreams`. `changed` is called with the name of a server that hosts are
    shown otherwise; `wall` is the time of day in seconds. `run` must be running; `save` is for the end."""

    def __init__(
        self,
        folder: PinFolder,
        policy: PolicyConfig,
        upstreams: Mapping[str, ManagedUpstream],
        changed: Callable[[str], None],
        wall: Callable[[], float],
        note: Note = note_nothing,
    ) -> None:
        self._folder = folder
        self._policy = policy
        self._upstreams = upstreams
        self._changed = changed
        self._wall = wall
        self.note = note
        self._opened: dict[str, Opened] = {}
        self._reviews: dict[str, Review] = {}
        self._unsaved: set[str] = set()
        self._dirty = trio.Event()
        self._saving = trio.Lock()
        self._adjusted = DirtyFlag()
        self._team = TeamPins()
        self.problem = ""
        """The reason why something is not saved; "": everything is, or soon will be."""
        self.team_problem = ""
        """The reason why the file of a team's pins cannot be used."""

    # --- settings

    @property
    def _lost_team(self) -> str:
        """The reason why nobody knows what the team has approved; "": that is not so."""
        is_lost = self._policy.pins_file is not None and not self._team.hubd_pins
        return self.team_problem or "pins_file was not read yet" if is_lost else ""

    def terms_of(self, upstream: ManagedUpstream) -> PinTerms:
        """The terms of a review of a server now."""
        read = {kind.value for kind in KINDS if upstream.offered.begun_at[kind] > -inf}
        config = upstream.config
        return PinTerms(
            *self._settings_of(config), config.pin_ignore, frozenset(read | {INSTRUCTIONS} if read else read)
        )

    def may_hold(self, config: UpstreamConfig) -> bool:
        """True if something of a server with this configuration may be held back."""
        pinning, hidden = self._settings_of(config)
        return pinning in HOLDING or hidden == "quarantine"

    def _settings_of(self, config: UpstreamConfig) -> tuple[Pinning, HiddenText]:
        return config.pinning or self._policy.pinning, config.hidden_text or self._policy.hidden_text

    def adjust(self, config: HubConfig) -> None:
        """Go by other settings from now on; those of servers count once these have them."""
        policy, is_other = config.policy, config.policy != self._policy
        self._policy = policy
        self._adjusted.set()
        if policy.pins_file is None:
            self._team, self.team_problem = TeamPins(), ""
        if is_other:
            self._reviews.clear()
        for name in self._reviews.keys() - self._upstreams.keys() - self._unsaved:  # these are gone
            del self._reviews[name]
            self._opened.pop(name, None)
        for name, upstream in self._upstreams.items():
            new = config.upstreams.get(name)
            if is_other or (new is not None and _pins_of(new) != _pins_of(upstream.config)):
                self._changed(name)

    async def prepare(self, policy: PolicyConfig) -> None:
        """Read what `adjust` needs to know: the file of a team's pins. What it said before stays where it cannot be
        read."""
        if policy.pins_file is None:
            return
        try:
            found, problem = await trio.to_thread.run_sync(read_team_pins, Path(policy.pins_file)), ""
        except CannotReadPins as error:
            found, problem = self._team, str(error)
            if problem != self.team_problem:
                log.warning("pins_file: %s; what it said before still holds", problem)
        self.team_problem = problem
        if found != self._team:
            self._team = found
            self._forget(*self._upstreams)

    def _forget(self, *names: str) -> None:
        """Have these servers reviewed anew."""
        for name in names:
            self._reviews.pop(name, None)
            self._changed(name)

    # --- reviews

    def review(self, upstream: ManagedUpstream) -> Steps[Review]:
        """Review what hosts are shown of a server, in steps; the same review, as long as nothing has changed."""
        received, terms = upstream.snapshot, self.terms_of(upstream)
        known = self._reviews.get(upstream.name)
        if known is not None and known.received is received and known.terms == terms:
            return known
        listed, hashes = fingerprints.definitions_of(received), dict[str, str]()
        if not received.instructions and fingerprints.INSTRUCTIONS not in terms.read:
            del listed[fingerprints.INSTRUCTIONS]  # it was not connected, so nobody knows what it would say
        if terms.pinning != "off":
            for at, (key, definition) in enumerate(listed.items(), 1):
                hashes[key] = fingerprints.hash_of(key, definition, terms.ignore)
                if not at % STEP:
                    yield STEP
        review = Review(received, terms, received, hashes=hashes)
        serves = self._upstreams.get(upstream.name) is upstream
        if serves and terms.pinning != "off":
            opened = self._open(upstream.name, upstream.config)
            problem = self._lost_team or ("" if upstream.name in self._team.servers else opened.problem)
            if not problem:
                self._accept(opened, terms, listed)
            changes = self._compare(opened, terms, hashes, problem)
            keys, instead = judge(terms.pinning, changes, listed, partial(self.find_approved, upstream.name))
            shown, held = apply(instead, received), frozenset(map(fingerprints.split_key, keys))
            review = structs.replace(review, snapshot=shown, held=held, changes=changes, problem=problem)
        review = yield from clean(review)
        if self._upstreams.get(upstream.name) is upstream and upstream.snapshot is received:  # as before that pause
            self._conclude(review, listed)
        return review

    def of(self, name: str) -> Review | None:
        """The review of what a server lists now; None: there is no such server."""
        if (upstream := self._upstreams.get(name)) is None:
            return None
        known = self._reviews.get(name)
        return known if known is not None and known.received is upstream.snapshot else finish(self.review(upstream))

    def _open(self, name: str, config: UpstreamConfig) -> Opened:
        """The record of a server, which is read where nobody has; one of another command begins anew."""
        opened = self._opened.get(name)
        if opened is None or opened.record.runs != what_runs(config):
            was_other = opened is not None
            opened = self._opened[name] = self._folder.open(name, config)
            if opened.was_other or was_other:
                log.info("%s is pinned anew: its command, arguments or URL have changed", name)
                self.note("pin", up=name, what="anew")
            if opened.problem:
                log.warning("pins of %s: %s; nothing of it counts as approved", name, opened.problem)
                self.note("pin", up=name, what="unreadable")
        opened.record.ignore(config.pin_ignore)
        return opened

    def _accept(self, opened: Opened, terms: PinTerms, listed: Mapping[str, Definition]) -> None:
        """Accept what is seen for the first time, if the settings and the record allow that."""
        record = opened.record
        first = terms.read.difference(record.seen)
        if not first or record.upstream in self._team.servers:
            return
        if terms.pinning != "required":
            found = {key: each for key, each in listed.items() if _list_of(key) in first}
            record.accept(found, self._wall())
            self.note("pin", up=record.upstream, what="first sight", items=len(found))
        record.seen += sorted(first)
        self._save_soon(record.upstream)

    def _compare(self, opened: Opened, terms: PinTerms, hashes: Mapping[str, str], problem: str) -> Changes:
        """The differences of a server. What was never read is not gone; what a list had that is still to be seen for
        the first time is new only where all of it has to be approved."""
        record = opened.record
        newest, approves = record.newest, record.approves
        team = {} if problem else self._team.servers.get(record.upstream)
        if team is not None:
            newest, approves = team, lambda key, hash: key in team and team[key].hash == hash
        found = compare(hashes, newest, approves)
        awaits_sight = team is None and terms.pinning != "required"
        new = [key for key in found.new if not awaits_sight or _list_of(key) in record.seen]
        gone = [key for key in found.gone if _list_of(key) in terms.read]
        return Changes(tuple(new), found.changed, tuple(gone))

    def _conclude(self, review: Review, listed: Mapping[str, Definition]) -> None:
        """Keep a review of what serves now, and tell what it brought."""
        name = review.received.upstream
        self._reviews[name] = review
        if review.terms.pinning == "off":
            return
        record = self._opened[name].record
        team = self._team.servers.get(name, {})
        is_news = record.note_gone(review.changes.gone, review.hashes, self._wall())
        for key, hash in review.hashes.items():
            is_of_team = key in team and team[key].hash == hash and hash not in record.definitions
            is_news |= is_of_team
            if is_of_team or (hash in record.definitions and not review.terms.ignore):
                record.definitions[hash] = listed[key]  # the very object that is listed, so that there is one of it
        noticed = review.state if review.changes else ""
        if noticed != record.noticed and review.terms.read:  # else it is what was known from before
            is_news, record.noticed = True, noticed
            self._tell(name, review)
        if is_news and not review.problem:
            self._save_soon(name)

    def _tell(self, name: str, review: Review) -> None:
        changes = review.changes
        facts = {"new": len(changes.new), "changed": len(changes.changed), "gone": len(changes.gone)}
        self.note("pin", up=name, what="differs" if changes else "as approved", **facts)
        if not changes:
            log.info("%s is again as it was approved", name)
            return
        counted = ", ".join(f"{count} {what}" for what, count in facts.items() if count)
        held = len(changes.waiting) if review.terms.pinning in HOLDING else 0
        then = f"{held} of them are held back or shown as they were" if held else "hosts are shown them"
        log.warning("%s differs from what was approved of it (%s); %s. `hubd pins %s`", name, counted, then, name)

    def newest(self, name: str) -> Mapping[str, Fingerprint]:
        """The fingerprints that were approved of a server last, by the file of the team or else here."""
        team = self._team.servers.get(name)
        return self._opened[name].record.newest if team is None and name in self._opened else team or {}

    def find_approved(self, name: str, key: str) -> Definition | None:
        """A definition as it was approved last; None: it was not, or nobody knows more of it than its hash."""
        opened, found = self._opened.get(name), self.newest(name).get(key)
        return None if opened is None or found is None else opened.record.definitions.get(found.hash)

    # --- for people

    def count_changed(self, name: str) -> int:
        """The definitions of a server that differ from what was approved, as it was reviewed last."""
        return 0 if (review := self._reviews.get(name)) is None else len(review.changes.waiting)

    def remarks(self, name: str) -> Iterator[str]:
        """Sentences about the definitions of a server, for status."""
        if (review := self._reviews.get(name)) is None:
            return
        if review.problem:
            yield f"pins: {review.problem}; see `hubd pins {name}`"
        if waiting := len(review.changes.waiting):
            held = f", {len(review.held)} held back" if review.held else ""
            what = "definition differs" if waiting == 1 else "definitions differ"
            yield f"{waiting} {what} from what was approved{held}: `hubd pins {name}`"
        if review.hidden:
            yield f"hidden characters in {len(review.hidden)} of its definitions are not shown to hosts"

    def awaits_approval(self, name: str) -> bool:
        """True if a person can approve what a server lists now, and has not."""
        review = self._reviews.get(name)
        is_here = name not in self._team.servers and not self._lost_team
        return review is not None and is_here and (len(review.changes.waiting) > 0 or bool(review.problem))

    def describe(self, name: str, *, shows: bool, others: Collection[str] = ()) -> PinnedServer:
        """A server and its pins. `shows`: with all that differs, for people; `others`: names of other
        servers' tools. Raises UpstreamUnavailable: there is no such server."""
        from hub.rules.pins.differences import describe  # a hub does without until a person looks
        from hub.rules.pins.prompt_injection_flags import flags

        review = self._find(name)
        listed, newest = fingerprints.definitions_of(review.received), self.newest(name)
        changes = []
        for key in (*review.changes.waiting, *review.changes.gone):
            held, words = fingerprints.split_key(key) in review.held, newest[key].words if key in newest else None
            change = describe(key, self.find_approved(name, key), listed.get(key), held=held, approved_words=words)
            changes.append(change if shows else structs.replace(change, words=(), hints=(), parameters=()))
        opened, is_of_team = self._opened.get(name), name in self._team.servers
        last = None if opened is None or is_of_team else opened.record.last
        return PinnedServer(
            name=name,
            pinning=review.terms.pinning,
            state=review.state,
            approved=last.by if last is not None else "pins_file" if is_of_team else "",
            approved_at=None if last is None else last.at,
            changes=tuple(changes),
            hidden=dict(review.hidden),
            left_out=tuple(sorted(review.hides)),
            flags=flags(listed, others) if shows else (),
            problem=review.problem or self.team_problem,
        )

    def _find(self, name: str) -> Review:
        if (review := self.of(name)) is None:
            raise UpstreamUnavailable(f"There is no server {name}")
        return review

    # --- decisions

    async def approve(self, name: str, state: str, key: str = "") -> int:
        """Approve a server as it is listed in `state`, or one of its definitions; how many were not approved before.

        Raises:
            HubError: it lists something else by now, or its pins are kept elsewhere, or cannot be saved.
        """
        review = self._find(name)
        if review.terms.pinning == "off":
            raise HubError(f'{name} is not pinned: its pinning is "off"')
        if name in self._team.servers or self._lost_team:
            raise HubError(f"{name} is pinned by {self._policy.pins_file}; approve it there, by `hubd pins export`")
        if review.state != state:
            raise HubError(f"{name} has changed since it was shown; nothing was approved. Look at it: hubd pins {name}")
        listed = fingerprints.definitions_of(review.received)
        if key and key not in listed:
            raise HubError(f"{name} does not list {fingerprints.split_key(key)[1]} any more; nothing was approved")
        found, opened = {key: listed[key]} if key else listed, self._opened[name]
        opened.record.approve(found, self._wall())
        opened.record.seen = sorted({*opened.record.seen, *(review.terms.read if key else LISTS)})
        opened.problem = ""
        count = len(found.keys() & {*review.changes.waiting})
        log.info("%s of %s approved by command: %d definitions that differed", key or "all", name, count)
        self.note("pin", up=name, what="approved", item=key, items=count, state=state)
        self._forget(name)
        self._save_soon(name)
        await self._save()
        if self._opened.get(name) is not opened:
            raise HubError(f"nothing was approved: {ELSEWHERE} meanwhile. Look at it again: hubd pins {name}")
        if self.problem:
            raise HubError(f"it is approved until the hub ends, and no longer: {self.problem}")
        return count

    def export(self, names: Iterable[str]) -> str:
        """The content of a file of what was approved of these servers; "": nothing was."""
        found = {name: newest for name in names if (newest := self.newest(name))}
        return encode_team_pins(found).decode() if found else ""

    # --- saving

    def _save_soon(self, name: str) -> None:
        self._unsaved.add(name)
        self._dirty.set()

    async def run(self) -> None:
        """Save what changes, and follow the file of a team's pins, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_going, "Following pins_file", self._follow_team)
            while True:
                await self._dirty.wait()
                await trio.sleep(SAVE_AFTER_S)
                await self._save()
                if self.problem:
                    await trio.sleep(RETRY_S)

    async def _follow_team(self) -> None:
        while True:
            with trio.move_on_after(inf if self._policy.pins_file is None else LOOK_EVERY_S):
                await self._adjusted.take()
            await self.prepare(self._policy)

    async def _save(self) -> None:
        """Write what is unsaved, in a thread. Cancellation: it is written all the same."""
        async with self._saving:
            drafts = self._drafts()
            self._note_saved(await trio.to_thread.run_sync(self._folder.write_all, drafts))

    def save(self) -> None:
        """Write at once what is unsaved. Blocks; never raises."""
        self._note_saved(self._folder.write_all(self._drafts()))

    def _drafts(self) -> dict[str, bytes]:
        names, self._unsaved, self._dirty = self._unsaved, set(), trio.Event()
        return {name: self._folder.encode(self._opened[name].record) for name in names}

    def _note_saved(self, problems: Mapping[str, str]) -> None:
        lasting = {name: why for name, why in problems.items() if why != ELSEWHERE}
        for name in problems.keys() - lasting.keys():  # what that has decided counts
            log.info("pins of %s: %s, and they are read again", name, ELSEWHERE)
            self._opened.pop(name, None)
            self._forget(name)
        for name in lasting:
            self._save_soon(name)
        if (problem := next(iter(lasting.values()), "")) and not self.problem:
            log.warning("%s; it is kept in memory, and tried again", problem)
        self.problem = problem


def _pins_of(config: UpstreamConfig) -> tuple[object, ...]:
    return config.pinning, config.hidden_text, config.pin_ignore


def _list_of(key: str) -> str:
    return key.partition("/")[0]
