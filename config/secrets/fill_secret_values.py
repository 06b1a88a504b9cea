"""Values in the places of references (`config.secret_references`): in the settings of servers, and in arguments that
profiles fix. Pure.

Whoever starts a server asks `references_of` what it needs, reads that, and starts what `resolve_references` returns.

Values of arguments that profiles fix are read with the configuration, which may take a person who unlocks a keyring.
One without its value costs its own tool only: `ResolvedOverride.unread` says why, and whoever makes a view leaves the
tool out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Struct, structs

from config.profile_settings import Profile, Profiles, ResolvedOverride, ToolOverride
from config.secret_references import Reference, Values, fill_references, json_size, references_in, texts_in
from config.setting_declarations import Secret, Setting
from config.settings import UpstreamConfig

Keys = tuple[str, ...]
MAX_FIXED_BYTES: Final = 64 << 10
"""Most bytes of all fixed values of a tool, as JSON."""
NOT_READ_YET: Final = "the hub has not read it yet"


class ResolvedConfig(UpstreamConfig, frozen=True, kw_only=True):
    """A configuration without references."""

    read: Annotated[tuple[Secret, ...], Setting(reload=None)] = ()
    """The values that were read for it, wherever in its settings they stand now: masked as those of `env` are."""


def resolve_references(config: UpstreamConfig, values: Values) -> ResolvedConfig:
    """The configuration with these values in the places of its references.
    Raises: KeyError, if a reference has no value."""
    settings = {name: fill(getattr(config, name), values) for name in config.__struct_fields__}
    return ResolvedConfig(**settings, read=tuple(map(Secret, dict.fromkeys(values.values()))))


def fill(value: Any, values: Values) -> Any:
    """`value` with the values of references in all its texts. Raises: KeyError, if one has none."""
    if isinstance(value, str):
        return fill_references(value, values)
    if isinstance(value, Secret):
        return Secret(fill_references(value.reveal(), values))
    if isinstance(value, dict):
        return {name: fill(each, values) for name, each in value.items()}
    if isinstance(value, Struct):
        return structs.replace(value, **{name: fill(getattr(value, name), values) for name in value.__struct_fields__})
    return type(value)(fill(each, values) for each in value) if isinstance(value, list | tuple) else value


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
