"""`hubd approvals`, `approve` and `deny`: the calls that wait for a person's yes, what was agreed to, and the yes to a
call or to what a server has changed. `hubd call` asks by it.

The form of what is approved says which: names of servers begin with a small letter, so an id of four capitals and
digits is that of a request for a call.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import to_builtins

from hub.cli.context import Context, Output, UsageError, as_json, as_line, ask_hub, client
from hub.cli.parser import Parser, add
from hub.cli.render.blocks import Block, Table, paint
from hub.cli.render.words import duration
from hub.cli.rules.pins import approve_pins
from hub.control.approval_messages import ApprovalList, GivenApproval, ShownRequest, WaitingRequest
from hub.control.methods import APPROVAL_DENY, APPROVAL_GIVE, APPROVAL_REVOKE, APPROVAL_SHOW, APPROVALS
from hub.wire.printable import printable

REQUEST: Final = re.compile(r"[A-Z0-9]{4}")
_APPROVED: Final = """\
  id, host, name, lasts, waiting  the request, and the calls that waited for it; or
  server, item, items             a server or one of its definitions, and how many
                                  of these were not approved before"""
_LISTED: Final = """\
  requests   that wait: id, host, name, server, rule, principal, arguments, age_s,
             left_s, waiting (calls), decision (approved, denied or "")
  approvals  for longer than a call: id, host, name, server, rule, principal,
             lasts, left_s (null: until the conversation ends)"""
_SHOWN: Final = """\
  id, text, arguments, offers  the request, the question, all arguments as JSON
                               text, and how long may be agreed to"""
_DECIDED: Final = """\
  id, host, name, lasts, waiting  the request, and the calls that waited for it"""


def add_commands(commands: Any) -> None:
    """`approvals`, with its commands `show` and `revoke`; `approve`, `deny`."""
    approvals = add(commands, "approvals", _list, json=_LISTED)
    text = "keep printing new requests until interrupted; calls wait for a decision meanwhile"
    approvals.add_argument("-f", "--follow", action="store_true", help=text)
    actions = approvals.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd approvals")
    show = add(actions, "show", _show, "show a request with all of its arguments", json=_SHOWN)
    show.add_value("id", "ID", "its id, as `hubd approvals` shows it")
    text = "take an approval back, before it ends by itself"
    revoke = add(actions, "revoke", _revoke, text, json="  names  of what was taken back")
    revoke.add_value("id", "ID", "its id, as `hubd approvals` shows it", nargs="?")
    revoke.add_value("--tool", "GLOB", "all approvals of tools with such visible names")
    revoke.add_flag("--all", "all approvals")
    approve = add(commands, "approve", _approve, json=_APPROVED)
    text = (
        "a request, as `hubd approvals` shows it; or a server that has changed, or one of its tools by its visible name"
    )
    approve.add_value("id", "ID", text)
    approve.add_value("--state", "HASH", "of a server: just this state, as `hubd pins NAME --json` told it")
    lengths = approve.add_mutually_exclusive_group()
    text = "until the host's conversation ends, or for an hour where nothing lasts"
    lengths.add_argument("--session", action="store_true", help=text)
    lengths.add_argument("--always", action="store_true", help="for as long as [approvals] expire_days says")
    deny = add(commands, "deny", _deny, json=_DECIDED)
    deny.add_value("id", "ID", "the request, as `hubd approvals` shows it")


def _approve(options: Context, output: Output) -> None:
    (_approve_request if REQUEST.fullmatch(options.id) else approve_pins)(options, output)


def _approve_request(options: Context, output: Output) -> None:
    lasting = "always" if options.always else "session" if options.session else "once"
    done = ask_hub(APPROVAL_GIVE, id=options.id, lasting=lasting)
    output.set(**to_builtins(done))
    whose = f"{printable(done.host)} may use {printable(done.name)}"
    if done.lasts != "once":
        until = {"session": "until its conversation ends", "hour": "for an hour"}.get(done.lasts, "from now on")
        return output.say(f"approved: {whose} {until}; `hubd approvals` lists it")
    goes_on = "the call goes on" if done.waiting else f"the next equal call of {printable(done.host)} runs"
    output.say(f"approved once: {goes_on}")


def _deny(options: Context, output: Output) -> None:
    done = ask_hub(APPROVAL_DENY, id=options.id)
    output.set(**to_builtins(done))
    output.say(f"denied: {printable(done.host)} is told that you said no to {printable(done.name)}")


def _revoke(options: Context, output: Output) -> None:
    ways = [options.id is not None, options.tool is not None, options.all]
    if sum(ways) != 1:
        raise UsageError("say what to take back: ID, --tool GLOB or --all", options.parser.format_usage())
    names = ask_hub(APPROVAL_REVOKE, id=options.id, tool=options.tool, all=options.all)
    output.set(names=names)
    if not names:
        return output.say("there was no approval")
    output.say(f"taken back: {printable(', '.join(names))}; the next call asks again")


def _show(options: Context, output: Output) -> None:
    found = ask_hub(APPROVAL_SHOW, id=options.id)
    output.answer(to_builtins(found), lambda: _details(found))


def _details(found: ShownRequest) -> Iterator[Block]:
    yield printable(found.text, keep="\n")
    yield "all arguments:"
    yield _readable(found.arguments)
    yield f"`hubd approve {found.id}` for {' or '.join(found.offers)}, or `hubd deny {found.id}`"


def _readable(text: str) -> str:
    try:
        return as_json(json.loads(text))
    except (ValueError, RecursionError):
        return printable(text)


def _list(options: Context, output: Output) -> None:
    with client() as hub:
        found = hub.request(APPROVALS, follow=options.follow)
        if not options.follow:
            return output.answer(to_builtins(found), lambda: _tables(found))
        shown: set[str] = set()
        while True:
            if options.json:
                print(as_line(to_builtins(found)), flush=True)
            else:
                for request in found.requests:
                    if request.id not in shown and not request.decision:
                        output.screen.show(*_news(request))
                shown = {request.id for request in found.requests}
            found = hub.further(APPROVALS)


def _news(request: WaitingRequest) -> Iterator[Block]:
    yield Table((), [_row(request)], wrap=(3,))
    waits = "it waits" if request.waiting else "it was refused, and may be called again"
    yield f"  {waits}: `hubd approve {request.id}`, `hubd deny {request.id}`, `hubd approvals show {request.id}`"


def _tables(found: ApprovalList) -> Iterator[Block]:
    if not (found.requests or found.approvals):
        yield "no call waits for an approval, and none was given for longer than a call"
    if found.requests:
        yield Table((), [_row(each) for each in found.requests], shorten=(3, 2))
    if found.approvals:
        yield Table(
            ("ID", "HOST", "NAME", "FOR", "RULE"), [_grant_row(each) for each in found.approvals], shorten=("NAME",)
        )


def _row(request: WaitingRequest) -> tuple[Any, ...]:
    ago, left = duration(request.age_s), duration(request.left_s)
    how = {"approved": f"approved, good for {left}", "denied": "denied"}.get(
        request.decision, f"{ago} ago, good for {left}"
    )
    return paint(request.id, "bold"), request.host, paint(request.name, "name"), request.arguments, how


def _grant_row(given: GivenApproval) -> tuple[Any, ...]:
    left = "until its conversation ends" if given.left_s is None else duration(given.left_s)
    return paint(given.id, "bold"), given.host, paint(given.name, "name"), left, given.rule
