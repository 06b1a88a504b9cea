"""Files of one import: what would be written into them, and the writing.

`import_plan` decides about servers; here nothing is written before `carry_out`, and no file that the hub could not use.
Servers of a project go into the project's own file, `.hubd.toml`, and not into the user's list. What stands there stays
as it is: new servers are added at the end. The file counts once the user has allowed it (`hubd trust`), as any project
file.
"""

import os
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from config.atomic_writes import read_file, replace_file
from config.diagnostics import ConfigError, EditError
from config.editing.imported_file import blocks_of, compose_file
from config.editing.text import toml
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Server
from config.hosts.import_plan import Import, block, unfit
from config.hosts.install import run_program, text_at
from config.hosts.known_hosts import KnownHost, Place
from config.hosts.removed_originals import Original
from config.hosts.servers_in_hub import project_file
from config.hub_paths import backup_dir
from config.loading.assemble import load_all
from config.safe_reading import MAX_PROJECT_BYTES

Servers = list[tuple[str, Server]]
"""Servers of hosts, with their names in the hub."""


class Write(Struct, frozen=True):
    """A file to be written."""

    path: Path
    before: str | None
    after: str
    place: Place | None = None
    """If it is a host's own file."""
    originals: tuple[Original, ...] = ()
    """The servers that it no longer starts then."""
    command: tuple[str, ...] = ()
    """The command of the host that takes them out itself; the file is not written then."""


# --- what would be written --------------------------------------------------------------------------------------------


def plan_files(result: Import, directory: Path, environ: Mapping[str, str]) -> list[Write]:
    """The files of all hosts that something of the user was taken from; each would be sound. What could not be used is
    given back. Servers of projects have files of their own (`project_write`).
    Raises: EditError, if one cannot be read."""
    hosts = {each.place.host.id: each.place.host for _, each in result.taken if each.place.project is None}.values()
    return [write for host in hosts if (write := _plan_file(result, host, directory, environ)) is not None]


def _plan_file(result: Import, host: KnownHost, directory: Path, environ: Mapping[str, str]) -> Write | None:
    path = directory / f"{host.id}.toml"
    data = read_file(path)
    before = None if data is None else data.decode(errors="replace")

    def servers() -> Servers:
        return [each for each in result.taken if each[1].place.host is host and each[1].place.project is None]

    try:
        old = [] if before is None else blocks_of(before)
    except EditRefused as refused:
        hint = "move what you changed to hubd.toml and delete the file, then import again"
        _refuse(result, servers(), f"{path} {refused}: {hint}")
        return None

    def compose(mine: Servers) -> str:
        return compose_file(host.title, host.id, [*old, *(block(name, server) for name, server in mine)])

    def find_problems(mine: Servers, after: str) -> dict[str, str]:
        return problems_of(path, after, environ, [name for name, _ in mine])

    return _plan_write(result, path, before, servers, compose, find_problems)


def _plan_write(
    result: Import,
    path: Path,
    before: str | None,
    servers: Callable[[], Servers],
    compose: Callable[[Servers], str],
    find_problems: Callable[[Servers, str], dict[str, str]],
) -> Write | None:
    """The file at `path` with what is taken into it; None: nothing is. What cannot be used is given back, and all if
    nobody knows what is wrong."""
    for name, server in servers():
        if why := unfit(name, server):
            result.drop(name, why)
    while mine := servers():
        after = compose(mine)
        wrong = find_problems(mine, after)
        if not wrong:
            return Write(path, before, after)
        found = [each for each in mine if each[0] in wrong]
        for each in found or mine:
            _refuse(result, [each], wrong.get(each[0]) or f"{path}: {next(iter(wrong.values()))}")
    return None


def _refuse(result: Import, servers: Servers, why: str) -> None:
    for name, _ in servers:
        result.drop(name, why)


def problems_of(
    path: Path, text: str, environ: Mapping[str, str], new: Collection[str] | None = None
) -> dict[str, str]:
    """Problems that hubd would find in such a file, by upstream. Others than the `new` ones, if given, may be
    unresolved."""
    try:
        load_all(path, environ, texts={path: text})
    except ConfigError as error:
        found = [each for each in error.diagnostics if not each.unresolved or new is None or each.unresolved in new]
        if not found and error.diagnostics:
            return {}
        return {each.keys[1] if len(each.keys) > 1 else "": each.text for each in found} or {"": str(error)}
    return {}


# --- and writing it ---------------------------------------------------------------------------------------------------


def carry_out(write: Write, now: datetime) -> Path | None:
    """Put one file in place; the backup, if there was one before. `locked` is the caller's.
    Raises: EditError, if it was changed meanwhile, or cannot be written, and was left as it is; or the command
    failed."""
    if write.command:
        run_program(write.command, os.environ)
        return None
    was = None if write.before is None else write.before.encode()
    return replace_file(write.path, write.after.encode(), was=was, now=now, backups=backup_dir())


NEW_FILE = "# The servers of this project, for hosts on hubd that work in it. `hubd trust` allows this content.\n"


def project_write(result: Import, project: Path, environ: Mapping[str, str]) -> Write | None:
    """The file of a project with all that was taken from it; None: nothing was. What cannot be used is given back."""
    path = project_file(project)

    def servers() -> Servers:
        return [each for each in result.taken if each[1].place.project == project]

    try:
        before = text_at(path, trusted=True)
        toml.read(before)
    except (EditRefused, EditError) as refused:
        _refuse(result, servers(), f"{path}: {str(refused).removeprefix(f'{path}: ')}")
        return None
    there = problems_of(path, before, environ) if before.strip() else {}

    def compose(mine: Servers) -> str:
        blocks = [_block(name, server, project) for name, server in mine]
        return "\n\n".join([(before or NEW_FILE).rstrip("\n"), *blocks]) + "\n"

    def find_problems(mine: Servers, after: str) -> dict[str, str]:
        if len(after.encode()) > MAX_PROJECT_BYTES:
            return {mine[-1][0]: f"{path} would be larger than {MAX_PROJECT_BYTES >> 10} KB"}
        return {name: why for name, why in problems_of(path, after, environ).items() if name not in there}

    return _plan_write(result, path, before if path.exists() else None, servers, compose, find_problems)


def _block(name: str, server: Server, project: Path) -> str:
    """The lines of one server, with its directory relative to the project, which may lie elsewhere tomorrow."""
    values = dict(server.values)
    cwd = values.get("cwd")
    if isinstance(cwd, str) and Path(cwd).is_relative_to(project):
        relative = os.path.relpath(cwd, project)
        values.pop("cwd")
        values |= {"cwd": relative} if relative != "." else {}
    text = block(name, structs.replace(server, values=values))
    return text.replace(f"# Then run `hubd enable {name}`.", "# Then delete the line `disabled = true`.")
