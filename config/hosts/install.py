"""Installing our entry in the files of hosts, and removing it so that nothing of it is left.

What was put in is remembered: the text, what stood there before, and whether the file was ours. If the text is still
there, it is cut out verbatim, and whatever else was edited since stays as it is. If it is not, the entry alone is taken
out, and only if it is one of ours. `plan_*` decide and change nothing; `carry_out` writes.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, structs

from config.editing.text import jsonc, serverfile
from config.editing.text.change import Edit, EditRefused
from config.files import read_file, refuse_place, remove_file, replace_file
from config.hosts.entry import KEY, starts_connect, url_of
from config.hosts.facts import Place
from config.hosts.host_commands import run_program
from config.hosts.originals import Original, as_before, out_again, put_back
from config.hosts.remembered import Remembered

Did = Literal["added", "updated", "unchanged", "removed", "restored", "absent", "refused"]


class Record(Struct, frozen=True):
    """The change that installed our entry in one file."""

    host: str
    entry: dict[str, Any]
    old: str = ""
    new: str = ""
    """The text that took the place of `old`."""
    made_file: bool = False
    made_root: bool = False
    """There was no mapping of servers before."""
    made_directories: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """The change to make to one file, and the record to keep of it."""

    place: Place
    did: Did
    why: str = ""
    before: bytes | None = None
    after: bytes | None = None
    """The new content; None removes the file."""
    record: Record | None = None
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


class Records(Remembered[Record]):
    """The records of all files."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Record)


# --- decisions --------------------------------------------------------------------------------------------------------


def plan_install(
    place: Place,
    entry: dict[str, Any],
    records: Records,
    program: str | None = None,
    originals: Sequence[Original] = (),
) -> Plan:
    """Our entry in one file. `program`: the path of the host's own program, if that is to do it; `originals`: what an
    import took out of it.

    Raises:
        EditError: the file cannot be read.
    """
    before, record = read_file(place.path), records.get(place.path)
    try:
        text = place.host.skeleton.lstrip() if before is None else _decoded(before)
        existing = serverfile.entries(place.kept, text).get(KEY)
        if existing == entry:
            return Plan(place, "unchanged", before=before, after=before, record=record)
        if existing is not None and not is_ours(existing, record):
            raise EditRefused(f'it has an entry "{KEY}" that does not start hubd; give it another name')
        if program is not None:
            return _by_program(place, entry, program, existing is not None, before)
        whole = as_before(text, originals)
        base = text if whole is None else whole
        base = base if existing is None else _undone(place, base, record)
        edit = serverfile.insert(place.kept, base, KEY, entry)
        made = None if existing is None else record
        if made is None:
            made = _made(place, base, is_new=before is None)
        new = structs.replace(made, host=place.host.id, entry=entry, old=edit.old, new=edit.new)
        did: Did = "added" if existing is None else "updated"
        after, again = out_again(edit.apply(base), () if whole is None else originals)
        return Plan(place, did, before=before, after=after.encode(), record=new, originals=tuple(again))
    except EditRefused as refused:
        return Plan(place, "refused", why=str(refused), before=before, after=before, record=record)


def plan_uninstall(
    place: Place,
    records: Records,
    program: str | None = None,
    originals: Sequence[Original] = (),
    *,
    restore: bool = False,
) -> Plan:
    """Plan to remove our entry and all that came with it; `restore`: and to put back what an import took out.

    If the host's program takes our entry out, the originals are not put back: `plan_restore` does it then.

    Raises:
        EditError: the file cannot be read.
    """
    before, record = read_file(place.path), records.get(place.path)
    if before is None:
        return Plan(place, "absent", still_out=_gone(originals if restore else ()))
    try:
        text = _decoded(before)
        existing = serverfile.entries(place.kept, text).get(KEY)
        if existing is None:
            return plan_restore(place, originals if restore else ())
        if not is_ours(existing, record):
            raise EditRefused(f'its entry "{KEY}" does not start hubd, so it is left alone')
        if program is not None and (record is None or not record.new):
            command = (program, "mcp", "remove", "-s", "user", KEY)
            return Plan(place, "removed", before=before, after=before, program=(command,), record=record)
        plan = Plan(place, "removed", before=before, record=record)
        plan, after = _without_entry(plan, text, originals, restore=restore)
        if record is not None and record.made_file and after.strip() in ("", "{}", place.host.skeleton.strip()):
            return plan
        return structs.replace(plan, after=after.encode())
    except EditRefused as refused:
        return Plan(place, "refused", why=str(refused), before=before, after=before, record=record)


def _without_entry(plan: Plan, text: str, originals: Sequence[Original], *, restore: bool) -> tuple[Plan, str]:
    """The same plan with what becomes of `originals`, and the text that is left.

    Raises:
        EditRefused: that cannot be done for certain.
    """
    whole = as_before(text, originals)
    after = _undone(plan.place, text if whole is None else whole, plan.record)
    if not restore:
        after, again = out_again(after, () if whole is None else originals)
        return structs.replace(plan, originals=tuple(again)), after
    after, still_out = put_back(after, originals)
    restored = tuple(each for each in originals if each.key not in still_out)
    return structs.replace(plan, restored=restored, still_out=still_out), after


