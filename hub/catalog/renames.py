"""Names and descriptions that the configuration gives to the tools of one upstream. Pure.

A new name stands in place of the own one, behind the prefix of the upstream. Where another tool has it, be it one that
comes later, that tool keeps it: the rename counts for nothing, until the name is free again.
"""

from collections.abc import Mapping, Sequence

from msgspec import Raw

from hub.wire.jsonrpc import raw


def renamed(
    names: Sequence[str], originals: Sequence[str], wanted: Mapping[str, str], budget: int
) -> tuple[list[str], list[str]]:
    """The visible names of tools, some of them renamed, and sentences about renames that cannot be.

    `names` are those that they have by themselves, of the tools that their upstream calls `originals`; `wanted`: the
    visible name of each own name that is to have another one.
    """
    here = dict(zip(originals, names, strict=True))
    active = {own: new for own, new in wanted.items() if own in here and len(new) <= budget}
    warnings = [
        f"{own!r} keeps its name, since {new!r} is longer than {budget} characters (name_budget)"
        for own, new in wanted.items()
        if own in here and len(new) > budget
    ]
    while True:
        kept = {name for own, name in here.items() if own not in active}
        taken = {own: new for own, new in active.items() if new in kept}
        if not taken:
            break
        warnings += [f"{own!r} keeps its name, since another tool is called {new!r}" for own, new in taken.items()]
        active = {own: new for own, new in active.items() if own not in taken}
    return [active.get(own, name) for own, name in here.items()], warnings


def with_words(fields: dict[str, Raw], own: str, visible: str, descriptions: Mapping[str, str]) -> dict[str, Raw]:
    """The definition of a tool under its visible name, with the description that the configuration has for it."""
    if (text := descriptions.get(own)) is not None:
        fields = {**fields, "description": raw(text)}
    return fields if fields.get("name") == raw(visible) else {**fields, "name": raw(visible)}
