"""Changes of the files of hosts: decided, asked about once, carried out one after the other, and reported with their
diffs.
"""

import difflib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from os import EX_OK
from pathlib import Path
from typing import Any

from config.editing.text import serverfile
from config.errors import EditError
from config.files import lock_edits
from config.hosts.facts import KnownHost, Machine, Place
from config.hosts.hub_entries import KEY, Records
from config.hosts.install import Plan, carry_out
from config.hosts.originals import Original, Originals
from config.hub_paths import backup_dir, install_records_path, originals_path, state_dir
from config.loading.document import parse
from config.loading.safe_reading import Problem
from config.secrets.detection import mask_secrets, secrets_in
from hub.cli.context import EX_FAILED, Context, Output, agreed, now
from hub.wire.printable import printable

Decide = Callable[[Place, Records], Plan]


class HostChanges:
    """The changes of one command."""

    def __init__(
        self, options: Context, machine: Machine, by_hand: Callable[[KnownHost], Mapping[str, Any]] | None = None
    ) -> None:
        """`by_hand`: the entry for people to write into a file where the change is refused."""
        self._options = options
        self._output: Output = options.output
        self._machine = machine
        self._by_hand = by_hand
        self._steps: list[tuple[Place, Decide]] = []
        self._code = EX_OK
        self._backups: list[Path] = []

    def add(self, places: Sequence[Place], decide: Decide) -> None:
        """Have these files changed, in this order; `decide` is asked what to do with each when it is its turn."""
        self._steps += [(place, decide) for place in places]

    def carry_out(self) -> int:
        """Ask, and change one file after the other; a failure of one does not stop the others. The exit code."""
        if not self._may_write():
            return self._output.fail(EX_FAILED, "nothing was changed")
        with lock_edits(state_dir()):
            records = Records(install_records_path())
            for place, decide in self._steps:
                self._change(place, decide, records)
        if self._backups:
            self._output.say(f"the old files are in {self._backups[0].parent}")
        return self._code

    def _may_write(self) -> bool:
        """Ask whether to write; yes without asking, if nobody can or wants to be asked, or nothing would change."""
        options = self._options
        if options.yes or options.dry_run or not self._output.is_attended():
            return True
        records, paths = Records(install_records_path()), []
        for place, decide in self._steps:
            try:
                planned = decide(place, records)
            except EditError:  # it is said when it is its turn
                continue
            if planned.changes:
                paths.append(str(place.path))
        return not paths or agreed(f"Write {', '.join(dict.fromkeys(paths))}?", default=True)

    def _change(self, place: Place, decide: Decide, records: Records) -> None:
        output, title = self._output, place.title
        try:
            planned = decide(place, records)
            if planned.did == "refused":
                self._code = say_refused(planned, self._by_hand, output)
                return
            backup = None
            if self._options.dry_run:
                show(planned, output)
            else:
                backup = carry_out(planned, records, now=now(), backups=backup_dir(), environ=self._machine.environ)
                remember_originals(planned)
                output.say(as_sentence(planned))
                self._backups += filter(None, [backup])
            output.append("hosts", as_object(planned, backup))
            for key in planned.foreign:
                output.note(
                    f'{title}: "{key}" in {place.path} is not the hub\'s, so it stays; `hubd import {place.host.id} '
                    "--disable-originals --without-hub` takes it out if the hub serves it, then run this again"
                )
            for key, why in planned.still_out.items():
                self._code = output.fail(EX_FAILED, f'{title}: "{key}" is not put back into {place.path}: {why}')
        except EditError as error:
            self._code = output.fail(EX_FAILED, f"{title}: {error}")
            output.append("hosts", {**of_place(place), "did": "failed", "why": str(error)})


def originals_of(place: Place) -> list[Original]:
    """The servers that imports took out of a file, whichever host had them: what was done to it is undone in turn."""
    return Originals(originals_path()).get(place.path) or []


def remember_originals(planned: Plan) -> None:
    """Update the record of servers that an import took out, after the change of a file."""
    if planned.originals or planned.restored:
        out = Originals(originals_path())
        out.forget(planned.place.path, planned.restored)
        if planned.originals:
            out.add(planned.place.path, planned.originals)


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


def say_refused(planned: Plan, by_hand: Callable[[KnownHost], Mapping[str, Any]] | None, output: Output) -> int:
    """Say why a file was left alone, and which entry to put there `by_hand`; the exit code."""
    place, refused = planned.place, {**of_place(planned.place), "did": "refused", "why": planned.why}
    output.fail(EX_FAILED, f"{place.title}: {place.path}: {planned.why}; it was left as it is")
    if by_hand is not None:
        snippet = serverfile.snippet(place.kept, KEY, dict(by_hand(place.host)))
        refused["by_hand"] = snippet
        if not output.json:
            print(f"To add the hub by hand, put this there:\n\n{snippet}\n", file=sys.stderr)
    output.append("hosts", refused)
    return EX_FAILED


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
