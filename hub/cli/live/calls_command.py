"""`hubd calls`: what hosts have called, how it ended, and how long it took."""

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs, to_builtins

from config.server_names import server_of
from hub.cli.context import CommandFailed, Context, Output, as_line, client, nearest, nearest_or_all
from hub.cli.live.logs_command import record
from hub.cli.parser import add, moment, number_of, seconds
from hub.cli.render.blocks import Block
from hub.cli.render.calls import UNKNOWN, call_table, cost_blocks, has_costs, has_people, one_call, one_running
from hub.control.call_messages import CallList
from hub.control.methods import CALL_LINES, CALLS, LOGS, TOOLS, WATCH

if TYPE_CHECKING:
    from hub.cli.render.layout import Widths
    from hub.control.client import ControlClient

REF: Final = re.compile(r"[0-9a-f]{8}", re.I)
NOT_RECORDED: Final = (
    "arguments and results are not recorded. To record them for one server: "
    'record = ["arguments", "result"] in [upstreams.NAME]'
)
_CHOOSING: Final = frozenset({"about", "host", "failed", "slower_s", "since"})
_LOG_LINES: Final = 200


def add_commands(commands: Any) -> None:
    """`calls`."""
    calls = add(commands, "calls", _calls)
    calls.add_flag("--json", "print JSON: an object on a line for each call, or one about REF")
    text = "one call by its number, or those of a server or of a tool; all if none"
    calls.add_value("about", "REF|NAME", text, nargs="?", default="")
    calls.add_argument("-f", "--follow", action="store_true", help="keep printing calls as they end until interrupted")
    text = f"number of last calls to print ({CALL_LINES}); the hub keeps 1000, or `[calls] keep`"
    calls.add_argument("-n", "--lines", type=number_of("calls"), default=CALL_LINES, metavar="N", help=text)
    calls.add_value("--host", "LABEL", "those of one host", default="")
    calls.add_flag("--failed", "those that failed")
    calls.add_value("--slower", "TIME", "those that took as long, such as 500ms or 2s", type=seconds, default=0.0)
    calls.add_flag("--args", "with arguments and results, of servers that have them recorded (`record`)")
    calls.add_flag("--costs", "what calls have cost since the hub started, by host and server")
    calls.add_value("--since", "TIME", "from then on: 10m, 2h, or 2026-11-22T09:00", type=moment)


def _calls(options: Context, output: Output) -> None:
    if options.costs:
        return _show_costs(output)
    is_ref = REF.fullmatch(options.about) is not None
    wanted: dict[str, object] = {
        "about": options.about.lower() if is_ref else options.about,
        "host": options.host,
        "failed": options.failed,
        "slower_s": options.slower,
        "since": options.since and options.since.timestamp(),
        "n": options.lines,
        "follow": options.follow,
        "contents": options.args or is_ref,
    }
    with client() as hub:
        found = hub.request(CALLS, **wanted)
        if is_ref and not options.follow and all(each.ref == wanted["about"] for each in found.calls):
            return _show_one(found, str(wanted["about"]), output)
        if options.args and not found.records:
            output.note(NOT_RECORDED)
        if not found.calls and not found.running and not is_ref:
            _check_names(hub, options.about, options.host)
        printer = _CallPrinter(output, follows=options.follow)
        printer.print(found)
        while options.follow:
            printer.print(hub.further(CALLS))
    if not found.kept:
        output.remark("the hub keeps no calls (`[calls] keep = 0` in hubd.toml)")
    elif not found.calls:
        is_chosen = any(wanted[name] for name in _CHOOSING)
        such = f" that is asked for among the last {found.kept}" if is_chosen else " since the hub started"
        output.remark(f"no call{such}")


def _check_names(hub: "ControlClient", about: str, host: str) -> None:
    """Raise CommandFailed: no server or tool, or no host, has this name."""
    seen = hub.request(WATCH)
    servers = [row.label or row.name for row in seen.servers]
    if about and about not in {*servers, *map(server_of, servers)}:
        tools = [str(tool.get("name")) for tool in hub.request(TOOLS)]
        if about not in tools and not any(tool.endswith(f"__{about}") for tool in tools):
            hint = nearest(about, [*servers, *tools]) or f"servers are: {', '.join(servers) or 'none'}"
            raise CommandFailed(f"there is no server or tool {about}, and no call of such a one is kept; {hint}")
    hosts = sorted({*(row.label or row.host for row in seen.hosts), *(row.host for row in seen.costs)})
    if host and host not in hosts:
        raise CommandFailed(f"no host {host} is attached, and no call of it is kept; {nearest_or_all(host, hosts)}")


def _show_costs(output: Output) -> None:
    with client() as hub:
        costs = hub.request(WATCH).costs
    exact = [structs.replace(each, cost=round(each.cost, 9)) for each in costs]
    output.answer(to_builtins(exact), lambda: cost_blocks(costs))


class _CallPrinter:
    """Prints calls as one table, however many times there are more: columns and their widths stay."""

    def __init__(self, output: Output, *, follows: bool) -> None:
        self._output = output
        self._follows = follows
        self._with: tuple[bool, bool] | None = None
        """Whether the table has columns of costs and of people; None: it has not begun."""
        self._widths: Widths = {}

    def print(self, found: CallList) -> None:
        """Print calls; above the first ones, and the first with a price or of another person, the heads of the
        columns."""
        if self._output.json:
            for call in found.calls:
                print(as_line(to_builtins(call)), flush=True)
            return
        blocks: list[Block] = [f"{found.lost} calls before these were lost: too slow a reader"] if found.lost else []
        if found.calls:
            before, (had_costs, had_people) = self._with, self._with or (False, False)
            costs, people = self._with = had_costs or has_costs(found.calls), had_people or has_people(found.calls)
            form = {"shows_heads": before != self._with, "is_padded": self._follows}
            blocks.append(call_table(found.calls, **form, with_costs=costs, with_people=people))
        if any(call.executed == "unknown" for call in found.calls):
            blocks.append(UNKNOWN)
        self._output.screen.show(*blocks, before=self._widths)


def _show_one(found: CallList, ref: str, output: Output) -> None:
    """Show one call and its log. Raises CommandFailed: there is none of this number."""
    if not found.calls and not found.running:
        raise CommandFailed(f"there is no call {ref}: the hub keeps the last {found.kept} since it started")
    with client() as hub:
        log = hub.request(LOGS, ref=ref, lines=_LOG_LINES).records
    call = next(reversed(found.calls), None)
    parts = {"call": call, "running": next(iter(found.running), None), "log": log}
    value = {name: to_builtins(part) for name, part in parts.items() if part is not None}
    blocks = list(one_call(call)) if call is not None else [one_running(found.running[0])]
    output.answer(value, lambda: [*blocks, *(record(each) for each in log)])
