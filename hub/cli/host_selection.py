"""Selection of hosts, and of their files, by the words of a command line."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hub.cli.subcommand import UsageError, nearest

if TYPE_CHECKING:
    from config.hosts.facts import Host, Machine, Place


def chosen_places(options: argparse.Namespace, machine: "Machine") -> list["Place"]:
    """The files of the named hosts, or of all hosts that are here; each file once.

    Raises:
        UsageError: a named host is not known, or has no file here.
    """
    from config.hosts.facts import project_place, user_places

    places: list[Place] = []
    project = project_of(options)
    for host in chosen_hosts(options, machine):
        if project is not None:
            place = project_place(host, project)
            if place is None and options.hosts:
                raise UsageError(f"{host.title} has no file for projects")
            found = [] if place is None else [place]
        else:
            found = user_places(host, machine)
            if not found and options.hosts:
                raise UsageError(f"{host.title} is an extension, and is found in no editor of this machine")
        places += [each for each in found if each.path not in {place.path for place in places}]
    if not places:
        raise UsageError("no hosts are found on this machine; name one to install the hub for it anyway")
    return places


def project_of(options: argparse.Namespace) -> Path | None:
    """The folder of --project as an absolute path; None: the option is not given.

    Raises:
        UsageError: there is no such folder.
    """
    if options.project is None:
        return None
    project = Path(os.path.abspath(options.project.expanduser()))
    if not project.is_dir():
        raise UsageError(f"--project: there is no directory {project}")
    return project


def chosen_hosts(options: argparse.Namespace, machine: "Machine") -> list["Host"]:
    """The named hosts, else all that are here.

    Raises:
        UsageError: a named host is not known.
    """
    from config.hosts.facts import all_hosts, is_found

    known = all_hosts()
    for name in options.hosts:
        if name not in known:
            hint = nearest(name, known) or f"known are: {', '.join(known)}"
            raise UsageError(f"there is no host {name}; {hint}")
    if options.hosts:
        return [known[name] for name in dict.fromkeys(options.hosts)]
    return [host for host in known.values() if is_found(host, machine)]
