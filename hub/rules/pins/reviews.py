"""Reviews: what hosts are shown of a server as its lists were received, and what of that is held back or hides text.
Pure.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from msgspec import Struct, structs

from config.security_settings import HiddenText, Pinning, PolicyConfig
from config.settings import UpstreamConfig
from hub.catalog.time_slices import STEP, Steps
from hub.rules import fingerprints
from hub.rules.fingerprints import INSTRUCTIONS, KINDS
from hub.rules.pins.judge import Changes
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry, Snapshot
from upstreams.inventory import hidden_text
from upstreams.upstream import ManagedUpstream


class PinTerms(Struct, frozen=True):
    """The settings that a review of a server goes by, and what was read of it."""

    pinning: Pinning
    hidden: HiddenText
    ignore: tuple[str, ...]
    read: frozenset[str]
    """The lists that were read in this run of the hub, by their keys; of the instructions, whether it was connected."""


def settings_of(config: UpstreamConfig, policy: PolicyConfig) -> tuple[Pinning, HiddenText]:
    """The settings that count for a server: its own, or else those of all."""
    return config.pinning or policy.pinning, config.hidden_text or policy.hidden_text


def terms_of(upstream: ManagedUpstream, policy: PolicyConfig) -> PinTerms:
    """The terms of a review of a server now."""
    read = {kind.value for kind in KINDS if upstream.offered.begun_at[kind] > -inf}
    config = upstream.config
    return PinTerms(*settings_of(config, policy), config.pin_ignore, frozenset(read | {INSTRUCTIONS} if read else read))


LISTS: Final = (INSTRUCTIONS, *(kind.value for kind in KINDS))
UNPINNED: Final = PinTerms("off", "pass", (), frozenset())


class Review(Struct, frozen=True, eq=False):
    """A look at one server: what hosts are shown of it, and why not all."""

    received: Snapshot
    terms: PinTerms
    snapshot: Snapshot
    """The lists that a catalogue is made of; those `held` are in it, so that they have their names."""
    held: frozenset[tuple[Kind | None, str]] = frozenset()
    """Entries that are in no list and refused, by the server's own names; None: the instructions."""
    hides: frozenset[str] = frozenset()
    """Keys of what is held back, or left out altogether, for its hidden text."""
    hidden: Mapping[str, int] = {}
    """Keys of definitions with hidden text, and how many characters that is."""
    hashes: Mapping[str, str] = {}
    """By the keys of what is listed. Empty, if nothing is pinned."""
    changes: Changes = Changes()
    problem: str = ""
    """The reason why nothing counts as approved, though something may have been."""

    @property
    def state(self) -> str:
        """The hash of all that is listed."""
        return fingerprints.state_of(self.hashes)

    def remarks(self) -> Iterator[str]:
        """Sentences about it, for status."""
        name = self.received.upstream
        if self.problem:
            yield f"pins: {self.problem}; see `hubd pins {name}`"
        if waiting := len(self.changes.waiting):
            held = f", {len(self.held)} held back" if self.held else ""
            what = "definition differs" if waiting == 1 else "definitions differ"
            yield f"{waiting} {what} from what was approved{held}: `hubd pins {name}`"
        if self.hidden:
            yield f"hidden characters in {len(self.hidden)} of its definitions are not shown to hosts"


def show_all(upstream: ManagedUpstream) -> Steps[Review]:
    """The review of one who looks at nothing."""
    yield from ()
    return Review(upstream.snapshot, UNPINNED, upstream.snapshot)


def clean(review: Review) -> Steps[Review]:
    """A review without hidden text, by the setting for that; what is held back anyway is not looked at."""
    if review.terms.hidden == "pass":
        return review
    snapshot, holds = review.snapshot, review.terms.hidden == "quarantine"
    lists, hides, counts, at = dict(snapshot.lists), set[str](), dict[str, int](), 0
    for kind, entries in snapshot.lists.items():
        shown: list[ListEntry] = []
        for entry in entries:
            at += 1
            if not at % STEP:
                yield STEP
            is_held = (kind, entry.key) in review.held
            cleaned, count = (entry, 0) if is_held else hidden_text.clean(kind, entry)
            if count:
                key = fingerprints.key_of(kind, entry.key)
                counts[key] = count
                if holds or cleaned is None:
                    hides.add(key)
            if (left := entry if holds else cleaned) is not None:
                shown.append(left)
        lists[kind] = tuple(shown)
    if count := hidden_text.count(snapshot.instructions):
        counts[INSTRUCTIONS] = count
        text = "" if holds else hidden_text.strip(snapshot.instructions)
        snapshot = structs.replace(snapshot, instructions=text)
    return structs.replace(
        review,
        snapshot=structs.replace(snapshot, lists=lists) if counts else snapshot,
        held=review.held.union(map(fingerprints.split_key, hides)) if holds else review.held,
        hides=frozenset(hides),
        hidden=counts,
    )
