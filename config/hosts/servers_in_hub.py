"""Servers that the hub has already, by identity, before an import; and those that hosts start beside it."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import structs

from config.diagnostics import EditError, Problem
from config.editing.imported_file import marks_of_removal
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Identity, identities, survey
from config.hosts.import_plan import identities_in
from config.hosts.install import text_at
from config.hosts.known_hosts import Machine, Place, all_hosts, is_found
from config.hosts.secret_literals import open_references
from config.hub_paths import config_file
from config.loading.assemble import Loaded, load_all
from config.loading.document import parse
from config.loading.gather import IMPORTED
from config.loading.variables import Variables
from config.safe_reading import PROJECT_FILES, read
from config.secrets.store import SecretStore, SecretUnavailable
from config.settings import HubConfig


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
