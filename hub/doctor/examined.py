"""What the checks look at, and what they find."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from config.errors import ConfigError, EditError
from config.hosts.entry import KEY
from config.hosts.facts import Machine, Place, all_hosts, every_user_file, is_found, user_places
from config.hosts.installed import Record, Records, text_at
from config.hosts.survey import Server, survey
from config.layers import Loaded, load_all
from config.schema import HubConfig, UpstreamConfig
from config.source import read_private
from config.text import serverfile
from config.text.change import Refused

GUI_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"
"""What a program has as PATH that no shell has started."""

MAX_TOKEN_BYTES: Final = 2048


class Finding(Struct, frozen=True):
    """One thing to know. `problem`: something does not work; `warning`: it will not always, or costs something."""

    check: str
    level: Literal["problem", "warning", "note"]
    what: str
    why: str
    fix: str
    server: str = ""
    """The upstream that it is about; "" if it is about none."""


class HostFile(Struct, frozen=True):
    """One file of a host that is here, as far as it could be read."""

    place: Place
    exists: bool
    entry: Any = None
    """Ours, or what has its name."""
    record: Record | None = None
    servers: tuple[Server, ...] = ()
    error: str = ""


class Examined(Struct, frozen=True, kw_only=True):
    """What the checks look at."""

    machine: Machine
    version: str
    status: Mapping[str, Any] | None
    """What the running hub says of itself; None: none runs."""
    loaded: Loaded | None
    error: ConfigError | None
    files: tuple[HostFile, ...]
    token: str | None
    """The one that the hub made."""
    trust: Path
    """Which projects the user allowed."""
    directory: Path
    """Where the user is at work."""
    ask: Callable[[Path], Mapping[str, Any] | None]
    """What the hub says of itself whose control socket is there; None: it does not."""

    @property
    def config(self) -> HubConfig:
        return HubConfig() if self.loaded is None else self.loaded.config

    @property
    def wanted(self) -> str | None:
        """The token that HTTP asks for."""
        return self.token if self.config.token is None else self.config.token.reveal()

    def upstreams(self) -> Iterator[tuple[str, UpstreamConfig]]:
        """Those that are started, by name."""
        return ((name, each) for name, each in self.config.upstreams.items() if not each.disabled)


def examine(
    machine: Machine,
    *,
    version: str,
    status: Mapping[str, Any] | None,
    records: Path,
    token: Path,
    trust: Path,
    directory: Path,
    config: Path | None = None,
    ask: Callable[[Path], Mapping[str, Any] | None] = lambda path: None,
) -> Examined:
    """Read the configuration (`config`, or the user's own) and the files of all hosts that are here."""
    loaded, error = None, None
    try:
        loaded = load_all(config, machine.environ)
    except ConfigError as found:
        error = found
        with suppress(ConfigError):  # as a hub starts with it
            loaded = load_all(config, machine.environ, partly=True)
    secret = None
    with suppress(OSError):
        secret = read_private(token, MAX_TOKEN_BYTES).data.decode(errors="replace").strip()
    return Examined(
        machine=machine,
        version=version,
        status=status,
        loaded=loaded,
        error=error,
        files=tuple(_host_files(machine, Records(records))),
        token=secret,
        trust=trust,
        directory=directory,
        ask=ask,
    )


def _host_files(machine: Machine, records: Records) -> Iterator[HostFile]:
    """Of all hosts that are here."""
    for host in all_hosts().values():
        if is_found(host, machine):
            for place in _places(machine, host.id):
                yield _host_file(place, records, machine)


def _places(machine: Machine, id: str) -> list[Place]:
    host = all_hosts()[id]
    return [*every_user_file(host, machine), *(each for each in user_places(host, machine) if not each.path.exists())]


def _host_file(place: Place, records: Records, machine: Machine) -> HostFile:
    if not place.path.exists():
        return HostFile(place, exists=False)
    try:
        text = text_at(place.path)
        entry = serverfile.entries(place.kept, text).get(KEY)
        servers, _ = survey(place, text, machine.environ, machine.home)
    except (EditError, Refused) as error:
        return HostFile(place, exists=True, error=str(error))
    return HostFile(place, exists=True, entry=entry, record=records.get(place.path), servers=tuple(servers))
