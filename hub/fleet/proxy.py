"""Reverse proxy between hubs: sends a host's HTTP request to another hub's own HTTP, and the answer back.

Events of a stream are passed on as they come, no faster than the host reads. A host that leaves ends the request at the
other hub; a hub that ends in the middle of a stream ends the host's connection. Forwarded requests are marked
(`FORWARDED`) and never forwarded again.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.net.http_request import HttpRequest
from hub.net.response_writer import STOPPING, HttpResponse
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.client import HttpClient, HttpReply

log = logging.getLogger("hubd.replicas")

FORWARDED: Final = "hubd-forwarded"
"""Header of a forwarded request: no hub forwards it once more."""
CONNECT_S: Final = 1.0
LOOK_S: Final = 5.0
"""Seconds between checks whether a silent hub is still registered."""
SILENCE_S: Final = 45.0
"""Longest silence of a stream: hubs write a comment every 15 s."""
CONGESTED_PROXY_BYTES: Final = 256 << 10
"""Bytes that a host may leave unread before the proxy stops reading for it."""
MAX_ANSWER_BYTES: Final = 256 << 20
MAX_HUBS: Final = 64
MISDIRECTED: Final = 421

_OF_THE_HOP: Final = frozenset(
    {"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect"}
    | {"proxy-connection", "proxy-authorization", "accept-encoding", "user-agent"}
    | {"origin", FORWARDED}
)
"""Header fields that are not forwarded. Origin was checked here, and the other hub's addresses are others."""
_OWN: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "trailer", "upgrade", "content-length", "content-type", "date"}
    | {"cache-control", "x-accel-buffering", "server"}
)
"""Header fields of answers that this hub writes itself."""


class HubGone(Exception):
    """The other hub cannot be reached, or ended before its answer began; the host was sent nothing yet.

    `sent`: the other hub may have acted on the request."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the other hub is gone")
        self.sent = sent


class Misdirected(Exception):
    """The other hub answered that the request belongs to a third hub."""


class Forwarder:
    """Forwards requests. `close` it at the end."""

    def __init__(self) -> None:
        self._clients: dict[str, HttpClient] = {}
        self.forwarded = 0
        """Requests answered by other hubs."""

    async def send(
        self, url: str, request: HttpRequest, response: HttpResponse, is_there: Callable[[], Awaitable[bool]]
    ) -> int:
        """Have the hub at `url` answer `request`; returns the status of the answer, 0 if the host left before there was
        one. `is_there` is asked while that hub is silent: whether it still runs.

        Raises:
            HubGone: the other hub did not begin to answer.
            Misdirected: the request belongs to a third hub.
        Cancellation: ends the request at the other hub, too; so does the host's leaving.
        """
        client = self._client(url)
        status = 0
        with trio.CancelScope() as scope:
            response.when_gone(scope.cancel)
            try:
                with await _ask(client, request, is_there) as reply:
                    if reply.status == MISDIRECTED:
                        raise Misdirected
                    if STOPPING in reply.headers:  # not 503: that is also what a proxy says that lost a hub at work
                        raise HubGone(sent=False)
                    self.forwarded += 1
                    status = reply.status
                    await _pass_on(reply, response)
            finally:
                response.when_gone(None)
        if not response.started:  # the host has left: nobody reads this
            response.open_stream()
            response.close_stream()
        return status

    def sweep(self) -> None:
        """Close connections that were idle for too long."""
        for client in self._clients.values():
            client.sweep()

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _client(self, url: str) -> HttpClient:
        client = self._clients.get(url)
        if client is None:
            try:
                client = HttpClient("the other hub", parse_url(url), connect_s=CONNECT_S)
            except ValueError:
                raise HubGone(sent=False) from None
            if len(self._clients) >= MAX_HUBS:
                self._clients.pop(next(iter(self._clients))).close(abort=False)
            self._clients[url] = client
        return client


async def _ask(client: HttpClient, request: HttpRequest, is_there: Callable[[], Awaitable[bool]]) -> HttpReply:
    """The answer, when its head has come. HubGone: there will be none."""
    found: list[HttpReply] = []
    sent = True
    body = request.body if request.method == "POST" else None

    async def watch(scope: trio.CancelScope) -> None:
        there = True
        while there:
            await trio.sleep(LOOK_S)
            there = await is_there()
        scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, nursery.cancel_scope)
            try:
                found.append(await client.request(request.method, _fields(request), body, target=request.path))
            except HubError as error:
                sent = not isinstance(error, UpstreamUnavailable)
            nursery.cancel_scope.cancel()
    except BaseException:
        for reply in found:
            reply.discard()
        raise
    if not found:
        raise HubGone(sent=sent)
    return found[0]


def _fields(request: HttpRequest) -> bytes:
    """The forwarded header fields, as lines."""
    named = {name.strip() for name in request.headers.get("connection", "").lower().split(",")}
    lines = [
        f"{name}: {value}\r\n"
        for name, value in request.headers.items()
        if name not in _OF_THE_HOP and name not in named
    ]
    return "".join((*lines, f"{FORWARDED}: 1\r\n")).encode("latin-1")


async def _pass_on(reply: HttpReply, response: HttpResponse) -> None:
    """Answer the host with `reply`. HubGone: it broke off before the host was sent anything."""
    headers = [(name, value) for name, value in reply.headers.items() if name not in _OWN]
    if reply.content_type != "text/event-stream" or reply.status != 200:
        try:
            body = await reply.read(MAX_ANSWER_BYTES)
        except HubError:
            raise HubGone(sent=True) from None
        response.reply(reply.status, body, headers, content_type=reply.headers.get("content-type", "application/json"))
        return
    response.open_stream(headers, relayed=True)
    try:
        while data := await _receive(reply):
            response.write(data, vital=True)
            if response.queued_bytes > CONGESTED_PROXY_BYTES:
                await response.drained()
    except (HubError, trio.TooSlowError):
        log.info("the hub that answered a host's request has ended in the middle of it")
        response.cut()
    else:
        response.close_stream()


async def _receive(reply: HttpReply) -> bytes:
    with trio.fail_after(SILENCE_S):
        return await reply.receive()
