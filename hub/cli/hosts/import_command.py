"""`hubd import`: take over the servers that hosts have."""

import os
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from config.atomic_writes import read_file
from config.diagnostics import EditError
from config.editing.text.change import EditRefused
from config.hosts import servers_in_hub, write_import_to_files
from config.hosts.host_servers import Server, Skipped
from config.hosts.import_plan import Import, Secrets
from config.hosts.known_hosts import Place, all_hosts, every_user_file, project_files
from config.hosts.removal_choice import SIGN_IN, Stays, drop_changed
from config.hosts.secret_literals import NewSecrets
from config.loading.gather import OWN_VARIABLES
from config.secrets.detection import secrets_in
from config.secrets.store import SecretStore
from hub.cli.configuration.env_command import record_shell
from hub.cli.context import CommandFailed, Context, Output, UsageError, agreed, ask
from hub.cli.hosts import import_screens
from hub.cli.hosts.carry_out_import import ImportedOriginals, carry_out_writes, remember_hosts, show_writes
from hub.cli.hosts.change_host_files import below_home
from hub.cli.hosts.choose_hosts import choose_hosts, project_of
from hub.cli.hosts.one_command_at_a_time import in_turn
from hub.cli.hosts.who_runs_servers import outcomes_in_hub, read_servers
from hub.cli.parser import add, add_config, on_main_file
from hub.cli.secret_commands import say_kept
from hub.cli.setup.probe import probe
from hub.cli.shell_secrets import keep_in, settle_of_import

_MEMBERS: Final = """\
  dry_run   whether it was only tried
  servers   of each server of a host: host, title, server (its name there), did (taken, skipped, or known, if the hub or
            this import has it already), name (the hub's), whether it is disabled there, and why
  near_duplicates
            of servers that are probably the same: names (the hub's) and why
  tried     with a hub that runs, of each server that was taken: name, state, tools and why
  files     of each that changes: file, backup (null: it is new) and diff, without secrets
  secrets   names under which secrets are kept (--secrets store)
  commands  of hosts that change their files themselves
  stay      of each server that --disable-originals leaves with its host: host, server (its name there), name (the
            hub's) and why
  notes     what is worth knowing"""


def add_commands(commands: Any) -> None:
    """`import`."""
    parser = add(commands, "import", on_main_file(in_turn(_import)), json=_MEMBERS)
    parser.add_value("hosts", "HOST", "such as claude-desktop; all that are found if none", nargs="*")
    text = "the hosts' files of this project, too: its servers go into its own file, DIR/.hubd.toml"
    parser.add_value("--project", "DIR", text, type=Path)
    parser.add_value("--server", "NAME", "only this server of theirs; may be repeated", action="append", default=[])
    parser.add_flag("--dry-run", "show what would be changed, and change nothing")
    text = "move them to where `hubd secret` keeps them, copy them, refer to variables of the same names, or leave out "
    text += "servers that hold any"
    parser.add_argument("--secrets", choices=("store", "keep", "reference", "skip"), help=text)
    text = "turn off in the hosts what the hub serves then; taken out, with a backup, where they cannot turn off"
    parser.add_flag("--disable-originals", text)
    text = "with --disable-originals: this server (or '*'), too, even if the hub does not serve it; may be repeated"
    parser.add_value("--force", "NAME", text, action="append", default=[])
    parser.add_flag("--without-hub", "turn them off also in hosts that do not have the hub itself")
    parser.add_flag("--again", "take what `hubd remove` took out of the hub, too")
    add_config(parser)
    parser.add_flag("--yes", "do not ask; without a terminal nobody is asked")


def _import(options: Context, output: Output) -> None:
    machine, directory = options.machine, servers_in_hub.import_directory(options.config)
    present = servers_in_hub.load_present(options.config, os.environ)
    config, environ = present.config, present.environ
    output.set(dry_run=options.dry_run, files=[], commands=[], notes=output.member("notes", []))
    servers, skipped = _survey(options.replace(machine=structs.replace(machine, environ=environ)))
    servers, skipped = import_screens.choose_named(options, servers, skipped)
    ours = servers_in_hub.names_by_identity(config, directory, environ)
    dropped = set() if options.again else servers_in_hub.removals_in(directory)
    project = project_of(options)
    there, names = ({}, []) if project is None else servers_in_hub.names_in_project(project, environ)

    own_file = below_home(directory.with_name(OWN_VARIABLES), machine.home)

    def take(secrets: Secrets) -> Import:
        tools = {name: upstream.tools for name, upstream in config.upstreams.items()}
        result = Import(ours | there, [*config.upstreams, *names], secrets, dropped, tools, own_file)
        for server in servers:
            result.add(server)
        return result

    result, stores = _decide(options, take, directory)
    import_screens.settle_near_duplicates(options, result, config)
    wanting = _leave_for_sign_in(options, result, directory)
    held = [secret for _, server in result.taken for secret in secrets_in(server.values)]
    variables, unkept = settle_of_import(options, result, present.own_lines)
    new = NewSecrets(SecretStore.open()) if stores or variables else None
    if new is not None:
        keep_in(new, variables)
    if new is not None and stores:
        result.store_literals(new)

    def plan_writes() -> list[write_import_to_files.Write]:
        found = write_import_to_files.plan_files(result, directory, environ)
        if project is not None and (write := write_import_to_files.project_write(result, project, environ)) is not None:
            found.append(write)
        if new is not None:
            new.forget_unused([write.after for write in found])
            output.set(secrets=sorted(new.values))
        return found

    writes = plan_writes()
    originals = ImportedOriginals(options, result, config, unkept, wanting)
    import_screens.summarise(result, skipped, config, output)
    import_screens.say_elsewhere(options, ours)
    if options.dry_run:
        for name in () if new is None else new.values:
            output.say(f"would be kept as by `hubd secret set`: {name}")
        show_writes(writes, held, output)
        return originals.show()
    if not _may_write(options, writes, originals):
        raise CommandFailed("nothing was changed")
    if stays := drop_changed(result):
        for each in stays:
            output.fail(each.sentence)
        writes = plan_writes()
    if new is not None:
        say_kept(new.keep(), output)
    carry_out_writes(writes, held, output)
    record_shell(options.config, output)
    remember_hosts(result)
    if not options.disable_originals:
        own = [name for name, server in result.taken if server.place.project is None and not server.off]
        import_screens.say_tried(result, outcomes_in_hub(own, output, main=originals.main), output)
    originals.take_out()
    import_screens.say_next(options, result)


