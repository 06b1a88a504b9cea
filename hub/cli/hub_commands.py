"""Commands about the hub in the background: start it, look at it and at its log, also that of one that has ended, and
stop it."""

import argparse
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from os import EX_CONFIG, EX_UNAVAILABLE
from pathlib import Path
from select import select
from time import localtime, strftime
from typing import Any, Final, NoReturn

from msgspec import convert, to_builtins

from config import private_directories
from config.errors import ConfigError
from config.hub_paths import control_path
from hub.cli.context import Context, Output, UsageError, as_line, ask_hub, client
from hub.cli.parser import add, add_no_wait, load_when_run
from hub.cli.render.cache import cache
from hub.cli.render.status import status
from hub.cli.render.tables_and_styles import Block, Line, paint
from hub.cli.server_watch import say_outcomes, watch
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning, NothingListens
from hub.control.methods import CACHE, CACHE_CLEAR, LOGS, RELOAD, RESTART, STATUS
from hub.shim.main import run
from hub.wire.printable import printable
from upstreams.status_facts import JournalRecord

WATCH_S: Final = 2.0
"""Pause of `hubd status --watch`."""

_STARTED: Final = """\
  started      whether it was started; false: it ran already
  by           "service" or "command", if it was started
  version, url, socket
               of the hub that runs now"""

# --- the commands' arguments ------------------------------------------------------------------------------------------


def add_commands(commands: Any) -> None:
    """`start`, `connect`, `status` and their like."""
    add(commands, "start", _start, json=_STARTED)
    add(commands, "connect", lambda options, output: output.exit_with(run([])))
    status = add(commands, "status", _status, json=True)
    status.add_argument("-w", "--watch", action="store_true", help="show it again every 2 s, until Ctrl-C")
    restart = add(commands, "restart", _restart, json=True)
    restart.add_value("name", "NAME", "the server's name as `hubd status` shows it", nargs="?")
    add_no_wait(restart)
    logs = add(commands, "logs", _logs, json=True)
    logs.add_value("name", "NAME", "a server, or hub for the hub's own log; all if none", nargs="?")
    logs.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until interrupted")
    text = "number of last lines to print (100)"
    logs.add_argument("-n", "--lines", type=_count, default=100, metavar="N", help=text)
    add(commands, "reload", _reload, json=True)
    stop = add(commands, "stop", _stop, json=True)
    stop.add_flag("--force", "end its process if it hangs or does not end by itself")
    cache = add(commands, "cache", _cache, json=True)
    actions = cache.add_subparsers(title="commands", metavar="COMMAND", prog="hubd cache")
    clear = add(actions, "clear", _cache_clear, "clear the cache of one server, or of all servers", json=True)
    clear.add_value("name", "UPSTREAM", "its name as `hubd status` shows it; else all", nargs="?")


# --- the commands -----------------------------------------------------------------------------------------------------


def _start(options: Context, output: Output) -> None:
    from hub.cli.background_hub import start_hub, start_service  # other commands do without service managers

    by_service = start_service(output)
    is_new = start_hub() or by_service
    status = ask_hub(STATUS)
    by = {"by": "service" if by_service else "command"} if is_new else {}
    output.set(started=is_new, **by, version=status.version)
    did = "started the service" if by_service else "started" if is_new else "the hub runs already"
    where = ""
    if status.listen:
        output.set(url=status.listen.url, socket=status.listen.socket)
        where = f"; it listens on {status.listen.url} and {status.listen.socket}"
    output.say(f"{did}{where}")


def _status(options: Context, output: Output) -> None:
    try:
        with client() as hub:
            answer, found = hub.request_both(STATUS)
    except HubNotRunning as error:
        return output.fail(_not_running(options, error), EX_UNAVAILABLE)
    if options.watch:
        _watch(output, answer, status(found))
    output.answer(answer, lambda: status(found))


def _not_running(options: Context, error: HubNotRunning) -> str:
    """The sentence where no hub runs: if it could not start, what is to be mended first."""
    try:
        options.loaded  # noqa: B018 - whether it can be loaded
    except ConfigError as problem:
        text = f"no hub is running, and none starts until the configuration is right: {problem}; correct it there, or"
        return f"{text} by `hubd edit`, then `hubd start`"
    return str(error)


def _watch(output: Output, answer: Any, blocks: list[Block]) -> NoReturn:
    """Show the status again and again. On a terminal the last one stays when Ctrl-C ends it; elsewhere, and with
    `--json`, all are printed."""
    screen = output.screen
    try:
        with screen.live_lines() as redraw:
            while True:
                if output.json:
                    print(as_line(answer), flush=True)
                elif screen.live:
                    redraw(blocks)
                else:
                    screen.show(*blocks, "")
                select([], [], [], WATCH_S)
                try:
                    with client() as hub:
                        answer, found = hub.request_both(STATUS)
                    blocks = status(found)
                except (HubNotRunning, HubHangs) as error:
                    answer, blocks = {"error": {"code": EX_UNAVAILABLE, "message": str(error)}}, [str(error)]
    finally:
        if screen.live and not output.json:
            screen.show(*blocks)


