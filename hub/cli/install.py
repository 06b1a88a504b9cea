"""`hubd install` and `uninstall`: put the hub into the files of hosts, and take it out."""

import argparse
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import EX_OK
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hub.cli.change_report import as_object, as_sentence, of_place, say_refused, show
from hub.cli.host_selection import chosen_hosts, chosen_places, project_of
from hub.cli.subcommand import EX_FAILED, Output, UsageError, add, add_config, now, own_command

if TYPE_CHECKING:
    from config.hosts.facts import Host, Machine, Place
    from config.hosts.install import Plan, Records
    from config.hosts.originals import Original


_MEMBERS: Final = """\
  dry_run  whether it was only tried
  hosts    of each file: host (as it is named here), title and file; did (added, updated, removed, restored, unchanged,
           absent, refused, failed) and why; restored, the servers that are back; backup and diff (without secrets);
           commands of the host that change the file in place of hubd; note, what is left to do; by_hand, what to put
           there if it was refused
  notes    what is worth knowing"""
_LISTED: Final = """
           Without a name: host, title, file and hub of each (yes, no, another one, unreadable)"""


def add_commands(commands: Any) -> None:
    """`install` and `uninstall`."""
    text = "put the hub into the configuration of hosts; without a name, list them"
    install = add(commands, "install", _install, text, json=_MEMBERS.replace("\n  notes", f"{_LISTED}\n  notes"))
    _add_choice(install)
    add_config(install)
    install.add_argument("--http", action="store_true", help="with the hub's URL and token, for hosts that take URLs")
    uninstall = add(commands, "uninstall", _uninstall, "take the hub out of the configuration of hosts", json=_MEMBERS)
    _add_choice(uninstall)
    uninstall.add_argument(
        "--restore-originals",
        action="store_true",
        help="put back the servers that `hubd import --disable-originals` turned off or took out",
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="such as claude-desktop, cursor, codex")
    parser.add_argument("--all", action="store_true", help="all hosts that are found on this machine")
    parser.add_argument("--project", type=Path, metavar="DIR", help="the hosts' files in this project, not the user's")
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")


# --- install and uninstall --------------------------------------------------------------------------------------------


def _install(options: argparse.Namespace) -> int:
    from config.hosts.entry import http_entry, stdio_entry
    from config.hosts.entry_environment import carried
    from config.hosts.facts import Machine
    from config.hosts.host_commands import own_program
    from config.hosts.install import plan_install

    machine, output = Machine.this(), options.output
    if not options.hosts and not options.all:
        return _list(options, machine, output)
    hubd, url = own_command(), _address(options.config) if options.http else None
    variables, without_urls = carried(machine.environ, machine.home), []

    def plan(place: "Place", records: "Records") -> "Plan":
        entry = stdio_entry(place.host, hubd, variables)
        if url is not None:
            by_url = http_entry(place.host, *url)
            if by_url is None:
                without_urls.append(place.title)
            entry = by_url or entry
        program = None if place.project else own_program(place.host, machine.environ)
        return plan_install(place, entry, records, program, _originals(place))

    places = chosen_places(options, machine)
    output.set(dry_run=options.dry_run, hosts=[], notes=[])
    code = _carry_out(options, machine, places, plan, lambda host: stdio_entry(host, hubd, variables))
    for title in without_urls:
        output.note(f"{title} takes no URLs, so it starts `hubd connect`")
    if variables and (url is None or without_urls):
        output.note(f"the entries name the directories of this shell's hub: {', '.join(variables)}")
    if url is not None and url[1] is not None and not options.dry_run:
        output.note("these files now hold the hub's token: keep them to yourself, and out of repositories")
    return code


def _uninstall(options: argparse.Namespace) -> int:
    from config.hosts.facts import Machine
    from config.hosts.host_commands import own_program
    from config.hosts.install import plan_restore, plan_uninstall

    machine = Machine.this()
    if not options.hosts and not options.all:
        raise UsageError("name hosts, or write --all; `hubd install` lists them")
    options.output.set(dry_run=options.dry_run, hosts=[], notes=[])
    tried: set[Path] = set()

    def plan(place: "Place", records: "Records") -> "Plan":
        program = None if place.project else own_program(place.host, machine.environ)
        planned = plan_uninstall(place, records, program, _originals(place), restore=options.restore_originals)
        if not planned.program:
            tried.add(place.path)
        return planned

    def rest(place: "Place", records: "Records") -> "Plan":
        return plan_restore(place, _originals(place))

    code = _carry_out(options, machine, chosen_places(options, machine), plan)
    if not options.restore_originals:
        _remind(options, machine)
        return code
    left = [place for place in _with_originals(options, machine) if place.path not in tried]
    return max(code, _carry_out(options, machine, left, rest))


def _originals(place: "Place") -> "list[Original]":
    """The servers that an import took out of a host's file."""
    from config.hosts.originals import Originals
    from config.hub_paths import originals_path

    return Originals(originals_path()).of(place.path, place.host.id, place.project)


def _with_originals(options: argparse.Namespace, machine: "Machine") -> list["Place"]:
    """The files of the chosen hosts that an import took servers out of."""
    from config.hosts.facts import Place
    from config.hosts.originals import Originals
    from config.hub_paths import originals_path

    project, out = project_of(options), Originals(originals_path())
    return [
        Place(host, path, f"{host.title} in {project}" if project else host.title, project)
        for host in chosen_hosts(options, machine)
        for path in out.all()
        if out.of(path, host.id, project)
    ]


