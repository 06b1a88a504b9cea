"""References to values that are read later: `${secret:NAME}`, `${credential:NAME}`, `${cmd:ARGV}`. Pure.

In a loaded configuration such a reference stands in the text of its setting between two NUL characters, which no other
text of a server can hold: whatever else looks like a reference there, from a variable or behind `$${`, is plain text.
A reference to a secret carries the version that the secret had, so that a changed secret is a changed setting.

Whoever starts a server asks `references_of` what it needs, reads that, and starts what `resolve_references` returns.

Values of arguments that profiles fix are read with the configuration, which may take a person who unlocks a keyring.
One without its value costs its own tool only: `ResolvedOverride.unread` says why, and whoever makes a view leaves the
tool out.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Struct, structs

from config.profile_settings import Profile, Profiles, ResolvedOverride, ToolOverride
from config.setting_declarations import Secret, Setting, leaves_of, texts_of
from config.settings import UpstreamConfig

KINDS: Final = ("secret", "credential", "cmd")
NUL: Final = "\0"
NAME_RULE: Final = "1 to 64 letters, digits, dots, dashes and underscores"
Keys = tuple[str, ...]
MAX_FIXED_BYTES: Final = 64 << 10
"""Most bytes of all fixed values of a tool, as JSON."""
NOT_READ_YET: Final = "the hub has not read it yet"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MARK = re.compile(r"\0(?P<kind>secret|credential|cmd):(?P<version>[0-9a-f]*):(?P<text>[^\0]*)\0")


class Malformed(ValueError):
    """A reference of one of these forms that makes no sense; the text says why, and what to write."""


class Reference(NamedTuple):
    """One reference, as `${KIND:TEXT}` writes it."""

    kind: str
    text: str
    """A name, or the words of a command."""
    version: str = ""
    """The version that a secret had when the configuration was read; "": there was none."""

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.text}}}"

    @property
    def argv(self) -> list[str]:
        """The words of a command."""
        return shlex.split(self.text)


Values = Mapping[Reference, str]
"""Values that references stand for, as far as they are known."""


def is_name(text: str) -> bool:
    """True if a secret can have this name."""
    return _NAME.fullmatch(text) is not None


def read(inner: str) -> Reference | None:
    """The reference between `${` and `}`; None if it is of another form.
    Raises: Malformed, if its name or its command makes no sense."""
    kind, colon, text = inner.partition(":")
    if not colon or kind not in KINDS:
        return None
    if kind == "cmd":
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Malformed(f"`${{{inner}}}` is no command line: {str(error).lower()}") from None
        if not words or not words[0]:
            raise Malformed(f"`${{{inner}}}` names no program: write ${{cmd:PROGRAM ARGUMENT ...}}")
    elif not is_name(text) or text in (".", ".."):
        raise Malformed(f"`${{{inner}}}` names nothing: a name is {NAME_RULE}")
    return Reference(kind, text)


def mark_reference(reference: Reference) -> str:
    """The reference as it stands in a loaded configuration."""
    return f"{NUL}{reference.kind}:{reference.version}:{reference.text}{NUL}"


def references_in(text: str) -> list[Reference]:
    """The references in a text of a loaded configuration."""
    return [_reference(found) for found in _MARK.finditer(text)] if NUL in text else []


def fill_references(text: str, values: Values) -> str:
    """`text` with the value of each reference in its place. Raises: KeyError, if one has none."""
    return _MARK.sub(lambda found: values[_reference(found)], text) if NUL in text else text


def spell_references(text: str) -> str:
    """`text` with each reference as files write it."""
    return _MARK.sub(lambda found: str(_reference(found)), text) if NUL in text else text


def blank_references(text: str) -> str:
    """`text` with a letter in place of each reference, so that all else of it can be checked."""
    return _MARK.sub("x", text) if NUL in text else text


def _reference(found: re.Match[str]) -> Reference:
    return Reference(found["kind"], found["text"], found["version"])


class ResolvedConfig(UpstreamConfig, frozen=True, kw_only=True):
    """A configuration without references."""

    read: Annotated[tuple[Secret, ...], Setting(reload=None)] = ()
    """The values that were read for it, wherever in its settings they stand now: masked as those of `env` are."""


def references_of(config: UpstreamConfig) -> tuple[Reference, ...]:
    """The references in a server's settings, each once."""
    texts = (text for _, declared, value in leaves_of(config) if declared.setting.expanded for text in texts_of(value))
    return tuple(dict.fromkeys(each for text in texts for each in references_in(text)))


def in_headers(config: UpstreamConfig) -> bool:
    """True if a header holds a reference: a server that refuses it may take the value of now."""
    return any(NUL in value.reveal() for value in config.headers.values())


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


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a document, but for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(each)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """A document with `change` made to each value in it that is neither a table nor a list."""
    if isinstance(value, dict):
        return {key: map_leaves(each, change) for key, each in value.items()}
    return [map_leaves(each, change) for each in value] if isinstance(value, list) else change(value)


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
