"""Import of hosts' servers as upstreams: the choice of servers, their names, and the files they are kept in.

`Import` decides, and `block` is what goes to `imported/HOST.toml` beside the main file, the lowest of all layers; what
that file is as a whole is for `config.editing.imported_file` to say.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from config.editing.imported_file import digest_of
from config.editing.text import toml
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Identity, Server, Skipped, could_be, identity, is_about_tools, is_unopened
from config.hosts.secret_literals import NewSecrets, refer_to_store, referring
from config.loading.document import parse
from config.loading.translate_host_entry import SPELLINGS
from config.loading.variables import Variables
from config.name_globs import ALL, union
from config.server_names import MAX_ID, fold, is_reserved, is_server_id, short_id

Secrets = Literal["keep", "store", "reference", "skip"]
"""Ways to treat secrets: copy them, move them to the store of `hubd secret` (`Import.store_literals`), replace them by
references to variables, or leave out their servers."""


class _Entry(Struct):
    """A server of a host that is in the import."""

    name: str
    """The hub's, from now on."""
    server: Server
    had: Server
    """The server as its host has it."""
    is_new: bool
    """The hub did not have it, and no other host brought it along."""
    is_unsure: bool = False
    """Nobody can tell whether the hub has the same values: its own cannot be read."""
    remark: str = ""
    """A sentence about the tools of a server that several have; "": all chose the same."""


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
        self._names = {fold(name) for name in names}
        self._secrets = secrets
        self._removed = removed
        self._offered = offered
        self._entries: list[_Entry] = []
        self.skipped: list[Skipped] = []

    @property
    def taken(self) -> list[tuple[str, Server]]:
        """The servers that are new to the hub, with the names they have from now on."""
        return [(each.name, each.server) for each in self._entries if each.is_new]

    @property
    def known(self) -> list[tuple[str, Server]]:
        """Servers that hubd has already, or that another host brought along."""
        return [(each.name, each.server) for each in self._entries if not each.is_new]

    @property
    def all(self) -> list[tuple[str, Server]]:
        """The new ones, and then the known ones."""
        return [*self.taken, *self.known]

    @property
    def had(self) -> list[tuple[str, Server]]:
        """All of them, each as its host has it."""
        return [(each.name, each.had) for each in self._entries]

    def add(self, server: Server) -> None:
        """Take it, unless it is there already or holds secrets that are not to be taken."""
        name = self._known.get(server.identity) or self._known.get(server.original)
        near = name or next((name for one, name in self._unopened if could_be(one, server.identity)), None)
        if near is not None:
            self._add_known(near, server, is_unsure=name is None)
        elif {_origin(server), digest_of(server.values)} & set(self._removed):
            self._skip(server, f"you removed it; `hubd import {server.place.host.id} --again` takes it all the same")
        elif self._secrets == "skip" and server.held:
            self._skip(server, f"it holds secrets: {server.held}")
        else:
            name = self._free(server)
            entry = _Entry(name, server, server, is_new=True)
            if self._secrets == "reference" and server.held:
                values, missing = referring(server.values, name, server.spots())
                off = f"until {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} set in {self._own_file}"
                entry.server = structs.replace(server, values=values, off=server.off or off)
            self._names.add(fold(name))
            self._known[entry.server.identity] = name
            self._entries.append(entry)

    def _add_known(self, name: str, server: Server, *, is_unsure: bool = False) -> None:
        """Another host has the server, or hubd; the tools that it offers are all that any of them had."""
        entry = _Entry(name, server, server, is_new=False, is_unsure=is_unsure)
        self._entries.append(entry)
        alike = [each for each in self._entries if each.name == name]
        first = next((each for each in alike if each.is_new), None)
        if first is None:
            entry.remark = _compare(name, server, self._offered.get(name, ALL))
        elif remark := _of_all([each.had for each in alike]):
            tools = union(first.server.tools, server.tools)
            first.server, first.remark = _with_tools(first.server, tools, remark, first.remark), remark

    def _skip(self, server: Server, why: str) -> None:
        self.skipped.append(Skipped(server.place, server.key, why))

    def offers_fewer_tools(self, name: str, server: Server) -> bool:
        """True if hubd has left out tools of a server that its host takes: by the configuration before this import."""
        offered = self._offered.get(name, ALL)
        return name not in dict(self.taken) and set(union(offered, server.tools)) != set(offered)

    def about_tools(self, name: str, server: Server) -> str:
        """A sentence about the tools that hubd offers of a server, where a host chose some; "": none did."""
        alike = (each for each in self._entries if each.name == name and (each.is_new or each.server is server))
        return next(filter(None, (each.remark for each in alike)), next(filter(is_about_tools, server.notes), ""))

    def doubt(self, name: str, server: Server) -> str:
        """The reason why it may be another server than the hub's of that name; "": it is not."""
        if not any(each.is_unsure for each in self._entries if each.server is server):
            return ""
        setting = "headers" if server.values.get("url") else "variables"
        return f"the hub has it as {name}, but cannot read the values of its {setting} now, so they may differ"

    def store_literals(self, new: NewSecrets) -> None:
        """Put references in the places of secrets, in all servers that are taken. They are added to `new`, which keeps
        them."""
        for each in self._entries:
            if each.is_new:
                values = refer_to_store(each.server.values, each.name, each.server.spots(), new)
                each.server = structs.replace(each.server, values=values)

    def drop_where(self, is_out: Callable[[str, Server], bool], why: str = "") -> list[tuple[str, Server]]:
        """Drop from the import the servers for which `is_out` is true; with a reason `why` they are listed as skipped.
        Returns them, with their names."""
        gone = [each for each in self._entries if is_out(each.name, each.server)]
        self._entries = [each for each in self._entries if not is_out(each.name, each.server)]
        for each in gone if why else ():
            self._skip(each.server, why)
        return [(each.name, each.server) for each in gone]

    def drop(self, name: str, why: str) -> None:
        """Drop all entries of that name: the hub could not use them."""
        self.drop_where(lambda each, _: each == name, why)

    def drop_server(self, name: str, server: Server, why: str = "") -> list[tuple[str, Server]]:
        """As `drop_where`, for a server that its host has changed since it was read, or that wants a sign-in first. One
        that is new to the hub is dropped with all entries of its name, since nobody knows which of them counts."""
        is_new = name in dict(self.taken)
        return self.drop_where(lambda each, other: each == name and (is_new or other is server), why)

    def merge(self, name: str, kept: str) -> None:
        """Let the server `kept` stand for what was taken under `name`: the user says that one of them is enough."""
        for _, server in self.drop_where(lambda each, _: each == name):
            self._known[server.identity] = kept
            self._add_known(kept, server)

    def _free(self, server: Server) -> str:
        host = server.place.host.id
        candidates = [server.name]
        candidates += [f"{server.name}-{word}" for word in (host, host.split("-")[0])]
        candidates += [f"{short_id(server.name, MAX_ID - len(host) - 1)}-{host}"]
        candidates = [name for name in candidates if is_server_id(name) and not is_reserved(name)]
        digest = sha256(f"{server.place.path}\0{server.key}".encode()).hexdigest()
        candidates += [f"{server.name[: MAX_ID - 5].rstrip('-')}-{digest[at : at + 4]}" for at in range(32)]
        return next(name for name in candidates if fold(name) not in self._names)


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


def say_disabled(off: str) -> str:
    """`disabled: WHY`, or `disabled until SOMETHING`."""
    return f"disabled {off}" if off.startswith("until ") else f"disabled: {off}"


# --- the file they go to ----------------------------------------------------------------------------------------------


def block(name: str, server: Server) -> str:
    """The lines of one server."""
    lines = [_origin(server)]
    lines += [toml.comment_of(note) for note in server.notes]
    order = (*SPELLINGS, "transport", *server.values)
    values = {setting: server.values[setting] for setting in order if setting in server.values}
    values = {setting: value for setting, value in values.items() if value not in ({}, [], None) or setting == "tools"}
    if server.off:
        lines.append(toml.comment_of(f"D{say_disabled(server.off)[1:]}"))
        lines.append(f"# Then run `hubd enable {name}`.")
        values["disabled"] = True
    return "\n".join([*lines, toml.render(("upstreams",), name, values)])


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
