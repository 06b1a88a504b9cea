"""Rules of hosts that no longer match, once tools come through the hub: found and said, never changed."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hub.cli.subcommand import Output

if TYPE_CHECKING:
    from config.hosts.facts import Machine, Place
    from config.hosts.permissions import Names, Rule
    from config.settings import HubConfig


def say_permissions(
    places: "Iterable[Place]",
    config: "HubConfig",
    known: "Mapping[tuple[object, ...], str]",
    machine: "Machine",
    output: Output,
) -> None:
    """Report the rules of these hosts that need another spelling through the hub; those that deny as warnings. `known`:
    the servers of the hub by identity."""
    for place in places:
        host = place.host
        if not (host.permissions or host.project_permissions):
            continue
        rules = _rules(place, _names(place, config, known, machine), config, machine)
        for rule in rules:
            members = {"host": host.id, "file": str(rule.path), "list": rule.kind, "rule": rule.rule, "new": rule.new}
            output.append("permissions", members)
        _say(host.title, [rule for rule in rules if rule.kind == "deny"], output)
        _say(host.title, [rule for rule in rules if rule.kind != "deny"], output)


def _rules(place: "Place", servers: "list[Names]", config: "HubConfig", machine: "Machine") -> "list[Rule]":
    from config.hosts.permissions import affected_rules
    from hub.catalog.names import visible_name

    def visible(prefix: str, tool: str) -> str:
        return visible_name("tool", prefix, tool, config.name_budget)

    return affected_rules(place.host, machine, _folders(place), servers, visible)


def _names(
    place: "Place", config: "HubConfig", known: "Mapping[tuple[object, ...], str]", machine: "Machine"
) -> "list[Names]":
    """The servers that the host has or had, by its names; others of the hub by the hub's."""
    from config.editing.text import serverfile
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.host_servers import survey
    from config.hosts.install import text_at
    from config.hosts.permissions import Names
    from hub.catalog.names import name_id
    from hub.cli.install import originals_of

    names = {name: name for name, upstream in config.upstreams.items() if not upstream.disabled}
    texts = [serverfile.snippet(place.kept, each.key, each.entry) for each in originals_of(place)]
    with suppress(EditError, EditRefused):
        texts.append(text_at(place.path))
    found = []
    for text in texts:
        with suppress(EditRefused):
            for server in survey(place, text, machine.environ, machine.home)[0]:
                name = known.get(server.identity) or known.get(server.original)
                if name in names:
                    found.append((server.key, name))
    found += [(key, name) for name, key in names.items() if key not in dict(found)]
    prefixes = {
        name: "" if upstream.prefix == "" else name_id(upstream.prefix or name, config.name_budget)
        for name, upstream in config.upstreams.items()
    }
    return [Names(key, name, prefixes[name]) for key, name in found]


def _folders(place: "Place") -> list[Path]:
    """The projects that the host knows, the given one, and the working directory."""
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.host_servers import folders
    from config.hosts.install import text_at

    found = [place.project] if place.project is not None else []
    with suppress(OSError):
        found.append(Path(os.getcwd()))
    with suppress(EditError, EditRefused):
        if place.project is None:
            found += folders(place, text_at(place.path))
    return list(dict.fromkeys(found))


def _say(title: str, rules: "list[Rule]", output: Output) -> None:
    from hub.wire.printable import printable

    if not rules:
        return
    denies = rules[0].kind == "deny"
    what = (
        "these deny rules do not forbid the same tools of the hub"
        if denies
        else "these rules do not match the same tools of the hub, so you are asked again"
    )
    lines = [f"{title}: {what}. Add the names on the right, beside the old ones:"]
    for path in dict.fromkeys(rule.path for rule in rules):
        lines.append(f"  {path}")
        lines += [f"    {rule.kind}: {rule.rule} -> {rule.new}" for rule in rules if rule.path == path]
    (output.warn if denies else output.note)("\n".join(printable(line) for line in lines))
