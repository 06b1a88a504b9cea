"""`hubd connect`: a relay between a host's stdio and the daemon's unix socket. It starts the daemon if there is none,
and again if it dies; the host notices nothing.

Hosts start one of these per conversation, some of them twice, so it imports next to nothing: no trio, no
msgspec, no argparse, json, socket, pathlib or typing.

    main      the command line, and the line that says who the host is (`hub.downstream.lines.preamble` reads it)
    pump      the loop: host, hub, and what to do when the hub is gone
    replay    the requests that a new hub gets again, and the errors that the host gets for all others
    line_buffers  bytes held of either direction      | mini_jsonrpc: ids and methods of lines
    hub_liveness  the way to the next hub, whether one hangs | start_daemon: connects, and starts it
"""

import os
import sys

from config.base_directories import runtime_dir
from config.hubd_executable import find_installed, passing_place
from config.private_directories import NotPrivate, private_dir
from hub.shim.line_buffers import say
from hub.shim.mini_jsonrpc import quoted
from hub.shim.reconnecting_pump import Pump

MAX_LABEL = 64
MAX_PATH_BYTES = 1200
"""Limit of a directory as JSON; two of them and the labels are less than `hub.downstream.lines.preamble.MAX_BYTES`."""

MOVED = "HUBD_MOVED"
"""Variable of a shim that goes on as the installed hubd."""

OPTIONS = ("--host", "--profile", "--upstream", "--project")

EX_USAGE, EX_INTERRUPTED = 2, 130  # as `hub.cli.context`; all others are of `os`

USAGE = """usage: hubd connect [--host NAME] [--upstream NAME | --profile NAME]
                    [--project DIR]

Hosts run this, you need not: a host that starts commands starts it in place of
a server, and speaks MCP with the hub over its standard input and output. The
hub is started if it does not run. `hubd install HOST` writes the entry into the
configuration of a host; by hand it is

  "hub": {"command": "hubd", "args": ["connect", "--host", "NAME"]}

To see yourself what hosts see: `hubd tools`, `hubd call`.

  --host NAME      what this host is called in `hubd status` and logs
  --upstream NAME  this one upstream only, under its own tool names
  --profile NAME   what [profiles.NAME] of hubd.toml shows, whatever the host
                   is called
  --project DIR    the project that the host works on, if it is not the working
                   directory

exit codes: 0 the host has finished, 2 wrong usage, 69 the hub cannot be reached
or refuses this host, 75 the hub goes away again and again, 78 the configuration
cannot be used, 130 interrupted
"""


def run(arguments: list[str]) -> int:
    """`hubd connect` with these arguments; the exit code."""
    try:
        options = _options(arguments)
    except ValueError as error:
        return _say(f"{error}\n\n{USAGE}", EX_USAGE)
    if "help" in options:
        os.write(1, USAGE.encode())
        return os.EX_OK
    _move_to_installed(arguments)
    try:
        pump = Pump(private_dir(runtime_dir()), preamble(options, _working_directory()))
        code = pump.run()
    except NotPrivate as error:
        return _say(f"{error}; or name another directory in HUBD_RUNTIME_DIR", os.EX_CONFIG)
    except OSError as error:
        return _say(f"the hub cannot be reached: {error.strerror}", os.EX_UNAVAILABLE)
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    return _say(pump.why, code) if pump.why else code


def _move_to_installed(arguments: list[str]) -> None:
    """Go on as the installed hubd, where this one lies in the cache of a package runner: it may vanish while it runs,
    and could not start a hub again then."""
    passing = passing_place(sys.prefix)
    if passing is None:
        return
    if MOVED not in os.environ and (installed := find_installed()) is not None:
        os.environ[MOVED] = "1"  # the installed one may itself be a script that runs this one
        os.execv(installed, [installed, "connect", *arguments])
    runner, remedy = passing
    _say(f"this hubd lives in the cache of {runner} and may vanish from there; to keep it: {remedy}", os.EX_OK)


def _say(text: str, code: int) -> int:
    say(text)
    return code


def _options(arguments: list[str]) -> dict[str, str]:
    """Names and values of the options; argparse alone would cost half of the shim's time."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in ("-h", "--help"):
            return {"help": ""}
        if name not in OPTIONS:
            what = f"there is no option {name}" if name.startswith("-") else f"unexpected argument: {name}"
            raise ValueError(f"{what}{_nearest_option(name)}")
        if not equals:
            if not rest:
                raise ValueError(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--project":
            value = os.path.abspath(value) if value else ""
            if not (os.path.isdir(value) and _fits(value)):
                raise ValueError("--project takes a directory")
        elif not (0 < len(value) <= MAX_LABEL and value.isascii() and value.isprintable()):
            raise ValueError(f"{name} takes 1 to {MAX_LABEL} printable ASCII characters")
        options[name[2:]] = value
    if "profile" in options and "upstream" in options:
        raise ValueError("a single server has no profiles: give --upstream or --profile, not both")
    return options


def _nearest_option(name: str) -> str:
    from difflib import get_close_matches  # not above: it costs as much as all the rest, and is hardly ever needed

    near = get_close_matches(name, OPTIONS, 1)
    return f'; did you mean "{near[0]}"?' if near else ""


def _working_directory() -> str:
    """The working directory; "" if it cannot be told."""
    try:
        path = os.getcwd()
    except OSError:  # it was removed
        return ""
    return path if _fits(path) else ""


def _fits(path: str) -> bool:
    """True if a path can be sent: it is text, and not too long."""
    try:
        path.encode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return False
    return len(quoted(path)) <= MAX_PATH_BYTES


def preamble(options: dict[str, str], cwd: str = "") -> bytes:
    """The line before the host's own lines. `bye`: this shim understands a hub that says goodbye; `lists`: it compares
    the lists of one hub with those of the next."""
    members = ['"hubd":1', '"bye":true', '"lists":true']
    members += [f'"{name}":{quoted(value)}' for name, value in options.items()]
    if cwd:
        members.append(f'"cwd":{quoted(cwd)}')
    return ("{" + ",".join(members) + "}\n").encode()
