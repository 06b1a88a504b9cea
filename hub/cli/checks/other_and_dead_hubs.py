"""Checks of other hubs that run, and of what dead ones left behind."""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from config import base_directories
from config.safe_reading import read_private
from hub.cli.checks.findings import Finding
from hub.cli.checks.machine_state import MachineState
from hub.cli.setup.probe import PREFIX
from hub.linux.socket_tables import listening_paths
from hub.linux.stray_processes import orphans
from hub.shim.start_daemon import is_alive


def other_daemons(examined: MachineState) -> Iterator[Finding]:
    """Further hubs of this user with sockets elsewhere, so that some hosts reach one and some the other."""
    if examined.config.replica.name or examined.config.replica.url:
        return  # a fleet: several hubs are meant
    ours = base_directories.runtime_dir()
    for pid, directory in _daemons():
        if directory != ours and f"/{PREFIX}" not in directory:
            what = f"another hub of yours runs (process {pid}), with its sockets in {directory} and not in {ours}"
            known = examined.status_at(Path(directory, "control.sock"))
            if known is not None:
                files, count = known.config.files or ("no configuration",), len(known.hosts)
                what += f": version {known.version} with {files[0]}, {count} host{'s' * (count != 1)} attached"
            why = "HUBD_RUNTIME_DIR or XDG_RUNTIME_DIR differ, so hosts may reach different hubs, and servers run twice"
            shown = f"HUBD_RUNTIME_DIR={shlex.quote(directory)} hubd status"
            fix = f"nothing, if this is intended (`{shown}` shows it); else run "
            fix += "`hubd install` for its hosts in the shell whose hub is meant"
            yield Finding("daemon", "note", what, why, fix)


def _daemons() -> Iterator[tuple[int, str]]:
    """Running hubs of this user: process ids, and the directories of their sockets.

    They are found by sockets and locks, since a hub lets no other process of its user look into it."""
    with suppress(OSError):
        for directory in sorted({path.rpartition("/")[0] for path in listening_paths()}):
            lock = Path(directory, "hubd.lock")
            with suppress(OSError, ValueError):
                if _is_private(directory) and is_alive(str(lock)):
                    yield int(read_private(lock, 32).data), directory


def _is_private(directory: str) -> bool:
    """True if only this user can have made the files in a directory, as in every hub's directory of sockets."""
    found = os.lstat(directory)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def stale_sockets(examined: MachineState) -> Iterator[Finding]:
    """Sockets on which neither a hub nor a service manager listens.

    They are looked up in a table, since a connection would have a service manager start the hub."""
    try:
        if is_alive(f"{base_directories.runtime_dir()}/hubd.lock"):
            return
        listening = listening_paths()
    except OSError:
        return
    for name in ("hubd.sock", "control.sock"):
        path = f"{base_directories.runtime_dir()}/{name}"
        with suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode) and path not in listening:
                why = "a hub was killed; the next one replaces the socket, until then hosts without `hubd connect` fail"
                yield Finding("socket", "note", f"nobody listens on {path}", why, "start the hub, or remove the file")


def leftovers(examined: MachineState) -> Iterator[Finding]:
    """Servers that were left behind by hubs that were killed."""
    for orphan in orphans():
        what = f"process {orphan.pid} ({orphan.command}) was left behind by a hub that is dead (process {orphan.hub})"
        why = "it uses memory, and may hold ports and locks that a new one needs"
        yield Finding("orphan", "warning", what, why, f"run `kill {orphan.pid}`; the next hub does so when it starts")
