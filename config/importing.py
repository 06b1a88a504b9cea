"""Servers of hosts become upstreams: which there are, which of them hubd has already, and the files they are kept in.

`survey` reads a host's file, `Import` decides, and `imported_text` is what goes to `imported/HOST.toml` beside the main
file, the lowest of all layers. That file says where each server came from, and carries a checksum: as long as it is
right nobody has edited the file, and a later import may add to it. What was taken once stays, whatever the host drops.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import md5, sha256
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, structs

from config import hostfile, tomltext
from config.document import parse
from config.hosts import Place, starts_hubd
from config.mcpservers import Table, servers
from config.names import MAX_ID, suggest_id
from config.schema import HubConfig
from config.secrecy import looks_secret, secret_arguments
from config.source import Findings, Problem
from config.textedit import Refused
from config.unwrap import unwrapped
from config.variables import Unresolved, Variables

Secrets = Literal["keep", "reference", "skip"]
"""What becomes of them: copied, replaced by references to variables, or their servers are left out."""
Identity = tuple[Any, ...]
"""Two entries of one identity start, or reach, the same server."""
_TEXTS: Final = ("command", "args", "env", "cwd", "url", "headers")
_CHECKSUM = re.compile(r"# Checksum of what follows: ([0-9a-f]{64})\n")


class Server(Struct, frozen=True, kw_only=True):
    """A host's entry by our names."""

    place: Place
    key: str
    """What the host calls it."""
    name: str
    """A server id that resembles that."""
    values: dict[str, Any]
    identity: Identity
    original: Identity
    """Of the entry as the host has it: what it starts may be a program that passes on what the server says."""
    notes: tuple[str, ...] = ()
    off: str = ""
    """Why it cannot be started as it is; "" if it can."""

    def spots(self) -> list[tuple[str, str]]:
        """Where it holds secrets: the setting, and the name or the position in it."""
        found = [
            (setting, name)
            for setting in ("env", "headers")
            for name, value in (self.values.get(setting) or {}).items()
            if isinstance(value, str) and looks_secret(name, value)
        ]
        words = [word if isinstance(word, str) else "" for word in self.values.get("args") or ()]
        found += [("args", str(at)) for at, _ in secret_arguments(words)]
        url = self.values.get("url")
        return [*found, ("url", "")] if isinstance(url, str) and looks_secret("", url) else found


class Skipped(Struct, frozen=True):
    """An entry that is not taken."""

    place: Place
    key: str
    why: str


# --- what hosts have --------------------------------------------------------------------------------------------------


def survey(place: Place, text: str, environ: Mapping[str, str], home: Path) -> tuple[list[Server], list[Skipped]]:
    """The servers in the text of a host's file, and what is none. Entries that start the hub are passed over.

    Raises:
        Refused: it cannot be read.
    """
    entries = hostfile.entries(place.kept, text).items()
    all = [_server(place, key, entry, environ, home) for key, entry in entries if not starts_hubd(entry)]
    return [one for one in all if isinstance(one, Server)], [one for one in all if isinstance(one, Skipped)]


def _server(place: Place, key: str, entry: Any, environ: Mapping[str, str], home: Path) -> Server | Skipped:
    findings = Findings(place.path)
    tree: Any = {place.host.root[-1]: [entry] if place.host.listed else {key: entry}}
    tables: list[Table] = []
    try:
        tables = servers(tree, findings)
    except Problem as problem:
        findings.wrong((), str(problem))
    if findings.problems:
        return Skipped(place, key, findings.problems[0].text)
    if not tables:
        return Skipped(place, key, f"it is a part of {place.host.title}")
    (table,) = tables
    variables = Variables(environ, place.path.parent, project=place.project)
    values = _translated(table.values, place, home)
    notes = [remark.text for remark in findings.doubts if "is called" not in remark.text]
    off = _with_variables_of(table, values, variables)
    original = identity(values, variables)
    behind = unwrapped(values)
    if behind is not None and _is_signed_in(behind, home):
        notes.append("stays behind mcp-remote, which is signed in there")
    elif behind is not None:
        notes.append(f"is reached at its URL, without {bare_command(values)}")
        values = behind
    if "command" in values and "cwd" not in values:
        values["cwd"] = str(place.project or "~")
    return Server(
        place=place,
        key=key,
        name=table.name,
        values=values,
        identity=identity(values, variables),
        original=original,
        notes=tuple(notes),
        off=off or _unresolved(values, variables) or ("the host has it disabled" if values.get("disabled") else ""),
    )


