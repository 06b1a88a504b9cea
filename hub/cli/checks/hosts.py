"""Checks of the files of hosts: a missing hub, and servers that run twice."""

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from config import base_directories
from config.diagnostics import ConfigError
from config.hosts.host_servers import identities
from config.hosts.hub_entries import KEY, is_ours, url_of, variables_of, variables_to_carry
from config.hosts.servers_in_hub import starts_beside_hub, with_secrets
from config.loading.parse_addresses import split_listen
from config.loading.translate_host_file import command_of
from config.projects import Trust, find_project
from config.secrets.private_state_files import StateUnreadable
from config.settings import HubConfig
from hub.cli.checks.findings import Finding, RunHubd, join_few
from hub.cli.checks.machine_state import GUI_PATH, UNREADABLE, HostFile, MachineState
from hub.downstream.access.hub_urls import resource_of, shows_token, ways_in
from hub.downstream.access.token_files import TOKENS, KeptToken, hash_of
from hub.link.call_interface import OWNER

_SHOWN = re.compile(r"(?i:bearer) ([A-Za-z0-9._~+/-]+=*)")


def double_imports(examined: MachineState) -> Iterator[Finding]:
    """Servers that hosts still start themselves, though they work through the hub."""
    known = with_secrets(identities(HubConfig(upstreams=dict(examined.upstreams()))))
    having = _having(examined)
    double: list[tuple[HostFile, str, str]] = []
    for file in examined.files:
        for server in file.servers:
            name = known.get(server.identity) or known.get(server.original)
            if name is not None and name in examined.served and not server.values.get("disabled"):
                double.append((file, server.key, name))
    if not double:
        return
    names = list(dict.fromkeys(name for _, _, name in double))
    places = {file.place.host.id: file.place.title for file, _, _ in double}
    if len(double) == 1:
        ((file, key, name),) = double
        what, it = f'{file.place.title} starts "{key}" itself, and the hub has it as {name}', "it runs"
    else:
        start = f"{join_few(list(places.values()))} start{'s' * (len(places) == 1)}"
        what = f"{start} what the hub has, too: {join_few(names)}"
        it = "it runs" if len(names) == 1 else "each runs"
    why = f"{it} twice" if len(places) == 1 else f"{it} more than once"
    if having & places.keys():
        why += ", and the host sees each of its tools twice" if len(places) == 1 else ", and hosts see tools twice"
    lacking = [id for id in places if id not in having]
    first = f"`hubd install {' '.join(lacking)}`, then " if lacking else ""
    fix = f"run {first}`hubd import {' '.join(places)} --disable-originals`"
    yield Finding("double", "warning", what, why, fix, names=tuple(names))


def double_projects(examined: MachineState) -> Iterator[Finding]:
    """Servers of the present project that hosts start themselves, and that the hub may start, too."""
    root = find_project(examined.directory, examined.machine.home)
    if root is None:
        return
    with suppress(ConfigError, OSError):
        if Trust(examined.trust).load_allowed(root, examined.machine.environ, examined.config) is not None:
            titles, keys = starts_beside_hub(root, examined.machine)
            if not titles:
                return
            who = f"{join_few(titles)} start{'s' * (len(titles) == 1)}"
            what = f"{who} {join_few(keys)} of {root}/.mcp.json, and so may the hub"
            why = "what both start runs twice, and such a host sees each of its tools twice"
            untrust = f"`hubd untrust {shlex.quote(str(root))}`"
            fix = f"move it to {root}/.hubd.toml, which is for hubd alone, or run {untrust}"
            yield Finding("double", "warning", what, why, fix)


def _having(examined: MachineState) -> set[str]:
    return {file.place.host.id for file in examined.files if file.entry is not None}


def entries(examined: MachineState) -> Iterator[Finding]:
    """Hosts without the hub, or with an entry that does not work."""
    having = _having(examined)
    without: dict[str, str] = {}
    for file in examined.files:
        title, id, path = file.place.title, file.place.host.id, file.place.path
        if file.error:
            why = f"{file.error}; the host may ignore all of it"
            fix = "correct it, or make it yours"
            yield Finding("host", "warning", f"{title}: {path} cannot be read", why, fix)
        elif file.entry is None:
            if id not in having or file.place.host.editors:
                without[title] = id
        elif not is_ours(file.entry, file.record) and url_of(file.entry) is None:
            why = "the host cannot reach the hub through it"
            fix = f"give it another name in {path}, then run `hubd install {id}`"
            yield Finding("entry", "warning", f'{title}: its entry "{KEY}" does not start hubd', why, fix)
        elif command_of(file.entry):
            yield from _entry_by_command(file, examined)
        else:
            yield from _entry_by_url(file, examined)
    if without:
        one = len(without) == 1
        what = f"{join_few(list(without))} {'does' if one else 'do'} not have the hub"
        why = f"{'it' if one else 'they'} cannot reach any server of the hub"
        yield Finding("entry", "warning", what, why, f"run `hubd install {' '.join(dict.fromkeys(without.values()))}`")


