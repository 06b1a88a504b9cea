"""Address of the shared store and its login, parsed from the configuration. Pure."""

import importlib.util
import os
import shlex
import sys
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from config.diagnostics import ConfigError
from config.loading.checks.cache_replica_and_keys import problems_of_store
from config.setting_declarations import Secret
from config.settings import CacheConfig

PORT: Final = 6379
CLIENT: Final = "coredis>=6.9,<7"
"""As in the extra `redis` of pyproject.toml."""


class StoreAddress(Struct, frozen=True, kw_only=True):
    """Address and login of one server. Text and repr never show the login."""

    host: str = ""
    """Empty: a unix socket."""
    port: int = PORT
    path: str = ""
    db: int = 0
    tls: bool = False
    ca: str | None = None
    """File of trusted certificates; None: those of the system."""
    username: str | None = None
    password: Secret | None = None

    def __str__(self) -> str:
        if not self.host:
            return self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"<StoreAddress {self}, db {self.db}{', TLS' if self.tls else ''}>"


def address_of(config: CacheConfig) -> StoreAddress:
    """The address that `[cache]` configures.
    Raises: ConfigError, which never shows the URL: it may hold a password."""
    for problem in problems_of_store(config):
        raise ConfigError(f"{'.'.join(map(str, problem.keys))}: {problem}")
    if config.url is None:
        raise ConfigError("cache.url: there is none")
    url = urlsplit(config.url.reveal())
    unix = url.scheme == "unix"
    return StoreAddress(
        host="" if unix else url.hostname or "",
        port=url.port or PORT,
        path=unquote(url.path) if unix else "",
        db=int((url.query.removeprefix("db=") if unix else url.path.strip("/")) or 0),
        tls=url.scheme == "rediss",
        ca=config.tls_ca,
        username=config.username,
        password=config.password,
    )


def require_client() -> None:
    """Check that the client library is installed, without loading it. Raises: ConfigError."""
    if importlib.util.find_spec("coredis") is None:
        by = f"pipx inject {os.path.basename(sys.prefix)}"
        if "/pipx/venvs/" not in sys.prefix:
            by = f"{shlex.quote(sys.executable)} -m pip install"
        raise ConfigError(f"the client for Redis and Valkey is not installed; run `{by} {CLIENT!r}`")