def _cache(options: Context, output: Output) -> None:
    with client() as hub:
        answer, found = hub.request_both(CACHE)
    output.answer(answer, lambda: cache(found))


def _cache_clear(options: Context, output: Output) -> None:
    cleared = ask_hub(CACHE_CLEAR, name=options.name).cleared
    output.set(cleared=cleared, upstream=options.name)
    whose = f" of {options.name}" if options.name else ""
    output.say(f"cleared: {cleared} {'resource' if cleared == 1 else 'resources'}{whose}")


def _restart(options: Context, output: Output) -> None:
    if options.name is None:
        text = "name a server. To restart the hub itself: `hubd stop`, then `hubd start`"
        raise UsageError(text, options.parser.format_usage())

    with client() as hub:
        hub.request(RESTART, name=options.name)
        output.set(restarting=options.name)
        output.say(f"restarting {options.name}")
        if not options.no_wait:
            say_outcomes(watch(hub, [options.name], output).values(), output)


def _reload(options: Context, output: Output) -> None:
    with client() as hub:
        answer, outcome = hub.request_both(RELOAD)
    output.set(**answer)
    if outcome.problem is not None:
        return output.fail(f"nothing was changed: {outcome.problem}", EX_CONFIG)
    for warning in () if output.json else outcome.warnings:  # which are in the object already
        output.warn(warning)
    output.say(outcome.summary)
    for setting in outcome.pending:
        output.say(f"{setting} takes effect at the next start")
    for label in outcome.restart:
        output.say(f"restart {label}: its tools have changed, and it asks for them only when it starts")


def _count(text: str) -> int:
    """A number of lines."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a number of lines such as 50, not {text}")
    return int(text)


def _stop(options: Context, output: Output) -> None:
    stopped = True
    try:
        with client() as hub:
            hub.stop()
    except (HubNotRunning, HubHangs, ControlFailed) as error:
        if options.force:
            return load_when_run("hub.cli.background_hub:force_stop")(control_path(), output)
        if not isinstance(error, NothingListens):
            raise
        stopped = False
    output.set(stopped=stopped)
    output.say("stopped" if stopped else "no hub is running")


# --- logs -----------------------------------------------------------------------------------------------------------

NAME_CELLS, MAX_NAME_CELLS = 8, 32
"""Cells of the column of names, at first and at most."""
MAX_BYTES: Final = 8 << 20
"""The part of the file that is read, from its end; hubs begin another one at 4 MiB."""
_KINDS: Final[Mapping[str, str]] = {"exit": "warning", "warning": "warning", "error": "bad", "critical": "bad"}
"""Styles of kinds of records."""


def _logs(options: Context, output: Output) -> None:
    """Show records of one log or of all, with `--follow` until Ctrl-C."""
    name, lines, entry, width = options.name, options.lines, None, 0
    try:
        with client() as hub:
            follow = options.follow
            answer = None if follow else hub.request_both(LOGS, name=name, lines=lines)[0]
            for entry in hub.follow(name, lines) if answer is None else answer["records"]:
                if options.json:
                    print(as_line(entry), flush=follow)
                    continue
                found = convert(entry, JournalRecord)
                width = 0 if name else min(MAX_NAME_CELLS, max(width, NAME_CELLS, len(found.name)))
                output.screen.show(record(found, width))
    except (HubNotRunning, HubHangs) as error:
        return _logs_on_disk(options, error)
    if entry is None and lines:
        output.remark(f"no log{f' of {name}' if name else ''} since the hub started")


def _logs_on_disk(options: Context, error: HubNotRunning | HubHangs) -> None:
    """Show what the last hub that ran in the background, or one that hangs, has left of its own log. Raises
    `error` if that is not what was asked for, or there is nothing."""
    output, hangs = options.output, isinstance(error, HubHangs)
    is_asked = options.name == "hub" if hangs else isinstance(error, NothingListens) and options.name in (None, "hub")
    path = Path(private_directories.state_dir(), "hubd.log")
    if options.follow or not is_asked or not (found := last_records(path, options.lines)):
        raise error
    if hangs:
        output.progress.show(f"hubd: {error}")
    if options.json:
        for each in found:
            print(as_line(to_builtins(each)))
    else:
        output.screen.show(*(record(each, 0) for each in found))
        output.note(f"{'the hub hangs; it' if hangs else 'no hub is running; the last one'} left this in {path}")


def last_records(path: Path, lines: int) -> list[JournalRecord]:
    """The last records of the file, at most `lines`; none if it cannot be read, or is no file."""
    if not path.is_file():  # whoever reads a pipe waits for a writer
        return []
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


def record(entry: JournalRecord, names: int = 0) -> Line:
    """`hubd logs`: `2026-11-21 14:03:11  stderr  what it said`, in the time of this machine; of several logs with the
    name before that, in `names` cells."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(entry.at))
    line = paint(f"{at}  ", "dim")
    if names:
        line += paint(f"{entry.name:{names}}  ", "name")
    style = _KINDS.get(entry.kind)
    kind = f"{printable(entry.kind):{7 if names else 6}}"
    return line + (paint(kind, style) if style else kind) + f"  {printable(entry.text)}"
