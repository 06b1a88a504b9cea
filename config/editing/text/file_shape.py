"""The form of a file of servers: its format, and where its servers stand. Pure."""

from typing import Literal

from msgspec import Struct

Format = Literal["json", "toml", "yaml"]
"""JSON is read with comments and trailing commas in it, whether the host allows them or not."""


class Shape(Struct, frozen=True):
    """The form in which a host keeps its servers."""

    format: Format
    root: tuple[str, ...]
    """The keys that lead to the entries."""
    listed: bool = False
    """They are a list of items with a `name`, not a mapping."""
