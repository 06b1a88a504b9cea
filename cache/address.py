"""Where the shared store is and how one logs in there, read from a configuration. Pure."""

import importlib.util
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from config.errors import ConfigError
from config.schema import CacheConfig, Secret

PORT: Final = 6379
FORMS: Final = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH?db=DB"


class Address(Struct, frozen=True, kw_only=True):
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
        return f"<Address {self}, db {self.db}{', TLS' if self.tls else ''}>"


def address_of(config: CacheConfig) -> Address:
    """What `[cache]` says; `username` and `password` there go before those in the URL.

    Raises: ConfigError, which never shows the URL, since that may hold a password.
    """
    if config.url is None:
        raise ConfigError("cache.url: there is none")
    try:
        url = urlsplit(config.url.reveal())
        port = url.port or PORT
        queried = {name: values[-1] for name, values in parse_qs(url.query).items()}
        db = int(queried.pop("db", "") or (url.path.strip("/") if url.scheme != "unix" else "") or "0")
    except ValueError:
        raise ConfigError(f"cache.url: it cannot be read; write {FORMS}") from None
    unix = url.scheme == "unix"
    if url.scheme not in ("redis", "rediss", "unix") or not (url.path if unix else url.hostname) or db < 0:
        raise ConfigError(f"cache.url: write {FORMS}")
    if queried or url.fragment:
        raise ConfigError("cache.url: nothing but `db` can be said after `?`; see the other settings of [cache]")
    if config.tls_ca and url.scheme != "rediss":
        raise ConfigError("cache.tls_ca: cache.url does not say TLS; write rediss://HOST:PORT/DB there")
    password = config.password or (Secret(unquote(url.password)) if url.password else None)
    return Address(
        host="" if unix else unquote(url.hostname or ""),
        port=port,
        path=unquote(url.path) if unix else "",
        db=db,
        tls=url.scheme == "rediss",
        ca=config.tls_ca,
        username=config.username or (unquote(url.username) if url.username else None),
        password=password,
    )


def require_client() -> None:
    """Find out whether the client library is installed, without loading it. Raises: ConfigError."""
    if importlib.util.find_spec("coredis") is None:
        raise ConfigError("cache.url: the client for Redis is not installed: pip install 'mcp-hubd[redis]'")
