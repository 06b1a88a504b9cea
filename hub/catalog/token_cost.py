"""Token cost: about how much of a model's context definitions of tools and instructions take. Pure.

No tokenizer is used: vocabularies differ by model. A token is about four bytes of the compact JSON of a tool's name,
description and input schema (the members that hosts show to models). That is right within a third for a server, and
better for sums. Hosts add text of their own.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from hub.wire.byte_checks import READ_ERRORS

BYTES_PER_TOKEN: Final = 4
MEMBERS: Final = ("description", "inputSchema")
"""The members of a tool that count, beside its visible name."""


class TokenCost(Struct, frozen=True):
    """The cost of some tools."""

    tools: int = 0
    bytes: int = 0
    largest: str = ""
    """The name of the most expensive one; "": there is none."""
    largest_bytes: int = 0

    @property
    def tokens(self) -> int:
        """About how many tokens they take."""
        return tokens_of(self.bytes)

    @property
    def largest_tokens(self) -> int:
        """About how many tokens the most expensive one takes."""
        return tokens_of(self.largest_bytes)


class ShownCost(Struct, frozen=True):
    """The cost of all that a host is shown."""

    tools: int = 0
    tokens: int = 0
    """About how many tokens these and the instructions take."""


def cost_of_view(sizes: Iterable[int], instructions: str) -> ShownCost:
    """The cost of tools of these sizes, and of the instructions."""
    found = list(sizes)
    return ShownCost(len(found), tokens_of(sum(found) + text_bytes(instructions)))


def tokens_of(bytes: int) -> int:
    """About how many tokens so many bytes are."""
    return -(-bytes // BYTES_PER_TOKEN)


def cost_of(sizes: Mapping[str, int]) -> TokenCost:
    """The cost of tools, given the size of each by its name."""
    largest = max(sizes, key=sizes.__getitem__, default="")
    return TokenCost(len(sizes), sum(sizes.values()), largest, sizes.get(largest, 0))


def tool_bytes(visible: str, fields: Mapping[str, Raw]) -> int:
    """Bytes of the compact JSON of a tool that is called `visible`; `fields` are the members that its server sent."""
    size = len(b'{"name":}') + len(msgspec.json.encode(visible))
    for member in MEMBERS:
        if (value := fields.get(member)) is not None:
            size += len(f',"{member}":') + _compact_size(value)
    return size


def text_bytes(text: str) -> int:
    """Bytes of instructions."""
    return len(text.encode(errors="replace"))


def _compact_size(value: Raw) -> int:
    """Bytes of JSON without space between its parts and without needless escapes. What seems to have neither is not
    read."""
    data = bytes(value)
    try:
        if rb"\u" in data:
            return len(msgspec.json.encode(msgspec.json.decode(data)))
        if b'": ' in data or b"\n" in data or b', "' in data:
            return len(msgspec.json.format(data, indent=-1))
    except READ_ERRORS:
        pass
    return len(data)
