"""Installing our entry in the files of hosts, and removing it so that nothing of it is left.

What was put in is remembered: the text, what stood there before, and whether the file was ours. If the text is still
there, it is cut out verbatim, and whatever else was edited since stays as it is. If it is not, the entry alone is taken
out, and only if it is one of ours. `plan_*` decide and change nothing; `carry_out` writes.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, structs

from config.atomic_writes import read_file, refuse_place, remove_file, replace_file
from config.diagnostics import EditError
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts import hub_entries
from config.hosts.known_hosts import Place
from config.hosts.removed_originals import Original, as_before, of_host, out_again, restore

Did = Literal["added", "updated", "unchanged", "removed", "restored", "absent", "refused"]


class Plan(Struct, frozen=True):
    """The change to make to one file, and the record to keep of it."""

    place: Place
    did: Did
    why: str = ""
    before: bytes | None = None
    after: bytes | None = None
    """The new content; None removes the file."""
    records: Mapping[str, hub_entries.Record | None] = {}
    """The records to keep from now on, by entry; None: to forget."""
    foreign: tuple[str, ...] = ()
    """Entries that have a name of ours and are not ours, so they stay."""
    made_directories: tuple[str, ...] = ()
    """Directories that were made for the file, if it is removed."""
    program: tuple[tuple[str, ...], ...] = ()
    """Commands to run instead of writing the file."""
    originals: tuple[Original, ...] = ()
    """Servers of the host that an import took out, as they are to be remembered since the text around them changed."""
    restored: tuple[Original, ...] = ()
    """Servers of the host that are back afterwards."""
    still_out: Mapping[str, str] = {}
    """Servers that cannot be put back, and the reasons."""

    @property
    def changes(self) -> bool:
        """True if the file changes."""
        return self.did in ("added", "updated", "removed", "restored")


# --- decisions --------------------------------------------------------------------------------------------------------


def plan_entries(
    place: Place,
    wanted: Mapping[str, dict[str, Any]],
    records: hub_entries.Records,
    program: str | None = None,
    originals: Sequence[Original] = (),
) -> Plan:
    """Our entries in one file, those that are `wanted` and no other. One of such a name that is not ours stays; if that
    is the hub's, nothing is done. `program`: the path of the host's own program, if that is to do it; `originals`: what
    imports took out of the file, whichever host had it. Raises: EditError, if the file cannot be read."""
    before = read_file(place.path)
    try:
        text = place.host.skeleton.lstrip() if before is None else _decode(before)
        existing = serverfile.entries(place.kept, text)
        ours = hub_entries.our_entries(place, existing, records)
        foreign = tuple(key for key in wanted if key in existing and key not in ours)
        if hub_entries.KEY in foreign:
            raise EditRefused(f'it has an entry "{hub_entries.KEY}" that does not start hubd; give it another name')
        ins = {key: entry for key, entry in wanted.items() if key not in foreign and existing.get(key) != entry}
        outs = [key for key in ours if key in ins or key not in wanted]
        if not ins and not outs:
            return Plan(place, "unchanged", before=before, after=before, foreign=foreign)
        plan = Plan(place, "updated" if ours else "added", before=before, after=before, foreign=foreign)
        if program is not None:
            return _by_program(plan, ins, outs, program)
        if any(each.key in wanted for each in of_host(place, originals)):  # both cannot be there, not for a moment
            originals = ()
        whole = as_before(text, originals)
        gone = {key: ours[key] for key in outs}
        base, made = hub_entries.without_entries(place, text if whole is None else whole, gone, ours.values())
        if whole is None and (whole := as_before(base, originals)) is not None:  # without our entries it is as it was
            base = whole
        if not ours:
            made = hub_entries.facts_of_first(place, base, is_new=before is None)
        base, added = hub_entries.with_entries(place, base, ins, made)
        after, again = out_again(base, () if whole is None else originals)
        known = {key: hub_entries.with_facts(record, made) for key, record in ours.items() if key not in outs}
        new = {**dict.fromkeys(outs), **known, **added}
        return structs.replace(plan, after=after.encode(), records=new, originals=tuple(again))
    except EditRefused as refused:
        return Plan(place, "refused", why=str(refused), before=before, after=before)


def plan_uninstall(
    place: Place, records: hub_entries.Records, program: str | None, originals: Sequence[Original], back: bool = False
) -> Plan:
    """Plan to remove our entries and all that came with them; `back`: and to put back what an import took out.

    A file that cannot be read is no obstacle if neither a record nor a word in it tells of the hub.
    If the host's program takes our entries out, the originals are not put back: `plan_restore` does it then.
    Raises: EditError, if the file cannot be read."""
    before = read_file(place.path)
    if before is None:
        return Plan(place, "absent", still_out=_find_gone(of_host(place, originals) if back else ()))
    try:
        text = _decode(before)
        existing = serverfile.entries(place.kept, text)
        ours = hub_entries.our_entries(place, existing, records)
        if not ours and hub_entries.KEY in existing:
            raise EditRefused(f'its entry "{hub_entries.KEY}" does not start hubd, so it is left alone')
        if not ours:
            return plan_restore(place, originals if back else ())
        plan = Plan(place, "removed", before=before, after=before, records=dict.fromkeys(ours))
        if program is not None and not any(record is not None and record.new for record in ours.values()):
            return _by_program(plan, {}, list(ours), program)
        whole = as_before(text, originals)
        base, made = hub_entries.without_entries(place, text if whole is None else whole, ours, ours.values())
        whole = as_before(base, originals) if whole is None else base
        plan, after = _with_originals(plan, base, whole, originals, of_host(place, originals) if back else ())
        if made.made_file and after.strip() in ("", "{}", place.host.skeleton.strip()):
            return structs.replace(plan, after=None, made_directories=made.made_directories)
        return structs.replace(plan, after=after.encode())
    except EditRefused as refused:
        is_touched = records.keys(place.path) or originals or re.search(rb"\bhubd?\b", before)
        return Plan(place, "refused" if is_touched else "absent", why=str(refused), before=before, after=before)


def _with_originals(
    plan: Plan, text: str, whole: str | None, originals: Sequence[Original], back: Sequence[Original]
) -> tuple[Plan, str]:
    """The same plan with what becomes of `originals`, of which those in `back` are put back, and the text that is left.
    `whole`: the text with all of them, if that is known."""
    if whole is not None:
        after, again = out_again(whole, [each for each in originals if each not in back])
        return structs.replace(plan, originals=tuple(again), restored=tuple(back)), after
    after, still_out = restore(text, back)
    restored = tuple(each for each in back if each.key not in still_out)
    return structs.replace(plan, restored=restored, still_out=still_out), after


def plan_restore(place: Place, originals: Sequence[Original]) -> Plan:
    """Plan to put back servers that an import took out of the host, whether our entry is in the file or not.
    `originals`: those of all hosts that have the file. Raises: EditError, if the file cannot be read."""
    before, back = read_file(place.path), of_host(place, originals)
    if before is None:
        return Plan(place, "absent", still_out=_find_gone(back))
    try:
        text = _decode(before)
        whole = as_before(text, originals) if back else None
        plan, after = _with_originals(Plan(place, "restored", before=before), text, whole, originals, back)
    except EditRefused as refused:
        return Plan(place, "refused", why=str(refused), before=before, after=before)
    return structs.replace(plan, did="absent" if after == text else "restored", after=after.encode())


def _find_gone(originals: Sequence[Original]) -> dict[str, str]:
    return {each.key: "the file is gone" for each in originals}


def text_at(path: Path, *, trusted: bool = False) -> str:
    """The text of a host's file; none if there is no file. `trusted`: the hub is to run what it says.
    Raises: EditError, if it cannot be read, or, if it is to be trusted, somebody else could have written it;
    EditRefused, if it is not UTF-8."""
    return _decode(read_file(path, trusted=trusted) or b"")


def _by_program(plan: Plan, ins: Mapping[str, dict[str, Any]], outs: Sequence[str], program: str) -> Plan:
    """Claude Code's file is live state, so its own program changes it."""
    place = plan.place
    commands: list[tuple[str, ...]] = [(program, "mcp", "remove", "-s", "user", key) for key in outs]
    commands += [(program, "mcp", "add-json", "-s", "user", key, json.dumps(entry)) for key, entry in ins.items()]
    added = {key: hub_entries.Record(host=place.host.id, entry=entry) for key, entry in ins.items()}
    return structs.replace(plan, program=tuple(commands), records={**dict.fromkeys(outs), **added})


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EditRefused("is not UTF-8 text") from None


