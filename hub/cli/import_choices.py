"""Choices of `hubd import` between servers: single ones by name, and one of several that are probably the same."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hub.cli.subcommand import Output, UsageError, ask, nearest

if TYPE_CHECKING:
    from config.hosts.doubts import NearDuplicates
    from config.hosts.host_servers import Server, Skipped
    from config.hosts.import_choice import Import
    from config.settings import HubConfig


def named_servers(
    options: argparse.Namespace, servers: "list[Server]", skipped: "list[Skipped]"
) -> "tuple[list[Server], list[Skipped]]":
    """The servers that `--server` names, by their host's name or as the hub would call them; all without it.

    Raises:
        UsageError: no host has one of that name.
    """
    if not options.server:
        return servers, skipped
    known = {name for server in servers for name in (server.key, server.name)} | {each.key for each in skipped}
    for name in options.server:
        if name not in known:
            hint = (
                nearest(name, known) or f"there are: {', '.join(sorted({server.key for server in servers})) or 'none'}"
            )
            raise UsageError(f"--server: no host has a server {name}; {hint}")
    wanted = set(options.server)
    return (
        [server for server in servers if {server.key, server.name} & wanted],
        [each for each in skipped if each.key in wanted],
    )


def settle_near_duplicates(
    options: argparse.Namespace, result: "Import", config: "HubConfig", costs: Mapping[str, str] = {}
) -> None:
    """Ask which of the servers that are probably the same are to be kept; where nobody can or wants to be asked all are
    kept, which is said. `costs`: what each of them offers, as far as that is known.

    Raises:
        UsageError: there was no answer.
    """
    from config.hosts.doubts import near_duplicates

    output: Output = options.output
    groups = near_duplicates((*result.taken, *result.known), config.upstreams)
    for group in groups:
        output.append("near_duplicates", {"names": list(group.names), "why": group.why})
        if options.yes or options.dry_run or not output.is_attended():
            output.note(f"{_listed(group.names)} are probably the same ({group.why}); all are kept")
        else:
            for name, kept in keep_which(group, config, output, costs).items():
                result.merge(name, kept)


def keep_which(
    group: "NearDuplicates", config: "HubConfig", output: Output, costs: Mapping[str, str] = {}
) -> dict[str, str]:
    """Ask which servers of a group to keep: for each other one that is new, the name of the one that stands for it.

    Raises:
        UsageError: there was no answer.
    """
    from hub.wire.printable import printable

    shown = [f"These are probably the same ({group.why}):"]
    for number, name in enumerate(group.names, 1):
        shown.append(f"  {number}  {name}: {_origin(name, group, config)}")
        shown += [f"     {text}" for text in (_difference(name, group), costs.get(name)) if text]
    output.progress.show("", *map(printable, shown))
    new = {name for name, _ in group.servers} - config.upstreams.keys()
    while True:
        answer = ask(f"Keep which? 1 to {len(group.names)}, several with commas, Enter for all:")
        words = [word.strip() for word in answer.split(",") if word.strip()]
        if not words:
            return {}
        if all(word.isascii() and word.isdigit() and 1 <= int(word) <= len(group.names) for word in words):
            kept = [group.names[int(word) - 1] for word in words]
            return {name: kept[0] for name in group.names if name in new and name not in kept}
        output.progress.show(f"The answers are: numbers from 1 to {len(group.names)}, or Enter.")


def _difference(name: str, group: "NearDuplicates") -> str:
    """The variables and headers by which one server differs from the others of its group, without their values."""
    settings: dict[str, dict[str, Any]] = {}
    for each, server in group.servers:
        tables = [server.values.get(table) for table in ("env", "headers")]
        settings.setdefault(each, {}).update(
            {k: v for table in tables if isinstance(table, dict) for k, v in table.items()}
        )
    own = settings.pop(name, {})
    if not settings:
        return ""
    others = {key for table in settings.values() for key in table}
    alone = [key for key in own if key not in others]
    unlike = [key for key in own if any(key in table and table[key] != own[key] for table in settings.values())]
    found = (("also sets", alone), ("has another value of", unlike))
    texts = [f"{does} {_listed(keys)}" for does, keys in found if keys]
    return ", and ".join(texts)


def _origin(name: str, group: "NearDuplicates", config: "HubConfig") -> str:
    found = [server for each, server in group.servers if each == name]
    if found:
        hosts = ", ".join(dict.fromkeys(server.place.title for server in found))
        return f"{_brief(found[0].values)} ({hosts})"
    upstream = config.upstreams[name]
    values = {"command": upstream.command, "args": list(upstream.args), "url": upstream.url}
    return f"{_brief(values)} (the hub has it)"


def _brief(values: Mapping[str, Any]) -> str:
    """The command or address of a server, without secrets."""
    from config.secrets.detection import masked, secrets_in

    words = [str(values.get("command")), *map(str, values.get("args") or ())]
    text = str(values["url"]) if values.get("url") else shlex.join(words)
    return masked(text, list(secrets_in(dict(values))))


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
