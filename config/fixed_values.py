"""Values of references among the arguments that profiles fix: those that were read, and those that are not there. Pure.

Files give `${VAR}` and `${file:path}` at once. References to secrets and credentials stay marked (`config.references`)
until the hub has read them, which may take a person who unlocks a keyring. An argument without its value costs its own
tool only: `ResolvedOverride.unread` says why, and whoever makes a view leaves the tool out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from config.references import Reference, fill_references, references_in
from config.setting import Secret
from config.tables.profiles import Profile, ResolvedOverride, ToolOverride

Keys = tuple[str, ...]
MAX_FIXED_BYTES: Final = 64 << 10
"""Most bytes of all fixed values of a tool, as JSON."""
NOT_READ_YET: Final = "the hub has not read it yet"


def with_given(
    profiles: Mapping[str, Profile], given: Mapping[Keys, Sequence[str]], unread: Mapping[Keys, Mapping[str, str]]
) -> dict[str, Profile]:
    """The profiles, with what variables and files gave to fixed arguments, and the arguments that have no value; both
    by the keys of settings."""
    found = dict(profiles)
    for name, profile in profiles.items():
        noted: dict[str, ToolOverride] = {}
        for tool, override in profile.override.items():
            keys = ("profiles", name, "override", tool, "fix")
            lacking = dict(unread.get(keys, {}))
            lacking |= {argument: NOT_READ_YET for argument, value in override.fix.items() if _references(value)}
            if lacking or keys in given:
                read = tuple(map(Secret, given.get(keys, ())))
                noted[tool] = ResolvedOverride(
                    description=override.description, fix=override.fix, read=read, unread=lacking
                )
        if noted:
            found[name] = structs.replace(profile, override={**profile.override, **noted})
    return found


def references_of(profiles: Mapping[str, Profile]) -> tuple[Reference, ...]:
    """The references that are still to be read, each once."""
    values = (value for _, _, override in _overrides(profiles) for value in override.fix.values())
    return tuple(dict.fromkeys(each for value in values for each in _references(value)))


def with_values(
    profiles: Mapping[str, Profile], values: Mapping[Reference, str], lacking: Mapping[Reference, str]
) -> dict[str, Profile]:
    """The profiles with the values of references in their places; `lacking`: why those have none that have none."""
    found = dict(profiles)
    for name, tool, override in _overrides(profiles):
        if isinstance(override, ResolvedOverride) and any(map(_references, override.fix.values())):
            whole = _with_values(override, values, lacking)
            found[name] = structs.replace(found[name], override={**found[name].override, tool: whole})
    return found


def unread_arguments(profiles: Mapping[str, Profile]) -> Iterator[tuple[Keys, str]]:
    """The arguments that have no value, by the keys of settings, each with the reason."""
    for name, tool, override in _overrides(profiles):
        if isinstance(override, ResolvedOverride):
            for argument, why in override.unread.items():
                yield ("profiles", name, "override", tool, "fix", argument), why


def json_size(value: Any) -> int | None:
    """The bytes of a value as JSON; None: it has no such form."""
    try:
        data = msgspec.json.encode(value)
        again = msgspec.json.decode(data)
    except (TypeError, ValueError, OverflowError, RecursionError):  # DecodeError and UnicodeError are ValueErrors
        return None
    return len(data) if again == value else None  # `nan` and `inf` become null


def _overrides(profiles: Mapping[str, Profile]) -> Iterator[tuple[str, str, ToolOverride]]:
    for name, profile in profiles.items():
        for tool, override in profile.override.items():
            yield name, tool, override


def _with_values(
    override: ResolvedOverride, values: Mapping[Reference, str], lacking: Mapping[Reference, str]
) -> ResolvedOverride:
    fix = dict(override.fix)
    unread = {argument: why for argument, why in override.unread.items() if argument not in fix}
    read: dict[Reference, str] = {}
    left = MAX_FIXED_BYTES - sum(json_size(value) or 0 for value in fix.values())
    for argument, value in override.fix.items():
        references = _references(value)
        missing = [each for each in references if each not in values]
        left -= sum(len(values[each]) for each in references if each in values)  # before any text is made
        if missing:
            unread[argument] = lacking.get(missing[0], NOT_READ_YET)
        elif left < 0:
            unread[argument] = f"all values together are larger than {MAX_FIXED_BYTES >> 10} KB"
        elif json_size(whole := _fill(value, values)) is None:
            unread[argument] = f"{references[0]} is no text that JSON can hold"
        else:
            fix[argument] = whole
            read |= {each: values[each] for each in references}
            continue
        del fix[argument]
    secrets = tuple(map(Secret, dict.fromkeys([*(each.reveal() for each in override.read), *read.values()])))
    return structs.replace(override, fix=fix, unread=unread, read=secrets)


def _references(value: Any) -> list[Reference]:
    return [each for text in _texts(value) for each in references_in(text)]


def _texts(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each
        elif isinstance(each, str):
            yield each


def _fill(value: Any, values: Mapping[Reference, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, values) for each in value]
    return fill_references(value, values) if isinstance(value, str) else value
