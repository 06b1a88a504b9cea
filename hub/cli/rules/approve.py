"""`hubd approve`: a person says yes to a call that waits."""

from typing import Any

from hub.cli.context import Context, Output
from hub.cli.parser import add
from hub.cli.rules.approvals import add_lengths, approve_request


def add_commands(commands: Any) -> None:
    """`approve`."""
    approve = add(
        commands,
        "approve",
        _approve,
        json="  id, host, name, lasts, waiting  the request, and the calls that waited for it",
    )
    approve.add_value("id", "ID", "the request, as `hubd approvals` shows it")
    add_lengths(approve)


def _approve(options: Context, output: Output) -> None:
    approve_request(options, output)
