"""`hubd install` and `uninstall`: put the hub into the files of hosts, and take it out."""

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from config.diagnostics import ConfigError, EditError
from config.editing.text.change import EditRefused
from config.editing.text.serverfile import entries
from config.hosts.hub_entries import KEY, Records, our_entries
from config.hosts.install import Plan, own_program, plan_entries, plan_restore, plan_uninstall, text_at
from config.hosts.known_hosts import Place, all_hosts, is_found, project_places, user_places
from config.hosts.removed_originals import is_same_file, of_host
from config.hosts.servers_in_hub import import_directory, names_by_identity
from config.hub_paths import config_file, runtime_dir, state_dir
from hub.cli.configuration.env_command import record_shell
from hub.cli.context import Context, Output, UsageError
from hub.cli.hosts.change_host_files import Decide, carry_out_changes, of_place, originals_of
from hub.cli.hosts.choose_hosts import choose_hosts, choose_places, project_of
from hub.cli.hosts.entries_to_install import HostEntries, say_permissions
from hub.cli.hosts.one_command_at_a_time import in_turn
from hub.cli.parser import Parser, add, add_config, on_main_file
from hub.cli.render.blocks import Table
from hub.cli.render.words import count_of
from hub.shim.start_daemon import is_alive

_MEMBERS: Final = """\
  dry_run  whether it was only tried
  hosts    of each file: host (as it is named here), title and file; did (added, updated, removed, restored, unchanged,
           absent, refused, failed) and why; restored, the servers that are back; backup and diff (without secrets);
           commands of the host that change the file in place of hubd; note, what is left to do; by_hand, what to put
           there if it was refused
  permissions
           of rules that do not match the same tools of the hub: host, file, list (deny, ask, allow, agent), rule and
           new, the rule to add
  notes    what is worth knowing"""
_LISTED: Final = """
           Without a name: host, title, file and hub of each (yes, each: one entry for each server, no, another
           one, unreadable)"""


def add_commands(commands: Any) -> None:
    """`install` and `uninstall`."""
    install = add(commands, "install", _install, json=_MEMBERS.replace("\n  permissions", f"{_LISTED}\n  permissions"))
    _add_choice(install)
    install.add_flag(
        "--each", "one entry for each server, under its own name, so that names of tools stay as they were"
    )
    add_config(install)
    install.add_flag("--http", "with the hub's URL and token, for hosts that take URLs")
    uninstall = add(commands, "uninstall", in_turn(_uninstall), json=_MEMBERS)
    _add_choice(uninstall)
    uninstall.add_flag(
        "--restore-originals", "put back the servers that `hubd import --disable-originals` turned off or took out"
    )


def _add_choice(parser: Parser) -> None:
    parser.add_value("hosts", "HOST", "such as claude-desktop, cursor, codex", nargs="*")
    parser.add_flag("--all", "all hosts that are found on this machine")
    parser.add_value("--project", "DIR", "the hosts' files in this project, not the user's", type=Path)
    parser.add_flag("--dry-run", "show what would be changed, and change nothing")
    parser.add_flag("--yes", "do not ask; without a terminal nobody is asked")


# --- install and uninstall --------------------------------------------------------------------------------------------


def _install(options: Context, output: Output) -> None:
    if not options.hosts and not options.all:
        return _list(options)
    on_main_file(_write, needs_answer=False)(options, output)


def _write(options: Context, output: Output) -> None:
    entries = HostEntries(options)

    def plan(place: Place, records: Records) -> Plan:
        originals, program = originals_of(place), own_program(place, options.machine.environ)
        return plan_entries(place, entries.of(place, originals), records, program, originals)

    places = choose_places(options)
    output.set(dry_run=options.dry_run, hosts=[], notes=[])
    carry_out_changes([(place, plan) for place in places], options, entries.by_hand)
    entries.say(options)
    if not options.each:
        with suppress(ConfigError):  # without servers there are no names
            config = options.loaded.config
            servers = names_by_identity(config, import_directory(options.config), os.environ)
            say_permissions(places, config, servers, options)
    if not options.dry_run and not output.code:
        record_shell(options.config, output)


