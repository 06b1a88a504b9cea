"""Commands about the hub in the background: start it, look at it, and stop it."""

import argparse
import os
from os import EX_CONFIG, EX_OK, EX_UNAVAILABLE
from select import select
from typing import Any, Final, NoReturn

from config.errors import ConfigError
from config.hub_paths import control_path
from config.loading.assemble import load_all
from hub.cli.desk import Desk, Output, UsageError, as_json, as_line, ask_hub, client
from hub.cli.parser import add, add_no_wait, load_when_run
from hub.cli.render.cache import cache
from hub.cli.render.status import status
from hub.cli.server_watch import say_outcomes, watch
from hub.control.errors import ControlFailed, HubHangs, HubNotRunning, NothingListens
from hub.control.methods import CACHE, CACHE_CLEAR, RELOAD, RESTART, STATUS, read
from hub.shim.main import run

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
    add(commands, "connect", _connect)
    status = add(commands, "status", _status, json=True)
    status.add_argument("-w", "--watch", action="store_true", help="show it again every 2 s, until Ctrl-C")
    restart = add(commands, "restart", _restart, json=True)
    restart.add_argument("name", metavar="NAME", nargs="?", help="the server's name as `hubd status` shows it")
    add_no_wait(restart)
    logs = add(commands, "logs", "hub.cli.logs:logs", json=True)
    logs.add_argument("name", metavar="NAME", nargs="?", help="a server, or hub for the hub's own log; all if none")
    logs.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until interrupted")
    logs.add_argument(
        "-n", "--lines", type=_count, default=100, metavar="N", help="number of last lines to print (100)"
    )
    add(commands, "reload", _reload, json=True)
    stop = add(commands, "stop", _stop, json=True)
    stop.add_argument("--force", action="store_true", help="end its process if it hangs or does not end by itself")
    cache = add(commands, "cache", _cache, json=True)
    actions = cache.add_subparsers(title="commands", metavar="COMMAND", prog="hubd cache")
    clear = add(actions, "clear", _cache_clear, "clear the cache of one server, or of all servers", json=True)
    clear.add_argument("name", metavar="UPSTREAM", nargs="?", help="its name as `hubd status` shows it; else all")


# --- the commands -----------------------------------------------------------------------------------------------------


def _start(options: Desk) -> int:
    from hub.cli.background import start_hub, start_service  # other commands do without service managers

    output = options.output
    by_service = start_service(output)
    started = start_hub()
    by = "service" if by_service else "command" if started else None
    status = ask_hub(STATUS)
    output.set(started=by is not None, **({} if by is None else {"by": by}), version=status.version)
    did = "the hub runs already" if by is None else "started the service" if by == "service" else "started"
    where = ""
    if status.listen:
        output.set(url=status.listen.url, socket=status.listen.socket)
        where = f"; it listens on {status.listen.url} and {status.listen.socket}"
    output.say(f"{did}{where}")
    return EX_OK


def _connect(options: Desk) -> int:
    return run([])


def _status(options: Desk) -> int:
    output = options.output
    try:
        with client() as hub:
            answer = hub.request_json(STATUS)
    except HubNotRunning as error:
        return output.fail(EX_UNAVAILABLE, _not_running(error))
    if options.watch:
        return _watch(output, answer)
    if options.json:
        print(as_json(answer))
    else:
        output.screen.show(*status(read(STATUS, answer)))
    return EX_OK


def _not_running(error: HubNotRunning) -> str:
    """The sentence where no hub runs: if it could not start, what is to be mended first."""
    try:
        load_all(None, os.environ, partly=True)
    except ConfigError as problem:
        return (
            f"no hub is running, and none starts until the configuration is right: {problem}; correct it there, or by "
            "`hubd edit`, then `hubd start`"
        )
    return str(error)


def _watch(output: Output, answer: Any) -> NoReturn:
    """Show the status again and again. On a terminal the last one stays when Ctrl-C ends it; elsewhere, and with
    `--json`, all are printed."""
    screen, blocks = output.screen, status(read(STATUS, answer))
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
                        answer = hub.request_json(STATUS)
                except (HubNotRunning, HubHangs) as error:
                    answer, blocks = {"error": {"code": EX_UNAVAILABLE, "message": str(error)}}, [str(error)]
                else:
                    blocks = status(read(STATUS, answer))
    finally:
        if screen.live and not output.json:
            screen.show(*blocks)


def _cache(options: Desk) -> int:
    with client() as hub:
        answer = hub.request_json(CACHE)
    if options.json:
        print(as_json(answer))
    else:
        options.output.screen.show(*cache(read(CACHE, answer)))
    return EX_OK


def _cache_clear(options: Desk) -> int:
    cleared = ask_hub(CACHE_CLEAR, name=options.name).cleared
    if options.json:
        print(as_json({"cleared": cleared, "upstream": options.name}))
    else:
        whose = f" of {options.name}" if options.name else ""
        print(f"cleared: {cleared} {'resource' if cleared == 1 else 'resources'}{whose}")
    return EX_OK


def _restart(options: Desk) -> int:
    if options.name is None:
        text = "name a server. To restart the hub itself: `hubd stop`, then `hubd start`"
        raise UsageError(text, options.parser.format_usage())

    output = options.output
    with client() as hub:
        hub.request(RESTART, name=options.name)
        output.set(restarting=options.name)
        output.say(f"restarting {options.name}")
        return EX_OK if options.no_wait else say_outcomes(watch(hub, [options.name], output).values(), output)


def _reload(options: Desk) -> int:
    output = options.output

    with client() as hub:
        answer = hub.request_json(RELOAD)
    outcome = read(RELOAD, answer)
    if output.json:
        output.set(**answer)
    if outcome.problem is not None:
        return output.fail(EX_CONFIG, f"nothing was changed: {outcome.problem}")
    if not output.json:
        for warning in outcome.warnings:
            output.warn(warning)
    output.say(outcome.summary)
    for setting in outcome.pending:
        output.say(f"{setting} takes effect at the next start")
    for label in outcome.restart:
        output.say(f"restart {label}: its tools have changed, and it asks for them only when it starts")
    return EX_OK


def _count(text: str) -> int:
    """A number of lines."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a number of lines such as 50, not {text}")
    return int(text)


def _stop(options: Desk) -> int:
    output = options.output
    try:
        with client() as hub:
            hub.stop()
    except (HubNotRunning, HubHangs, ControlFailed) as error:
        if isinstance(error, NothingListens) and not options.force:
            output.set(stopped=False)
            output.say("no hub is running")
            return EX_OK
        if not options.force:
            raise

        load_when_run("hub.cli.background:force_stop")(control_path(), output)
        return EX_OK
    output.set(stopped=True)
    output.say("stopped")
    return EX_OK
