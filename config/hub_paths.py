"""The files of one hub, as paths. The directories exist and are private (0700) when a function here returns."""

import logging
import os
from functools import cache, partial
from pathlib import Path
from typing import Final

from config import base_directories, private_directories
from config.diagnostics import ConfigError
from config.private_directories import NotPrivate

log = logging.getLogger("hubd.config")
_warn_once = cache(log.warning)
SECRETS_FILE: Final = "secrets.json"
"""Its name in the state directory."""
MAX_SOCKET_BYTES: Final = 107
"""Length of a unix socket's path on Linux, without the final NUL."""


def config_file() -> Path:
    """The usual main file."""
    return Path(base_directories.config_dir(), "hubd.toml")


def runtime_dir() -> Path:
    """The directory of sockets and locks. Raises: ConfigError, if it is not private, or cannot be made."""
    try:
        return Path(private_directories.private_dir(base_directories.runtime_dir()))
    except NotPrivate as error:
        raise ConfigError(f"{error}; or name another directory in HUBD_RUNTIME_DIR") from None


def state_dir() -> Path:
    """The directory of what is kept between runs. If it cannot be made the hub still runs, and forgets.
    Raises: ConfigError, if it exists and is not private."""
    path = base_directories.state_dir()
    try:
        return Path(private_directories.private_dir(path))
    except NotPrivate as error:
        if os.path.lexists(path):
            raise ConfigError(str(error)) from None
        _warn_once("%s; nothing will be remembered", str(error))
        return Path(path)


def _socket(name: str) -> Path:
    path = runtime_dir() / name
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        text = f"the socket path {path} is longer than the {MAX_SOCKET_BYTES} bytes a unix socket may have"
        raise ConfigError(f"{text}: name a shorter directory in HUBD_RUNTIME_DIR")
    return path


def _in_state(name: str) -> Path:
    return state_dir() / name


def own_home(server: str) -> Path:
    """The home directory of a server in a sandbox that gives it one. Raises: ConfigError, if it is not private, or
    cannot be made."""
    try:
        return Path(
            private_directories.private_dir(f"{private_directories.private_dir(str(_in_state('homes')))}/{server}")
        )
    except NotPrivate as error:
        raise ConfigError(str(error)) from None


def lock_path() -> Path:
    """Locked by the daemon for as long as it lives."""
    return runtime_dir() / "hubd.lock"


socket_path = partial(_socket, "hubd.sock")
"""The unix socket that speaks MCP."""
control_path = partial(_socket, "control.sock")
"""The unix socket of `hubd status` and its like."""
token_path = partial(_in_state, "token")
"""The bearer token of the HTTP listener."""
metrics_token_path = partial(_in_state, "metrics-token")
"""The token that opens `GET /metrics` and nothing else, once `hubd token --metrics` has made it."""
tokens_path = partial(_in_state, "tokens.json")
"""The tokens of single hosts, as hashes (`hub.downstream.access.token_files`)."""
key_path = partial(_in_state, "keys")
"""The keys that seal cursors."""
state_path = partial(_in_state, "memory.json")
"""The file of `config.remembered_facts.Memory`."""
usage_path = partial(_in_state, "usage.json")
"""The record of which tools are called (`hub.routing.tool_usage`)."""
grants_path = partial(_in_state, "grants.json")
"""The approvals that last (`hub.rules.approvals.grants`)."""
catalogue_dir = partial(_in_state, "catalogue")
"""The directory of upstreams' last known lists (`upstreams.inventory.last_known_lists`)."""
pins_dir = partial(_in_state, "pins")
"""The directory of what was approved of servers (`hub.rules.pins`)."""
audit_dir = partial(_in_state, "audit")
"""The directory of the audit log (`hub.rules.audit.files`)."""
dashboard_path = partial(_in_state, "dashboard")
"""The number of the present epoch of the dashboard (`hub.daemon.dashboard.tickets`)."""
sessions_path = partial(_in_state, "sessions.json")
"""The file of what legacy sessions over HTTP have set, beyond what their ids say."""
backup_dir = partial(_in_state, "backups")
"""Files as they were before hubd edited them."""
install_records_path = partial(_in_state, "installed.json")
"""The records of what `config.hosts.install` put into files of hosts."""
originals_path = partial(_in_state, "originals.json")
"""The records of what `config.hosts.removed_originals` turned off or took out in files of hosts."""
had_before_path = partial(_in_state, "had_before.json")
"""The servers that hosts had before an import, with their own choices of tools (`config.hosts.servers_hosts_had`)."""
trust_path = partial(_in_state, "trust.json")
"""The project files that the user allowed."""
secrets_path = partial(_in_state, SECRETS_FILE)
"""The secrets of `hubd secret` (`config.secrets.store`)."""
