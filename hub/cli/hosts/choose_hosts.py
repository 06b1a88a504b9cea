"""Hosts that a command is about, and their files."""

import os
from pathlib import Path

from config.hosts import known_hosts
from config.hosts.known_hosts import project_places, user_places
from hub.cli.context import Context, UsageError, nearest


def choose_places(options: Context) -> list[known_hosts.Place]:
    """The files of the named hosts, or of all hosts that are here; each file once. Raises UsageError: a named host is
    not known, or has no file here."""
    places: list[known_hosts.Place] = []
    project = project_of(options)
    for host in choose_hosts(options):
        found = user_places(host, options.machine) if project is None else project_places(host, project)
        if not found and options.hosts:
            lacks = "is an extension, and is found in no editor of this machine"
            raise UsageError(f"{host.title} {lacks if project is None else 'has no file for projects'}")
        places += [each for each in found if each.path not in {place.path for place in places}]
    if not places:
        raise UsageError("no hosts are found on this machine; name one to install the hub for it anyway")
    return places


def project_of(options: Context) -> Path | None:
    """The folder of --project as an absolute path; None: the option is not given. Raises UsageError: there is no such
    folder."""
    if options.project is None:
        return None
    project = Path(os.path.abspath(options.project.expanduser()))
    if not project.is_dir():
        raise UsageError(f"--project: there is no directory {project}")
    return project


def choose_hosts(options: Context) -> list[known_hosts.KnownHost]:
    """The named hosts, else all that are here. Raises: UsageError, if a named host is not known."""
    known = known_hosts.all_hosts()
    for name in options.hosts:
        if name not in known:
            hint = nearest(name, known) or f"known are: {', '.join(known)}"
            raise UsageError(f"there is no host {name}; {hint}")
    if options.hosts:
        return [known[name] for name in dict.fromkeys(options.hosts)]
    return [host for host in known.values() if known_hosts.is_found(host, options.machine)]
