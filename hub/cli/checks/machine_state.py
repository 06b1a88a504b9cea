"""State of this machine, the input of all checks (`MachineState`), and how it is found out."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from config.diagnostics import ConfigError, EditError
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Server, survey
from config.hosts.hub_entries import Record, Records, hub_entry
from config.hosts.install import text_at
from config.hosts.known_hosts import Machine, Place, all_hosts, every_user_file, is_found, user_places
from config.loading.assemble import Loaded, load_all
from config.safe_reading import read_private
from config.settings import HubConfig, UpstreamConfig
from hub.cli.checks.findings import Finding, unreadable
from hub.cli.hosts.who_runs_servers import why_not_served
from hub.control.answers import Status
from hub.control.sign_in_messages import SignInTrial

GUI_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"
"""The PATH of a program that no shell has started."""

MAX_TOKEN_BYTES: Final = 2048


class HostFile(Struct, frozen=True):
    """One file of a host that is here, as far as it could be read."""

    place: Place
    entry: Any = None
    """The hub's entry, or another one of that name."""
    record: Record | None = None
    servers: tuple[Server, ...] = ()
    error: str = ""


UNREADABLE: Final = Loaded(config=HubConfig())
"""Stands for a configuration that cannot be used."""


class MachineState(Struct, frozen=True, kw_only=True):
    """The state of this machine that the checks examine."""

    machine: Machine
    version: str
    status: Status | None
    """The status of the running hub; None: none runs, or it hangs."""
    hangs: str = ""
    """The sentence on a hub that hangs; "": it answers, or none runs."""
    loaded: Loaded = UNREADABLE
    error: ConfigError | None = None
    files: tuple[HostFile, ...] = ()
    token: str | None = None
    """The token in the hub's token file."""
    trust: Path = Path()
    """The file of the projects that the user allowed."""
    directory: Path
    """The user's working directory."""
    unread: tuple[Finding, ...] = ()
    """Findings on the hub's own files that could not be read."""
    status_at: Callable[[Path], Status | None] = lambda path: None
    """Fetches the status of the hub behind a control socket; None: it does not answer."""
    root: bool = False
    """This process has the rights of root, outside of a container."""
    trials: Callable[[], Mapping[str, SignInTrial]] = dict
    """The prospects of the sign-ins that servers wait for, by server. The hub asks others for that."""
    served: frozenset[str] = frozenset()
    """Servers that work through the hub: they are connected now, or were within a day."""

    @property
    def config(self) -> HubConfig:
        return self.loaded.config

    @property
    def seen(self) -> Status:
        """The status of the running hub; an empty one, if none runs."""
        return self.status or Status()

    @property
    def wanted(self) -> str | None:
        """The token that hosts must show over HTTP."""
        return self.token if self.config.token is None else self.config.token.reveal()

    def upstreams(self) -> Iterator[tuple[str, UpstreamConfig]]:
        """The upstreams that are not disabled, by name."""
        return ((name, each) for name, each in self.config.upstreams.items() if not each.disabled)


def examine(
    known: MachineState, state: Path, config: Path | None, lately: Callable[[UpstreamConfig], bool]
) -> MachineState:
    """`known` with the configuration (`config`, or the user's own) and the files of all hosts that are here. `state`:
    the hub's directory of state; `lately`: whether a hub was connected to a server within a day, asked where none runs.
    """
    machine = known.machine
    loaded, error = UNREADABLE, None
    try:
        loaded = load_all(config, machine.environ)
    except ConfigError as found:
        error = found
        with suppress(ConfigError):  # a hub starts with these parts
            loaded = load_all(config, machine.environ, partly=True)
    unread: list[Finding] = []
    records: Records | None = None
    try:
        records = Records(path := state / "installed.json")
    except EditError as wrong:
        unread.append(unreadable(path, str(wrong).removeprefix(f"{path}: ")))
    served = [row.name for row in known.seen.upstreams if not why_not_served(row)]
    if known.status is None:
        served = [name for name, upstream in loaded.config.upstreams.items() if lately(upstream)]
    files = tuple(_host_files(machine, records, unread))
    facts = {"loaded": loaded, "error": error, "files": files, "unread": tuple(unread), "token": own_token(state)}
    return structs.replace(known, **facts, trust=state / "trust.json", served=frozenset(served))


def own_token(state: Path) -> str | None:
    """The token in the hub's directory of state; None: none was made yet, or it cannot be read."""
    with suppress(OSError):
        return read_private(state / "token", MAX_TOKEN_BYTES).data.decode(errors="replace").strip()
    return None


def _host_files(machine: Machine, records: Records | None, unread: list[Finding]) -> Iterator[HostFile]:
    """Places that cannot be examined are added to `unread`."""
    for host in all_hosts().values():
        try:
            if is_found(host, machine):
                missing = [each for each in user_places(host, machine) if not each.path.exists()]
                places = [*every_user_file(host, machine), *missing]
                yield from [_host_file(place, records, machine) for place in places]
        except OSError as error:
            unread.append(unreadable(error.filename, f"{error.strerror}, so nobody knows whether {host.title} is here"))


def _host_file(place: Place, records: Records | None, machine: Machine) -> HostFile:
    if not place.path.exists():
        return HostFile(place)
    try:
        text = text_at(place.path)
        entry = hub_entry(place, text, records)
        servers, _ = survey(place, text, machine.environ, machine.home)
    except (EditError, EditRefused) as error:
        return HostFile(place, error=str(error))
    record = None if records is None else records.get(place.path)
    return HostFile(place, entry=entry, record=record, servers=tuple(servers))
