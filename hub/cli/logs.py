"""`hubd logs`: the records of a running hub, or what the last one left on disk."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from os import EX_OK, EX_UNAVAILABLE
from pathlib import Path
from time import localtime, strftime
from typing import TYPE_CHECKING, Final

from msgspec import convert, to_builtins

from config import directories
from hub.cli.desk import Desk, as_line, client
from hub.cli.render.blocks import paint
from hub.control.errors import HubNotRunning, NothingListens
from hub.control.methods import LOGS
from hub.wire.printable import printable
from upstreams.status_facts import JournalRecord

if TYPE_CHECKING:
    from rich.text import Text

NAME_CELLS, MAX_NAME_CELLS = 8, 32
"""Cells of the column of names, at first and at most."""
MAX_BYTES: Final = 8 << 20
"""The part of the file that is read, from its end; hubs begin another one at 4 MiB."""


def logs(options: Desk) -> int:
    """Show records of one log or of all, with `--follow` until Ctrl-C."""
    name, lines, entry, width = options.name, options.lines, None, 0
    try:
        with client() as hub:
            follow = options.follow
            entries = hub.follow(name, lines) if follow else hub.request_json(LOGS, name=name, lines=lines)["records"]
            for entry in entries:
                if options.json:
                    print(as_line(entry), flush=follow)
                    continue
                found = convert(entry, JournalRecord)
                width = 0 if name else min(MAX_NAME_CELLS, max(width, NAME_CELLS, len(found.name)))
                options.output.screen.show(record(found, width))
    except HubNotRunning as error:
        return _logs_on_disk(options, error)
    if entry is None and lines and not options.json:
        options.output.note(f"no log{f' of {name}' if name else ''} since the hub started")
    return EX_OK


def _logs_on_disk(options: Desk, error: HubNotRunning) -> int:
    """Show what the last hub that ran in the background has left of its own log; the exit code."""
    output = options.output
    is_asked = isinstance(error, NothingListens) and options.name in (None, "hub") and not options.follow
    path = Path(directories.state_dir(), "hubd.log")
    if not is_asked or not (found := last_records(path, options.lines)):
        return output.fail(EX_UNAVAILABLE, str(error))
    for each in found:
        if options.json:
            print(as_line(to_builtins(each)))
        else:
            output.screen.show(record(each, 0))
    if not options.json:
        output.note(f"no hub is running; the last one left this in {path}")
    return EX_OK


def last_records(path: Path, lines: int) -> list[JournalRecord]:
    """The last records of the file, at most `lines`; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            data = file.read(MAX_BYTES)
    except OSError:
        return []
    return list(deque(_records(data.decode(errors="replace").splitlines()), maxlen=lines))


def _records(lines: list[str]) -> Iterator[JournalRecord]:
    """Records of lines: JSON of the hub's log, or what else was written there, which counts as of that time."""
    at = 0.0
    for line in lines:
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            found = json.loads(line)
            at = datetime.fromisoformat(found["time"]).timestamp()
            text = "\n".join(str(found[key]) for key in ("message", "error") if key in found)
            yield JournalRecord(at, str(found["level"]), text, name="hub")
            continue
        yield JournalRecord(at, "stderr", line, name="hub")


def record(entry: JournalRecord, names: int = 0) -> "Text":
    """`hubd logs`: `2026-11-21 14:03:11  stderr  what it said`, in the time of this machine; of several logs with the
    name before that, in `names` cells."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(entry.at))
    line = paint(f"{at}  ", "dim")
    if names:
        line += paint(f"{entry.name:{names}}  ", "name")
    style = _KINDS.get(entry.kind)
    kind = f"{printable(entry.kind):{7 if names else 6}}"
    return line + (paint(kind, style) if style else kind) + f"  {printable(entry.text)}"


_KINDS: Final[Mapping[str, str]] = {"exit": "warning", "warning": "warning", "error": "bad", "critical": "bad"}
"""Styles of kinds of records."""
