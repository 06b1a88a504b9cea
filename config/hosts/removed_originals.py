"""Servers of hosts that `hubd import --disable-originals` turned off or took out, and putting them back.

Each is remembered with the text that was changed and what stands around it. As long as that is still there it is put
back verbatim, comments, order and all, the newest first. If it is not, the entry alone is turned on again, or put where
new entries go. What people did themselves meanwhile, they keep: an entry that is back, or on, is left as it is.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from config.diagnostics import EditError
from config.editing.text import serverfile
from config.editing.text.change import Edit, EditRefused
from config.editing.text.file_shape import Shape
from config.hosts.known_hosts import Place, all_hosts
from config.hosts.records_by_file import RecordsByFile

CONTEXTS: Final = (400, 100, 25)
"""Characters before and after a change that must be unchanged; tried in turn, as more may be edited around it."""


class Original(Struct, frozen=True, kw_only=True):
    """One server of a host that it no longer starts."""

    host: str
    project: str | None
    root: tuple[str, ...]
    key: str
    entry: dict[str, Any]
    """The entry before the change."""
    off: dict[str, bool] = {}
    """The setting that turns it off; {}: it was taken out."""
    old: str = ""
    new: str = ""
    """The text that took the place of `old`; both are "" if a program of the host did it."""
    before: str = ""
    after: str = ""
    """The text around it at that time."""

    @property
    def shape(self) -> Shape:
        """The form of its file, and the place of servers in it."""
        host = all_hosts()[self.host]
        return Shape(host.format, self.root, host.listed)

    def is_out(self, text: str) -> bool:
        """True if the host still does not start it. Raises: EditRefused, if `text` cannot be read."""
        entry = serverfile.entries(self.shape, text).get(self.key)
        if not self.off:
            return entry is None
        return entry is None or (isinstance(entry, dict) and entry.items() >= self.off.items())


class Originals(RecordsByFile[list[Original]]):
    """All servers that were turned off or taken out, in that order."""

    kind = list[Original]

    def _refuse_or_forget(self, path: Path) -> None:
        text = f"{path}: cannot be understood, and nothing else knows what imports took out of hosts"
        raise EditError(f"{text}; was it written by a newer hubd? To do without it, move it away")

    def get(self, path: Path) -> list[Original] | None:
        """The originals of all hosts that have this file, in the order in which they went."""
        return super().get(self._first_name(path))

    def put(self, path: Path, record: list[Original] | None) -> None:
        """As `RecordsByFile.put`, for the file, whichever host's link names it."""
        super().put(self._first_name(path), record)

    def _first_name(self, path: Path) -> Path:
        """The path under which the file is recorded: several hosts may have links to one."""
        names = self.all()
        return path if path in names else next((each for each in names if is_same_file(each, path)), path)

    def of(self, place: Place) -> list[Original]:
        """The originals of one host in one file: of the user's own entries, or of a project's."""
        return of_host(place, self.get(place.path) or ())

    def add(self, path: Path, more: Iterable[Original]) -> None:
        """Remember more, at once. Raises: EditError, if that cannot be written."""
        more = list(more)
        names = {(each.root, each.key) for each in more}
        kept = [each for each in self.get(path) or () if (each.root, each.key) not in names]
        self.put(path, [*kept, *more])

    def forget(self, path: Path, back: Sequence[Original]) -> None:
        """Forget those that are back, at once. Raises: EditError, if that cannot be written."""
        if back:
            self.put(path, [each for each in self.get(path) or () if each not in back] or None)


def of_host(place: Place, originals: Iterable[Original]) -> list[Original]:
    """The originals of one host, and of the user or one project."""
    project = place.project and str(place.project)
    return [each for each in originals if each.host == place.host.id and each.project == project]


def is_same_file(one: Path, other: Path) -> bool:
    """True if both paths lead to one file, perhaps by links."""
    return one == other or os.path.realpath(one) == os.path.realpath(other)


# --- out --------------------------------------------------------------------------------------------------------------


