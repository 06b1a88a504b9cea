"""Entries that `hubd install` puts into files of hosts: one for the hub, or with `--each` one for each server.

Rules of hosts that no longer match once tools come through the hub: they are reported, never changed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from config.diagnostics import EditError
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Identity, folders, survey
from config.hosts.hub_entries import KEY, http_entry, stdio_entry, variables_to_carry
from config.hosts.install import text_at
from config.hosts.known_hosts import KnownHost, Machine, Place
from config.hosts.outdated_permissions import Names, Rule, find_rules
from config.hosts.removed_originals import Original, of_host
from config.hosts.servers_in_hub import import_directory, names_by_identity
from config.hub_paths import token_path
from config.loading.parse_addresses import split_listen
from config.settings import HubConfig
from hub.catalog.visible_names import name_id, visible_name
from hub.cli.context import Context, Output, UsageError, own_command
from hub.cli.hosts.change_host_files import originals_of
from hub.cli.profiles.write_profile import status_now
from hub.downstream.access.hub_urls import resource_of, shows_token, ways_in, who_comes
from hub.downstream.access.token_files import check_token, read_or_make_token
from hub.wire.printable import printable

Entries = dict[str, dict[str, Any]]
"""Entries of one file, by name."""


class HostEntries:
    """The entries that each host is to have, by the options of the command line."""

    def __init__(self, options: Context) -> None:
        """
        Raises:
            UsageError: the command `hubd` cannot be found, the hub has no fixed URL, or no server for `--each`.
            ConfigError: the configuration is needed and cannot be used.
        """
        self._machine = machine = options.machine
        self._hubd = own_command()
        self._door = _door(options.loaded.config) if options.http else None
        self._variables = variables_to_carry(machine.environ, machine.home)
        self._without_urls: list[str] = []
        self._names: list[str] | None = None
        """The servers that get an entry each; None: there is one for the hub."""
        if options.each:
            config = options.loaded.config
            self._names = [name for name, upstream in config.upstreams.items() if not upstream.disabled]
            self._known = names_by_identity(config, import_directory(options.config), os.environ)
            if not self._names:
                raise UsageError("--each: the hub has no servers yet; `hubd import` or `hubd add` first")

    def of(self, place: Place, originals: list[Original]) -> Entries:
        """The entries of one file, by name: the host's own name for a server, else the hub's. `originals`: the servers
        that imports took out of it."""
        if self._names is None:
            return {KEY: self._entry(place, "", KEY)}
        keys = {name: name for name in self._names}
        keys |= {name: key for key, name in _keys(place, originals, self._known, self._machine) if name in keys}
        return {key: self._entry(place, name, key) for name, key in keys.items()}

    def by_hand(self, host: KnownHost) -> Mapping[str, Any]:
        """The hub's entry for people to write where it could not be put."""
        return stdio_entry(host, self._hubd, self._variables)

    def _entry(self, place: Place, upstream: str, key: str) -> dict[str, Any]:
        entry = stdio_entry(place.host, self._hubd, self._variables, upstream=upstream, key=key)
        if self._door is None:
            return entry
        by_url = http_entry(place.host, self._door.url, self._door.token, upstream=upstream, key=key)
        if by_url is None and place.title not in self._without_urls:
            self._without_urls.append(place.title)
        return by_url or entry

    def say(self, options: Context) -> None:
        """Note what is special about these entries."""
        output = options.output
        for title in self._without_urls:
            output.note(f"{title} takes no URLs, so it starts `hubd connect`")
        if self._variables and (self._door is None or self._without_urls):
            output.note(f"the entries name the directories of this shell's hub: {', '.join(self._variables)}")
        if self._door is not None and self._door.token is not None and not options.dry_run:
            output.note("these files now hold the hub's token: keep them to yourself, and out of repositories")
        elif self._door is not None and self._door.come:
            text = f"the entries hold no token, since {self._door.come}; for a host that cannot, `hubd token new NAME`"
            output.note(f"{text} makes one to write into its entry")
        if self._names is not None:
            output.note("for servers that you add later, run this again")


