"""The registries of the configuration, with their references resolved when one is asked."""

import os
from collections.abc import Sequence
from pathlib import Path

from config.errors import ConfigError
from config.loading.assemble import Loaded, load_all
from config.loading.variables import Unresolved, Variables
from config.references import fill_references, references_in
from config.tables.registries import RegistryConfig, flaw_of_url, in_order
from hub.cli.registry.client import Registry, one_of
from upstreams.references import Unresolvable, read_references


class Known:
    """The registries that there are, in the order in which they are asked, and the upstreams."""

    def __init__(self, named: Path | None) -> None:
        """Raises: ConfigError, if the configuration cannot be used."""
        self._loaded: Loaded = load_all(named, os.environ, partly=True)
        self.upstreams = self._loaded.config.upstreams
        self._registries = in_order(self._loaded.config.registries)
        main = next(iter(self._loaded.sources), None)
        self._variables = Variables(self._loaded.environ or os.environ, main.parent if main else Path.cwd())

    def names(self) -> list[str]:
        return list(self._registries)

    def get(self, name: str) -> Registry:
        """One registry.

        Raises:
            UsageError: there is none.
            ConfigError: a reference in its settings leads nowhere.
        """
        return self._open(name, one_of(self._registries, name))

    def chosen(self, name: str | None) -> Sequence[Registry]:
        """The one of that name, or all. Raises as `get`."""
        return [self.get(each) for each in ([name] if name is not None else self._registries)]

    def _open(self, name: str, registry: RegistryConfig) -> Registry:
        url = self._text(f"registries.{name}.url", registry.url)
        if flaw := flaw_of_url(url):
            raise ConfigError(f"registries.{name}.url: {flaw}")
        headers = {
            key: self._text(f"registries.{name}.headers.{key}", value.reveal())
            for key, value in registry.headers.items()
        }
        return Registry(name, url, headers)

    def _text(self, setting: str, text: str) -> str:
        try:
            expanded = self._variables.expand_for_server(text)
            return fill_references(expanded, read_references(references_in(expanded), self._variables.environ))
        except (Unresolved, Unresolvable) as error:
            raise ConfigError(f"{setting}: {error}") from None
