"""Has a request answered by the hub that it belongs to: sends it there, or takes over what is left of a hub that ended.

where is it?  --a hub that is there---------->  forward        --gone-->  where is it?
    |
    +---------nobody; or claimed, just now--->  it is this hub's to answer
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import trio

from cache.shared_store import Unreachable
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.elsewhere import FORWARDED, Elsewhere
from hub.downstream.http.refusal import RETRY_AFTER, Refused, no_session, refused
from hub.downstream.http.session import HttpSessions
from hub.fleet.membership import TRIES, Peer, Replicas
from hub.fleet.ownership import Over, Ownership
from hub.fleet.proxy import Forwarder, Gone, Misdirected
from hub.link.interface import HubError, Identity, failure_from
from hub.net.http_server import HttpRequest, HttpResponse
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Request, RequestId, decode, encode_response, is_batch, raw
from hub.wire.mcp import INTERNAL_ERROR, TOOLS_CALL

log = logging.getLogger("hubd.replicas")

SWEEP_S: Final = 10.0
AWAY: Final = (
    "This belongs to another hub, and it cannot be found out which, since what the hubs have in common (`cache.url`) "
    "does not answer. Try again in a moment, or begin anew"
)
NO_ADDRESS: Final = "This belongs to another hub, which others cannot reach: its configuration lacks `[replica] url`"
BUSY: Final = "The hub that this belongs to cannot be reached. Try again in a moment, or begin anew"


class HubLost(HubError):
    """Another hub of the fleet died while it worked on a request."""

    kind = "hub_lost"


class Switch:
    """What becomes of requests that belong elsewhere. `runs_of` says which runs a modern request belongs to, if any."""

    def __init__(
        self, replicas: Replicas, revival: DurableSessions, runs_of: Callable[[Request], tuple[str, ...]]
    ) -> None:
        self.replicas = replicas
        self.whereabouts = Ownership(replicas)
        self.forwarder = Forwarder()
        self._revival = revival
        self._runs_of = runs_of

    async def run(self) -> None:
        """Be found by other hubs, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.whereabouts.run)
                while True:
                    await trio.sleep(SWEEP_S)
                    self.forwarder.sweep()
        finally:
            self.forwarder.close()

    def serve(self, sessions: HttpSessions) -> None:
        """Have other hubs know of these sessions, before there are any."""
        self.whereabouts.holdings = sessions.holdings
        self.whereabouts.on_taken = sessions.taken
        self.whereabouts.on_emptied = self._revival.tell_again
        self._revival.tell = self.whereabouts.notes.put
        self._revival.sign()

    async def kept(self, session: str) -> bytes | None:
        """As `Ownership.kept`."""
        return await self.whereabouts.kept(session)

    def __repr__(self) -> str:
        return f"<Switch {self.replicas!r}, {self.forwarder!r}>"

    # --- noticing it --------------------------------------------------------------------------------------------------

    def check(self, message: Request, request: HttpRequest) -> None:
        """Whether this hub can answer a modern request, as far as that can be seen.

        Raises:
            Elsewhere: it belongs to another run.
        """
        if FORWARDED not in request.headers:
            runs = tuple(run for run in self._runs_of(message) if run != self.replicas.me.run)
            if runs:
                raise Elsewhere(runs)

    def away(self, id: str, identity: Identity, scope: str | None) -> None:
        """A session of this id is not here. Returns if there is none anywhere.

        Raises:
            Elsewhere: another run made it.
        """
        origin = self._revival.origin(id, identity, scope)
        if origin is not None:
            raise Elsewhere((origin.run,), session=origin.name, minted=origin.minted, youthful=origin.youthful)

    # --- acting on it -------------------------------------------------------------------------------------------------

    async def settle(self, away: Elsewhere, request: HttpRequest, response: HttpResponse) -> bool:
        """Have it answered; False: it is this hub's to answer, which has claimed the session, if it belongs to one.

        Raises:
            Refused: nobody can, now or at all.
        Cancellation: as `Forwarder.send`.
        """
        await self.replicas.ready()
        broken: list[str] = []
        dead: set[str] = set()
        for _ in range(TRIES):
            peer = await self._keeper(away, request, dead)
            if peer is None:
                return False
            try:
                status = await self.forwarder.send(peer.url, request, response, partial(self._is_there, peer.run))
            except Misdirected:
                self.replicas.doubt(peer.run)
            except Gone as gone:
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

    async def _keeper(self, away: Elsewhere, request: HttpRequest, dead: Collection[str]) -> Peer | None:
        """As `Ownership.keeper`, of one that the request can be sent to.

        Raises:
            Refused: it is over; or that hub cannot be found, or reached from here.
        """
        try:
            peer = await self.whereabouts.keeper(away, dead)
        except Over:
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
        """Whether a hub that is silent still is, as far as anybody knows."""
        try:
            return await self.replicas.find(run, fresh=True) is not None
        except Unreachable:
            return True


def _later(text: str) -> Refused:
    failure = Failure(INTERNAL_ERROR, text, raw({"hub": "replicas", "executed": "no", "retryable": True}))
    return Refused(503, failure, headers=RETRY_AFTER)


def _failed(request: HttpRequest) -> bytes | None:
    """What is said of a request that the other hub may have acted on; None: it does no harm to carry it out here."""
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
