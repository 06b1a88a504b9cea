"""The record of which tools are called, as settings: `[usage]`. `config.settings` reads this in."""

from typing import Annotated

from msgspec import Struct

from config.setting import Setting


class UsageConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of which tools are called."""

    keep: Annotated[bool, Setting(reload="live", instead_of=("enabled",))] = True
    """Calls of each tool are counted by host and day, and kept for 90 days: names and counts, no arguments. If not,
    what was counted is forgotten."""
