"""The three legs of a leak: private data, untrusted text, and a way outward, all in one conversation. Pure.

Whoever has read private data and text of strangers may have been told by that text to send the data away. What tools
touch is said by the user (`flow`); what a conversation has called is remembered here, and nothing is known of what its
host does by itself. A host that begins each request anew, or has an entry for each server, is remembered for an hour
after its last such call.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import structs

from config.name_globs import matcher_of
from config.settings import UpstreamConfig
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Tenant

PRIVATE, UNTRUSTED, OUTWARD = "private", "untrusted", "outward"
FORGET_S: Final = 3600.0
MAX_TENANTS: Final = 10_000


def flow_of(config: UpstreamConfig, tool: str) -> frozenset[str]:
    """The words of the user for what a tool touches, by its server's own name of it; "": for what a prompt or a
    resource does, of which only those for the whole server tell."""
    flow = config.flow
    if not isinstance(flow, Mapping):
        return frozenset(flow)
    return frozenset(word for glob, its in flow.items() if tool and matcher_of(glob)(tool) for word in its)


class ThreeLegs:
    """Memory of what each conversation has called."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._called: BoundedDict[Tenant, tuple[frozenset[str], float]] = BoundedDict(MAX_TENANTS)

    def note(self, tenant: Tenant, config: UpstreamConfig, tool: str) -> None:
        """A call is sent, or a prompt or resource is read."""
        if touched := flow_of(config, tool) & {PRIVATE, UNTRUSTED}:
            self._called.put(tenant, (self._before(tenant) | touched, self._clock()))

    def closes(self, tenant: Tenant, config: UpstreamConfig, tool: str) -> bool:
        """True if that would be the third leg."""
        return len(self._before(tenant)) == 2 and OUTWARD in flow_of(config, tool)

    def left(self, tenant: Tenant) -> None:
        """A conversation is over."""
        self._called.pop(tenant, None)

    def _before(self, tenant: Tenant) -> frozenset[str]:
        nothing = frozenset[str](), 0.0
        called, at = self._called.get(structs.replace(tenant, conversation=0), nothing)
        passing = called if self._clock() - at <= FORGET_S else nothing[0]
        return passing | self._called.get(tenant, nothing)[0] if tenant.conversation else passing
