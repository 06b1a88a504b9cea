"""Requests go to the hub that owns their session: `OwnerRouter` forwards one there, or takes over from a hub that
ended.

find the owner  --a running hub------------>  forward        --gone-->  find the owner
    |
    +-----------none; or claimed just now-->  this hub answers
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, NamedTuple

import trio

from cache.shared_store import StoreUnreachable
from hub.bridge.sealed_request_state import RequestStates
from hub.bridge.tasks.polled_tasks import TaskHandles
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.endpoint import Endpoint
from hub.downstream.http.refusals import RETRY_AFTER, Refused, no_session, refuse
from hub.downstream.http.request import Inbound, is_modern_notification
from hub.fleet.membership import TRIES, Membership, Registration
from hub.fleet.proxy import FORWARDED, Forwarder, HubGone, Misdirected
from hub.fleet.session_ownership import Elsewhere, Ownership, PublishedFacts, SessionOver, runs_of
from hub.link.hub_errors import HubError, failure_from
from hub.net.look_after_connections import HttpRequest, HttpResponse
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Request, RequestId, decode, encode_response, is_batch, raw
from hub.wire.mcp import INITIALIZE, INTERNAL_ERROR, TOOLS_CALL

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


class Fleet(NamedTuple):
    """Parts of a fleet that a hub is made with: its membership, and the facts that it publishes."""

    membership: Membership
    facts: PublishedFacts

    def gate(
        self, endpoint: Endpoint, durable: DurableSessions, states: RequestStates, handles: TaskHandles
    ) -> "OwnerRouter":
        """The gate of the hub with these parts."""
        return OwnerRouter(endpoint, self, durable, partial(runs_of, states=states, handles=handles))


class OwnerRouter:
    """The endpoint of one hub of a fleet: `handle` has each request answered by the hub that it belongs to.

    `runs_of` gives the runs that alone can answer a modern request. `run` must be running."""

    def __init__(
        self, endpoint: Endpoint, fleet: Fleet, durable: DurableSessions, runs_of: Callable[[Request], tuple[str, ...]]
    ) -> None:
        self.membership = fleet.membership
        self.forwarder = Forwarder()
        self.ownership = Ownership(fleet.membership, fleet.facts, endpoint.sessions, durable)
        self._endpoint = endpoint
        self._durable = durable
        self._runs_of = runs_of
        durable.record_run()

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

    def handle(self, request: HttpRequest, response: HttpResponse) -> Awaitable[None] | None:
        """Answer one HTTP request, or have it answered: as `Endpoint.handle`."""
        return self._endpoint.handle(request, response, self._answer)

    def _answer(self, inbound: Inbound) -> Awaitable[None] | None:
        elsewhere = self._find(inbound)
        return self._endpoint.answer(inbound) if elsewhere is None else self._have_answered(elsewhere, inbound)

    async def _have_answered(self, elsewhere: Elsewhere, inbound: Inbound) -> None:
        if await self._forward(elsewhere, inbound.request, inbound.response):
            return
        if elsewhere.session:
            await self._take_over(elsewhere.session, inbound)
        if (rest := self._endpoint.answer(inbound)) is not None:
            await rest

    def _find(self, inbound: Inbound) -> Elsewhere | None:
        """The place where a request belongs; None: this hub can answer it, or no hub can."""
        headers, post = inbound.request.headers, inbound.post
        if post is not None and post.metadata is not None and isinstance(post.message, Request):
            if FORWARDED in headers:
                return None
            runs = tuple(run for run in self._runs_of(post.message) if run != self.membership.me.run)
            return Elsewhere(runs) if runs else None
        if post is not None and isinstance(post.message, Request) and post.message.method == INITIALIZE:
            return None  # it begins a session, in place of belonging to one
        if post is not None and is_modern_notification(post.message, headers):
            return None
        id = headers.get("mcp-session-id")
        if id is None or id in self._endpoint.sessions:
            return None
        origin = self._durable.read_id(id, inbound.identity, inbound.view)
        if origin is None:
            return None
        return Elsewhere((origin.run,), origin.name, origin.minted, self._durable.is_youthful(origin))

    async def _take_over(self, name: str, inbound: Inbound) -> None:
        """Revive a session that this hub has claimed."""
        kept = await self.ownership.find(name)
        id = inbound.request.headers["mcp-session-id"]
        self._endpoint.sessions.revive(id, inbound.identity, inbound.view, claimed=True, kept=kept)

    # --- forwarding ---------------------------------------------------------------------------------------------------

    async def _forward(self, away: Elsewhere, request: HttpRequest, response: HttpResponse) -> bool:
        """Forward the request; False: this hub must answer, and has claimed the session, if there is one.
        Refused: no hub can answer, now or at all. Cancellation: as `Forwarder.send`."""
        await self.membership.ready()
        broken: list[str] = []
        dead: set[str] = set()
        for _ in range(TRIES):
            peer = await self._find_owner(away, request, dead)
            if peer is None:
                return False
            try:
                status = await self.forwarder.send(peer.url, request, response, partial(self._is_there, peer.run))
            except Misdirected:
                self.membership.forget(peer.run)
            except HubGone as gone:
                log.warning("the hub %s does not answer at %s", peer.name, peer.url)
                self.membership.forget(peer.run)
                if gone.sent and (failed := _fail(request)) is not None:
                    response.reply(200, failed)
                    return True
                if not gone.sent or peer.run in broken:  # one connection that breaks is not the end of a hub
                    dead.add(peer.run)
                broken.append(peer.run)
            else:
                if request.method == "DELETE" and away.session and 200 <= status < 300:
                    self._durable.end_elsewhere(away.session, away.minted)
                return True
        raise _later(BUSY)

    async def _find_owner(self, away: Elsewhere, request: HttpRequest, dead: Collection[str]) -> Registration | None:
        """Find the owner, and check that the request can be sent there; None: this hub, or no hub.
        Refused: the session has ended, or the hub cannot be found or reached from here."""
        try:
            peer = await self.ownership.find_owner(away, dead)
        except SessionOver:
            raise no_session() from None
        except StoreUnreachable:
            if all(map(self._durable.was_mine, away.runs)):
                return None
            raise _later(AWAY) from None
        if peer is not None and FORWARDED in request.headers:
            raise refuse(421, "This belongs to another hub")
        if peer is not None and not peer.url:
            raise _later(NO_ADDRESS)
        return peer

    async def _is_there(self, run: str) -> bool:
        """True if a silent hub is still registered; True while the directory cannot be asked."""
        try:
            return await self.membership.find(run, fresh=True) is not None
        except StoreUnreachable:
            return True


def _later(text: str) -> Refused:
    failure = Failure(INTERNAL_ERROR, text, raw({"hub": "replicas", "executed": "no", "retryable": True}))
    return Refused(503, failure, headers=RETRY_AFTER)


def _fail(request: HttpRequest) -> bytes | None:
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
    return encode_response(id, failure_from(error, TOOLS_CALL if id is not None else ""))
