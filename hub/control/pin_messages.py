"""Pins of servers, as the control socket tells of them: its answers. Pure."""

from msgspec import Struct


class WordChange(Struct, frozen=True, kw_only=True):
    """Words of a definition that were exchanged, as the server wrote them."""

    where: str = ""
    """Their place, such as `description`."""
    old: str | None = None
    new: str | None = None


class PinChange(Struct, frozen=True, kw_only=True):
    """One definition that differs from what was approved."""

    item: str = ""
    """Its list and its own name, such as `tools/merge_pr`; or `instructions`."""
    change: str = ""
    """`new`, `changed` or `gone`."""
    held: bool = False
    """Hosts are not shown it, and calls of it are refused."""
    words: tuple[WordChange, ...] = ()
    hints: tuple[str, ...] = ()
    """What it newly says of itself that makes it look safer."""
    parameters: tuple[str, ...] = ()
    """Arguments that came, went, or are other ones now."""
    only_form: bool = False
    """No word for the model has changed, no hint got looser and no argument is another one."""


class PinnedServer(Struct, frozen=True, kw_only=True):
    """One server."""

    name: str = ""
    pinning: str = ""
    """The setting that counts for it."""
    state: str = ""
    """Hash of what it lists now."""
    approved: str = ""
    """By whom it was approved last: `first sight`, `a person` or `pins_file`."""
    approved_at: float | None = None
    """Seconds since 1970; None: nobody knows."""
    changes: tuple[PinChange, ...] = ()
    """All that differs; with words if one server was asked for."""
    hidden: dict[str, int] = {}
    """Definitions with hidden characters, and how many those are."""
    left_out: tuple[str, ...] = ()
    """Those of these that hosts are not shown."""
    flags: tuple[str, ...] = ()
    """Sentences about definitions that read as if they were meant to steer a model, if one server was asked for."""
    problem: str = ""
    """The reason why nothing counts as approved, though something may have been."""
    item: str = ""
    """The definition that was asked for by its visible name."""
