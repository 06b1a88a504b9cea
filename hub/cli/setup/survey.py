"""The hosts of this machine, and the servers in their files. Nothing is changed here."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

if TYPE_CHECKING:
    from config.hosts.facts import Host, Machine, Place
    from config.hosts.host_servers import Server, Skipped
    from config.hosts.install import Plan
    from config.hosts.installed import Records


class Unreadable(Struct, frozen=True):
    """A file of a host that cannot be read, and is left alone."""

    place: "Place"
    why: str


class Survey(Struct, frozen=True):
    """The servers and files of hosts."""

    places: "list[Place]"
    """The file of each host that gets the hub."""
    servers: "list[Server]"
    """In the order of the hosts."""
    skipped: "list[Skipped]"
    """Entries that are no servers to take over."""
    unreadable: list[Unreadable]
    shared: "list[tuple[Place, Place]]"
    """Files that are links to the one of another host, and that one: it is changed once, for both."""

    @property
    def titles(self) -> list[str]:
        """The names of the hosts, for people."""
        return list(dict.fromkeys(place.title for place in self.places))


def survey_hosts(hosts: "Sequence[Host]", machine: "Machine", records: "Records") -> Survey:
    """Read the user's files of these hosts."""
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.facts import every_user_file, user_places

    found = Survey([], [], [], [], [])
    firsts: dict[tuple[str, tuple[str, ...]], Place] = {}
    for host in hosts:
        files = every_user_file(host, machine)
        passed_over: set[Path] = set()
        for place in files:
            first = firsts.setdefault((os.path.realpath(place.path), place.kept.root), place)
            if first is not place:
                found.shared.append((place, first))
                passed_over.add(place.path)
                continue
            try:
                servers, skipped = _servers(place, machine, records)
            except (EditError, EditRefused) as error:
                found.unreadable.append(Unreadable(place, str(error).removeprefix(f"{place.path}: ")))
                passed_over.add(place.path)
                continue
            found.servers.extend(servers)
            found.skipped.extend(skipped)
        known = {each.path for each in found.places} | passed_over
        found.places.extend(place for place in user_places(host, machine) if place.path not in known)
    return found


def without_refused(survey: Survey, installs: "Sequence[Plan]") -> Survey:
    """The survey without the servers of hosts that cannot get the hub: they keep them, and would have them twice."""
    from config.hosts.host_servers import Skipped

    able = {each.place.host.id for each in installs if each.did != "refused"}
    why = {each.place.host.id: each.why for each in installs if each.place.host.id not in able}
    kept = [each for each in survey.servers if each.place.host.id not in why]
    left = [each for each in survey.servers if each.place.host.id in why]
    skipped = [Skipped(each.place, each.key, why[each.place.host.id]) for each in left]
    return structs.replace(survey, servers=kept, skipped=[*survey.skipped, *skipped])


def _servers(place: "Place", machine: "Machine", records: "Records") -> "tuple[list[Server], list[Skipped]]":
    """The servers in one file, without our own entry.

    Raises:
        EditError, EditRefused: it cannot be read.
    """
    from config.editing.text import serverfile
    from config.hosts.host_servers import survey
    from config.hosts.install import text_at
    from config.hosts.installed import our_entries

    text = text_at(place.path, trusted=True)
    servers, skipped = survey(place, text, machine.environ, machine.home)
    ours = our_entries(place, serverfile.entries(place.kept, text), records)
    return [server for server in servers if server.key not in ours], skipped  # one by URL looks like any other server
