"""The tool by which hosts have a person sign in at an upstream that says nothing of itself before. Pure.

It is the hub's own, and stands in place of the tools that nobody knows yet. A host may still call it when these have
come: it is answered then, though it is not listed any more.
"""

from enum import Enum
from typing import Final

from hub.catalog.endpoint_views import home_of
from hub.wire.jsonrpc import raw
from hub.wire.upstream_snapshot import ListEntry

SIGN_IN: Final = "sign_in"
"""Its name beside those of the upstream's own tools."""


class SignInTool(Enum):
    """The state of such a tool at an upstream."""

    NONE = "none"
    LISTED = "listed"
    FORMER = "former"
    """Not any more, but calls of it are answered."""


def sign_in_tool(upstream: str) -> ListEntry:
    """The tool of `upstream`."""
    name, _ = home_of(upstream)
    text = (
        f"{name} shows its tools only after the user has signed in there. Call this to have the user asked to sign in,"
        f" or to learn what the user has to do; the tools of {name} are listed in its place afterwards. Made by hubd."
    )
    fields = {
        "name": SIGN_IN,
        "title": f"Sign in at {name}",
        "description": text,
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    return ListEntry(SIGN_IN, {member: raw(value) for member, value in fields.items()})


def lists_unknown_text(upstream: str) -> str:
    """The text for a host whose user is signed in, while the lists are read by somebody who is not."""
    name, _ = home_of(upstream)
    return (
        f"The user is signed in at {name}, but its tools are not known: this hub lists them as its owner, who has to"
        f' sign in there, too ("hubd auth {name}"). With across_principals = true in the configuration of {name} they'
        " are listed as whoever signed in first."
    )


def no_need_text(upstream: str) -> str:
    """The text for a host that calls the tool when nobody has to sign in any more."""
    name, _ = home_of(upstream)
    return f"{name} is connected, and nobody has to sign in. List the tools again: those of {name} are there now."
