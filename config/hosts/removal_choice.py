"""Servers that hosts stop starting, since the hub serves them; and those that stay with their host, with the reason.

Nothing that works is taken away: whether the hub serves a server is asked of the caller (`Served`), since only a hub
that runs can tell. Here nothing is written; `write_import_to_files.carry_out` does that.
"""

import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct, structs

from config.diagnostics import EditError
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Server
from config.hosts.hub_entries import Records, our_entries
from config.hosts.import_plan import Import
from config.hosts.install import own_program, text_at
from config.hosts.known_hosts import Machine, Place, every_user_file
from config.hosts.removed_originals import is_same_file, original_of, remove_from_host
from config.hosts.write_import_to_files import Write
from config.settings import HubConfig

Served = Mapping[str, str]
"""Of each upstream the reason why the hub does not serve it; "": it does. One that is missing is not served."""

SIGN_IN: Final = "sign-in needed"
"""The reason of servers at which nobody has signed in through the hub."""


def sign_in_of(host: str, key: str, name: str) -> str:
    """The commands by which the hub gets the server `key` of a host, as `name`, and a person signs in there."""
    return f"`hubd import {host} --server {shlex.quote(key)}` and `hubd auth {name}`"


class Stays(Struct, frozen=True):
    """A server that its host goes on starting."""

    place: Place
    key: str
    name: str
    """The hub's name for it."""
    why: str
    kind: Literal["hub", "edit", "not served", "sign-in", "changed"]
    """The host does not have the hub; its file cannot be edited for certain; the hub does not serve it; it is not
    taken, since it wants a sign-in first; the entry is another one by now than the one that was read."""

    @property
    def sentence(self) -> str:
        title = self.place.title
        if self.kind == "hub":
            return f"{title} {self.why}"
        if self.kind == "changed":
            return f'{title}: "{self.key}" in {self.place.path} {self.why}'
        signing = f"`hubd auth {self.name}`"
        if self.kind == "sign-in":
            signing = f"{sign_in_of(self.place.host.id, self.key, self.name)} take it over"
        then = f" ({signing}), then it can leave {title}" if self.why == SIGN_IN else ""
        return f'{title}: "{self.key}" left enabled: {self.why}{then}'


class HostRemovals(Struct, frozen=True):
    """Changes by which hosts stop starting servers that the hub serves."""

    writes: list[Write]
    stays: list[Stays]

    @property
    def sentences(self) -> list[str]:
        """Servers that hosts go on starting, and the reasons, as sentences."""
        return list(dict.fromkeys(each.sentence for each in self.stays))


def plan_host_removals(
    result: Import,
    config: HubConfig,
    machine: Machine,
    records: Records,
    *,
    served: Served,
    forced: Collection[str] = (),
    without_hub: bool = False,
) -> HostRemovals:
    """Changes by which hosts stop starting what the hub serves. `config` is the one before the import.

    A host that does not have the hub would be left without servers, so it keeps its own; unless `without_hub`. Servers
    in `forced`, by the hub's names, are taken out of their hosts whatever the hub makes of them.
    """
    found = HostRemovals([], [])
    for name, server in result.all:
        place = server.place
        if server.off:
            continue
        if name not in forced and (why := _why_it_stays(name, server, result, config, served)):
            found.stays.append(Stays(place, server.key, name, why, "not served"))
        elif not without_hub and not has_hub(place, machine, records):
            id = place.host.id
            why = f"does not have the hub, so its servers are left enabled: run `hubd install {id}`, then this again"
            found.stays.append(Stays(place, server.key, name, why, "hub"))
        else:
            try:
                if not _add_removal(found, server, machine):
                    found.stays.append(Stays(place, server.key, name, _why_changed(name, server, config), "changed"))
            except (EditRefused, EditError) as reason:
                why = f"{reason}; turn it off there, hubd has {name}"
                found.stays.append(Stays(place, server.key, name, why, "edit"))
    found.writes.sort(key=lambda each: bool(each.command))
    return found


def is_changed(server: Server, text: str) -> bool:
    """True if the entry in the text of its file is not the one that was read, or is gone.
    Raises: EditRefused, if `text` cannot be read."""
    return bool(serverfile.entries(server.place.kept, text).get(server.key) != server.entry)


def drop_changed(result: Import) -> list[Stays]:
    """Drop from an import, before it is written, what hosts have changed since it was read; what stays for that."""
    stays: list[Stays] = []
    for name, server in result.all:
        with suppress(EditRefused, EditError):
            if not is_changed(server, text_at(server.place.path)):
                continue
        for each, other in result.drop_server(name, server):
            what = "" if other is server else f"is {server.key} of {server.place.title}, which "
            why = f"{what}was changed{' meanwhile' * (not what)}, so it was left as it is; run this again"
            stays.append(Stays(other.place, other.key, each, why, "changed"))
    return stays


def _why_changed(name: str, server: Server, config: HubConfig) -> str:
    why = "was changed meanwhile, and left as it is"
    if name in config.upstreams:
        return f"{why}; run this again"
    again = f"`hubd import {server.place.host.id} --again` takes it over as it is now"
    return f"{why}. The hub has it as it was: `hubd remove {name}` takes that out, then {again}"


def _add_removal(found: HostRemovals, server: Server, machine: Machine) -> bool:
    """Add the change that takes one server out of its host; False: its entry is another one by now."""
    place, key, root = server.place, server.key, server.place.kept.root
    was = next((each for each in found.writes if not each.command and is_same_file(each.path, place.path)), None)
    if was and (root, key) in ((each.root, each.key) for each in was.originals):  # another host links this file
        return True
    text = was.after if was else text_at(place.path)
    if is_changed(server, text):
        return False
    if (program := own_program(place, machine.environ)) is not None:
        command = (program, "mcp", "remove", "-s", "user", key)
        found.writes.append(Write(place.path, text, text, place, (original_of(place, text, key),), command))
        return True
    after, original = remove_from_host(place, text, key)
    if was is None:
        found.writes.append(Write(place.path, text, after, place, (original,)))
    else:
        found.writes[found.writes.index(was)] = structs.replace(was, after=after, originals=(*was.originals, original))
    return True


def _why_it_stays(name: str, server: Server, result: Import, config: HubConfig, served: Served) -> str:
    """The reason why the host must keep the server; "" if there is none."""
    upstream = config.upstreams.get(name)
    if upstream is not None and upstream.disabled:
        return f"the hub has it as {name}, which is disabled; run `hubd enable {name}` first"
    if why := result.doubt(name, server) or served.get(name, "the hub does not serve it"):
        return why
    return result.about_tools(name, server) if result.offers_fewer_tools(name, server) else ""


def has_hub(place: Place, machine: Machine, records: Records) -> bool:
    """True if the host to which this file belongs has our entry: there, or in another file that it reads, too."""
    others = [] if place.host.editors else every_user_file(place.host, machine)
    for each in (place, *others):
        with suppress(EditRefused, EditError):
            if our_entries(each, serverfile.entries(each.kept, text_at(each.path)), records):
                return True
    return False
