"""Pins: what hosts are shown of each server that runs, and what is held back, by what was approved and by hidden text.

A review is made when the lists of a server were read, before a catalogue is made of them, and again when settings or
approvals change. One that was replaced is reviewed as any other, but changes no record.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from math import inf
from typing import Final

import trio
from msgspec import structs

from config.security_settings import PolicyConfig
from config.settings import HubConfig, UpstreamConfig
from hub.catalog.time_slices import STEP, Steps, finish
from hub.control.pin_messages import PinnedServer
from hub.link.fault_isolation import keep_going
from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.sync_primitives import DirtyFlag
from hub.rules import fingerprints
from hub.rules.fingerprints import Definition, Fingerprint
from hub.rules.pins.judge import HOLDING, Changes, apply, compare, judge
from hub.rules.pins.reviews import LISTS, PinTerms, Review, clean, settings_of, terms_of
from hub.rules.pins.saved_records import SavedRecords
from hub.rules.pins.store import ELSEWHERE, Opened, PinFolder
from hub.rules.pins.team_pins import TeamFile, encode_team_pins
from hub.rules.policy.judge import Note, note_nothing
from upstreams.upstream import ManagedUpstream

log = logging.getLogger("hubd.pins")

LOOK_EVERY_S: Final = 5.0
"""Interval for looking whether the file of a team's pins has changed."""