def _uninstall(options: Context, output: Output) -> None:
    if not options.hosts and not options.all:
        raise UsageError("name hosts, or write --all; `hubd install` lists them")
    output.set(dry_run=options.dry_run, hosts=[], notes=[])

    def plan(place: Place, records: Records) -> Plan:
        program = own_program(place, options.machine.environ)
        return plan_uninstall(place, records, program, originals_of(place), back=options.restore_originals)

    def is_by_program(place: Place) -> bool:
        """True if a program of the host changes the file, so that servers are put back after it."""
        with suppress(EditError):
            return bool(plan(place, options.records).program)
        return False

    places = choose_places(options)
    steps: list[tuple[Place, Decide]] = [(place, plan) for place in places]
    if options.restore_originals:
        done = [place for place in places if not is_by_program(place)]

        def is_done(place: Place) -> bool:
            return any(each.host is place.host and is_same_file(each.path, place.path) for each in done)

        rest = [place for place in _with_originals(options) if not is_done(place)]
        steps += [(place, lambda place, _: plan_restore(place, originals_of(place))) for place in rest]
    carry_out_changes(steps, options)
    if not options.restore_originals:
        _remind(options)
    elif options.all and not options.dry_run:
        _tell_what_stays(output)


def _tell_what_stays(output: Output) -> None:
    """Say what of hubd is left once no host has it any more."""
    with suppress(OSError):
        if is_alive(str(runtime_dir() / "hubd.lock")):
            output.note("the hub still runs; `hubd stop` ends it, and `hubd service uninstall` takes its service away")
    text = f"hubd's own files stay: its configuration in {config_file().parent}, and in {state_dir()} its secrets and"
    output.note(f"{text} the backups of hosts' files. Remove both directories if you do not want hubd any more")


def _with_originals(options: Context) -> list[Place]:
    """The files of the chosen hosts that an import took servers out of."""
    project, out = project_of(options), options.originals
    places = [
        Place(host, path, f"{host.title} in {project}" if project else host.title, project)
        for host in choose_hosts(options)
        for path in out.all()
    ]
    return [place for place in places if out.of(place)]


def _remind(options: Context) -> None:
    """Say which hosts are left without servers that they had before the hub."""
    for place in _with_originals(options):
        with suppress(EditError, EditRefused):
            text = text_at(place.path)
            if count := sum(each.is_out(text) for each in of_host(place, originals_of(place))):
                where = f" --project {shlex.quote(str(place.project))}" if place.project else ""
                are, them = ("is", "it") if count == 1 else ("are", "them")
                text = f"{count_of(count, 'server')} that `hubd import --disable-originals` took out of {place.title}"
                undo = f"`hubd uninstall {place.host.id}{where} --restore-originals`"
                options.output.note(f"{text} {are} still out; put {them} back with {undo}")


def _list(options: Context) -> None:
    """The hosts that are here, and whether they have the hub."""
    machine, records, output, project = options.machine, options.records, options.output, project_of(options)
    places = [
        place
        for host in all_hosts().values()
        if is_found(host, machine)
        for place in (user_places(host, machine) if project is None else project_places(host, project))
    ]
    found = [{**of_place(place), "hub": _state(place, records)} for place in places]
    output.set(hosts=found)
    if not found:
        known = ", ".join(all_hosts())
        return output.say(f"No hosts are found on this machine. `hubd install NAME` installs anyway for: {known}")
    rows = [tuple(each[name] for name in ("host", "title", "hub", "file")) for each in found]
    output.show(Table(("NAME", "HOST", "HUB", "FILE"), rows, shorten=("FILE", "HUB"), drop=("HOST",)))
    where = f" --project {shlex.quote(str(options.project))}" if project is not None else ""
    text = f"\nRun `hubd install{where} NAME...` or `hubd install{where} --all`; --dry-run shows the changes first."
    output.say(text)


def _state(place: Place, records: Records) -> str:
    try:
        found = entries(place.kept, text_at(place.path))
    except (EditError, EditRefused):
        return "unreadable"
    ours = our_entries(place, found, records)
    return "yes" if KEY in ours else "each" if ours else "another one" if KEY in found else "no"
