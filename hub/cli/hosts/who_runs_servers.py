"""Who runs servers: the hub, if they work through it; hosts, which start them by themselves; or nobody any longer.

Only what is connected through the hub now, or was within a day, may be taken out of hosts.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from config.diagnostics import ConfigError, EditError
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Identity, Server, Skipped, identities, survey
from config.hosts.hub_entries import Records, our_entries
from config.hosts.install import text_at
from config.hosts.known_hosts import Machine, Place, all_hosts, every_user_file
from config.hosts.removal_choice import SIGN_IN
from config.hosts.removed_originals import Originals, restore
from config.hosts.servers_in_hub import import_directory, names_by_identity
from config.hub_paths import originals_path
from config.loading.assemble import load_all
from config.settings import HubConfig
from hub.cli.await_server_starts import ServerOutcome, watch
from hub.cli.background_hub import start_hub
from hub.cli.context import Output, UsageError, client
from hub.cli.render.words import last_words
from hub.control.answers import Status, UpstreamRow
from hub.control.client_errors import ControlFailed, HubNotRunning
from hub.control.methods import RELOAD, STATUS

LIMIT_S: Final = 45.0
"""Seconds that a command waits for servers that are not being installed."""


def find_unserved(
    names: Sequence[str], output: Output, *, main: Path, can_start: bool = True, projects: Mapping[str, Path] = {}
) -> dict[str, str]:
    """Of each server the reason why the hub does not serve it; "": it does. If no hub runs one is started, and the
    servers are waited for.

    `main` is the main file that the hub must have; `can_start`: it is the usual one, which a new hub would use.
    `projects`: servers that are only in the file of a project, which run while a host works there. Raises UsageError:
    the hub uses another main file; HubNotRunning, ControlFailed, NotUnderstood: as `ControlClient`; ConfigError: the
    configuration or the directories of the hub cannot be used."""
    if not names and not projects:
        return {}
    if can_start and start_hub():
        output.note("the hub was started, since only a hub that runs can tell which servers work")
    with client() as hub:
        refuse_other(hub.request(STATUS), main)
        hub.request(RELOAD)  # it takes up changed files by itself, but somewhat later
        watch(hub, names, output, limit_s=LIMIT_S)
        status = hub.request(STATUS)
        return reasons(names, status) | {name: _why_not_in(project, name, status) for name, project in projects.items()}


def _why_not_in(project: Path, name: str, status: Status) -> str:
    endpoint = next((each.endpoint for each in status.projects if each.root == os.path.realpath(project)), None)
    if endpoint is None:
        return f"the hub starts it for hosts that work in {project}, and none does now"
    name = f"{name}@{endpoint.rpartition('@')[2]}"
    return why_not_served(next((row for row in status.upstreams if row.name == name), None))


def outcomes_in_hub(names: Sequence[str], output: Output, *, main: Path) -> dict[str, ServerOutcome]:
    """The outcomes of servers in a hub that runs with this main file: each is waited for a while. Empty: none runs."""
    try:
        with client() as hub:
            refuse_other(hub.request(STATUS), main)
            hub.request(RELOAD)
            return watch(hub, names, output) if names else {}
    except (HubNotRunning, ControlFailed, UsageError):
        return {}


def status_of(main: Path) -> Status:
    """The status of the hub that runs with this main file. Raises UsageError: it uses another one; HubNotRunning,
    ControlFailed, NotUnderstood: as `ControlClient`."""
    with client() as hub:
        status = hub.request(STATUS)
    refuse_other(status, main)
    return status


def refuse_other(status: Status, main: Path) -> None:
    """Return if this is the status of a hub with the main file `main`. Raises UsageError: it uses another one."""
    used = status.config.watched
    if used and str(main) not in used:
        raise UsageError(f"the hub that runs uses {used[0]}, not {main}: stop it first by `hubd stop`")


def reasons(names: Collection[str], status: Status) -> dict[str, str]:
    """Of each server the reason why the hub does not serve it; "": it does. Pure."""
    rows = {row.name: row for row in status.upstreams}
    return {name: why_not_served(rows.get(name)) for name in names}


def why_not_served(row: UpstreamRow | None) -> str:
    """The reason why the hub does not serve a server, by its row in the status; "": it does. Pure."""
    if row is None:
        return "the running hub does not have it"
    if row.state == "unauthorized":
        return SIGN_IN
    if row.state == "connected" or (row.connected_ago_s is not None and row.state != "disabled"):
        return ""
    words = last_words(row.last_error) if row.last_error else ""
    if row.state in ("failed", "unresolved"):
        return f"{row.state}: {words}" if words else row.state
    if row.state == "disabled":
        return f"the hub has it disabled; run `hubd enable {row.name}` first"
    if row.state == "idle":
        return f"it was not started within a day; `hubd restart {row.name}` starts it"
    return f"not connected yet: {words}" if words else "not connected yet"


def hosts_that_lost(name: str, named: Path | None) -> list[Place]:
    """The files of hosts that had the server `name` of the hub until it was taken out, if no host starts it now. Nobody
    is kept from removing a server by what cannot be read here. `named`: the main file, None: the user's own."""
    machine, lost = Machine.this(), []
    with suppress(ConfigError, EditError):
        config, names = _load_names(named)
        if _has_a_twin(name, config):
            return []
        out = Originals(originals_path())
        for place in _places(machine, out):
            with suppress(EditError, EditRefused):
                text = text_at(place.path)
                if _has(place, text, name, names, machine):
                    return []
                before, _ = restore(text, [each for each in out.of(place) if each.is_out(text)])
                if _has(place, before, name, names, machine):
                    lost.append(place)
    return lost


