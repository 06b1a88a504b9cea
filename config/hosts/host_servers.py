"""Servers that hosts have, with our setting names, and the identity by which two entries are one server.

`host_servers` reads the text of one file. What an entry means is for `translate_host_file` to say; here the host's
variables get the meaning they have there, and programs that only pass on a remote server are taken away
(`unwrap_proxies`).
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from config.diagnostics import Findings
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts.known_hosts import Place
from config.hosts.secret_literals import spots_of
from config.hosts.unwrap_proxies import unwrap, what_keeps_it
from config.loading.translate_host_entry import SPELLINGS
from config.loading.translate_host_file import FieldTable, is_hub, servers
from config.loading.variables import Missing, Unresolved, Variables
from config.name_globs import ALL
from config.secret_references import map_leaves, texts_in
from config.server_names import is_reserved, is_server_id, short_id
from config.settings import HubConfig

_TOOLS_KEPT: Final = " is kept: hubd offers no other tools of it"

_HALF = re.compile("[\ud800-\udfff]")
MAX_ENTRY_CHARS: Final = 64 << 10
"""Characters of one entry. Larger ones would fill the file of ours that all servers of their host are written to."""
_REFERENCE = re.compile(r"\$\{[^{}]*\}|\0[^\0]*\0")

Identity = tuple[Any, ...]
"""Two entries of one identity start, or reach, the same server, as the same account: the values of variables and
headers are part of it, so it is never shown."""


class Server(Struct, frozen=True, kw_only=True):
    """A host's entry by our names."""

    place: Place
    key: str
    """The host's name for it."""
    name: str
    """A server id that resembles that."""
    values: dict[str, Any]
    entry: Any
    """The whole entry as it stands in the file."""
    identity: Identity
    original: Identity
    """The identity of the entry as the host has it: perhaps of a program that only passes on a server."""
    notes: tuple[str, ...] = ()
    off: str = ""
    """The reason why it cannot be started as it is; "" if it can."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the host takes of it, as the setting `tools`."""
        return tuple(self.values.get("tools", ALL))

    @property
    def held(self) -> str:
        """The places of its secrets, for people: `env.TOKEN, args.2`; "": it has none."""
        return ", ".join(f"{setting}.{at}" if at else setting for setting, at in self.spots())

    def spots(self) -> list[tuple[str, str]]:
        """The places of its secrets: the setting, and the name or position in it."""
        return spots_of(self.values)


class Skipped(Struct, frozen=True):
    """An entry that is not taken."""

    place: Place
    key: str
    why: str


def is_about_tools(note: str) -> bool:
    """True if a note of a server is about its choice of tools."""
    return note.endswith(_TOOLS_KEPT)


def survey(place: Place, text: str, environ: Mapping[str, str], home: Path) -> tuple[list[Server], list[Skipped]]:
    """The servers in the text of a host's file, and what is none. Entries that start the hub are passed over.
    Raises: EditRefused, if it cannot be read, or be named in other files."""
    if _HALF.search(str(place.path)):
        raise EditRefused("its path is not UTF-8, so no file of hubd can name it; move it, or set HOME to another path")
    entries = serverfile.entries(place.kept, text).items()
    all = [_one(place, key, entry, environ, home) for key, entry in entries if not is_hub(entry)]
    return [one for one in all if isinstance(one, Server)], [one for one in all if isinstance(one, Skipped)]


def folders(place: Place, text: str) -> list[Path]:
    """The folders that have servers of their own in a user's file. Raises: EditRefused, if it cannot be read."""
    document = serverfile.read(place.host.shape, text) if place.host.local else {}
    for name in place.host.local:
        if name == "{project}":
            return [Path(folder) for folder in document or () if folder.startswith("/")]
        document = document.get(name) if isinstance(document, dict) else None
    return []


def _one(place: Place, key: str, entry: Any, environ: Mapping[str, str], home: Path) -> Server | Skipped:
    """One entry; one with values of unexpected types, or a huge one, keeps no other from being taken."""
    text = json.dumps([key, entry], ensure_ascii=False, default=str)
    if len(text) > MAX_ENTRY_CHARS:
        return Skipped(place, key[:80], f"it is larger than {MAX_ENTRY_CHARS >> 10} KB")
    if _HALF.search(text):
        return Skipped(place, key, "it holds half a character (a lone surrogate), which no other file can hold")
    try:
        return _server(place, key, entry, environ, home)
    except (TypeError, ValueError, AttributeError) as error:
        return Skipped(place, key, f"a setting of it is of the wrong kind ({error})")


