"""URLs by which hosts reach this hub, and how they are let in there. Pure."""

import re
from typing import Final
from urllib.parse import urljoin

from msgspec import Struct

from config.diagnostics import ConfigError
from config.settings import HubConfig

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_NAME = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?")


class WaysIn(Struct, frozen=True):
    """The URLs by which hosts reach a hub; each is let in by `Access`."""

    here: str | None
    """URL for programs of this machine; None: only the proxy reaches the hub."""
    proxied: tuple[str, ...]
    """URLs of the proxy that ends TLS."""


def ways_in(config: HubConfig, host: str, port: int) -> WaysIn:
    """The URLs of a hub that listens at `host` and `port`."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    own = f"[{local}]:{port}" if ":" in local else f"{local}:{port}"
    names = [with_port(name.lower(), port) for name in config.allowed_hosts]
    here = f"http://{own}/mcp" if own in (*names, *(with_port(name, port) for name in LOOPBACK_NAMES)) else None
    if not config.behind_tls_proxy:
        return WaysIn(here, ())
    return WaysIn(here, tuple(f"https://{name.removesuffix(':443')}/mcp" for name in names if name != own))


def resource_of(config: HubConfig, host: str, port: int) -> str:
    """The URL that tokens of authorization servers must be for: the configured one, else as hosts reach the hub."""
    if config.access.resource:
        return config.access.resource
    ways = ways_in(config, host, port)
    if ways.proxied:
        return ways.proxied[0]
    if config.allowed_hosts:
        return f"http://{with_port(config.allowed_hosts[0].lower(), port)}/mcp"
    return ways.here or f"http://{LOOPBACK_NAMES[1]}:{port}/mcp"


def origin_of(config: HubConfig, host: str, port: int) -> str:
    """The URL of the hub itself, without a path, as `resource_of`."""
    return urljoin(resource_of(config, host, port), "/").removesuffix("/")


def shows_token(config: HubConfig, url: str, resource: str) -> bool:
    """True if a host that opens `url` shows the hub's token there. It does not where it signs in, which it can at
    `resource` and below it alone, nor where a proxy says who it is."""
    if config.auth == "oauth":
        return url != resource and not url.startswith(f"{resource}/")
    if config.auth == "proxy":
        return not (config.behind_tls_proxy and url.startswith("https:"))
    return config.auth == "token"


def who_comes(config: HubConfig) -> str:
    """The way in which hosts without the hub's token are let in, as a clause; "": they are not."""
    if config.auth == "oauth":
        return f"hosts sign in at {' or '.join(issuer.issuer for issuer in config.access.issuers)}"
    return "the proxy says who comes" if config.auth == "proxy" else ""


def with_port(name: str, port: int) -> str:
    """An entry of `allowed_hosts` with its port. Raises ConfigError: it is none."""
    if (found := _NAME.fullmatch(name)) is None:
        raise ConfigError(f"allowed_hosts: {name!r} is not NAME or NAME:PORT")
    return name if found[2] else f"{name}:{port}"
