"""`hubd policy`: what the rules say of everything. `hubd policy explain NAME`: why, of one thing."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from msgspec import to_builtins

from hub.cli.context import Context, Output, UsageError, ask_hub
from hub.cli.parser import Parser, add
from hub.cli.render.blocks import Block, Line, Table, paint
from hub.cli.render.status import show_configuration
from hub.control.answers import PolicyExplanation, PolicyReport, PolicyRow
from hub.control.methods import EXPLAIN_POLICY, POLICY, STATUS

_LISTED: Final = """\
  ruled      whether there are rules; if not, everything is allowed
  rows       of each tool, prompt and resource: kind, name, server, effect ("allow", "ask", "deny",
             "held back"), by_arguments (what conditions may say instead, or ""),
             rule (the file, line and place of the rule that says so)
  notes      sentences about rules that mean nothing now, and servers that are not believed
  failures   calls that were denied since a condition could not be judged"""
STYLES: Final = {"allow": "good", "ask": "warning", "deny": "bad"}


def add_commands(commands: Any) -> None:
    """`policy`, with its command `explain`."""
    policy = add(commands, "policy", _policy, json=_LISTED)
    _add_caller(policy)
    actions = policy.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd policy")
    explain = add(actions, "explain", _explain, "why a tool may be used, or not")
    explain.add_value("name", "NAME", "a tool as hosts see it, prompt:NAME, or the URI of a resource")
    explain.add_value("--json", "ARGUMENTS", "those of a call, which conditions judge: a JSON object", dest="object")
    _add_caller(explain)


def _add_caller(command: Parser) -> None:
    command.add_value("--host", "HOST", "for hosts of this label; else for one without a label")
    command.add_value("--principal", "NAME", "for hosts of this account; else for yours")


def _policy(options: Context, output: Output) -> None:
    found = ask_hub(POLICY, host=options.host or "", principal=options.principal or "")
    output.answer(to_builtins(found), lambda: (*show_configuration(ask_hub(STATUS).config), *_draw_report(found)))


def _draw_report(found: PolicyReport) -> Iterator[Block]:
    if not found.ruled:
        yield "There are no rules: every host may use everything. [policy] in hubd.toml has them."
        return
    rows = [(paint(row.name, "name"), _paint_effect(row), row.rule) for row in found.rows]
    if rows:
        yield Table((), rows, shorten=(2, 0))
    yield from found.notes


def _paint_effect(row: PolicyRow, more: str = "") -> Line:
    effect = f"{row.effect}, or {row.by_arguments} by arguments" if row.by_arguments else row.effect
    return paint(f"{effect}{more}", STYLES.get(row.effect, "dim"))


def _explain(options: Context, output: Output) -> None:
    arguments = None
    if options.object is not None:
        with suppress(ValueError):
            arguments = json.loads(options.object)
        if not isinstance(arguments, dict):
            raise UsageError("--json takes the arguments as a JSON object", options.parser.format_usage())
    caller = {"host": options.host or "", "principal": options.principal or ""}
    found = ask_hub(EXPLAIN_POLICY, name=options.name, arguments=arguments, **caller)
    output.screen.show(*show_configuration(ask_hub(STATUS).config), *_draw_explanation(found))


def _draw_explanation(found: PolicyExplanation) -> Iterator[Block]:
    row = found.row
    yield _paint_effect(row, f"  {row.rule}")
    if found.rules:
        yield ""
        yield "Rules about it, of which the first counts:"
        yield from (f"  {rule}" for rule in found.rules)
    yield from (f"{row.name}: {fact}" for fact in found.facts)