# --- reading ----------------------------------------------------------------------------------------------------------


def _survey(options: Context) -> tuple[list[Server], list[Skipped]]:
    """The servers in all files, in the order of the hosts. An unreadable file is a failure."""
    servers: list[Server] = []
    skipped: list[Skipped] = []
    places = list(_places(options))
    if options.disable_originals:
        import_screens.say_shared(places, options.output)
    for place in places:
        try:
            found, not_found = read_servers(place, options.machine, options.records)
        except (EditError, EditRefused) as error:
            why = str(error) if str(place.path) in str(error) else f"{place.path}: {error}"
            options.output.fail(f"{place.title}: {why}")
            continue
        servers += found
        skipped += not_found
    return servers, skipped


def _places(options: Context) -> Iterator[Place]:
    chosen, project, machine = choose_hosts(options), project_of(options), options.machine
    if not chosen and project is None:
        raise UsageError(f"no hosts are found on this machine; known are: {', '.join(all_hosts())}")
    for host in chosen:
        found = every_user_file(host, machine)
        if not found and options.hosts:
            options.output.note(f"{host.title}: there is no file of it")
        yield from found
    if project is not None:
        places: dict[tuple[Path, tuple[str, ...]], Place] = {}
        for host in chosen if options.hosts else all_hosts().values():
            for place in project_files(host, project, machine):
                places.setdefault((place.path, place.kept.root), place)
        yield from places.values()


def _leave_for_sign_in(options: Context, result: Import, directory: Path) -> list[Stays]:
    """Leave new servers that want a sign-in with their hosts, unless the command line names them: every host is offered
    what is in the hub."""
    if not options.disable_originals or options.dry_run:
        return []

    def is_asked(name: str, server: Server) -> bool:
        named = {name, server.key, server.name} & set(options.server) or any(
            fnmatchcase(name, x) for x in options.force
        )
        return bool(server.values.get("url")) and not (server.off or server.place.project or named)

    asked = [each for each in result.taken if is_asked(*each)]
    own = read_file(directory.with_name(OWN_VARIABLES), trusted=True) or b""
    head = "Looking which of the servers that have a URL want a sign-in. Nothing is changed yet."
    outcomes, stays = probe(asked, options.output, variables=own, head=head), []
    for name, server in asked:
        if outcomes[name].state == "unauthorized":
            gone = result.drop_server(name, server, "sign-in needed: stays with its host")
            stays += [Stays(each.place, each.key, name, SIGN_IN, "sign-in") for _, each in gone]
    return stays


# --- questions --------------------------------------------------------------------------------------------------------


def _decide(options: Context, take: Callable[[Secrets], Import], directory: Path) -> tuple[Import, bool]:
    """The import, after the decision about secrets; True if they go to the store. A trial asks nothing, and says so."""
    result = take("keep")
    if not any(server.spots() for _, server in result.taken):
        return result, False
    if options.dry_run and options.secrets is None:
        trial = "It is shown as if they were kept; an import without --secrets asks what becomes of them."
        options.output.note(f"{_list_held(result)}\n{trial}")
    chosen = _secrets(options, result, directory)
    return take(chosen), chosen == "store"


def _secrets(options: Context, result: Import, directory: Path) -> Secrets:
    """The decision what to do with secrets. Raises: UsageError, if no option says it and there is nobody to ask."""
    if options.secrets is not None:
        chosen: Secrets = options.secrets
        return chosen
    if options.dry_run:
        return "keep"
    text = _list_held(result)
    if not options.output.is_attended():
        raise UsageError(f"{text}\nsay what becomes of them: --secrets store, keep, reference or skip")
    print(text, file=sys.stderr)
    print("[m]ove them to where `hubd secret` keeps them, in the keyring or a file only you can read;", file=sys.stderr)
    print(f"[k]eep them in files only you can read in {directory};", file=sys.stderr)
    print("[r]efer to environment variables that you set for the hub; or [s]kip these servers?", file=sys.stderr)
    answers: dict[str, Secrets] = {"m": "store", "k": "keep", "r": "reference", "s": "skip"}
    while True:
        answer = ask("m, k, r or s:")[:1]
        if answer in answers:
            return answers[answer]


def _list_held(result: Import) -> str:
    """The servers with values that look like secrets, and where."""
    lines = [f"  {name} ({server.place.title}): {server.held}" for name, server in result.taken if server.held]
    return "These servers hold what looks like secrets:\n" + "\n".join(lines)


def _may_write(options: Context, writes: list[write_import_to_files.Write], originals: ImportedOriginals) -> bool:
    """Ask whether to write; yes without asking, if nobody can or wants to be asked."""
    if options.yes or not options.output.is_attended():
        return True
    files = originals.files()
    if not writes and not files:
        return True
    question = f"Write {', '.join(str(each.path) for each in writes)}" if writes else ""
    if files:
        out = f"ake out of {', '.join(files)} what the hub serves then"
        question = f"{question}, and t{out}" if question else f"T{out}"
    return agreed(f"{question}?", default=True)
