"""`hubd logs`: what the hub and its servers have said, also what a hub that has ended left in its file."""

import argparse
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import localtime, strftime
from typing import Any, Final

from msgspec import convert, to_builtins

from config import base_directories
from hub.cli.context import Context, Output, as_line, client
from hub.cli.parser import add, moment, number_of
from hub.cli.render.blocks import Line, paint
from hub.control.client_errors import HubHangs, HubNotRunning, NothingListens
from hub.control.methods import LOG_LINES, LOGS
from hub.wire.printable import printable
from upstreams.journal.record_filter import LEVELS, RecordFilter
from upstreams.status_facts import JournalRecord

NAME_CELLS, MAX_NAME_CELLS = 8, 32
"""Cells of the column of names, at first and at most."""
MAX_BYTES: Final = 8 << 20
"""The part of the file that is read, from its end; hubs begin another one at 4 MiB."""
_KINDS: Final[Mapping[str, str]] = {"exit": "warning", "warning": "warning", "error": "bad", "critical": "bad"}
"""Styles of kinds of records."""
REF: Final = re.compile(r"[0-9a-f]{8}", re.I)


def add_commands(commands: Any) -> None:
    """`logs`."""
    logs = add(commands, "logs", _logs, json=True)
    logs.add_value("name", "NAME", "a server, or hub for the hub's own log; all if none", nargs="?")
    logs.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until interrupted")
    text = f"number of last lines to print ({LOG_LINES})"
    logs.add_argument("-n", "--lines", type=number_of("lines"), default=LOG_LINES, metavar="N", help=text)
    text = f"lines of this level or above, of {', '.join(LEVELS)}; stderr counts as info"
    logs.add_value("--level", "LEVEL", text, choices=LEVELS, default="")
    logs.add_value("--since", "TIME", "from then on: 10m, 2h, or 2026-11-22T09:00", type=moment)
    logs.add_value("--ref", "REF", "about one call, by its number as `hubd audit` shows it", type=ref)


def ref(text: str) -> str:
    """The type of an argument that is the number of a request."""
    if REF.fullmatch(text):
        return text.lower()
    raise argparse.ArgumentTypeError(f"expected eight hexadecimal digits such as c7f3a9b2, not {text}")


def _logs(options: Context, output: Output) -> None:
    """Show records of one log or of all, with `--follow` until Ctrl-C."""
    name, lines, entry, width = options.name, options.lines, None, 0
    since = options.since and options.since.timestamp()
    only = {name: each for name, each in (("level", options.level), ("since", since), ("ref", options.ref)) if each}
    try:
        with client() as hub:
            follow = options.follow
            answer = None if follow else hub.request_both(LOGS, name=name, lines=lines, **only)[0]
            for entry in hub.follow(name, lines, **only) if answer is None else answer["records"]:
                if options.json:
                    print(as_line(entry), flush=follow)
                    continue
                found = convert(entry, JournalRecord)
                shown = found.about or found.name
                if not name or shown.startswith(f"{name}:"):  # of one server there may be several accounts
                    width = min(MAX_NAME_CELLS, max(width, NAME_CELLS, len(shown)))
                output.screen.show(record(found, width))
    except (HubNotRunning, HubHangs) as error:
        return _logs_on_disk(options, error, RecordFilter(**only))
    if entry is None and lines:
        such = " that is asked for" if only else ""
        output.remark(f"no log{f' of {name}' if name else ''} since the hub started{such}")


def _logs_on_disk(options: Context, error: HubNotRunning | HubHangs, wanted: RecordFilter) -> None:
    """Show what the last hub that ran in the background, or one that hangs, has left of its own log. Raises
    `error` if that is not what was asked for, or there is nothing."""
    output, hangs = options.output, isinstance(error, HubHangs)
    is_asked = options.name == "hub" if hangs else isinstance(error, NothingListens) and options.name in (None, "hub")
    path = Path(base_directories.state_dir(), "hubd.log")
    if options.follow or not is_asked or not (found := last_records(path, options.lines, wanted)):
        raise error
    if hangs:
        output.progress.show(f"hubd: {error}")
    if options.json:
        for each in found:
            print(as_line(to_builtins(each)))
    else:
        output.screen.show(*(record(each, 0) for each in found))
        output.note(f"{'the hub hangs; it' if hangs else 'no hub is running; the last one'} left this in {path}")


def last_records(path: Path, lines: int, wanted: RecordFilter) -> list[JournalRecord]:
    """The last records of the file that are wanted, at most `lines`; none if it cannot be read, or is no file."""
    if not path.is_file():  # whoever reads a pipe waits for a writer
        return []
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            data = file.read(MAX_BYTES)
    except OSError:
        return []
    return list(deque(filter(wanted.passes, _records(data.decode(errors="replace").splitlines())), maxlen=lines))


def _records(lines: list[str]) -> Iterator[JournalRecord]:
    """Records of lines: JSON of the hub's log, or what else was written there, which counts as of that time."""
    at = 0.0
    for line in lines:
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            found = json.loads(line)
            at = datetime.fromisoformat(found["time"]).timestamp()
            text = "\n".join(str(found[key]) for key in ("message", "error") if key in found)
            level = str(found["level"])
            yield JournalRecord(
                at,
                level,
                text,
                name="hub",
                level=level,
                ref=str(found.get("ref", "")),
                about=str(found.get("upstream", "")),
            )
            continue
        yield JournalRecord(at, "stderr", line, name="hub")


def record(entry: JournalRecord, names: int = 0) -> Line:
    """`hubd logs`: `2026-11-21 14:03:11  stderr  what it said`, in the time of this machine; of several logs with the
    name before that, in `names` cells; with the number of the request that it is about before the text."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(entry.at))
    line = paint(f"{at}  ", "dim")
    if names:
        line += paint(f"{entry.about or entry.name:{names}}  ", "name")
    style = _KINDS.get(entry.kind) or _KINDS.get(entry.level)
    kind = f"{printable(entry.kind):{7 if names else 6}}"
    line += paint(kind, style) if style else kind
    if entry.ref:
        line += paint(f"  {entry.ref}", "dim")
    return line + f"  {printable(entry.text)}"
