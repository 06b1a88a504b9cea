"""What one upstream says of its resources, and what becomes of its sessions, on its way to `state`."""

from cache.state import CacheState
from hub.link.interface import Tenant


class CacheListener:
    """Invalidates what one upstream has made stale; an `upstreams.invalidation.InvalidationListener`."""

    def __init__(self, state: CacheState, name: str, source: str) -> None:
        self._state = state
        self.source = source
        """What the upstream is to all hubs that have it in common."""
        self._name = name

    def __repr__(self) -> str:
        return f"<CacheListener of {self._name}>"

    def resource_changed(self, uri: str) -> None:
        """A session said that `uri` changed."""
        self._state.updated(self._name, self.source, uri)

    def resources_relisted(self) -> None:
        """The resources that there are may be others."""
        self._state.relisted(self._name, self.source)

    def subscribed(self, uri: str) -> None:
        """`uri` is observed from now on, or again."""
        self._state.confirmed(self._name, self.source, uri)

    def gap(self, tenant: Tenant | None) -> None:
        """Changes may have been missed in the session of one host, None: in one that hosts share."""
        self._state.lost(self._name, self.source, tenant)