def remove_from_host(place: Place, text: str, key: str) -> tuple[str, Original]:
    """`text` without the server `key`, or with it turned off where the host has a setting for that.
    Raises: EditRefused, if that cannot be done for certain."""
    return _out(text, structs.replace(original_of(place, text, key), off=place.host.off))


def _out(text: str, original: Original) -> tuple[str, Original]:
    shape, key = original.shape, original.key
    if original.off:
        ((setting, value),) = original.off.items()
        edit = _narrow(serverfile.assign(shape, text, key, setting, value))
    else:
        edit = _narrow(serverfile.remove(shape, text, key))
    end, most = edit.start + len(edit.old), CONTEXTS[0]
    before, after = text[max(0, edit.start - most) : edit.start], text[end : end + most]
    return edit.apply(text), structs.replace(original, old=edit.old, new=edit.new, before=before, after=after)


def original_of(place: Place, text: str, key: str) -> Original:
    """The same, where a program of the host takes it out. Raises: EditRefused, if `text` cannot be read."""
    entry = serverfile.entries(place.kept, text).get(key)
    return Original(
        host=place.host.id,
        project=None if place.project is None else str(place.project),
        root=place.kept.root,
        key=key,
        entry=entry if isinstance(entry, dict) else {},
    )


def _narrow(edit: Edit) -> Edit:
    """The same change without what is equal at both ends."""
    first = len(os.path.commonprefix([edit.old, edit.new]))  # noqa: RUF071
    old, new = edit.old[first:], edit.new[first:]
    last = len(os.path.commonprefix([old[::-1], new[::-1]]))  # noqa: RUF071
    return Edit(edit.start + first, old[: len(old) - last], new[: len(new) - last])


# --- and back ---------------------------------------------------------------------------------------------------------


def as_before(text: str, originals: Sequence[Original]) -> str | None:
    """`text` with all of them, each verbatim; None: something else is around one of them by now, or one is back.
    Raises: EditRefused, if `text` cannot be read."""
    found: str | None = text
    for original in reversed(originals):
        found = _verbatim(found, original, CONTEXTS[0]) if found is not None and original.is_out(found) else None
    return found


def out_again(text: str, originals: Sequence[Original]) -> tuple[str, list[Original]]:
    """A text that `as_before` gave, and that was changed since, without them; what is to be remembered of each now.
    Raises: EditRefused, if that cannot be done for certain."""
    again = []
    for original in originals:
        text, found = _out(text, original)
        again.append(found)
    return text, again


def restore(text: str, originals: Sequence[Original]) -> tuple[str, dict[str, str]]:
    """All, the newest first; why some could not be. Raises: EditRefused, if `text` cannot be read."""
    refused = {}
    for original in reversed(originals):
        try:
            text = _restore(text, original)
        except EditRefused as reason:
            refused[original.key] = str(reason)
    return text, refused


def _restore(text: str, original: Original) -> str:
    if not original.is_out(text):
        return text
    for size in CONTEXTS:
        if (found := _verbatim(text, original, size)) is not None:
            return found
    shape, key = original.shape, original.key
    if key not in serverfile.entries(shape, text):
        return serverfile.insert(shape, text, key, original.entry).apply(text)
    ((setting, value),) = original.off.items()
    return serverfile.assign(shape, text, key, setting, original.entry.get(setting, not value)).apply(text)


def _verbatim(text: str, original: Original, size: int) -> str | None:
    """`text` with the server as it was, if just one place looks as this one did, and nothing else is meant then."""
    if not original.old and not original.new:
        return None
    before, after = original.before[-size:], original.after[:size]
    around = f"{before}{original.new}{after}"
    at = text.find(around)
    if at < 0 or text.find(around, at + 1) >= 0:
        return None
    found = Edit(at + len(before), original.new, original.old).apply(text)
    with suppress(EditRefused):
        was = serverfile.entries(original.shape, text)
        if serverfile.entries(original.shape, found) == was | {original.key: original.entry}:
            return found
    return None
