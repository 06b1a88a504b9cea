"""Commands about the hub in the background: start it, look at it, restart its servers, and stop it."""

import re
from argparse import ArgumentTypeError
from os import EX_CONFIG, EX_UNAVAILABLE
from select import select
from typing import Any, Final, NoReturn

from config.diagnostics import ConfigError
from config.hub_paths import control_path
from hub.cli.await_server_starts import say_outcomes, watch
from hub.cli.context import Context, Output, UsageError, as_line, ask_hub, client
from hub.cli.parser import add, add_no_wait, load_when_run
from hub.cli.render.blocks import Block
from hub.cli.render.cache import cache
from hub.cli.render.status import status
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning, NothingListens
from hub.control.methods import CACHE, CACHE_CLEAR, RELOAD, RESTART, STATUS
from hub.shim.main import USAGE, run

WATCH_S: Final = 2.0
"""Pause of `hubd status --watch`."""
LEAST_S: Final = 0.1

_STARTED: Final = """\
  started      whether it was started; false: it ran already
  by           "service" or "command", if it was started
  version, url, socket
               of the hub that runs now"""

# --- the commands' arguments ------------------------------------------------------------------------------------------


def add_commands(commands: Any) -> None:
    """`start`, `connect`, `status` and their like."""
    add(commands, "start", _start, json=_STARTED)
    add(commands, "connect", lambda options, output: output.exit_with(run([]))).replace_help(USAGE)
    status = add(commands, "status", _status, json=True)
    text = f"show it again, every {WATCH_S:.0f} seconds or as often as you say, until Ctrl-C"
    status.add_argument("-w", "--watch", type=pause, nargs="?", const=WATCH_S, metavar="SECONDS", help=text)
    restart = add(commands, "restart", _restart, json=True)
    restart.add_value("name", "NAME", "the server's name as `hubd status` shows it", nargs="?")
    add_no_wait(restart)
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
        _watch(output, answer, status(found), options.watch)
    output.answer(answer, lambda: status(found))


def _not_running(options: Context, error: HubNotRunning) -> str:
    """The sentence where no hub runs: if it could not start, what is to be mended first."""
    try:
        options.loaded  # noqa: B018 - whether it can be loaded
    except ConfigError as problem:
        text = f"no hub is running, and none starts until the configuration is right: {problem}; correct it there, or"
        return f"{text} by `hubd edit`, then `hubd start`"
    return str(error)


def pause(text: str) -> float:
    """The type of an argument that is a number of seconds to wait."""
    if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text) and float(text) >= LEAST_S:
        return float(text)
    raise ArgumentTypeError(f"expected seconds such as 5, at least {LEAST_S}, not {text}")


def _watch(output: Output, answer: Any, blocks: list[Block], pause_s: float) -> NoReturn:
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
                select([], [], [], pause_s)
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
