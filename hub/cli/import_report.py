"""The report of `hubd import` for people: what happens to each server and why, and what is left to do."""

import argparse
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from hub.cli.change_report import below_home
from hub.cli.host_selection import chosen_hosts
from hub.cli.subcommand import Output

if TYPE_CHECKING:
    from config.hosts.facts import Machine
    from config.hosts.host_servers import Identity, Server, Skipped
    from config.hosts.import_choice import Import
    from config.hosts.installed import Records
    from config.settings import HubConfig
    from hub.cli.server_watch import ServerOutcome


def summarise(result: "Import", skipped: list["Skipped"], config: "HubConfig", output: Output) -> None:
    """A table of what happens to each server, and below it why. `config`: the hub's present configuration."""
    from hub.cli.render.screen import Table

    off = {name for name, upstream in config.upstreams.items() if upstream.disabled}
    off |= {name for name, server in result.taken if server.off or server.values.get("disabled")}
    new = {name for name, _ in result.taken}

    rows = [
        *((s.place, s.key, "taken", f"imported as {name}", name, _remarks(s)) for name, s in result.taken),
        *(
            (
                s.place,
                s.key,
                "known",
                f"{'duplicate of' if name in new else 'hubd has it as'} {name}",
                name,
                result.doubt(name, s) or result.about_tools(name, s),
            )
            for name, s in result.known
        ),
        *((s.place, s.key, "skipped", "skipped", None, s.why) for s in (*result.skipped, *skipped)),
    ]
    members = ("host", "title", "server", "did", "name", "disabled", "why")
    servers = [
        dict(zip(members, (place.host.id, place.title, key, did, name, name in off, why), strict=True))
        for place, key, did, _, name, why in rows
    ]
    output.set(servers=servers)
    if not rows:
        output.say("there are no servers to take over")
        return
    printed = [
        [str(cell).replace("\n", " ") for cell in (place.title, key, what)]
        for place, key, what in (
            (place, key, what + ", disabled" * (name in off)) for place, key, _, what, name, _ in rows
        )
    ]
    output.show(Table(("HOST", "SERVER", "WHAT"), printed, shorten=("HOST", "SERVER")))
    reasons = [f"{row[1]} of {row[0]}: {why}" for row, (*_, why) in zip(printed, rows, strict=True) if why]
    if reasons:
        output.show("", *(reason.replace("\n", " ") for reason in reasons))


def _remarks(server: "Server") -> str:
    from config.hosts.import_choice import disabled_because

    return "; ".join((*((disabled_because(server.off),) if server.off else ()), *server.notes))


def say_elsewhere(
    options: argparse.Namespace, machine: "Machine", known: "Mapping[Identity, str]", output: Output
) -> None:
    """Report servers of single folders in the user's files, put there unasked by hosts; only --project takes these."""
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.facts import every_user_file, local_place
    from config.hosts.host_servers import folders, survey
    from config.hosts.import_writing import known_in
    from config.hosts.install import text_at

    if options.project is not None:
        return
    for file in (each for host in chosen_hosts(options, machine) for each in every_user_file(host, machine)):
        with suppress(EditError, EditRefused):
            text = text_at(file.path)
            for folder in (each for each in folders(file, text) if each.is_dir()):
                with suppress(EditRefused):
                    servers, _ = survey(local_place(file, folder), text, machine.environ, machine.home)
                    there = {*known, *known_in(folder, machine.environ)[0]}
                    keys = [each.key for each in servers if not {each.identity, each.original} & there]
                    if keys:
                        where = below_home(folder, machine.home)
                        named = "".join(f" --server {shlex.quote(key)}" for key in dict.fromkeys(keys))
                        text = f"{', '.join(keys)} of the folder {where} {'stays' if len(keys) == 1 else 'stay'} with"
                        command = f"`hubd import {file.host.id} --project {where}{named}`"
                        output.note(f"{text} {file.title}; {command} takes {'it' if len(keys) == 1 else 'them'} over")


def say_tried(result: "Import", outcomes: "Mapping[str, ServerOutcome]", output: Output) -> None:
    """Report how the servers that were taken do in the hub that runs; one that needs a sign-in stays in its host."""
    from hub.wire.printable import printable

    for name, server in result.taken:
        if (outcome := outcomes.get(name)) is None or outcome.state == "disabled":
            continue
        text = outcome.summary
        if outcome.state == "unauthorized":
            text = f"sign-in needed: stays in {server.place.title}"
            if outcome.sign_in:
                text += f" until you have signed in (`{outcome.sign_in}`) and run `hubd import --disable-originals`"
        output.append(
            "tried", {"name": name, "state": outcome.state, "tools": outcome.tools, "why": outcome.why or None}
        )
        output.say(printable(f"{name} of {server.place.title}: {text}"))


def say_next(
    options: argparse.Namespace, result: "Import", machine: "Machine", records: "Records", output: Output
) -> None:
    """Report what is left to do after an import: put the hub into hosts, and take the servers out of them."""
    from config.hosts.leaving import has_hub

    places = [server.place for _, server in (*result.taken, *result.known)]
    without = dict.fromkeys(place.host.id for place in places if not has_hub(place, machine, records))
    if without and not options.disable_originals:  # else it was said already
        output.note(f"{', '.join(without)} cannot reach the hub yet: `hubd install {' '.join(without)}` puts it there")
    for project in dict.fromkeys(server.place.project for _, server in result.taken):
        if project is not None:
            where = below_home(project, machine.home)
            output.note(f"the servers of {where} start once you have allowed its files: `hubd trust {where}`")
    if result.taken and not options.disable_originals:
        output.note(
            "the hosts still start these servers, too, until `hubd import --disable-originals` turns them off there"
        )