# --- deeds ------------------------------------------------------------------------------------------------------------


def carry_out(
    plan: Plan, records: hub_entries.Records, *, now: datetime, backups: Path, environ: Mapping[str, str]
) -> Path | None:
    """Do what was planned, and remember it; the backup, if one was made.
    Raises: EditError, if the file was changed meanwhile, or something cannot be written, or the host's program
    refused."""
    path, backup = plan.place.path, None
    if not plan.changes:
        if plan.did == "absent":
            for key in records.keys(path):
                records.keep(path, key, None)
        return None
    if plan.program:
        if plan.before is None:
            refuse_place(path)
        for command in plan.program:
            run_program(command, environ)
    elif plan.after is None:
        assert plan.before is not None
        backup = remove_file(path, was=plan.before, now=now, backups=backups)
        for directory in reversed(plan.made_directories):
            with suppress(OSError):  # something else is in it by now
                os.rmdir(directory)
    else:
        backup = replace_file(path, plan.after, was=plan.before, now=now, backups=backups)
    for key, record in plan.records.items():
        records.keep(path, key, record)
    return backup


PROGRAM_PATIENCE_S: Final = 60


def run_program(command: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Run a host's own program; what it says is shown only if it fails.
    Raises: EditError, if it cannot be run, or fails."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_PATIENCE_S,
            check=False,
        )
    except OSError as error:
        raise EditError(f"`{name} mcp` cannot be run: {error.strerror}; nothing was changed") from None
    except subprocess.TimeoutExpired:
        raise EditError(f"`{name} mcp` gave no answer within {PROGRAM_PATIENCE_S} s, and was stopped") from None
    if done.returncode:
        said = done.stdout.decode(errors="replace").strip()[:300]
        raise EditError(f"`{' '.join((name, *command[1:6]))}` failed: {said or f'exit code {done.returncode}'}")


def own_program(place: Place, environ: Mapping[str, str]) -> str | None:
    """The host's own program for changing the user's entries, if it has one and it is on PATH."""
    program = None if place.project else place.host.program
    return shutil.which(program, path=environ.get("PATH", "")) if program else None
