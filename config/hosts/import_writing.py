"""One import as a whole: the files it writes, the servers that hosts no longer start, and the writing.

`import_plan` decides about servers; here nothing is written before `carry_out`, and no file that the hub could not use.
Servers of a project go into the project's own file, `.hubd.toml`, and not into the user's list. What stands there stays
as it is: new servers are added at the end. The file counts once the user has allowed it (`hubd trust`), as any project
file.
"""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

from msgspec import Struct, structs

from config.atomic_writes import read_file, replace_file
from config.editing.imported_file import blocks_of, compose_file, marks_of_removal
from config.editing.text import toml
from config.editing.text.change import EditRefused
from config.errors import ConfigError, EditError, Problem
from config.hosts.host_servers import Identity, Server, identities, survey
from config.hosts.import_plan import Import, block, identities_in, unfit
from config.hosts.install import run_program, text_at
from config.hosts.known_hosts import KnownHost, Machine, Place, all_hosts, is_found
from config.hosts.removed_originals import Original
from config.hosts.secret_literals import open_references
from config.hub_paths import backup_dir, config_file
from config.loading.assemble import Loaded, load_all
from config.loading.document import parse
from config.loading.gather import IMPORTED
from config.loading.safe_reading import MAX_PROJECT_BYTES, PROJECT_FILES, read
from config.loading.variables import Variables
from config.secrets.store import SecretStore, SecretUnavailable
from config.settings import HubConfig

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


def import_directory(named: Path | None) -> Path:
    """The directory of imported servers, beside the main file: the named one or the usual one."""
    return Path(os.path.abspath((named or config_file()).expanduser())).parent / IMPORTED


def names_by_identity(config: HubConfig, directory: Path, environ: Mapping[str, str]) -> dict[Identity, str]:
    """Names of the servers that hubd has already, configured or imported, by identity."""
    found: dict[Identity, str] = {}
    for path in sorted(directory.glob("*.toml")):
        with suppress(Problem):
            text = read(path)
            fixed = identities_in(text, Variables({}, path.parent))
            here = identities_in(text, Variables(environ, path.parent))
            found |= {one: name for one, name in here.items() if one not in fixed or not _is_changed(one, name, config)}
    return with_secrets(found | identities(config))


def _is_changed(one: Identity, name: str, config: HubConfig) -> bool:
    """True if the configuration has other values for what the imported file says literally."""
    upstream = config.upstreams.get(name)
    if upstream is None:
        return False
    now = {key.lower(): value.reveal() for key, value in (upstream.headers if upstream.url else upstream.env).items()}
    was = {key.lower(): value for key, value in one[-1] if "${" not in value}
    return any(now[key] != value for key, value in was.items() if key in now)


def with_secrets(found: dict[Identity, str]) -> dict[Identity, str]:
    """The same, with the secrets that they refer to: hosts have them literally."""
    if not any("secret:" in str(each) for each in found):
        return found
    store, asks_keyring = SecretStore.open(), True

    @cache
    def secret(name: str) -> str | None:
        """A secret; None: it cannot be had. A keyring that fails is not asked again: it may take a minute to do so."""
        nonlocal asks_keyring
        in_keyring = False
        try:
            in_keyring = store.names().get(name) == "keyring"
            return store.get(name) if asks_keyring or not in_keyring else None
        except (SecretUnavailable, EditError):
            asks_keyring = asks_keyring and not in_keyring
            return None

    return {open_references(each, secret): name for each, name in found.items()}


def removals_in(directory: Path) -> set[str]:
    """Marks of servers that `hubd remove` took out of the imported files (`config.editing.imported_file`)."""
    found: set[str] = set()
    for path in directory.glob("*.toml"):
        with suppress(Problem):
            found |= marks_of_removal(read(path))
    return found


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


def load_present(named: Path | None, environ: Mapping[str, str]) -> Loaded:
    """The hub's configuration before an import; servers that are unresolved here are in it as files describe them.
    Raises: ConfigError, if it cannot be used."""
    found = load_all(named, environ, partly=True)
    described = {name: each for name, each in found.left_out.items() if each.command or each.url}
    config = structs.replace(found.config, upstreams={**found.config.upstreams, **described})
    return structs.replace(found, config=config)


def starts_beside_hub(root: Path, machine: Machine) -> tuple[list[str], list[str]]:
    """Titles of the hosts here that start the servers of a project's `.mcp.json` themselves, beside the hub; and these
    servers. Both are empty if there are none.
    """
    titles, keys = [], []
    for host in all_hosts().values():
        place = Place(host, root / PROJECT_FILES[-1], host.title, root)
        if place.path.name in host.project and is_found(host, machine):
            with suppress(EditRefused, EditError):
                servers, _ = survey(place, text_at(place.path), machine.environ, machine.home)
                titles.append(host.title)
                keys = [server.key for server in servers]
    return (titles, keys) if keys else ([], [])


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


def project_file(project: Path) -> Path:
    """The file of hubd's own in a project."""
    return project / PROJECT_FILES[0]


def names_in_project(project: Path, environ: Mapping[str, str]) -> tuple[dict[Identity, str], list[str]]:
    """The servers in the file of a project, by identity, and all their names; none, if it cannot be read."""
    path = project_file(project)
    with suppress(Problem, EditRefused, EditError):
        text = text_at(path, trusted=True)
        names = parse(text, path).tree.get("upstreams", {})
        return with_secrets(identities_in(text, Variables(environ, project, project=project))), list(names)
    return {}, []


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