def _install(file: HostFile, *how: str) -> RunHubd:
    return RunHubd(("install", "--yes", *how, file.place.host.id))


def _entry_by_command(file: HostFile, examined: MachineState) -> Iterator[Finding]:
    title, fix = file.place.title, f"run `hubd install {file.place.host.id}`"
    command = command_of(file.entry)[0]
    if not os.path.isabs(command):
        if shutil.which(command, path=GUI_PATH) is None:
            what = f"{title}: its entry starts `{command}` without a path"
            why = f"a host that no shell has started looks in {GUI_PATH} only"
            yield Finding("entry", "warning", what, why, fix, repair=_install(file))
    elif not os.access(command, os.X_OK):
        what = f"{title}: its entry starts {command}, which does not exist"
        repair = _install(file)
        yield Finding("entry", "problem", what, "the host reaches no server of the hub", fix, repair=repair)
    theirs, machine = variables_of(file.place.host, file.entry), examined.machine
    ours, led = (variables_to_carry(each, machine.home) for each in (machine.environ, theirs))
    for each in (ours, led):
        each.pop("XDG_DATA_HOME", None)  # where bundles are, which leads to no other hub
    if led != ours and not any("$" in value or "{" in value for value in theirs.values()):
        names = ", ".join(sorted(name for name in ours | led if ours.get(name) != led.get(name)))
        what = f"{title}: its entry leads to another hub than this shell's: {names} differ" + "s" * ("," not in names)
        why = "started by the desktop, the host looks for the hub elsewhere and starts a second one"
        yield Finding("entry", "warning", what, why, f"{fix} in the shell whose hub is meant")


def _port_of(url: str) -> str:
    """The port in a URL; "": it has none, or is no URL."""
    with suppress(ValueError):
        return urlsplit(url).netloc.rpartition(":")[2]
    return ""


def _has_token(file: HostFile, examined: MachineState) -> bool:
    shown = _SHOWN.findall(str(file.entry))
    if examined.wanted is not None and examined.wanted in shown:
        return True
    named = {token.token.reveal() for token in examined.config.access.tokens if token.token is not None}
    made = {kept.hash for kept in _read_tokens()}
    return any(token in named or hash_of(token) in made for token in shown)


def _read_tokens() -> Collection[KeptToken]:
    """The tokens of `hubd token new`; none, if they cannot be read."""
    with suppress(StateUnreadable):
        return TOKENS.read(Path(base_directories.state_dir(), "tokens.json")).values()
    return ()


def _entry_by_url(file: HostFile, examined: MachineState) -> Iterator[Finding]:
    url, title, config = url_of(file.entry) or "", file.place.title, examined.config
    fix, repair = f"run `hubd install --http {file.place.host.id}`", _install(file, "--http")
    host, port = split_listen(config.listen)
    proxied = ways_in(config, host, port).proxied
    door = next((way for way in proxied if url == way or url.startswith(f"{way}/")), None)
    listen = examined.status and examined.status.listen
    ports = {str(port), *(_port_of(each) for each in (listen and (listen.url, listen.also or "")) or ())}
    if examined.loaded is not UNREADABLE and door is None and _port_of(url) not in ports:
        what = f"{title}: its entry goes to another port than the hub listens on ({config.listen})"
        yield Finding("entry", "problem", what, "the host does not reach the hub", fix, repair=repair)
    elif shows_token(config, door or url, resource_of(config, host, port)) and not _has_token(file, examined):
        what = f"{title}: its entry does not have the hub's token"
        yield Finding("entry", "problem", what, "the hub refuses the host", fix, repair=repair)


def several_principals(examined: MachineState) -> Iterator[Finding]:
    """Others than the owner who may come over HTTP: there are no rules yet of what each may use."""
    if others := _others(examined.config):
        what = f"beside the hub's owner {join_few(others)} may come over HTTP"
        why = "whoever is let in may use every server, with what the hub is signed in at: there are no rules yet"
        fix = "let in only whom you would give all of it; `required_scopes`, and `clients` of an issuer, narrow that"
        yield Finding("principals", "note", what, why, fix)


def _others(config: HubConfig) -> list[str]:
    if config.auth == "none":
        return []
    named = [kept.principal for kept in _read_tokens()] + [token.principal for token in config.access.tokens]
    found = [name for name in named if name not in ("", OWNER)]
    if config.auth == "oauth":
        found += [f"those whom {issuer.issuer} signs in" for issuer in config.access.issuers]
    if config.auth == "proxy":
        found.append(f"those whom the proxy names in {config.access.proxy.header}")
    return list(dict.fromkeys(found))
