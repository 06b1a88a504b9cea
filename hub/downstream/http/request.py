"""HTTP requests of hosts as they come in: the checks that refuse them, and the reading of POSTed messages.

What a POST says is a function of a few header fields and the body. Many hosts read the same resource in the same words,
and to decode these takes as long as to find the resource in the cache; so a read that was decoded before is recognised.
"""

import re
from collections.abc import Mapping
from typing import Final

import trio
from msgspec import Struct

from hub.calls.host_exchange import HostExchange
from hub.catalog.endpoint_views import View
from hub.downstream.host_of_one_request import StatelessHost
from hub.downstream.http.refusals import RETRY_AFTER, Refused, refuse
from hub.downstream.http.reply import Accepted, is_json, read_accept
from hub.downstream.http.session import HttpSession
from hub.downstream.request_pipeline import refusal_of, take_on
from hub.downstream.taskless_request import Finish, TasklessRequest
from hub.link.call_interface import Identity
from hub.link.hub_errors import Overloaded
from hub.net.look_after_connections import HttpRequest, HttpResponse
from hub.routing.router import Router
from hub.wire import jsonrpc, mcp
from hub.wire.http.mirror_headers import InvalidHeader, check_mirrors
from hub.wire.jsonrpc import EMPTY, Message, Notification, RemoteProtocolError, Reply, Request
from hub.wire.modern_metadata import Metadata, RequestRefusal, check_headers, read_metadata


def check_arguments(request: Request, headers: dict[str, str], router: Router, view: View) -> None:
    """Check that headers that repeat arguments of a tool match the arguments. Raises Refused: they differ."""
    if request.method != mcp.TOOLS_CALL:
        return
    wanted = router.mirrors(jsonrpc.peek_str(request.params.get("name")) or "", view)
    try:
        if wanted:
            check_mirrors(wanted, headers, request.params.get("arguments", EMPTY))
    except InvalidHeader as error:
        text = f"{error}; repeat the arguments as the tool's schema says"
        raise refuse(400, text, id=request.id, code=mcp.HEADER_MISMATCH) from None


def is_modern_notification(message: Message, headers: dict[str, str]) -> bool:
    """True if this is a notification of the modern era, which has no session to belong to."""
    if not isinstance(message, Notification):
        return False
    if mcp.VERSION_KEY in jsonrpc.peek_object(message.params.get("_meta")):
        return True
    return "mcp-session-id" not in headers and headers.get("mcp-protocol-version") in mcp.MODERN_VERSIONS


def admit(
    host: HttpSession | StatelessHost, router: Router, request: Request, exchange: HostExchange, finish: Finish | None
) -> Reply | TasklessRequest | trio.CancelScope:
    """`take_on` for a request that came by HTTP. Raises Refused: its id is in use (400), or too many are running
    (429)."""
    try:
        return take_on(host, router, request, exchange, finish)
    except RemoteProtocolError as error:
        raise Refused(400, error.failure, id=request.id) from None
    except Overloaded as error:
        raise Refused(429, refusal_of(error), id=request.id, headers=RETRY_AFTER) from None


FIELDS: Final = ("content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name")
"""Header fields that the reading depends on."""
_ID: Final = rb'"id":(0|[1-9][0-9]{0,14})'
_READ: Final = re.compile(
    rb'\{"jsonrpc":"2\.0",%b,"method":"resources/read",.*|\{"method":"resources/read",.*,"jsonrpc":"2\.0",%b\}'
    % (_ID, _ID),
    re.DOTALL,
)
"""A `resources/read` as SDKs write it, with its id where it can be nothing else."""


class Inbound(Struct, frozen=True):
    """One HTTP request of a host that was let in."""

    request: HttpRequest
    response: HttpResponse
    identity: Identity
    view: View
    """The part of the catalogue that its path names."""
    post: "Post | None" = None
    """The POSTed message; None: a batch, or no POST."""


class Post(Struct, frozen=True):
    """One POSTed message."""

    message: Message
    accept: Accepted
    metadata: Metadata | None
    """Metadata of a modern request; None: it is not one."""


class Posts:
    """Reads POSTs by `read_post`, and caches small `resources/read` requests apart from their ids.

    The cache key is the body without the digits of the id."""

    LIMIT: Final = 1024
    LARGEST: Final = 1 << 10

    def __init__(self) -> None:
        self._known: dict[tuple[str | bytes | None, ...], Post] = {}

    def read(self, headers: Mapping[str, str], body: bytes) -> Post:
        """Read a POST; a read that was decoded before is answered from the cache. Raises as `read_post`."""
        found = _READ.fullmatch(body) if len(body) <= self.LARGEST else None
        if found is None:
            return read_post(headers, body)
        start, end = found.span(found.lastindex or 0)
        key = (body[:start], body[end:], *map(headers.get, FIELDS))
        known = self._known.get(key)
        if known is None:
            known = read_post(headers, body)
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            self._known[key] = known
        like = known.message
        assert isinstance(like, Request), "it has a method and an id"
        return Post(Request(int(body[start:end]), like.method, like.params.copy()), known.accept, known.metadata)


def read_post(headers: Mapping[str, str], body: bytes) -> Post:
    """Decode a POST, and read the metadata of a modern request. Raises Refused: 406, 415; or 400, a modern request that
    contradicts itself or its head; RemoteProtocolError: the body is not one message."""
    if not is_json(headers.get("content-type")):
        raise refuse(415, "The Content-Type of a message is application/json")
    accept = read_accept(headers.get("accept"))
    if not (accept.json or accept.events):
        raise refuse(406, "Accept must allow application/json and text/event-stream")
    message = jsonrpc.decode(body)
    if not isinstance(message, Request) or "_meta" not in message.params:
        return Post(message, accept, None)
    return Post(message, accept, _metadata_of(message, headers))


def _metadata_of(request: Request, headers: Mapping[str, str]) -> Metadata | None:
    """Read the metadata of a request that has `_meta`; None: it is not of the modern era."""
    if request.method == mcp.INITIALIZE and "protocolVersion" in request.params:
        return None
    try:
        metadata = read_metadata(request.params, headers)
        if metadata is not None:
            check_headers(headers, request.method, request.params, metadata.version)
    except RequestRefusal as refusal:
        raise Refused(refusal.status, refusal.failure, id=request.id) from None
    return metadata
