"""Invalidation events: everything that may make cached resources stale, told to the cache before any host.

Events concern all sessions of one upstream: the main session, those of single hosts, legacy ones. An event may be told
more than once, and when nothing was lost; never too late.
"""

from typing import Protocol

from hub.link.call_interface import Tenant


class InvalidationListener(Protocol):
    """Told of every event of one upstream at once. No method blocks or raises."""

    def resource_changed(self, uri: str) -> None:
        """A session said that `uri` changed, whoever subscribed to it; perhaps only a part of what is subscribed to."""

    def resources_relisted(self) -> None:
        """The lists of resources or templates may differ from before."""

    def subscribed(self, uri: str) -> None:
        """The hub is told of changes of `uri` from now on, or again; earlier changes may have been missed."""

    def gap(self, tenant: Tenant | None) -> None:
        """Changes may have been missed in the session of one host, None: in a shared one. The session is over, serves
        others than before, was renewed, or was silent for a while."""
