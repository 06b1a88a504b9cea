"""References in the configuration of one server, and the configuration with their values in place. Pure.

Whoever starts a server asks `references_of` what it needs, reads that, and starts `resolved`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from msgspec import Struct, structs

from config.references import NUL, Reference, filled, references_in
from config.setting import Secret, Setting
from config.setting_facts import declarations
from config.settings import UpstreamConfig


class ResolvedConfig(UpstreamConfig, frozen=True, kw_only=True):
    """A configuration without references."""

    read: Annotated[tuple[Secret, ...], Setting(reload=None)] = ()
    """The values that were read for it, wherever in its settings they stand now: masked as those of `env` are."""


def references_of(config: UpstreamConfig) -> tuple[Reference, ...]:
    """The references in a server's settings, each once."""
    return tuple(dict.fromkeys(each for text in _texts(config) for each in references_in(text)))


def in_headers(config: UpstreamConfig) -> bool:
    """True if a header holds a reference: a server that refuses it may take the value of now."""
    return any(NUL in value.reveal() for value in config.headers.values())


def resolved(config: UpstreamConfig, values: Mapping[Reference, str]) -> ResolvedConfig:
    """The configuration with these values in the places of its references.

    Raises:
        KeyError: a reference has no value.
    """
    settings = {name: _filled(getattr(config, name), values) for name in config.__struct_fields__}
    return ResolvedConfig(**settings, read=tuple(map(Secret, dict.fromkeys(values.values()))))


def _texts(config: Struct) -> Iterator[str]:
    for declared in declarations(type(config)).values():
        value = getattr(config, declared.attribute)
        if isinstance(value, Struct):
            yield from _texts(value)
        elif declared.setting.expanded:
            items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            yield from (each.reveal() if isinstance(each, Secret) else each for each in items if each is not None)


def _filled(value: Any, values: Mapping[Reference, str]) -> Any:
    if isinstance(value, str):
        return filled(value, values)
    if isinstance(value, Secret):
        return Secret(filled(value.reveal(), values))
    if isinstance(value, dict):
        return {name: _filled(each, values) for name, each in value.items()}
    if isinstance(value, Struct):
        return structs.replace(
            value, **{name: _filled(getattr(value, name), values) for name in value.__struct_fields__}
        )
    return tuple(_filled(each, values) for each in value) if isinstance(value, tuple) else value
