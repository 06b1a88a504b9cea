"""Differences between two configurations, and what each setting's `reload` makes of them. Pure.

An upstream of which only `live` settings changed keeps its sessions; any other change replaces it. A change may also
withdraw a right: then the old upstream may not be asked for anything more, whether the new one works or not.

A setting of the hub is taken over while it runs, unless it is declared as `restart`: then it is pending.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from config.setting import Secret, Setting, declarations
from config.settings import HubConfig, UpstreamConfig

_BREADTH: Final = {"per_host": 0, "auto": 1, "shared": 2, "singleton": 3}
"""Session modes by how many hosts may share a session."""
_ROOTS: Final = {"none": 0, "auto": 1, "host": 2}


class UpstreamChange(Struct, frozen=True):
    """The changes of an upstream that is in both configurations; at least one."""

    settings: tuple[str, ...]
    """Names of the settings that differ, in the order of the schema."""
    replaces: bool
    """True if another process or session is needed."""
    withdraws: bool
    """True if the old upstream may not be asked for anything more."""


class Difference(Struct, frozen=True):
    """All changes from one configuration to another. False if there are none."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: dict[str, UpstreamChange] = {}
    moved: bool = False
    """True if the upstreams in both are in another order."""
    settings: tuple[str, ...] = ()
    """The hub's own settings that differ; those of tables as `cache.max_bytes`."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.moved or self.settings)

    def __str__(self) -> str:
        parts = [("added", self.added), ("removed", self.removed), ("changed", tuple(map(self._say, self.changed)))]
        texts = [f"{verb} {', '.join(names)}" for verb, names in parts if names]
        texts += ["upstreams in another order"] if self.moved else []
        texts += [f"settings {', '.join(self.settings)}"] if self.settings else []
        return "; ".join(texts) or "nothing changed"

    def _say(self, name: str) -> str:
        return f"{name} ({', '.join(self.changed[name].settings)})"


def difference(old: HubConfig, new: HubConfig) -> Difference:
    """All changes from `old` to `new`. Including files in another way is none, but what they say may be."""
    changes = {
        name: compare(old.upstreams[name], config) for name, config in new.upstreams.items() if name in old.upstreams
    }
    return Difference(
        added=tuple(name for name in new.upstreams if name not in old.upstreams),
        removed=tuple(name for name in old.upstreams if name not in new.upstreams),
        changed={name: change for name, change in changes.items() if change is not None},
        moved=[name for name in old.upstreams if name in changes] != list(changes),
        settings=tuple(name for name, _ in _settings(old, new)),
    )


def pending(started: HubConfig, now: HubConfig) -> tuple[str, ...]:
    """The settings of `now` that a hub started with `started` takes over only at its next start."""
    return tuple(name for name, setting in _settings(started, now) if setting.reload == "restart")


def _settings(old: Struct, new: Struct, table: str = "") -> Iterator[tuple[str, Setting]]:
    """The settings of the hub, or of one of its tables, that differ. None of those that mean nothing by themselves."""
    for name in _differing(old, new):
        declared = declarations(type(old))[name]
        before, after, setting = getattr(old, declared.attribute), getattr(new, declared.attribute), declared.setting
        if isinstance(before, Struct):
            yield from _settings(before, after, f"{table}{name}.")
        elif declared.named is not None and setting.reload is not None:
            for key in dict.fromkeys((*before, *after)):
                if before.get(key) != after.get(key):
                    yield f"{table}{name}.{key}", setting
        elif setting.reload is not None:
            yield table + name, setting


def compare(old: UpstreamConfig, new: UpstreamConfig) -> UpstreamChange | None:
    """The changes of an upstream; None if there are none."""
    settings = _differing(old, new)
    if not settings:
        return None
    needs_session = any(declarations(UpstreamConfig)[name].setting.reload == "reconnect" for name in settings)
    replaces = needs_session and not (old.disabled and new.disabled)
    return UpstreamChange(settings, replaces, replaces and _withdraws(old, new))


def _differing(old: Struct, new: Struct) -> tuple[str, ...]:
    names = ((name, declared.attribute) for name, declared in declarations(type(old)).items())
    return tuple(name for name, attribute in names if getattr(old, attribute) != getattr(new, attribute))


def _withdraws(old: UpstreamConfig, new: UpstreamConfig) -> bool:
    return (
        new.disabled
        or _lacks(old.env, new.env)
        or _lacks(old.headers, new.headers)
        or old.across_principals > new.across_principals
        or _BREADTH[old.session_mode] > _BREADTH[new.session_mode]
        or _tells_less(old.roots, new.roots)
        or (old.client_features, new.client_features) == ("auto", "none")
    )


def _lacks(old: dict[str, Secret], new: dict[str, Secret]) -> bool:
    """True if a value is gone or replaced: the old one may have been revoked."""
    return any(new.get(name) != value for name, value in old.items())


def _tells_less(old: Any, new: Any) -> bool:
    """True if the server may know roots that it may no longer know."""
    if isinstance(old, tuple):
        return not (isinstance(new, tuple) and set(old) <= set(new))
    return (isinstance(new, tuple) and old != "none") or (not isinstance(new, tuple) and _ROOTS[new] < _ROOTS[old])
