"""What pages of the dashboard are told, as JSON. Pure: nothing is decided here.

Times are seconds; `at` is wall time. A member that is None is not known.
"""

from msgspec import Struct

from hub.daemon.live.waiting_items import InboxItem


class LoginResult(Struct, frozen=True):
    """A page is signed in."""

    key: str
    expires_s: float
    principal: str
    printed: bool


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of something that was done, as a sentence for people."""

    text: str
    problem: str = ""
    """The reason why it had no effect."""
    warnings: tuple[str, ...] = ()
    url: str = ""
    """The address to open next."""
    agree: bool = False
    """A person has to agree to what the text says, and ask again with `yes`."""


class InboxList(Struct, frozen=True):
    """All that waits."""

    items: tuple[InboxItem, ...]
    questions: int = 0
    """Questions of servers that wait at their hosts, where they are answered."""


class DetailBlock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of what is shown before a decision."""

    kind: str
    """`text`, `warning`, `code` or `change`."""
    text: str = ""
    name: str = ""
    what: str = ""
    """Of a change, where it is."""
    old: str | None = None
    new: str | None = None
    held: bool = False


class ItemDetail(Struct, frozen=True, kw_only=True):
    """All that a person has to see before a decision."""

    kind: str
    id: str
    state: str
    """Hash of what is shown; who decides sends it along."""
    title: str
    text: str = ""
    blocks: tuple[DetailBlock, ...] = ()
    offers: tuple[str, ...] = ()
    cli: str = ""
    """The command that does the same."""
