"""Base directories of hubd, for its sockets, state and configuration (those of XDG, or as `HUBD_*` says): where they
are. Plain strings, for `config.hub_paths` and for the shim, which imports nothing heavy.

The runtime directory must be the same for a shim that a host started with a stripped environment and for a daemon
started from a shell. So without `XDG_RUNTIME_DIR` the usual place of it is tried before a directory in /tmp.
"""

import os


def runtime_dir(environ: "os._Environ[str] | dict[str, str]" = os.environ) -> str:
    """For sockets and locks: `$HUBD_RUNTIME_DIR`, `$XDG_RUNTIME_DIR/hubd`, `/run/user/UID/hubd` or `/tmp/hubd-UID`."""
    if own := absolute("HUBD_RUNTIME_DIR", environ):
        return own
    base = absolute("XDG_RUNTIME_DIR", environ)
    usual = f"/run/user/{os.getuid()}"
    if base is None and os.access(usual, os.W_OK | os.X_OK):
        base = usual
    return f"{base}/hubd" if base else f"/tmp/hubd-{os.getuid()}"


def state_dir() -> str:
    """For what is remembered and the daemon's log: `$XDG_STATE_HOME/hubd` or `~/.local/state/hubd`. A hub that lives
    for one command has it in `$HUBD_STATE_DIR`, where its servers do not look for theirs."""
    return absolute("HUBD_STATE_DIR") or f"{absolute('XDG_STATE_HOME') or _home('.local/state')}/hubd"


def config_dir() -> str:
    """For `hubd.toml`: `$XDG_CONFIG_HOME/hubd` or `~/.config/hubd`."""
    return f"{absolute('XDG_CONFIG_HOME') or _home('.config')}/hubd"


def absolute(variable: str, environ: "os._Environ[str] | dict[str, str]" = os.environ) -> str | None:
    """The directory a variable names; relative ones are to be ignored (XDG base directories)."""
    value = environ.get(variable, "").rstrip("/")
    return value if value.startswith("/") else None


def _home(below: str) -> str:
    return f"{os.path.expanduser('~')}/{below}"


def data_dir() -> str:
    """For what was installed: `$XDG_DATA_HOME/hubd` or `~/.local/share/hubd`."""
    return f"{absolute('XDG_DATA_HOME') or _home('.local/share')}/hubd"
