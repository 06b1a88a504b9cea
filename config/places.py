"""Where files and sockets are, as plain strings: shared by `config.paths` and the shim, which may import nothing heavy.

The runtime directory must be the same for a shim that a host started with a stripped environment and for a daemon
started from a shell. So without `XDG_RUNTIME_DIR` the usual place of it is tried before a directory in /tmp.
"""

import os


class NotPrivate(Exception):
    """A directory that must be ours alone is not, or cannot be made."""


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
    """For what is remembered and the daemon's log: `$XDG_STATE_HOME/hubd` or `~/.local/state/hubd`."""
    return f"{absolute('XDG_STATE_HOME') or _home('.local/state')}/hubd"


def config_dir() -> str:
    """For `hubd.toml`: `$XDG_CONFIG_HOME/hubd` or `~/.config/hubd`."""
    return f"{absolute('XDG_CONFIG_HOME') or _home('.config')}/hubd"


def private_dir(path: str) -> str:
    """`path`, made if it is missing, and certainly a directory of this user that nobody else may enter.

    One called `hubd` that others could enter but not write is closed to them: someone made it to put a hubd.toml there,
    with all XDG directories the same.

    Raises:
        NotPrivate: it is something else; nothing was changed.
    """
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except FileExistsError:
        raise NotPrivate(f"{path} is not a directory: move it away") from None
    except OSError as error:
        raise NotPrivate(f"cannot make the directory {path}: {error.strerror}") from None
    if found.st_mode & 0o170000 != 0o040000:
        raise NotPrivate(f"{path} is a link, not a directory: move it away")
    if found.st_uid != os.getuid():
        raise NotPrivate(f"the directory {path} belongs to another user (uid {found.st_uid}): move it away")
    if found.st_mode & 0o077:
        if path.endswith("/hubd") and not found.st_mode & 0o022:
            os.chmod(path, 0o700)
            return path
        import shlex  # not above: the shim loads this module, and shlex brings re, which doubles its start

        raise NotPrivate(f"others may enter the directory {path}: run `chmod 700 {shlex.quote(str(path))}`")
    return path


def absolute(variable: str, environ: "os._Environ[str] | dict[str, str]" = os.environ) -> str | None:
    """The directory a variable names; relative ones are to be ignored (XDG base directories)."""
    value = environ.get(variable, "").rstrip("/")
    return value if value.startswith("/") else None


def _home(below: str) -> str:
    return f"{os.path.expanduser('~')}/{below}"
