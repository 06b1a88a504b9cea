"""`hubd import`: take over the servers that hosts have."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.base import EX_FAILED, EX_OK, UsageError, add, add_config, agreed, ask, failed, is_attended, note, now
from hub.cli.hosts import chosen_hosts, diff, text_diff

if TYPE_CHECKING:
    from config.hosts.facts import Machine, Place
    from config.hosts.importing import Import, Secrets
    from config.hosts.survey import Server, Skipped
    from config.hosts.takeover import Originals, Write


def add_commands(commands: Any) -> None:
    """`import`."""
    parser = add(commands, "import", _import, "take over the MCP servers that hosts have")
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="such as claude-desktop; all that are found if none")
    parser.add_argument("--project", type=Path, metavar="DIR", help="the hosts' files of this project, too")
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")
    parser.add_argument(
        "--secrets",
        choices=("keep", "reference", "skip"),
        help="copy them, refer to variables of the same names, or leave out servers that hold any",
    )
    parser.add_argument(
        "--disable-originals",
        action="store_true",
        help="turn off in the hosts what the hub has then; taken out, with a backup, where they cannot turn off",
    )
    add_config(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask whether to go on")


def _import(options: argparse.Namespace) -> int:
    from config.hosts.facts import Machine
    from config.hosts.importing import Import
    from config.hosts.takeover import Originals, imported_dir, imported_files, known, originals
    from config.layers import load_all

    machine, directory = Machine.this(), imported_dir(options.config)
    config = load_all(options.config, os.environ).config
    servers, skipped, code = _survey(options, machine)
    ours = known(config, directory, os.environ)

    def decided(secrets: "Secrets") -> "Import":
        result = Import(ours, config.upstreams, secrets)
        for server in servers:
            result.add(server)
        return result

    result = decided("keep")
    if any(server.spots() for _, server in result.taken):
        result = decided(_secrets(options, result, directory))
    writes = imported_files(result, directory, os.environ)
    left = originals(result, machine.environ) if options.disable_originals else Originals([], [], [])
    _summarise(result, skipped)
    for refused in left.refused:
        failed(EX_FAILED, refused)
    if options.dry_run:
        _show(result, writes, left)
    elif writes or left.writes or left.programs:
        names = ", ".join(str(each.path) for each in (*writes, *left.writes)) or "by the programs of the hosts"
        if is_attended() and not options.yes and not agreed(f"Write {names}?", default=True):
            return failed(EX_FAILED, "nothing was changed")
        _write(writes, left, machine)
        if writes and not options.disable_originals:
            note(
                "the hosts still start these servers, too, until `hubd import --disable-originals` turns them off there"
            )
    return code


# --- reading ----------------------------------------------------------------------------------------------------------


def _survey(options: argparse.Namespace, machine: "Machine") -> tuple[list["Server"], list["Skipped"], int]:
    """What all the files hold, in the order of the hosts. What cannot be read is said, and the code is not 0."""
    from config.errors import EditError
    from config.hosts.installed import text_at
    from config.hosts.survey import survey
    from config.text.change import Refused

    servers, skipped, code = [], [], EX_OK
    for place in _places(options, machine):
        try:
            found, not_found = survey(place, text_at(place.path), machine.environ, machine.home)
        except (EditError, Refused) as error:
            text = str(error) if str(place.path) in str(error) else f"{place.path}: {error}"
            code = failed(EX_FAILED, f"{place.title}: {text}")
            continue
        servers += found
        skipped += not_found
    return servers, skipped, code


def _places(options: argparse.Namespace, machine: "Machine") -> Iterator["Place"]:
    from config.hosts.facts import all_hosts, every_user_file, project_files

    chosen = chosen_hosts(options, machine)
    project = options.project and options.project.expanduser().absolute()
    if project is not None and not project.is_dir():
        raise UsageError(f"--project: there is no directory {project}")
    if not chosen and project is None:
        raise UsageError(f"no hosts are found on this machine; known are: {', '.join(all_hosts())}")
    for host in chosen:
        found = every_user_file(host, machine)
        if not found and options.hosts:
            print(f"{host.title}: there is no file of it", file=sys.stderr)
        yield from found
    if project is not None:
        seen: set[tuple[Path, tuple[str, ...]]] = set()
        for host in chosen_hosts(options, machine) if options.hosts else all_hosts().values():
            for place in project_files(host, project, machine):
                if (place.path, place.kept.root) not in seen:
                    seen.add((place.path, place.kept.root))
                    yield place


# --- questions --------------------------------------------------------------------------------------------------------


def _secrets(options: argparse.Namespace, result: "Import", directory: Path) -> "Secrets":
    """What is to become of secrets.

    Raises:
        UsageError: nobody says it, and nobody can be asked.
    """
    if options.secrets is not None:
        chosen: Secrets = options.secrets
        return chosen
    if options.dry_run:
        return "keep"
    lines = [
        f"  {name} ({server.place.title}): {', '.join(f'{setting}.{at}' if at else setting for setting, at in spots)}"
        for name, server in result.taken
        if (spots := server.spots())
    ]
    text = "These servers hold what looks like secrets:\n" + "\n".join(lines)
    if not is_attended():
        raise UsageError(f"{text}\nsay what becomes of them: --secrets keep, reference or skip")
    print(text, file=sys.stderr)
    print(f"[k]eep them, in files only you can read in {directory};", file=sys.stderr)
    print("[r]efer to environment variables that you set for the hub; or [s]kip these servers?", file=sys.stderr)
    answers: dict[str, Secrets] = {"k": "keep", "r": "reference", "s": "skip"}
    while True:
        answer = ask("k, r or s:")[:1]
        if answer in answers:
            return answers[answer]


# --- saying and doing -------------------------------------------------------------------------------------------------


def _summarise(result: "Import", skipped: list["Skipped"]) -> None:
    from hub.show.tables import table
    from hub.wire.printable import printable

    new = {name for name, _ in result.taken}
    rows = [
        *((s.place.title, s.key, f"taken as {name}", _remarks(s)) for name, s in result.taken),
        *(
            (s.place.title, s.key, f"{'same as' if name in new else 'hubd has it as'} {name}", "")
            for name, s in result.known
        ),
        *((s.place.title, s.key, "skipped", s.why) for s in (*result.skipped, *skipped)),
    ]
    if not rows:
        print("there are no servers to take over")
        return
    printed = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in rows]
    print("\n".join(table(("HOST", "SERVER", "WHAT", "WHY"), printed)))


def _remarks(server: "Server") -> str:
    return "; ".join((*((f"disabled: {server.off}",) if server.off else ()), *server.notes))


def _show(result: "Import", writes: "list[Write]", left: "Originals") -> None:
    """What would be done, as diffs without secrets."""
    from config.secrecy import secrets_in

    secrets = [secret for _, server in result.taken for secret in secrets_in(server.values)]
    for write in writes:
        print("\n".join(text_diff(write.path, write.before or "", write.after, secrets)))
    for write in left.writes:
        assert write.place is not None
        print("\n".join(diff(write.place, (write.before or "").encode(), write.after.encode())))
    for command in left.programs:
        print(f"would run: {' '.join(command)}")


def _write(writes: "list[Write]", left: "Originals", machine: "Machine") -> None:
    """First what the hub will have, then what hosts no longer start."""
    from config.files import locked
    from config.hosts.installed import run_program
    from config.hosts.takeover import carry_out
    from config.paths import state_dir

    with locked(state_dir()):
        for write in (*writes, *left.writes):
            backup = carry_out(write, now())
            print(f"wrote {write.path}" + (f" (the old file is {backup})" if backup else ""))
        for command in left.programs:
            run_program(command, machine.environ)
            print(f"ran {' '.join(command)}")
