"""The turn of a command: one at a time moves servers between hosts and the hub.

What such a command plans holds only as long as no other one writes: they decide by the same files of hosts, records and
names of secrets. `config.atomic_writes.lock_edits` is for the moments in which any command writes, the turn is around
it, from the plan to the end. The lock is the kernel's, so that it ends with the process, however that ends.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from config import hub_paths
from config.atomic_writes import lock_edits, open_lock, remove_drafts_of
from config.diagnostics import EditError
from config.hosts import known_hosts
from config.hosts.known_hosts import every_user_file, user_places
from config.hosts.servers_in_hub import import_directory
from config.loading.gather import OWN_VARIABLES
from hub.cli.context import Command, Context, Output, now
from hub.control.interruptible_wait import now_s
from hub.linux.file_locks import try_lock

PATIENCE_S: Final = 3.0
"""Seconds to wait for another command: one that sits at a question may do so for hours."""
PAUSE_S: Final = 0.1
MAX_HOLDER_BYTES: Final = 100


def in_turn(command: Command) -> Command:
    """The same command, which waits for its turn, unless it is a trial, which writes nothing."""

    def run(options: Context, output: Output) -> None:
        if options.dry_run:
            return command(options, output)
        with _turn(options.parser.prog, output, getattr(options, "config", None)):
            command(options, output)

    return run


@contextmanager
def _turn(command: str, output: Output, main: Path | None) -> Iterator[None]:
    """Have the turn during the block. What killed commands have left beside files is removed first."""
    descriptor = open_lock(hub_paths.state_dir() / "setup.lock")
    try:
        _wait(descriptor, output)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"`{command}` (pid {os.getpid()})".encode(), 0)
        _remove_drafts(main)
        yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, output: Output) -> None:
    """Lock the open file. Raises: EditError, if another command keeps it locked."""
    until, said = now_s() + PATIENCE_S, False
    while True:
        if try_lock(descriptor):
            return
        holder = os.pread(descriptor, MAX_HOLDER_BYTES, 0).decode(errors="replace") or "another command"
        if now_s() >= until:
            raise EditError(f"{holder} is at work; finish or end it, then run this again; nothing was changed")
        if not said and not output.json:
            output.progress.show(f"Waiting for {holder} ...")
        said = True
        time.sleep(PAUSE_S)  # noqa: TID251 - nothing here runs under trio


def _remove_drafts(main: Path | None) -> None:
    """Remove what killed commands have left in the places where files are replaced: it holds secrets of hosts."""
    machine, hosts, imported = known_hosts.Machine.this(), known_hosts.all_hosts(), import_directory(main)
    files = [main or hub_paths.config_file(), imported.with_name(OWN_VARIABLES)]
    files += [imported / f"{host}.toml" for host in hosts]
    files += [hub_paths.had_before_path(), hub_paths.install_records_path()]
    files += [hub_paths.originals_path(), hub_paths.secrets_path()]
    for host in hosts.values():
        files += [place.path for place in (*user_places(host, machine), *every_user_file(host, machine))]
    with lock_edits(hub_paths.state_dir()):
        remove_drafts_of(map(str, files), str(hub_paths.backup_dir()), now().timestamp())