def bare_command(values: Mapping[str, Any]) -> str:
    """The program that stood in between, for people."""
    return "supergateway" if any("supergateway" in str(word) for word in values.get("args") or ()) else "mcp-remote"


def _translated(values: dict[str, Any], place: Place, home: Path) -> dict[str, Any]:
    """What the host's variables mean here; where it has none, `${` is plain text."""
    plain = place.host.variables == "none"
    fixed = {"${userHome}": str(home)}
    if place.project is not None:
        fixed |= {"${workspaceFolder}": str(place.project), "${workspaceFolderBasename}": place.project.name}

    def translate(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: translate(each) for name, each in value.items()}
        if isinstance(value, list):
            return [translate(each) for each in value]
        if not isinstance(value, str):
            return value
        if plain:
            return value.replace("${", "$${")
        for reference, meaning in fixed.items():
            value = value.replace(reference, meaning)
        return value

    return {name: translate(value) if name in _TEXTS else value for name, value in values.items()}


def _with_variables_of(table: Table, values: dict[str, Any], variables: Variables) -> str:
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


def _unresolved(values: Mapping[str, Any], variables: Variables) -> str:
    for text in _strings([values.get(name) for name in _TEXTS]):
        try:
            variables.expand(text)
        except Unresolved as error:
            return str(error)
    return ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _is_signed_in(values: Mapping[str, Any], home: Path) -> bool:
    """Whether mcp-remote keeps tokens for the server: the hub could not use them."""
    if "headers" in values:
        return False
    name = f"{md5(values['url'].encode(), usedforsecurity=False).hexdigest()}_tokens.json"
    return next((home / ".mcp-auth").glob(f"*/{name}"), None) is not None


def identity(values: Mapping[str, Any], variables: Variables) -> Identity:
    """What two entries of one server have in common."""

    def plain(text: Any) -> str:
        try:
            return variables.expand(str(text))
        except Unresolved:
            return str(text)

    if values.get("url"):
        return ("url", plain(values["url"]).rstrip("/"))
    args = tuple(plain(word) for word in values.get("args") or ())
    return ("command", plain(values.get("command")), args, frozenset(values.get("env") or ()))


def identities(config: HubConfig) -> dict[Identity, str]:
    """The names of all upstreams that hubd has, by identity."""
    found: dict[Identity, str] = {}
    for name, upstream in config.upstreams.items():
        if upstream.url:
            one: Identity = ("url", upstream.url.rstrip("/"))
        else:
            one = ("command", upstream.command, upstream.args, frozenset(upstream.env))
        found.setdefault(one, name)
    return found


# --- what is taken ----------------------------------------------------------------------------------------------------


class Import:
    """Decides about one server after the other, in the order of the hosts."""

    def __init__(self, known: Mapping[Identity, str], names: Iterable[str], secrets: Secrets) -> None:
        self._known = dict(known)
        self._names = {_folded(name) for name in names}
        self._secrets = secrets
        self.taken: list[tuple[str, Server]] = []
        """With the names they have from now on."""
        self.known: list[tuple[str, Server]] = []
        """Those that hubd has already, or that another host brought along."""
        self.skipped: list[Skipped] = []

    def add(self, server: Server) -> None:
        """Take it, unless it is there already or holds secrets that are not to be taken."""
        name = self._known.get(server.identity) or self._known.get(server.original)
        if name is not None:
            self.known.append((name, server))
            return
        spots = server.spots()
        if spots and self._secrets == "skip":
            where = ", ".join(f"{setting}.{at}" if at else setting for setting, at in spots)
            self.skipped.append(Skipped(server.place, server.key, f"it holds secrets: {where}"))
            return
        name = self._free(server)
        if spots and self._secrets == "reference":
            server = _with_references(server, name, spots)
        self._names.add(_folded(name))
        self._known[server.identity] = name
        self.taken.append((name, server))

    def refuse(self, name: str, why: str) -> None:
        """Give back what was taken under that name: the hub could not use it."""
        for taken in [each for each in self.taken if each[0] == name]:
            self.taken.remove(taken)
            self.skipped.append(Skipped(taken[1].place, taken[1].key, why))

    def _free(self, server: Server) -> str:
        host = server.place.host.id
        candidates = [server.name, suggest_id(f"{server.name[: MAX_ID - len(host) - 1].rstrip('-')}-{host}")]
        digest = sha256(f"{server.place.path}\0{server.key}".encode()).hexdigest()
        candidates += [f"{server.name[:11].rstrip('-')}-{digest[at : at + 4]}" for at in range(32)]
        return next(name for name in candidates if _folded(name) not in self._names)


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