def _load_names(named: Path | None) -> tuple[HubConfig, dict[Identity, str]]:
    """The configuration, and the names of its servers by identity. Raises: ConfigError, if it cannot be read."""
    config = load_all(named, os.environ, partly=True).config
    return config, names_by_identity(config, import_directory(named), os.environ)


def _has_a_twin(name: str, config: HubConfig) -> bool:
    """True if another server of the hub is started by the same command, or has the same URL."""
    own = {key: each for key, each in config.upstreams.items() if key == name}
    others = {key: each for key, each in config.upstreams.items() if key != name}
    return bool(identities(replace(config, upstreams=own)).keys() & identities(replace(config, upstreams=others)))


def hosts_that_start(name: str) -> list[Place]:
    """The files of hosts that start the server `name` of the hub by themselves, as far as they can be read."""
    machine, found = Machine.this(), []
    with suppress(ConfigError, EditError):
        _, names = _load_names(None)
        for place in (file for host in all_hosts().values() for file in every_user_file(host, machine)):
            with suppress(EditError, EditRefused, OSError):
                if _has(place, text_at(place.path), name, names, machine):
                    found.append(place)
    return found


def say_lost(name: str, lost: Sequence[Place], output: Output) -> None:
    """Say that no host starts the server `name`, and how to have it back."""
    if lost:
        titles, ids = (list(dict.fromkeys(each)) for each in zip(*((it.title, it.host.id) for it in lost), strict=True))
        output.note(
            f"no host starts {name} any longer: it was taken out of {', '.join(titles)}. To have it back, put the file "
            f"from before in its place, or give {'these hosts' if len(titles) > 1 else 'this host'} back all that was "
            f"taken out: `hubd uninstall {' '.join(ids)} --restore-originals`"
        )


def _places(machine: Machine, out: Originals) -> Iterator[Place]:
    """The files of hosts that exist, and those that something was taken out of."""
    hosts = all_hosts()
    found = {(each.path, host.id): each for host in hosts.values() for each in every_user_file(host, machine)}
    for path in out.all():
        for each in out.get(path) or ():
            if (host := hosts.get(each.host)) is not None:
                project = None if each.project is None else Path(each.project)
                found.setdefault((path, host.id), Place(host, path, host.title, project))
    yield from found.values()


def read_servers(place: Place, machine: Machine, records: Records) -> tuple[list[Server], list[Skipped]]:
    """The servers in the file of a host, without our own entries, and what is none. Raises EditError, EditRefused: it
    cannot be read."""
    text = text_at(place.path, trusted=True)
    servers, skipped = survey(place, text, machine.environ, machine.home)
    ours = our_entries(place, serverfile.entries(place.kept, text), records)
    return [server for server in servers if server.key not in ours], skipped  # one by URL looks like any other server


def _has(place: Place, text: str, name: str, names: Mapping[Any, str], machine: Machine) -> bool:
    servers, _ = survey(place, text, machine.environ, machine.home)
    return any(name in (names.get(each.identity), names.get(each.original)) for each in servers if not each.off)
