"""The hosts that may be on this machine, and the paths of their files of MCP servers.

All facts are data, in `hosts.toml` beside this module; here they are only read and applied to a home directory. No
file of a host is opened.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from config.diagnostics import quote_toml
from config.editing.text.file_shape import Format, Shape
from config.profile_settings import Profile

_VARIABLE = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")


class Editor(Struct, frozen=True, forbid_unknown_fields=True):
    """An editor whose extensions are hosts; where it keeps the user's data."""

    title: str
    linux: str


class SubagentForm(Struct, frozen=True, forbid_unknown_fields=True):
    """The files in which a host describes subagents; the fields are described in `hosts.toml`."""

    file: str
    project: str
    servers: str
    tools: str = ""
    listed: bool = False

    @property
    def is_toml(self) -> bool:
        return self.file.endswith(".toml")


class KnownHost(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One program that starts MCP servers; the fields are described in `hosts.toml`."""

    id: str
    title: str
    clients: tuple[str, ...] = ()
    format: Format
    root: tuple[str, ...]
    listed: bool = False
    linux: tuple[str, ...]
    project: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    program: str | None = None
    stdio: dict[str, Any]
    environment: str = "env"
    http: dict[str, Any] | None = None
    off: dict[str, bool] = {}
    permissions: tuple[str, ...] = ()
    project_permissions: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    project_agents: tuple[str, ...] = ()
    subagent: SubagentForm | None = None
    variables: str = ""
    skeleton: str = ""
    note: str = ""
    defers: bool | None = None
    tool_limit: int | None = None
    spare_tokens: int | None = None
    lists_once: bool = False

    @property
    def shape(self) -> Shape:
        return Shape(self.format, self.root, self.listed)


class Place(Struct, frozen=True):
    """One file of a host."""

    host: KnownHost
    path: Path
    title: str
    """The host, and the editor or project it is in."""
    project: Path | None = None
    shape: Shape | None = None
    """The form of this file, if it is not the usual one of the host."""

    @property
    def kept(self) -> Shape:
        return self.shape or self.host.shape


class Machine(Struct, frozen=True):
    """The home directory and environment whose hosts are meant."""

    home: Path
    environ: Mapping[str, str]

    @classmethod
    def this(cls) -> "Machine":
        """The machine and the user that this process runs for."""
        return cls(Path.home(), os.environ)

    def path(self, text: str, editor: str = "") -> Path:
        """A path of `hosts.toml` here. Variables must name absolute directories, others are passed over."""
        text = text.replace("{editor}", editor)
        text = _VARIABLE.sub(lambda found: self._directory(found[1]) or found[2], text)
        return self.home / text[2:] if text.startswith("~/") else Path(text)

    def _directory(self, variable: str) -> str | None:
        value = self.environ.get(variable, "").rstrip("/")
        return value if value.startswith("/") else None


@cache
def all_hosts() -> dict[str, KnownHost]:
    """Every host that is known, by id, in the order of the file."""
    return {id: msgspec.convert({"id": id, **table}, KnownHost) for id, table in _data()["hosts"].items()}


def hosts_that_list_once() -> frozenset[str]:
    """The labels of hosts that notice a changed list only when they are restarted."""
    return frozenset(host.id for host in all_hosts().values() if host.lists_once)


@cache
def _editors() -> dict[str, Editor]:
    return msgspec.convert(_data()["editors"], dict[str, Editor])


def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("hosts.toml").read_text())


def user_places(host: KnownHost, machine: Machine) -> list[Place]:
    """The user's files of `host` on `machine`, whether they exist or not: one, or one for each editor that is there."""
    return [
        Place(host, _first([machine.path(text, directory) for text in host.linux]), _title(host, title))
        for title, directory in _directories(host, machine)
    ]


def every_user_file(host: KnownHost, machine: Machine) -> list[Place]:
    """The user's files that exist; a host may read several."""
    return [
        Place(host, path, _title(host, title))
        for title, directory in _directories(host, machine)
        for text in host.linux
        if (path := machine.path(text, directory)).exists()
    ]


def project_places(host: KnownHost, project: Path) -> list[Place]:
    """The file to write in a project, if the host has one."""
    paths = [project / text for text in host.project if "*" not in text]
    return [Place(host, _first(paths), f"{host.title} in {project}", project)] if paths else []


def project_files(host: KnownHost, project: Path, machine: Machine) -> list[Place]:
    """All that is there for one project, in the project itself and in the user's file."""
    title = f"{host.title} in {project}"
    found = [path for text in host.project for path in sorted(project.glob(text))]
    places = [Place(host, path, title, project) for path in dict.fromkeys(found) if path.is_file()]
    return [*places, *(local_place(each, project) for each in every_user_file(host, machine) if host.local)]


def local_place(place: Place, project: Path) -> Place:
    """The servers of one project in a user's file."""
    host = place.host
    shape = Shape(host.format, tuple(name.replace("{project}", str(project)) for name in host.local))
    return Place(host, place.path, f"{host.title} in {project}", project, shape)


def is_found(host: KnownHost, machine: Machine) -> bool:
    """True if the host seems to be on this machine."""
    if host.editors:
        return bool(_directories(host, machine))
    if host.program is not None and shutil.which(host.program, path=machine.environ.get("PATH", "")):
        return True
    return any(machine.path(text).exists() for text in (*host.signs, *host.linux))


def _directories(host: KnownHost, machine: Machine) -> list[tuple[str, str]]:
    """Titles and user directories of the editors that are there, with a sign of the host; one of no name, if it needs
    no editor."""
    if not host.editors:
        return [("", "")]
    editors = [(each.title, str(machine.path(each.linux))) for each in map(_editors().__getitem__, host.editors)]
    signs = host.signs or ("{editor}",)
    return [(title, path) for title, path in editors if any(machine.path(sign, path).exists() for sign in signs)]


def _title(host: KnownHost, editor: str) -> str:
    """An extension is in an editor; VS Code itself is one."""
    if not editor:
        return host.title
    return f"{host.title} in {editor}" if host.signs else editor


def _first(paths: list[Path]) -> Path:
    """The first that exists, else the first."""
    return next((path for path in paths if path.exists()), paths[0])


LIKE: Final = 0.8
"""The likeness of a label to a known one from which it is probably that one, mistyped."""
MAX_LABELS: Final = 64
"""Labels of a profile that are compared."""
MAX_CHARS: Final = 64


def find_mistyped(profiles: Mapping[str, Profile], in_use: Collection[str]) -> Iterator[tuple[str, str]]:
    """Profiles by name, each with a sentence on a label in its `hosts` that is probably mistyped. Labels are free, so
    one that is like no known host is not doubted, and neither is one of those `in_use`, which hosts have."""
    known = list(all_hosts())
    for name, profile in profiles.items():
        for label in profile.hosts[:MAX_LABELS]:
            if label in known or label in in_use or len(label) > MAX_CHARS:
                continue
            from difflib import get_close_matches  # not above: it is large, and most hubs never need it

            near = get_close_matches(label, known, 1, LIKE)
            if near and not label.startswith(near[0]):  # as in `cursor-work`, which is meant
                text = f"no host that hubd knows has the label {quote_toml(label)}"
                yield name, f'{text}; did you mean "{near[0]}"?'
