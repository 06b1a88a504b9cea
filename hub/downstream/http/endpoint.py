"""Streamable HTTP, both eras on one path, decided message by message.

    POST    a request, notification, response or batch: `answer` sorts it
    GET     legacy sessions only: a stream of notifications, or the rest of a broken stream
    DELETE  legacy sessions only: the end

`/mcp` is everything, or the profile of the host; `/mcp/~<profile>` that profile; `/mcp/<upstream>` one upstream with
its own names. Any other path is a 404, and for a token of one profile all but the first and that profile's.

A modern host that closes the connection cancels its request. A legacy host does not: the answer waits in the session.
"""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final

import trio

from hub.calls.host_exchange import HostExchange
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.downstream.access.access import Access
from hub.downstream.access.refusals import FORBIDDEN
from hub.downstream.host_conversations import Hosts
from hub.downstream.host_of_one_request import StatelessHost
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.refusals import NEITHER, RETRY_AFTER, Refused, no_session, not_allowed, nothing_here, refuse
from hub.downstream.http.reply import Accepted, BatchAnswer, LegacyAnswer, ModernAnswer, read_accept
from hub.downstream.http.request import Inbound, Posts, admit, check_arguments, is_modern_notification
from hub.downstream.http.session import HttpSession
from hub.downstream.http.sessions import HttpSessions
from hub.downstream.http.slow_answers import SlowAnswers
from hub.downstream.request_pipeline import answer, read_batch, refusal_of, run_batch, wants_answer
from hub.downstream.taskless_request import TasklessRequest
from hub.link.call_interface import Caller, Identity
from hub.link.fault_isolation import keep_going
from hub.link.hub_errors import Overloaded
from hub.link.sync_primitives import loop_turns
from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import HttpRequest, HttpResponse
from hub.routing.router import Router
from hub.wire.capabilities import program_name
from hub.wire.errors_for_hosts import ScopesNeeded
from hub.wire.jsonrpc import Message, Notification, RemoteProtocolError, Reply, Request, is_batch, response_pieces
from hub.wire.mcp import INITIALIZE, INVALID_PARAMS, LEGACY_VERSIONS, LISTEN, MODERN_VERSIONS, PING, VERSION_KEY
from hub.wire.modern_metadata import Metadata, progress_token

LARGE_BYTES: Final = 1 << 20
"""Size of a body beyond which other tasks have their turn before it is decoded."""
SESSION_HEADER: Final = "Mcp-Session-Id"


Answer = Callable[[Inbound], Awaitable[None] | None]


