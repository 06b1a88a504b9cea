"""Hubs behind hubs: each tells those in front of it which hubs its offers come from, so that none is behind itself.

    A -> B -> C -> A      A is told by B, in the handshake and with its lists: behind me are B, C and A

Without that, the names of a ring's tools would grow with every lap. A hub tells itself and what it was told; whoever
finds itself in what it is told cuts that connection (F-D-17). A change behind a hub changes its lists, which are then
read again, so rings that close later are found as well. What is told is an object under `HUBS`: in the capabilities, as
one of the experimental ones, and in `_meta` of lists.
"""

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw
from hub.wire.mcp import HUB_PREFIX

HUBS: Final = HUB_PREFIX + "hubs"
THIS_HUB: Final = token_hex(8)
"""Another one in each run."""
MAX_HOPS: Final = 5
MAX_HUBS: Final = 64
MAX_ID: Final = 64
EXPERIMENTAL: Final = "experimental"


class HubChain(Struct, frozen=True):
    """The hubs behind an upstream, it included; and how many of them there are one after the other."""

    hubs: frozenset[str] = frozenset()
    hops: int = 0

    def __bool__(self) -> bool:
        return bool(self.hops)

    @property
    def is_loop(self) -> bool:
        """Whether the way leads back here, or is so long that it must."""
        return THIS_HUB in self.hubs or self.hops > MAX_HOPS


NO_HUBS: Final = HubChain()


def read_chain(members: Mapping[str, Raw] | Raw | None) -> HubChain:
    """What an upstream tells in an object that may have the member `HUBS`; nobody, if it is no hub."""
    found = (peek_object(members) if isinstance(members, Raw | None) else members).get(HUBS)
    if found is None:
        return NO_HUBS
    said = peek_object(found)
    ids = [id for each in peek_array(said.get("ids"))[:MAX_HUBS] if (id := peek_str(each)) and len(id) <= MAX_ID]
    hops = bytes(memoryview(said.get("hops", Raw(b"1"))))
    return HubChain(frozenset(ids), min(int(hops), MAX_HUBS) if hops.isdigit() and len(hops) < 9 else 1)


def join_chains(behind: Iterable[HubChain]) -> HubChain:
    """What is behind a hub that has all these."""
    hubs: set[str] = set()
    hops = 0
    for each in behind:
        hubs |= each.hubs
        hops = max(hops, each.hops)
    return HubChain(frozenset(hubs), hops)


def announcement(behind: HubChain) -> dict[str, Raw]:
    """What this hub tells those in front of it: the member `HUBS` of an object."""
    return {HUBS: raw({"ids": [THIS_HUB, *sorted(behind.hubs)][:MAX_HUBS], "hops": behind.hops + 1})}


def with_chain(capabilities: dict[str, Raw], meta: HubChain) -> dict[str, Raw]:
    """The capabilities of an upstream that told `meta` with a list: that is newer than what the handshake told."""
    hubs = raw({"ids": sorted(meta.hubs), "hops": meta.hops})
    return {**capabilities, EXPERIMENTAL: raw({**peek_object(capabilities.get(EXPERIMENTAL)), HUBS: hubs})}
