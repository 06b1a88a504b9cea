"""The use of tools, as the control socket tells of it. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from hub.catalog.token_cost import BYTES_PER_TOKEN, tokens_of


class ToolUse(Struct, frozen=True, kw_only=True):
    """One tool of the common endpoint, and who called it."""

    name: str = ""
    """As hosts without a profile see it."""
    server: str = ""
    tool: str = ""
    """The server's own name of it."""
    tokens: int = 0
    """About how many tokens its definition takes in a model's context."""
    bytes: int = 0
    """The size that this is of: sums are made of these, since each number of tokens is rounded up."""
    calls: dict[str, int] = {}
    """By label, the calls of hosts in the last days."""
    last: str | None = None
    """The day of the last call, as in 2026-11-23; None: none is on record."""


class ToolUses(Struct, frozen=True, kw_only=True):
    """Every tool, and since when calls have been counted."""

    tools: tuple[ToolUse, ...] = ()
    since: str | None = None
    """The first day of the record; None: there is none (`[usage] keep = false`)."""
    today: str = ""
    days: int = 30
    """The last days whose calls are told."""


def tokens_together(tools: Iterable[ToolUse]) -> int:
    """About how many tokens these tools take."""
    return tokens_of(sum(each.bytes or BYTES_PER_TOKEN * each.tokens for each in tools))
