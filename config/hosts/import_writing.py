"""One import as a whole: the files it writes, the servers that hosts no longer start, and the writing.

`import_choice` decides about servers; here nothing is written before `carry_out`, and no file that the hub could not
use. Servers of a project go into the project's own file, `.hubd.toml`, and not into the user's list. What stands there
stays as it is: new servers are added at the end. The file counts once the user has allowed it (`hubd trust`), as any
project file.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from config.editing.beside_main import blocks_of, compose_file, marks_of_removal
from config.editing.text import toml
from config.editing.text.change import EditRefused
from config.errors import ConfigError, EditError
from config.files import read_file, replace_file
from config.hosts.facts import KnownHost, Machine, Place, all_hosts, is_found
from config.hosts.host_servers import Identity, Server, identities, survey
from config.hosts.import_choice import Import, block, identities_in, unfit
from config.hosts.install import text_at
from config.hosts.originals import Original
from config.hosts.secret_literals import open_references
from config.hub_paths import backup_dir, config_file
from config.loading.assemble import Loaded, load_all
from config.loading.document import parse
from config.loading.gather import IMPORTED
from config.loading.safe_reading import MAX_PROJECT_BYTES, PROJECT_FILES, Problem, read
from config.loading.variables import Variables
from config.secrets.store import SecretStore, SecretUnavailable
from config.settings import HubConfig


class Write(Struct, frozen=True):
    """A file to be written."""

    path: Path
    before: str | None
    after: str
    place: Place | None = None
    """If it is a host's own file."""
    originals: tuple[Original, ...] = ()
    """The servers that it no longer starts then."""


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
    secret = _Secrets(SecretStore.open())
    return {open_references(each, secret): name for each, name in found.items()}


class _Secrets:
    """Secrets by name; None: it cannot be had. Each is asked for once, and a keyring that fails not again: it may take
    a minute to do so."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store
        self._found: dict[str, str | None] = {}
        self._asks_keyring = True

    def __call__(self, name: str) -> str | None:
        if name not in self._found:
            self._found[name] = self._get(name)
        return self._found[name]

    def _get(self, name: str) -> str | None:
        in_keyring = False
        try:
            in_keyring = self._store.names().get(name) == "keyring"
            return self._store.get(name) if self._asks_keyring or not in_keyring else None
        except (SecretUnavailable, EditError):
            self._asks_keyring = self._asks_keyring and not in_keyring
            return None


def removals_in(directory: Path) -> set[str]:
    """Marks of servers that `hubd remove` took out of the imported files (`config.editing.beside_main`)."""
    found: set[str] = set()
    for path in directory.glob("*.toml"):
        with suppress(Problem):
            found |= marks_of_removal(read(path))
    return found


# --- what would be written --------------------------------------------------------------------------------------------


def plan_files(result: Import, directory: Path, environ: Mapping[str, str]) -> list[Write]:
    """The files of all hosts that something of the user was taken from; each would be sound. What could not be used is
    given back. Servers of projects have files of their own (`project_write`).

    Raises:
        EditError: one cannot be read.
    """
    hosts = {each.place.host.id: each.place.host for _, each in result.taken if each.place.project is None}.values()
    found = [_plan_file(result, host, directory, environ) for host in hosts]
    return [write for write in found if write is not None]


def _plan_file(result: Import, host: KnownHost, directory: Path, environ: Mapping[str, str]) -> Write | None:
    path = directory / f"{host.id}.toml"
    data = read_file(path)
    before = None if data is None else data.decode(errors="replace")
    try:
        old = [] if before is None else blocks_of(before)
    except EditRefused as refused:
        hint = "move what you changed to hubd.toml and delete the file, then import again"
        _give_back(result, host, f"{path} {refused}: {hint}")
        return None
    for name, server in _of(result, host):
        if why := unfit(name, server):
            result.refuse(name, why)
    while True:
        mine = _of(result, host)
        if not mine:
            return None
        after = compose_file(host.title, host.id, [*old, *(block(name, server) for name, server in mine)])
        wrong = problems_of(path, after, environ, [name for name, _ in mine])
        if not wrong:
            return Write(path, before, after)
        for name, why in wrong.items():
            if name not in {each for each, _ in mine}:  # it was wrong before, or nobody knows where
                _give_back(result, host, f"{path}: {why}")
                return None
            result.refuse(name, why)


def _of(result: Import, host: KnownHost) -> list[tuple[str, Server]]:
    return [each for each in result.taken if each[1].place.host is host and each[1].place.project is None]


def _give_back(result: Import, host: KnownHost, why: str) -> None:
    for name, _ in _of(result, host):
        result.refuse(name, why)


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

    Raises:
        ConfigError: it cannot be used.
    """
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

    Raises:
        EditError: it was changed meanwhile, or cannot be written; it was left as it is.
    """
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
        text = _text(path)
        names = parse(text, path).tree.get("upstreams", {})
        return with_secrets(identities_in(text, Variables(environ, project, project=project))), list(names)
    return {}, []


def project_write(result: Import, project: Path, environ: Mapping[str, str]) -> Write | None:
    """The file of a project with all that was taken from it; None: nothing was. What cannot be used is given back."""
    path = project_file(project)
    try:
        before = _text(path)
        toml.read(before)
    except (EditRefused, EditError) as refused:
        why = str(refused).removeprefix(f"{path}: ")
        for name, _ in _from_project(result, project):
            result.refuse(name, f"{path}: {why}")
        return None
    for name, server in _from_project(result, project):
        if why := unfit(name, server):
            result.refuse(name, why)
    there = set(problems_of(path, before, environ)) if before.strip() else set()
    while mine := _from_project(result, project):
        blocks = [_block(name, server, project) for name, server in mine]
        after = "\n\n".join([(before or NEW_FILE).rstrip("\n"), *blocks]) + "\n"
        wrong = {name: why for name, why in problems_of(path, after, environ).items() if name not in there}
        if len(after.encode()) > MAX_PROJECT_BYTES:
            wrong = {mine[-1][0]: f"{path} would be larger than {MAX_PROJECT_BYTES >> 10} KB"}
        if not wrong:
            return Write(path, before if path.exists() else None, after)
        names = {name for name, _ in mine}
        for name in wrong.keys() & names or names:
            result.refuse(name, wrong.get(name) or f"{path}: {next(iter(wrong.values()))}")
    return None


def _from_project(result: Import, project: Path) -> list[tuple[str, Server]]:
    return [(name, server) for name, server in result.taken if server.place.project == project]


def _text(path: Path) -> str:
    """The text of the file; "": there is none.

    Raises:
        EditError: it cannot be read.
        EditRefused: it is not UTF-8.
    """
    try:
        return (read_file(path, trusted=True) or b"").decode()
    except UnicodeDecodeError:
        raise EditRefused("is not UTF-8 text") from None


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
