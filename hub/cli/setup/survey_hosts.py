"""Survey of the hosts of this machine, and of the servers in their files. Nothing is changed here."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from config.diagnostics import EditError
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Server, Skipped
from config.hosts.hub_entries import Records
from config.hosts.install import Plan
from config.hosts.known_hosts import KnownHost, Machine, Place, every_user_file, user_places
from hub.cli.hosts.who_runs_servers import read_servers


class Survey(Struct, frozen=True):
    """The servers and files of hosts."""

    places: list[Place]
    """The file of each host that gets the hub."""
    servers: list[Server]
    """In the order of the hosts."""
    skipped: list[Skipped]
    """Entries that are no servers to take over."""
    unreadable: list[tuple[Place, str]]
    """Files that are left alone, since they cannot be read, and the reasons."""

    @property
    def titles(self) -> list[str]:
        """The names of the hosts, for people."""
        return list(dict.fromkeys(place.title for place in self.places))

    def without_refused(self, installs: Sequence[Plan]) -> "Survey":
        """The same without the servers of hosts that cannot get the hub: they keep them, and would have them twice."""
        able = {each.place.host.id for each in installs if each.did != "refused"}
        why = {each.place.host.id: each.why for each in installs if each.place.host.id not in able}
        kept = [each for each in self.servers if each.place.host.id not in why]
        left = [each for each in self.servers if each.place.host.id in why]
        skipped = [Skipped(each.place, each.key, why[each.place.host.id]) for each in left]
        return structs.replace(self, servers=kept, skipped=[*self.skipped, *skipped])


def survey_hosts(hosts: Sequence[KnownHost], machine: Machine, records: Records) -> Survey:
    """Read the user's files of these hosts."""
    found = Survey([], [], [], [])
    firsts: dict[tuple[str, tuple[str, ...]], Place] = {}
    for host in hosts:
        passed_over: set[Path] = set()
        for place in every_user_file(host, machine):
            first = firsts.setdefault((os.path.realpath(place.path), place.kept.root), place)
            if first is not place:  # a link to the same entries
                passed_over.add(place.path)
                continue
            try:
                servers, skipped = read_servers(place, machine, records)
            except (EditError, EditRefused) as error:
                found.unreadable.append((place, str(error).removeprefix(f"{place.path}: ")))
                passed_over.add(place.path)
                continue
            found.servers.extend(servers)
            found.skipped.extend(skipped)
        known = {each.path for each in found.places} | passed_over
        found.places.extend(place for place in user_places(host, machine) if place.path not in known)
    return found