class Pins:
    """The reviews of the servers that run, `upstreams`. `changed` is called with the name of a server that hosts are
    shown otherwise; `wall` is the time of day in seconds. `run` must be running."""

    def __init__(
        self,
        folder: PinFolder,
        policy: PolicyConfig,
        upstreams: Mapping[str, ManagedUpstream],
        changed: Callable[[str], None],
        wall: Callable[[], float],
        note: Note = note_nothing,
    ) -> None:
        self._policy = policy
        self._upstreams = upstreams
        self._changed = changed
        self._wall = wall
        self.note = note
        self.records = SavedRecords(folder, note, self._forget)
        self._reviews: dict[str, Review] = {}
        self._adjusted = DirtyFlag()
        self.team = TeamFile(policy.pins_file)

    # --- settings

    def may_hold(self, config: UpstreamConfig) -> bool:
        """True if something of a server with this configuration may be held back."""
        pinning, hidden = settings_of(config, self._policy)
        return pinning in HOLDING or hidden == "quarantine"

    def adjust(self, config: HubConfig) -> None:
        """Go by other settings from now on; those of servers count once these have them."""
        policy, is_other = config.policy, config.policy != self._policy
        self._policy = policy
        self._adjusted.set()
        self.team.use(policy.pins_file)
        if is_other:
            self._reviews.clear()
        for name in self._reviews.keys() - self._upstreams.keys() - self.records.unsaved:  # these are gone
            del self._reviews[name]
            self.records.pop(name, None)
        for name, upstream in self._upstreams.items():
            new = config.upstreams.get(name)
            if is_other or (new is not None and _pins_of(new) != _pins_of(upstream.config)):
                self._changed(name)

    async def prepare(self, policy: PolicyConfig) -> None:
        """Read what `adjust` needs to know: the file of a team's pins."""
        if await self.team.read(policy.pins_file):
            for name in self._upstreams:
                self._forget(name)

    def _forget(self, name: str) -> None:
        """Have a server reviewed anew."""
        self._reviews.pop(name, None)
        self._changed(name)

    # --- reviews

    def review(self, upstream: ManagedUpstream) -> Steps[Review]:
        """Review what hosts are shown of a server, in steps; the same review, as long as nothing has changed."""
        received, terms = upstream.snapshot, terms_of(upstream, self._policy)
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
            opened = self.records.open(upstream.name, upstream.config)
            problem = self.team.lost or ("" if upstream.name in self.team.content.servers else opened.problem)
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

    def _accept(self, opened: Opened, terms: PinTerms, listed: Mapping[str, Definition]) -> None:
        """Accept what is seen for the first time, if the settings and the record allow that."""
        record = opened.record
        first = terms.read.difference(record.seen)
        if not first or record.upstream in self.team.content.servers:
            return
        if terms.pinning != "required":
            found = {key: each for key, each in listed.items() if fingerprints.list_of(key) in first}
            record.accept(found, self._wall())
            self.note("pin", up=record.upstream, what="first sight", items=len(found))
        record.seen += sorted(first)
        self.records.save_soon(record.upstream)

    def _compare(self, opened: Opened, terms: PinTerms, hashes: Mapping[str, str], problem: str) -> Changes:
        """The differences of a server from what the team has approved, or else from what its record has."""
        record = opened.record
        team = {} if problem else self.team.content.servers.get(record.upstream)
        if team is None:
            seen = None if terms.pinning == "required" else record.seen
            return compare(hashes, record.newest, record.approves, seen, terms.read)
        return compare(hashes, team, lambda key, hash: key in team and team[key].hash == hash, None, terms.read)

    def _conclude(self, review: Review, listed: Mapping[str, Definition]) -> None:
        """Keep a review of what serves now, and tell what it brought."""
        name = review.received.upstream
        self._reviews[name] = review
        if review.terms.pinning == "off":
            return
        record = self.records[name].record
        team = self.team.content.servers.get(name, {})
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
            self.records.save_soon(name)

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
        team = self.team.content.servers.get(name)
        return self.records[name].record.newest if team is None and name in self.records else team or {}

    def find_approved(self, name: str, key: str) -> Definition | None:
        """A definition as it was approved last; None: it was not, or nobody knows more of it than its hash."""
        opened, found = self.records.get(name), self.newest(name).get(key)
        return None if opened is None or found is None else opened.record.definitions.get(found.hash)

    # --- for people

    def count_changed(self, name: str) -> int:
        """The definitions of a server that differ from what was approved, as it was reviewed last."""
        return 0 if (review := self._reviews.get(name)) is None else len(review.changes.waiting)

    def remarks(self, name: str) -> Iterable[str]:
        """Sentences about the definitions of a server, for status."""
        return () if (review := self._reviews.get(name)) is None else review.remarks()

    def awaits_approval(self, name: str) -> bool:
        """True if a person can approve what a server lists now, and has not."""
        if (review := self._reviews.get(name)) is None or self.is_of_team(name):
            return False
        return bool(review.changes.waiting or review.problem)

    def is_of_team(self, name: str) -> bool:
        """True if the file of a team says what is approved of a server, or nobody knows whether it does."""
        return name in self.team.content.servers or bool(self.team.lost)

    def describe(self, name: str, *, shows: bool, others: Collection[str] = ()) -> PinnedServer:
        """A server and its pins. `shows`: with all that differs, for people; `others`: names of other
        servers' tools. Raises UpstreamUnavailable: there is no such server."""
        from hub.rules.pins.describe_server import describe_server  # a hub does without until a person looks

        review, opened = self._find(name), self.records.get(name)
        last = None if opened is None else opened.record.last
        by = "pins_file" if name in self.team.content.servers else "" if last is None else last.by
        at = None if last is None or by == "pins_file" else last.at
        find = partial(self.find_approved, name)
        found = describe_server(review, self.newest(name), find, others, shows=shows)
        return structs.replace(found, approved=by, approved_at=at, problem=review.problem or self.team.problem)

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
        if self.is_of_team(name):
            raise HubError(f"{name} is pinned by {self._policy.pins_file}; approve it there, by `hubd pins export`")
        if review.state != state:
            raise HubError(f"{name} has changed since it was shown; nothing was approved. Look at it: hubd pins {name}")
        listed = fingerprints.definitions_of(review.received)
        if key and key not in listed:
            raise HubError(f"{name} does not list {fingerprints.split_key(key)[1]} any more; nothing was approved")
        found, opened = {key: listed[key]} if key else listed, self.records[name]
        opened.record.approve(found, self._wall())
        opened.record.seen = sorted({*opened.record.seen, *(review.terms.read if key else LISTS)})
        opened.problem = ""
        count = len(found.keys() & {*review.changes.waiting})
        log.info("%s of %s approved by command: %d definitions that differed", key or "all", name, count)
        self.note("pin", up=name, what="approved", item=key, items=count, state=state)
        self._forget(name)
        self.records.save_soon(name)
        await self.records.save()
        if self.records.get(name) is not opened:
            raise HubError(f"nothing was approved: {ELSEWHERE} meanwhile. Look at it again: hubd pins {name}")
        if self.records.problem:
            raise HubError(f"it is approved until the hub ends, and no longer: {self.records.problem}")
        return count

    def export(self, names: Iterable[str]) -> str:
        """The content of a file of what was approved of these servers; "": nothing was."""
        found = {name: newest for name in names if (newest := self.newest(name))}
        return encode_team_pins(found).decode() if found else ""

    # --- saving

    async def run(self) -> None:
        """Save what changes, and follow the file of a team's pins, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_going, "Following pins_file", self._follow_team)
            await self.records.run()

    async def _follow_team(self) -> None:
        while True:
            with trio.move_on_after(inf if self._policy.pins_file is None else LOOK_EVERY_S):
                await self._adjusted.take()
            await self.prepare(self._policy)


def _pins_of(config: UpstreamConfig) -> tuple[object, ...]:
    return config.pinning, config.hidden_text, config.pin_ignore
