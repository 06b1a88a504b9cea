"""`hubd tools` and `hubd call`: the tools of all servers, listed and called."""

import argparse
import json
import sys
from collections.abc import Sequence
from os import EX_OK
from typing import TYPE_CHECKING, Any

from hub.cli.render.screen import UNLIMITED, styled
from hub.cli.subcommand import EX_FAILED, Output, UsageError, add, as_json, client, nearest
from hub.control.errors import ControlFailed

if TYPE_CHECKING:
    from hub.control.answers import UpstreamRow
    from hub.control.client import ControlClient


def add_commands(commands: Any) -> None:
    """`tools` and `call`."""
    tools = add(commands, "tools", _tools, "the tools of all servers, or of one, as hosts see them", json=True)
    tools.add_argument("name", metavar="NAME", nargs="?", help="a server name or a tool-name prefix")
    tools.add_argument("--cost", action="store_true", help="about how many tokens they take in a model's context")
    call = add(commands, "call", _call, "call a tool and print its answer")
    call.add_argument("name", metavar="NAME", help="the tool's name as `hubd tools` shows it")
    call.add_argument(
        "arguments",
        metavar="KEY=VALUE",
        nargs="*",
        default=[],
        help="an argument; parsed as JSON unless the tool expects a string",
    )
    call.add_argument(
        "--json", metavar="ARGUMENTS", dest="object", help="all arguments as a JSON object; - reads stdin"
    )
    call.add_argument("--raw", action="store_true", help="print the whole result as JSON")


def _tools(options: argparse.Namespace) -> int:
    from hub.cli.render.answers import tools
    from hub.control.methods import STATUS, TOOLS

    if options.cost and options.name is None:
        return _costs(options)
    with client() as hub:
        found = hub.request(TOOLS)
        if options.name is not None:
            found = _tools_of(options.name, found, hub.request(STATUS).upstreams)
    if options.cost:
        return _costs_of(options, found)
    if options.json:
        print(as_json(found))
    else:
        output: Output = options.output
        output.screen.show(*tools(found))
        if output.screen.width != UNLIMITED:  # else each line is a tool, for programs
            output.screen.show(styled(f"{len(found)} {'tool' if len(found) == 1 else 'tools'}", "dim"))
    return EX_OK


def _costs(options: argparse.Namespace) -> int:
    from hub.cli.render.costs import costs, costs_json
    from hub.control.methods import STATUS

    with client() as hub:
        status = hub.request(STATUS)
    output: Output = options.output
    if options.json:
        print(as_json(costs_json(status)))
    else:
        output.screen.show(*costs(status))
    return EX_OK


def _costs_of(options: argparse.Namespace, tools: list[dict[str, Any]]) -> int:
    from hub.cli.render.costs import costs_of, tool_costs

    found, output = costs_of(tools), options.output
    if options.json:
        print(as_json({"tools": found}))
    else:
        output.screen.show(*tool_costs(found))
    return EX_OK


def _tools_of(name: str, tools: list[dict[str, Any]], upstreams: "Sequence[UpstreamRow]") -> list[dict[str, Any]]:
    """The tools whose names begin with `name`.

    Raises:
        ControlFailed: there is none; the text says why, if `name` is an upstream.
    """
    found = [tool for tool in tools if str(tool.get("name")).startswith(f"{name}__")]
    found = found or [tool for tool in tools if str(tool.get("name")).startswith(name)]
    row = next((each for each in upstreams if each.name == name), None)
    if not found and row is None:
        known = [each.name for each in upstreams]
        meant = nearest(name, known) or f"there are: {', '.join(known) or 'none'}"
        raise ControlFailed(f"no tool begins with {name}, and no server has this name; {meant}")
    if not found and row is not None:
        why = (row.last_error or "").partition("\n")[0] or "`hubd tools` lists all there are"
        raise ControlFailed(f"no tool begins with {name}, which is {row.state}: {why}")
    return found


def _call(options: argparse.Namespace) -> int:
    from hub.cli.render.answers import result
    from hub.control.methods import CALL
    from hub.wire.printable import printable

    with client() as hub:
        answer = hub.request(CALL, name=options.name, arguments=_arguments(options, hub))
    error = answer.get("error")
    if options.raw:
        print(as_json(answer))
    elif isinstance(error, dict):
        output: Output = options.output
        return output.fail(EX_FAILED, printable(str(error.get("message"))))
    else:
        print(result(answer), file=sys.stderr if answer.get("isError") is True else sys.stdout)
    return EX_FAILED if error or answer.get("isError") is True else EX_OK


def _arguments(options: argparse.Namespace, hub: "ControlClient") -> dict[str, Any]:
    """The arguments of a call from `--json` or from KEY=VALUE words.

    Raises:
        UsageError: neither form is right.
    """
    if options.object is not None:
        if options.arguments:
            raise UsageError("give arguments either as KEY=VALUE or with --json, not both")
        return _object(sys.stdin.read() if options.object == "-" else options.object)
    from hub.cli import tool_arguments

    try:
        texts = tool_arguments.split(options.arguments)
    except ValueError as error:
        raise UsageError(str(error)) from None
    schema: dict[str, Any] = {}
    if tool_arguments.depends_on_schema(texts):
        from hub.control.methods import TOOLS

        schema = next(
            (tool.get("inputSchema", {}) for tool in hub.request(TOOLS) if tool.get("name") == options.name), {}
        )
    return tool_arguments.typed(texts, schema)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--json: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("--json: the arguments of a tool are a JSON object")
    return value
