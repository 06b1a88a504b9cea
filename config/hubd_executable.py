"""The program hubd itself: the path by which hosts, service managers and shims start it, and whether that path stays.

A path that is written into a host's file is used for years, so it must outlive updates, and it must not lie where a
package runner keeps what it fetched for one run. Imports next to nothing, since the shim needs this too.
"""

import os
import sys

RUNNERS = (
    ("/uv/archive-v", "uvx", "uv tool install mcp-hubd"),
    ("/uv/environments-v", "uvx", "uv tool install mcp-hubd"),
    ("/uv/builds-v", "uvx", "uv tool install mcp-hubd"),
    ("/pipx/.cache/", "pipx run", "pipx install mcp-hubd"),
    ("/.cache/pipx/", "pipx run", "pipx install mcp-hubd"),
)
"""Parts of paths that only caches of package runners have; the runner; the command that installs hubd to stay."""

SERVE = ("serve", "--detached")


def command_path() -> str | None:
    """The absolute path of the command `hubd`: the one on PATH if it is this program, since that path outlives updates;
    else this program's own; None: it cannot be found."""
    own = _own_path()
    found = _on_path()
    return found if found is not None and (own is None or _is_same(found, own)) else own


def passing_place(path: str) -> tuple[str, str] | None:
    """The package runner whose cache `path` lies in, and the command that installs hubd to stay; None: it stays.

    Links are followed: an environment of uv's cache is reached through them.
    """
    real = os.path.realpath(path)
    for part, runner, remedy in RUNNERS:
        if part in path or part in real:
            return runner, remedy
    cache, home = os.environ.get("UV_CACHE_DIR"), os.environ.get("PIPX_HOME")
    if cache and _is_below(real, cache):
        return RUNNERS[0][1:]
    return RUNNERS[3][1:] if home and _is_below(real, home + "/.cache") else None


def find_installed() -> str | None:
    """The path of a `hubd` that stays, where this program itself may not; None: there is none."""
    for path in (_on_path(), os.path.expanduser("~/.local/bin/hubd")):
        if path is not None and is_executable(path) and passing_place(path) is None:
            return path
    return None


def lasting_command() -> str | None:
    """As `command_path`, but never a path in the cache of a package runner: that of an installed `hubd` in its place;
    None: there is none."""
    path = command_path()
    return find_installed() if path is None or passing_place(path) is not None else path


def daemon_command() -> tuple[str, ...]:
    """The command that starts the daemon, isolated: neither the working directory nor `PYTHONPATH` can put other
    modules before ours.

    Looked up at each start, since a shim lives longer than the place it was started from may.
    """
    own = _own_path()
    if own is None or passing_place(own) is not None or not os.path.exists(sys.executable):
        installed = find_installed()
        if installed is not None:
            return (installed, *SERVE)
    if own is None:
        return (sys.executable, "-I", "-m", "hub", *SERVE)
    return (sys.executable, "-I", command_path() or own, *SERVE)


def _own_path() -> str | None:
    """The path of this process' own `hubd`; None: it was started in another way, and there is none beside Python."""
    started = sys.argv[0]
    for path in (started if os.path.basename(started) == "hubd" else "", os.path.dirname(sys.executable) + "/hubd"):
        if "/" in path and os.path.exists(path):
            return os.path.abspath(path)
    return None


def _on_path() -> str | None:
    """The first `hubd` in an absolute directory of PATH. (`shutil` would cost the shim a third of its time.)"""
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        path = f"{directory}/hubd"
        if os.path.isabs(path) and is_executable(path):
            return path
    return None


def is_executable(path: str) -> bool:
    """True if there is a file at `path` that this user may execute."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _is_below(real: str, directory: str) -> bool:
    return real.startswith(os.path.realpath(directory) + "/")
