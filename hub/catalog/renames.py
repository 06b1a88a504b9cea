"""Names and descriptions that the configuration gives to the tools of one upstream. Pure.

A new name stands in place of the own one, behind the prefix of the upstream. Where another tool has it, be it one that
comes later, that tool keeps it: the rename counts for nothing, until the name is free again.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw

from hub.wire.jsonrpc import raw

MAX_TOLD: Final = 8
"""Renames that cannot be, of which sentences tell."""
MAX_QUOTED: Final = 60
"""Characters of a name in these."""


def rename(
    names: Sequence[str], originals: Sequence[str], wanted: Mapping[str, str], budget: int
) -> tuple[list[str], list[str]]:
    """The visible names of tools, some of them renamed, and sentences about renames that cannot be.

    `names` are those that they have by themselves, of the tools that their upstream calls `originals`; `wanted`: the
    visible name of each own name that is to have another one.
    """
    here = dict(zip(originals, names, strict=True))
    active = {own: new for own, new in wanted.items() if own in here and len(new) <= budget}
    refused = [
        f"{own[:MAX_QUOTED]!r} keeps its name, since {new[:MAX_QUOTED]!r} is longer than {budget} characters "
        "(name_budget)"
        for own, new in wanted.items()
        if own in here and len(new) > budget
    ]
    by_new = {new: own for own, new in active.items()}
    kept = {name for own, name in here.items() if own not in active}
    failing = deque(own for own, new in active.items() if new in kept)
    while failing:
        own = failing.popleft()
        if (new := active.pop(own, None)) is None:
            continue
        refused.append(f"{own[:MAX_QUOTED]!r} keeps its name, since another tool is called {new!r}")
        if (other := by_new.get(here[own])) is not None:  # it was to have the name that this one keeps
            failing.append(other)
    more = [f"{len(refused) - MAX_TOLD} more tools keep their names"] if len(refused) > MAX_TOLD else []
    return [active.get(own, name) for own, name in here.items()], refused[:MAX_TOLD] + more


def with_words(fields: dict[str, Raw], own: str, visible: str, descriptions: Mapping[str, str]) -> dict[str, Raw]:
    """The definition of a tool under its visible name, with the description that the configuration has for it."""
    if (text := descriptions.get(own)) is not None:
        fields = {**fields, "description": raw(text)}
    return fields if fields.get("name") == raw(visible) else {**fields, "name": raw(visible)}
