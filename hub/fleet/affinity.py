"""Gate of the fleet: forwards a request to the hub that must answer it, or takes over a session of a hub that ended.

find the owner  --a running hub------------>  forward        --gone-->  find the owner
    |
    +-----------none; or claimed just now-->  this hub answers
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import trio

from cache.shared_store import Unreachable
from hub.catalog.view import View
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.elsewhere import FORWARDED, Elsewhere
from hub.downstream.http.refusal import RETRY_AFTER, Refused, no_session, refused
from hub.downstream.http.session import HttpSessions
from hub.fleet.membership import TRIES, Peer, Replicas
from hub.fleet.ownership import Ownership, SessionOver
from hub.fleet.proxy import Forwarder, HubGone, Misdirected
from hub.link.interface import HubError, Identity, failure_from
from hub.net.http_server import HttpRequest, HttpResponse
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Request, RequestId, decode, encode_response, is_batch, raw
from hub.wire.mcp import INTERNAL_ERROR, TOOLS_CALL

log = logging.getLogger("hubd.replicas")

SWEEP_S: Final = 10.0
AWAY: Final = (
    "This belongs to another hub, and it cannot be found out which, since the store that the hubs share (`cache.url`) "
    "does not answer. Try again in a moment, or begin anew"
)
NO_ADDRESS: Final = "This belongs to another hub, which others cannot reach: its configuration lacks `[replica] url`"
BUSY: Final = "The hub that this belongs to cannot be reached. Try again in a moment, or begin anew"


class HubLost(HubError):
    """Another hub of the fleet died while it worked on a request."""

    kind = "hub_lost"


class FleetGate:
    """Forwards requests that belong elsewhere. `runs_of` gives the runs that alone can answer a modern request."""

    def __init__(
        self, replicas: Replicas, revival: DurableSessions, runs_of: Callable[[Request], tuple[str, ...]]
    ) -> None:
        self.replicas = replicas
        self.ownership = Ownership(replicas)
        self.forwarder = Forwarder()
        self._revival = revival
        self._runs_of = runs_of

    async def run(self) -> None:
        """Stay registered with other hubs, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.ownership.run)
                while True:
                    await trio.sleep(SWEEP_S)
                    self.forwarder.sweep()
        finally:
            self.forwarder.close()

    def serve(self, sessions: HttpSessions) -> None:
        """Publish these sessions to other hubs. Called before the first session."""
        self.ownership.holdings = sessions.holdings
        self.ownership.on_taken = sessions.taken
        self.ownership.on_emptied = self._revival.tell_again
        self._revival.tell = self.ownership.notes.put
        self._revival.sign()

    async def kept(self, session: str) -> bytes | None:
        """The published settings of a session; None: none, or the directory cannot be asked."""
        return await self.ownership.kept(session)

    def __repr__(self) -> str:
        return f"<FleetGate {self.replicas!r}, {self.forwarder!r}>"

    # --- is it elsewhere? ---------------------------------------------------------------------------------------------

    def check(self, message: Request, request: HttpRequest) -> None:
        """Check that this hub can answer a modern request.

        Raises:
            Elsewhere: the request belongs to another run.
        """
        if FORWARDED not in request.headers:
            runs = tuple(run for run in self._runs_of(message) if run != self.replicas.me.run)
            if runs:
                raise Elsewhere(runs)

    def away(self, id: str, identity: Identity, view: View) -> None:
        """Look for an unknown session id. Returns if no hub has the session.

        Raises:
            Elsewhere: another run made it.
        """
        origin = self._revival.origin(id, identity, view)
        if origin is not None:
            raise Elsewhere((origin.run,), session=origin.name, minted=origin.minted, youthful=origin.youthful)

    # --- forwarding ---------------------------------------------------------------------------------------------------

    async def settle(self, away: Elsewhere, request: HttpRequest, response: HttpResponse) -> bool:
        """Forward the request; False: this hub must answer, and has claimed the session, if there is one.

        Raises:
            Refused: no hub can answer, now or at all.
        Cancellation: as `Forwarder.send`.
        """
        await self.replicas.ready()
        broken: list[str] = []
        dead: set[str] = set()
        for _ in range(TRIES):
            peer = await self._find_owner(away, request, dead)
            if peer is None:
                return False
            try:
                status = await self.forwarder.send(peer.url, request, response, partial(self._is_there, peer.run))
            except Misdirected:
                self.replicas.doubt(peer.run)
            except HubGone as gone:
                log.warning("the hub %s does not answer at %s", peer.name, peer.url)
                self.replicas.doubt(peer.run)
                if gone.sent and (failed := _failed(request)) is not None:
                    response.reply(200, failed)
                    return True
                if not gone.sent or peer.run in broken:  # one connection that breaks is not the end of a hub
                    dead.add(peer.run)
                broken.append(peer.run)
            else:
                if request.method == "DELETE" and away.session and 200 <= status < 300:
                    self._revival.end_elsewhere(away.session, away.minted)
                return True
        raise _later(BUSY)

    async def _find_owner(self, away: Elsewhere, request: HttpRequest, dead: Collection[str]) -> Peer | None:
        """As `Ownership.find_owner`, checked that the request can be sent there.

        Raises:
            Refused: the session has ended, or the hub cannot be found or reached from here.
        """
        try:
            peer = await self.ownership.find_owner(away, dead)
        except SessionOver:
            raise no_session() from None
        except Unreachable:
            if all(map(self._revival.was_mine, away.runs)):
                return None
            raise _later(AWAY) from None
        if peer is not None and FORWARDED in request.headers:
            raise refused(421, "This belongs to another hub")
        if peer is not None and not peer.url:
            raise _later(NO_ADDRESS)
        return peer

    async def _is_there(self, run: str) -> bool:
        """Whether a silent hub is still registered; True while the directory cannot be asked."""
        try:
            return await self.replicas.find(run, fresh=True) is not None
        except Unreachable:
            return True


def _later(text: str) -> Refused:
    failure = Failure(INTERNAL_ERROR, text, raw({"hub": "replicas", "executed": "no", "retryable": True}))
    return Refused(503, failure, headers=RETRY_AFTER)


def _failed(request: HttpRequest) -> bytes | None:
    """The error for a request that the other hub may have acted on; None: repeating it here does no harm."""
    id: RequestId | None = None
    try:
        message = decode(request.body) if request.method == "POST" else None
    except RemoteProtocolError:
        if not is_batch(request.body):
            return None
    else:
        if not isinstance(message, Request) or message.method != TOOLS_CALL:
            return None
        id = message.id
    error = HubLost("The hub that worked on this call has ended; whether it was carried out is unknown")
    reply = failure_from(error, TOOLS_CALL)
    if id is None:
        reply = Failure(INTERNAL_ERROR, str(error), raw(error.facts()))
    return encode_response(id, reply)