def _server(place: Place, key: str, entry: Any, environ: Mapping[str, str], home: Path) -> Server | Skipped:
    findings = Findings(place.path)
    tree: Any = {place.host.root[-1]: [entry] if place.host.listed else {key: entry}}
    tables: list[FieldTable] = []
    with findings.collect():
        tables = servers(tree, findings)
    if findings.problems:
        return Skipped(place, key, findings.problems[0].text)
    if not tables:
        return Skipped(place, key, f"it is a part of {place.host.title}")
    (table,) = tables
    variables = Variables(environ, place.path.parent, project=place.project)
    values = _translate(table.values, place, home)
    notes = [f"{each.keys[-1]} {each.text}" for each in findings.warnings if "is called" not in each.text]
    if "tools" in values:
        notes.append(f"{table.spelled.get('tools', 'tools')}{_TOOLS_KEPT}")
    off = _with_variables_of(table, values, variables)
    original, behind = identity(values, variables), unwrap(values)
    if behind is not None:
        is_gateway = any("supergateway" in str(word) for word in values.get("args") or ())
        notes.append(f"is reached at its URL, without {'supergateway' if is_gateway else 'mcp-remote'}")
        values = behind
    elif option := what_keeps_it(values):
        notes.append(f"stays behind mcp-remote, since the hub has nothing like {option}")
    if "command" in values and "cwd" not in values:
        values["cwd"] = str(place.project or "~")
    return Server(
        place=place,
        key=key,
        name=table.name if is_server_id(key) and not is_reserved(key) else short_id(key),
        values=values,
        entry=entry,
        identity=identity(values, variables),
        original=original,
        notes=tuple(notes),
        off=off or _why_unresolved(values, variables) or ("the host has it disabled" if values.get("disabled") else ""),
    )


def _translate(values: dict[str, Any], place: Place, home: Path) -> dict[str, Any]:
    """Values with the host's variables replaced; in files of hosts without variables `${` is plain text."""
    plain = place.host.variables == "none"
    fixed = {"${userHome}": str(home)}
    if place.project is not None:
        fixed |= {"${workspaceFolder}": str(place.project), "${workspaceFolderBasename}": place.project.name}

    def translate(leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return leaf
        if plain:
            return leaf.replace("${", "$${")
        for reference, meaning in fixed.items():
            leaf = leaf.replace(reference, meaning)
        return leaf

    return {name: map_leaves(value, translate) if name in SPELLINGS else value for name, value in values.items()}


def _with_variables_of(table: FieldTable, values: dict[str, Any], variables: Variables) -> str:
    """Add to `values` the variables that the host takes from a file or from its own environment; what is in the way."""
    env = dict.fromkeys(table.env_vars, "")
    added = {name: f"${{{name}}}" if name in variables.environ else f"${{{name}:-}}" for name in env}
    if table.env_file:
        try:
            read = variables.env_file(table.env_file)
        except Unresolved as error:
            return str(error)
        added |= {name: value.replace("${", "$${") for name, value in read.items()}
    if added:
        values["env"] = {**added, **(values.get("env") or {})}
    return ""


def _why_unresolved(values: Mapping[str, Any], variables: Variables) -> str:
    for text in texts_in([values.get(name) for name in SPELLINGS]):
        try:
            try:
                variables.expand(text)
            except Missing:
                variables.expand_for_server(text)  # a secret may have the name of the variable
        except Unresolved as error:
            return str(error)
    return ""


def identity(values: Mapping[str, Any], variables: Variables) -> Identity:
    """The identity of the server of an entry."""

    def plain(text: Any) -> str:
        try:
            return variables.expand(str(text))
        except Unresolved:
            return str(text)

    url = values.get("url") or ""
    table = values.get("headers" if url else "env") or {}
    pairs = {str(name): plain(value) for name, value in table.items()}
    return _identity(plain(url), plain(values.get("command")), map(plain, values.get("args") or ()), pairs)


def _identity(url: str | None, command: str | None, args: Iterable[str], pairs: Mapping[str, str]) -> Identity:
    if url:
        return ("url", url.rstrip("/"), tuple(sorted({name.lower(): value for name, value in pairs.items()}.items())))
    return ("command", command, tuple(args), tuple(sorted(pairs.items())))


def is_unopened(hub: Identity) -> bool:
    """True if a value in it is a reference that could not be opened."""
    return any(map(_REFERENCE.search, texts_in(hub)))


def could_be(hub: Any, host: Any) -> bool:
    """True if the identity `hub` would be `host` with some values in place of its unopened references."""
    if isinstance(hub, tuple) and isinstance(host, tuple):
        return len(hub) == len(host) and all(map(could_be, hub, host))
    if hub == host or not (isinstance(hub, str) and isinstance(host, str)):
        return bool(hub == host)
    found = list(_REFERENCE.finditer(hub))
    if not found or _REFERENCE.search(host):
        return False
    before, after = hub[: found[0].start()], hub[found[-1].end() :]
    return len(host) >= len(before) + len(after) and host.startswith(before) and host.endswith(after)


def identities(config: HubConfig) -> dict[Identity, str]:
    """The names of all upstreams that hubd has, by identity."""
    found: dict[Identity, str] = {}
    for name, upstream in config.upstreams.items():
        pairs = {key: value.reveal() for key, value in (upstream.headers if upstream.url else upstream.env).items()}
        found.setdefault(_identity(upstream.url, upstream.command, upstream.args, pairs), name)
    return found
