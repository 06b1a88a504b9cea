"""Values of arguments that profiles fix, and the references in them. Pure.

They are read with the configuration, which may take a person who unlocks a keyring. One without its value costs its own
tool only: `ResolvedOverride.unread` says why, and whoever makes a view leaves the tool out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from config.references import Reference, Values, fill, references_in, texts_in
from config.security_settings import Profile, Profiles, ResolvedOverride, ToolOverride
from config.setting_declarations import Secret

Keys = tuple[str, ...]
MAX_FIXED_BYTES: Final = 64 << 10
"""Most bytes of all fixed values of a tool, as JSON."""
NOT_READ_YET: Final = "the hub has not read it yet"


def with_given(
    profiles: Profiles, given: Mapping[Keys, Sequence[str]], unread: Mapping[Keys, Mapping[str, str]]
) -> dict[str, Profile]:
    """The profiles, with what variables and files gave to fixed arguments, and the arguments that have no value; both
    by the keys of settings."""

    def note(keys: Keys, override: ToolOverride) -> ToolOverride:
        lacking = dict(unread.get(keys, {}))
        lacking |= {argument: NOT_READ_YET for argument, value in override.fix.items() if _references(value)}
        if not lacking and keys not in given:
            return override
        read = tuple(map(Secret, given.get(keys, ())))
        return ResolvedOverride(description=override.description, fix=override.fix, read=read, unread=lacking)

    return _map_overrides(profiles, note)


def references_in_profiles(profiles: Profiles) -> tuple[Reference, ...]:
    """The references that are still to be read, each once."""
    values = (value for _, override in _overrides(profiles) for value in override.fix.values())
    return tuple(dict.fromkeys(each for value in values for each in _references(value)))


def with_values(profiles: Profiles, values: Values, lacking: Values) -> dict[str, Profile]:
    """The profiles with the values of references in their places; `lacking`: why those have none that have none."""

    def read(_: Keys, override: ToolOverride) -> ToolOverride:
        if isinstance(override, ResolvedOverride) and any(map(_references, override.fix.values())):
            return _with_values(override, values, lacking)
        return override

    return _map_overrides(profiles, read)


def unread_arguments(profiles: Profiles) -> Iterator[tuple[Keys, str]]:
    """The arguments that have no value, by the keys of settings, each with the reason."""
    for keys, override in _overrides(profiles):
        if isinstance(override, ResolvedOverride):
            yield from (((*keys, argument), why) for argument, why in override.unread.items())


def json_size(value: Any) -> int | None:
    """The bytes of a value as JSON; None: it has no such form."""
    try:
        data = msgspec.json.encode(value)
        again = msgspec.json.decode(data)
    except (TypeError, ValueError, OverflowError, RecursionError):  # DecodeError and UnicodeError are ValueErrors
        return None
    return len(data) if again == value else None  # `nan` and `inf` become null


def _overrides(profiles: Profiles) -> Iterator[tuple[Keys, ToolOverride]]:
    """The overrides of tools, by the keys of their fixed arguments."""
    for name, profile in profiles.items():
        for tool, override in profile.override.items():
            yield ("profiles", name, "override", tool, "fix"), override


def _map_overrides(profiles: Profiles, change: Callable[[Keys, ToolOverride], ToolOverride]) -> dict[str, Profile]:
    changed: dict[str, dict[str, ToolOverride]] = {name: {} for name in profiles}
    for keys, override in _overrides(profiles):
        changed[keys[1]][keys[3]] = change(keys, override)
    return {name: structs.replace(profile, override=changed[name]) for name, profile in profiles.items()}


def _with_values(override: ResolvedOverride, values: Values, lacking: Values) -> ResolvedOverride:
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
        elif json_size(whole := fill(value, values)) is None:
            unread[argument] = f"{references[0]} is no text that JSON can hold"
        else:
            fix[argument] = whole
            read |= {each: values[each] for each in references}
            continue
        del fix[argument]
    secrets = tuple(map(Secret, dict.fromkeys([*(each.reveal() for each in override.read), *read.values()])))
    return structs.replace(override, fix=fix, unread=unread, read=secrets)


def _references(value: Any) -> list[Reference]:
    return [each for text in texts_in(value) for each in references_in(text)]
