"""One request by httpx, over a connection that is made for it: all that is used of httpx and httpcore.

httpx makes the fields of the request, httpcore frames it and the answer. They open no connection, follow nothing, read
no cookies and no environment, and log nothing (lines of httpx hold URLs, those of httpcore hold headers). httpx does
not see the answer: it would take apart `Location` and `Set-Cookie`, which nobody here wants.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import httpcore
import httpx

from hub.wire.mcp import HUB_NAME, HUBD_VERSION
from upstreams.fetch.guard import FetchTarget
from upstreams.fetch.model import Fetched, FetchFailed
from upstreams.fetch.network import Wire

_OWN: Final = {"accept-encoding": "identity", "connection": "close", "user-agent": f"{HUB_NAME}/{HUBD_VERSION}"}

Fields = list[tuple[bytes, bytes]]
Reader = Callable[[int, Fields, AsyncIterator[bytes]], Awaitable[Fetched]]

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


async def ask(
    method: str,
    target: FetchTarget,
    headers: Mapping[str, str],
    body: bytes | None,
    wire: Wire,
    tls: ssl.SSLContext,
    read: Reader,
) -> Fetched:
    """The value that `read` makes of status, header fields and body (as it came) of the answer to one request over
    `wire`. `read` has to read to the end, or not at all. Raises FetchFailed: there is no answer that is one; or as
    `wire` and `read`."""
    origin = httpcore.URL(target.origin)
    url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=target.port, target=target.target.encode("ascii"))
    try:
        own = httpx.Request(method, f"{target.origin}/", headers={"accept": "*/*", **_OWN, **headers}, content=body)
        if target.secure:
            await wire.start_tls(tls, target.host)
        connection = httpcore.AsyncHTTP11Connection(url.origin, _Stream(wire))
        answer = await connection.handle_async_request(
            httpcore.Request(method, url, headers=own.headers.raw, content=body)
        )
        try:
            return await read(answer.status, answer.headers, answer.aiter_stream())
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
