"""Checks of `[registries.NAME]`."""

from collections.abc import Iterator, Mapping

from config import settings
from config.diagnostics import Problem
from config.loading.parse_addresses import split_plain
from config.settings import LOOPBACK, RegistryConfig


def problems_of_registries(registries: Mapping[str, RegistryConfig]) -> Iterator[Problem]:
    """Problems of `[registries.NAME]`."""
    if len(registries) > settings.MAX_REGISTRIES:
        yield Problem("registries", f"holds more than {settings.MAX_REGISTRIES} registries")
    for name, registry in registries.items():
        keys = ("registries", name)
        if not settings.REGISTRY_NAME.fullmatch(name):
            yield Problem(keys, "cannot name a registry: use lower-case letters, digits and dashes, at most 32")
        if not registry.url and name != settings.OFFICIAL:
            yield Problem(keys, f'needs `url`, the address of the registry, such as url = "{settings.OFFICIAL_URL}"')
        elif registry.url and "${" not in registry.url and (flaw := flaw_of_registry(registry.url)):
            yield Problem((*keys, "url"), flaw)


def flaw_of_registry(url: str) -> str:
    """The reason why no registry can be asked at `url`; "": one can."""
    parts = split_plain(url)
    if parts is None or set(url) & set("\\?#") or parts.scheme not in ("http", "https"):
        return f"expected an address such as {settings.OFFICIAL_URL}, without user name, query or spaces"
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "must be https: anybody on the way could change which program is run (http only on this machine)"
    return ""
