"""One import as a whole: the files it writes, the servers that hosts no longer start, and the writing.

`import_choice` decides about servers; here nothing is written before `carry_out`, and no file that the hub could not
use.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from config.editing.imported import blocks_of, imported_text, removed_in
from config.editing.text.change import EditRefused
from config.errors import ConfigError, EditError
from config.files import read_file, replace_file
from config.hosts.facts import Host, Machine, Place, all_hosts, is_found
from config.hosts.host_servers import Identity, Server, identities, survey
from config.hosts.import_choice import Import, block, identities_in, unfit
from config.hosts.install import text_at
from config.hosts.originals import Original
from config.hosts.secret_literals import opened
from config.hub_paths import backup_dir, config_file
from config.loading.all_files import IMPORTED
from config.loading.assemble import Loaded, load_all
from config.loading.safe_reading import Problem, read
from config.loading.variables import Variables
from config.projects import PROJECT_FILES
from config.secret_store import SecretStore, SecretUnavailable
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


def imported_dir(named: Path | None) -> Path:
    """The directory of imported servers, beside the main file: the named one or the usual one."""
    return Path(os.path.abspath((named or config_file()).expanduser())).parent / IMPORTED


def known(config: HubConfig, directory: Path, environ: Mapping[str, str]) -> dict[Identity, str]:
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
    return {opened(each, secret): name for each, name in found.items()}


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


def removed(directory: Path) -> set[str]:
    """Marks of servers that `hubd remove` took out of the imported files (`config.editing.imported`)."""
    found: set[str] = set()
    for path in directory.glob("*.toml"):
        with suppress(Problem):
            found |= removed_in(read(path))
    return found


# --- what would be written --------------------------------------------------------------------------------------------


def imported_files(result: Import, directory: Path, environ: Mapping[str, str]) -> list[Write]:
    """The files of all hosts that something of the user was taken from; each would be sound. What could not be used is
    given back. Servers of projects have files of their own (`project_import`).

    Raises:
        EditError: one cannot be read.
    """
    hosts = {each.place.host.id: each.place.host for _, each in result.taken if each.place.project is None}.values()
    found = [_imported_file(result, host, directory, environ) for host in hosts]
    return [write for write in found if write is not None]


def _imported_file(result: Import, host: Host, directory: Path, environ: Mapping[str, str]) -> Write | None:
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
        after = imported_text(host.title, host.id, [*old, *(block(name, server) for name, server in mine)])
        wrong = problems_of(path, after, environ, [name for name, _ in mine])
        if not wrong:
            return Write(path, before, after)
        for name, why in wrong.items():
            if name not in {each for each, _ in mine}:  # it was wrong before, or nobody knows where
                _give_back(result, host, f"{path}: {why}")
                return None
            result.refuse(name, why)


def _of(result: Import, host: Host) -> list[tuple[str, Server]]:
    return [each for each in result.taken if each[1].place.host is host and each[1].place.project is None]


def _give_back(result: Import, host: Host, why: str) -> None:
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


def started_anyway(root: Path, machine: Machine) -> tuple[list[str], list[str]]:
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
