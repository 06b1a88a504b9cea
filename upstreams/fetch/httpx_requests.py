"""One request by httpx, over a connection that is made for it: all that is used of httpx and httpcore.

httpx makes the fields of the request, httpcore frames it and the answer. They open no connection, follow nothing, read
no cookies and no environment, and log nothing (lines of httpx hold URLs, those of httpcore hold headers). httpx does
not see the answer: it would take apart `Location` and `Set-Cookie`, which nobody here wants.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpcore
import httpx

from hub.wire.mcp import HUB_NAME, HUBD_VERSION
from upstreams.fetch.connection import Wire
from upstreams.fetch.guard import FetchTarget
from upstreams.fetch.terms_and_answers import Fetched, FetchFailed

_OWN: Final = {"user-agent": f"{HUB_NAME}/{HUBD_VERSION}", "accept-encoding": "identity", "connection": "close"}

MAX_FIELDS: Final = 100
MAX_PIECES: Final = 4096
"""Chunks of one body. Tiny ones take a thousand times the time of what is in them."""

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


async def ask(
    target: FetchTarget, headers: Mapping[str, str], body: bytes | None, wire: Wire, tls: ssl.SSLContext, most: int
) -> Fetched:
    """The answer to GET, or to a POST of `body`, over `wire`, with at most `most` bytes. Raises FetchFailed: there is
    none that is one, or it is too large."""
    method = "GET" if body is None else "POST"
    origin = httpcore.URL(target.origin)
    url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=target.port, target=target.target.encode("ascii"))
    try:
        own = httpx.Request(method, f"{target.origin}/", headers={"accept": "*/*", **headers, **_OWN}, content=body)
        if target.secure:
            await wire.start_tls(tls, target.host)
        connection = httpcore.AsyncHTTP11Connection(url.origin, _Stream(wire))
        asked = httpcore.Request(method, url, headers=own.headers.raw, content=body)
        answer = await connection.handle_async_request(asked)
        try:
            known = _headers(target, answer, wire, most)
            return Fetched(answer.status, known, await _body(answer.aiter_stream(), wire, most))
        finally:
            await answer.aclose()
    except (httpx.InvalidURL, httpcore.ProtocolError, ValueError):  # the last: of header fields that cannot be sent
        what = "does not answer in proper HTTP" if wire.answered else "closes the connection without an answer"
        raise FetchFailed(f"{target.origin} {what}", sent=wire.sent) from None


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._wire.receive()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            await self._wire.send(buffer)

    async def aclose(self) -> None:
        self._wire.close()


def _headers(target: FetchTarget, answer: httpcore.Response, wire: Wire, most: int) -> Mapping[str, str]:
    """The header fields of an answer that may be read on."""
    if answer.status < 200:
        raise FetchFailed(f"{target.origin} does not answer in proper HTTP", sent=True)
    if len(answer.headers) > MAX_FIELDS:
        raise wire.too_large()
    headers = dict(httpx.Headers(answer.headers, encoding="latin-1").items())
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise FetchFailed(f"{target.origin} compresses its answer, though only plain answers are accepted", sent=True)
    length = headers.get("content-length", "0")
    if length.isdigit() and (len(length) > 10 or int(length) > most):
        raise wire.too_large()
    return headers


async def _body(pieces: AsyncIterator[bytes], wire: Wire, most: int) -> bytes:
    """The whole body. One that is too large is not left in the middle, or generators of the libraries would be lost."""
    wire.limit(2 * most)  # chunks have frames
    body = bytearray()
    pieces_left = max(MAX_PIECES, most >> 9)
    async for piece in pieces:
        body += piece
        pieces_left -= 1
        if len(body) > most or pieces_left < 0:
            wire.limit(-1)
    if len(body) > most:
        raise wire.too_large()
    return bytes(body)