def plan_restore(place: Place, originals: Sequence[Original]) -> Plan:
    """Plan to put back servers that an import took out, whether our entry is in the file or not.

    Raises:
        EditError: the file cannot be read.
    """
    before = read_file(place.path)
    if before is None:
        return Plan(place, "absent", still_out=_gone(originals))
    try:
        after, still_out = put_back(_decoded(before), originals)
    except EditRefused as refused:
        return Plan(place, "refused", why=str(refused), before=before, after=before)
    restored = tuple(each for each in originals if each.key not in still_out)
    did: Did = "absent" if after.encode() == before else "restored"
    return Plan(place, did, before=before, after=after.encode(), restored=restored, still_out=still_out)


def _gone(originals: Sequence[Original]) -> dict[str, str]:
    return {each.key: "the file is gone" for each in originals}


def text_at(path: Path, *, trusted: bool = False) -> str:
    """The text of a host's file; none if there is no file. `trusted`: the hub is to run what it says.

    Raises:
        EditError: it cannot be read, or, if it is to be trusted, somebody else could have written it.
        EditRefused: it is not UTF-8.
    """
    return _decoded(read_file(path, trusted=trusted) or b"")


def is_ours(entry: Any, record: Record | None) -> bool:
    """True if an entry starts hubd, or is what we put there, or reaches what that reached."""
    if starts_connect(entry):
        return True
    if record is None:
        return False
    url = url_of(record.entry)
    return entry == record.entry or (url is not None and url_of(entry) == url)


def _by_program(place: Place, entry: dict[str, Any], program: str, there: bool, before: bytes | None) -> Plan:
    """Claude Code's file is live state, so its own program changes it."""
    remove = (program, "mcp", "remove", "-s", "user", KEY)
    add = (program, "mcp", "add-json", "-s", "user", KEY, json.dumps(entry))
    commands = (remove, add) if there else (add,)
    record = Record(host=place.host.id, entry=entry)
    return Plan(place, "updated" if there else "added", before=before, after=before, record=record, program=commands)


def _made(place: Place, text: str, *, is_new: bool) -> Record:
    """Facts about what our first entry in a file makes necessary beside itself: the file, its root, directories."""
    root, directories = _has_no_root(place, text), _missing(place.path)
    return Record(place.host.id, {}, made_file=is_new, made_root=root, made_directories=directories)


def _undone(place: Place, text: str, record: Record | None) -> str:
    """`text` without our entry: verbatim as it came if that is still there, else the entry alone.

    Raises:
        EditRefused: neither can be done for certain.
    """
    shape = place.kept
    meant = serverfile.without(shape, serverfile.read(shape, text), KEY)
    at = text.find(record.new) if record is not None and record.new else -1
    while record is not None and at >= 0:
        candidate = Edit(at, record.new, record.old).apply(text)
        with suppress(EditRefused):
            if serverfile.plain(shape, serverfile.read(shape, candidate)) == meant:
                return candidate
        at = text.find(record.new, at + 1)
    left = serverfile.remove(shape, text, KEY, comments=False).apply(text)  # we wrote none
    if record is not None and record.made_root and shape.format == "json" and not serverfile.entries(shape, left):
        with suppress(EditRefused):
            without_root = jsonc.remove(left, shape.root[:-1], shape.root[-1]).apply(left)
            if serverfile.plain(shape, jsonc.read(without_root)) == meant:
                return without_root
    return left


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EditRefused("is not UTF-8 text") from None


def _has_no_root(place: Place, text: str) -> bool:
    document = serverfile.read(place.kept, text)
    for name in place.kept.root:
        document = document.get(name) if isinstance(document, dict) else None
    return document is None


def _missing(path: Path) -> tuple[str, ...]:
    """The directories that will have to be made for `path`, the outermost first."""
    return tuple(str(parent) for parent in reversed(path.parents) if not parent.exists())


# --- deeds ------------------------------------------------------------------------------------------------------------


def carry_out(plan: Plan, records: Records, *, now: datetime, backups: Path, environ: Mapping[str, str]) -> Path | None:
    """Do what was planned, and remember it; the backup, if one was made.

    Raises:
        EditError: the file was changed meanwhile, or something cannot be written, or the host's program refused.
    """
    path, backup = plan.place.path, None
    if not plan.changes:
        if plan.did == "absent":
            records.put(path, None)
        return None
    if plan.program:
        if plan.before is None:
            refuse_place(path)
        for command in plan.program:
            run_program(command, environ)
    elif plan.after is None:
        assert plan.before is not None
        backup = remove_file(path, was=plan.before, now=now, backups=backups)
        for directory in reversed(plan.record.made_directories if plan.record else ()):
            with suppress(OSError):  # something else is in it by now
                os.rmdir(directory)
    else:
        backup = replace_file(path, plan.after, was=plan.before, now=now, backups=backups)
    if plan.did != "restored":  # our entry is none of its business
        records.put(path, None if plan.did == "removed" else plan.record)
    return backup
