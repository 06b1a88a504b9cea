"""Invalidation of what one upstream has made stale, in this process and in the store that hubs share."""

from cache.cache_state import CacheState
from cache.entry import DropCause
from hub.link.interface import Tenant


class CacheListener:
    """The listener of one upstream. Satisfies `upstreams.invalidation.InvalidationListener`."""

    def __init__(self, state: CacheState, name: str, source: str) -> None:
        self._state = state
        self._name = name
        self.source = source
        """The identity of the upstream, the same in all hubs that share it."""

    def __repr__(self) -> str:
        return f"<CacheListener of {self._name}>"

    def resource_changed(self, uri: str) -> None:
        """Drop `uri`, its parts, and the resources that it is a part of."""
        state, name = self._state, self._name
        state.auto_subscriptions.note_change(name, uri)
        state.drop(state.memory.keys_below(name, uri), DropCause.UPDATED)
        state.disturb(state.flights.items_below(name, uri))
        state.invalidate_shared(self.source, uri)

    def resources_relisted(self) -> None:
        """Drop everything."""
        self._state.drop_all(self._name, DropCause.LISTS)
        self._state.invalidate_shared(self.source, None)

    def subscribed(self, uri: str) -> None:
        """Drop `uri`: changes before the subscription may have been missed."""
        state, name = self._state, self._name
        state.drop(state.memory.of_resource(name, uri), DropCause.SESSION)
        state.disturb(state.flights.of_resource(name, uri))
        state.invalidate_shared(self.source, uri)

    def gap(self, tenant: Tenant | None) -> None:
        """Expire what was read over the session of `tenant`, None: over all sessions. Results of reads over a session
        that is not known yet are not kept either."""
        state, name = self._state, self._name
        if tenant is not None:
            state.expire(state.memory.of_tenant(name, tenant))
            unknown = [flight for flight in state.flights.of(name) if flight.pooled is None]
            state.disturb([*state.flights.of_tenant(name, tenant), *unknown])
            return
        state.expire(state.memory.of(name))
        state.disturb(state.flights.of(name))
        state.invalidate_shared(self.source, None)
