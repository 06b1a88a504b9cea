"""Screens of `hubd import`: the choices between servers, and the report.

Single servers are chosen by name, and one of several that are probably the same. The report says what happens to each
server and why, and what is left to do.
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from config.diagnostics import EditError
from config.editing.text.change import EditRefused
from config.hosts.host_servers import Identity, Server, Skipped, folders, survey
from config.hosts.import_plan import Import, say_disabled
from config.hosts.install import text_at
from config.hosts.known_hosts import Place, every_user_file, local_place
from config.hosts.near_duplicates import NearDuplicates, near_duplicates, start_of
from config.hosts.removal_choice import has_hub
from config.hosts.servers_in_hub import names_in_project
from config.secrets.detection import secrets_in
from config.secrets.masks import mask_secrets
from config.settings import HubConfig
from hub.cli.await_server_starts import ServerOutcome
from hub.cli.context import Context, Output, UsageError, ask, nearest
from hub.cli.hosts.change_host_files import below_home
from hub.cli.hosts.choose_hosts import choose_hosts
from hub.cli.render.blocks import Table
from hub.cli.render.words import join_names
from hub.wire.printable import printable


def choose_named(options: Context, servers: list[Server], skipped: list[Skipped]) -> tuple[list[Server], list[Skipped]]:
    """The servers that `--server` names, by their host's name or as the hub would call them; all without it. Raises
    UsageError: no host has one of that name."""
    if not options.server:
        return servers, skipped
    known = {name for server in servers for name in (server.key, server.name)} | {each.key for each in skipped}
    for name in options.server:
        if name not in known:
            there = ", ".join(sorted({server.key for server in servers})) or "none"
            hint = nearest(name, known) or f"there are: {there}"
            raise UsageError(f"--server: no host has a server {name}; {hint}")
    wanted = set(options.server)
    return (
        [server for server in servers if {server.key, server.name} & wanted],
        [each for each in skipped if each.key in wanted],
    )


def settle_near_duplicates(options: Context, result: Import, config: HubConfig, costs: Mapping[str, str] = {}) -> None:
    """Ask which of the servers that are probably the same are to be kept; where nobody can or wants to be asked all are
    kept, which is said. `costs`: what each of them offers, as far as that is known. Raises UsageError: there was no
    answer."""
    output = options.output
    groups = near_duplicates(result.all, config.upstreams)
    for group in groups:
        output.append("near_duplicates", {"names": list(group.names), "why": group.why})
        if options.yes or options.dry_run or not output.is_attended():
            output.note(f"{join_names(group.names)} are probably the same ({group.why}); all are kept")
        else:
            for name, kept in keep_which(group, config, output, costs).items():
                result.merge(name, kept)


def keep_which(
    group: NearDuplicates, config: HubConfig, output: Output, costs: Mapping[str, str] = {}
) -> dict[str, str]:
    """Ask which servers of a group to keep: for each other one that is new, the name of the one that stands for it.
    Raises UsageError: there was no answer."""
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


def _difference(name: str, group: NearDuplicates) -> str:
    """The variables and headers by which one server differs from the others of its group, without their values."""
    settings: dict[str, dict[str, Any]] = {}
    for each, server in group.servers:
        for table in (server.values.get("env"), server.values.get("headers")):
            settings.setdefault(each, {}).update(table if isinstance(table, dict) else {})
    own = settings.pop(name, {})
    if not settings:
        return ""
    others = {key for table in settings.values() for key in table}
    alone = [key for key in own if key not in others]
    unlike = [key for key in own if any(key in table and table[key] != own[key] for table in settings.values())]
    found = (("also sets", alone), ("has another value of", unlike))
    return ", and ".join(f"{does} {join_names(keys)}" for does, keys in found if keys)


def _origin(name: str, group: NearDuplicates, config: HubConfig) -> str:
    found = [server for each, server in group.servers if each == name]
    if found:
        hosts = ", ".join(dict.fromkeys(server.place.title for server in found))
        return f"{_brief(found[0].values)} ({hosts})"
    return f"{_brief(start_of(config.upstreams[name]))} (the hub has it)"


def _brief(values: Mapping[str, Any]) -> str:
    """The command or address of a server, without secrets."""
    words = [str(values.get("command")), *map(str, values.get("args") or ())]
    text = str(values["url"]) if values.get("url") else shlex.join(words)
    return mask_secrets(text, list(secrets_in(dict(values))))


def summarise(result: Import, skipped: list[Skipped], config: HubConfig, output: Output) -> None:
    """A table of what happens to each server, and below it why. `config`: the hub's present configuration."""
    off = {name for name, upstream in config.upstreams.items() if upstream.disabled}
    off |= {name for name, server in result.taken if server.off or server.values.get("disabled")}
    new = {name for name, _ in result.taken}
    rows: list[tuple[Server | Skipped, str, str, str | None, str]] = [
        (each, "taken", f"imported as {name}", name, _remarks(each)) for name, each in result.taken
    ]
    for name, server in result.known:
        what = f"{'duplicate of' if name in new else 'hubd has it as'} {name}"
        rows.append((server, "known", what, name, result.doubt(name, server) or result.about_tools(name, server)))
    rows += [(each, "skipped", "skipped", None, each.why) for each in (*result.skipped, *skipped)]
    members = ("host", "title", "server", "did", "name", "disabled", "why")
    servers = [
        (each.place.host.id, each.place.title, each.key, did, name, name in off, why)
        for each, did, _, name, why in rows
    ]
    output.set(servers=[dict(zip(members, server, strict=True)) for server in servers])
    if not rows:
        output.say("there are no servers to take over")
        return
    printed = []
    reasons: dict[str, list[str]] = {}
    for entry, _, what, known, why in rows:
        title, key = entry.place.title.replace("\n", " "), entry.key.replace("\n", " ")
        printed.append((title, key, what + ", disabled" * (known in off)))
        if why:
            reasons.setdefault(why.replace("\n", " "), []).append(f"{key} of {title}")
    output.show(Table(("HOST", "SERVER", "WHAT"), printed, shorten=("HOST", "SERVER")))
    if reasons:
        output.show("", *(f"{', '.join(names)}: {why}" for why, names in reasons.items()))


