"""Commands about the hosts of this machine: put the hub into their files, take it out, take over their servers."""

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.base import EX_FAILED, EX_OK, UsageError, add, add_config, failed, note, now, own_command

if TYPE_CHECKING:
    from config.hosts.facts import Host, Machine, Place
    from config.hosts.installed import Plan, Records


def add_commands(commands: Any) -> None:
    """`install` and `uninstall`."""
    install = add(
        commands, "install", _install, "put the hub into the configuration of hosts; without a name, list them"
    )
    _add_choice(install)
    add_config(install)
    install.add_argument("--http", action="store_true", help="with the hub's URL and token, for hosts that take URLs")
    uninstall = add(commands, "uninstall", _uninstall, "take the hub out of the configuration of hosts")
    _add_choice(uninstall)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="such as claude-desktop, cursor, codex")
    parser.add_argument("--all", action="store_true", help="all hosts that are found on this machine")
    parser.add_argument("--project", type=Path, metavar="DIR", help="the hosts' files in this project, not the user's")
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")


# --- install and uninstall --------------------------------------------------------------------------------------------


def _install(options: argparse.Namespace) -> int:
    from config.hosts.entry import http_entry, stdio_entry
    from config.hosts.facts import Machine
    from config.hosts.installed import own_program, plan_install

    machine = Machine.this()
    if not options.hosts and not options.all:
        return _list(machine)
    hubd, url = own_command(), _address(options.config) if options.http else None
    code, without_urls = EX_OK, []

    def plan(place: "Place", records: "Records") -> "Plan":
        entry = stdio_entry(place.host, hubd)
        if url is not None:
            by_url = http_entry(place.host, *url)
            if by_url is None:
                without_urls.append(place.title)
            entry = by_url or entry
        program = None if place.project else own_program(place.host, machine.environ)
        return plan_install(place, entry, records, program)

    code = _carry_out(options, machine, _chosen(options, machine), plan)
    for title in without_urls:
        note(f"{title} takes no URLs, so it starts `hubd connect`")
    if url is not None and url[1] is not None and not options.dry_run:
        note("these files now hold the hub's token: keep them to yourself, and out of repositories")
    return code


def _uninstall(options: argparse.Namespace) -> int:
    from config.hosts.facts import Machine
    from config.hosts.installed import own_program, plan_uninstall

    machine = Machine.this()
    if not options.hosts and not options.all:
        raise UsageError("name hosts, or write --all; `hubd install` lists them")

    def plan(place: "Place", records: "Records") -> "Plan":
        return plan_uninstall(place, records, None if place.project else own_program(place.host, machine.environ))

    return _carry_out(options, machine, _chosen(options, machine), plan)


def _carry_out(
    options: argparse.Namespace,
    machine: "Machine",
    places: Sequence["Place"],
    plan: Callable[["Place", "Records"], "Plan"],
) -> int:
    """Decide for each file and do it, one after the other; what fails for one does not keep the others from it."""
    from config.errors import EditError
    from config.files import locked
    from config.hosts.installed import Records, carry_out
    from config.paths import backup_dir, installed_path, state_dir

    code = EX_OK
    with locked(state_dir()):
        records = Records(installed_path())
        for place in places:
            try:
                planned = plan(place, records)
                if planned.did == "refused":
                    code = _refused(planned, options)
                elif options.dry_run:
                    _show(planned)
                else:
                    backup = carry_out(planned, records, now=now(), backups=backup_dir(), environ=machine.environ)
                    print(_said(planned, backup))
            except EditError as error:
                code = failed(EX_FAILED, f"{place.title}: {error}")
    return code


def _refused(planned: "Plan", options: argparse.Namespace) -> int:
    from config.hosts.entry import KEY, stdio_entry
    from config.text import serverfile

    failed(EX_FAILED, f"{planned.place.title}: {planned.place.path}: {planned.why}; it was left as it is")
    if options.command is _install:
        snippet = serverfile.snippet(planned.place.kept, KEY, stdio_entry(planned.place.host, own_command()))
        print(f"To add the hub by hand, put this there:\n\n{snippet}\n", file=sys.stderr)
    return EX_FAILED


def _said(planned: "Plan", backup: Path | None) -> str:
    place = planned.place
    words = {
        "added": "added to",
        "updated": "updated in",
        "unchanged": "is already in",
        "removed": "removed from",
        "absent": "is not in",
    }
    text = f"{place.title}: {words[planned.did]} {place.path}"
    if backup is not None:
        text += f" (the old file is {backup})"
    return f"{text}; {place.host.note}" if planned.changes and place.host.note else text


def _show(planned: "Plan") -> None:
    """What would be done, as a diff."""
    if not planned.changes:
        print(_said(planned, None))
    for command in planned.program:
        print(f"would run: {_masked_words(command)}")
    if planned.changes and not planned.program:
        for line in diff(planned.place, planned.before or b"", planned.after or b""):
            print(line)