def _keys(
    place: Place, originals: list[Original], known: Mapping[Identity, str], machine: Machine
) -> Iterator[tuple[str, str]]:
    """The servers of the hub that a host has, or had before an import: its own name for each, and the hub's."""
    texts = [serverfile.snippet(place.kept, each.key, each.entry) for each in of_host(place, originals)]
    with suppress(EditError, EditRefused):  # it is said when the file is to be changed
        texts.append(text_at(place.path))
    for text in texts:
        with suppress(EditRefused):
            for server in survey(place, text, machine.environ, machine.home)[0]:
                if name := known.get(server.identity) or known.get(server.original):
                    yield server.key, name


class _Door(Struct, frozen=True):
    """The way by which hosts reach the hub by a URL."""

    url: str
    token: str | None
    """The token that they show; None: none."""
    come: str
    """The way in which hosts without a token are let in there; "": they need none, or are not."""


def _door(config: HubConfig) -> _Door:
    """The URL of the hub and what opens it. Raises: UsageError, if the configuration names no port, or no proxy."""
    host, port = split_listen(config.listen)
    if port == 0:
        raise UsageError('--http needs a fixed port: write listen = "127.0.0.1:8765" in hubd.toml')
    port = _port_now(config.listen) or port
    ways = ways_in(config, host, port)
    if ways.here is None and not ways.proxied:
        raise UsageError(
            f"--http: hosts of this machine cannot reach {config.listen} itself, and the proxy has no name yet: write "
            'allowed_hosts = ["NAME:443"] in hubd.toml'
        )
    url = ways.here or ways.proxied[0]
    if not shows_token(config, url, resource_of(config, host, port)):
        return _Door(url, None, who_comes(config))
    token = read_or_make_token(token_path()) if config.token is None else check_token(config.token.reveal())
    return _Door(url, token, "")


def _port_now(configured: str) -> int:
    """The port of the running hub, where it could not have the configured address; 0: it has it, or none runs."""
    listen = status_now().listen
    return urlsplit(listen.url).port or 0 if listen and listen.wanted == configured else 0


def say_permissions(
    places: Iterable[Place], config: HubConfig, known: Mapping[Identity, str], options: Context
) -> None:
    """Report the rules of these hosts that need another spelling through the hub; those that deny as warnings. `known`:
    the servers of the hub by identity."""

    machine, output = options.machine, options.output

    def visible(prefix: str, tool: str) -> str:
        return visible_name("tool", prefix, tool, config.name_budget)

    for place in places:
        host = place.host
        if not (host.permissions or host.project_permissions):
            continue
        rules = find_rules(host, machine, _folders(place), _names(place, config, known, machine), visible)
        for rule in rules:
            members = {"host": host.id, "file": str(rule.path), "list": rule.kind, "rule": rule.rule, "new": rule.new}
            output.append("permissions", members)
        _say(host.title, [rule for rule in rules if rule.kind == "deny"], output)
        _say(host.title, [rule for rule in rules if rule.kind != "deny"], output)


def _names(place: Place, config: HubConfig, known: Mapping[Identity, str], machine: Machine) -> list[Names]:
    """The servers that the host has or had, by its names; others of the hub by the hub's."""
    prefixes = {
        name: "" if upstream.prefix == "" else name_id(upstream.prefix or name, config.name_budget)
        for name, upstream in config.upstreams.items()
        if not upstream.disabled
    }
    found = [each for each in _keys(place, originals_of(place), known, machine) if each[1] in prefixes]
    found += [(name, name) for name in prefixes if name not in dict(found)]
    return [Names(key, name, prefixes[name]) for key, name in found]


def _folders(place: Place) -> list[Path]:
    """The projects that the host knows, the given one, and the working directory."""
    found = [place.project] if place.project is not None else []
    with suppress(OSError):
        found.append(Path(os.getcwd()))
    with suppress(EditError, EditRefused):
        if place.project is None:
            found += folders(place, text_at(place.path))
    return list(dict.fromkeys(found))


def _say(title: str, rules: list[Rule], output: Output) -> None:
    if not rules:
        return
    denies = rules[0].kind == "deny"
    what = "these deny rules do not forbid the same tools of the hub"
    if not denies:
        what = "these rules do not match the same tools of the hub, so you are asked again"
    lines = [f"{title}: {what}. Add the names on the right, beside the old ones:"]
    for path in dict.fromkeys(rule.path for rule in rules):
        lines.append(f"  {path}")
        lines += [f"    {rule.kind}: {rule.rule} -> {rule.new}" for rule in rules if rule.path == path]
    (output.warn if denies else output.note)("\n".join(printable(line) for line in lines))
