"""The files of one hub, as paths. The directories exist and are private (0700) when a function here returns."""

import logging
import os
from functools import cache
from pathlib import Path
from typing import Final

from config import directories
from config.directories import NotPrivate
from config.errors import ConfigError

log = logging.getLogger("hubd.config")
SECRETS_FILE: Final = "secrets.json"
"""Its name in the state directory."""
MAX_SOCKET_BYTES: Final = 107
"""Length of a unix socket's path on Linux, without the final NUL."""


def config_file() -> Path:
    """The usual main file."""
    return Path(directories.config_dir(), "hubd.toml")


def runtime_dir() -> Path:
    """The directory of sockets and locks.

    Raises:
        ConfigError: it is not private, or cannot be made.
    """
    try:
        return Path(directories.private_dir(directories.runtime_dir()))
    except NotPrivate as error:
        raise ConfigError(f"{error}; or name another directory in HUBD_RUNTIME_DIR") from None


def state_dir() -> Path:
    """The directory of what is kept between runs. If it cannot be made the hub still runs, and forgets.

    Raises:
        ConfigError: it exists and is not private.
    """
    path = directories.state_dir()
    try:
        return Path(directories.private_dir(path))
    except NotPrivate as error:
        if os.path.lexists(path):
            raise ConfigError(str(error)) from None
        _warn_once(str(error))
        return Path(path)


@cache
def _warn_once(why: str) -> None:
    """Say that there is no state directory, at the first of many looks."""
    log.warning("%s; nothing will be remembered", why)


def socket_path() -> Path:
    """The unix socket that speaks MCP."""
    return _socket("hubd.sock")


def control_path() -> Path:
    """The unix socket of `hubd status` and its like."""
    return _socket("control.sock")


def lock_path() -> Path:
    """Locked by the daemon for as long as it lives."""
    return runtime_dir() / "hubd.lock"


def token_path() -> Path:
    """The bearer token of the HTTP listener."""
    return state_dir() / "token"


def tokens_path() -> Path:
    """The tokens of single hosts, as hashes (`hub.downstream.access.host_tokens`)."""
    return state_dir() / "tokens.json"


def key_path() -> Path:
    """The keys that seal cursors."""
    return state_dir() / "keys"


def state_path() -> Path:
    """The file of `config.saved_state.Memory`."""
    return state_dir() / "memory.json"


def usage_path() -> Path:
    """The record of which tools are called (`hub.link.tool_usage`)."""
    return state_dir() / "usage.json"


def catalogue_dir() -> Path:
    """The directory of upstreams' last known lists (`upstreams.inventory.last_known`)."""
    return state_dir() / "catalogue"


def sessions_path() -> Path:
    """The file of what legacy sessions over HTTP have set, beyond what their ids say."""
    return state_dir() / "sessions.json"


def backup_dir() -> Path:
    """Files as they were before hubd edited them."""
    return state_dir() / "backups"


def install_records_path() -> Path:
    """The records of what `config.hosts.install` put into files of hosts."""
    return state_dir() / "installed.json"


def originals_path() -> Path:
    """The records of what `config.hosts.originals` turned off or took out in files of hosts."""
    return state_dir() / "originals.json"


def had_before_path() -> Path:
    """The servers that hosts had before an import, with their own choices of tools (`config.hosts.remembered`)."""
    return state_dir() / "had_before.json"


def trust_path() -> Path:
    """The project files that the user allowed."""
    return state_dir() / "trust.json"


def secrets_path() -> Path:
    """The secrets of `hubd secret` (`config.secrets.store`)."""
    return state_dir() / SECRETS_FILE


def _socket(name: str) -> Path:
    path = runtime_dir() / name
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise ConfigError(
            f"the socket path {path} is longer than the {MAX_SOCKET_BYTES} bytes a unix socket may have: "
            "name a shorter directory in HUBD_RUNTIME_DIR"
        )
    return path