def _masked_words(command: Sequence[str]) -> str:
    import json

    from config.secrecy import masked, secrets_in

    text = shlex.join(command)
    for word in command:
        if word.startswith("{"):
            text = masked(text, list(secrets_in(json.loads(word))))
    return text


def diff(place: "Place", before: bytes, after: bytes) -> Iterator[str]:
    """A unified diff of a host's file without secrets, line by line."""
    from config.secrecy import secrets_in
    from config.text import serverfile

    texts = [data.decode() for data in (before, after)]
    secrets = [secret for text in texts for secret in secrets_in(serverfile.read(place.kept, text))]
    return text_diff(place.path, texts[0], texts[1], secrets)


def text_diff(path: Path, before: str, after: str, secrets: Sequence[str]) -> Iterator[str]:
    """A unified diff without `secrets`, line by line."""
    from config.secrecy import masked
    from hub.wire.printable import printable

    old, new = before.splitlines(), after.splitlines()
    for line in difflib.unified_diff(old, new, str(path), str(path), lineterm=""):
        yield printable(masked(line, secrets))


def _list(machine: "Machine") -> int:
    """The hosts that are here, and whether they have the hub."""
    from config.hosts.facts import all_hosts, is_found, user_places
    from config.hosts.installed import Records
    from config.paths import installed_path
    from hub.show.tables import table

    records = Records(installed_path())
    rows = [
        (host.id, place.title, _state(place, records), place.path)
        for host in all_hosts().values()
        if is_found(host, machine)
        for place in user_places(host, machine)
    ]
    if not rows:
        print("No hosts are found on this machine. These are known: " + ", ".join(all_hosts()))
        return EX_OK
    print("\n".join(table(("NAME", "HOST", "HUB", "FILE"), rows)))
    print("\nRun `hubd install NAME...` or `hubd install --all`; --dry-run shows the changes first.")
    return EX_OK


def _state(place: "Place", records: "Records") -> str:
    from config.errors import EditError
    from config.hosts.entry import KEY
    from config.hosts.installed import is_ours, text_at
    from config.text.change import Refused
    from config.text.serverfile import entries

    try:
        entry = entries(place.kept, text_at(place.path)).get(KEY)
    except (EditError, Refused):
        return "unreadable"
    return "no" if entry is None else "yes" if is_ours(entry, records.get(place.path)) else "another one"


# --- what is meant ----------------------------------------------------------------------------------------------------


def _chosen(options: argparse.Namespace, machine: "Machine") -> list["Place"]:
    """The files of the hosts that were named, or that are here; each file once.

    Raises:
        UsageError: there is no such host, or nothing of it here.
    """
    from config.hosts.facts import project_place, user_places

    places: list[Place] = []
    for host in chosen_hosts(options, machine):
        if options.project is not None:
            project = options.project.expanduser().absolute()
            if not project.is_dir():
                raise UsageError(f"--project: there is no directory {project}")
            place = project_place(host, project)
            if place is None and options.hosts:
                raise UsageError(f"{host.title} has no file for projects")
            found = [] if place is None else [place]
        else:
            found = user_places(host, machine)
            if not found and options.hosts:
                raise UsageError(f"{host.title} is an extension, and is found in no editor of this machine")
        places += [each for each in found if each.path not in {place.path for place in places}]
    if not places:
        raise UsageError("no hosts are found on this machine; name one to install the hub for it anyway")
    return places


def chosen_hosts(options: argparse.Namespace, machine: "Machine") -> list["Host"]:
    """The hosts that were named, else those that are here.

    Raises:
        UsageError: there is no such host.
    """
    from difflib import get_close_matches

    from config.hosts.facts import all_hosts, is_found

    known = all_hosts()
    for name in options.hosts:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
            raise UsageError(f"there is no host {name}; {hint}")
    if options.hosts:
        return [known[name] for name in dict.fromkeys(options.hosts)]
    return [host for host in known.values() if is_found(host, machine)]


def _address(named: Path | None) -> tuple[str, str | None]:
    """The URL of the hub and its token, by its configuration; None: it asks for none.

    Raises:
        UsageError: the configuration leaves the port to the kernel.
        ConfigError: the configuration cannot be used.
    """
    from config.check import split_listen
    from config.layers import load_all
    from config.paths import token_path
    from hub.access import checked_token, read_or_make_token

    config = load_all(named, os.environ).config
    host, port = split_listen(config.listen)
    if port == 0:
        raise UsageError('--http needs a fixed port: write listen = "127.0.0.1:8765" in hubd.toml')
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{port}/mcp"
    if config.auth == "none":
        return url, None
    return url, read_or_make_token(token_path()) if config.token is None else checked_token(config.token.reveal())
