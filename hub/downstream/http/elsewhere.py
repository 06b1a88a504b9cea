"""Requests that another hub has to answer, where several stand behind one address; `hub.fleet` knows which."""

from collections.abc import Collection
from typing import Final, Protocol

from hub.catalog.view import View
from hub.downstream.http.session import HttpSessions
from hub.link.interface import Identity
from hub.net.http_message import HttpRequest, HttpResponse
from hub.wire.jsonrpc import Request

FORWARDED: Final = "hubd-forwarded"
"""Field of a request that another hub has sent on: nobody sends it on once more."""


class Elsewhere(Exception):
    """A request that another hub is to answer, if it is there: one of `runs`. Nothing was done for it yet."""

    def __init__(self, runs: Collection[str], *, session: str = "", minted: int = 0, youthful: bool = False) -> None:
        super().__init__("this belongs to another hub")
        self.runs = tuple(runs)
        self.session = session
        """The short name of the legacy session that it belongs to, if it does; then it began in the one of `runs`."""
        self.minted = minted
        """When that session began, in seconds of the time of day."""
        self.youthful = youthful
        """Whether the session may be revived."""


class Fleet(Protocol):
    """The other hubs of this address; `hub.fleet.affinity.FleetGate` is one."""

    async def run(self) -> None:
        """Be found by other hubs, until cancelled."""
        ...

    def serve(self, sessions: HttpSessions) -> None:
        """Have other hubs know of these sessions, before there are any."""
        ...

    def check(self, message: Request, request: HttpRequest) -> None:
        """Raise `Elsewhere` if a modern request belongs to another hub."""
        ...

    def away(self, id: str, identity: Identity, view: View) -> None:
        """Raise `Elsewhere` if another hub made the session of this id, which is not here."""
        ...

    async def settle(self, away: Elsewhere, request: HttpRequest, response: HttpResponse) -> bool:
        """Have it answered; False: it is this hub's to answer, which has claimed the session, if it belongs to one.

        Raises:
            Refused: nobody can, now or at all.
        """
        ...

    async def kept(self, session: str) -> bytes | None:
        """What was noted of a session by the hub that had it; None: nothing, or nobody can tell."""
        ...
