"""Judgement of what a server lists against what was approved of it. Pure.

    pinning      first sight   later new or changed
    off          -             -
    warn         accepted      shown as it is
    freeze       accepted      the approved definition is shown; what is new, takes other arguments, or says that it
                               does more, is held back
    quarantine   accepted      held back; the approved instructions stay
    required     held back     likewise

What is held back is in no list, and calls of it are refused.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

from msgspec import Struct, structs

from config.security_settings import Pinning
from hub.rules.fingerprints import INSTRUCTIONS, KINDS, Definition, Fingerprint, hash_of, key_of, list_of, read
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry, Snapshot

HOLDING: Final = frozenset({"freeze", "quarantine", "required"})
"""Settings by which something may be held back."""
_INPUT: Final = ("inputSchema", "arguments")
"""Members that say what a tool or prompt takes."""


class Changes(Struct, frozen=True):
    """Differences from what was approved, by the keys of definitions in the order in which they are listed."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Those that are there and were not approved."""
        return (*self.new, *self.changed)

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)


def compare(
    hashes: Mapping[str, str],
    newest: Mapping[str, Fingerprint],
    approves: Callable[[str, str], bool],
    seen: Container[str] | None,
    read: Container[str],
) -> Changes:
    """The differences between what is listed, by its hashes, and what was approved. What was not `read` is not gone. Of
    a list that was never `seen` nothing is new, as it is about to be; None: all of it has to be approved."""
    waiting = [key for key, hash in hashes.items() if not approves(key, hash)]
    return Changes(
        new=tuple(key for key in waiting if key not in newest and (seen is None or list_of(key) in seen)),
        changed=tuple(key for key in waiting if key in newest),
        gone=tuple(key for key in newest if key not in hashes and list_of(key) in read),
    )


def judge(
    pinning: Pinning, changes: Changes, listed: Mapping[str, Definition], approved: Callable[[str], Definition | None]
) -> tuple[set[str], dict[str, Definition]]:
    """The definitions of a server that one setting holds back, and those that are shown in place of what is listed.
    `approved`: finds the approved definition, as far as it is known."""
    held, instead = set[str](), dict[str, Definition]()
    for key in changes.waiting if pinning in HOLDING else ():
        before = approved(key)
        if key == INSTRUCTIONS:
            instead[key] = before or ""
        elif pinning == "freeze" and before is not None and _may_stand_for(before, listed[key]):
            instead[key] = before
        else:
            held.add(key)
    return held, instead


def _may_stand_for(approved: Definition, listed: Definition) -> bool:
    """True if a tool can still be called by what was approved of it, and does not say of itself that it does more than
    that says, by which rules go."""
    from hub.rules.pins.differences import find_looser_hints  # not above: only tools that have changed need it

    is_safer = any(find_looser_hints(read(listed), read(approved)))
    return not is_safer and _input_of(approved) == _input_of(listed)


def _input_of(definition: Definition) -> str:
    if isinstance(definition, str):
        return ""
    return hash_of("", {name: definition[name] for name in _INPUT if name in definition})


def apply(instead: Mapping[str, Definition], snapshot: Snapshot) -> Snapshot:
    """The snapshot with what is shown in place of what is listed. What is held back is still in it."""
    if not instead:
        return snapshot
    lists = {kind: tuple(_replace(kind, its, instead)) for kind, its in snapshot.lists.items()}
    instructions = instead.get(INSTRUCTIONS, snapshot.instructions)
    assert isinstance(instructions, str), "they are a text"
    return structs.replace(snapshot, lists=lists, instructions=instructions)


def _replace(kind: Kind, entries: tuple[ListEntry, ...], instead: Mapping[str, Definition]) -> Iterator[ListEntry]:
    for entry in entries:
        shown = instead.get(key_of(kind, entry.key)) if kind in KINDS else None
        yield entry if shown is None or isinstance(shown, str) else ListEntry(entry.key, shown)
