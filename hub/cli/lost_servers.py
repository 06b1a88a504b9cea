"""Servers that hosts start by themselves, and those that none does any longer, since imports took them out there."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.subcommand import Output

if TYPE_CHECKING:
    from config.hosts.facts import Machine, Place
    from config.hosts.originals import Originals


def hosts_that_lost(name: str, named: Path | None) -> "list[Place]":
    """The files of hosts that had the server `name` of the hub until it was taken out, if no host starts it now.
    Nobody is kept from removing a server by what cannot be read here. `named`: the main file, None: the user's own.
    """
    from config.errors import ConfigError, EditError

    try:
        return _hosts_that_lost(name, named)
    except (ConfigError, EditError):
        return []


def _hosts_that_lost(name: str, named: Path | None) -> "list[Place]":
    """The same.

    Raises:
        ConfigError: the configuration cannot be read.
        EditError: nobody knows what imports took out.
    """
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.facts import Machine
    from config.hosts.import_writing import imported_dir, known
    from config.hosts.install import text_at
    from config.hosts.originals import Originals, put_back
    from config.hub_paths import originals_path
    from config.loading.assemble import load_all

    machine, out = Machine.this(), Originals(originals_path())
    names = known(load_all(named, os.environ, partly=True).config, imported_dir(named), os.environ)
    lost = []
    for place in _places(machine, out):
        with suppress(EditError, EditRefused):
            text = text_at(place.path)
            if _has(place, text, name, names, machine):
                return []
            before, _ = put_back(text, [each for each in _of(place, out) if each.is_out(text)])
            if _has(place, before, name, names, machine):
                lost.append(place)
    return lost


def hosts_that_start(name: str) -> "list[Place]":
    """The files of hosts that start the server `name` of the hub by themselves, as far as they can be read."""
    from config.editing.text.change import EditRefused
    from config.errors import ConfigError, EditError
    from config.hosts.facts import Machine, all_hosts, every_user_file
    from config.hosts.import_writing import imported_dir, known
    from config.hosts.install import text_at
    from config.loading.assemble import load_all

    machine, found = Machine.this(), []
    try:
        names = known(load_all(None, os.environ, partly=True).config, imported_dir(None), os.environ)
    except (ConfigError, EditError):
        return []
    for place in (file for host in all_hosts().values() for file in every_user_file(host, machine)):
        with suppress(EditError, EditRefused, OSError):
            if _has(place, text_at(place.path), name, names, machine):
                found.append(place)
    return found


def say_lost(name: str, lost: "Sequence[Place]", output: Output) -> None:
    """Say that no host starts the server `name`, and how to have it back."""
    if lost:
        titles, ids = (list(dict.fromkeys(each)) for each in zip(*((it.title, it.host.id) for it in lost), strict=True))
        output.note(
            f"no host starts {name} any longer: it was taken out of {', '.join(titles)}. To have it back, put the file "
            f"from before in its place, or give {'these hosts' if len(titles) > 1 else 'this host'} back all that was "
            f"taken out: `hubd uninstall {' '.join(ids)} --restore-originals`"
        )


def _places(machine: "Machine", out: "Originals") -> "Iterator[Place]":
    """The files of hosts that exist, and those that something was taken out of."""
    from config.hosts.facts import Place, all_hosts, every_user_file

    hosts = all_hosts()
    found = {(each.path, host.id): each for host in hosts.values() for each in every_user_file(host, machine)}
    for path in out.all():
        for each in out.get(path) or ():
            if (host := hosts.get(each.host)) is not None:
                project = None if each.project is None else Path(each.project)
                found.setdefault((path, host.id), Place(host, path, host.title, project))
    yield from found.values()


def _of(place: "Place", out: "Originals") -> "list[Any]":
    return out.of(place.path, place.host.id, place.project)


def _has(place: "Place", text: str, name: str, names: Mapping[Any, str], machine: "Machine") -> bool:
    from config.hosts.host_servers import survey

    servers, _ = survey(place, text, machine.environ, machine.home)
    return any(name in (names.get(each.identity), names.get(each.original)) for each in servers if not each.off)
