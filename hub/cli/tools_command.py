"""`hubd tools`: the tools of all servers, listed; and one tool, as it is called."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from hub.cli.client.answers import describe
from hub.cli.client.tool_signature import arguments, example, signature
from hub.cli.context import Context, Output, UsageError, as_json, ask_hub, nearest_or_all
from hub.cli.parser import add, add_config, on_main_file
from hub.cli.profiles.pick_command import pick
from hub.cli.profiles.profile_evidence import status_and_uses
from hub.cli.profiles.session_in_profile import say_refused_file, session_as, why_not_shown
from hub.cli.render.blocks import Block, Table, paint
from hub.cli.render.costs import blocks_of_unused, costs, costs_json, costs_of, json_of_unused, tool_costs
from hub.cli.render.terminal import UNLIMITED
from hub.cli.render.words import about
from hub.control.answers import UpstreamRow
from hub.control.client_errors import ControlFailed
from hub.control.methods import STATUS


def add_commands(commands: Any) -> None:
    """`tools`."""
    tools = add(commands, "tools", _tools, json=True)
    tools.add_value("name", "NAME", "a server name or a tool-name prefix; of a whole name, how it is called", nargs="?")
    only = tools.add_mutually_exclusive_group()
    only.add_argument("--cost", action="store_true", help="about how many tokens they take in a model's context")
    only.add_argument("--unused", action="store_true", help="those that nobody called in the last 30 days")
    only.add_argument("--pick", metavar="PROFILE", help="choose what a profile shows; a host's label, too")
    tools.add_flag("--empty", "with --pick: begin with no tool chosen")
    tools.add_flag("--edit", "with --pick: in an editor, also where arrows would do")
    tools.add_value("--profile", "PROFILE", "as the hosts of a profile see them; a host's label, too")
    add_config(tools)


def _tools(options: Context, output: Output) -> None:
    _refuse_together(options)
    if options.pick is not None:
        return on_main_file(pick)(options, output)
    if options.unused:
        return _list_unused(options)
    if options.cost and options.name is None and options.profile is None:
        status, uses = status_and_uses(options)
        return output.answer(costs_json(status, uses), lambda: costs(status, uses))

    with session_as(options, options.profile) as hub:
        found, instructions = hub.items("tools/list", "tools"), hub.instructions
    say_refused_file(output)
    one = next((tool for tool in found if tool.get("name") == options.name), None)
    if one is not None:
        found = [one]
    elif options.name is not None:
        found = _tools_of(options.name, found, ask_hub(STATUS).upstreams, options.profile)
    if options.profile is not None and not output.json and (searched := _note_search(options.profile)):
        output.note(searched)
    if options.cost:
        return _costs_of(options, found, instructions if options.name is None else "")
    if options.json:
        print(as_json(found))
    elif one is not None:
        _show(one, output, options.profile)
    elif not found and options.name is None:
        output.note(_none(options.profile))
    else:
        output.screen.show(*tool_lines(found))
        if output.screen.width != UNLIMITED:  # else each line is a tool, for programs
            output.screen.show(paint(f"{len(found)} {'tool' if len(found) == 1 else 'tools'}", "dim"))


def tool_lines(entries: Iterable[Mapping[str, Any]]) -> list[Block]:
    """A name and the first line of its description per line."""
    rows = [(paint(str(each.get("name")), "name"), describe(each).partition("\n")[0]) for each in entries]
    return [Table((), rows, shorten=(1, 0))] if rows else []


def _none(profile: str | None) -> str:
    if profile is None:
        return "no server has any tools; `hubd status` shows how they are"
    text = f"the profile {profile} shows no tools: its `servers` and `tools` choose none of those that there are now;"
    return f"{text} `hubd tools --pick {profile}` lists them to choose from"


def _note_search(profile: str) -> str:
    """The note on the tools that the hosts of a profile are shown in place of these; "": they are shown these."""
    row = next((each for each in ask_hub(STATUS).profiles if each.name == profile), None)
    if row is None or row.search != "on":
        return ""
    shown = f"{row.tools} tools, {about(row.tokens)} tokens"
    return f"hosts of the profile {profile} are shown {shown}, and find these by searching (search mode)"


def _refuse_together(options: Context) -> None:
    """Raises: UsageError: options do not belong together."""
    if options.pick is not None and (options.name is not None or options.profile is not None):
        raise UsageError("--pick stands alone: it opens the tools of all servers", options.parser.format_usage())
    if options.pick is None and (options.empty or options.edit):
        raise UsageError("--empty and --edit go with --pick PROFILE", options.parser.format_usage())
    if options.unused and options.profile is not None:
        raise UsageError("--unused is told of all hosts together: leave --profile out", options.parser.format_usage())


def _list_unused(options: Context) -> None:
    status, uses = status_and_uses(options)
    if options.name is not None and all(each.name != options.name for each in status.upstreams):
        known = [each.name for each in status.upstreams]
        raise ControlFailed(f"there is no server {options.name}; {nearest_or_all(options.name, known)}")
    unused = json_of_unused(uses, options.name)
    options.output.answer(unused, lambda: blocks_of_unused(uses, options.name))


def _costs_of(options: Context, tools: list[dict[str, Any]], instructions: str) -> None:
    found, output = costs_of(tools, instructions), options.output
    if not tools and not options.json:
        return output.note(_none(options.profile))
    output.answer(to_builtins(found), lambda: tool_costs(found))


def _show(tool: dict[str, Any], output: Output, profile: str | None) -> None:
    """Show how a tool is called: a signature, its description, its arguments, and an example. `profile`: as its hosts
    call it."""
    name, given = str(tool.get("name")), tool.get("inputSchema")
    schema = given if isinstance(given, dict) else {}
    rows = [
        (paint(each.name, "name"), each.kind, "required" if each.required else "optional", each.description)
        for each in arguments(schema)
    ]
    screen = output.screen
    screen.show(paint(signature(name, schema), "bold"))
    if description := describe(tool):
        screen.show("", description)
    if rows:
        screen.show("", Table(("ARGUMENT", "TYPE", "", "DESCRIPTION"), rows, shorten=("DESCRIPTION", "TYPE")))
    shown = example(name, schema)
    screen.show("", shown if profile is None else shown.replace("hubd call ", f"hubd call --profile {profile} ", 1))


def _tools_of(
    name: str, tools: list[dict[str, Any]], upstreams: "Sequence[UpstreamRow]", profile: str | None
) -> list[dict[str, Any]]:
    """The tools whose names begin with `name`."""
    found = [tool for tool in tools if str(tool.get("name")).startswith(f"{name}__")]
    found = found or [tool for tool in tools if str(tool.get("name")).startswith(name)]
    row = next((each for each in upstreams if each.name == name), None)
    if not found and row is None:
        if profile is not None and (why := why_not_shown(name, profile)):
            raise ControlFailed(why)
        shown = {str(tool.get("name")).partition("__")[0] for tool in tools}
        known = [each.name for each in upstreams if profile is None or each.name in shown]
        meant = nearest_or_all(name, known)
        raise ControlFailed(f"no tool begins with {name}, and no server has this name; {meant}")
    if not found and row is not None:
        why = (row.last_error or "").partition("\n")[0] or "`hubd tools` lists all there are"
        if profile is not None and not row.last_error:
            why = f"the profile {profile} leaves them out, `hubd tools {name}` shows them"
        raise ControlFailed(f"no tool begins with {name}, which is {row.state}: {why}")
    return found
