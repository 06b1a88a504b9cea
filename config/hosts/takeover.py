"""An import as a whole: which files it would write, what hosts would no longer start, and doing it.

`importing` decides about servers; here nothing is written before `carry_out`, and no file that the hub could not use.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from config.errors import ConfigError
from config.files import read_file, replace_file
from config.gather import IMPORTED
from config.hosts.facts import Host, Place
from config.hosts.importing import Import, block, blocks_of, identities_in, imported_text
from config.hosts.installed import own_program, text_at
from config.hosts.survey import Identity, identities
from config.layers import load_all
from config.paths import backup_dir, config_file
from config.schema import HubConfig
from config.source import Problem
from config.text.change import Refused
from config.text.serverfile import assign, remove
from config.variables import Variables


class Write(Struct, frozen=True):
    """A file to be written."""

    path: Path
    before: str | None
    after: str
    place: Place | None = None
    """If it is a host's own file."""


class Originals(Struct, frozen=True):
    """How hosts stop starting what the hub has."""

    writes: list[Write]
    programs: list[tuple[str, ...]]
    """Commands of hosts that change their files themselves."""
    refused: list[str]
    """What stays on, and why."""


def imported_dir(named: Path | None) -> Path:
    """Where imported servers are kept: beside the main file, the usual one if none is named."""
    return Path(os.path.abspath((named or config_file()).expanduser())).parent / IMPORTED


def known(config: HubConfig, directory: Path, environ: Mapping[str, str]) -> dict[Identity, str]:
    """What hubd has already by its configuration and in the directory of imported servers: names by identity."""
    found: dict[Identity, str] = {}
    for path in sorted(directory.glob("*.toml")):
        with suppress(Problem, OSError, UnicodeDecodeError):
            found |= identities_in(path.read_text(), Variables(environ, path.parent))
    return found | identities(config)


# --- what would be written --------------------------------------------------------------------------------------------


def imported_files(result: Import, directory: Path, environ: Mapping[str, str]) -> list[Write]:
    """The files of all hosts that something was taken from; each would be sound. What could not be used is given back.

    Raises:
        EditError: one cannot be read.
    """
    hosts = {server.place.host.id: server.place.host for _, server in result.taken}.values()
    found = [_imported_file(result, host, directory, environ) for host in hosts]
    return [write for write in found if write is not None]


def _imported_file(result: Import, host: Host, directory: Path, environ: Mapping[str, str]) -> Write | None:
    path = directory / f"{host.id}.toml"
    data = read_file(path)
    before = None if data is None else data.decode(errors="replace")
    try:
        old = [] if before is None else blocks_of(before)
    except Refused as refused:
        hint = "move what you changed to hubd.toml and delete the file, then import again"
        _give_back(result, host, f"{path} {refused}: {hint}")
        return None
    while True:
        mine = [(name, server) for name, server in result.taken if server.place.host is host]
        if not mine:
            return None
        after = imported_text(host.title, host.id, [*old, *(block(name, server) for name, server in mine)])
        wrong = _problems(path, after, environ)
        if not wrong:
            return Write(path, before, after)
        for name, why in wrong.items():
            if name not in {each for each, _ in mine}:  # it was wrong before, or nobody knows where
                _give_back(result, host, f"{path}: {why}")
                return None
            result.refuse(name, why)


def _give_back(result: Import, host: Host, why: str) -> None:
    for name in [name for name, server in result.taken if server.place.host is host]:
        result.refuse(name, why)


def _problems(path: Path, text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What hubd would say to such a file, by upstream."""
    try:
        load_all(path, environ, texts={path: text})
    except ConfigError as error:
        return {each.keys[1] if len(each.keys) > 1 else "": each.text for each in error.remarks} or {"": str(error)}
    return {}


def originals(result: Import, environ: Mapping[str, str]) -> Originals:
    """How the hosts stop starting what the hub has then.

    Raises:
        EditError: a file cannot be read.
    """
    writes: dict[Path, Write] = {}
    programs: list[tuple[str, ...]] = []
    refused = []
    for name, server in (*result.taken, *result.known):
        place, host = server.place, server.place.host
        if server.off:
            continue
        program = None if place.project else own_program(host, environ)
        if program is not None:
            programs.append((program, "mcp", "remove", "-s", "user", server.key))
            continue
        try:
            was = writes.get(place.path)
            text = was.after if was else text_at(place.path)
            if host.off:
                ((setting, value),) = host.off.items()
                edit = assign(place.kept, text, server.key, setting, value)
            else:
                edit = remove(place.kept, text, server.key)
        except Refused as reason:
            refused.append(f'{place.title}: "{server.key}" stays on: {reason}; turn it off there, hubd has {name}')
            continue
        writes[place.path] = Write(place.path, was.before if was else text, edit.apply(text), place)
    return Originals(list(writes.values()), programs, refused)


# --- and writing it ---------------------------------------------------------------------------------------------------


def carry_out(write: Write, now: datetime) -> Path | None:
    """Put one file in place; the backup, if there was one before. `locked` is the caller's.

    Raises:
        EditError: it was changed meanwhile, or cannot be written; it was left as it is.
    """
    was = None if write.before is None else write.before.encode()
    return replace_file(write.path, write.after.encode(), was=was, now=now, backups=backup_dir())
