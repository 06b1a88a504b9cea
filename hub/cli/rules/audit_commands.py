"""`hubd audit`: what the audit log says, and whether it is as it was written.

It reads the files: no hub has to run. One that does is asked for its last record, which the files must have.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from heapq import merge
from itertools import chain
from select import select as wait_for
from typing import Any, BinaryIO, Final

from config.hub_paths import audit_dir
from config.server_names import ACCOUNT_MARK
from config.settings import OWNER
from hub.cli.context import CommandFailed, Context, Output, as_line, ask_hub
from hub.cli.parser import Parser, add, moment, number_of
from hub.cli.render.blocks import Line, paint
from hub.cli.render.words import count_of, size
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning
from hub.control.methods import STATUS
from hub.rules.audit.files import Head, logs_in, read_heads
from hub.rules.audit.reading import File, Query, Record, Verified, select, verify
from hub.wire.printable import printable

FOLLOW_S: Final = 0.25
"""Pause between two looks at files that are followed."""
LINES: Final = 20
MIN_HEAD: Final = 8
_STYLES: Final = {"error": "bad", "unknown": "bad", "interrupted": "bad", "refuse": "warning", "deny": "warning"}
_PLACED: Final = ("t", "n", "k", "ref", "host", "name", "h", "prev")
"""Members that have a place of their own in a line."""
_LEFT_OUT: Final = ("p", "up", "gen", "m", "def", "args", "size", "sent", "by", "rule", "out", "kind", "ms")
_CHECKED: Final = """\
  logs  of each: name, records, head (the hash of the last record), and, if it is not as it was written, flaw: file,
        line, why; if the end was removed, missing (records)"""


def add_commands(commands: Any) -> None:
    """`audit`, with its commands `tail`, `query` and `verify`."""
    audit = add(commands, "audit", _tail)
    actions = audit.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd audit")
    tail = add(actions, "tail", _tail, "print the last records, or new ones as they come", json=True)
    for each in (audit, tail):
        each.add_argument("-f", "--follow", action="store_true", help="keep printing new records until interrupted")
        each.add_argument(
            "-n", "--lines", type=number_of("records"), default=LINES, metavar="N", help=f"how many ({LINES})"
        )
    audit.add_flag("--json", "print JSON")
    query = add(actions, "query", _query, "print the records that are asked for", json=True)
    query.add_value("--tool", "GLOB", "of tools with such a name, as hosts see it", default="")
    query.add_value("--upstream", "NAME", "of one server", default="")
    query.add_value("--host", "LABEL", "of one host", default="")
    query.add_value("--since", "TIME", "from then on: 2h, 30m, 7d, or 2026-11-22T09:00", type=moment)
    query.add_flag("--refused", "of what was refused, by a rule, a person or a check")
    query.add_value("--ref", "REF", "of one call, with its further rounds", default="")
    verify = add(actions, "verify", _verify, "look whether every record is as it was written", json=_CHECKED)
    verify.add_value("--head", "HASH", "one that the log must have, as `hubd status` or its log showed it", default="")


Logs = dict[str, list[File]]
Shown = tuple[Record, Record]
"""A record, and what it is shown with."""


def _open_logs(opened: ExitStack) -> Logs:
    """The logs by name, each with its files, which `opened` closes: all are open before one is read, since the hub may
    put them aside meanwhile. Raises CommandFailed: there are none."""
    logs = logs_in(directory := audit_dir())
    if not logs:
        raise CommandFailed(f"there is no audit log in {directory}; a hub with [audit] enabled makes it when it starts")
    return {
        name: [File(path.name, opened.enter_context(path.open("rb"))) for path in paths] for name, paths in logs.items()
    }


def _select(logs: Logs, query: Query, begun: dict[str, Record] | None = None) -> Iterator[Shown]:
    """The records of all logs that are asked for, by time."""
    each = (chain.from_iterable(_whole_lines(file.lines) for file in files) for files in logs.values())
    return merge(*(select(lines, query, begun) for lines in each), key=lambda found: str(found[0].get("t")))


def _tail(options: Context, output: Output) -> None:
    begun: dict[str, Record] = {}
    with ExitStack() as opened:
        logs = _open_logs(opened)
        latest = {name: files[-2:] for name, files in logs.items()}
        _print(deque(_select(latest, Query(), begun), maxlen=options.lines), output)
        while options.follow:
            for name, files in logs.items():
                path, lines = audit_dir() / name, [*_whole_lines(files[-1].lines)]
                with suppress(FileNotFoundError):
                    if not os.path.samestat(os.fstat(files[-1].lines.fileno()), path.stat()):
                        lines += _whole_lines(files[-1].lines)  # what came before it was put aside
                        files.append(File(name, opened.enter_context(path.open("rb"))))
                _print(select(lines, Query(), begun), output)
            wait_for([], [], [], FOLLOW_S)


def _query(options: Context, output: Output) -> None:
    query = Query(
        tool=options.tool,
        upstream=options.upstream,
        host=options.host,
        since=options.since.strftime("%Y-%m-%dT%H:%M:%S") if options.since else "",
        refused=options.refused,
        ref=options.ref.lower(),
    )
    with ExitStack() as opened:
        if not _print(_select(_open_logs(opened), query), output):
            output.remark("there is no such record")


def _print(found: Iterable[Shown], output: Output) -> int:
    count = 0
    for record, shown in found:
        count += 1
        if output.json:
            print(as_line(record), flush=True)
        else:
            output.screen.show(line(shown))
    return count


def line(shown: Record) -> Line:
    """A record for people: `2026-11-22 10:17:00  end      c7f3a9b2  cursor  github__merge_pr  ok, 212 ms, 2 KiB`."""
    at, kind = str(shown.get("t", "")), str(shown.get("k", "?"))
    with suppress(ValueError):
        at = datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    found = paint(f"{at}  ", "dim")
    style = _STYLES.get(str(shown.get("out", kind)))
    found += paint(f"{kind:8}", style or "bold")
    person, account = str(shown.get("p", OWNER)), str(shown.get("up", ""))
    about = {"host": f" of {person}" * (person != OWNER), "name": f" ({account})" * (ACCOUNT_MARK in account)}
    for name in ("ref", "host", "name"):
        if text := str(shown.get(name, "")):
            found += paint(f"  {text}{about.get(name, '')}", "name" if name == "name" else "dim")
    return found + f"  {printable(_say(shown))}"


def _say(shown: Record) -> str:
    words = []
    if shown.get("k") == "begin":
        words.append(f"{shown.get('by')} ({shown.get('rule')})")
    if "out" in shown:
        kind = shown.get("kind")
        words.append(f"{shown['out']}: {kind}" if kind else str(shown["out"]))
        words += [f"{shown['ms']} ms"] if "ms" in shown else []
        words += [size(shown["size"])] if isinstance(shown.get("size"), int) and shown["size"] else []
        words += [f"executed: {shown['executed']}"] if "executed" in shown else []
    known = {*_PLACED, *(_LEFT_OUT if shown.get("k") in ("begin", "end") else ()), "executed"}
    words += [f"{name} {each}" for name, each in shown.items() if name not in known]
    return ", ".join(words)


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    while text := file.readline():
        if not text.endswith(b"\n"):
            file.seek(-len(text), os.SEEK_CUR)
            return
        yield text


def _verify(options: Context, output: Output) -> None:
    head = options.head.lower()
    if head and not re.fullmatch(rf"[0-9a-f]{{{MIN_HEAD},64}}", head):
        raise CommandFailed(f"--head: a hash has 64 digits of 0 to 9 and a to f, and {MIN_HEAD} at least are needed")
    has_head = False
    heads = _read_heads(output)  # first, since the hub goes on
    found_in = {name: (Verified(has_head=not head), 0) for name in heads}
    with ExitStack() as opened:
        for name, files in _open_logs(opened).items():
            known = heads.setdefault(name, Head())
            found_in[name] = verify(files, head, (known.n, known.h)), len(files)
    for name, (found, count) in found_in.items():
        has_head = has_head or found.has_head
        log: dict[str, Any] = {"name": name, "records": found.records, "head": found.head}
        if found.flaw is not None:
            log["flaw"] = found.flaw._asdict()
            text = f"line {found.flaw.line} of {found.flaw.file} {found.flaw.why}; before it, {found.records} are whole"
            output.fail(text)
        elif found.number < (written := heads[name].n):
            log["missing"] = written - found.number
            output.fail(f"{name} ends with record {found.number}, and {written} were written: the rest was removed")
        else:
            where = f"{found.records} records in {count_of(count, 'file')}"
            output.say(f"{name}: {where} are as they were written; the last hash is {found.head}")
        output.append("logs", log)
    if not has_head:
        output.fail(f"no record has the hash {head}: the end of a log was cut off, or that record is no longer kept")


def _read_heads(output: Output) -> dict[str, Head]:
    """The last record that each log is known to have had, by name: as it is kept beside it, and as the hub says that
    writes it now."""
    heads = read_heads(directory := audit_dir())
    try:
        running = ask_hub(STATUS).audit
    except HubNotRunning:
        return heads
    except (HubHangs, ControlFailed) as error:
        output.remark(f"the hub that runs was not asked for its last record: {error}")
        return heads
    if running and os.path.realpath(os.path.dirname(running.log)) == os.path.realpath(directory):
        name = os.path.basename(running.log)
        heads[name] = max(Head(running.records, running.head), heads.get(name, Head()), key=lambda head: head.n)
    return heads
