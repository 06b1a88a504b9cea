"""`hubd approve`: a person says yes, to a call that waits or to what a server has changed.

The form of the argument says which: names of servers begin with a small letter, so an id of four capitals and digits is
that of a request for a call.
"""

import re
from typing import Any, Final

from hub.cli.context import CommandFailed, Context, Output, agreed, ask_hub
from hub.cli.parser import add
from hub.cli.rules.approvals import add_lengths, approve_request
from hub.cli.rules.pins import differences
from hub.control.methods import APPROVE_PINS, PINS

REQUEST: Final = re.compile(r"[A-Z0-9]{4}")
_APPROVED: Final = """\
  id, host, name, lasts, waiting  the request, and the calls that waited for it; or
  server, item, items             a server or one of its definitions, and how many
                                  of these were not approved before"""


def add_commands(commands: Any) -> None:
    """`approve`."""
    approve = add(commands, "approve", _approve, json=_APPROVED)
    text = (
        "a request, as `hubd approvals` shows it; or a server that has changed, or one of its tools by its visible name"
    )
    approve.add_value("id", "ID", text)
    approve.add_value("--state", "HASH", "of a server: just this state, as `hubd pins NAME --json` told it")
    add_lengths(approve)


def _approve(options: Context, output: Output) -> None:
    (approve_request if REQUEST.fullmatch(options.id) else approve_pins)(options, output)


def approve_pins(options: Context, output: Output) -> None:
    """Approve a server as it is shown here, or in the state that is named."""
    [server] = ask_hub(PINS, name=options.id, shows=options.state is None)
    state = server.state if options.state is None else options.state
    if options.state is None and (server.changes or server.problem):
        output.show(*differences(server))
        if output.json or not agreed("Approve this?", default=False):
            raise CommandFailed(
                f"nothing was approved; without a question: hubd approve {options.id} --state {server.state}"
            )
    count = ask_hub(APPROVE_PINS, name=server.name, state=state, item=server.item)
    output.set(server=server.name, item=server.item, items=count)
    what = f"{server.item.partition('/')[2]} of {server.name}" if server.item else server.name
    output.say(f"approved {what}: {count} {'definition' if count == 1 else 'definitions'} that differed")
