"""Changes of the files of hosts: decided, asked about once, carried out one after the other, and reported with their
diffs.
"""

import difflib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from config.atomic_writes import lock_edits
from config.diagnostics import EditError, Problem
from config.editing.text import serverfile
from config.hosts.hub_entries import KEY, Records
from config.hosts.install import Plan, carry_out
from config.hosts.known_hosts import KnownHost, Machine, Place
from config.hosts.removed_originals import Original, Originals
from config.hub_paths import backup_dir, install_records_path, originals_path, state_dir
from config.loading.document import parse
from config.secrets.detection import secrets_in
from config.secrets.masks import mask_secrets
from hub.cli.context import CommandFailed, Context, Output, agreed, now
from hub.wire.printable import printable

Decide = Callable[[Place, Records], Plan]


ByHand = Callable[[KnownHost], Mapping[str, Any]]
"""The entry for people to write into the file of a host where the change is refused."""


def carry_out_changes(steps: Sequence[tuple[Place, Decide]], options: Context, by_hand: ByHand | None = None) -> None:
    """Ask, and change one file after the other, each as it is decided when it is its turn; a failure of one does not
    stop the others."""
    if not _may_write(steps, options):
        raise CommandFailed("nothing was changed")
    with lock_edits(state_dir()):
        records = Records(install_records_path())
        changed = [_change(place, decide, records, options, by_hand) for place, decide in steps]
    if backups := [backup for backup in changed if backup is not None]:
        options.output.say(f"the old files are in {backups[0].parent}")


def _may_write(steps: Sequence[tuple[Place, Decide]], options: Context) -> bool:
    """Ask whether to write; yes without asking, if nobody can or wants to be asked, or nothing would change."""
    if options.yes or options.dry_run or not options.output.is_attended():
        return True
    records, paths = Records(install_records_path()), []
    for place, decide in steps:
        with suppress(EditError):  # it is said when it is its turn
            if decide(place, records).changes:
                paths.append(str(place.path))
    return not paths or agreed(f"Write {', '.join(dict.fromkeys(paths))}?", default=True)


def _change(place: Place, decide: Decide, records: Records, options: Context, by_hand: ByHand | None) -> Path | None:
    """Change one file, and report it; the backup, if there is one."""
    output, title, backup = options.output, place.title, None
    try:
        planned = decide(place, records)
        if planned.did == "refused":
            say_refused(planned, by_hand, output)
            return None
        if options.dry_run:
            show(planned, output)
        else:
            backup = write_plan(planned, records, options.machine)
            output.say(as_sentence(planned))
        output.append("hosts", as_object(planned, backup))
        for key in planned.foreign:
            output.note(
                f'{title}: "{key}" in {place.path} is not the hub\'s, so it stays; `hubd import {place.host.id} '
                "--disable-originals --without-hub` takes it out if the hub serves it, then run this again"
            )
        for key, why in planned.still_out.items():
            output.fail(f'{title}: "{key}" is not put back into {place.path}: {why}')
    except EditError as error:
        output.fail(f"{title}: {error}")
        output.append("hosts", {**of_place(place), "did": "failed", "why": str(error)})
    return backup


def write_plan(planned: Plan, records: Records, machine: Machine) -> Path | None:
    """Change a file, and remember what an import took out of it; the backup. Raises: EditError."""
    backup = carry_out(planned, records, now=now(), backups=backup_dir(), environ=machine.environ)
    if planned.originals or planned.restored:
        out = Originals(originals_path())
        out.forget(planned.place.path, planned.restored)
        if planned.originals:
            out.add(planned.place.path, planned.originals)
    return backup


def originals_of(place: Place) -> list[Original]:
    """The servers that imports took out of a file, whichever host had them: what was done to it is undone in turn."""
    return Originals(originals_path()).get(place.path) or []


def below_home(path: Path, home: Path) -> str:
    """A path as people write it in a shell, with `~`."""
    if path.is_relative_to(home) and path != home:
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def of_place(place: Place) -> dict[str, Any]:
    """The file of a host, for programs."""
    return {"host": place.host.id, "title": place.title, "file": str(place.path)}


def as_object(planned: Plan, backup: Path | None) -> dict[str, Any]:
    """The change of one file, done or planned, for programs."""
    by_us = planned.changes and not planned.program
    return {
        **of_place(planned.place),
        "did": planned.did,
        "backup": backup and str(backup),
        "diff": host_diff(planned.place, planned.before or b"", planned.after or b"") if by_us else None,
        "commands": [_mask_words(command) for command in planned.program],
        "restored": [each.key for each in planned.restored],
        "note": planned.why or (planned.changes and planned.place.host.note) or None,
    }


def say_refused(planned: Plan, by_hand: ByHand | None, output: Output) -> None:
    """Say why a file was left alone, and which entry to put there `by_hand`."""
    place, refused = planned.place, {**of_place(planned.place), "did": "refused", "why": planned.why}
    output.fail(f"{place.title}: {place.path}: {planned.why}; it was left as it is")
    if by_hand is not None:
        snippet = serverfile.snippet(place.kept, KEY, dict(by_hand(place.host)))
        refused["by_hand"] = snippet
        if not output.json:
            print(f"To add the hub by hand, put this there:\n\n{snippet}\n", file=sys.stderr)
    output.append("hosts", refused)


def as_sentence(planned: Plan) -> str:
    """The change of one file as a sentence, for people."""
    place = planned.place
    words = {
        "added": "added to",
        "updated": "updated in",
        "unchanged": "is already in",
        "removed": "removed from",
        "restored": "its servers are back in",
        "absent": "the hub is not in",
    }
    text = f"{place.title}: {words[planned.did]} {place.path}"
    if planned.why:
        text += f", which cannot be read and was left as it is: {planned.why}"
    if planned.restored:
        text += f"; back: {', '.join(each.key for each in planned.restored)}"
    return f"{text}; {place.host.note}" if planned.changes and place.host.note else text


def show(planned: Plan, output: Output) -> None:
    """Show a planned change as a diff, for people."""
    if not planned.changes:
        output.say(as_sentence(planned))
    for command in planned.program:
        output.say(f"would run: {_mask_words(command)}")
    if planned.changes and not planned.program:
        output.say(host_diff(planned.place, planned.before or b"", planned.after or b""))


def _mask_words(command: Sequence[str]) -> str:
    text = shlex.join(command)
    for word in command:
        if word.startswith("{"):
            text = mask_secrets(text, list(secrets_in(json.loads(word))))
    return text


# --- diffs ------------------------------------------------------------------------------------------------------------


def host_diff(place: Place, before: bytes, after: bytes) -> str:
    """The change of a host's file as a unified diff, without secrets."""
    texts = [data.decode() for data in (before, after)]
    secrets = [secret for text in texts for secret in secrets_in(serverfile.read(place.kept, text))]
    return text_diff(place.path, texts[0], texts[1], secrets)


def configuration_diff(path: Path, before: str, after: str) -> str:
    """The same for a file of hubd's own; "" if it cannot be parsed, so that its secrets are not known."""
    try:
        secrets = [secret for text in (before, after) for secret in secrets_in(parse(text, path).tree)]
    except Problem:
        return ""
    return text_diff(path, before, after, secrets)


def text_diff(path: Path, before: str, after: str, secrets: Sequence[str]) -> str:
    """The same for any file, without `secrets`. A terminal obeys nothing of it."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
    return "\n".join(printable(mask_secrets(line, secrets), keep="\t") for line in lines)
