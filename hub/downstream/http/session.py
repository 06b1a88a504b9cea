"""Legacy sessions over HTTP: made at `initialize`, bound to their identity, ended by DELETE or by silence.

A session id is a name, not a credential: a request must also come from the same identity and to the same endpoint. A
session of an earlier run of the hub is revived (`hub.downstream.http.durable_sessions`) with its handshake, settings,
subscriptions and project; its host is told which lists differ from those that it saw. Streams and running requests are
lost: hosts may send those again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio
from msgspec import Raw, structs

from hub.calls.host_exchange import HostExchange, keep_untold, tell_nobody
from hub.catalog.endpoint_views import View
from hub.downstream.host_conversations import Host, Hosts
from hub.downstream.host_of_one_request import StatelessHost
from hub.downstream.http.durable_sessions import DurableSessions, KeptFacts, Past
from hub.downstream.http.event_stream import LISTEN_RETRY_MS, RETRY_MS, EventStream, StreamArchive
from hub.downstream.request_pipeline import serve
from hub.link.call_interface import Identity
from hub.net.look_after_connections import HttpResponse
from hub.routing.router import Router
from hub.wire.jsonrpc import Reply, Request, Result, encode_notification, raw
from hub.wire.mcp import L4, LIST_CHANGED, SUBSCRIBE, UPDATED

MAX_LISTENERS: Final = 8
"""GET streams of one session; the oldest gives way, since it is likely the one whose end was not noticed."""
RESUBSCRIBE_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
"""Pauses between attempts to restore a lost subscription."""
RETURN_S: Final = 15.0
"""Time for a host to be shown its project again; then it is shown what everybody sees."""

_ANSWERS, _NOTICES = "a", "n"
"""Prefixes of stream names: streams that answer a POST, and streams opened by a GET."""


class HttpSession(Host):
    """One legacy session: its streams, and the notifications that wait for a GET stream."""

    transport = "http"

    def __init__(
        self, identity: Identity, view: View, hosts: Hosts, archive: StreamArchive, durable: DurableSessions
    ) -> None:
        super().__init__("", identity, view, hosts)
        self.streams: dict[str, EventStream] = {}
        self._account = hosts.budget.account(identity.principal)
        """Account of the events kept of its streams."""
        self._archive = archive
        self._durable = durable
        self._known = Past("")
        self._life = ""
        """Part of stream names, so that a revived session reuses none from before."""
        self._watched: dict[str, None] = {}
        """URIs that the session subscribes to, or is about to again."""
        self._restoring = trio.CancelScope()
        self._is_restored = True
        """False in a revived session until its host can be told which lists differ: till then it is told of none."""
        self.returning: trio.Event | None = None
        """Set once the host of a revived session is shown the project that it worked in; None: it did in none."""
        self._kept_view = self.view.key
        """The view that it was shown when something was kept last."""
        self._listening: list[EventStream] = []
        self._has_listened = False
        self._untold: dict[str, bytes] = {}
        self._missed: list[str] = []
        """Methods of list-changed notifications that the host has not received."""
        self._opened = 0
        self._closed = False

    @property
    def idle(self) -> bool:
        """True if no request is running and no connection is open."""
        return not self.calls and not any(stream.attached for stream in self.streams.values())

    @property
    def hears(self) -> bool:
        return bool(self._listening)

    def _new_stream(self, prefix: str) -> EventStream:
        self._opened += 1
        name = f"{prefix}{self._life}{self._opened}"
        retry_ms = RETRY_MS if prefix == _ANSWERS else LISTEN_RETRY_MS
        stream = EventStream(name, primed=self.version == L4, retry_ms=retry_ms, account=self._account)
        self.streams[stream.name] = stream
        return stream

    # --- what outlives the hub

    def name(self) -> None:
        """Make the session id, after the handshake."""
        assert self.caller is not None
        self._known = self._durable.mint(
            self.identity, self.endpoint, self.version, self.caller.capabilities, self.client_info
        )
        self.id = self._known.id

    def revive(self, past: Past) -> None:
        """Take over the state of a session of an earlier run; `restore` does the rest, which takes time."""
        self._known, self.id = past, past.id
        handshake, kept = past.handshake, past.kept
        self._life = f"{self._durable.run_id}.{self.conversation}."
        self.version = handshake.version
        self.client_info = raw(handshake.info)
        self.caller = self.caller_of(handshake.version, handshake.capabilities, kept.level)
        self.open = True
        self._watched = dict.fromkeys(kept.uris)
        self._is_restored = False
        if kept.workplace and self.hosts.workplaces is not None:
            self.workplace = Path(kept.workplace)
            self.returning = trio.Event()

    async def restore(self, router: Router) -> None:
        """Show the host its project, subscribe again to all URIs, and tell which lists may have changed meanwhile."""
        with self._restoring:
            if self.returning is not None and self.hosts.workplaces is not None:
                try:
                    with trio.move_on_after(RETURN_S):
                        await self.hosts.workplaces.arrived(self, is_back=True)
                finally:
                    self.returning.set()
                    self.returning = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell_differences, router)
                await router.settled.wait()
                for uri in self._watched:
                    nursery.start_soon(self._subscribe_again, uri, router)

    async def returned(self) -> None:
        """Wait until the host of a revived session is shown the project that it worked in, or cannot be."""
        if self.returning is not None:
            await self.returning.wait()

    async def _tell_differences(self, router: Router) -> None:
        await router.settled.wait()
        await self.wait_shown(router)
        self._is_restored = True
        shown = router.digests(self.view)
        for method, kinds in LIST_CHANGED.items():
            differs = any(self._known.lists.get(kind.value) != shown[kind.value] for kind in kinds)
            if differs or method in self._known.kept.missed:
                self.tell(method, encode_notification(method, {}))
        self._keep()

    async def _subscribe_again(self, uri: str, router: Router) -> None:
        assert self.caller is not None
        params = {"uri": raw(uri)}
        for pause_s in RESUBSCRIBE_S:
            exchange = HostExchange(self.caller, tell_nobody, view=self.view, host=self)
            host = StatelessHost(self.hosts.requests, self.identity.principal, self.view, counts=False)
            reply = await serve(host, router, Request(0, SUBSCRIBE, params), exchange)
            if isinstance(reply, Result):
                self.tell(f"updated {uri}", encode_notification(UPDATED, params))
                return
            await trio.sleep(pause_s)
            if uri not in self._watched:
                return
        self.watches(uri, on=False)

    def watches(self, uri: str, *, on: bool) -> None:
        if on:
            self._watched[uri] = None
        else:
            self._watched.pop(uri, None)
        self._keep()

    def change_level(self, router: Router, params: Mapping[str, Raw]) -> Reply:
        reply = super().change_level(router, params)
        self._keep()
        return reply

    def move(self, workplace: Path | None) -> None:
        super().move(workplace)
        if self._is_in_project:
            self._keep()

    def lists_told(self) -> None:
        self.hosts.list_changes.set()
        if self._kept_view != self.view.key:
            self._keep()

    @property
    def _is_in_project(self) -> bool:
        return self.view.base != self.endpoint.base

    def _keep(self) -> None:
        if self._closed:
            return
        kept = structs.replace(self._known.kept, level=self.log_level, uris=list(self._watched))
        if self._is_restored:  # else it has not been told of any difference yet
            self._kept_view = self.view.key
            workplace = str(self.workplace) if self._is_in_project and self.workplace is not None else ""
            minted, run = self._known.handshake.minted, self._durable.run_id
            kept = KeptFacts(minted, run, kept.level, kept.uris, self._missed, self._kept_view, workplace)
        self._durable.keep(self._known, kept)

    # --- streams that answer a POST

    def answer_stream(self, response: HttpResponse) -> EventStream:
        """A new stream over the response to a request. `retire` it when it is finished."""
        stream = self._new_stream(_ANSWERS)
        stream.attach(response, on_left=self._touch)
        return stream

    def retire(self, stream: EventStream) -> None:
        """Archive a detached stream, for a host that may have missed events."""
        if not self._closed:
            self._archive.put(stream, self.streams, trio.current_time())

    # --- streams opened by a GET

    def resume(self, event_id: str) -> tuple[EventStream, int] | None:
        """Find the stream of an event id, and the number of the event; None: the stream is not kept any more.

        A GET stream that is forgotten carries on as a new one: it has no end that could be missed."""
        name, _, digits = event_id.rpartition("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 18):
            return None
        stream = self.streams.get(name)
        if stream is None and name.startswith(_NOTICES):
            return self.notice_stream(), 0
        return None if stream is None else (stream, int(digits))

    def notice_stream(self) -> EventStream:
        """A new stream for notifications that belong to no request."""
        return self._new_stream(_NOTICES)

    async def serve_stream(self, stream: EventStream, after: int | None, response: HttpResponse) -> None:
        """Attach `stream` to a GET, until the stream is over or the host has left.

        Cancellation: detaches the stream."""
        left = trio.Event()

        def leave() -> None:
            self._touch()  # at once: the session is idle from now on
            left.set()

        self._archive.remove(stream)
        stream.attach(response, after=after, on_left=leave)
        if stream.name.startswith(_NOTICES) and not left.is_set():
            self._listen(stream)
        try:
            await left.wait()
        finally:
            if not left.is_set():
                stream.detach()
            self._put_away(stream)

    def _listen(self, stream: EventStream) -> None:
        if stream in self._listening:
            self._listening.remove(stream)
        self._listening.append(stream)
        if len(self._listening) > MAX_LISTENERS:
            self._listening[0].detach()
        self.tell_untold()
        if not self._has_listened:
            self._has_listened = True
            self.at_work()

    def _put_away(self, stream: EventStream) -> None:
        if stream.attached:  # another connection carries it by now
            return
        if stream in self._listening:
            self._listening.remove(stream)
        if stream.done or stream.name.startswith(_NOTICES):
            self.retire(stream)

    def _touch(self) -> None:
        self.seen = trio.current_time()

    # --- what belongs to no request

    def tell(self, subject: str, message: bytes) -> None:
        if not self._is_restored and subject in LIST_CHANGED:
            return
        for stream in reversed(self._listening):
            if stream.attached and not stream.congested:
                stream.send(message)
                return
        keep_untold(self._untold, subject, message)
        self._note_missed()

    def tell_untold(self) -> None:
        """Send undelivered notifications again."""
        messages, self._untold = self._untold, {}
        for subject, message in messages.items():
            self.tell(subject, message)
        self._note_missed()

    def _note_missed(self) -> None:
        """Keep undelivered list changes for the next run of the hub."""
        missed = [method for method in LIST_CHANGED if method in self._untold]
        if missed != self._missed:
            self._missed = missed
            self._keep()

    def stop_listening(self) -> None:
        """End the connections of GET streams."""
        for stream in list(self._listening):
            stream.detach()

    @property
    def durable_name(self) -> str:
        """The name under which its settings are kept; "": it cannot be revived."""
        return self._known.handshake.name

    @property
    def is_revived(self) -> bool:
        """True if it began in another run of a hub."""
        return bool(self._life)

    def close(self, *, moved: bool = False) -> None:
        """End the session: cancel its requests, end its streams, keep nothing. `moved`: it goes on in another run."""
        self._closed = True
        (self._durable.give_up if moved else self._durable.end)(self._known)
        self._restoring.cancel()
        self.cancel_all()
        for stream in list(self.streams.values()):
            stream.finish()
            self._archive.remove(stream)
        self._account.close()