def _remind(options: argparse.Namespace, machine: "Machine") -> None:
    """Say which hosts are left without servers that they had before the hub."""
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.install import text_at

    for place in _with_originals(options, machine):
        with suppress(EditError, EditRefused):
            text = text_at(place.path)
            if count := sum(each.is_out(text) for each in _originals(place)):
                where = f" --project {shlex.quote(str(place.project))}" if place.project else ""
                several = count != 1
                options.output.note(
                    f"{count} server{'s' * several} that `hubd import --disable-originals` took out of {place.title} "
                    f"{'are' if several else 'is'} still out; put {'them' if several else 'it'} back with "
                    f"`hubd uninstall {place.host.id}{where} --restore-originals`"
                )


def _carry_out(
    options: argparse.Namespace,
    machine: "Machine",
    places: Sequence["Place"],
    plan: Callable[["Place", "Records"], "Plan"],
    by_hand: Callable[["Host"], Mapping[str, Any]] | None = None,
) -> int:
    """Decide and carry out the change of each file in turn; a failure of one does not stop the others.

    `by_hand`: the entry to put by hand into a file where the change is refused.
    """
    from config.errors import EditError
    from config.files import locked
    from config.hosts.install import Records, carry_out
    from config.hub_paths import backup_dir, installed_path, state_dir

    output: Output = options.output
    code = EX_OK
    with locked(state_dir()):
        records = Records(installed_path())
        for place in places:
            try:
                planned = plan(place, records)
                if planned.did == "refused":
                    code = say_refused(planned, by_hand, output)
                    continue
                backup = None
                if options.dry_run:
                    show(planned, output)
                else:
                    backup = carry_out(planned, records, now=now(), backups=backup_dir(), environ=machine.environ)
                    remember_originals(planned)
                    output.say(as_sentence(planned, backup))
                output.append("hosts", as_object(planned, backup))
                for key, why in planned.still_out.items():
                    code = output.fail(EX_FAILED, f'{place.title}: "{key}" is not put back into {place.path}: {why}')
            except EditError as error:
                code = output.fail(EX_FAILED, f"{place.title}: {error}")
                output.append("hosts", {**of_place(place), "did": "failed", "why": str(error)})
    return code


def remember_originals(planned: "Plan") -> None:
    """Update the record of servers that an import took out, after the change of a file."""
    from config.hosts.originals import Originals
    from config.hub_paths import originals_path

    if planned.originals or planned.restored:
        out = Originals(originals_path())
        out.forget(planned.place.path, planned.restored)
        if planned.originals:
            out.add(planned.place.path, planned.originals)


def _list(options: argparse.Namespace, machine: "Machine", output: Output) -> int:
    """The hosts that are here, and whether they have the hub."""
    from config.hosts.facts import all_hosts, is_found, user_places
    from config.hosts.install import Records
    from config.hub_paths import installed_path
    from hub.cli.render.tables import table

    records, project = Records(installed_path()), project_of(options)
    places = [
        place
        for host in all_hosts().values()
        if is_found(host, machine)
        for place in (user_places(host, machine) if project is None else _of_project(host, project))
    ]
    found = [{**of_place(place), "hub": _state(place, records)} for place in places]
    output.set(hosts=found)
    if not found:
        output.say(
            f"No hosts are found on this machine. `hubd install NAME` installs anyway for: {', '.join(all_hosts())}"
        )
        return EX_OK
    rows = [tuple(each[name] for name in ("host", "title", "hub", "file")) for each in found]
    output.say("\n".join(table(("NAME", "HOST", "HUB", "FILE"), rows)))
    where = f" --project {shlex.quote(str(options.project))}" if project is not None else ""
    output.say(
        f"\nRun `hubd install{where} NAME...` or `hubd install{where} --all`; --dry-run shows the changes first."
    )
    return EX_OK


def _of_project(host: "Host", project: Path) -> list["Place"]:
    from config.hosts.facts import project_place

    place = project_place(host, project)
    return [] if place is None else [place]


def _state(place: "Place", records: "Records") -> str:
    from config.editing.text.change import EditRefused
    from config.editing.text.serverfile import entries
    from config.errors import EditError
    from config.hosts.entry import KEY
    from config.hosts.install import is_ours, text_at

    try:
        entry = entries(place.kept, text_at(place.path)).get(KEY)
    except (EditError, EditRefused):
        return "unreadable"
    return "no" if entry is None else "yes" if is_ours(entry, records.get(place.path)) else "another one"


# --- by URL -----------------------------------------------------------------------------------------------------------


def _address(named: Path | None) -> tuple[str, str | None]:
    """The URL of the hub and its token, from its configuration; None: no token is needed.

    Raises:
        UsageError: the configuration leaves the port to the kernel, or does not name the proxy.
        ConfigError: the configuration cannot be used.
    """
    from config.hub_paths import token_path
    from config.loading.assemble import load_all
    from config.loading.check import split_listen
    from hub.downstream.http.access import checked_token, read_or_make_token, ways_in

    config = load_all(named, os.environ, partly=True).config
    host, port = split_listen(config.listen)
    if port == 0:
        raise UsageError('--http needs a fixed port: write listen = "127.0.0.1:8765" in hubd.toml')
    ways = ways_in(config, host, port)
    if ways.here is None and not ways.proxied:
        raise UsageError(
            f"--http: hosts of this machine cannot reach {config.listen} itself, and the proxy has no name yet: write "
            'allowed_hosts = ["NAME:443"] in hubd.toml'
        )
    url = ways.here or ways.proxied[0]
    if config.auth == "none":
        return url, None
    return url, read_or_make_token(token_path()) if config.token is None else checked_token(config.token.reveal())
