"""HTTP requests of hosts as they come in, and the reading of POSTed messages.

What a POST says is a function of a few header fields and the body. Many hosts read the same resource in the same words,
and to decode these takes as long as to find the resource in the cache; so a read that was decoded before is recognised.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from hub.catalog.view import View
from hub.downstream.http.refusal import RequestRefused, refuse
from hub.downstream.http.reply import Accepted, is_json, read_accept
from hub.link.interface import Identity
from hub.net.http_server import HttpRequest, HttpResponse
from hub.wire.jsonrpc import Message, Request, decode
from hub.wire.mcp import INITIALIZE
from hub.wire.request_meta import Metadata, RequestRefusal, check_headers, read_metadata

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

    The cache key is the body without the digits of the id.
    """

    LIMIT: Final = 1024
    LARGEST: Final = 1 << 10

    def __init__(self) -> None:
        self._known: dict[tuple[str | bytes | None, ...], Post] = {}

    def __repr__(self) -> str:
        return f"<Posts: {len(self._known)} known>"

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
    """Decode a POST, and read the metadata of a modern request.

    Raises:
        Refused: 406, 415; or 400, a modern request that contradicts itself or its head.
        RemoteProtocolError: the body is not one message.
    """
    if not is_json(headers.get("content-type")):
        raise refuse(415, "The Content-Type of a message is application/json")
    accept = read_accept(headers.get("accept"))
    if not (accept.json or accept.events):
        raise refuse(406, "Accept must allow application/json and text/event-stream")
    message = decode(body)
    return Post(message, accept, _metadata_of(message, headers) if isinstance(message, Request) else None)


def _metadata_of(request: Request, headers: Mapping[str, str]) -> Metadata | None:
    """Read the metadata of a request; None: it is not of the modern era."""
    if "_meta" not in request.params or (request.method == INITIALIZE and "protocolVersion" in request.params):
        return None
    try:
        metadata = read_metadata(request.params, headers)
        if metadata is not None:
            check_headers(headers, request.method, request.params, metadata.version)
    except RequestRefusal as refusal:
        raise RequestRefused(refusal.status, refusal.failure, id=request.id) from None
    return metadata
