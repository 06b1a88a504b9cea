"""Import of hosts' servers as upstreams: the choice of servers, their names, and the files they are kept in.

`Import` decides, and `block` is what goes to `imported/HOST.toml` beside the main file, the lowest of all layers; what
that file is as a whole is for `config.editing.beside_main` to say.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from msgspec import structs

from config.editing.beside_main import digest_of
from config.editing.text import toml
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Identity, Server, Skipped, Spot, could_be, identity, is_about_tools, is_unopened
from config.hosts.secret_literals import NewSecrets, Spots, refer_to_store, referring
from config.loading.document import parse
from config.loading.host_entry import SPELLINGS
from config.loading.variables import Variables
from config.name_globs import ALL, union
from config.names import MAX_ID, is_reserved, is_server_id, short_id

Secrets = Literal["keep", "store", "reference", "skip"]
"""Ways to treat secrets: copy them, move them to the store of `hubd secret` (`Import.store_literals`), replace them by
references to variables, or leave out their servers."""


class Import:
    """Decides about one server after the other, in the order of the hosts."""

    def __init__(
        self,
        known: Mapping[Identity, str],
        names: Iterable[str],
        secrets: Secrets,
        removed: Collection[str] = (),
        offered: Mapping[str, Sequence[str]] = {},
        own_file: str = "hubd.env",
    ) -> None:
        """`offered`: the setting `tools` of servers that hubd has already, by name. `own_file`: the hubd.env of
        the hub, for people."""
        self._own_file = own_file
        self._known = dict(known)
        opened = {name for one, name in known.items() if not is_unopened(one)}
        self._unopened = [(one, name) for one, name in known.items() if name not in opened]
        self._names = {_fold(name) for name in names}
        self._secrets = secrets
        self._removed = removed
        self._offered = offered
        self.taken: list[tuple[str, Server]] = []
        """With the names they have from now on."""
        self.known: list[tuple[str, Server]] = []
        """Those that hubd has already, or that another host brought along."""
        self.skipped: list[Skipped] = []
        self.unsure: list[tuple[str, Server]] = []
        """Those of `known` of which nobody can tell whether the hub has the same values: its own cannot be read."""
        self.had: list[tuple[str, Server]] = []
        """Those of both, each as its host has it."""
        self._remarks: dict[Spot, str] = {}
        """Sentences about the tools of those that hubd has already."""
        self._joined: dict[str, str] = {}
        """The same about those of `taken` that several hosts have."""

    def add(self, server: Server) -> None:
        """Take it, unless it is there already or holds secrets that are not to be taken."""
        name = self._known.get(server.identity) or self._known.get(server.original)
        if name is not None:
            self._is_known(name, server)
            return
        name = next((name for one, name in self._unopened if could_be(one, server.identity)), None)
        if name is not None:
            self._is_known(name, server)
            self.unsure.append((name, server))
            return
        if {_origin(server), digest_of(server.values)} & set(self._removed):
            why = f"you removed it; `hubd import {server.place.host.id} --again` takes it all the same"
            self.skipped.append(Skipped(server.place, server.key, why))
            return
        spots = server.spots()
        if spots and self._secrets == "skip":
            where = ", ".join(f"{setting}.{at}" if at else setting for setting, at in spots)
            self.skipped.append(Skipped(server.place, server.key, f"it holds secrets: {where}"))
            return
        name = self._free(server)
        self.had.append((name, server))
        if spots and self._secrets == "reference":
            server = _with_references(server, name, spots, self._own_file)
        self._names.add(_fold(name))
        self._known[server.identity] = name
        self.taken.append((name, server))

    def _is_known(self, name: str, server: Server) -> None:
        """Another host has the server, or hubd; the tools that it offers are all that any of them had."""
        self.known.append((name, server))
        self.had.append((name, server))
        at = next((at for at, each in enumerate(self.taken) if each[0] == name), None)
        if at is None:
            self._remarks[server.spot] = _compare(name, server, self._offered.get(name, ALL))
            return
        first, all = self.taken[at][1], [each for known, each in self.had if known == name]
        before, remark = self._joined.get(name, ""), _of_all(all)
        if remark:
            self.taken[at] = (name, _with_tools(first, union(first.tools, server.tools), remark, before))
            self._joined[name] = remark

    def offers_fewer_tools(self, name: str, server: Server) -> bool:
        """True if hubd has left out tools of a server that its host takes: by the configuration before this import."""
        offered = self._offered.get(name, ALL)
        return server.spot in self._remarks and set(union(offered, server.tools)) != set(offered)

    def about_tools(self, name: str, server: Server) -> str:
        """A sentence about the tools that hubd offers of a server, where a host chose some; "": none did."""
        kept = next((note for note in server.notes if is_about_tools(note)), "")
        return self._remarks.get(server.spot) or self._joined.get(name) or kept

    def doubt(self, name: str, server: Server) -> str:
        """The reason why it may be another server than the hub's of that name; "": it is not."""
        if (name, server) not in self.unsure:
            return ""
        setting = "headers" if server.values.get("url") else "variables"
        return f"the hub has it as {name}, but cannot read the values of its {setting} now, so they may differ"

    def store_literals(self, new: NewSecrets) -> None:
        """Put references in the places of secrets, in all servers that are taken. They are added to `new`, which keeps
        them."""
        self.taken = [
            (name, structs.replace(server, values=refer_to_store(server.values, name, server.spots(), new)))
            for name, server in self.taken
        ]

    def refuse(self, name: str, why: str) -> None:
        """Give back what was taken under that name: the hub could not use it."""
        for taken in [each for each in self.taken if each[0] == name]:
            self.taken.remove(taken)
            self.had = [each for each in self.had if each[0] != name]
            self.skipped.append(Skipped(taken[1].place, taken[1].key, why))

    def leave(self, name: str, server: Server, why: str = "") -> list[tuple[str, Server]]:
        """Take out a server that its host has changed since it was read, or that is not to be taken; those that are
        gone with it, and are skipped for the reason `why`, if there is one. If it was to be new to the hub it goes with
        all entries of its name, since nobody knows which of them counts."""
        is_new = any(each == name for each, _ in self.taken)
        gone = [each for each in (*self.taken, *self.known) if each[0] == name and (is_new or each[1] is server)]
        for found in (self.taken, self.known, self.unsure, self.had):
            found[:] = [each for each in found if each not in gone]
        self.skipped += [Skipped(each.place, each.key, why) for _, each in gone if why]
        return gone

    def merge(self, name: str, kept: str) -> None:
        """Let the server `kept` stand for what was taken under `name`: the user says that one of them is enough."""
        merged = [server for each, server in (*self.taken, *self.known) if each == name]
        for found in (self.taken, self.known, self.unsure, self.had):
            found[:] = [each for each in found if each[0] != name]
        for server in merged:
            self._known[server.identity] = kept
            self._is_known(kept, server)

    def _free(self, server: Server) -> str:
        host = server.place.host.id
        candidates = [server.name]
        candidates += [f"{server.name}-{word}" for word in (host, host.split("-")[0])]
        candidates += [f"{short_id(server.name, MAX_ID - len(host) - 1)}-{host}"]
        candidates = [name for name in candidates if is_server_id(name) and not is_reserved(name)]
        digest = sha256(f"{server.place.path}\0{server.key}".encode()).hexdigest()
        candidates += [f"{server.name[: MAX_ID - 5].rstrip('-')}-{digest[at : at + 4]}" for at in range(32)]
        return next(name for name in candidates if _fold(name) not in self._names)