class Endpoint:
    """MCP over HTTP. `handle` answers one request, `guard` checks its head before that; `run` must be running."""

    def __init__(self, access: Access, router: Router, hosts: Hosts, durable: DurableSessions) -> None:
        self.guard = access.guard
        self.sessions = HttpSessions(router, hosts, durable)
        self._durable = durable
        self.hosts = hosts
        self._access = access
        self._router = router
        self._posts = Posts()
        self.slow = SlowAnswers()
        self._now = trio.lowlevel.current_clock().current_time
        self._turns = loop_turns()

    def admit_by(self, access: Access) -> None:
        """Check requests by `access` from now on."""
        self.guard = access.guard
        self._access = access

    def drain(self) -> None:
        """End the streams of GETs, which would never end by themselves; running requests go on."""
        self.sessions.stop_listening()

    async def run(self) -> None:
        """Upkeep until cancelled: open the streams of slow answers, look after sessions, keep what outlives the hub.

        Cancellation: what is unsaved is saved; blocks briefly."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.sessions.run)
                nursery.start_soon(keep_going, "Saving sessions", self._durable.run)
                await keep_going("Opening streams of slow answers", self.slow.run)
        finally:
            self.sessions.note_lists()
            self._durable.save()

    # --- one request --------------------------------------------------------------------------------------------------

    def handle(
        self, request: HttpRequest, response: HttpResponse, answer: Answer | None = None
    ) -> Awaitable[None] | None:
        """Answer one HTTP request, or begin to; what has to be waited for then is returned. `answer` answers what was
        read, in place of the method of this name.

        Cancellation: cancels what it asked for."""
        identity, answer = request.identity, answer or self.answer
        if identity is None or len(request.body) > LARGE_BYTES:
            return _unless_refused(self._handle(request, response, answer), response)
        try:
            inbound = self._read(request, response, identity)
            rest = None if inbound is None else answer(inbound)
        except Refused as refused:
            refused.reply(response)
            return None
        return None if rest is None else _unless_refused(rest, response)

    async def _handle(self, request: HttpRequest, response: HttpResponse, answer: Answer) -> None:
        identity = request.identity or self._access.check(request)  # no guard has seen it, if there is none
        if not isinstance(identity, Identity | EarlyReply):
            identity = await identity() or request.identity or FORBIDDEN
        if len(request.body) > LARGE_BYTES:
            await trio.lowlevel.cancel_shielded_checkpoint()  # to put it together took long enough for one step
        inbound = self._read(request, response, identity)
        if inbound is not None and (rest := answer(inbound)) is not None:
            await rest

    def _read(self, request: HttpRequest, response: HttpResponse, identity: Identity | EarlyReply) -> Inbound | None:
        """Read a request; None: it has been answered with a refusal. Raises Refused: it is malformed."""
        if isinstance(identity, EarlyReply):
            response.reply(identity.status, identity.body, identity.headers)
            return None
        path = request.path
        session = request.headers.get("mcp-session-id", "")
        sender = session if session in self.sessions else identity
        self._turns.note(sender)
        response.take_turns_as(sender)
        view = EVERYTHING if path == "/mcp" else None
        if path.startswith("/mcp/"):
            view = self._router.live.find_view(path.removeprefix("/mcp/"))
        if view is None or not opens(identity, view):  # in the same words, or a token tells which profiles there are
            response.reply(404, nothing_here(identity.profile, is_own=request.path == f"/mcp/~{identity.profile}"))
            return None
        if identity.host not in self.hosts.known_labels:
            self.hosts.host_comes(view, identity.host, identity.profile or view.profile)
        if request.method != "POST":
            if request.method not in ("GET", "DELETE"):
                raise not_allowed()
            return Inbound(request, response, identity, view)
        try:
            return Inbound(request, response, identity, view, self._posts.read(request.headers, request.body))
        except RemoteProtocolError as error:
            if is_batch(request.body):
                return Inbound(request, response, identity, view)
            raise Refused(400, error.failure, id=error.id) from None

    def _view_of(self, inbound: Inbound) -> View:
        """The view that the host of a request of no session is shown now: that of its profile, if it has one."""
        view, identity = inbound.view, inbound.identity
        hosts = self.hosts
        if not (hosts.profiles.in_use or view.profile or identity.profile or hosts.judge.book):
            return view
        return hosts.view_of(view, identity, identity.profile or view.profile, inbound.request.rights)

    def answer(self, inbound: Inbound) -> Awaitable[None] | None:
        """Answer a request that was read, or begin to; what has to be waited for then is returned. It may raise, too.

        Raises:
            Refused: it cannot be answered.
        Cancellation: cancels what it asked for.
        """
        request, response, post = inbound.request, inbound.response, inbound.post
        request.headers.pop("authorization", None)  # it has told who asks, and nobody else is to see it
        if post is None:
            if request.method == "POST":
                return self._batch(inbound)
            return self._get(inbound) if request.method == "GET" else self._delete(inbound)
        message = post.message
        if isinstance(message, Request):
            if post.metadata is not None:
                shown = self._view_of(inbound)
                check_arguments(message, request.headers, self._router, shown)
                return self._modern(inbound, shown, message, post.metadata, post.accept)
            if message.method == INITIALIZE:  # one of neither era gets told what it lacks
                self._initialize(inbound, message)
                return None
        elif is_modern_notification(message, request.headers):
            response.reply(202)  # of a cancellation, too: an id means nothing outside its POST
            return None
        session = self._session(inbound, message)
        session.seen = self._now()
        if isinstance(message, Request):
            if session.returning is not None:
                return self._legacy_later(message, session, inbound, post.accept)
            return self._legacy(message, session, inbound, post.accept)
        if isinstance(message, Notification):
            session.notified(self._router, message)
        else:
            session.asking.answered(message)
        response.reply(202)
        return None

    # --- modern -------------------------------------------------------------------------------------------------------

    def _modern(
        self, inbound: Inbound, shown: View, request: Request, metadata: Metadata, accept: Accepted
    ) -> Awaitable[None] | None:
        name = program_name(metadata.client_info)
        identity, rights = inbound.identity, inbound.request.rights
        declared = metadata.version, metadata.capabilities, metadata.log_level
        caller = Caller(identity, *declared, program_name=name, rights=rights)
        if request.method == LISTEN and not accept.events:
            text = "A subscription is answered with events; Accept must allow text/event-stream"
            raise refuse(406, text, id=request.id)
        host = StatelessHost(self.hosts.requests, inbound.identity.principal, shown)
        response = inbound.response
        reply_to = ModernAnswer(response, accept, self.slow)
        token, profile = progress_token(request.params), inbound.view.profile
        via = inbound.request.headers, inbound.request.ends
        exchange = HostExchange(caller, reply_to.send, token, host.view, None, profile, *via)
        finish = None if response.gone else reply_to.finish_later
        taken = admit(host, self._router, request, exchange, finish)
        if isinstance(taken, TasklessRequest):
            self.slow.add(reply_to, trio.current_time())
            response.answer_later(taken.cancel, cancel_if_gone=True)
        elif isinstance(taken, trio.CancelScope):
            return self._answer_modern(inbound, host, request, exchange, taken, reply_to)
        elif not self._challenge(inbound, taken):
            reply_to.finish(request.id, taken)
        return None

    def _challenge(self, inbound: Inbound, reply: Reply | None) -> bool:
        """Answer with 403 where the token lacks scopes for what was asked for, unless the answer has begun; True: it is
        answered."""
        if not isinstance(reply, ScopesNeeded) or inbound.response.started:
            return False
        refusal = self._access.refuse_scopes(reply.scopes, inbound.request.path)
        if refusal is not None:
            inbound.response.reply(refusal.status, refusal.body, refusal.headers)
        return refusal is not None

    async def _answer_modern(
        self,
        inbound: Inbound,
        host: StatelessHost,
        request: Request,
        exchange: HostExchange,
        scope: trio.CancelScope,
        reply_to: ModernAnswer,
    ) -> None:
        listens = request.method == LISTEN
        lease = inbound.request.lease if listens else None
        self.slow.add(reply_to, None if listens else trio.current_time())
        inbound.response.when_gone(scope.cancel)
        try:
            with nullcontext() if lease is None else lease.keeps(scope):
                reply = await answer(host, self._router, request, exchange, scope)
        finally:
            inbound.response.when_gone(None)
            self.slow.soon.pop(reply_to, None)
        if not self._challenge(inbound, reply):
            reply_to.finish(request.id, reply)

    # --- legacy -------------------------------------------------------------------------------------------------------

    def _initialize(self, inbound: Inbound, request: Request) -> None:
        session = self.sessions.mint(inbound.identity, inbound.view)
        if session is None:
            failure = refusal_of(Overloaded("There are too many sessions; end one with DELETE, or try again later"))
            raise Refused(503, failure, id=request.id, headers=RETRY_AFTER)
        session.entitle(inbound.request.rights)
        try:
            result = session.initialize(self._router, request.params)
        except RemoteProtocolError as error:
            raise Refused(400, error.failure, id=request.id) from None
        self.sessions.add(session)
        inbound.response.reply(200, response_pieces(request.id, result), ((SESSION_HEADER, session.id),))

    def _session(self, inbound: Inbound, message: Message | None = None) -> HttpSession:
        """Find the legacy session of a request. Raises Refused: 400, 404 or 405."""
        request = inbound.request
        id = message.id if isinstance(message, Request) else None
        version = request.headers.get("mcp-protocol-version")
        session_id = request.headers.get("mcp-session-id")
        if session_id is None:
            if request.method != "POST":
                raise not_allowed()
            if version in MODERN_VERSIONS:
                text = f"A request of {version} says so in params._meta, as {VERSION_KEY}"
                raise refuse(400, text, id=id, code=INVALID_PARAMS)
            raise refuse(400, NEITHER, id=id)
        session = self.sessions.find(session_id, inbound.identity, inbound.view)
        if session is None:
            raise no_session()
        if request.rights is not session.rights:
            session.entitle(request.rights)
        if version is not None and version not in LEGACY_VERSIONS:
            raise refuse(400, f"MCP-Protocol-Version is that of the session, {session.version}", id=id)
        return session

    async def _returned(self, session: HttpSession) -> None:
        """Wait until a revived session shows what it did. Raises Refused: 404, it was ended meanwhile."""
        await session.returned()
        if session.id not in self.sessions:
            raise no_session()

    async def _legacy_later(self, request: Request, session: HttpSession, inbound: Inbound, accept: Accepted) -> None:
        await self._returned(session)
        if (rest := self._legacy(request, session, inbound, accept)) is not None:
            await rest

    def _legacy(
        self, request: Request, session: HttpSession, inbound: Inbound, accept: Accepted
    ) -> Awaitable[None] | None:
        caller, response = session.caller, inbound.response
        assert caller is not None, "a session begins with its handshake"
        if request.method != PING:
            session.open = True
        reply_to = LegacyAnswer(session, response, accept, self.slow)
        token = progress_token(request.params) if "_meta" in request.params else None
        via = inbound.request.headers, inbound.request.ends
        exchange = HostExchange(caller, reply_to.send, token, session.view, reply_to, "", *via)
        finish = None if response.gone else reply_to.finish_later
        taken = admit(session, self._router, request, exchange, finish)
        if isinstance(taken, TasklessRequest):
            self.slow.add(reply_to, session.seen)
            response.answer_later(taken.cancel)
        elif isinstance(taken, trio.CancelScope):
            return self._answer_legacy(request, exchange, taken, reply_to, inbound)
        elif not self._challenge(inbound, taken):
            reply_to.finish(response_pieces(request.id, taken))
        return None

    async def _answer_legacy(
        self,
        request: Request,
        exchange: HostExchange,
        scope: trio.CancelScope,
        reply_to: LegacyAnswer,
        inbound: Inbound,
    ) -> None:
        session = reply_to.session
        self.slow.add(reply_to, session.seen)
        try:
            reply = await answer(session, self._router, request, exchange, scope)
        finally:
            self.slow.soon.pop(reply_to, None)
        if not self._challenge(inbound, reply):
            reply_to.finish(None if reply is None else response_pieces(request.id, reply))

    async def _batch(self, inbound: Inbound) -> None:
        request, response = inbound.request, inbound.response
        if "mcp-session-id" not in request.headers:
            raise refuse(400, "An array is not a message here; send each message by itself")
        session = self._session(inbound)
        try:
            messages = await read_batch(request.body, session.version, session.pace)
        except RemoteProtocolError as error:
            raise Refused(400, error.failure) from None
        if session.returning is not None:
            await self._returned(session)
        session.seen = trio.current_time()
        reply_to = BatchAnswer(session, response, read_accept(request.headers.get("accept")), self.slow)
        self.slow.add(reply_to, session.seen)
        try:
            await run_batch(session, self._router, messages, notify=reply_to.send, asked=reply_to, reply=reply_to.add)
        finally:
            self.slow.soon.pop(reply_to, None)
        if wants_answer(messages):
            reply_to.end()
        else:
            response.reply(202)

    async def _get(self, inbound: Inbound) -> None:
        request, response = inbound.request, inbound.response
        session = self._session(inbound)
        if not read_accept(request.headers.get("accept")).events:
            raise refuse(406, "Accept must allow text/event-stream")
        session.seen = trio.current_time()
        event_id = request.headers.get("last-event-id")
        stream, after = (session.notice_stream(), None) if not event_id else session.resume(event_id) or (None, None)
        if stream is None:
            raise refuse(400, "The stream of this Last-Event-ID is not kept any more; send the request again")
        if request.lease is None:
            await session.serve_stream(stream, after, response)
            return
        with trio.CancelScope() as scope, request.lease.keeps(scope):
            await session.serve_stream(stream, after, response)

    async def _delete(self, inbound: Inbound) -> None:
        session = self._session(inbound)
        self.sessions.close(session)
        await self._durable.saved()  # or it would be back, if the hub is killed now
        inbound.response.reply(200)


async def _unless_refused(rest: Awaitable[None], response: HttpResponse) -> None:
    try:
        await rest
    except Refused as refused:
        refused.reply(response)


def opens(identity: Identity, view: View) -> bool:
    """True if the credential of `identity` opens the endpoint of `view`: one of a single profile opens nothing else."""
    return not identity.profile or view == EVERYTHING or view.profile == identity.profile
