"""The command line. It formats and decides nothing: every command but `serve` and `token` asks the running daemon.

Commands import what they need when they run: `hubd version` must not pay for trio. Data goes to stdout, everything else
to stderr.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from config.schema import ConfigError
from hub.control_client import ControlClient, ControlFailed, HubNotRunning

EX_OK: Final = 0
EX_FAILED: Final = 1
EX_USAGE: Final = 2
EX_UNAVAILABLE: Final = 69
EX_CONFIG: Final = 78
EX_INTERRUPTED: Final = 130

EPILOG: Final = """exit codes:
  0   done
  1   the tool reported an error, or the hub refused
  2   wrong usage
  69  no hub is running, or its address is taken
  75  another hub of this user is running
  78  the configuration cannot be used

files:
  $XDG_CONFIG_HOME/hubd/hubd.toml (~/.config/hubd/hubd.toml)  read when --config is not given
  $XDG_STATE_HOME/hubd (~/.local/state/hubd)                  token, keys, memory, log of a hub that connect started
  $XDG_RUNTIME_DIR/hubd, or $HUBD_RUNTIME_DIR                 sockets and lock
"""


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Never raises for what a user can cause."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        code = command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except HubNotRunning as error:
        return _failed(EX_UNAVAILABLE, str(error))
    except ConfigError as error:
        return _failed(EX_CONFIG, str(error))
    except ControlFailed as error:
        return _failed(EX_FAILED, str(error))
    except UsageError as error:
        return _failed(EX_USAGE, str(error))
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except BrokenPipeError:  # `hubd tools | head`: nothing more can be said, not even by the interpreter as it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EX_FAILED
    except OSError as error:  # the disk is full, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _failed(EX_FAILED, f"cannot write to standard output: {error.strerror}")


class UsageError(Exception):
    """The command line makes no sense; the text says how."""


def _failed(code: int, text: str) -> int:
    print(f"hubd: {text}", file=sys.stderr)
    return code


# --- the commands' arguments ------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hubd",
        description="One MCP server for every AI host on this machine, and the client of all their MCP servers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_const", const=_version, dest="command", help="show the version")
    parser.set_defaults(json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_serve(commands)
    _add(commands, "connect", _connect, "standard input and output to the hub, for hosts; see `hubd connect --help`")
    _add(commands, "status", _status, "upstreams and attached hosts", json=True)
    _add(commands, "tools", _tools, "the merged tools", json=True)
    _add_call(commands)
    restart = _add(
        commands, "restart", _restart, "start one upstream anew and find out again what it speaks", json=True
    )
    restart.add_argument("name", metavar="NAME", help="the upstream's name as `hubd status` shows it")
    _add(commands, "token", _token, "the bearer token of the HTTP listener", json=True)
    _add(commands, "stop", _stop, "stop the hub and wait until it has ended", json=True)
    _add(commands, "version", _version, "the version", json=True)
    parser.set_defaults(command=lambda options: _usage(parser))
    return parser


def _usage(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return EX_USAGE


def _add(
    commands: Any, name: str, command: Callable[[argparse.Namespace], int], text: str, *, json: bool = False
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: see `hubd --help`",
    )
    parser.set_defaults(command=command)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_serve(commands: Any) -> None:
    serve = _add(commands, "serve", _serve, "run the hub in the foreground")
    serve.add_argument("--config", type=Path, metavar="FILE", help="a hubd.toml, or any host's .json of MCP servers")
    serve.add_argument("--listen", metavar="HOST:PORT", help="where to serve HTTP; port 0 takes any free one")
    serve.add_argument("--auth", choices=("token", "none"), help="whether HTTP needs the bearer token")
    serve.add_argument("--stdio", action="store_true", help="be one stdio server for the program that started this")


def _add_call(commands: Any) -> None:
    call = _add(commands, "call", _call, "call a tool and print what it answers")
    call.add_argument("name", metavar="NAME", help="the tool's name as `hubd tools` shows it")
    call.add_argument(
        "arguments",
        metavar="KEY=VALUE",
        nargs="*",
        help="an argument; JSON if it is JSON and the tool does not want text there",
    )
    call.add_argument(
        "--json", metavar="ARGUMENTS", dest="object", help="all arguments as a JSON object; - reads stdin"
    )
    call.add_argument("--raw", action="store_true", help="print the whole result as JSON")


# --- the commands -----------------------------------------------------------------------------------------------------


def _serve(options: argparse.Namespace) -> int:
    if options.listen is not None:
        from config.check import split_listen
        from config.source import Problem

        try:
            split_listen(options.listen)
        except Problem as problem:
            raise UsageError(f"--listen: {problem}") from None
    from hub.daemon import ServeOptions, run_serve

    return run_serve(ServeOptions(config=options.config, listen=options.listen, auth=options.auth, stdio=options.stdio))


def _connect(options: argparse.Namespace) -> int:
    from hub.shim import run

    return run([])


def _status(options: argparse.Namespace) -> int:
    from hub import show

    with _client() as client:
        status = client.status()
    print(_json(status) if options.json else show.status(status))
    return EX_OK


def _tools(options: argparse.Namespace) -> int:
    from hub import show

    with _client() as client:
        tools = client.tools()
    print(_json(tools) if options.json else show.tools(tools))
    return EX_OK


def _call(options: argparse.Namespace) -> int:
    from hub import show
    from hub.wire.clean import printable

    with _client() as client:
        arguments = _arguments(options, client)
        result = client.call(options.name, arguments)
    error = result.get("error")
    if options.raw:
        print(_json(result))
    elif isinstance(error, dict):
        return _failed(EX_FAILED, printable(str(error.get("message"))))
    else:
        print(show.result(result), file=sys.stderr if result.get("isError") is True else sys.stdout)
    return EX_FAILED if error or result.get("isError") is True else EX_OK


def _token(options: argparse.Namespace) -> int:
    from config.paths import token_path
    from hub.access import read_or_make_token

    token = read_or_make_token(token_path())
    print(_json({"token": token}) if options.json else token)
    return EX_OK


def _restart(options: argparse.Namespace) -> int:
    with _client() as client:
        client.restart(options.name)
    print(
        _json({"restarting": options.name}) if options.json else f"{options.name} is starting anew; see `hubd status`"
    )
    return EX_OK


def _stop(options: argparse.Namespace) -> int:
    with _client() as client:
        client.stop()
    print(_json({"stopped": True}) if options.json else "stopped")
    return EX_OK


def _version(options: argparse.Namespace) -> int:
    from hub.wire.mcp import ALL_VERSIONS, HUBD_VERSION

    print(_json({"version": HUBD_VERSION, "protocols": ALL_VERSIONS}) if options.json else f"hubd {HUBD_VERSION}")
    return EX_OK


def _client() -> ControlClient:
    from config.paths import control_path

    return ControlClient(control_path())


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


# --- a call's arguments -----------------------------------------------------------------------------------------------


def _arguments(options: argparse.Namespace, client: ControlClient) -> dict[str, Any]:
    """The arguments of a call from `--json` or from KEY=VALUE words.

    Raises:
        UsageError: neither form is right.
    """
    if options.object is not None:
        if options.arguments:
            raise UsageError("give arguments either as KEY=VALUE or with --json, not both")
        return _object(sys.stdin.read() if options.object == "-" else options.object)
    from hub import arguments

    try:
        texts = arguments.split(options.arguments)
    except ValueError as error:
        raise UsageError(str(error)) from None
    schema: dict[str, Any] = {}
    if arguments.depends_on_schema(texts):
        schema = next((tool.get("inputSchema", {}) for tool in client.tools() if tool.get("name") == options.name), {})
    return arguments.typed(texts, schema)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--json: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("--json: the arguments of a tool are a JSON object")
    return value
