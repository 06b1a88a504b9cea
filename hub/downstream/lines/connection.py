"""Hosts on a newline-framed connection: the shim's unix socket, or standard input and output.

Both eras share such a connection, message by message. A request is quick, or a task of the connection's nursery; all
are cancelled when the host is gone. Reading waits for no request, so a cancellation always arrives; reading slows down
only for a host that floods the hub, or that sends requests while it reads no answers.
"""

import logging
import select
from typing import Final

import trio
from trio.lowlevel import checkpoint

from hub.calls.host_exchange import HostExchange, keep_untold
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.downstream.host_conversations import Host, Hosts
from hub.downstream.lines.preamble import NOBODY, VERSION, Preamble
from hub.downstream.request_pipeline import answer, read_batch, refusal_of, run_batch, take_on, wants_answer
from hub.downstream.taskless_request import TasklessRequest
from hub.link.call_interface import Caller, Identity
from hub.link.channel import ChannelClosed, LineDropped, LineTooLong, OutboxFull, descriptor
from hub.link.hub_errors import Executed, Overloaded
from hub.link.line_channel import LineChannel, LineReader
from hub.link.memory_budget import FREE_BYTES, NO_ROOM, Account
from hub.link.outbox import Outbox
from hub.link.sync_primitives import SHARED_TURN, loop_turns
from hub.routing.router import Router
from hub.wire import jsonrpc, mcp
from hub.wire.jsonrpc import Failure, Notification, RemoteProtocolError, Reply, Request, RequestId, Response, Result
from hub.wire.modern_metadata import progress_token, read_metadata
from hub.wire.salvage_ids import id_at_edges

log = logging.getLogger("hubd.host")

MAX_MESSAGE_BYTES: Final = 16 << 20
"""The same limit as over HTTP."""
EOF_GRACE_S: Final = 5.0
"""Time for running requests after the host has ended its input."""
FLUSH_S: Final = 2.0
MAX_UNREAD_BYTES: Final = 256 << 20
"""Unread bytes beyond which the connection is closed; until then answers are never dropped."""
MUCH_UNREAD_BYTES: Final = 16 << 20
"""Unread bytes beyond which no more is read from the host."""
CONGESTED_LINES_BYTES: Final = 1 << 20
"""Unread bytes beyond which progress and logs are dropped and list changes merge."""

PLACED_S: Final = 15.0
"""Time for a host to say where it works, before it counts what it is shown without."""
TURN: Final = 32
"""Messages of one host that are handled before other hosts have their turn."""


def _is_read(stream: trio.abc.SendStream) -> bool:
    """True if the other end of `stream` is still open; a half-closed socket is."""
    fd = descriptor(stream)
    if fd is None:
        return True
    if fd < 0:  # it was closed on this side
        return False
    poll = select.poll()
    poll.register(fd, 0)
    return not poll.poll(0)


