"""Differences between two configurations, what each setting's `reload` makes of them, and what makes two upstreams the
same: digests of the settings that are declared with an `identity`. Pure.

An upstream of which only `live` settings changed keeps its sessions; any other change replaces it. A change may also
withdraw a right: then the old upstream may not be asked for anything more, whether the new one works or not.

A setting of the hub is taken over while it runs, unless it is declared as `restart`: then it is pending.
"""

import secrets
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from config.secret_references import references_of, spell_references
from config.setting_declarations import Secret, Setting, declarations, reveal
from config.settings import HubConfig, UpstreamConfig

_BREADTH: Final = {"per_host": 0, "auto": 1, "shared": 2, "singleton": 3}
"""Session modes by how many hosts may share a session."""
_WALLS: Final = {"off": 0, "auto": 1, "shield": 1, "own-home": 2, "offline": 3}
"""Presets of sandboxes by how much they keep from a server."""
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
        return self != Difference()

    def __str__(self) -> str:
        changed = tuple(f"{name} ({', '.join(change.settings)})" for name, change in self.changed.items())
        parts = {"added": self.added, "removed": self.removed, "changed": changed}
        texts = [f"{verb} {', '.join(names)}" for verb, names in parts.items() if names]
        texts += ["upstreams in another order"] if self.moved else []
        texts += [f"settings {', '.join(self.settings)}"] if self.settings else []
        return "; ".join(texts) or "nothing changed"


def difference(old: HubConfig, new: HubConfig) -> Difference:
    """All changes from `old` to `new`. Including files in another way is none, but what they say may be."""
    both = [name for name in new.upstreams if name in old.upstreams]
    changes = ((name, compare(old.upstreams[name], new.upstreams[name])) for name in both)
    return Difference(
        added=tuple(name for name in new.upstreams if name not in old.upstreams),
        removed=tuple(name for name in old.upstreams if name not in new.upstreams),
        changed={name: change for name, change in changes if change is not None},
        moved=[name for name in old.upstreams if name in new.upstreams] != both,
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
        or old.account != new.account
        or old.across_principals > new.across_principals
        or _BREADTH[old.session_mode] > _BREADTH[new.session_mode]
        or _tells_less(old.roots, new.roots)
        or _WALLS[old.sandbox.preset] < _WALLS[new.sandbox.preset]
        or not {*old.sandbox.read, *old.sandbox.write} <= {*new.sandbox.read, *new.sandbox.write}
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


_THIS_RUN: Final = secrets.token_bytes(16)


def config_key(config: UpstreamConfig) -> str:
    """The digest under which a server is remembered: what is started or reached, not what it is called.

    Of `env` and `headers` only the names count, so the key tells nothing of their values. `args` and `url` count:
    whoever may read the memory (0600) can tell whether a guess at them is right.
    """
    values, names = [], {}
    for name, declared in declarations(UpstreamConfig).items():
        value = getattr(config, declared.attribute)
        if declared.setting.identity == "server" and declared.holds_secrets:
            names[name] = sorted(value)
        elif declared.setting.identity == "server":
            values.append(_show(value))
    return sha256(msgspec.json.encode((values, [names[name] for name in sorted(names)]))).hexdigest()[:32]


def what_runs(config: UpstreamConfig) -> str:
    """The digest of the program that a server is, or of the place where it is reached: what a decision about the
    definitions or calls of a server is bound to. How the program is set up (`env`, `headers`) does not count."""
    return sha256(msgspec.json.encode((_show(config.command), _show(config.args), _show(config.url)))).hexdigest()[:32]


def _show(value: Any) -> Any:
    """A value as files write it: a server remains the same when a secret that it refers to changes."""
    if isinstance(value, str):
        return spell_references(value)
    return tuple(map(_show, value)) if isinstance(value, tuple) else value


def source_of(config: UpstreamConfig) -> str:
    """The digest under which hubs share what they read from a server: which it is, and how it is asked. It covers
    secrets, so it is for stores of hubs only.

    What a reference stands for is not known here. A changed secret has another version, which no other hub has; of a
    credential or a command nobody knows what it was in another run, so nothing is shared with that.
    """
    settings = declarations(UpstreamConfig).items()
    values = {name: getattr(config, each.attribute) for name, each in settings if each.setting.identity is not None}
    text = msgspec.json.encode(values, enc_hook=reveal, order="deterministic")
    apart = _THIS_RUN if any(each.kind != "secret" for each in references_of(config)) else b""
    return sha256(text + apart).hexdigest()[:32]