def _of_all(servers: Sequence[Server]) -> str:
    """The tools that hubd offers of one server of several hosts, as a sentence; "": all chose the same."""
    if len({frozenset(each.tools) for each in servers}) == 1:
        return ""
    titles = list(dict.fromkeys(each.place.title for each in servers))
    if full := next((each.place.title for each in servers if each.tools == ALL), ""):
        others = [each.place.title for each in servers if each.tools != ALL]
        return f"offered in full, as in {full}; the choice of tools in {_join_titles(others)} is dropped"
    return f"its tools are those of {_join_titles(titles)} together"


def _compare(name: str, server: Server, offered: Sequence[str]) -> str:
    """The difference between the tools that hubd offers already and those that a host has, as a sentence."""
    both, host = union(offered, server.tools), server.place.title
    if set(both) != set(offered):
        line = f"[upstreams.{name}] with tools = {json.dumps(both)}"
        return f"hubd offers fewer tools of it than {host} did; write {line} into hubd.toml for these"
    return f"hubd offers more tools of it than {host} did" if set(both) != set(server.tools) else ""


def _join_titles(titles: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))


def _with_tools(server: Server, tools: tuple[str, ...], why: str, before: str) -> Server:
    """The server with another choice of tools, which the note `why` is about; no note says what it was `before`."""
    values = {setting: value for setting, value in server.values.items() if setting != "tools"}
    if tools != ALL:
        values["tools"] = list(tools)
    notes = [note for note in server.notes if note != before and not is_about_tools(note)]
    return structs.replace(server, values=values, notes=(*notes, why))


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def _with_references(server: Server, name: str, spots: Spots, own_file: str) -> Server:
    """Secrets replaced by variables, which have to be set in the environment of the hub."""
    values, missing = referring(server.values, name, spots)
    are = "is" if len(missing) == 1 else "are"
    return structs.replace(
        server, values=values, off=server.off or f"until {', '.join(missing)} {are} set in {own_file}"
    )


def say_disabled(off: str) -> str:
    """`disabled: WHY`, or `disabled until SOMETHING`."""
    return f"disabled {off}" if off.startswith("until ") else f"disabled: {off}"


# --- the file they go to ----------------------------------------------------------------------------------------------


def block(name: str, server: Server) -> str:
    """The lines of one server."""
    lines = [_origin(server)]
    lines += [toml.comment_of(note) for note in server.notes]
    values = {
        setting: value for setting, value in server.values.items() if value not in ({}, [], None) or setting == "tools"
    }
    if server.off:
        lines.append(toml.comment_of(f"D{say_disabled(server.off)[1:]}"))
        lines.append(f"# Then run `hubd enable {name}`.")
        values["disabled"] = True
    order = [*SPELLINGS, "transport"]
    ordered = {setting: values[setting] for setting in order if setting in values}
    return "\n".join([*lines, toml.render(("upstreams",), name, {**ordered, **values})])


def unfit(name: str, server: Server) -> str:
    """The reason why the lines of one server would spoil their file; "" if they would not."""
    try:
        toml.read(block(name, server))
    except EditRefused as error:
        return f"it cannot be written as TOML, since what was made of it {error}"
    except TypeError as error:  # YAML has more kinds of values
        return f"it cannot be written as TOML: {error}"
    return ""


def _origin(server: Server) -> str:
    """The comment that says where it came from."""
    keys = ".".join((*server.place.kept.root, server.key))
    return toml.comment_of(f"From {server.place.path}, {keys}")


def identities_in(text: str, variables: Variables) -> dict[Identity, str]:
    """The names of the servers in such a file, by identity."""
    tables = parse(text, Path("imported.toml")).tree.get("upstreams", {})
    return {identity(values, variables): name for name, values in tables.items()}
