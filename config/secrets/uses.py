"""The servers that use a secret of `hubd secret`: those whose settings name it, disabled ones and those of allowed
projects among them; the profiles that fix arguments with it; and the servers at which every person has their own."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from config.diagnostics import ConfigError
from config.hub_paths import secrets_path, trust_path
from config.loading.gather import gather
from config.loading.precedence import stacks
from config.loading.read_source import Source
from config.projects import Trust
from config.secret_references import references_of, texts_in
from config.secrets.kept_secrets import read_secrets
from config.secrets.private_state_files import StateUnreadable
from config.settings import HubConfig, UpstreamConfig

_USE: Final = re.compile(r"(?<!\$)\$\{secret:([A-Za-z0-9_.-]{1,64})\}")
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^{}]*)?\}")


def secret_uses(named: Path | None, environ: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of servers, and of profiles as `profile NAME`, by the secret that they use, as the files of the
    configuration say it. Blocks."""
    found: dict[str, list[str]] = {}
    gathered = gather(named, environ)
    kept: Collection[str] = ()
    with suppress(StateUnreadable):
        kept = read_secrets(secrets_path())
    _add(found, gathered.sources, "", kept)
    for profile, secret in _uses_in_profiles({} if gathered.main is None else gathered.main.settings.get("profiles")):
        found.setdefault(secret, []).append(f"profile {profile}")
    for root, sources in _projects(environ):
        _add(found, sources, f" of {root}", kept)
    return found


def uses_by_people(configs: Mapping[str, UpstreamConfig]) -> dict[str, list[str]]:
    """The names of servers by the secret of which every person has their own there. Pure."""
    found: dict[str, list[str]] = {}
    for name, config in configs.items():
        if config.is_each and not config.disabled:
            for secret in dict.fromkeys(each.text for each in references_of(config) if each.kind == "secret"):
                found.setdefault(secret, []).append(name)
    return found


def _projects(environ: Mapping[str, str]) -> Iterator[tuple[Path, Sequence[Source]]]:
    """The files of projects that are as the user allowed them."""
    trust = Trust(trust_path())
    with suppress(OSError):
        for root in trust.roots():
            with suppress(OSError, ConfigError):
                if allowed := trust.load_allowed(root, environ, HubConfig()):
                    yield root, allowed[1]


def _add(found: dict[str, list[str]], sources: Iterable[Source], where: str, kept: Collection[str]) -> None:
    for name, stack in stacks(sources).items():
        values = [entry.table.values for entry in (*stack.saying, *stack.shadowed)]
        texts = list(texts_in(values))
        by_variable = {name for text in texts for name in _VARIABLE.findall(text) if name in kept}
        for secret in sorted({secret for text in texts for secret in _USE.findall(text)} | by_variable):
            found.setdefault(secret, []).append(name + where)


def _uses_in_profiles(profiles: Any) -> Iterator[tuple[str, str]]:
    """The profiles that fix arguments with a secret, and which."""
    for name, profile in profiles.items() if isinstance(profiles, dict) else ():
        overrides = profile.get("override") if isinstance(profile, dict) else None
        each = overrides.values() if isinstance(overrides, dict) else ()
        texts = texts_in([override.get("fix") for override in each if isinstance(override, dict)])
        yield from ((name, secret) for secret in sorted({secret for text in texts for secret in _USE.findall(text)}))
