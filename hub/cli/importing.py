"""`hubd import`: take over the servers that hosts have."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hub.cli.base import EX_FAILED, EX_OK, UsageError, add, failed
from hub.cli.hosts import chosen_hosts, text_diff

if TYPE_CHECKING:
    from config.hosts.facts import Host, Machine, Place
    from config.hosts.importing import Import, Secrets
    from config.hosts.survey import Server, Skipped


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
    parser.add_argument("--yes", action="store_true", help="do not ask whether to go on")


class _Write(Struct, frozen=True):
    """A file to be written."""

    path: Path
    before: str | None
    after: str


def _import(options: argparse.Namespace) -> int:
    from config.hosts.facts import Machine
    from config.hosts.importing import Import
    from config.layers import load_all

    machine = Machine.this()
    loaded = load_all(None, os.environ)
    servers, skipped, code = _survey(options, machine)
    known = _known(loaded.config)

    def decided(secrets: "Secrets") -> "Import":
        result = Import(known, loaded.config.upstreams, secrets)
        for server in servers:
            result.add(server)
        return result

    result = decided("keep")
    if any(server.spots() for _, server in result.taken):
        result = decided(_secrets(options, result))
    writes = _imported_files(result, machine)
    edits, programs = _originals(result, machine) if options.disable_originals else ([], [])
    _summarise(result, skipped)
    if options.dry_run:
        for write in (*writes, *edits):
            print("\n".join(text_diff(write.path, write.before or "", write.after, _secrets_of(result))))
        for command in programs:
            print(f"would run: {' '.join(command)}")
        return code
    if not (writes or edits or programs):
        return code
    if sys.stdin.isatty() and not options.yes and not _agreed(writes, edits):
        return failed(EX_FAILED, "nothing was changed")
    return _write(writes, edits, programs, machine) or code


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


def _known(config: Any) -> dict[Any, str]:
    """What hubd has already, by identity."""
    from config.hosts.importing import identities_in
    from config.hosts.survey import identities
    from config.source import Problem
    from config.variables import Variables

    found: dict[Any, str] = {}
    for path in sorted(_imported_dir().glob("*.toml")):
        with suppress(Problem, OSError, UnicodeDecodeError):
            found |= identities_in(path.read_text(), Variables(os.environ, path.parent))
    return found | identities(config)


def _imported_dir() -> Path:
    from config.gather import IMPORTED
    from config.paths import config_file

    return config_file().parent / IMPORTED


# --- questions --------------------------------------------------------------------------------------------------------


def _secrets(options: argparse.Namespace, result: "Import") -> "Secrets":
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
    if not sys.stdin.isatty():
        raise UsageError(f"{text}\nsay what becomes of them: --secrets keep, reference or skip")
    print(text, file=sys.stderr)
    print(f"[k]eep them, in files only you can read in {_imported_dir()};", file=sys.stderr)
    print("[r]efer to environment variables that you set for the hub; or [s]kip these servers?", file=sys.stderr)
    answers: dict[str, Secrets] = {"k": "keep", "r": "reference", "s": "skip"}
    while True:
        answer = input("k, r or s: ").strip().lower()[:1]
        if answer in answers:
            return answers[answer]


def _agreed(writes: list[_Write], edits: list[_Write]) -> bool:
    names = ", ".join(str(each.path) for each in (*writes, *edits))
    return input(f"Write {names or 'by the programs of the hosts'}? [Y/n] ").strip().lower() in ("", "y", "yes")


# --- deciding ---------------------------------------------------------------------------------------------------------


def _imported_files(result: "Import", machine: "Machine") -> list[_Write]:
    """The files of all hosts that something was taken from; each would be sound."""
    writes = []
    for host in {server.place.host.id: server.place.host for _, server in result.taken}.values():
        write = _imported_file(result, host)
        if write is not None:
            writes.append(write)
    return writes


def _imported_file(result: "Import", host: "Host") -> _Write | None:
    from config.files import read_file
    from config.hosts.importing import block, blocks_of, imported_text
    from config.text.change import Refused

    path = _imported_dir() / f"{host.id}.toml"
    data = read_file(path)
    before = None if data is None else data.decode(errors="replace")
    try:
        old = [] if before is None else blocks_of(before)
    except Refused as refused:
        hint = "move what you changed to hubd.toml and delete the file, then import again"
        _give_back(result, host, f"{path} {refused}: {hint}")
        return None
    while True:
        mine = [(name, server) for name, server in result.taken if server.place.host is host]
        if not mine:
            return None
        after = imported_text(host.title, host.id, [*old, *(block(name, server) for name, server in mine)])
        wrong = _problems(path, after)
        if not wrong:
            return _Write(path, before, after)
        for name, why in wrong.items():
            if name not in {each for each, _ in mine}:  # it was wrong before, or nobody knows where
                _give_back(result, host, f"{path}: {why}")
                return None
            result.refuse(name, why)


def _give_back(result: "Import", host: "Host", why: str) -> None:
    for name in [name for name, server in result.taken if server.place.host is host]:
        result.refuse(name, why)


def _problems(path: Path, text: str) -> dict[str, str]:
    """What hubd would say to such a file, by upstream."""
    from config.errors import ConfigError
    from config.layers import load_all

    try:
        load_all(path, os.environ, texts={path: text})
    except ConfigError as error:
        return {each.keys[1] if len(each.keys) > 1 else "": each.text for each in error.remarks} or {"": str(error)}
    return {}


def _originals(result: "Import", machine: "Machine") -> tuple[list[_Write], list[tuple[str, ...]]]:
    """How the hosts stop starting what the hub has: files to write, and commands to run."""
    from config.hosts.installed import own_program, text_at
    from config.text.change import Refused
    from config.text.serverfile import assign, remove

    texts: dict[Path, tuple[str, str]] = {}
    programs: list[tuple[str, ...]] = []
    for name, server in (*result.taken, *result.known):
        place, host = server.place, server.place.host
        if server.off:
            continue
        program = None if place.project else own_program(host, machine.environ)
        if program is not None:
            programs.append((program, "mcp", "remove", "-s", "user", server.key))
            continue
        before, text = texts.get(place.path) or (text_at(place.path),) * 2
        try:
            if host.off:
                ((setting, value),) = host.off.items()
                edit = assign(place.kept, text, server.key, setting, value)
            else:
                edit = remove(place.kept, text, server.key)
        except Refused as refused:
            failed(EX_FAILED, f'{place.title}: "{server.key}" stays on: {refused}; turn it off there, hubd has {name}')
            continue
        texts[place.path] = (before, edit.apply(text))
    return [_Write(path, before, after) for path, (before, after) in texts.items()], programs


# --- saying and doing -------------------------------------------------------------------------------------------------


def _summarise(result: "Import", skipped: list["Skipped"]) -> None:
    from hub.show import table
    from hub.wire.clean import printable

    rows = [
        *((s.place.title, s.key, f"taken as {name}", _remarks(s)) for name, s in result.taken),
        *((s.place.title, s.key, f"hubd has it as {name}", "") for name, s in result.known),
        *((s.place.title, s.key, "skipped", s.why) for s in (*result.skipped, *skipped)),
    ]
    if not rows:
        print("there are no servers to take over")
        return
    printed = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in rows]
    print("\n".join(table(("HOST", "SERVER", "WHAT", "WHY"), printed)))


def _remarks(server: "Server") -> str:
    return "; ".join((*((f"disabled: {server.off}",) if server.off else ()), *server.notes))


def _secrets_of(result: "Import") -> list[str]:
    from config.secrecy import secrets_in

    servers = [server for _, server in (*result.taken, *result.known)]
    found = []
    for server in servers:
        for setting, at in server.spots():
            value = server.values[setting]
            found.append(value[int(at)] if setting == "args" else value[at] if isinstance(value, dict) else value)
    return [*found, *(each for server in servers for each in secrets_in(server.values))]


def _write(writes: list[_Write], edits: list[_Write], programs: list[tuple[str, ...]], machine: "Machine") -> int:
    """First what the hub will have, then what hosts no longer start."""
    from config.errors import EditError
    from config.files import locked, replace_file
    from config.hosts.installed import run_program
    from config.paths import backup_dir, state_dir

    try:
        with locked(state_dir()):
            for write in (*writes, *edits):
                was = None if write.before is None else write.before.encode()
                data = write.after.encode()
                backup = replace_file(write.path, data, was=was, now=datetime.now(UTC), backups=backup_dir())
                print(f"wrote {write.path}" + (f" (the old file is {backup})" if backup else ""))
            for command in programs:
                run_program(command, machine.environ)
                print(f"ran {' '.join(command)}")
    except EditError as error:
        return failed(EX_FAILED, str(error))
    return EX_OK
