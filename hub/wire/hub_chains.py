"""Chains of hubs: each hub announces the hubs behind it, so that a hub which finds itself there cuts the connection:

    A -> B -> C -> A      B announces to A, in the handshake and with its lists: behind me are B, C and A

Without that, the names of a ring's tools would grow with every lap. The announcement is an object under `HUBS`: among
the experimental capabilities, and in `_meta` of lists, which are read again when something changes behind a hub.
"""

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw
from hub.wire.mcp import HUB_PREFIX

HUBS: Final = HUB_PREFIX + "hubs"
THIS_HUB: Final = token_hex(8)
"""This hub's id, a new one in each run."""
MAX_HOPS: Final = 5
MAX_HUBS: Final = 64
MAX_ID: Final = 64
EXPERIMENTAL: Final = "experimental"


class HubChain(Struct, frozen=True):
    """The hubs behind an upstream, the upstream included, and the length of the longest chain among them."""

    hubs: frozenset[str] = frozenset()
    hops: int = 0

    def __bool__(self) -> bool:
        return bool(self.hops)

    @property
    def is_loop(self) -> bool:
        """True if the chain leads back to this hub, or is so long that it must be a loop."""
        return THIS_HUB in self.hubs or self.hops > MAX_HOPS


NO_HUBS: Final = HubChain()


def read_chain(members: Mapping[str, Raw] | Raw | None) -> HubChain:
    """Read an upstream's announcement from an object that may have the member `HUBS`; `NO_HUBS` if it is no hub."""
    found = (peek_object(members) if isinstance(members, Raw | None) else members).get(HUBS)
    if found is None:
        return NO_HUBS
    said = peek_object(found)
    ids = [id for each in peek_array(said.get("ids"))[:MAX_HUBS] if (id := peek_str(each)) and len(id) <= MAX_ID]
    hops = bytes(memoryview(said.get("hops", Raw(b"1"))))
    return HubChain(frozenset(ids), min(int(hops), MAX_HUBS) if hops.isdigit() and len(hops) < 9 else 1)


def join_chains(behind: Iterable[HubChain]) -> HubChain:
    """Join the chains of all upstreams of a hub."""
    hubs: set[str] = set()
    hops = 0
    for each in behind:
        hubs |= each.hubs
        hops = max(hops, each.hops)
    return HubChain(frozenset(hubs), hops)


def announcement(behind: HubChain) -> dict[str, Raw]:
    """Make this hub's announcement: the member `HUBS` of an object."""
    return {HUBS: raw({"ids": [THIS_HUB, *sorted(behind.hubs)][:MAX_HUBS], "hops": behind.hops + 1})}


def with_chain(capabilities: dict[str, Raw], meta: HubChain) -> dict[str, Raw]:
    """Put `meta`, announced with a list, in place of the announcement in the capabilities, which is older."""
    hubs = raw({"ids": sorted(meta.hubs), "hops": meta.hops})
    return {**capabilities, EXPERIMENTAL: raw({**peek_object(capabilities.get(EXPERIMENTAL)), HUBS: hubs})}
