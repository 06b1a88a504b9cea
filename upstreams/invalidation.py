"""Invalidation events: everything that may make cached resources stale, told to the cache before any host.

What is said here is about all sessions of one upstream: the main one, those of single hosts, those in the handshake
era. It may be said more than once of one event, and when nothing was lost; never too late.
"""

from typing import Final, Protocol

from hub.link.interface import Tenant


class Onlooker(Protocol):
    """Hears all of it at once. No method blocks or raises."""

    def updated(self, uri: str) -> None:
        """A session said that `uri` changed, whoever watches it; perhaps only a part of what is watched."""
        ...

    def relisted(self) -> None:
        """The resources that there are may be others."""
        ...

    def confirmed(self, uri: str) -> None:
        """`uri` is observed from now on, or again; changes before this were not heard."""
        ...

    def lost(self, tenant: Tenant | None) -> None:
        """Changes may have been missed in the session of one host, None: in one that hosts share. It is over, serves
        others than before, was renewed, or was not heard for a while."""
        ...


class Nobody:
    """Hears nothing. Satisfies `Onlooker`."""

    def updated(self, uri: str) -> None:
        """As `Onlooker.updated`."""

    def relisted(self) -> None:
        """As `Onlooker.relisted`."""

    def confirmed(self, uri: str) -> None:
        """As `Onlooker.confirmed`."""

    def lost(self, tenant: Tenant | None) -> None:
        """As `Onlooker.lost`."""


NOBODY: Final[Onlooker] = Nobody()


class Onlooking:
    """Passes everything on to the `onlooker` of the moment. Satisfies `Onlooker`; one for all parts of an upstream."""

    def __init__(self) -> None:
        self.onlooker = NOBODY

    def __repr__(self) -> str:
        return f"<Onlooking to {self.onlooker!r}>"

    def updated(self, uri: str) -> None:
        """As `Onlooker.updated`."""
        self.onlooker.updated(uri)

    def relisted(self) -> None:
        """As `Onlooker.relisted`."""
        self.onlooker.relisted()

    def confirmed(self, uri: str) -> None:
        """As `Onlooker.confirmed`."""
        self.onlooker.confirmed(uri)

    def lost(self, tenant: Tenant | None) -> None:
        """As `Onlooker.lost`."""
        self.onlooker.lost(tenant)
