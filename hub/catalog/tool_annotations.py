"""Hints about tools: what a tool may do, as its server says and as the user does. Pure.

Annotations come from a server, which may lie: they are believed only of a server that the user trusts. What the user
says of a tool counts before that, of any server. A hint that is missing means the worst.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Raw

from config.name_globs import matcher_of
from hub.wire.jsonrpc import peek_object, raw

_TRUE, _FALSE = Raw(b"true"), Raw(b"false")
_MEMBERS: Final = {
    "read-only": {"readOnlyHint": _TRUE},
    "destructive": {"destructiveHint": _TRUE, "readOnlyHint": _FALSE},
    "idempotent": {"idempotentHint": _TRUE},
    "open-world": {"openWorldHint": _TRUE},
}
"""The annotations that a word of the user stands for."""
WORST: Final = frozenset({"destructive", "open-world"})
"""The marks of a tool of which nothing is believed."""
Hints = Sequence[tuple[str, Iterable[str]]]
"""Words of the user, by globs over a server's own names of tools; the later of two counts."""


def hints_for(tool: str, hints: Hints) -> dict[str, Raw]:
    """The annotations that the user gives to a tool, by its server's own name of it."""
    words = [word for glob, its in hints if matcher_of(glob)(tool) for word in its]
    return {name: value for word in words for name, value in _MEMBERS[word].items()}


def with_hints(fields: dict[str, Raw], tool: str, hints: Hints) -> dict[str, Raw]:
    """The members of a tool, with what the user says of it among its annotations."""
    if not (said := hints_for(tool, hints)):
        return fields
    return {**fields, "annotations": raw({**peek_object(fields.get("annotations")), **said})}


def marks_of(fields: Mapping[str, Raw], tool: str, hints: Hints, *, trusted: bool) -> frozenset[str]:
    """The marks of a tool (`config.policy.selectors.MARKS`) that are believed. `trusted`: its server is."""
    said = hints_for(tool, hints)
    believed = {**peek_object(fields.get("annotations")), **said} if trusted else said
    reads = believed.get("readOnlyHint") == _TRUE
    held = (
        ("read-only", reads),
        ("destructive", not reads and believed.get("destructiveHint") != _FALSE),
        ("idempotent", believed.get("idempotentHint") == _TRUE),
        ("open-world", believed.get("openWorldHint") != _FALSE),
    )
    return frozenset(mark for mark, holds in held if holds)


def join_marks(steps: Sequence[frozenset[str]]) -> frozenset[str]:
    """The marks of what calls several tools: it only reads if all of them do, and may do harm if any of them may."""
    if not steps:
        return WORST
    return frozenset.intersection(*steps) & {"read-only", "idempotent"} | frozenset.union(*steps) & WORST
