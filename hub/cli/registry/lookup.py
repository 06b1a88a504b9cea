"""The registries of the configuration, and the look-up of a server by its name: all of them are asked, so that none can
pass its own off as that of another."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from config.errors import ConfigError
from config.loading.assemble import Loaded
from config.loading.check import flaw_of_registry
from config.loading.variables import Unresolved, Variables
from config.references import fill_references, references_in
from config.registry.server_json import Listed
from config.settings import in_order
from hub.cli.context import UsageError
from hub.cli.registry.client import Registry, RegistryFailed, run_all
from hub.cli.render.screen import Screen
from upstreams.references import Unresolvable, read_references


class Known:
    """The registries that there are, in the order in which they are asked, and the upstreams."""

    def __init__(self, loaded: Loaded) -> None:
        self.upstreams = loaded.config.upstreams
        self._registries = in_order(loaded.config.registries)
        main = next(iter(loaded.sources), None)
        self._variables = Variables(loaded.environ or os.environ, main.parent if main else Path.cwd())

    def get(self, name: str) -> Registry:
        """One registry.

        Raises:
            UsageError: there is none.
            ConfigError: a reference in its settings leads nowhere.
        """
        if name not in self._registries:
            raise UsageError(f'there is no registry "{name}"; there are: {", ".join(self._registries)}')
        registry = self._registries[name]
        url = self._text(f"registries.{name}.url", registry.url)
        if flaw := flaw_of_registry(url):
            raise ConfigError(f"registries.{name}.url: {flaw}")
        headers = {
            key: self._text(f"registries.{name}.headers.{key}", value.reveal())
            for key, value in registry.headers.items()
        }
        return Registry(name, url, headers)

    def choose(self, name: str | None) -> Sequence[Registry]:
        """The one of that name, or all. Raises as `get`."""
        return [self.get(each) for each in ([name] if name is not None else self._registries)]

    def _text(self, setting: str, text: str) -> str:
        try:
            expanded = self._variables.expand_for_server(text)
            return fill_references(expanded, read_references(references_in(expanded), self._variables.environ))
        except (Unresolved, Unresolvable) as error:
            raise ConfigError(f"{setting}: {error}") from None


class Found(Struct, frozen=True):
    """A server, and the registry that has it."""

    registry: Registry
    listed: Listed


def find(registries: Sequence[Registry], name: str, version: str, screen: Screen) -> list[Found]:
    """The server in each registry that has it. `screen`: as of `run`.

    Raises:
        RegistryFailed: one of them does not say: what it has may be another server of that name.
    """
    answers = run_all(lambda client, registry: client.version(registry, name, version), registries, screen)
    found = []
    for registry, listed in zip(registries, answers, strict=True):
        if isinstance(listed, RegistryFailed):
            raise listed
        if listed is not None:
            found.append(Found(registry, listed))
    return found
