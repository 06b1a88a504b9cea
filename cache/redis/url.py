"""Where the shared store is and how one logs in there, read from a configuration. Pure."""

import importlib.util
import os
import shlex
import sys
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from config.errors import ConfigError
from config.loading.check_fleet import problems_of_store
from config.schema import CacheConfig, Secret

PORT: Final = 6379
CLIENT: Final = "coredis>=6.9,<7"
"""As in the extra `redis` of pyproject.toml."""


class StoreAddress(Struct, frozen=True, kw_only=True):
    """One server. Its text and repr show where it is, never who logs in."""

    host: str = ""
    """Empty: a unix socket."""
    port: int = PORT
    path: str = ""
    db: int = 0
    tls: bool = False
    ca: str | None = None
    """The file of certificates that the server's is checked against; None: the system's."""
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
    """What `[cache]` says.

    Raises: ConfigError, which never shows the URL, since that may hold a password.
    """
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
    """Find out whether the client library is installed, without loading it. Raises: ConfigError."""
    if importlib.util.find_spec("coredis") is None:
        raise ConfigError(f"the client for Redis and Valkey is not installed; run `{_install()}`")


def _install() -> str:
    """What puts it beside this very program."""
    if "/pipx/venvs/" in sys.prefix:
        return f"pipx inject {os.path.basename(sys.prefix)} {CLIENT!r}"
    return f"{shlex.quote(sys.executable)} -m pip install {CLIENT!r}"