def _with_references(server: Server, name: str, spots: list[tuple[str, str]]) -> Server:
    """Secrets replaced by variables, which have to be set in the environment of the hub."""
    values = {setting: _copied(value) for setting, value in server.values.items()}
    prefix = re.sub(r"[^A-Z0-9]", "_", name.upper())
    missing = []
    for setting, at in spots:
        if setting == "env":
            variable, old = at, None
            values["env"][at] = f"${{{variable}}}"
        elif setting == "headers":
            old = values["headers"][at]
            variable = f"{prefix}_{'TOKEN' if at.lower() == 'authorization' else re.sub(r'[^A-Z0-9]', '_', at.upper())}"
            scheme = re.match(r"(?:Bearer|Basic|token) +", old, re.I)
            values["headers"][at] = f"{scheme[0] if scheme else ''}${{{variable}}}"
        elif setting == "args":
            word = values["args"][int(at)]
            option = re.match(r"--?[A-Za-z][\w.-]*=", word)
            variable = f"{prefix}_{re.sub(r'[^A-Z0-9]', '_', option[0].strip('-=').upper()) if option else f'ARG_{at}'}"
            values["args"][int(at)] = f"{option[0] if option else ''}${{{variable}}}"
        else:
            variable = f"{prefix}_URL"
            values["url"] = f"${{{variable}}}"
        missing.append(variable)
    text = f"set {', '.join(missing)} in the environment of hubd"
    return structs.replace(server, values=values, off=server.off or text)


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value


# --- the file they go to ----------------------------------------------------------------------------------------------


def block(name: str, server: Server) -> str:
    """One server's lines."""
    keys = ".".join((*server.place.kept.root, server.key))
    lines = [f"# From {server.place.path}, {keys}".replace("\n", " ")]
    lines += [f"# {note}".replace("\n", " ") for note in server.notes]
    values = {setting: value for setting, value in server.values.items() if value not in ({}, [], None)}
    if server.off:
        lines.append(f"# Disabled: {server.off}".replace("\n", " "))
        lines.append(f"# Then run `hubd enable {name}`.")
        values["disabled"] = True
    order = [*_TEXTS, "transport"]
    ordered = {setting: values[setting] for setting in order if setting in values}
    return "\n".join([*lines, tomltext.render(("upstreams",), name, {**ordered, **values})])


def imported_text(title: str, id: str, blocks: Iterable[str]) -> str:
    """The whole file of one host."""
    body = "\n\n".join(blocks) + "\n"
    return (
        f"# MCP servers of {title}. `hubd import {id}` wrote this file, and adds to it as long as nobody edits it.\n"
        "# To change one, write [upstreams.NAME] with the settings that differ into hubd.toml: they win.\n"
        f"# Checksum of what follows: {sha256(body.encode()).hexdigest()}\n\n{body}"
    )


def blocks_of(text: str) -> list[str]:
    """The servers in a file that an import wrote.

    Raises:
        Refused: someone else wrote it, or edited it since.
    """
    found = _CHECKSUM.search(text)
    body = text[found.end() + 1 :] if found else ""
    if found is None or sha256(body.encode()).hexdigest() != found[1]:
        raise Refused("was not written by `hubd import`, or was edited since")
    return body.rstrip("\n").split("\n\n")


def identities_in(text: str, variables: Variables) -> dict[Identity, str]:
    """The names of the servers in such a file, by identity."""
    tables = parse(text, Path("imported.toml")).tree.get("upstreams", {})
    return {identity(values, variables): name for name, values in tables.items()}