def _remarks(server: Server) -> str:
    return "; ".join((say_disabled(server.off), *server.notes) if server.off else server.notes)


def say_shared(places: Iterable[Place], output: Output) -> None:
    """Report hosts whose files are links to one file, whatever keys in it they read."""
    firsts: dict[str, Place] = {}
    for place in places:
        first = firsts.setdefault(os.path.realpath(place.path), place)
        if first.path != place.path:
            output.note(f"{place.title} has the same file as {first.title}, {first.path}: it is changed once, for both")


def say_elsewhere(options: Context, known: Mapping[Identity, str]) -> None:
    """Report servers of single folders in the user's files, put there unasked by hosts; only --project takes these."""
    if options.project is not None:
        return
    machine = options.machine
    for file in (each for host in choose_hosts(options) for each in every_user_file(host, machine)):
        with suppress(EditError, EditRefused):
            text = text_at(file.path)
            for folder in (each for each in folders(file, text) if each.is_dir()):
                with suppress(EditRefused):
                    servers, _ = survey(local_place(file, folder), text, machine.environ, machine.home)
                    there = {*known, *names_in_project(folder, machine.environ)[0]}
                    keys = [each.key for each in servers if not {each.identity, each.original} & there]
                    if keys:
                        where = below_home(folder, machine.home)
                        named = "".join(f" --server {shlex.quote(key)}" for key in dict.fromkeys(keys))
                        stay, them = ("stays", "it") if len(keys) == 1 else ("stay", "them")
                        command = f"`hubd import {file.host.id} --project {where}{named}` takes {them} over"
                        said = f"{', '.join(keys)} of the folder {where} {stay} with {file.title}; {command}"
                        options.output.note(said)


def say_tried(result: Import, outcomes: Mapping[str, ServerOutcome], output: Output) -> None:
    """Report how the servers that were taken do in the hub that runs; one that needs a sign-in stays in its host."""
    for name, server in result.taken:
        if (outcome := outcomes.get(name)) is None or outcome.state == "disabled":
            continue
        text = outcome.summary
        if outcome.state == "unauthorized":
            text = f"sign-in needed: stays in {server.place.title}"
            if outcome.sign_in:
                text += f" until you have signed in (`{outcome.sign_in}`) and run `hubd import --disable-originals`"
        facts = {"name": name, "state": outcome.state, "tools": outcome.tools, "why": outcome.why or None}
        output.append("tried", facts)
        output.say(printable(f"{name} of {server.place.title}: {text}"))


def say_next(options: Context, result: Import) -> None:
    """Report what is left to do after an import: put the hub into hosts, and take the servers out of them."""
    machine, output = options.machine, options.output
    places = [server.place for _, server in result.all]
    without = dict.fromkeys(place.host.id for place in places if not has_hub(place, machine, options.records))
    if without and not options.disable_originals:  # else it was said already
        output.note(f"{', '.join(without)} cannot reach the hub yet: `hubd install {' '.join(without)}` puts it there")
    for project in dict.fromkeys(server.place.project for _, server in result.taken):
        if project is not None:
            where = below_home(project, machine.home)
            output.note(f"the servers of {where} start once you have allowed its files: `hubd trust {where}`")
    if result.taken and not options.disable_originals:
        text = "the hosts still start these servers, too, until `hubd import --disable-originals` turns them off there"
        output.note(text)