class LineHost(Host):
    """The host of one line connection; `serve` it until it is gone."""

    _numbers = iter(range(1, 1 << 62))

    def __init__(
        self,
        stream: trio.abc.Stream,
        identity: Identity,
        router: Router,
        hosts: Hosts,
        said: Preamble = NOBODY,
        *,
        view: View = EVERYTHING,
        transport: str = "unix",
        received: bytes = b"",
    ) -> None:
        """The stream stays the caller's; `said` and `received` were read off it already."""
        id, is_bound = f"{transport}-{next(self._numbers)}", bool(said.project)
        super().__init__(id, identity, view, hosts, said.workplace, is_bound=is_bound)
        self.transport = transport
        self._router = router
        self._received = received
        self._reading: trio.abc.ReceiveStream = stream
        self._writing: trio.abc.SendStream = stream
        if isinstance(stream, trio.StapledStream):
            self._reading, self._writing = stream.receive_stream, stream.send_stream
        self._nursery: trio.Nursery
        self._account: Account
        """Account of the memory held for the host."""
        self._outbox: Outbox
        self._channel: LineChannel
        self._untold: dict[str, bytes] = {}
        self._owes_digests, self._says_digests = said.lists, False
        self.parted = trio.Event() if said.bye else None
        """Set once the host, told goodbye, sends no more requests; None: the host does not understand goodbyes."""

    async def serve(self) -> None:
        """Serve the host until it is gone; called once.

        A host that ends its input but still reads, as `printf ... | hubd serve --stdio` does, gets the answers it is
        waiting for, within `EOF_GRACE_S`.

        Cancellation: cancels the host's requests; upstreams are told."""
        async with trio.open_nursery() as self._nursery:
            cancel = self._nursery.cancel_scope.cancel
            account = self._account = self.hosts.budget.account(self.identity.principal, give_up=cancel)
            self._outbox = Outbox(
                self._writing, self._nursery, cancel, limit_bytes=MAX_UNREAD_BYTES, joins=True, account=account
            )
            reader = LineReader(self._reading, limit_bytes=MAX_MESSAGE_BYTES, received=self._received, account=account)
            self._channel = LineChannel(reader, self._outbox)
            self.hosts.add(self)
            try:
                workplaces = self.hosts.workplaces
                if workplaces is not None and self.workplace is not None and self.endpoint.base == EVERYTHING:
                    await workplaces.arrived(self)
                if await self._read():
                    await self._finish()
                with trio.move_on_after(FLUSH_S):
                    await self._outbox.flush()
            finally:
                self.end_conversation(self._router)
                self._outbox.close()
                self.cancel_all()
                account.close()
                if self.parted is not None:
                    self.parted.set()
            cancel()

    @property
    def _is_congested(self) -> bool:
        return self._outbox.queued_bytes >= CONGESTED_LINES_BYTES

    # --- to the host

    def tell(self, subject: str, message: bytes) -> None:
        if not self._is_congested:
            self._write(message)
            return
        if not self._untold:
            self._nursery.start_soon(self._tell_later)
        keep_untold(self._untold, subject, message)

    async def _tell_later(self) -> None:
        await self._channel.flush()
        messages, self._untold = self._untold, {}
        for message in messages.values():
            self._write(message)

    def send(self, message: bytes, *, vital: bool = False) -> bool:
        """Send a message of a request; one that is not `vital` is dropped while the host is congested."""
        if is_sent := vital or not self._is_congested:
            self._write(message)
        return is_sent

    def _write(self, message: bytes) -> None:
        try:
            self._channel.send(message)
        except ChannelClosed:
            pass
        except OutboxFull:
            log.warning("%r does not read its answers: closing its connection", self)
            self._outbox.close()
            self._nursery.cancel_scope.cancel()

    def _reply(self, id: RequestId | None, reply: Reply | None) -> None:
        """Answer a request; None: it gets no answer."""
        if reply is None:
            return
        try:
            self._channel.send(jsonrpc.response_pieces(id, reply))
        except ChannelClosed:
            pass
        except OutboxFull:
            text = "The request was carried out, but the hub holds too much to keep its answer; read what it has sent"
            error = Overloaded(text, executed=Executed.YES, retry_after_ms=1000)
            self._write(jsonrpc.encode_response(id, refusal_of(error)))

    def goodbye(self) -> None:
        """Ask the host to send no more requests, if it understands."""
        if self.parted is not None:
            self._write(mcp.GOODBYE)

    async def _begin_digests(self) -> None:
        if self.hosts.workplaces is not None:
            with trio.move_on_after(PLACED_S):
                await self.hosts.workplaces.placed(self)
        await self.wait_shown(self._router)
        self._says_digests = True
        self.lists_told()

    def lists_told(self) -> None:
        if self._says_digests:
            shown = self._router.digests(self.view)
            kinds = {flag: mcp.LIST_CHANGED[method] for flag, method in mcp.LIST_FLAGS.items()}
            told = {flag: "".join(shown[kind.value] for kind in its) for flag, its in kinds.items()}
            self._untold.pop("digests", None)  # they follow what they are about
            self.tell("digests", _digests_line(told))

    async def flush(self) -> None:
        """Wait until the host has got everything, or has gone."""
        await self._channel.flush()

    # --- from the host

    async def _read(self) -> bool:
        """Take messages until there are no more; False: the framing is lost, so nothing is worth waiting for."""
        if self._owes_digests:  # they come once the host has begun, its place is known, and lists are shown
            self._write(_digests_line({}))
        taken, now, turns = 0, trio.lowlevel.current_clock().current_time, loop_turns()
        while True:
            try:
                line = await self._channel.receive()
            except ChannelClosed:
                return True
            except LineDropped as lost:
                self._reply(id_at_edges(*lost.edges), refusal_of(Overloaded(NO_ROOM, retry_after_ms=1000)))
                continue
            except LineTooLong:
                self._reply(None, Failure(mcp.INVALID_REQUEST, "The message is too long; the connection is closed"))
                return False
            self.seen = now()
            turns.note(self.id)
            begun = self._handle(line)
            if self._owes_digests and (self.open or self.caller is None):
                self._owes_digests = False
                self._nursery.start_soon(self._begin_digests)
            if begun:
                taken += 1
                if taken % (SHARED_TURN if turns.is_shared else TURN) == 0:
                    await checkpoint()  # other hosts have their turn
                    if self._channel.queued_bytes > MUCH_UNREAD_BYTES:
                        await self._channel.flush()
                continue
            if begun is None:
                await self._start_batch(line)
            # It began nothing. All that is asked of a host by such messages is that there are not too many, and that it
            # reads first if it has much to read.
            if self._channel.queued_bytes > CONGESTED_LINES_BYTES:
                await self._channel.flush()
            await self.pace.keep(len(line))

    async def _finish(self) -> None:
        """Wait for the running requests while the host waits for them, at most `EOF_GRACE_S`. It answers no more."""
        self.asking.host_left()
        with trio.move_on_after(EOF_GRACE_S):
            while self.calls and _is_read(self._writing):
                self.calls_over = trio.Event()
                with trio.move_on_after(0.05):
                    await self.calls_over.wait()

    def _handle(self, line: bytes) -> bool | None:
        """True if it is a request for something: of those a host may have as many as it gets answered. None: it is an
        array, and nothing of it was taken."""
        try:
            message = jsonrpc.decode(line)
        except RemoteProtocolError as error:
            if jsonrpc.is_batch(line):
                return None
            elif self.parted is not None and line == mcp.UNDERSTOOD:
                self.parted.set()
            else:
                self._reply(error.id, error.failure)
                for found in jsonrpc.recover_ids(line, error):
                    if found.is_answer and found.id is not None:  # the question whose answer it was to be has failed
                        self.asking.answered(Response(found.id, error.failure))
            return False
        if isinstance(message, Request):
            try:
                return self._start_request(message, len(line))
            except RemoteProtocolError as error:
                self._reply(message.id, error.failure)
        elif isinstance(message, Notification):
            self.notified(self._router, message)
        else:
            self.asking.answered(message)
        return False

    def _start_request(self, request: Request, size: int = 0) -> bool:
        """Start a request, or answer it at once. False: it cost no more than a look. Raises RemoteProtocolError."""
        if request.method == mcp.INITIALIZE:
            self._reply(request.id, self.initialize(self._router, request.params))
            return False
        has_meta = "_meta" in request.params
        caller = self._caller(request) if has_meta else self.caller
        if caller is None:
            if request.method != mcp.PING:
                raise RemoteProtocolError(mcp.INVALID_PARAMS, _NEITHER)
            self._reply(request.id, Result(jsonrpc.EMPTY))
            return False
        if caller is self.caller:
            self.open = True
        held = size if size > FREE_BYTES else 0
        if held and not self._account.take(held, trio.current_time()):
            self._reply(request.id, refusal_of(Overloaded(NO_ROOM, retry_after_ms=1000)))
            return False
        token = progress_token(request.params) if has_meta else None
        host = self if caller is self.caller else None  # a modern request is never asked by another
        exchange = HostExchange(caller, self.send, progress_token=token, view=self.view, host=host)
        finish = None if held else self._reply
        is_refused = False
        is_congested = self._outbox.queued_bytes >= CONGESTED_LINES_BYTES
        try:
            taken = take_on(self, self._router, request, exchange, finish, congested=is_congested)
        except (RemoteProtocolError, Overloaded) as error:
            taken, is_refused = refusal_of(error), True
        if isinstance(taken, TasklessRequest):
            return True
        if isinstance(taken, trio.CancelScope):
            self._nursery.start_soon(self._serve, request, exchange, taken, held)
            return True
        if held:
            self._account.give(held)
        self._reply(request.id, taken)
        return not is_refused and request.method != mcp.SET_LEVEL  # which takes no more than a look

    def _caller(self, request: Request) -> Caller | None:
        """The caller of a request with metadata, by its era; None: the request is of neither era."""
        metadata = read_metadata(request.params)
        if metadata is None:
            return self.caller
        if not self.version:
            self.version = metadata.version
        if metadata.client_info is not None and self.client_info is jsonrpc.EMPTY:
            self.client_info = jsonrpc.detach(metadata.client_info)
        return self.caller_of(metadata.version, metadata.capabilities, metadata.log_level)

    async def _serve(self, request: Request, exchange: HostExchange, scope: trio.CancelScope, held: int) -> None:
        try:
            reply = await answer(self, self._router, request, exchange, scope)
        finally:
            if held:
                self._account.give(held)
        self._reply(request.id, reply)
        if request.method == mcp.LISTEN and isinstance(reply, Result):
            self._write(jsonrpc.encode_notification(mcp.CANCELLED, {"requestId": jsonrpc.raw(request.id)}))

    async def _start_batch(self, line: bytes) -> None:
        try:
            messages = await read_batch(line, self.caller.version if self.caller else "", self.pace)
        except RemoteProtocolError as error:
            self._reply(None, error.failure)
            return
        self._nursery.start_soon(self._serve_batch, messages)

    async def _serve_batch(self, messages: list[jsonrpc.Message | RemoteProtocolError]) -> None:
        replies: list[bytes] = []
        await run_batch(self, self._router, messages, notify=self.send, asked=self, reply=replies.append)
        if replies and wants_answer(messages):
            self._write(b"[%b]" % b",".join(replies))


def _digests_line(digests: dict[str, str]) -> bytes:
    return jsonrpc.encode({"hubd": VERSION, "lists": digests})


_ERAS: Final = " or ".join(mcp.MODERN_VERSIONS)
_NEITHER: Final = f"Send initialize first, or put {_ERAS} into params._meta, as {mcp.VERSION_KEY}"
